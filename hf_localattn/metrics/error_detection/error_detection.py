"""Precision, recall and F0.5 of the words that are labeled as errors, as for FCE (over scikit-learn)."""

from itertools import chain

import evaluate

from hf_localattn.metrics.labeled_sentences import LABEL_FEATURES, binary_prf, check_lengths

DESCRIPTION = (
    "Precision, recall and F0.5 of the words that are wrong, all sentences together. F0.5 counts precision twice as"
    " much as recall: a false alarm does a learner more harm than an error that goes unnoticed."
)

INPUTS_DESCRIPTION = """
Args:
    predictions: a list of labels per sentence, one for each word.
    references: likewise the true labels, as many.
    positive_label: the label of words that are wrong, by default "i" (FCE: "i" for incorrect, "c" for correct).
Returns:
    f0_5, precision and recall of the positive label; 0 where there is nothing to divide by.
"""


class ErrorDetection(evaluate.Metric):
    """Scores of error detection in the words of sentences."""

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
