"""Pipelines for any checkpoint. They are registered with transformers when this package is imported."""

from __future__ import annotations

from typing import Any

from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    pipelines,
)

from hf_localattn.exported import OnnxModel, is_exported
from hf_localattn.models.modeling_local_attention import LocalAttentionPreTrainedModel
from hf_localattn.models.pipeline_negation import NegationPipeline
from hf_localattn.models.pipeline_parsing import ParsingTextClassificationPipeline, ParsingTokenClassificationPipeline
from hf_localattn.models.pipeline_question_answering import QuestionAnsweringPipeline


def trained(auto_class: Any, task: str, *, models: Any = LocalAttentionPreTrainedModel) -> type:
    """Derive an Auto class that accepts exported folders, and only those checkpoints of `models` that have a head."""

    class Trained(auto_class):
        @classmethod
        def from_pretrained(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
            """Load a model as the Auto class does, or an exported folder.

            Raises:
                LookupError: The checkpoint has no head for the task. A new head would answer at random.
            """
            if is_exported(name):
                exported = OnnxModel.from_pretrained(name)
                if auto_class._model_mapping[type(exported.config)].__name__ != type(exported).__name__:
                    raise LookupError(
                        f"{str(name)!r} has no {task} head: it is an exported {type(exported).__name__}. Export a"
                        " checkpoint that was fine-tuned on this task."
                    )
                return exported
            loaded = auto_class.from_pretrained(name, *args, **{**kwargs, "output_loading_info": True})
            if not isinstance(loaded, tuple):  # code of a checkpoint that gives no report
                return loaded
            model, report = loaded
            inside = f"{model.base_model_prefix}."
            missing = sorted(key for key in report["missing_keys"] if not key.startswith(inside))
            if missing and isinstance(model, models):
                classes = ", ".join(model.config.architectures or ()) or "no known class"
                raise LookupError(
                    f"{str(name)!r} has no {task} head: it is a checkpoint of {classes} and lacks weights such as"
                    f" {missing[0]!r}. Fine-tune it on this task first, or take another."
                )
            return model

    return Trained


def register_pipelines() -> None:
    """Register the pipelines for negation and, if transformers does not have one, question answering; and SLA's.

    Checkpoints of transformers still get the pipelines of transformers.
    """
    # With `register_pipeline`, stock checkpoints saved by a pipeline would refer to code files that they lack.
    known = pipelines.PIPELINE_REGISTRY.supported_tasks
    known["negation"] = {
        "impl": NegationPipeline,
        "pt": (trained(AutoModelForTokenClassification, "negation"),),
        "type": "text",
    }
    for pipeline_class, auto_class, task in (
        (ParsingTextClassificationPipeline, AutoModelForSequenceClassification, "text-classification"),
        (ParsingTokenClassificationPipeline, AutoModelForTokenClassification, "token-classification"),
    ):
        known[task] |= {"impl": pipeline_class, "pt": (trained(auto_class, task),)}
    if "question-answering" not in known:
        known["question-answering"] = {
            "impl": QuestionAnsweringPipeline,
            "pt": (trained(AutoModelForQuestionAnswering, "question-answering", models=object),),
            "default": {"model": ("distilbert/distilbert-base-cased-distilled-squad", "564e9b5")},
            "type": "text",
        }
        getattr(pipelines, "REMOVED_TASKS", {}).pop("question-answering", None)
