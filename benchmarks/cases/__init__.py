"""Benchmark cases, in a file of each family, and of all local encoders. A new file is found by itself."""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
