"""Stacks of implicit arrays: implicit arrays whose leading axis is a batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax

from graphc.implicit.policy import densify
from graphc.implicit.stacks import is_elementwise
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
    dense = _dense_type(part)
    n = _unused_length(kind)
    if dense is None or _dense_type(_repeat(part, n)) != ((n, *dense[0]), dense[1]):
        return None
    shapes = tuple([(aval.shape, aval.dtype) for aval in part.avals])
    return part if is_elementwise(kind.treedef, shapes) else None


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


def _unused_length(kind: ImplicitAval) -> int:
    """Return a length that no axis has, and that is no product or sum of lengths."""
    # A symbolic length differs from every number.
    lengths = [n for aval in kind.avals for n in aval.shape if isinstance(n, int)]
    longest: int = max([1, *lengths])
    return 1 + 2 * longest


def _dense_type(kind: ImplicitAval) -> Any:
    """Return the shape and dtype of the dense array; None if the fields do not fit together."""
    # Types without shardings, as on one device: the mesh is unknown here.
    avals = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in kind.avals]
    try:
        program = jax.make_jaxpr(lambda *leaves: densify(kind.treedef.build(leaves)))(*avals)
    except Exception:  # any error of the class: it has no arrays of these shapes
        return None
    (aval,) = program.out_avals
    return aval.shape, aval.dtype
