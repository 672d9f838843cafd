"""Rows on which two readers or two classifiers differ, from the predictions in their output folders."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset
from jinja2 import Environment, StrictUndefined

from hf_localattn.data.rows import row_indices
from hf_localattn.errors import join_names
from hf_localattn.files import atomic_write
from hf_localattn.metrics.squad_scores import answer_scores, is_blank
from hf_localattn.names import find_files, read_run
from hf_localattn.parsing import read_json
from hf_localattn.settings.option import options_of
from hf_localattn.tasks import QuestionAnswering, Task, TextClassification
from hf_localattn.training.output_folder import digest_of

FILES: dict[str, tuple[type[Task], str]] = {
    "eval_predictions.json": (QuestionAnswering, "validation"),
    "predict_predictions.json": (QuestionAnswering, "test"),
    "predict_results*.txt": (TextClassification, "test"),
}
"""Patterns of files with predictions, each with its task and split."""

KINDS = {
    "won": "A is right, B is wrong",
    "lost": "A is wrong, B is right",
    "both wrong": "with other answers",
}
"""Kinds of examples, with their descriptions."""

WORDS_AROUND = 10
"""Words of a passage that are shown on either side of an answer."""


@dataclass(frozen=True)
class Predictions:
    """Predicted answers by the id of the question, or classes by the index of the row, in a file."""

    file: Path
    task: type[Task]
    split: str
    by_key: Mapping[str, str]


def read_predictions(folder: Path) -> list[Predictions]:
    """Read all predictions in the output folder of a run.

    Raises:
        ValueError: The folder has no predictions.
    """
    predictions = []
    for pattern, (task, split) in FILES.items():
        for file in sorted(folder.glob(pattern)):
            if file.suffix == ".json":
                by_key = read_json(file)
            else:
                lines = file.read_text(encoding="utf-8").splitlines()[1:]
                by_key = dict(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
            predictions.append(Predictions(file, task, split, by_key))
    if not predictions:
        advice = "Run train qa or train glue with --do_predict"
        runs = sorted((*folder.glob("seed-*/"), *folder.glob("fold-*/")))
        if runs:
            advice = f"Name one of its runs, such as {runs[0]}"
        raise ValueError(
            f"{folder} has no predictions of a reader or classifier, which --examples compares. {advice}."
        )
    return predictions


def compare_examples(first: str, second: str, file: str, output: Path | None = None) -> str:
    """Return the rows of a file on which two models differ, as text.

    Args:
        first: Output folder of a run, with predictions for the rows.
        second: Output folder of the run that it is compared with.
        file: Rows with their labels.
        output (*optional*): HTML file for the examples.

    Raises:
        ValueError: The models have different tasks, or a model has not predicted these rows.
    """
    if output is not None and output.suffix != ".html":
        raise ValueError(f"-o {output}: --examples writes a page, whose name ends in .html.")
    of_first = read_predictions(Path(first))
    of_second = read_predictions(Path(second))
    tasks = [predictions[0].task.name for predictions in (of_first, of_second)]
    if tasks[0] != tasks[1]:
        raise ValueError(f"{first} is of {tasks[0]}, {second} of {tasks[1]}. Compare models of one task.")
    path = find_files(file)
    rows, a = _find_rows(of_first, path)
    _, b = _find_rows(of_second, path)
    if a.by_key.keys() != b.by_key.keys():
        raise ValueError(f"{first} and {second} have predicted other rows of {file}. Predict the same ones.")
    if a.task is TextClassification:
        rows = _with_class_names(rows)
        for predictions in (a, b):
            _check_classes(rows["label"], predictions)
    examples: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for kind, example in _examples(rows, a.by_key, b.by_key):
        examples[kind].append(example)
    content = {"first": first, "second": second, "kinds": KINDS, "examples": examples, "count": len(rows)}
    if output is not None:
        atomic_write(output, _render("examples.html", content))
    return _render("examples.txt", content)


def _find_rows(predictions: Sequence[Predictions], path: str) -> tuple[Dataset, Predictions]:
    """Return the rows of a file that a model has predicted, and these predictions."""
    task = predictions[0].task
    folder = predictions[0].file.parent
    arguments = read_run(folder)
    if arguments.get("num_folds") is not None:
        raise ValueError(f"{folder} is a fold of a cross-validation, whose rows have no file. Compare whole runs.")
    # The task reads the rows as in the run, so that their digest is that of the run.
    options = options_of(task.DataArguments)
    settings = {name: value for name, value in arguments.items() if name in options}
    settings |= {"dataset_name": None, "dataset_config_name": None, "test_file": path}
    reading = task(task.DataArguments(**settings))
    rows, _ = reading.read(path, reading.layout, labeled=False, predicted=True)
    for part in predictions:
        kept = [index for index, key in enumerate(_keys(rows)) if key in part.by_key]
        chosen = rows.select(kept)
        digest = arguments.get(f"{part.split} data")
        if len(kept) == len(part.by_key) and digest in (None, digest_of(chosen)):
            return chosen, part
    names = join_names([part.file.name for part in predictions])
    raise ValueError(f"{folder} has not predicted the rows of {path}: {names} has others. Give the file of its run.")


def _keys(rows: Dataset) -> list[str]:
    return list(map(str, rows["id"] if "id" in rows.column_names else row_indices(rows)))


def _examples(
    rows: Dataset, first: Mapping[str, str], second: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kind and the content of each row whose predictions differ and are not both right."""
    for key, row in zip(_keys(rows), rows, strict=True):
        a = first[key]
        b = second[key]
        if "answers" in row:
            gold = list(dict.fromkeys(row["answers"]["text"]))
            right = _is_answer(a, gold), _is_answer(b, gold)
            texts = [row["question"], row["context"]]
        else:
            gold = [row["label"]]
            right = a in gold, b in gold
            texts = [row["text"], row.get("text_pair") or ""]
        if a != b and right != (True, True):
            kind = {(True, False): "won", (False, True): "lost"}.get(right, "both wrong")
            excerpt = _excerpt(row, (a, b)) if "answers" in row else texts[1]
            yield kind, {"key": key, "texts": texts, "excerpt": excerpt, "gold": gold, "A": a, "B": b}


