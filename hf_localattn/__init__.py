"""Local attention for pretrained encoders, as Hugging Face model classes.

Importing this package registers its families with the Auto classes of transformers. If transformers is not yet
imported, the families are registered when it is: parts such as `hf_localattn.negation` need neither it nor torch.
"""

import importlib
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hf_localattn.extras import check_floors

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
    from hf_localattn.models import public
    from hf_localattn.training.arguments import TrainingArguments as LocalAttentionTrainingArguments
    from hf_localattn.training.trainer import LocalAttentionTrainer

    __all__ = ["LocalAttentionTrainer", "LocalAttentionTrainingArguments", "OnnxModel"]
    __all__ += ["__version__", "outlook_attention_matrix"]
    __all__ += public.__all__
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


class _Registration(MetaPathFinder):
    """Registers the families after an import of transformers, and of the modules of this package that began it."""

    def __init__(self) -> None:
        self.unfinished = 0  # modules that are being imported, which the registry may need

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec that the other finders have for a module that may import transformers, or None."""
        if name != "transformers" and not name.startswith(f"{__name__}."):
            return None
        if name == "transformers":
            check_floors()
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            self.unfinished += 1
            try:
                execute(module)
            finally:
                self.unfinished -= 1
            if not self.unfinished and "transformers" in sys.modules and self in sys.meta_path:
                sys.meta_path.remove(self)
                importlib.import_module(f"{__name__}.families")

        vars(spec.loader)["exec_module"] = execute_and_register
        return spec


if "transformers" in sys.modules:
    check_floors()
    importlib.import_module(f"{__name__}.families")
else:
    sys.meta_path.insert(0, _Registration())
