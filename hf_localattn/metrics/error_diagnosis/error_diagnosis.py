"""Scores of the CGED shared tasks on three levels: detection, identification, position (scikit-learn, seqeval)."""

import evaluate

from hf_localattn.extras import LazyExtra
from hf_localattn.metrics.labeled_sentences import LABEL_FEATURES, as_iobes, binary_prf, check_lengths

labeling = LazyExtra("seqeval.metrics.sequence_labeling", "train", "A score of entities")

DESCRIPTION = """
Precision, recall and F1 of Chinese grammatical error diagnosis (CGED), counted as in the shared task's tool.
Detection level: the sentence has an error or not.
Identification level: the set of types of errors in the sentence.
Position level: errors by type, first and last character, as in `entities`.
"""

INPUTS_DESCRIPTION = """
Args:
    predictions: predicted labels, a list per sentence: "O", or B- or I- and a type of error. The other schemes of
        `entities` are read, too.
    references: true labels, in the same form.
Returns:
    detection_precision, detection_recall, detection_f1: scores on the detection level, 0 if undefined. The same with
        identification_ and position_, as micro averages.
    false_positive_rate: share of correct sentences in which an error was found, 0 if there is no correct sentence.
Example:
    >>> from hf_localattn.metrics import load_metric
    >>> metric = load_metric("error_diagnosis")
    >>> scores = metric.compute(predictions=[["B-R", "O"], ["B-S", "O"]], references=[["B-R", "O"], ["O", "O"]])
    >>> scores["detection_precision"], scores["position_recall"], scores["false_positive_rate"]
    (0.5, 1.0, 1.0)
"""


class ErrorDiagnosis(evaluate.Metric):
    """Scores of character-level error diagnosis."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Lee et al. 2016, Overview of NLP-TEA 2016 Shared Task for Chinese Grammatical Error Diagnosis,"
            " NLPTEA; Rao et al. 2018, Overview of NLPTEA-2018 Share Task Chinese Grammatical Error Diagnosis, NLPTEA",
            inputs_description=INPUTS_DESCRIPTION,
            features=LABEL_FEATURES,
        )

    def _compute(self, predictions: list[list[str]], references: list[list[str]]) -> dict[str, float]:
        check_lengths(predictions, references)
        predictions, references = as_iobes(predictions), as_iobes(references)
        found, there = (
            [{entity[0] for entity in labeling.get_entities(labels)} for labels in rows]
            for rows in (predictions, references)
        )
        kinds = sorted(set().union(*found, *there))
        levels = {
            "detection": binary_prf(list(map(bool, found)), list(map(bool, there))),
            "identification": binary_prf(
                [kind in types for types in found for kind in kinds],
                [kind in types for types in there for kind in kinds],
            ),
            "position": labeling.precision_recall_fscore_support(
                references, predictions, average="micro", zero_division=0
            ),
        }
        scores = {
            f"{level}_{name}": float(value)
            for level, values in levels.items()
            for name, value in zip(("precision", "recall", "f1"), values, strict=False)
        }
        alarms = [bool(types) for types, true in zip(found, there, strict=True) if not true]
        return scores | {"false_positive_rate": sum(alarms) / max(len(alarms), 1)}
