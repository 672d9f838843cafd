"""Checks of installed libraries: lowest versions, and optional libraries, each of which an extra installs."""

import importlib
import importlib.util
from typing import Any

EXTRAS = {
    "train": (
        "accelerate",
        "datasets",
        "evaluate",
        "lxml",
        "nltk",
        "sacrebleu",
        "scipy",
        "seqeval",
        "sklearn",
        "torchmetrics",
    ),
    "parser": ("spacy",),
    "plot": ("matplotlib",),
    "search": ("optuna", "sqlalchemy"),
    "lookahead": ("pytorch_optimizer",),
    "cluster": ("ray",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "demo": ("gradio",),
}
"""Modules of the extras that are checked before torch is imported."""


def import_extra(module: str, extra: str, option: str) -> Any:
    """Import a module of an optional library, which `option` needs and `extra` installs.

    Raises:
        ImportError: The library is not installed. The message names the option and the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(_advice(option, module.partition(".")[0], extra)) from error


def require(extra: str, option: str) -> None:
    """Raise `ImportError` if modules of an extra, which `option` needs, are not installed. It imports none of them."""
    if missing := _missing(extra):
        raise ImportError(_advice(option, ", ".join(missing), extra))


def is_installed(extra: str) -> bool:
    """Return True if the modules of an extra are installed. It imports none of them."""
    return not _missing(extra)


def _missing(extra: str) -> list[str]:
    return [module for module in EXTRAS[extra] if importlib.util.find_spec(module) is None]


def check_floors() -> None:
    """Raise `ImportError` if a library that every use of the package needs is older than setup.cfg allows."""
    import importlib.metadata

    from packaging.requirements import Requirement

    try:
        requirements = importlib.metadata.requires("hf_localattn") or []
    except importlib.metadata.PackageNotFoundError:  # a clone that is not installed
        return
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:  # the import that needs it will say so
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            raise ImportError(
                f"hf_localattn needs {requirement}, and {requirement.name} {version} is installed: run `pip install"
                f" --upgrade '{requirement}'`."
            )


def _advice(option: str, libraries: str, extra: str) -> str:
    return f"{option} needs {libraries}: run `pip install 'hf_localattn[{extra}]'`."
