"""The metrics of GLUE's nine tasks, chosen by the task's name."""

from typing import Any

import datasets
import evaluate
import numpy as np

from hf_localattn.metrics.classification_scores import GLUE_METRICS, SCORES

DESCRIPTION = "What each task of GLUE is scored by: accuracy, F1, Matthews' correlation, Pearson's or Spearman's."

INPUTS_DESCRIPTION = """
Args:
    predictions: the class of each row, as a number from 0; for stsb its score.
    references: likewise.
Returns:
    cola: matthews_correlation; mrpc and qqp: accuracy and f1 (of class 1); stsb: pearson and spearmanr; mnli, qnli,
    rte, sst2 and wnli: accuracy. Between -1 or 0 and 1; a correlation that is not defined is 0.
"""


class Glue(evaluate.Metric):
    """GLUE's metrics with the interface and the configuration names of the evaluate library's metric of this name."""

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
