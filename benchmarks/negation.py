"""Score negation systems on sentences with target phrases: `python -m benchmarks.negation CHECKPOINT`.

`negation_traps.jsonl` has 200 sentences that mislead rules, with a target phrase each. `negation_clinical.jsonl` has
44 sentences of clinical notes with 122 findings, written by an author who had not seen the training data. The systems
decide if the text negates the target. A target is negated if the text says that it does not hold. Possible,
conditional and doubly negated targets are not.

A rule system is scored where it is installed: medspaCy and negspacy need different releases of spaCy, so each has an
environment of its own. There neither PyTorch nor the package is needed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

TRAPS = Path(__file__).parent / "negation_traps.jsonl"
SHIPPED = "negation-en"
"""Name of the model that comes with the package."""

LIBRARIES = ("hf_localattn", "torch", "transformers", "spacy", "negspacy", "medspacy")
"""What may change a score."""

TERMS = ("en_clinical", "en")
MEASURES = ("accuracy", "precision", "recall", "f1")
SAMPLES = 2000
"""Bootstrap samples of the rows."""


@dataclass(frozen=True)
class Trap:
    """A text with a target phrase.

    Attributes:
        id: Name of the row.
        category: Construction that misleads rules.
        domain: "clinical" or "general".
        text: A sentence, or a line of a clinical note.
        target: The phrase; the rest of a word, if the construction is an affix.
        start: Offset of the target in the text.
        negated: True if the text negates the target.
    """

    id: str
    category: str
    domain: str
    text: str
    target: str
    start: int
    negated: bool

    @property
    def end(self) -> int:
        return self.start + len(self.target)


def read_traps(path: Path = TRAPS) -> list[Trap]:
    """Read the rows of a file."""
    return [Trap(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def is_negated(trap: Trap, negations: Sequence[dict[str, Any]]) -> bool:
    """Return True if the pipeline's results negate the target.

    A negation cue negates the target if at least half of the target's characters are in its scope, not counting white
    space, or if it is an affix of the target: `in` negates `frequent` in `infrequent`.
    """
    target = {index for index in range(trap.start, trap.end) if not trap.text[index].isspace()}
    for negation in negations:
        if negation["kind"] != "negation":
            continue
        scope = set[int]()
        for span in negation["scope"]:
            scope.update(range(span["start"], span["end"]))
        if 2 * len(target & scope) >= len(target):
            return True
        if negation["type"] == "affix" and _is_affix_of(trap, negation["cue"][0]):
            return True
    return False


def _is_affix_of(trap: Trap, affix: dict[str, Any]) -> bool:
    """Return True if the affix is directly before or after the target."""
    if affix["end"] <= trap.start:
        return trap.text[affix["end"] : trap.start] in ("", "-")
    return trap.end <= affix["start"] and trap.text[trap.end : affix["start"]] in ("", "-")


def checkpoint_predictions(
    checkpoint: str, convention: str, traps: Sequence[Trap], split_lines: bool | None = None
) -> list[bool]:
    """Run a checkpoint on all texts, or the model of the package as its users run it."""
    texts = [trap.text for trap in traps]
    if checkpoint == SHIPPED:
        from hf_localattn.negation import finder

        results = finder(convention=convention, split_lines=split_lines)(texts)
    else:
        from transformers import pipeline

        import hf_localattn  # noqa: F401 (registers the models)

        pipe = pipeline("negation", model=checkpoint)
        results = pipe(texts, convention=convention, split_lines=split_lines, batch_size=16)
    return [is_negated(trap, negations) for trap, negations in zip(traps, results, strict=True)]


def negspacy_predictions(terms: str, traps: Sequence[Trap]) -> list[bool]:
    """Run negspacy with one of its sets of terms."""
    from negspacy.negation import Negex  # noqa: F401 (registers the component)
    from negspacy.termsets import termset

    return _rule_predictions("negex", {"neg_termset": termset(terms).get_patterns()}, "negex", traps)


def context_predictions(traps: Sequence[Trap]) -> list[bool]:
    """Run medspaCy's ConText with its own rules."""
    import medspacy.context  # noqa: F401 (registers the component)

    return _rule_predictions("medspacy_context", {}, "is_negated", traps)


def _rule_predictions(name: str, settings: dict[str, Any], attribute: str, traps: Sequence[Trap]) -> list[bool]:
    """Run a component of spaCy. The only entity of a text is its target, or the word that the target is a part of."""
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe(name, config=settings)
    predictions = []
    for trap in traps:
        doc = nlp.make_doc(trap.text)
        doc.ents = [doc.char_span(trap.start, trap.end, label="TARGET", alignment_mode="expand")]
        predictions.append(bool(getattr(nlp(doc).ents[0]._, attribute)))
    return predictions


def constant_predictions(answer: bool, traps: Sequence[Trap]) -> list[bool]:
    return [answer] * len(traps)


