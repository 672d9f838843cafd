"""Model cards: one template, filled from a checkpoint's configuration and the record of the run that made it."""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from jinja2 import Environment, StrictUndefined

from hf_localattn.files import atomic_write
from hf_localattn.hub.checkpoint import read_config
from hf_localattn.hub.record import TrainingRecord
from hf_localattn.hub.verify import Verification, verify_checkpoint
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.parsing import parse_yaml, read_utf8
from hf_localattn.registry import AUTO_CLASSES, FAMILIES, Family, task_of_class

logger = logging.getLogger(__name__)

CARD = "README.md"
BOUNDARY = "<!-- hf-localattn writes what is above. What is below is yours, and stays. -->"
TAG = "hf_localattn"


def render_card(
    config: Mapping[str, Any],
    record: TrainingRecord | None = None,
    *,
    repo_id: str | None = None,
    revision: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    code: Verification | None = None,
) -> str:
    """Return the card of a checkpoint: metadata for the Hub, and text.

    Args:
        config: the content of its `config.json`.
        record: of the run that made it, if there was one.
        repo_id: its name on the Hub; a placeholder when absent.
        revision: the commit to load; the text asks for one when absent.
        metadata: entries that only people can know, such as `license` and `language`. They win.
        code: what comparing its code files with the package's has found; nothing is said of it when absent.
    """
    config, record = _with_texts(_in_line, config, record)
    data = _metadata(_name(config, repo_id), config["model_type"], _architecture(config)[1], record)
    config, record = _with_texts(_escaped, config, record)
    architecture, task = _architecture(config)
    name = _name(config, repo_id)
    family = FAMILIES.get(config["model_type"])
    for key, value in (metadata or {}).items():
        setattr(data, key, value)
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    body = environment.from_string(_template("card.md")).render(
        name=name,
        family=family and family.card_notes(),
        example=family.example if family else Family.example,
        model_type=config["model_type"],
        backbone_type=(config.get("backbone_config") or {}).get("model_type"),
        architecture=architecture,
        task=task,
        auto_class=AUTO_CLASSES[task].__name__ if task else "AutoModel",
        fields=_set_fields(config),
        labels=_labels(config) if task in ("text-classification", "token-classification") else [],
        record=record,
        base_models=[_escaped(str(model)) for model in _listed(data.base_model)],
        repo_id=repo_id,
        revision=revision,
        boundary=BOUNDARY,
        code=code and _harmless(code),
    )
    return f"---\n{data.to_yaml()}\n---\n\n{body}"


def _name(config: Mapping[str, Any], repo_id: str | None) -> str:
    return (repo_id or config.get("model_type", "model")).rpartition("/")[2]


def _with_texts(
    function: Callable[[str], str], config: Mapping[str, Any], record: TrainingRecord | None
) -> tuple[dict[str, Any], TrainingRecord | None]:
    """Apply a function to every text of a configuration and a record, which are of whoever made the checkpoint."""
    if record is not None:
        record = TrainingRecord.from_dict(_mapped(dataclasses.asdict(record), function))
    return _mapped(config, function), record


def _mapped(value: Any, function: Callable[[str], str]) -> Any:
    """Apply a function to every text in a value."""
    if isinstance(value, Mapping):
        return {_mapped(name, function): _mapped(one, function) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(one, function) for one in value]
    return function(value) if isinstance(value, str) else value


def _harmless(code: Verification) -> Verification:
    """Return the verdicts on files whose names stay names in Markdown."""
    files = (dataclasses.replace(file, name=_escaped(_in_line(file.name))) for file in code.files)
    return dataclasses.replace(code, files=tuple(files))


def _in_line(text: str) -> str:
    """A text on one line, without the beginning of a comment, such as `BOUNDARY`."""
    return " ".join(text.split()).replace("<!--", "<! --")


def _escaped(text: str) -> str:
    """A text that stays one in Markdown, wherever in a line it stands."""
    return text.replace("<", "&lt;").replace("`", "'").replace("|", r"\|").replace("](", "] (")


def write_card(
    checkpoint: str | os.PathLike[str],
    *,
    repo_id: str | None = None,
    revision: str | None = None,
    overwrite: bool = False,
    published: str | None = None,
    **metadata: Any,
) -> Path:
    """Write the card of a checkpoint folder, or renew it: what people have added to it stays.

    That is what stands below its last line, and metadata that are not from the checkpoint; and where it is on the Hub.

    Args:
        checkpoint: a folder with a `config.json`.
        repo_id, revision: where it is on the Hub, to tell how to load it; by default as the card has it.
        overwrite: replace a card that was not written here.
        published: its card on the Hub; what people have added there stays too, where the folder's says nothing else.
        **metadata: entries such as `license` and `language`.

    Raises:
        FileNotFoundError: the folder holds no checkpoint.
        ValueError: it has a card that was not written here, or a file that cannot be read.
    """
    folder = Path(checkpoint)
    config, record = _with_texts(_in_line, read_config(folder), TrainingRecord.load(folder))
    path = folder / CARD
    here = read_utf8(path) if path.is_file() else None
    if here is not None and not is_ours(here):
        if not overwrite:
            raise ValueError(
                f"{path} was not written by hf-localattn, and would be lost: move it away, or give --overwrite. To"
                f" keep its text put it below this line: {BOUNDARY}"
            )
        here = None
    own_part = ""
    own_metadata: dict[str, Any] = {}
    for card in filter(None, (published, here)):  # the folder's comes last, and so has the last word
        if is_ours(card) or not has_text(card):
            own_metadata |= _added(_metadata_of(card, path), config, record)
            own_part = _body(card).partition(BOUNDARY)[2].strip("\n") or own_part
    if here is not None and repo_id is None:
        repo_id, revision = _pinned(here) or (None, revision)
    given = {name: value for name, value in metadata.items() if value is not None}
    code = verify_checkpoint(folder) if config["model_type"] in FAMILIES and any(folder.glob("*.py")) else None
    text = render_card(
        config, record, repo_id=repo_id, revision=revision, metadata={**own_metadata, **given}, code=code
    )
    atomic_write(path, text.rstrip("\n") + (f"\n\n{own_part}\n" if own_part else "\n"))
    return path


