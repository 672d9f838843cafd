"""Precision, recall and F1 of entities (seqeval), and accuracy of all labels."""

import evaluate

from hf_localattn.extras import LazyExtra
from hf_localattn.metrics.labeled_sentences import LABEL_FEATURES, as_iobes, check_lengths

labeling = LazyExtra("seqeval.metrics.sequence_labeling", "train", "A score of entities")

DESCRIPTION = (
    "Precision, recall and F1 of entities. An entity is right if its first word, its last word and its type are right."
)

INPUTS_DESCRIPTION = """
Args:
    predictions: predicted labels, a list per sentence. A label is "O", or a letter of the scheme, "-" and a type;
        schemes are IOB, IOE, IOBES, BILOU and BMES. An entity may begin without B-, as in conlleval.
    references: true labels, in the same form.
Returns:
    overall_precision, overall_recall, overall_f1: micro averages over all types, 0 if undefined.
    overall_accuracy: share of words with the right label.
    <type>: precision, recall, f1 and number (of true entities) of each type.
Example:
    >>> from hf_localattn.metrics import load_metric
    >>> metric = load_metric("entities")
    >>> scores = metric.compute(predictions=[["B-PER", "O", "O"]], references=[["B-PER", "O", "B-LOC"]])
    >>> scores["overall_precision"], scores["overall_recall"]
    (1.0, 0.5)
"""


class Entities(evaluate.Metric):
    """Scores of entities, with the interface of `seqeval` in the evaluate library."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Ramshaw and Marcus 1995, Text Chunking using Transformation-Based Learning, WVLC;"
            " Nakayama 2018, seqeval, https://github.com/chakki-works/seqeval",
            inputs_description=INPUTS_DESCRIPTION,
            features=LABEL_FEATURES,
        )

    def _compute(self, predictions: list[list[str]], references: list[list[str]]) -> dict:
        check_lengths(predictions, references)
        predictions, references = as_iobes(predictions), as_iobes(references)
        types = sorted(
            {entity[0] for entity in [*labeling.get_entities(references), *labeling.get_entities(predictions)]}
        )
        by_type = labeling.precision_recall_fscore_support(references, predictions, average=None, zero_division=0)
        result: dict = {
            name: {"precision": float(precision), "recall": float(recall), "f1": float(f1), "number": int(number)}
            for name, precision, recall, f1, number in zip(types, *by_type, strict=True)
        }
        overall = labeling.precision_recall_fscore_support(references, predictions, average="micro", zero_division=0)
        names = ("overall_precision", "overall_recall", "overall_f1")
        result |= {name: float(value) for name, value in zip(names, overall, strict=False)}
        words = any(references)
        return result | {"overall_accuracy": float(labeling.accuracy_score(references, predictions)) if words else 0.0}
