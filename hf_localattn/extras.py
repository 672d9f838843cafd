"""Import of optional libraries. Each is installed with an extra."""

import importlib
from typing import Any


def import_extra(module: str, extra: str, option: str) -> Any:
    """Import a module of an optional library.

    Args:
        module: name of the module, such as "optuna" or "matplotlib.figure".
        extra: extra of this package that installs the library.
        option: option that needs the library, for the error message.

    Raises:
        ImportError: the library is not installed. The message names the option and the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{option} needs {module.partition('.')[0]}: run `pip install 'hf_localattn[{extra}]'`."
        ) from error
