"""Gaps of MLX with their reasons, for compile-time reports and the manual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from graphc.ir import Node
from graphc.link.backend import BackendGap
from graphc.link.mlx.arrays import device_of

NARROWER = {"float64": "float32", "complex128": "complex64"}
"""The dtypes in which ``float64="downcast"`` computes."""


def anywhere(options: Mapping[str, Any]) -> bool:
    """Return True: the gap exists on every device."""
    return True


def on_gpu(options: Mapping[str, Any]) -> bool:
    return bool(device_of(options).type == mx.gpu)


def is_complex128(node: Node) -> bool:
    return getattr(node.type, "dtype", None) == "complex128"


def is_float64(node: Node) -> bool:
    return getattr(node.type, "dtype", None) == "float64"


GAPS = (
    BackendGap(
        feature="complex128",
        reason="its complex numbers are complex64",
        remedy="Declare it complex64, compute all in the narrower dtypes with "
        "Mode('MLX', float64='downcast'), or use mode='JAX' or 'NUMPY'.",
        where="every device",
        applies=anywhere,
        holds=is_complex128,
    ),
    BackendGap(
        feature="float64 on a GPU",
        reason="Metal and MLX's GPU kernels compute in 32 bits at most",
        remedy="Compute in float32 with Mode('MLX', float64='downcast'), or in float64 on the "
        "processor with Mode('MLX', device='cpu'); or declare it float32, as "
        "graphc.config.floatX = 'float32' does.",
        where="GPUs",
        applies=on_gpu,
        holds=is_float64,
    ),
)
"""Everything else that has a lowering is computed."""
