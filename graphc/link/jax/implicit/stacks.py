"""Stacks of implicit arrays: implicit arrays whose leading axis is a batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax

from graphc.implicit.stacks import element_type
from graphc.link.jax.implicit.avals import ImplicitAval


@lru_cache(1024)
def element(kind: ImplicitAval, length: int) -> ImplicitAval | None:
    """Return the abstract value of a stack's elements; None if the array is not a stack.

    An array is a stack if all its fields have the leading axis, and the dense array has that axis
    for any length: this tells a batch axis from a matrix axis of equal length. Axes in front of
    the axes that a class knows are batches, as for ``jax.vmap``.
    """
    if any(aval.shape[:1] != (length,) for aval in kind.avals):
        return None
    avals = tuple(_with_shape(aval, aval.shape[1:]) for aval in kind.avals)
    part = ImplicitAval(kind.treedef, avals)
    shapes = tuple([(aval.shape, aval.dtype) for aval in avals])
    return None if element_type(kind.treedef, shapes, False) is None else part


@lru_cache(1024)
def stack(kind: ImplicitAval, length: int) -> ImplicitAval | None:
    """Return the abstract value of a stack of arrays; None if the class cannot be stacked."""
    repeated = _repeat(kind, length)
    return repeated if element(repeated, length) == kind else None


def _repeat(kind: ImplicitAval, length: int) -> ImplicitAval:
    avals = tuple(_with_shape(aval, (length, *aval.shape)) for aval in kind.avals)
    return ImplicitAval(kind.treedef, avals)


def _with_shape(aval: Any, shape: tuple[int, ...]) -> Any:
    # ``update`` would keep the default sharding, which has the old rank.
    if aval == jax.core.ShapedArray(aval.shape, aval.dtype):
        return jax.core.ShapedArray(shape, aval.dtype)
    return aval.update(shape=shape)
