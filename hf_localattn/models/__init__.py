"""Model code that is saved with every checkpoint.

Files here import only the standard library, torch, transformers and other files of this folder. The public names are
imported when one of them is used, because some files need no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .public import *  # noqa: F403
    from .public import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        """Import and return a public name, or `__all__`."""
        public = importlib.import_module(f"{__name__}.public")
        if name != "__all__" and name not in public.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(public, name)
