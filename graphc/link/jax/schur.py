"""Schur's form in ``jax.lax.linalg``, which has it on processors alone."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.ir import Node, Op, TensorType
from graphc.link.jax.backend import backend
from graphc.tensor.schur import Schur

__all__ = ["by_numpy"]


def by_numpy(op: Op, *xs: Any) -> Any:
    """The operation's NumPy reference, for devices that JAX lacks it on."""
    node = Node.make(op, *[TensorType(x.dtype, x.shape)() for x in xs])
    return backend.callback(node)(*xs)


@backend.lower(Schur)
def schur(op: Schur, x: Any) -> Any:
    """LAPACK's: of real matrices real."""
    return lax.platform_dependent(
        x,
        cpu=lambda x: tuple(lax.linalg.schur(x)),
        default=lambda x: tuple(by_numpy(op, x)),
    )
