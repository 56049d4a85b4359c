"""Schur decompositions in ``jax.lax.linalg``, which has them on CPUs alone."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.ir import Node, Op, TensorType
from graphc.link.jax.backend import backend
from graphc.tensor.linalg.schur import Schur


def by_numpy(op: Op, *xs: Any) -> Any:
    """The operation's NumPy reference, for devices that JAX lacks it on."""
    node = Node.make(op, *[TensorType(x.dtype, x.shape)() for x in xs])
    return backend.callback(node)(*xs)


@backend.lower(Schur)
def schur(op: Schur, x: Any) -> Any:
    """Decompose by LAPACK; of real matrices the real form."""
    return lax.platform_dependent(
        x,
        cpu=lambda x: tuple(lax.linalg.schur(x)),
        default=lambda x: tuple(by_numpy(op, x)),
    )
