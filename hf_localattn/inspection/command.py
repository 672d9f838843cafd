"""`hf-localattn inspect`: the attention of a checkpoint as a picture, an HTML page or numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.assignments import parse_tokenizer_settings
from hf_localattn.errors import loading
from hf_localattn.files import atomic_write
from hf_localattn.inspection.draw import FORMATS, draw_gates, draw_maps, draw_token_weights, picture
from hf_localattn.inspection.html import render_page
from hf_localattn.inspection.maps import AUTO, SELF, attention_map, usual_kind
from hf_localattn.inspection.reading import Text
from hf_localattn.inspection.weights import gate_values, gates_of, token_weights, weighs_tokens
from hf_localattn.names import resolve_backbone
from hf_localattn.pretrained import load_tokenizer
from hf_localattn.registry import AUTO_CLASSES, FAMILIES, family_of, task_of_class

GATES, TOKENS = "gates", "tokens"
MOST_MAPS = 6
"""Largest number of maps in a picture."""

SUFFIXES = (*(f".{form}" for form in FORMATS), ".html", ".json")
Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


def run(
    checkpoint: str,
    output: Path,
    texts: Sequence[Text] = (),
    *,
    pair: str | None = None,
    compare: str | None = None,
    file: str | None = None,
    max_samples: int | None = None,
    text_column_names: str | None = None,
    kind: str = AUTO,
    layers: Sequence[int] | None = None,
    special_tokens: bool = False,
    trust_remote_code: bool = False,
    settings: Sequence[str] = (),
) -> None:
    """Run `hf-localattn inspect`. Its help describes the arguments.

    Raises:
        ValueError: The arguments contradict each other, or the model has no attention of this kind.
        OSError: A model or a file cannot be loaded.
        ImportError: The output is a picture, and matplotlib is not installed.
    """
    if bool(texts) == bool(file):
        raise ValueError("Give either TEXT or --file.")
    if compare == checkpoint:
        raise ValueError(f"--compare {compare} is the same checkpoint: give another one.")
    if pair is not None and len(texts) != 1:
        raise ValueError("--pair needs exactly one TEXT, the first text of the pair.")
    known = {name for family in FAMILIES.values() for name in family.tokenizer_settings}
    for setting in settings:
        if setting.partition("=")[0].strip() not in known:
            raise ValueError(
                f"--config {setting}: no tokenizer has this setting; choose one of {', '.join(sorted(known))}."
            )
    if layers is not None and kind in (GATES, TOKENS):
        raise ValueError(f"--layers cannot be used with --kind {kind}: it selects the layers of an attention map.")
    if output.suffix not in SUFFIXES:
        raise ValueError(f"-o {output}: choose a file that ends in one of {', '.join(SUFFIXES)}.")
    if file:
        texts = texts_of(file, text_column_names)[:max_samples]
    elif pair is not None:
        texts = [(str(texts[0]), pair)]
    checkpoints = [checkpoint] if compare is None else [checkpoint, compare]
    names = labels(checkpoints)
    models = [load(name, settings=settings, trust_remote_code=trust_remote_code) for name in checkpoints]
    kind = kind if kind != AUTO else _common_kind(models, of_file=bool(file))

    found: list[tuple[str, Any]] = []  # names of models with their gates, token weights or maps
    shows: dict[str, Any] = {"special_tokens": special_tokens}
    for name, loaded in zip(names, models, strict=True):
        if kind == GATES:
            found.append((name, gate_values(*loaded, texts)))
        elif kind == TOKENS:
            found += [(name, one) for one in token_weights(*loaded, texts, **shows)]
        else:
            pairs = [(text,) if isinstance(text, str) else text for text in texts]
            found += [(name, attention_map(*loaded, *one, kind=kind, layers=layers, **shows)) for one in pairs]
    if kind != GATES:  # the models beside each other for each text
        found = [one for number in range(len(texts)) for one in found[number :: len(texts)]]
    replaced = output.exists()
    atomic_write(output, _content(kind, names, found, output.suffix))
    print(f"Wrote {output}{', replacing the former file' if replaced else ''}.")


def load(name: str, *, settings: Sequence[str] = (), trust_remote_code: bool = False) -> Loaded:
    """Load a model with its head in float32 and with eager attention, and its tokenizer.

    Args:
        name: Hub id or folder.
        settings (*optional*): `setting=value` strings for the tokenizer. Settings of other tokenizers are ignored.
        trust_remote_code (*optional*, defaults to False): If True, run the code of the checkpoint.

    Raises:
        ValueError: The checkpoint is invalid.
        OSError: The checkpoint cannot be loaded.
    """
    source = resolve_backbone(name)
    trust = {"trust_remote_code": trust_remote_code}
    with loading("model", source):
        config = AutoConfig.from_pretrained(source, **trust)
    family = family_of(config)
    known = () if family is None else family.tokenizer_settings
    own = [setting for setting in settings if setting.partition("=")[0].strip() in known]
    tokenizer = load_tokenizer(source, **parse_tokenizer_settings(config.model_type, own), **trust)
    with loading("model", source):
        task = task_of_class(next(iter(config.architectures or ()), ""))
        auto_class: Any = AutoModel if task is None else AUTO_CLASSES[task]
        model = auto_class.from_pretrained(source, attn_implementation="eager", dtype=torch.float32, **trust)
    return model.eval(), tokenizer


def labels(names: Sequence[str]) -> list[str]:
    """Return short names of checkpoints: the last parts of their paths, or the full paths if the parts are equal."""
    short = [name.rstrip("/").rpartition("/")[2] or name for name in names]
    return short if len(set(short)) == len(short) else list(names)


def texts_of(file: str, text_column_names: str | None) -> list[Text]:
    """Return the texts or pairs of texts in a file: one per line, or in one or two columns of a table."""
    from hf_localattn.data.rows import SUFFIXES as TABLES
    from hf_localattn.data.rows import read_text
    from hf_localattn.data.texts import TextColumns, load_texts  # these need the extra `train`

    path = Path(file)
    if path.suffix not in TABLES:
        return [line.strip() for line in read_text(path).split("\n") if line.strip()]
    names = (name.strip() for name in (text_column_names or "").split(","))
    rows = load_texts(path, TextColumns(tuple(name for name in names if name)), require_labels=False)
    columns = [rows[name][:] for name in ("text", "text_pair") if name in rows.column_names]
    return list(zip(*columns, strict=True)) if len(columns) > 1 else columns[0]


def _common_kind(models: list[Loaded], *, of_file: bool) -> str:
    """Return the default kind that all models share, or self-attention if the defaults differ."""
    kinds = set()
    for model, _ in models:
        if weighs_tokens(model.config):
            kinds.add(TOKENS)
        else:
            kinds.add(GATES if of_file and gates_of(model.config) is not None else usual_kind(model.config))
    return kinds.pop() if len(kinds) == 1 else SELF


def _content(kind: str, names: Sequence[str], found: list[tuple[str, Any]], suffix: str) -> str | bytes:
    """Return the content of a file with one of `SUFFIXES`."""
    what = {GATES: "gates", TOKENS: "texts"}.get(kind, "maps")
    if suffix == ".json":
        every = [(name, {key: _plain(value) for key, value in vars(one).items()}) for name, one in found]
        listed = dict(every) if kind == GATES else [{"model": name, **one} for name, one in every]
        return json.dumps({"models": list(names), what: listed}, ensure_ascii=False, indent=1) + "\n"
    titles, results = zip(*found, strict=True)
    if kind == TOKENS and len(names) == 1:  # above the first text
        titles = (*names, *[""] * (len(found) - 1)) if suffix != ".html" else ("",) * len(found)
    if suffix == ".html":
        if what == "maps":
            titles = tuple(f"{name}\n{one.title}" for name, one in found)
        shown: Any = dict(found) if kind == GATES else list(zip(titles, results, strict=True))
        return render_page("Attention of " + " and ".join(names), **{what: shown})
    if len(found) > MOST_MAPS and what == "maps":
        raise ValueError(f"{len(found)} maps are too many for a picture, which has room for {MOST_MAPS}: write .html.")
    draw: Any = {TOKENS: draw_token_weights}.get(kind, draw_maps)
    figure = draw_gates(dict(found)) if kind == GATES else draw(results, titles)
    return picture(figure, suffix.removeprefix("."))


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
