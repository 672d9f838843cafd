"""Precision, recall and F0.5 of the words labeled as errors, as for FCE (scikit-learn)."""

from itertools import chain

import evaluate

from hf_localattn.metrics.labeled_sentences import LABEL_FEATURES, binary_prf, check_lengths

DESCRIPTION = (
    "Precision, recall and F0.5 of incorrect words over all sentences. F0.5 weights precision twice as much as recall,"
    " because a false alarm harms a learner more than a missed error."
)

INPUTS_DESCRIPTION = """
Args:
    predictions: predicted labels, a list per sentence with one label per word.
    references: true labels, in the same form.
    positive_label: label of incorrect words, *optional*, defaults to "i" (FCE: "i" is incorrect, "c" correct).
Returns:
    f0_5, precision, recall: scores of the positive label, 0 if undefined.
Example:
    >>> from hf_localattn.metrics import load_metric
    >>> metric = load_metric("error_detection")
    >>> metric.compute(predictions=[["c", "i", "i"]], references=[["c", "i", "i"]])
    {'f0_5': 1.0, 'precision': 1.0, 'recall': 1.0}
"""


class ErrorDetection(evaluate.Metric):
    """Scores of word-level error detection."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Rei and Yannakoudakis 2016, Compositional Sequence Labeling Models for Error Detection in"
            " Learner Writing, ACL",
            inputs_description=INPUTS_DESCRIPTION,
            features=LABEL_FEATURES,
        )

    def _compute(
        self, predictions: list[list[str]], references: list[list[str]], positive_label: str = "i"
    ) -> dict[str, float]:
        check_lengths(predictions, references)
        predicted, true = (
            [label == positive_label for label in chain.from_iterable(labels)] for labels in (predictions, references)
        )
        precision, recall, f0_5 = binary_prf(predicted, true, beta=0.5)
        return {"f0_5": f0_5, "precision": precision, "recall": recall}
