"""Pipelines for any checkpoint. They are registered with transformers when this package is imported."""

from __future__ import annotations

from typing import Any

from transformers import AutoModelForQuestionAnswering, AutoModelForTokenClassification, pipelines

from hf_localattn.models.pipeline_negation import NegationPipeline
from hf_localattn.models.pipeline_question_answering import QuestionAnsweringPipeline

QUESTION_ANSWERING = "question-answering"
NEGATION = "negation"


class TrainedReader(AutoModelForQuestionAnswering):
    """Auto class for question answering that accepts only checkpoints with the weights of their head."""

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
        """Load a model as `AutoModelForQuestionAnswering.from_pretrained` does.

        Args:
            name: Hub id or folder of the checkpoint.
            *args: Positional arguments of the Auto class.
            **kwargs: Keyword arguments of the Auto class.

        Raises:
            LookupError: The checkpoint has no question-answering head. A new head would answer at random.
        """
        model, report = AutoModelForQuestionAnswering.from_pretrained(
            name, *args, **{**kwargs, "output_loading_info": True}
        )
        inside = f"{model.base_model_prefix}."
        missing = sorted(key for key in report["missing_keys"] if not key.startswith(inside))
        if missing:
            classes = ", ".join(model.config.architectures or ()) or "no known class"
            raise LookupError(
                f"{str(name)!r} has no question-answering head: it is a checkpoint of {classes} and lacks weights such"
                f" as {missing[0]!r}. Fine-tune it on questions first, or take another."
            )
        return model


def register_pipelines() -> None:
    """Register the pipelines for negation and, if transformers does not have one, question answering."""
    # With `register_pipeline`, stock checkpoints saved by a pipeline would refer to code files that they lack.
    known = pipelines.PIPELINE_REGISTRY.supported_tasks
    known[NEGATION] = {"impl": NegationPipeline, "pt": (AutoModelForTokenClassification,), "type": "text"}
    if QUESTION_ANSWERING in known:
        return
    known[QUESTION_ANSWERING] = {
        "impl": QuestionAnsweringPipeline,
        "pt": (TrainedReader,),
        "default": {"model": ("distilbert/distilbert-base-cased-distilled-squad", "564e9b5")},
        "type": "text",
    }
    getattr(pipelines, "REMOVED_TASKS", {}).pop(QUESTION_ANSWERING, None)
