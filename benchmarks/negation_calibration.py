"""Fit the scores of decisions to the share of right ones: `python -m benchmarks.negation_calibration`.

It decides on the findings in notes of `negation_clinical.jsonl` and `negation_unseen.jsonl`, and writes
`hf_localattn/negation/calibration.json`. No model was trained on these rows, but some sentences of the training were
written after errors on the first file. Run it after a change of the model. With --rows it scores that file on other
rows, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.negation import Trap, read_traps
from hf_localattn.negation import decide, finder
from hf_localattn.negation.decisions import CALIBRATION, Calibration, Decision

FOLDER = Path(__file__).parent
FITTED_ON = ("negation_clinical.jsonl", "negation_unseen.jsonl")
"""Not the sentences that mislead rules: systems err there more often than in notes."""
AS_IT_IS = Calibration()
TEMPERATURES = np.linspace(1, 8, 141)
UNMARKED = np.linspace(0.01, 0.4, 40)
BINS = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Ends of the ranges of certainty in which decisions are counted."""


def decisions(rows: Sequence[Trap], calibrations: Sequence[Calibration]) -> list[list[Decision]]:
    """Return by each calibration the decision on each target."""
    found = finder(convention="notes")([row.text for row in rows])
    return [
        [
            decide(row.text, row.start, row.end, findings, calibration=calibration)
            for row, findings in zip(rows, found, strict=True)
        ]
        for calibration in calibrations
    ]


def scores(decided: Sequence[Sequence[Decision]]) -> np.ndarray:
    """Return the probability (calibrations, rows) that each target is negated."""
    return np.array([[decision.score for decision in some] for some in decided])


def losses(negated: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the negative log likelihood of the truth, over the last dimension."""
    return -np.log(np.where(negated, probabilities, 1 - probabilities)).mean(axis=-1)


def fit(rows: Sequence[Trap]) -> Calibration:
    """Return the calibration with the least loss on rows."""
    negated = np.array([row.negated for row in rows])
    by_temperature = scores(decisions(rows, [Calibration(float(value)) for value in TEMPERATURES]))
    temperature = float(TEMPERATURES[losses(negated, by_temperature).argmin()])
    by_unmarked = scores(decisions(rows, [Calibration(temperature, float(value)) for value in UNMARKED]))
    return Calibration(round(temperature, 2), round(float(UNMARKED[losses(negated, by_unmarked).argmin()]), 2))


def report(rows: Sequence[Trap], calibration: Calibration) -> tuple[dict[str, float], list[tuple[int, float, float]]]:
    """Return how sure right and wrong decisions are; and number, certainty and share of right ones by certainty."""
    negated = np.array([row.negated for row in rows])
    decided = decisions(rows, [calibration])
    (probabilities,) = scores(decided)
    right = np.array([decision.negated for decision in decided[0]]) == negated
    sure = np.maximum(probabilities, 1 - probabilities)
    bins = np.digitize(sure, BINS[1:-1])
    inside = [bins == index for index in sorted(set(bins))]
    reliability = [(int(some.sum()), float(sure[some].mean()), float(right[some].mean())) for some in inside]
    summary = {
        "rows": len(rows),
        "accuracy": float(right.mean()),
        "certainty of right": float(sure[right].mean()),
        "certainty of wrong": float(sure[~right].mean()) if not right.all() else float("nan"),
        "certainty": float(sure.mean()),
        "calibration error": sum(count * abs(sure_of - share) for count, sure_of, share in reliability) / len(rows),
        "loss": float(losses(negated, probabilities)),
    }
    return summary, reliability


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.negation_calibration", description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="score these rows only; nothing is written")
    arguments = parser.parse_args()
    if arguments.rows is None:
        rows = [row for name in FITTED_ON for row in read_traps(FOLDER / name)]
        calibration = fit(rows)
        content = {"temperature": calibration.temperature, "unmarked": calibration.unmarked, "rows": len(rows)}
        CALIBRATION.write_text(json.dumps(content) + "\n", encoding="utf-8")
    else:
        rows = read_traps(arguments.rows)
        calibration = Calibration.load()
    for name, chosen in (("as it is", AS_IT_IS), (str(calibration), calibration)):
        summary, reliability = report(rows, chosen)
        print(name, {key: round(value, 3) for key, value in summary.items()})
        for count, certainty, share in reliability:
            print(f"  {count:4} decisions, certainty {certainty:.3f}, right {share:.3f}")


if __name__ == "__main__":
    main()
