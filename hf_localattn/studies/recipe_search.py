"""Search over the recipes of a task (`--recipe auto`). Each is trained by a run of the script, the cheapest first."""

from __future__ import annotations

import copy
import dataclasses
import logging
import math
import shlex
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from tqdm.auto import tqdm

from hf_localattn.errors import join_names
from hf_localattn.files import LOCK, UNFINISHED
from hf_localattn.hub import TrainingRecord, write_card
from hf_localattn.hub.record import Candidate, Comparison
from hf_localattn.names import RIVALS, RUN, read_run
from hf_localattn.parsing import format_value, read_json
from hf_localattn.settings.option import FREE, GROWS
from hf_localattn.settings.recipes import AUTO, Recipe, recipes_of
from hf_localattn.settings.stock import all_options
from hf_localattn.studies.comparison_files import markdown_table
from hf_localattn.studies.processes import RunFailed, ScriptRun, in_parallel, open_workers
from hf_localattn.studies.results import finished, write_results
from hf_localattn.studies.script_command import ScriptCommand, release_memory
from hf_localattn.studies.search import RESULTS
from hf_localattn.training.arguments import argument_classes
from hf_localattn.training.intervals import INTERVALS
from hf_localattn.training.output_folder import check_same_run, check_unused, save_arguments
from hf_localattn.training.scores import main_score, strongest_rival

logger = logging.getLogger(__name__)

FOLDS = 5
"""Number of folds that compare recipes without validation rows."""

TRIALS = "_trials"
"""Temporary folder of the trainings."""


