"""Tests of Triton kernels: on a GPU, or on the CPU by triton's interpreter (`make test-kernels`)."""

import json
import os
import subprocess
import sys

import pytest
import torch

from hf_localattn.kernels.choice import INTERPRETED, triton

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

NEEDS_KERNELS = [
    pytest.mark.triton,
    pytest.mark.skipif(
        triton is None or not (INTERPRETED or DEVICE.type == "cuda"),
        reason="needs triton and a GPU, or triton with TRITON_INTERPRET=1 (`make test-kernels`)",
    ),
]

COMPILE = """
import importlib, json, sys, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

for module, name, dtype, capability, types, constants in json.loads(sys.argv[1]):
    kernel = getattr(importlib.import_module(f"hf_localattn.kernels.{module}"), name)
    types |= dict.fromkeys(constants, "constexpr")
    types = {name: types.get(name, f"*{dtype}") for name in kernel.arg_names}
    source = ASTSource(kernel, types, {(kernel.arg_names.index(name),): value for name, value in constants.items()})
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    assert compiled.asm["cubin"]
    assert compiled.metadata.shared < 48 * 1024
"""


def compile_for_gpus(folder, *kernels):
    """Compile kernels, which the interpreter may accept in error. The compiler needs no GPU."""
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", COMPILE, json.dumps(kernels)], env=environment, check=True)
