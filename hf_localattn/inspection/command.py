"""`hf-localattn inspect`: the attention of a checkpoint as a picture, an HTML page or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.assignments import parse_tokenizer_settings
from hf_localattn.errors import loading
from hf_localattn.files import atomic_write
from hf_localattn.inspection.findings import SUFFIXES, Findings, labels
from hf_localattn.inspection.maps import AUTO, LOCAL, SELF, attention_map, usual_kind
from hf_localattn.inspection.reading import Text
from hf_localattn.inspection.weights import gate_values, gates_of, token_weights, weighs_tokens
from hf_localattn.pretrained import load_tokenizer, resolve_backbone
from hf_localattn.registry import AUTO_CLASSES, FAMILIES, family_of, task_of_class

GATES, TOKENS = "gates", "tokens"
Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


@dataclass(frozen=True)
class Inspection:
    """Arguments of `hf-localattn inspect`.

    Attributes:
        checkpoint: Hub id or folder of a model.
        output: File to write.
        texts: Input texts, unless `file` is given.
        pair: Second text of a pair. `texts` then has only the first text.
        compare: Hub id or folder of a second model.
        file: File with texts.
        max_samples: Largest number of rows read from the file.
        text_column_names: Columns of the file with texts: one name, or two separated by a comma.
        kind: AUTO, SELF, LOCAL, GATES or TOKENS.
        layers: Indices of layers, separated by commas. Defaults to all layers.
        special_tokens: If True, show special tokens such as [CLS].
        trust_remote_code: If True, run the code of the checkpoints.
        settings: `setting=value` strings for the tokenizers.
    """

    checkpoint: str
    output: Path
    texts: tuple[str, ...] = ()
    pair: str | None = None
    compare: str | None = None
    file: str | None = None
    max_samples: int | None = None
    text_column_names: str | None = None
    kind: str = AUTO
    layers: str | None = None
    special_tokens: bool = False
    trust_remote_code: bool = False
    settings: tuple[str, ...] = ()


def run(arguments: Inspection) -> None:
    """Run `hf-localattn inspect`.

    Raises:
        ValueError: The arguments contradict each other, or the model has no attention of this kind.
        OSError: A model or a file cannot be loaded.
        ImportError: The output is a picture, and matplotlib is not installed.
    """
    check(arguments)
    layers = _layers(arguments.layers)
    names = [arguments.checkpoint, *([arguments.compare] if arguments.compare else [])]
    texts = _texts(arguments)
    models = [load(name, settings=arguments.settings, trust_remote_code=arguments.trust_remote_code) for name in names]
    path = arguments.output
    content = _looks(arguments, models, labels(names), texts, layers).render(path.suffix)
    replaced = path.exists()
    atomic_write(path, content)
    print(f"Wrote {path}{', replacing the former file' if replaced else ''}.")


def check(arguments: Inspection) -> None:
    """Raise `ValueError` or `ImportError` for invalid arguments, before anything is loaded."""
    if bool(arguments.texts) == bool(arguments.file):
        raise ValueError("Give either TEXT or --file.")
    if arguments.compare == arguments.checkpoint:
        raise ValueError(f"--compare {arguments.compare} is the same checkpoint: give another one.")
    if arguments.pair is not None and len(arguments.texts) != 1:
        raise ValueError("--pair needs exactly one TEXT, the first text of the pair.")
    known = {name for family in FAMILIES.values() for name in family.tokenizer_settings}
    for setting in arguments.settings:
        if setting.partition("=")[0].strip() not in known:
            raise ValueError(
                f"--config {setting}: no tokenizer has this setting; choose one of {', '.join(sorted(known))}."
            )
    if arguments.layers is not None and arguments.kind not in (AUTO, SELF, LOCAL):
        raise ValueError(
            f"--layers cannot be used with --kind {arguments.kind}: it selects the layers of an attention map."
        )
    suffix = arguments.output.suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"-o {arguments.output}: choose a file that ends in one of {', '.join(SUFFIXES)}.")


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
        architecture = next(iter(config.architectures or ()), "")
        task = task_of_class(architecture)
        auto_class: Any = AutoModel if task is None else AUTO_CLASSES[task]
        model = auto_class.from_pretrained(source, attn_implementation="eager", dtype=torch.float32, **trust)
    return model.eval(), tokenizer


def _layers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"--layers {text}: give numbers with commas between them, such as 0,1,5.") from None


def _texts(arguments: Inspection) -> Sequence[Text]:
    """Return the texts or pairs of texts of the command line or of the file."""
    if not arguments.file:
        return [(arguments.texts[0], arguments.pair)] if arguments.pair is not None else list(arguments.texts)
    from hf_localattn.data.rows import SUFFIXES as TABLES
    from hf_localattn.data.rows import read_text
    from hf_localattn.data.texts import TextColumns, load_texts  # these need the extra `train`

    path = Path(arguments.file)
    if path.suffix in TABLES:
        names = (name.strip() for name in (arguments.text_column_names or "").split(","))
        rows = load_texts(path, TextColumns(tuple(name for name in names if name)), require_labels=False)
        columns = [rows[name][:] for name in ("text", "text_pair") if name in rows.column_names]
        return list(zip(*columns, strict=True) if len(columns) > 1 else columns[0])[: arguments.max_samples]
    return [line.strip() for line in read_text(path).split("\n") if line.strip()][: arguments.max_samples]


def _looks(
    arguments: Inspection,
    models: list[Loaded],
    names: tuple[str, ...],
    texts: Sequence[Text],
    layers: list[int] | None,
) -> Findings:
    """Return maps, gates or token weights of all models."""
    kind = arguments.kind if arguments.kind != AUTO else _common_kind(models, of_file=bool(arguments.file))
    pairs = list(zip(names, models, strict=True))
    shows: dict[str, Any] = {"special_tokens": arguments.special_tokens}
    if kind == GATES:
        return Findings(names, gates={name: gate_values(*loaded, texts) for name, loaded in pairs})
    if kind == TOKENS:
        found = [[(name, one) for one in token_weights(*loaded, texts, **shows)] for name, loaded in pairs]
        return Findings(names, texts=[one for of_text in zip(*found, strict=True) for one in of_text])
    maps = [
        (
            name,
            attention_map(*loaded, *((text,) if isinstance(text, str) else text), kind=kind, layers=layers, **shows),
        )
        for text in texts
        for name, loaded in pairs
    ]
    return Findings(names, maps=maps)


def _common_kind(models: list[Loaded], *, of_file: bool) -> str:
    """Return the default kind that all models share, or self-attention if the defaults differ."""
    kinds = set()
    for model, _ in models:
        if weighs_tokens(model.config):
            kinds.add(TOKENS)
        elif of_file and gates_of(model.config) is not None:
            kinds.add(GATES)
        else:
            kinds.add(usual_kind(model.config))
    return kinds.pop() if len(kinds) == 1 else SELF
