"""Metrics of GLUE's nine tasks; the configuration is the name of the task."""

from typing import Any

import datasets
import evaluate
import numpy as np

from hf_localattn.metrics.classification_scores import GLUE_METRICS, SCORES

DESCRIPTION = "Metrics of the GLUE tasks: accuracy, F1, and Matthews, Pearson and Spearman correlation."

INPUTS_DESCRIPTION = """
Args:
    predictions: list of class indices; for "stsb", of scores.
    references: true values, in the same form.
Returns:
    accuracy: for all tasks except "cola" and "stsb", between 0 and 1.
    f1: F1 of class 1, for "mrpc" and "qqp", between 0 and 1.
    matthews_correlation: for "cola", between -1 and 1, 0 if undefined.
    pearson, spearmanr: for "stsb", between -1 and 1, 0 if undefined.
Example:
    >>> from hf_localattn.metrics import load_metric
    >>> metric = load_metric("glue", "mrpc")
    >>> metric.compute(predictions=[1, 1, 0, 0], references=[1, 0, 0, 0])
    {'accuracy': 0.75, 'f1': 0.6666666666666666}
"""


class Glue(evaluate.Metric):
    """Metrics of GLUE, with the interface and the configurations of `glue` in the evaluate library."""

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in GLUE_METRICS:
            raise ValueError(
                f"glue has no configuration {self.config_name!r}; choose one of {', '.join(GLUE_METRICS)}."
            )
        kind = datasets.Value("float32" if self.config_name == "stsb" else "int64")
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Wang et al. 2019, GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language"
            " Understanding, ICLR",
            inputs_description=INPUTS_DESCRIPTION,
            features=datasets.Features({"predictions": kind, "references": kind}),
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        pair = np.asarray(predictions), np.asarray(references)
        return {name: SCORES[name](*pair) for name in GLUE_METRICS[self.config_name]}
