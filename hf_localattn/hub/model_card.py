"""Model cards, rendered from a template with a checkpoint's configuration and its training record."""

from __future__ import annotations

import dataclasses
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
from hf_localattn.hub.eval_results import write_eval_results
from hf_localattn.hub.record import TrainingRecord
from hf_localattn.hub.verify import Verification, verify_checkpoint
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.negation_finder import CUE_LABELS
from hf_localattn.names import family_notes
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
    """Render the card of a checkpoint: metadata for the Hub, and text.

    Args:
        config: Content of `config.json`.
        record (*optional*): Record of the training run.
        repo_id (*optional*): Name on the Hub. By default the card has a placeholder.
        revision (*optional*): Commit to load. By default the card recommends adding one.
        metadata (*optional*): Further metadata, such as `license` and `language`. They override the record.
        code (*optional*): Result of `verify_checkpoint`. By default the card does not mention it.

    Returns:
        The card as Markdown with YAML front matter.
    """
    config, record = _with_texts(_in_line, config, record)
    data = _metadata(config, record, _name(config, repo_id))
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
        family=family and family_notes(family.name),
        example=family.example if family else Family.example,
        model_type=config["model_type"],
        backbone_type=(config.get("backbone_config") or {}).get("model_type"),
        architecture=architecture,
        task=task,
        pipeline_task=_pipeline_task(task, config),
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
    """Apply a function to every string of a configuration and a record. Neither can be trusted."""
    if record is not None:
        record = TrainingRecord.from_dict(_mapped(dataclasses.asdict(record), function))
    return _mapped(config, function), record


def _mapped(value: Any, function: Callable[[str], str]) -> Any:
    """Apply a function to every string in a value."""
    if isinstance(value, Mapping):
        return {_mapped(name, function): _mapped(one, function) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(one, function) for one in value]
    return function(value) if isinstance(value, str) else value


def _harmless(code: Verification) -> Verification:
    """Escape the file names in a verification for Markdown."""
    files = (dataclasses.replace(file, name=_escaped(_in_line(file.name))) for file in code.files)
    return dataclasses.replace(code, files=tuple(files))


def _in_line(text: str) -> str:
    """Join the lines of a text, and break the beginning of comments, such as `BOUNDARY`."""
    return " ".join(text.split()).replace("<!--", "<! --")


def _escaped(text: str) -> str:
    """Escape a text for Markdown, at any place in a line."""
    return text.replace("<", "&lt;").replace("`", "'").replace("|", r"\|").replace("](", "] (")


def write_card(
    checkpoint: str | os.PathLike[str],
    *,
    repo_id: str | None = None,
    revision: str | None = None,
    overwrite: bool = False,
    published: str | None = None,
    base_language: str | list[str] | None = None,
    **metadata: Any,
) -> Path:
    """Write or update the card of a checkpoint folder. Text and metadata added by people are kept.

    Added text is the text below the last generated line. The name on the Hub and the commit are also kept. Scores on a
    data set of the Hub are also written to `.eval_results/hf_localattn.yaml`, for the leaderboards of the Hub.

    Args:
        checkpoint: Folder with a `config.json`.
        repo_id (*optional*): Name on the Hub, for the loading instructions. Defaults to the name in the existing card.
        revision (*optional*): Commit on the Hub to load. Defaults to the commit in the existing card.
        overwrite (*optional*, defaults to False): If True, replace a card that this package did not write.
        published (*optional*): Card of the same model on the Hub. Additions to this card are kept, too. Additions to
            the card in the folder take precedence.
        base_language (*optional*): Languages of the base model, for a card without languages.
        **metadata: Further metadata, such as `license` and `language`.

    Returns:
        The path of the card.

    Raises:
        FileNotFoundError: The folder is not a checkpoint.
        ValueError: The folder has a card that this package did not write, or a file that cannot be read.
    """
    folder = Path(checkpoint)
    config, record = _with_texts(_in_line, read_config(folder), TrainingRecord.load(folder))
    path = folder / CARD
    here = read_utf8(path) if path.is_file() else None
    if here is not None and not is_ours(here):
        if not overwrite:
            raise ValueError(
                f"{path} was not written by hf-localattn, and would be lost: move it, or pass --overwrite. To keep"
                f" its text, move it below this line: {BOUNDARY}"
            )
        here = None
    own_part = ""
    own_metadata: dict[str, Any] = {} if base_language is None else {"language": base_language}
    for card in filter(None, (published, here)):  # the card in the folder takes precedence
        if is_ours(card) or not has_text(card):
            own_metadata |= _added(_metadata_of(card, path), config, record)
            own_part = _body(card).partition(BOUNDARY)[2].strip("\n") or own_part
    if here is not None and repo_id is None:
        repo_id, revision = _pinned(here) or (None, revision)
    given = {name: value for name, value in metadata.items() if value is not None}
    code = (
        verify_checkpoint(folder, subfolders=False)
        if config["model_type"] in FAMILIES and any(folder.glob("*.py"))
        else None
    )
    text = render_card(
        config, record, repo_id=repo_id, revision=revision, metadata={**own_metadata, **given}, code=code
    )
    atomic_write(path, text.rstrip("\n") + (f"\n\n{own_part}\n" if own_part else "\n"))
    write_eval_results(folder, record)
    return path


