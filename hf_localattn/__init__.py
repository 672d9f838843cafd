"""Local attention for pretrained encoders, as Hugging Face model classes.

Importing this package registers its families with the Auto classes of transformers.
"""

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

_ELSEWHERE = {
    "OnnxModel": ("installed.exported", "OnnxModel"),
    "outlook_attention_matrix": ("families.cool.entry", "outlook_attention_matrix"),
    "LocalAttentionTrainer": ("training.trainer", "LocalAttentionTrainer"),
    "LocalAttentionTrainingArguments": ("training.arguments", "TrainingArguments"),
}
"""Public names outside `hf_localattn.models`: module and attribute."""

if TYPE_CHECKING:
    from hf_localattn import data as data
    from hf_localattn import families as families
    from hf_localattn import hub as hub
    from hf_localattn import inspection as inspection
    from hf_localattn import models as models
    from hf_localattn import resources as resources
    from hf_localattn import tasks as tasks
    from hf_localattn.families.cool.entry import outlook_attention_matrix
    from hf_localattn.installed.exported import OnnxModel
    from hf_localattn.models import *  # noqa: F403
    from hf_localattn.training.arguments import TrainingArguments as LocalAttentionTrainingArguments
    from hf_localattn.training.trainer import LocalAttentionTrainer

    __all__ = ["LocalAttentionTrainer", "LocalAttentionTrainingArguments", "OnnxModel"]
    __all__ += ["__version__", "outlook_attention_matrix"]
    __all__ += models.__all__
else:

    def __getattr__(name: str) -> Any:
        """Import and return a public name, `__all__` or a submodule on first access."""
        if name in _ELSEWHERE:
            module, attribute = _ELSEWHERE[name]
            return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        models = importlib.import_module(f"{__name__}.models")
        if name == "__all__":
            return sorted({"__version__", *_ELSEWHERE, *models.__all__})
        if name in models.__all__:
            return getattr(models, name)
        if importlib.util.find_spec(f"{__name__}.{name}") is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.import_module(f"{__name__}.{name}")

    def __dir__() -> list[str]:
        return __getattr__("__all__")


__version__ = "0.2.0"

if "hf_localattn_command" not in sys.modules:  # the command imports the families only when needed
    importlib.import_module(f"{__name__}.families")
