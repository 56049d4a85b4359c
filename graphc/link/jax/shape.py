"""Shapes in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.shape import (
    BroadcastTo,
    Concatenate,
    ExpandDims,
    Reshape,
    Squeeze,
    Transpose,
)


@backend.lower(Reshape)
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    """The elements in row-major order."""
    return lax.reshape(x, op.target(x.shape, symbolic))


@backend.lower(Transpose)
def transpose(op: Transpose, x: Any) -> Any:
    """The axes in another order."""
    return lax.transpose(x, op.axes)


@backend.lower(ExpandDims)
def expand_dims(op: ExpandDims, x: Any) -> Any:
    """New axes of length 1."""
    return lax.expand_dims(x, op.axes)


@backend.lower(Squeeze)
def squeeze(op: Squeeze, x: Any) -> Any:
    """Without axes of length 1."""
    return lax.squeeze(x, op.axes)


@backend.lower(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    """Repeated along new axes in front and the axes of static length 1."""
    target = op.target(x.shape, symbolic)
    return lax.broadcast_in_dim(x, target, range(len(target) - len(x.shape), len(target)))


@backend.lower(Concatenate)
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """One after the other; empty ones, which some releases do not take, are left out."""
    filled = [x for x in xs if x.shape[op.axis]] or [xs[0]]
    return lax.concatenate(filled, op.axis)
