"""`hf-localattn inspect`: the attention of a checkpoint as a picture, an HTML page or numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.errors import loading
from hf_localattn.families import family_of, task_of_class
from hf_localattn.files import atomic_write
from hf_localattn.inspection.attribution import is_explained_by_influence, token_influence
from hf_localattn.inspection.draw import draw_features, draw_gates, draw_maps, draw_token_weights, picture
from hf_localattn.inspection.html import render_page
from hf_localattn.inspection.maps import AUTO, SELF, attention_map, usual_kind
from hf_localattn.inspection.reading import Text
from hf_localattn.inspection.weights import gate_values, gates_of, token_weights, weighs_tokens
from hf_localattn.installed.configurations import load_config
from hf_localattn.names import resolve_backbone
from hf_localattn.pretrained import load_checkpoint
from hf_localattn.settings.columns import TextColumns, TokenColumns

GATES = "gates"
TOKENS = "tokens"
FEATURES = "features"
INFLUENCE = "influence"
MOST_MAPS = 6
"""Largest number of maps in a picture."""

KINDS_OF_PAGES = {GATES: "Gates", TOKENS: "Token weights", INFLUENCE: "Influence of tokens"}
"""First words of the titles of pages."""

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
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Run `hf-localattn inspect`, which describes and checks the arguments.

    Raises:
        ValueError: The model has no attention of this kind.
        OSError: A model or a file cannot be loaded.
        ImportError: The output is a picture, and matplotlib is not installed.
    """
    path = None if file is None else Path(file)
    checkpoints = [checkpoint] if compare is None else [checkpoint, compare]
    names = labels(checkpoints)
    settings_of = _divide_settings(settings, checkpoints, trust_remote_code=trust_remote_code)
    models = [load(name, settings=settings_of[name], trust_remote_code=trust_remote_code) for name in checkpoints]
    if path is not None:
        texts = texts_of(path, text_column_names, models[0][0].config)[:max_samples]
    elif pair is not None:
        texts = [(str(texts[0]), pair)]
    kind = kind if kind != AUTO else _common_kind(models, of_file=bool(file))

    results: list[tuple[str, Any]] = []  # names of models with their gates, token weights or maps
    shows: dict[str, Any] = {"special_tokens": special_tokens}
    for name, loaded in zip(names, models, strict=True):
        if kind == GATES:
            results.append((name, gate_values(*loaded, texts)))
        elif kind in (TOKENS, FEATURES):
            results += [(name, weights) for weights in token_weights(*loaded, texts, **shows)]
        elif kind == INFLUENCE:
            results += [(name, weights) for weights in token_influence(*loaded, texts, **shows)]
        else:
            for text in texts:
                both = text if isinstance(text, tuple) else (text,)
                results.append((name, attention_map(*loaded, *both, kind=kind, layers=layers, **shows)))
    if kind != GATES:  # the models beside each other for each text
        results = [result for index in range(len(texts)) for result in results[index :: len(texts)]]
    replaced = output.exists()
    atomic_write(output, _content(kind, names, results, output.suffix))
    print(f"Wrote {output}{', replacing the former file' if replaced else ''}.")


def load(name: str, *, settings: Mapping[str, Any] = MappingProxyType({}), trust_remote_code: bool = False) -> Loaded:
    """Load a model with its head in float32 and with eager attention, which returns weights, and its tokenizer."""
    return load_checkpoint(name, settings=settings, trust_remote_code=trust_remote_code, attn_implementation="eager")


def _divide_settings(
    settings: Mapping[str, Any], checkpoints: Sequence[str], *, trust_remote_code: bool
) -> dict[str, dict[str, Any]]:
    """Return the settings for the tokenizer of each checkpoint.

    Raises:
        ValueError: No tokenizer has a setting.
    """
    known_settings: dict[str, Sequence[str]] = {}
    if settings:
        for name in checkpoints:
            with loading("model", name):
                config = load_config(resolve_backbone(name), trust_remote_code=trust_remote_code)
            family = family_of(config)
            known_settings[name] = () if family is None else family.tokenizer_settings
    divided: dict[str, dict[str, Any]] = {name: {} for name in checkpoints}
    for setting, value in settings.items():
        users = [name for name in checkpoints if setting in known_settings[name]]
        if not users:
            every = sorted({key for keys in known_settings.values() for key in keys})
            raise ValueError(
                f"--config {setting}={value}: the tokenizer has the settings {', '.join(every) or 'none'}."
            )
        for name in users:
            divided[name][setting] = value
    return divided


