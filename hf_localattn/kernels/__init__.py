"""Triton kernels for GPUs, which the installed package runs in place of torch code. No checkpoint carries them."""

from hf_localattn.kernels import outlook_attention, sla_attention

__all__ = ["KERNELS"]

KERNELS = {"outlook_attention": outlook_attention, "sla_attention": sla_attention}
"""Modules by the name of the computation. `runs` decides if a kernel runs, and `attend` runs it."""
