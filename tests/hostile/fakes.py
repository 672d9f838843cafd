"""Loaders that do what no loader may: the sandbox has to find out each of them."""

import ctypes
import importlib
import json
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path


def imports_a_module(folder):
    return importlib.import_module("this")


def imports_a_library_without_bytecode(folder):
    sys.pycache_prefix = str(Path(sys.prefix, "no-bytecode"))
    importlib.import_module("transformers.models.splinter.configuration_splinter")


def imports_a_file(folder):
    sys.path.insert(0, str(folder))
    import cool_convolution  # noqa: F401


def runs_a_file(folder):
    exec(compile((folder / "cool_convolution.py").read_text(), folder / "cool_convolution.py", "exec"), {})


def opens_a_file(folder):
    return (folder.parent / "outside" / "secret.txt").read_text()


def opens_without_python(folder):
    library = ctypes.CDLL(None)
    return library.close(library.open(os.fsencode(folder.parent / "outside" / "secret.txt"), os.O_RDONLY))


def writes_a_file(folder):
    Path(json.__file__).with_name("hostile.txt").open("w").close()


def connects(folder):
    with socket.socket() as one:
        one.connect_ex(("127.0.0.1", 9))


def starts_a_program(folder):
    subprocess.run(["true"], check=True)


def unpickles(folder):
    pickle.loads(b"cos\ngetcwd\n(tR.")