def scores(gold: Sequence[bool], predicted: Sequence[bool]) -> dict[str, Any]:
    """Return accuracy, and precision, recall and F1 of "negated", with 95 % bootstrap intervals.

    Returns:
        `count` (number of rows), `negated` (number of negated rows), and for each measure a dict with `value` and
        `interval`. Both are None if the measure is undefined, for example the precision without a positive prediction.
        All calls with the same number of rows draw the same samples.
    """
    truth = np.asarray(gold, dtype=bool)
    answers = np.asarray(predicted, dtype=bool)
    draws = np.random.default_rng(0).integers(len(truth), size=(SAMPLES, len(truth)))
    result: dict[str, Any] = {"count": len(truth), "negated": int(truth.sum())}
    values = _measures(truth, answers)
    samples = _measures(truth[draws], answers[draws])
    for name, value, drawn in zip(MEASURES, values, samples, strict=True):
        result[name] = {"value": None, "interval": None}
        if not np.isnan(value):
            interval = np.nanpercentile(drawn, [2.5, 97.5]).round(4).tolist()
            result[name] = {"value": round(float(value), 4), "interval": interval}
    return result


def _measures(gold: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the measures over the last dimension, NaN where one is undefined."""
    both = (gold & predicted).sum(axis=-1)
    positive = predicted.sum(axis=-1)
    negated = gold.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return (gold == predicted).mean(axis=-1), both / positive, both / negated, 2 * both / (positive + negated)


def evaluate(predict: Callable[[Sequence[Trap]], list[bool]], traps: Sequence[Trap]) -> dict[str, Any]:
    """Return the scores of a system on all rows, by domain and by category, and the rows with wrong predictions."""
    predicted = dict(zip(traps, predict(traps), strict=True))

    def part(rows: Sequence[Trap]) -> dict[str, Any]:
        return scores([row.negated for row in rows], [predicted[row] for row in rows])

    result: dict[str, Any] = {"all": part(traps)}
    for field in ("domain", "category"):
        groups: dict[str, list[Trap]] = {}
        for row in traps:
            groups.setdefault(getattr(row, field), []).append(row)
        result[field] = {value: part(rows) for value, rows in groups.items()}
    result["wrong"] = [row.id for row in traps if predicted[row] != row.negated]
    return result


def run(
    checkpoints: Sequence[str], conventions: Sequence[str], traps: Sequence[Trap], **settings: Any
) -> dict[str, Any]:
    """Evaluate the checkpoints, the rule systems that are installed, and both constant answers."""
    systems: dict[str, Any] = {}
    for checkpoint in checkpoints:
        for convention in conventions:
            answer_traps = partial(checkpoint_predictions, checkpoint, convention, **settings)
            systems[f"{checkpoint}, {convention}"] = evaluate(answer_traps, traps)
    rules: dict[str, tuple[str, Callable[[Sequence[Trap]], list[bool]]]] = {
        f"negspacy {terms}": ("negspacy", partial(negspacy_predictions, terms)) for terms in TERMS
    }
    rules["medspaCy ConText"] = ("medspacy", context_predictions)
    for name, (library, predict) in rules.items():
        try:
            systems[name] = evaluate(predict, traps)
        except ImportError as error:
            systems[name] = {"skipped": f"{error}; `pip install {library}`, in an environment of its own"}
    for answer, name in ((True, "always negated"), (False, "never negated")):
        systems[name] = evaluate(partial(constant_predictions, answer), traps)
    return {"versions": versions(), "systems": systems}


def versions() -> dict[str, str]:
    """Return the releases of what is installed of `LIBRARIES`."""
    installed = {}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def report(result: dict[str, Any]) -> str:
    """Return the scores as tables: measures with intervals, whole and by domain; accuracy by category."""
    systems = {}
    lines = []
    for name, scored in result["systems"].items():
        if "skipped" in scored:
            lines.append(f"{name}: skipped ({scored['skipped']})")
        else:
            systems[name] = scored
    width = max(map(len, systems))
    parts = {name: {"all": scored["all"], **scored["domain"]} for name, scored in systems.items()}
    first = next(iter(systems.values()))
    for part in ("all", *first["domain"]):
        lines.append(f"\n{part:{width}}" + "".join(f"  {name:20}" for name in MEASURES))
        for name, scored in parts.items():
            lines.append(f"{name:{width}}" + "".join(f"  {_cell(scored[part][measure]):20}" for measure in MEASURES))
    lines.append("\nAccuracy by category; columns: " + ", ".join(systems))
    for value, part in first["category"].items():
        accuracies = [f"{scored['category'][value]['accuracy']['value']:7.2f}" for scored in systems.values()]
        lines.append(f"{value:16}{part['negated']:4} of {part['count']:3} negated" + "".join(accuracies))
    return "\n".join(lines)


def _cell(measure: dict[str, Any]) -> str:
    if measure["value"] is None:
        return "-"
    low, high = measure["interval"]
    return f"{measure['value']:.3f} ({low:.3f}-{high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.negation", description=__doc__)
    checkpoints = f"for `pipeline('negation')`; {SHIPPED!r} is the model of the package"
    parser.add_argument("checkpoints", nargs="*", metavar="CHECKPOINT", help=checkpoints)
    parser.add_argument("--conventions", nargs="+", default=["stories"], help="of the checkpoints' answers")
    parser.add_argument("--rows", type=Path, default=TRAPS, metavar="FILE", help="by default the 200 sentences")
    parser.add_argument("--no-lines", action="store_true", help="read no lines of notes")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    settings = {"split_lines": False} if arguments.no_lines else {}
    result = run(arguments.checkpoints, arguments.conventions, read_traps(arguments.rows), **settings)
    print(report(result))
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
