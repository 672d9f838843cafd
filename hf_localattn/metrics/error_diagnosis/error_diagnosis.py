"""The three levels on which the CGED shared tasks score the errors found in sentences (over scikit-learn, seqeval)."""

import evaluate
from seqeval.metrics.sequence_labeling import get_entities, precision_recall_fscore_support

from hf_localattn.metrics.labeled_sentences import LABEL_FEATURES, as_iobes, binary_prf, check_lengths

DESCRIPTION = """
Precision, recall and F1 of Chinese grammatical error diagnosis (CGED), counted as by the shared task's tool:
detection level: whether a sentence has any error; its errors' number, types and places do not matter;
identification level: which types of error a sentence has, each counted once;
position level: which errors it has, by type, first and last character (what `entities` scores).
"""

INPUTS_DESCRIPTION = """
Args:
    predictions: a list of labels per sentence: "O", or B- or I- and a type of error (IOB, or what `entities` reads).
    references: likewise the true labels, as many.
Returns:
    detection_precision, detection_recall, detection_f1, and the same of identification_ and position_ (micro averages,
    0 where there is nothing to divide by); false_positive_rate: the share of the sentences without an error in which
    one was found, 0 if there are none.
"""


class ErrorDiagnosis(evaluate.Metric):
    """Scores of error diagnosis in the characters of sentences."""

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
            [{entity[0] for entity in get_entities(labels)} for labels in rows] for rows in (predictions, references)
        )
        kinds = sorted(set().union(*found, *there))
        levels = {
            "detection": binary_prf(list(map(bool, found)), list(map(bool, there))),
            "identification": binary_prf(
                [kind in types for types in found for kind in kinds],
                [kind in types for types in there for kind in kinds],
            ),
            "position": precision_recall_fscore_support(references, predictions, average="micro", zero_division=0),
        }
        scores = {
            f"{level}_{name}": float(value)
            for level, values in levels.items()
            for name, value in zip(("precision", "recall", "f1"), values, strict=False)
        }
        alarms = [bool(types) for types, true in zip(found, there, strict=True) if not true]
        return scores | {"false_positive_rate": sum(alarms) / max(len(alarms), 1)}
