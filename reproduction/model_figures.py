"""Figures of what trained models attend to: gates of layers, maps between tokens, weights of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame
from transformers import TextClassificationPipeline

from hf_localattn.inspection.command import load
from hf_localattn.inspection.draw import draw_maps, draw_token_weights
from hf_localattn.inspection.maps import SELF, attention_map
from hf_localattn.inspection.reading import Text
from hf_localattn.inspection.weights import gate_values, token_weights
from hf_localattn.parsing import parse_assignments
from hf_localattn.studies.script_command import ScriptCommand
from hf_localattn.tasks import choose_task
from hf_localattn.training.splits import load_splits
from reproduction.figures import draw_points
from reproduction.plan import Selection, data_of, options_of, script_of, tokenizer_settings
from reproduction.tables import Figure, Row, TableTask, check_names


@dataclass(frozen=True)
class TrainedModel:
    """A checkpoint of a row, trained on a task."""

    row: Row
    task: TableTask
    folder: Path


def read_checkpoints(selection: Selection, words: Sequence[str]) -> list[TrainedModel]:
    """Return the checkpoints that words ROW[:TASK]=FOLDER name. A row may have several, such as those of its seeds.

    Raises:
        ValueError: A word names no row or task, or the table is no figure of models.
    """
    table = selection.table
    if table.figure is None or not table.figure.is_of_models:
        raise ValueError(f"--checkpoints: {table.name} is no figure of models. Leave the option out.")
    models = []
    for word in words:
        name, _, folder = word.partition("=")
        row, _, task = name.partition(":")
        if not task and len(table.tasks) > 1:
            raise ValueError(f"--checkpoints {word}: write ROW:TASK=FOLDER, with one of {', '.join(table.tasks)}.")
        task = task or next(iter(table.tasks))
        check_names([row], table.rows, f"--checkpoints {word}: {table.name} has no row")
        check_names([task], table.tasks, f"--checkpoints {word}: {table.name} has no task")
        models.append(TrainedModel(table.rows[row], table.tasks[task], Path(folder)))
    return models


def model_figure_of(selection: Selection, models: Sequence[TrainedModel]) -> tuple[Any, DataFrame]:
    """Draw the figure of a table from trained models. The weights of several models of a row are averaged.

    Returns:
        The figure of matplotlib, and its data: a line for each gate, each cell of a map or each token.
    """
    figure = selection.table.figure
    assert figure is not None
    if figure.kind == "gates":
        points = DataFrame(_gates(selection, models), columns=["panel", "title", "place", "value"])
        return draw_points(points, selection.table.title, figure.x_label, "mean gate (0 global, 1 local)"), points
    loaded: dict[str, list[Any]] = {}
    for model in models:
        loaded.setdefault(model.row.title, []).append(_load(selection, model))
    titles: list[str] = []
    results: list[Any] = []
    lines: list[dict[str, Any]] = []
    for index, text in enumerate(figure.texts):
        texts = [text] if isinstance(text, str) else text
        for row, networks in loaded.items():
            parts: list[Any] = []
            for network, tokenizer in networks:
                if figure.kind == "maps":
                    parts.append(attention_map(network, tokenizer, *texts, kind=SELF))
                else:
                    parts += token_weights(network, tokenizer, texts)
            result = replace(parts[0], weights=np.mean([part.weights for part in parts], axis=0))
            titles.append(_title(figure, index, row, networks))
            results.append(result)
            lines += ({"text": index + 1, "row": row, **line} for line in _weights(result))
    draw = draw_maps if figure.kind == "maps" else draw_token_weights
    return draw(results, titles), DataFrame(lines)


def _title(figure: Figure, index: int, row: str, networks: Sequence[Any]) -> str:
    """Return the title of a row's picture of a text, with the prediction of most models if the text has a label."""
    if not figure.labels:
        return row
    predictions: Counter[str] = Counter()
    for network, tokenizer in networks:
        classify = TextClassificationPipeline(model=network, tokenizer=tokenizer)
        (prediction,) = classify(figure.texts[index], truncation=True)
        predictions[prediction["label"]] += 1
    [(label, count)] = predictions.most_common(1)
    share = "" if count == len(networks) else f" ({count} of {len(networks)})"
    return f"{index + 1} ({figure.labels[index]}): {row} → {figure.classes.get(label, label)}{share}"


def _load(selection: Selection, model: TrainedModel) -> Any:
    options = options_of(model.row, model.task, selection, {})
    return load(str(model.folder), settings=parse_assignments(tokenizer_settings(options)))


def _gates(selection: Selection, models: Sequence[TrainedModel]) -> Iterator[tuple[str, str, int, float]]:
    for model in models:
        network, tokenizer = _load(selection, model)
        gates = gate_values(network, tokenizer, _evaluation_texts(selection, model.row, model.task))
        for layer, mean in zip(gates.layers, gates.means, strict=True):
            yield model.task.title, model.row.title, layer, float(mean)


def _evaluation_texts(selection: Selection, row: Row, task: TableTask) -> list[Text]:
    """Return the texts, or the words of the sentences, on which the models of a task are scored."""
    options = options_of(row, task, selection, data_of(task, selection))
    command = ScriptCommand.of(script_of(task), {**options, "do_train": False, "output_dir": "unused"})
    data_task = choose_task(command.task, command.data_args)
    splits = load_splits(data_task(command.data_args), command.training_args).rows
    rows = splits["test" if "test" in splits else "validation"]
    return list(rows["tokens" if "tokens" in rows.column_names else "text"])


def _weights(result: Any) -> Iterator[dict[str, Any]]:
    """Yield a line for each cell of a map, or for each token of a text."""
    for places, weight in np.ndenumerate(result.weights):
        line = {"place": places[0], "token": result.tokens[places[0]]}
        if len(places) == 2:
            line |= {"source_place": places[1], "source": result.sources[places[1]]}
        yield {**line, "weight": float(weight)}
