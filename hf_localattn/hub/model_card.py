"""Model cards, rendered from a template with a checkpoint's configuration and its training record."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub.repocard_data import EvalResult, ModelCardData  # `ModelCard` imports the whole client of the Hub
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hf_localattn.errors import CheckpointError
from hf_localattn.files import A_LINK, atomic_write, is_regular
from hf_localattn.hub.record import Score, TrainingRecord, describe_rivals, read_record
from hf_localattn.hub.verify import Verification, verify_checkpoint
from hf_localattn.installed.policy import check_folder
from hf_localattn.names import (
    AUTO_CLASSES,
    RIVAL_SCORES,
    default_fields,
    family_names,
    family_notes,
    family_packages,
    read_config,
    task_of_class,
)
from hf_localattn.parsing import parse_yaml, read_utf8

logger = logging.getLogger(__name__)

CARD = "README.md"
BOUNDARY = "<!-- hf-localattn writes what is above. What is below is yours, and stays. -->"
METADATA = re.compile(r"\s*---[ \t]*\r?\n(.*?)^---", re.DOTALL | re.MULTILINE)
TAG = "hf_localattn"
CUES = ("negation:", "speculation:")  # beginnings of the labels of cues

WITHOUT_PIPELINE = ("multiple-choice", "text2text-generation")  # in transformers 5

MOST_RESULTS = 5
"""Number of scores in the metadata, which the Hub shows. A table has all."""


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
    name = (repo_id or config["model_type"]).rpartition("/")[2]
    data = _metadata(config, record, _line(name))
    for key, value in (metadata or {}).items():
        setattr(data, key, value)
    task = _task(config)
    labels = [str(label) for label in (config.get("id2label") or {}).values()]
    is_numbered = all(re.fullmatch(r"LABEL_\d+", label) for label in labels)
    shows_labels = (task or "").endswith("classification") and not is_numbered
    has_pairs = record is not None and bool(record.has_pairs)
    pipeline_task = None if task in WITHOUT_PIPELINE else task
    if task == "token-classification" and any(label.startswith(CUES) for label in labels):
        pipeline_task = "negation"
    is_ours = config["model_type"] in family_names()
    defaults = default_fields(config["model_type"]) if is_ours else {}
    notes = _notes(config, defaults, task, pipeline_task == "negation") if is_ours else {}
    body = ENVIRONMENT.get_template("card.md").render(
        name=name,
        family=notes,
        package=family_packages()[config["model_type"]].partition(".")[0] if is_ours else "",
        text="YOUR TEXT" if has_pairs else notes.get("placeholder", "YOUR TEXT"),
        rivals=RIVAL_SCORES,
        rivals_text=describe_rivals(score.metric for score in record.scores) if record else "",
        has_pairs=has_pairs,
        model_type=config["model_type"],
        backbone_type=(config.get("backbone_config") or {}).get("model_type"),
        architecture=_architecture(config),
        task=task,
        pipeline_task=pipeline_task,
        auto_class=AUTO_CLASSES[task] if task else "AutoModel",
        fields={name: value for name, value in config.items() if value != defaults.get(name, value)},
        labels=labels if shows_labels else [],
        record=record,
        base_models=_listed(data.base_model),
        repo_id=repo_id,
        revision=revision,
        boundary=BOUNDARY,
        code=code,
    )
    return f"---\n{data.to_yaml()}\n---\n\n{body}"


def write_card(
    checkpoint: str | os.PathLike[str],
    *,
    repo_id: str | None = None,
    revision: str | None = None,
    overwrite: bool | None = False,
    **metadata: Any,
) -> Path:
    """Write or update the card of a checkpoint folder. What people added to its metadata and at its end is kept.

    Args:
        checkpoint: Folder with a `config.json`.
        repo_id (*optional*): Name on the Hub, for the loading instructions. Defaults to the name in the existing card.
        revision (*optional*): Commit on the Hub to load. Defaults to the commit in the existing card.
        overwrite (*optional*, defaults to False): If True, replace a card that this package did not write. If None,
            keep it, with a warning.
        **metadata: Further metadata, such as `license` and `language`.

    Returns:
        The path of the card.

    Raises:
        FileNotFoundError: The folder is not a checkpoint.
        ValueError: The folder has a card that this package did not write, or a file that cannot be read.
        CheckpointError: Loading would refuse the checkpoint, or the card is a link.
    """
    folder = Path(checkpoint)
    config = read_config(folder)
    check_folder(folder, weights=False)
    path = folder / CARD
    if path.is_symlink() and not is_regular(path, folder):
        raise CheckpointError(f"{path}: {A_LINK}")
    record = read_record(folder, _task(config))
    card = read_utf8(path) if path.is_file() else ""
    if card and BOUNDARY not in card:
        if overwrite is None:
            logger.warning("%s was not written by hf-localattn and is kept; `card --overwrite` replaces it.", path)
            return path
        if not overwrite:
            raise ValueError(
                f"{path} was not written by hf-localattn, and would be lost: move it, or pass --overwrite. To keep"
                f" its text, move it below this line: {BOUNDARY}"
            )
        card = ""
    written, _, added_text = card.partition(BOUNDARY)
    all_metadata = _added(card, path, config, record) if card else {}
    all_metadata |= {name: value for name, value in metadata.items() if value is not None}
    pinned = re.search(r'"([^"\s]+/[^"\s]+)", revision="([0-9a-f]{40})"', written)
    if pinned and repo_id is None:
        repo_id, revision = pinned.groups()
    has_code = config["model_type"] in family_names() and any(folder.glob("*.py"))
    code = verify_checkpoint(folder, subfolders=False) if has_code else None
    text = render_card(config, record, repo_id=repo_id, revision=revision, metadata=all_metadata, code=code)
    parts = [text.rstrip("\n"), added_text.strip("\n")]
    atomic_write(path, "\n\n".join(filter(None, parts)) + "\n")
    return path


def _metadata(config: Mapping[str, Any], record: TrainingRecord | None, name: str) -> ModelCardData:
    """Return the metadata that follow from the checkpoint, with the first scores."""
    task = _task(config)
    model_type = config["model_type"]
    backbone = (config.get("backbone_config") or {}).get("_name_or_path")
    data = ModelCardData(
        base_model=_line((record and record.base_model) or backbone or None),
        library_name="transformers",
        pipeline_tag=task,
        tags=[TAG, model_type] if model_type in family_names() else [TAG],
    )
    if record is None:
        return data
    if record.dataset:
        data.datasets = [_line(record.dataset)]
    results = [
        EvalResult(
            task_type=task or _line(record.task),
            dataset_type=_line(record.dataset) or "local",
            dataset_name=_line(record.dataset or record.files.get(score.split, "local files")),
            dataset_config=_line(record.dataset_config),
            dataset_split=_line(score.split),
            metric_type=_line(score.metric),
            metric_value=score.value,
        )
        for score in _headline_scores(record)
    ]
    if results:
        data.eval_results = results
        data.metrics = sorted({result.metric_type for result in results})
        data.model_name = name
    return data


def _headline_scores(record: TrainingRecord) -> list[Score]:
    """Return the first scores of the model, without losses and NaN. Those of test rows come first."""
    others = ("loss", "_before", *RIVAL_SCORES)
    scores = [score for score in record.scores if not (score.metric.endswith(others) or math.isnan(score.value))]
    return sorted(scores, key=lambda score: not score.split.startswith("test"))[:MOST_RESULTS]


def _added(card: str, path: Path, config: Mapping[str, Any], record: TrainingRecord | None) -> dict[str, Any]:
    """Return the metadata that people have added to a card: entries, and further values of lists."""
    block = METADATA.match(card)
    written = parse_yaml(block[1], f"The metadata of {path}") if block else {}
    if not isinstance(written, dict | None):
        raise ValueError(f"The metadata of {path} are no names with values: write them as in `license: mit`.")
    written = written or {}
    ours = _metadata(config, record, "").to_dict()
    names = set(ours)
    if record is not None:  # the card may be of an earlier run
        names |= {"datasets", "metrics", "model-index"}
    added = {name: value for name, value in written.items() if name not in names and value is not None}
    for name in ("tags", "datasets", "base_model"):
        our_values = _listed(ours.get(name))
        others = [value for value in _listed(written.get(name)) if value not in our_values]
        if our_values and others:
            added[name] = our_values + others
    return added


def _architecture(config: Mapping[str, Any]) -> str:
    return next(iter(config.get("architectures") or ()), "")


def _task(config: Mapping[str, Any]) -> str | None:
    return task_of_class(_architecture(config))


def _notes(
    config: Mapping[str, Any], defaults: Mapping[str, Any], task: str | None, finds_cues: bool
) -> dict[str, Any]:
    """Return the texts about a family, as far as they hold for a model with this configuration."""
    values = {**defaults, **config, "task": task, "finds_cues": finds_cues}

    def render(text: str) -> str:
        return " ".join(ENVIRONMENT.from_string(text).render(values).split())

    notes = family_notes(config["model_type"])
    summary = notes["summary"]
    if isinstance(summary, dict):  # by the value of the field that chooses the layers
        ((field, texts),) = summary.items()
        summary = texts.get(str(values[field]), texts.get("other", ""))
    rendered = {"summary": render(summary), "inputs": render(notes["inputs"])}
    return notes | rendered | {"limits": [*filter(None, map(render, notes["limits"]))]}


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _line(text: Any) -> Any:
    """Join the lines of a text, and break the beginning of comments, such as `BOUNDARY`; return anything else."""
    return " ".join(text.splitlines()).replace("<!--", "<! --") if isinstance(text, str) else text


def _escaped(value: Any) -> str:
    """Escape a value for Markdown, at any place in a line."""
    if isinstance(value, Markup):
        return value
    text: str = _line(str(value))
    return text.replace("<", "&lt;").replace("`", "'").replace("|", r"\|").replace("](", "] (")


# What strangers wrote is escaped wherever a template shows it; `safe` marks our own Markdown.
ENVIRONMENT = Environment(
    loader=PackageLoader("hf_localattn.hub"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    finalize=_escaped,
)
