"""Precision, recall and F1 of whole entities (seqeval), and accuracy of their labels."""

import datasets
import evaluate
from seqeval.metrics import accuracy_score
from seqeval.metrics.sequence_labeling import get_entities, precision_recall_fscore_support

DESCRIPTION = (
    "Precision, recall and F1 of entities, which count if their first and last word and their type are right."
)

INPUTS_DESCRIPTION = """
Args:
    predictions: a list of labels per sentence: "O", or B-, I-, E- or S- and a type (IOB, IOE, IOBES). L-, U- (BILOU)
        and M- (BMES) stand for E-, S- and I-.
    references: likewise the true labels, as many.
Returns:
    overall_precision, overall_recall, overall_f1 (micro averages, 0 where there is nothing to divide by) and
    overall_accuracy (share of words with the right label); and for each type {"precision", "recall", "f1", "number"}.
    An entity may begin without B-, as in conlleval.
"""

# seqeval reads IOBES; the other schemes say the same by other letters.
SAME_LETTERS = {"L": "E", "U": "S", "M": "I"}


class Entities(evaluate.Metric):
    """Scores of entities with the interface of the evaluate library's metric seqeval."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Ramshaw and Marcus 1995, Text Chunking using Transformation-Based Learning, WVLC;"
            " Nakayama 2018, seqeval, https://github.com/chakki-works/seqeval",
            inputs_description=INPUTS_DESCRIPTION,
            features=datasets.Features(
                {
                    "predictions": datasets.List(datasets.Value("string")),
                    "references": datasets.List(datasets.Value("string")),
                }
            ),
        )

    def _compute(self, predictions: list[list[str]], references: list[list[str]]) -> dict:
        for number, (predicted, true) in enumerate(zip(predictions, references, strict=True), start=1):
            if len(predicted) != len(true):
                raise ValueError(f"sentence {number}: {len(predicted)} predicted labels, but {len(true)} true ones.")
        predictions, references = _as_iobes(predictions), _as_iobes(references)
        types = sorted({entity[0] for entity in [*get_entities(references), *get_entities(predictions)]})
        by_type = precision_recall_fscore_support(references, predictions, average=None, zero_division=0)
        result: dict = {
            name: {"precision": float(precision), "recall": float(recall), "f1": float(f1), "number": int(number)}
            for name, precision, recall, f1, number in zip(types, *by_type, strict=True)
        }
        overall = precision_recall_fscore_support(references, predictions, average="micro", zero_division=0)
        names = ("overall_precision", "overall_recall", "overall_f1")
        result |= {name: float(value) for name, value in zip(names, overall, strict=False)}
        words = any(references)
        return result | {"overall_accuracy": float(accuracy_score(references, predictions)) if words else 0.0}


def _as_iobes(sentences: list[list[str]]) -> list[list[str]]:
    return [[SAME_LETTERS.get(label[:1], label[:1]) + label[1:] for label in labels] for labels in sentences]
