"""Pipelines for any checkpoint. They are registered with transformers when this package is imported."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any

import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    pipelines,
)

from hf_localattn.bundled import negation_model
from hf_localattn.extras import import_extra
from hf_localattn.installed.exported import OnnxModel, is_exported
from hf_localattn.installed.files import as_data
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.modeling_local_attention import LocalAttentionPreTrainedModel
from hf_localattn.models.pipeline_negation import NegationPipeline
from hf_localattn.models.pipeline_parsing import ParsingTextClassificationPipeline, ParsingTokenClassificationPipeline
from hf_localattn.models.pipeline_question_answering import QuestionAnsweringPipeline
from hf_localattn.resources import NEGATION
from hf_localattn.resources.english import OTHER_LANGUAGE, is_english

logger = logging.getLogger(__name__)


class InstalledNegationPipeline(NegationPipeline):
    """The pipeline "negation", with a warning of texts that the package's own model does not read.

    Raises:
        ValueError: There is no such device (transformers would take the CPU in place of a number), or an exported
            graph, which runs on the CPU, got another one.
    """

    device: torch.device

    def __init__(self, *args: Any, device: Any = None, **kwargs: Any):
        super().__init__(*args, device=device, **kwargs)
        if isinstance(device, int) and device >= 0 and self.device.type == "cpu":
            raise ValueError(f"`device` is {device}, but PyTorch has no accelerator here: leave it out.")
        if isinstance(self.model, OnnxModel):
            if device is not None and self.device.type != "cpu":
                raise ValueError(f"`device` is {device!r}, but an exported graph runs on the CPU: leave it out.")
            self.device = self.model.device

    def preprocess(self, text: Any, **settings: Any) -> dict[str, Any]:
        """Check that the input is a text, once with a warning if it is not English."""
        is_new = not getattr(self, "_warned", False)
        if is_new and isinstance(text, str) and (warning := language_warning(self.model, text)):
            logger.warning(warning)
            self._warned = True
        return super().preprocess(text, **settings)

    def save_pretrained(self, save_directory: Any, **kwargs: Any) -> None:
        """Save the pipeline as in transformers; of the package's own model the weights in place of the graph."""
        if isinstance(self.model, OnnxModel) and self.model.graph.folder == NEGATION:
            NegationPipeline(model=negation_model()[0], tokenizer=self.tokenizer).save_pretrained(
                save_directory, **kwargs
            )
        else:
            super().save_pretrained(save_directory, **kwargs)


def language_warning(model: Any, text: str) -> str | None:
    """Return a warning if a model is the package's own, which reads English alone, and a text is not English."""
    is_own = getattr(model.config, "name_or_path", None) == str(NEGATION)
    return OTHER_LANGUAGE if is_own and not is_english(text) else None


def uses_onnx() -> bool:
    """Return True if the package's own model runs by ONNX Runtime: where it is installed, unless there is a GPU."""
    return find_spec("onnxruntime") is not None and not torch.accelerator.is_available()


def load_bundled(dtype: Any = "auto") -> Any:
    """Return the package's own model of negation, as a graph of ONNX Runtime if that is installed.

    Args:
        dtype (*optional*): Type of the weights. Another one than float32 is no graph.
    """
    if dtype not in ("auto", "float32", None, torch.float32):
        return negation_model()[0].to(dtype)
    if not uses_onnx():
        return negation_model()[0]
    onnxruntime = import_extra("onnxruntime", "onnx", "The graph of the package's own model")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()  # by default all cores, whatever OMP_NUM_THREADS is
    return negation_model(onnx=True, session_options=options)[0]


def trained(auto_class: Any, task: str, *, models: Any = LocalAttentionPreTrainedModel) -> type:
    """Derive an Auto class that accepts exported folders, and only those checkpoints of `models` that have a head.

    Checkpoints of `models` are read as data; with another task than the package's, those of others as by transformers.
    A pipeline of transformers takes only classes derived from an Auto class.
    """

    def judges(config: Any) -> bool:
        return models is object or isinstance(config, LocalAttentionConfig | None)

    class Trained(auto_class):
        @classmethod
        def from_pretrained(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
            """Load a model as the Auto class does, or an exported folder.

            Raises:
                LookupError: The checkpoint has no head for the task. A new head would answer at random.
            """
            if str(name) == str(NEGATION):
                return load_bundled(kwargs.get("dtype", "auto"))
            if is_exported(name):
                exported = OnnxModel.from_pretrained(name)
                if not type(exported).__name__.endswith(auto_class.__name__.removeprefix("AutoModel")):
                    raise LookupError(
                        f"{str(name)!r} has no {task} head: it is an exported {type(exported).__name__}. Export a"
                        " checkpoint that was fine-tuned on this task."
                    )
                return exported
            arguments = {**kwargs, "output_loading_info": True}
            if kwargs.get("trust_remote_code") or not judges(kwargs.get("config")):
                loaded = auto_class.from_pretrained(name, *args, **arguments)
            else:
                with as_data(name, arguments):
                    loaded = auto_class.from_pretrained(name, *args, **arguments)
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


def names_no_bundled_model(record: logging.LogRecord) -> bool:
    """Return False for transformers' warning that a default model may change: the package's own one does not."""
    return str(NEGATION) not in record.getMessage()


def register_pipelines() -> None:
    """Register the pipelines for negation and, if transformers does not have one, question answering; and SLA's.

    Checkpoints of transformers still get the pipelines of transformers.
    """
    # With `register_pipeline`, stock checkpoints saved by a pipeline would refer to code files that they lack.
    supported = pipelines.PIPELINE_REGISTRY.supported_tasks
    supported["negation"] = {
        "impl": InstalledNegationPipeline,
        "pt": (trained(AutoModelForTokenClassification, "negation"),),
        "default": {"model": (str(NEGATION), None)},
        "type": "text",
    }
    logging.getLogger("transformers.pipelines").addFilter(names_no_bundled_model)
    supported["text-classification"] |= {
        "impl": ParsingTextClassificationPipeline,
        "pt": (trained(AutoModelForSequenceClassification, "text-classification"),),
    }
    supported["token-classification"] |= {
        "impl": ParsingTokenClassificationPipeline,
        "pt": (trained(AutoModelForTokenClassification, "token-classification"),),
    }
    if "question-answering" not in supported:
        supported["question-answering"] = {
            "impl": QuestionAnsweringPipeline,
            "pt": (trained(AutoModelForQuestionAnswering, "question-answering", models=object),),
            "default": {"model": ("distilbert/distilbert-base-cased-distilled-squad", "564e9b5")},
            "type": "text",
        }
        getattr(pipelines, "REMOVED_TASKS", {}).pop("question-answering", None)
