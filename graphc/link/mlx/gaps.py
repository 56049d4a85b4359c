"""Gaps of MLX with their reasons, for compile-time reports and the manual."""

from __future__ import annotations

from graphc.link.backend import BackendGap
from graphc.link.mlx.devices import device_choice

NARROWER = {"float64": "float32", "complex128": "complex64"}
"""The dtypes in which ``float64="downcast"`` computes."""


GAPS = (
    BackendGap(
        feature="complex128",
        reason="its complex numbers are complex64",
        remedy="Declare it complex64, compute all in the narrower dtypes with "
        "Mode('MLX', float64='downcast'), or use mode='JAX' or 'NUMPY'.",
        where="every device",
        applies=lambda options: True,
        holds=lambda node: getattr(node.type, "dtype", None) == "complex128",
    ),
    BackendGap(
        feature="float64 on a GPU",
        reason="Metal and MLX's GPU kernels compute in 32 bits at most",
        remedy="Compute in float32 with Mode('MLX', float64='downcast'), or in float64 on the "
        "processor with Mode('MLX', device='cpu'); or declare it float32, as "
        "graphc.config.floatX = 'float32' does.",
        where="GPUs",
        applies=lambda options: not device_choice("has float64", options),
        holds=lambda node: getattr(node.type, "dtype", None) == "float64",
    ),
)
"""Everything else that has a lowering is computed."""
