"""Triton kernels for GPUs. Models of the installed package run them in place of their torch code where they can.

A checkpoint does not carry these files: its own code runs torch code.
"""

from hf_localattn.kernels import outlook_attention, sla_attention

__all__ = ["KERNELS"]

KERNELS = {"outlook_attention": outlook_attention, "sla_attention": sla_attention}
"""Modules by the name of the computation. `runs` decides if a kernel runs, and `attend` runs it."""