class RecipeSearch:
    """Trains the recipes of a task, and keeps the model of the best one in the output folder.

    The validation rows choose, or else folds of the training rows; the best recipe is then trained on all rows.
    `search.json` has the score, interval, seconds and size of each recipe, and the scores of the plain rivals. The
    trainings are in a temporary folder, so that a killed command goes on with those that have no score.
    """

    def __init__(self, command: ScriptCommand):
        self.command = command
        self.args = command.training_args
        self.output = command.folder
        self.folder = self.output / TRIALS
        data_args = command.data_args
        has_rows = data_args.files["validation"] is not None or data_args.dataset_name is not None
        if has_rows and data_args.num_folds is not None:
            raise ValueError(f"--recipe {AUTO} chooses by the validation rows: leave out --num_folds or those rows.")
        if self.args.do_predict and not has_rows and data_args.files["test"] is None:
            raise ValueError("--do_predict needs test data: give --test_file, or leave it out.")
        self.num_folds = None if has_rows else data_args.num_folds or FOLDS
        self.recipes = sorted(recipes_of(command.script), key=lambda recipe: recipe.seconds)
        self.arguments = self._arguments()
        if not (self.output / RUN).is_file():
            check_unused(self.output, f"{RUN} to continue")
        check_same_run(self.output, self.arguments)
        state = read_json(self.output / RESULTS) if (self.output / RESULTS).is_file() else {}
        tried = TypeAdapter(list[Candidate]).validate_python(state.get("recipes", []))
        self.tried = {candidate.name: candidate for candidate in tried}
        self.rivals = TypeAdapter(list[Candidate]).validate_python(state.get("rivals", []))
        self.kept: str | None = state.get("kept")
        self.spent: float = state.get("seconds", 0.0)
        costs = join_names([f"{recipe.name} ({recipe.seconds:g} s)" for recipe in self.recipes])
        logger.info(
            "Recipes, the cheapest first, with measured CPU seconds: %s. --minutes limits all of them together."
            " Checking arguments and data with %s.",
            costs,
            recipes_of(command.script)[0].name,
        )
        self.metric, self.is_greater = self._check()

    def _arguments(self) -> dict[str, Any]:
        """Return what may not change when the command is repeated: its options, its files, and the recipes."""
        options = all_options(*argument_classes(self.command.task))
        words = []
        for name, value in sorted(self.command.options.items()):
            if options[name].result not in (FREE, GROWS):
                words += [f"--{name}", *(map(str, value) if isinstance(value, list) else [format_value(value)])]
        names = [recipe.name for recipe in self.recipes]
        return {"command": shlex.join(words), "recipes": names, **self.command.digests()}

    def _check(self) -> tuple[str, bool]:
        """Check arguments and data, and return the score that chooses, with True if greater is better."""
        args = copy.copy(self.args)
        args.do_train = args.do_eval = True
        args.output_dir = str(self.folder / "check")
        single = dataclasses.replace(self.command, training_args=args)
        if self.num_folds is not None:
            data_args = copy.copy(self.command.data_args)
            data_args.num_folds = self.num_folds
            single = dataclasses.replace(single, data_args=data_args).of_fold(1)
        started = single.start()
        metrics = started.prepared.evaluation.target.metrics
        args = started.trainer.args
        del started, single
        release_memory()
        metric = args.metric_for_best_model or main_score(metrics)
        return metric, bool(metrics.get(metric, args.greater_is_better))

    def execute(self) -> dict[str, float]:
        """Train the recipes that have no score, keep the best model, and return its metrics."""
        if self.kept is None:
            save_arguments(self.output, self.arguments)
        self._train([recipe for recipe in self.recipes if not self._candidate(recipe).is_over])
        ranked = self._ranked()
        if not ranked:
            raise RunFailed(self._without_score())
        self._keep(ranked[0].name)
        comparison = self._comparison(ranked)
        self._describe(comparison)
        table = markdown_table(comparison.columns, [row.cells() for row in comparison.rows])
        logger.info("%d recipes, the best first:\n%s\n%s", len(self.recipes), table, comparison.text)
        shutil.rmtree(self.folder, ignore_errors=True)
        return finished(self.output) or {}

    def _train(self, recipes: Sequence[Recipe]) -> None:
        """Train recipes until `--minutes` are over."""
        left = math.inf if self.args.minutes is None else 60 * self.args.minutes - self.spent
        if not recipes or left <= 0:
            return
        began = time.monotonic() - self.spent
        with open_workers(self.args.workers, use_cpu=self.args.use_cpu) as self.workers:
            timer = threading.Timer(min(left, threading.TIMEOUT_MAX), self.workers.close)
            timer.daemon = True
            timer.start()
            with closing(in_parallel(self._try, recipes, self.workers)) as ended:
                for _, candidate in tqdm(ended, "recipes", len(recipes), disable=self.args.disable_tqdm):
                    assert isinstance(candidate, Candidate)
                    self.tried[candidate.name] = candidate
                    self.spent = time.monotonic() - began
                    self._write()
                    self._remove_worse()
                    if candidate.is_over:  # else --minutes are
                        logger.info("Recipe %s", self._sentence(candidate))
            timer.cancel()

    def _candidate(self, recipe: Recipe) -> Candidate:
        return self.tried.get(recipe.name, Candidate(recipe.name))

    def _try(self, recipe: Recipe) -> Candidate:
        """Train a recipe, and return its result. Without an end it goes on when the command is repeated."""
        before = self._candidate(recipe)
        began = time.monotonic()
        folder = self.folder / recipe.name
        more = {} if self.num_folds is None else {"num_folds": self.num_folds, "workers": self.args.workers}
        result: dict[str, Any] = {}
        try:
            metrics = self.workers.run(self._run(recipe.name, folder, do_eval=True, **more))
        except RunFailed as error:
            result["error"] = str(error)
        except CancelledError:
            pass  # --minutes are over
        else:
            result = self._result(metrics, folder)
        return dataclasses.replace(before, seconds=before.seconds + time.monotonic() - began, **result)

    def _run(self, recipe: str, folder: Path, **changes: Any) -> ScriptRun:
        return self.command.script_run(folder, recipe=recipe, output_dir=str(folder), **changes)

    def _result(self, metrics: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return score, interval and size of a recipe, and note the scores of the rivals of its run."""
        name = f"eval_{self.metric}"
        ending = "" if self.num_folds is None else "_mean"
        if self.num_folds is None:
            interval = (metrics.get(f"eval_{INTERVALS}") or {}).get(self.metric)
        else:
            interval = (metrics[f"{name}_low"], metrics[f"{name}_high"]) if f"{name}_low" in metrics else None
        of_rivals = {rival: metrics.get(f"{name}_of_{rival}{ending}") for rival in RIVALS}
        self.rivals = self.rivals or [
            Candidate(rival, is_rival=True, score=value) for rival, value in of_rivals.items() if value is not None
        ]
        model = folder if self.num_folds is None else folder / "fold-1"
        size = sum(path.stat().st_size for path in model.glob("*.safetensors")) / 1e6
        return {"score": metrics[f"{name}{ending}"], "interval": interval, "megabytes": round(size, 1)}

    def _remove_worse(self) -> None:
        """Remove the models of all recipes but the best, which alone may be kept."""
        ranked = self._ranked()
        for candidate in ranked[0 if self.num_folds else 1 :]:
            shutil.rmtree(self.folder / candidate.name, ignore_errors=True)

    def _sentence(self, candidate: Candidate) -> str:
        if candidate.error is not None:
            return f"{candidate.name} failed: {candidate.error}"
        best = self._ranked()[0]
        return (
            f"{candidate.name}: {self.metric} {candidate.score:.4f} in {candidate.seconds:.0f} s; the best is"
            f" {best.score:.4f}, of {best.name}."
        )

    def _ranked(self) -> list[Candidate]:
        """Return the candidates with a score, the best first; of equal ones the cheapest."""
        scored = [candidate for recipe in self.recipes if (candidate := self._candidate(recipe)).score is not None]
        return self._sorted(scored)

    def _sorted(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        def rank(candidate: Candidate) -> float:
            score = math.nan if candidate.score is None else candidate.score
            return math.inf if math.isnan(score) else -score if self.is_greater else score

        return sorted(candidates, key=rank)

    def _without_score(self) -> str:
        """Return why there is no model to keep."""
        failed = [candidate for candidate in self.tried.values() if candidate.error is not None]
        if failed:
            return f"--recipe {AUTO}: no recipe has a score. {failed[0].name} failed: {failed[0].error}"
        return (
            f"--minutes {self.args.minutes:g}: too few for {self.recipes[0].name}, the first recipe. Repeat the"
            " command with more minutes: it goes on from here."
        )

    def _write(self) -> None:
        """Write the results so far."""
        results = {
            "settings": self.arguments,
            "metric": self.metric,
            "direction": "maximize" if self.is_greater else "minimize",
            "kept": self.kept,
            "seconds": self.spent,
            "recipes": [dataclasses.asdict(candidate) for candidate in self.tried.values()],
            "rivals": [dataclasses.asdict(candidate) for candidate in self.rivals],
        }
        write_results(self.output / RESULTS, results)

    def _keep(self, best: str) -> None:
        """Move the model of the best recipe to the output folder. It can be repeated after it was killed."""
        folder = self.folder / (best if self.num_folds is None else f"{best}-all")
        if self.kept != best:
            if self.num_folds is not None:
                logger.info("Training %s on all rows.", best)
                with open_workers(use_cpu=self.args.use_cpu) as workers:
                    workers.run(self._run(best, folder, do_eval=False, num_folds=None))
            if self.kept is not None:
                self.kept = None
                self._write()
            stays = {RESULTS, RUN, TRIALS, LOCK, UNFINISHED}
            for path in self.output.iterdir():
                if path.name not in stays and path.suffix != ".log":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            self.kept = best
            self._write()
        if folder.is_dir():
            arguments = read_run(folder) | self.arguments
            for path in folder.iterdir():
                is_checkpoint = path.is_dir() and path.name.startswith("checkpoint-")
                if path.name != RUN and (self.args.keep_checkpoints or not is_checkpoint):
                    shutil.move(path, self.output / path.name)
            save_arguments(self.output, arguments)

    def _comparison(self, ranked: list[Candidate]) -> Comparison:
        """Return all candidates and rivals, and what the table says."""
        others = [candidate for candidate in self.tried.values() if candidate.score is None]
        ended = {candidate.name for candidate in (*ranked, *others)}
        others += [Candidate(recipe.name) for recipe in self.recipes if recipe.name not in ended]
        best = ranked[0]
        where = "the validation rows" if self.num_folds is None else f"{self.num_folds} folds of the training rows"
        text = [f"{best.name} is kept: it has the best {self.metric} on {where}."]
        if self.num_folds is not None:
            text.append("The kept model was trained on all training rows.")
        rivals = self._sorted(self.rivals)
        of_rivals = {rival.name: rival.score for rival in rivals if rival.score is not None}
        assert best.score is not None
        if strongest := strongest_rival(best.score, of_rivals, is_greater=self.is_greater):
            rival, value, _ = strongest
            if value == best.score:
                text.append(f"It is level with its rival {rival}, {RIVALS[rival]}.")
            else:
                text.append(f"Its rival {rival}, {RIVALS[rival]}, is better ({value:.4f} against {best.score:.4f}).")
        if unfinished := [candidate.name for candidate in others if not candidate.is_over]:
            text.append(f"Without a score for want of time: {join_names(unfinished)}.")
        return Comparison(self.metric, (*ranked, *others, *rivals), " ".join(text))

    def _describe(self, comparison: Comparison) -> None:
        """Write the comparison into the record and the card of the kept model."""
        record = TrainingRecord.load(self.output)
        if record is not None:
            dataclasses.replace(record, comparison=comparison).save(self.output)
            write_card(self.output, overwrite=None)