def labels(names: Sequence[str]) -> list[str]:
    """Return short names of checkpoints: the last parts of their paths, or the full paths if the parts are equal."""
    short = [name.rstrip("/").rpartition("/")[2] or name for name in names]
    return short if len(set(short)) == len(short) else list(names)


def texts_of(path: Path, text_column_names: str | None, config: PreTrainedConfig) -> list[Text]:
    """Return the texts in a file: one per line, sentences as lists of words, or one or two columns of a table.

    Files of a model that labels words are read as its training script reads them, except for `.txt`.
    """
    from hf_localattn.data import rows, texts, words  # these need the extra `train`

    if path.suffix == ".txt":
        return [line.strip() for line in rows.read_text(path).split("\n") if line.strip()]
    names = tuple(name.strip() for name in (text_column_names or "").split(",") if name.strip())
    labels_words = task_of_class(next(iter(config.architectures or ()), "")) == "token-classification"
    if path.suffix in words.SUFFIXES and (labels_words or path.suffix not in rows.SUFFIXES):
        if len(names) > 1:
            raise ValueError(f"--text_column_names takes one column of words; got {text_column_names!r}.")
        columns = TokenColumns(text=names[0] if names else None)
        sentences = words.load_sentences(path, columns, require_labels=False)
        return [list(tokens) for tokens in sentences["tokens"]]
    table = texts.load_texts(path, TextColumns(names), require_labels=False)
    if "text_pair" in table.column_names:
        return list(zip(table["text"], table["text_pair"], strict=True))
    return list(table["text"])


def _common_kind(models: list[Loaded], *, of_file: bool) -> str:
    """Return the default kind that all models share, or self-attention if the defaults differ."""
    kinds = set()
    for model, _ in models:
        if weighs_tokens(model.config):
            kinds.add(TOKENS)
        elif is_explained_by_influence(model):
            kinds.add(INFLUENCE)
        elif of_file and gates_of(model.config) is not None:
            kinds.add(GATES)
        else:
            kinds.add(usual_kind(model.config))
    return kinds.pop() if len(kinds) == 1 else SELF


def _content(kind: str, names: Sequence[str], results: list[tuple[str, Any]], suffix: str) -> str | bytes:
    """Return the content of a file with this suffix."""
    if suffix == ".json":
        return _json(kind, names, results)
    is_of_texts = kind in (TOKENS, FEATURES, INFLUENCE)
    titles = [name for name, _ in results]
    if is_of_texts and len(names) == 1:
        titles = [""] * len(results)  # the page, or the first text, names the model
        if suffix != ".html":
            titles[0] = names[0]
    values = [value for _, value in results]
    if suffix == ".html":
        title = f"{KINDS_OF_PAGES.get(kind, 'Attention')} of {' and '.join(names)}"
        if kind == GATES:
            return render_page(title, gates=dict(results))
        headings = [f"{name}\n{value.title}".strip() for name, value in zip(titles, values, strict=True)]
        shown: Any = list(zip(headings, values, strict=True))
        return render_page(title, texts=shown) if is_of_texts else render_page(title, maps=shown)
    if kind == GATES:
        figure = draw_gates(dict(results))
    elif kind == FEATURES:
        figure = draw_features(values, titles)
    elif is_of_texts:
        figure = draw_token_weights(values, titles)
    elif len(results) > MOST_MAPS:
        raise ValueError(
            f"{len(results)} maps are too many for a picture, which has room for {MOST_MAPS}: write .html."
        )
    else:
        figure = draw_maps(values, titles)
    return picture(figure, suffix.removeprefix("."))


def _json(kind: str, names: Sequence[str], results: list[tuple[str, Any]]) -> str:
    contents: Any = []
    for name, result in results:
        fields = {field: _plain(value) for field, value in vars(result).items()}
        contents.append((name, fields) if kind == GATES else {"model": name, **fields})
    key = {GATES: "gates", TOKENS: "texts", FEATURES: "texts", INFLUENCE: "texts"}.get(kind, "maps")
    listed = dict(contents) if kind == GATES else contents
    return json.dumps({"models": list(names), key: listed}, ensure_ascii=False, indent=1) + "\n"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
