"""Precision, recall and F1 of the words that are in the scope of a cue (over scikit-learn)."""

from itertools import chain

import evaluate
from datasets import Features, List, Value

from hf_localattn.metrics.labeled_sentences import binary_prf, check_lengths

DESCRIPTION = (
    "Precision, recall and F1 of the words in scope, the words of all rows together (micro average), and the share of"
    " rows whose whole scope is right. A row is a sentence with one cue; a sentence with two cues is two rows."
)

INPUTS_DESCRIPTION = """
Args:
    predictions: a list per row, 1 for each word in scope and 0 for each other word.
    references: likewise the true scopes, as long.
Returns:
    f1, precision and recall of the words in scope, 0 where there is nothing to divide by; exact_scope: the share of
    rows with no word wrong (of an empty scope: with no word predicted; known as PCS).
"""


class NegationScope(evaluate.Metric):
    """Scores of the scopes of cues in sentences."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Morante and Blanco 2012, *SEM 2012 Shared Task: Resolving the Scope and Focus of Negation, *SEM;"
            " Khandelwal and Sawant 2020, NegBERT: A Transfer Learning Approach for Negation Detection and Scope"
            " Resolution, LREC",
            inputs_description=INPUTS_DESCRIPTION,
            features=Features({"predictions": List(Value("int64")), "references": List(Value("int64"))}),
        )

    def _compute(self, predictions: list[list[int]], references: list[list[int]]) -> dict[str, float]:
        check_lengths(predictions, references)
        for name, rows in (("predictions", predictions), ("references", references)):
            if others := sorted(set(chain.from_iterable(rows)) - {0, 1}):
                raise ValueError(f"{name}: {others[0]} is neither 0 nor 1; mark the words in scope by 1.")
        predicted, true = ([word == 1 for word in chain.from_iterable(rows)] for rows in (predictions, references))
        precision, recall, f1 = binary_prf(predicted, true)
        exact = sum(map(list.__eq__, predictions, references))
        return {"f1": f1, "precision": precision, "recall": recall, "exact_scope": exact / len(references)}
