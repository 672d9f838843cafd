"""Tests of Triton kernels: on a GPU, or on the CPU by triton's interpreter (`make test-kernels`)."""

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