def _excerpt(row: Mapping[str, Any], predictions: Iterable[str]) -> str:
    """Return the words of a passage around its answers, and around each place of the predicted ones."""
    passage = row["context"]
    answers = list(zip(row["answers"]["answer_start"], row["answers"]["text"], strict=True))
    for text in filter(None, predictions):
        # A file of predictions has no places.
        answers += [(match.start(), text) for match in re.finditer(re.escape(text), passage)]
    shown: set[int] = set()
    for start, text in answers:
        first = len(passage[:start].split())
        shown.update(range(first - WORDS_AROUND, first + len(text.split()) + WORDS_AROUND))
    words: list[str] = []
    for is_shown, part in groupby(enumerate(passage.split()), lambda word: word[0] in shown):
        words += [word for _, word in part] if is_shown else ["…"]
    return " ".join(words)


def _with_class_names(rows: Dataset) -> Dataset:
    """Return rows with the names of their classes as labels."""
    feature = rows.features.get("label")
    labels = rows["label"][:] if feature is not None else [None]
    if None in labels:
        raise ValueError("Some rows have no label. Give a file with the labels of all rows.")
    if isinstance(feature, ClassLabel):
        labels = feature.int2str(labels)
    return rows.remove_columns("label").add_column("label", list(map(str, labels)))


def _check_classes(labels: Iterable[str], predictions: Predictions) -> None:
    """Raise `ValueError` if no label of the rows is predicted: the model has other classes."""
    names = sorted(set(labels))
    if set(names).isdisjoint(predictions.by_key.values()):
        raise ValueError(f"The labels {join_names(names)} are no classes of {predictions.file}.")


def _is_answer(answer: str, gold: Sequence[str]) -> bool:
    """Return True for an exact match, as SQuAD counts it; if there is no answer, for an empty one."""
    if not gold:
        return is_blank(answer)
    return any(answer_scores(answer, right)[0] == 1 for right in gold)


def _render(name: str, content: Mapping[str, Any]) -> str:
    template = files("hf_localattn.studies").joinpath("templates", name).read_text(encoding="utf-8")
    environment = Environment(
        undefined=StrictUndefined, autoescape=name.endswith(".html"), trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(template).render(content)
