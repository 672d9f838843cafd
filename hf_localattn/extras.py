"""Import of optional libraries. Each is installed with an extra."""

import importlib
import importlib.util
from typing import Any

EXTRAS = {
    "train": (
        *("accelerate", "datasets", "evaluate", "lxml", "nltk", "sacrebleu", "scipy", "seqeval", "sklearn"),
        "torchmetrics",
    ),
    "parser": ("spacy",),
    "plot": ("matplotlib",),
    "search": ("optuna",),
    "lookahead": ("pytorch_optimizer",),
    "cluster": ("ray",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "demo": ("gradio",),
}
"""Modules of the extras that are checked before torch is imported."""


def import_extra(module: str, extra: str, option: str) -> Any:
    """Import a module of an optional library, which `option` needs and `extra` installs.

    Raises:
        ImportError: the library is not installed. The message names the option and the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(_advice(option, module.partition(".")[0], extra)) from error


def require(extra: str, option: str) -> None:
    """Raise `ImportError` if modules of an extra, which `option` needs, are not installed. It imports none of them."""
    if missing := [module for module in EXTRAS[extra] if importlib.util.find_spec(module) is None]:
        raise ImportError(_advice(option, ", ".join(missing), extra))


class LazyExtra:
    """Module that is imported by `import_extra`, with the same arguments, when one of its names is first used."""

    def __init__(self, module: str, extra: str, option: str):
        self._needed = module, extra, option

    def __getattr__(self, name: str) -> Any:
        return getattr(import_extra(*self._needed), name)


def _advice(option: str, libraries: str, extra: str) -> str:
    return f"{option} needs {libraries}: run `pip install 'hf_localattn[{extra}]'`."
