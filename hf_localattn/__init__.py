"""Local attention for pretrained encoders, as Hugging Face model classes.

Importing this package registers its families with the Auto classes of transformers.
"""

import importlib
import importlib.util
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_localattn.inference import Answer, answer_question, find_scope
    from hf_localattn.models import (
        CoolConfig,
        CoolForConditionalGeneration,
        CoolForMultipleChoice,
        CoolForQuestionAnswering,
        CoolForSequenceClassification,
        CoolForTokenClassification,
        CoolModel,
        OaXLNetConfig,
        OaXLNetForMultipleChoice,
        OaXLNetForQuestionAnswering,
        OaXLNetForSequenceClassification,
        OaXLNetForTokenClassification,
        OaXLNetModel,
        OaXLNetTokenizer,
        SamRobertaConfig,
        SamRobertaForMultipleChoice,
        SamRobertaForQuestionAnswering,
        SamRobertaForSequenceClassification,
        SamRobertaForTokenClassification,
        SamRobertaModel,
        SlaBertConfig,
        SlaBertForMultipleChoice,
        SlaBertForQuestionAnswering,
        SlaBertForSequenceClassification,
        SlaBertForTokenClassification,
        SlaBertModel,
        SlaBertTokenizer,
        mark_cues,
        outlook_attention,
        outlook_attention_matrix,
    )
else:

    def __getattr__(name: str) -> Any:
        """Return a public name or a submodule; what it needs is imported when it is asked for."""
        if name in __all__:
            module = "inference" if name in ("Answer", "answer_question", "find_scope") else "models"
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
        if importlib.util.find_spec(f"{__name__}.{name}") is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.import_module(f"{__name__}.{name}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Answer",
    "CoolConfig",
    "CoolForConditionalGeneration",
    "CoolForMultipleChoice",
    "CoolForQuestionAnswering",
    "CoolForSequenceClassification",
    "CoolForTokenClassification",
    "CoolModel",
    "OaXLNetConfig",
    "OaXLNetForMultipleChoice",
    "OaXLNetForQuestionAnswering",
    "OaXLNetForSequenceClassification",
    "OaXLNetForTokenClassification",
    "OaXLNetModel",
    "OaXLNetTokenizer",
    "SamRobertaConfig",
    "SamRobertaForMultipleChoice",
    "SamRobertaForQuestionAnswering",
    "SamRobertaForSequenceClassification",
    "SamRobertaForTokenClassification",
    "SamRobertaModel",
    "SlaBertConfig",
    "SlaBertForMultipleChoice",
    "SlaBertForQuestionAnswering",
    "SlaBertForSequenceClassification",
    "SlaBertForTokenClassification",
    "SlaBertModel",
    "SlaBertTokenizer",
    "__version__",
    "answer_question",
    "find_scope",
    "mark_cues",
    "outlook_attention",
    "outlook_attention_matrix",
]

# Run as a file: an import would be of all models as well.
__version__: str = runpy.run_path(str(Path(__file__).parent / "models" / "package_version.py"))["VERSION"]

if "hf_localattn_command" not in sys.modules:  # each command imports what it needs, and `--help` nothing
    importlib.import_module(f"{__name__}.registry")