def renew_card(checkpoint: str | os.PathLike[str], **settings: Any) -> None:
    """As `write_card`, but a card that was not written here stays as it is, with a warning."""
    path = Path(checkpoint, CARD)
    if path.is_file() and not is_ours(read_utf8(path)):
        logger.warning(
            "%s is not from hf-localattn and stays as it is; `hf-localattn card %s --overwrite` replaces it.",
            path,
            checkpoint,
        )
    else:
        write_card(checkpoint, **settings)


def pinned_commit(card: str, repo_id: str) -> str | None:
    """Return the commit of a repository that a card, where it was written here, tells to load."""
    name, commit = _pinned(card) or (None, None)
    return commit if name == repo_id else None


def is_ours(card: str) -> bool:
    """Return True for a card that this module has written."""
    return BOUNDARY in _body(card)


def has_text(card: str) -> bool:
    """Return True for a card with more than metadata; one that the Hub's site has made has no more."""
    return bool(_body(card).strip())


def _body(card: str) -> str:
    """Return a card without its metadata, which may say anything."""
    return re.sub(r"\A\s*---\r?\n.*?\n---[^\n]*", "", card, flags=re.DOTALL)


def _pinned(card: str) -> tuple[str, str] | None:
    match = re.search(r'"([^"\s]+/[^"\s]+)", revision="([0-9a-f]{40})"', _body(card).partition(BOUNDARY)[0])
    return (match[1], match[2]) if match else None


def _metadata_of(card: str, path: Path) -> dict[str, Any]:
    try:
        if (block := re.match(REGEX_YAML_BLOCK, card)) is not None:
            parse_yaml(block[2], "YAML", datetime.date)
        return ModelCard(card, ignore_metadata_errors=True).data.to_dict()
    except (yaml.YAMLError, ValueError, TypeError) as error:  # TypeError: entries of another kind than the Hub knows
        raise ValueError(f"The metadata of {path}, or of its like on the Hub, cannot be read: {error}") from None


def _template(name: str) -> str:
    return files("hf_localattn.hub").joinpath("templates", name).read_text(encoding="utf-8")


def _metadata(name: str, model_type: str, task: str | None, record: TrainingRecord | None) -> ModelCardData:
    results = _results(task, record) if record else []
    return ModelCardData(
        base_model=record.base_model if record else None,
        datasets=[record.dataset] if record and record.dataset else None,
        eval_results=results or None,
        library_name="transformers",
        metrics=sorted({result.metric_type for result in results}) or None,
        model_name=name if results else None,
        pipeline_tag=task,
        tags=_tags(model_type),
    )


def _own_metadata(config: Mapping[str, Any], record: TrainingRecord | None) -> dict[str, Any]:
    """Return the metadata that a checkpoint has by itself."""
    _, task = _architecture(config)
    return _metadata("", config["model_type"], task, record).to_dict()


def _architecture(config: Mapping[str, Any]) -> tuple[str, str | None]:
    """The class of a model, and its task."""
    architecture = next(iter(config.get("architectures") or ()), "")
    return architecture, task_of_class(architecture)


def _tags(model_type: str) -> list[str]:
    return [TAG, model_type] if model_type in FAMILIES else [TAG]


def _results(task: str | None, record: TrainingRecord) -> list[EvalResult]:
    """Scores as the Hub shows them. The loss is none, and neither is what is not a number."""
    return [
        EvalResult(
            task_type=task or record.task,
            dataset_type=record.dataset or "local",
            dataset_name=record.dataset or record.files.get(score.split, "local files"),
            dataset_config=record.dataset_config,
            dataset_split=score.split,
            metric_type=score.metric,
            metric_value=score.value,
        )
        for score in record.scores
        if score.metric != "loss" and score.value == score.value
    ]


def _added(found: dict[str, Any], config: Mapping[str, Any], record: TrainingRecord | None) -> dict[str, Any]:
    """Return the metadata of a card that people wrote: entries that no checkpoint has, and further values of some."""
    ours = _own_metadata(config, record)
    known = ours.keys() | (_OF_RECORDS if record is not None else set())
    added = {name: value for name, value in found.items() if name not in known and value is not None}
    for name in ("tags", "datasets", "base_model"):
        own, theirs = _listed(ours.get(name)), _listed(found.get(name))
        if own and (more := [value for value in theirs if value not in own]):
            added[name] = [*own, *more]
    return added


_OF_RECORDS = {"datasets", "metrics", "model-index"}
"""Metadata that the record of another run may have left in a card."""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _set_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """The family's fields that are not at their defaults."""
    family = FAMILIES.get(config["model_type"])
    if family is None:
        return {}
    shared = {field.name for field in dataclasses.fields(LocalAttentionConfig)}
    default = family.config(backbone_config=config.get("backbone_config"))  # which some defaults depend on
    defaults = json.loads(default.to_json_string(use_diff=False))  # as they are in a file
    own = {field.name for field in dataclasses.fields(family.config)} - shared
    return {name: value for name, value in config.items() if name in own and value != defaults[name]}


def _labels(config: Mapping[str, Any]) -> list[str]:
    """The names of the labels, unless they are only numbered."""
    names = [str(name) for name in (config.get("id2label") or {}).values()]
    return [] if all(re.fullmatch(r"LABEL_\d+", name) for name in names) else names
