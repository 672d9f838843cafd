"""Metrics as functions, and as `evaluate` modules that need no network."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hf_localattn.extras import require

require("train", __name__)

import evaluate
from datasets import Features, List, Value

from hf_localattn.errors import loading
from hf_localattn.metrics.classification_scores import GLUE_METRICS, glue
from hf_localattn.metrics.generation_scores import generation
from hf_localattn.metrics.squad_scores import squad, squad_v2
from hf_localattn.metrics.starsem_scores import starsem
from hf_localattn.metrics.word_scores import entities, error_detection, error_diagnosis, negation_scope

_CLASS = Value("int64")
_TEXT = Value("string")
_TEXTS = List(_TEXT)
_ANSWERS = {"id": _TEXT, "answers": {"text": _TEXTS, "answer_start": List(Value("int32"))}}
_PREDICTION = {"predictions": {"id": _TEXT, "prediction_text": _TEXT}}
_UNSURE = {"predictions": {**_PREDICTION["predictions"], "no_answer_probability": Value("float64")}}
_NEGATIONS = List({"cue_text": _TEXTS, "scope_text": _TEXTS})

Metric = Callable[..., dict[str, Any]]

METRICS: dict[str, tuple[Metric, Any, dict[str, Any], str]] = {
    "entities": (entities, _TEXTS, {}, "Ramshaw and Marcus 1995, WVLC; Nakayama 2018, seqeval"),
    "error_detection": (error_detection, _TEXTS, {}, "Rei and Yannakoudakis 2016, ACL"),
    "error_diagnosis": (error_diagnosis, _TEXTS, {}, "Lee et al. 2016, NLPTEA; Rao et al. 2018, NLPTEA"),
    "generation": (generation, _TEXT, {}, "Papineni et al. 2002; Post 2018; Lin 2004; Lavie and Agarwal 2007"),
    "glue": (glue, _CLASS, {}, "Wang et al. 2019, ICLR"),
    "negation_scope": (negation_scope, List(_CLASS), {}, "Morante and Blanco 2012; Khandelwal et al. 2020"),
    "squad": (squad, _ANSWERS, _PREDICTION, "Rajpurkar et al. 2016, EMNLP"),
    "squad_v2": (squad_v2, _ANSWERS, _UNSURE, "Rajpurkar et al. 2018, ACL"),
    "starsem": (starsem, _NEGATIONS, {"pos": _TEXTS}, "Morante and Blanco 2012, *SEM; Sineva et al. 2021, CoNLL"),
}
"""Function, type of predictions and references, further or other inputs, and source of each metric."""


class FunctionMetric(evaluate.Metric):
    """`evaluate` module of a function of the columns of `features` and of options, which its docstring describes."""

    def __init__(self, name: str, function: Metric, features: Features, citation: str, config_name: str | None = None):
        self.function = function
        documented = getattr(function, "func", function)
        description, _, inputs = (documented.__doc__ or "").partition("\n\n")
        self._described = evaluate.MetricInfo(
            description=description, citation=citation, features=features, inputs_description=inputs
        )
        super().__init__(config_name, keep_in_memory=True)  # no files to lock or to clean up
        self.info.module_name = name  # `evaluate.combine` tells scores apart by it

    def _info(self) -> evaluate.MetricInfo:
        return self._described

    def _compute(self, **inputs: Any) -> dict[str, Any]:
        return self.function(**inputs)


def load_metric(name: str, config_name: str | None = None) -> evaluate.EvaluationModule:
    """Load a metric of this package without network access, or any other module of the `evaluate` library.

    Args:
        name: One of "entities", "error_detection", "error_diagnosis", "generation", "glue", "negation_scope", "squad",
            "squad_v2" and "starsem". Other names are those of modules on the Hub, or paths of local modules, whose
            code is executed.
        config_name (*optional*): Task of "glue", or configuration of a module elsewhere.

    Returns:
        A module whose `inputs_description` describes its inputs and scores.

    Raises:
        ValueError: There is no configuration with this name.
        OSError: There is no metric with this name.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> load_metric("glue", "sst2").compute(predictions=[0, 1, 1, 1], references=[0, 1, 1, 0])
        {'accuracy': 0.75}
    """
    if name not in METRICS:
        with loading(f"metric (none of {', '.join(METRICS)})", name):
            return evaluate.load(name, config_name)
    function, value_type, other_inputs, citation = METRICS[name]
    if name == "glue":
        if config_name not in GLUE_METRICS:
            raise ValueError(f"glue has no configuration {config_name!r}; choose one of {', '.join(GLUE_METRICS)}.")
        function = functools.partial(glue, task=config_name)
        if config_name == "stsb":
            value_type = Value("float64")
    features = Features({"predictions": value_type, "references": value_type, **other_inputs})
    return FunctionMetric(name, function, features, citation, config_name)
