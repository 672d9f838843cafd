"""Precision, recall and F1 of the words in the scope of a cue (scikit-learn)."""

from itertools import chain

import evaluate
from datasets import Features, List, Value

from hf_localattn.metrics.labeled_sentences import binary_prf, check_lengths

DESCRIPTION = (
    "Precision, recall and F1 of the words in scope over all rows (micro averages), and the share of rows whose whole"
    " scope is right. A row is a sentence with one cue; a sentence with two cues makes two rows."
)

INPUTS_DESCRIPTION = """
Args:
    predictions: predicted scopes, a list per row with 1 for each word in scope and 0 for the others.
    references: true scopes, in the same form.
Returns:
    f1, precision, recall: scores of the words in scope, 0 if undefined.
    scope_exact_match: share of rows without a wrong word, known as percentage of correct scopes (PCS).
Example:
    >>> from hf_localattn.metrics import load_metric
    >>> metric = load_metric("negation_scope")
    >>> metric.compute(predictions=[[0, 1, 1], [0, 1, 0]], references=[[0, 1, 1], [0, 1, 1]])
    {'f1': 0.8571428571428571, 'precision': 1.0, 'recall': 0.75, 'scope_exact_match': 0.5}
"""


class NegationScope(evaluate.Metric):
    """Scores of the scopes of cues."""

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
        return {"f1": f1, "precision": precision, "recall": recall, "scope_exact_match": exact / len(references)}
