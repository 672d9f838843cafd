"""Train by the shortest command on few rows, as part g of the studies' plan does, and write the record of all runs.

`python -m reproduction.study_data` writes the rows. Repeat the command to resume it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hf_localattn.hub import TrainingRecord
from hf_localattn.names import read_run, resolve_backbone
from hf_localattn.parsing import read_json
from hf_localattn.settings.recipes import AUTO, read_recipe
from hf_localattn.studies.comparison_files import markdown_table
from hf_localattn.studies.processes import RunFailed, ScriptRun, run_all
from hf_localattn.studies.results import finished, write_results
from reproduction.plan import format_options
from reproduction.study_data import DRAWS

RECORD = "few-rows.json"

OTHERS = "others"
"""Name of further scored rows in the names of their metrics."""


@dataclass(frozen=True)
class FewRows:
    """A task with its files.

    Args:
        script: Name of the script.
        score: Main score.
        ending: Ending of the files.
        test (*optional*): File of the scored rows of a draw; by default, the validation rows are scored.
        others (*optional*): File of further rows to score.
    """

    script: str
    score: str
    ending: str
    test: str | None = None
    others: str | None = None

    def files(self, data: Path, name: str, draw: int, *, is_search: bool) -> dict[str, Any]:
        """Return the data options of a draw. A search needs validation rows."""
        options: dict[str, Any] = {"train_file": str(data / f"{name}-{draw}{self.ending}"), "do_train": True}
        if self.test is not None:
            options |= {"test_file": str(data / self.test.format(draw)), "do_predict": True}
        if self.test is None or is_search:
            rows = f"{name}-scored" if self.test is None else f"{name}-{draw}-validation"
            options |= {"validation_file": str(data / f"{rows}{self.ending}"), "do_eval": True}
        return options


TASKS = {
    "trec": FewRows("glue", "predict_accuracy", ".jsonl", "trec-test.jsonl"),
    "stsb": FewRows("glue", "eval_pearson", ".jsonl"),
    "wnut": FewRows("ner", "predict_f1", ".txt", "wnut-{}-held-out.txt", others="wnut-test.txt"),
    "squad": FewRows("qa", "eval_f1", ".jsonl"),  # of one or two articles
    "squad-all": FewRows("qa", "eval_f1", ".jsonl"),  # of all articles
    "choices": FewRows("swag", "eval_accuracy", ".jsonl"),
}


def run_of(name: str, draw: int, recipe: str | None, data: Path, backbone: str, output: Path) -> ScriptRun:
    """Return the run of a draw with a recipe, by default that of the task, and of its further scored rows."""
    task = TASKS[name]
    is_search = recipe == AUTO
    folder = output / "-".join(filter(None, (f"{name}-{draw}", recipe)))
    chosen = {} if recipe is None else {"recipe": recipe}
    files = task.files(data, name, draw, is_search=is_search)
    options = {"backbone": backbone, **chosen, **files, "seed": draw, "output_dir": str(folder)}
    then: tuple[ScriptRun, ...] = ()
    if task.others is not None and not is_search:
        beside = folder.with_name(f"{folder.name}-{OTHERS}")
        test = {"model_name_or_path": str(folder), "test_file": str(data / task.others), "do_predict": True}
        then = (ScriptRun(task.script, {**test, "output_dir": str(beside)}, beside),)
    return ScriptRun(task.script, options, folder, then)


def record_of(name: str, draw: int, run: ScriptRun) -> dict[str, Any]:
    """Return the record of a finished run: its recipe, scores, data, versions and command."""
    metrics = finished(run.folder) or {}
    for test in run.then:
        others = finished(test.folder) or {}
        metrics |= {f"{metric}@{OTHERS}": value for metric, value in others.items() if metric.startswith("predict_")}
    arguments = read_run(run.folder)
    record = TrainingRecord.load(run.folder)
    assert record is not None
    result = {
        "row": arguments["recipe"],
        "task": name,
        "run": draw + 1,
        "metrics": {key: value for key, value in metrics.items() if isinstance(value, int | float)},
        "data": {key: value for key, value in arguments.items() if key.endswith(" data")},
        "versions": record.versions,
        "command": f"hf-localattn train {run.script} {format_options(run.options)}",
    }
    if record.comparison is not None:
        result |= {"row": AUTO, "comparison": asdict(record.comparison)}
    return result


def main(words: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m reproduction few-rows", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("data", metavar="DRAWS", type=Path, help="folder `draws` of the divided corpora")
    add("--backbone", default="sentence-transformers/all-MiniLM-L6-v2", help="Hub id or folder of an encoder")
    add("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    add("--draws", nargs="+", type=int, choices=range(DRAWS), default=[*range(DRAWS)], metavar="N")
    add("--recipes", nargs="+", metavar="NAME", help=f"recipes to train, or {AUTO}; by default that of each task")
    add("-o", "--output-dir", type=Path, default=Path("few-rows"), metavar="FOLDER", help="default: few-rows")
    options = parser.parse_args(words)
    backbone = resolve_backbone(options.backbone)
    output = options.output_dir.absolute()
    recipes: list[str | None] = options.recipes or [None]
    scripts: dict[str | None, str] = {
        recipe: read_recipe(recipe).script for recipe in recipes if recipe is not None and recipe != AUTO
    }
    runs = {
        (name, draw, recipe): run_of(name, draw, recipe, options.data.absolute(), backbone, output)
        for draw in options.draws
        for name in options.tasks
        for recipe in recipes
        if scripts.get(recipe, TASKS[name].script) == TASKS[name].script
    }
    failed = None
    for run, result in run_all(list(runs.values())):
        if isinstance(result, RunFailed):
            failed = failed or RunFailed(f"{run.folder.name}: {result}")
    path = output / RECORD
    records = read_json(path)["runs"] if path.is_file() else []
    records += [
        record_of(name, draw, run) for (name, draw, _), run in runs.items() if finished(run.folder) is not None
    ]
    by_command = {record["command"]: record for record in records}
    write_results(path, {"runs": [*by_command.values()]})
    rows = []
    for record in by_command.values():
        score = TASKS[record["task"]].score
        rows.append([record["task"], str(record["run"]), record["row"], score, f"{record['metrics'][score]:.4f}"])
    print(markdown_table(["task", "run", "recipe", "score", "value"], rows))
    if failed is not None:
        raise failed