def renew_card(checkpoint: str | os.PathLike[str], **settings: Any) -> None:
    """Write or update a card like `write_card`, but keep a card that this package did not write, with a warning.

    Args:
        checkpoint: Folder with a `config.json`.
        **settings: Arguments of `write_card`.
    """
    path = Path(checkpoint, CARD)
    if path.is_file() and not is_ours(read_utf8(path)):
        logger.warning(
            "%s was not written by hf-localattn and is kept. `hf-localattn card %s --overwrite` replaces it.",
            path,
            checkpoint,
        )
    else:
        write_card(checkpoint, **settings)


def pinned_commit(card: str, repo_id: str) -> str | None:
    """Return the commit of a repository that a card pins, or None if the card pins no such commit."""
    name, commit = _pinned(card) or (None, None)
    return commit if name == repo_id else None


def is_ours(card: str) -> bool:
    """Return True for a card that was written here."""
    return BOUNDARY in _body(card)


def has_text(card: str) -> bool:
    """Return True for a card with text. Cards created on the website of the Hub have only metadata."""
    return bool(_body(card).strip())


def _body(card: str) -> str:
    """Return the text of a card, without its metadata."""
    return re.sub(r"\A\s*---\r?\n.*?\n---[^\n]*", "", card, flags=re.DOTALL)


def _pinned(card: str) -> tuple[str, str] | None:
    match = re.search(r'"([^"\s]+/[^"\s]+)", revision="([0-9a-f]{40})"', _body(card).partition(BOUNDARY)[0])
    return (match[1], match[2]) if match else None


def _metadata_of(card: str, path: Path) -> dict[str, Any]:
    try:
        if (block := re.match(REGEX_YAML_BLOCK, card)) is not None:
            parse_yaml(block[2], "YAML")
        return ModelCard(card, ignore_metadata_errors=True).data.to_dict()
    except (yaml.YAMLError, ValueError, TypeError) as error:  # TypeError: an entry of a wrong type
        raise ValueError(f"The metadata of {path}, or of the card on the Hub, cannot be read: {error}") from None


def _template(name: str) -> str:
    return files("hf_localattn.hub").joinpath("templates", name).read_text(encoding="utf-8")


def _metadata(config: Mapping[str, Any], record: TrainingRecord | None, name: str = "") -> ModelCardData:
    """Return the metadata that follow from the checkpoint."""
    _, task = _architecture(config)
    results = _results(task, record) if record else []
    return ModelCardData(
        base_model=base_model_of(config, record),
        datasets=[record.dataset] if record and record.dataset else None,
        eval_results=results or None,
        library_name="transformers",
        metrics=sorted({result.metric_type for result in results}) or None,
        model_name=name if results else None,
        pipeline_tag=task,
        tags=_tags(config["model_type"]),
    )


def base_model_of(config: Mapping[str, Any], record: TrainingRecord | None) -> str | None:
    """Return the Hub id of the model that was fine-tuned, or of the backbone; None if neither is known."""
    if record is not None and record.base_model:
        return record.base_model
    return (config.get("backbone_config") or {}).get("_name_or_path") or None


def _architecture(config: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the class and the task of a model."""
    architecture = next(iter(config.get("architectures") or ()), "")
    return architecture, task_of_class(architecture)


def _pipeline_task(task: str | None, config: Mapping[str, Any]) -> str | None:
    """Return the name of the pipeline that runs a model; None if there is none."""
    if task == "token-classification" and not set(CUE_LABELS).isdisjoint(_labels(config)):
        return "negation"
    return None if task in WITHOUT_PIPELINE else task


WITHOUT_PIPELINE = ("multiple-choice", "text2text-generation")
"""Tasks for which transformers 5 has no pipeline."""


def _tags(model_type: str) -> list[str]:
    return [TAG, model_type] if model_type in FAMILIES else [TAG]


def _results(task: str | None, record: TrainingRecord) -> list[EvalResult]:
    """Return the scores in the form of the Hub, without losses and NaN."""
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
    """Return the metadata that people have added to a card: entries, and additional values of lists."""
    ours = _metadata(config, record).to_dict()
    known = ours.keys() | (_OF_RECORDS if record is not None else set())
    added = {name: value for name, value in found.items() if name not in known and value is not None}
    for name in ("tags", "datasets", "base_model"):
        own, theirs = _listed(ours.get(name)), _listed(found.get(name))
        if own and (more := [value for value in theirs if value not in own]):
            added[name] = [*own, *more]
    return added


_OF_RECORDS = {"datasets", "metrics", "model-index"}
"""Metadata that may come from the record of an earlier run."""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _set_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the family with non-default values."""
    family = FAMILIES.get(config["model_type"])
    if family is None:
        return {}
    shared = {field.name for field in dataclasses.fields(LocalAttentionConfig)}
    default = family.config(backbone_config=config.get("backbone_config"))  # some defaults depend on the backbone
    defaults = json.loads(default.to_json_string(use_diff=False))  # in the types of the JSON file
    own = {field.name for field in dataclasses.fields(family.config)} - shared
    return {name: value for name, value in config.items() if name in own and value != defaults[name]}


def _labels(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the labels; none if they are only numbered."""
    names = [str(name) for name in (config.get("id2label") or {}).values()]
    return [] if all(re.fullmatch(r"LABEL_\d+", name) for name in names) else names
