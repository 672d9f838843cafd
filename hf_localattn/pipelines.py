"""The pipelines that `transformers.pipeline` finds once this package is imported, for checkpoints of any kind."""

from __future__ import annotations

from typing import Any

from transformers import AutoModelForQuestionAnswering, pipelines

from hf_localattn.models.pipeline_question_answering import QuestionAnsweringPipeline

QUESTION_ANSWERING = "question-answering"


class TrainedReader(AutoModelForQuestionAnswering):
    """The Auto class of readers, for checkpoints that bring the weights of their head."""

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
        """As that of the Auto class.

        Raises:
            LookupError: the checkpoint has no question-answering head, so that a new one would answer at random.
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
    """Let `transformers.pipeline` answer questions, unless it does already."""
    known = pipelines.PIPELINE_REGISTRY.supported_tasks
    if QUESTION_ANSWERING in known:
        return
    # Not `register_pipeline`: each stock checkpoint that the pipeline saves would name code that it does not have.
    known[QUESTION_ANSWERING] = {
        "impl": QuestionAnsweringPipeline,
        "pt": (TrainedReader,),
        "default": {"model": ("distilbert/distilbert-base-cased-distilled-squad", "564e9b5")},
        "type": "text",
    }
    getattr(pipelines, "REMOVED_TASKS", {}).pop(QUESTION_ANSWERING, None)
