"""Schur decompositions in ``jax.lax.linalg``, which computes them on the CPU only."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.ir import Node, Op, TensorType
from graphc.link.jax.backend import backend
from graphc.tensor.linalg.schur import Schur


def call_reference(op: Op, *xs: Any) -> Any:
    """Call the operation's NumPy reference, for devices on which JAX lacks the operation."""
    node = Node.make(op, *[TensorType(x.dtype, x.shape)() for x in xs])
    return backend.callback(node)(*xs)


@backend.lower(Schur)
def schur(op: Schur, x: Any) -> Any:
    """Decompose by LAPACK; real matrices have the real form."""
    return lax.platform_dependent(
        x,
        cpu=lambda x: tuple(lax.linalg.schur(x)),
        default=lambda x: tuple(call_reference(op, x)),
    )
