"""Libraries that come with an extra, imported where an option asks for them."""

import importlib
from typing import Any


def import_extra(module: str, extra: str, option: str) -> Any:
    """Return a library's module, such as "optuna" or "matplotlib.figure".

    Raises:
        ImportError: it is not installed; names the option that needs it and the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{option} needs {module.partition('.')[0]}: run `pip install 'hf_localattn[{extra}]'`."
        ) from error
