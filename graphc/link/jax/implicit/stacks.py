"""Implicit arrays whose leading axis is a batch: a stack of implicit arrays, or one of a stack."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax

from graphc.implicit.batches import is_elementwise
from graphc.implicit.policy import densify
from graphc.link.jax.implicit.avals import ImplicitAval


@lru_cache(1024)
def element(kind: ImplicitAval, length: int) -> ImplicitAval | None:
    """Return the abstract value of a stack's elements; None if it is no such stack.

    It is one if all its arrays have the leading axis, and the whole has it whatever its length:
    so a batch axis differs from one of a matrix that is as long by accident. Axes in front of those
    that a class knows are batches to it, as they are to ``jax.vmap``.
    """
    if any(aval.shape[:1] != (length,) for aval in kind.avals):
        return None
    part = ImplicitAval(
        kind.treedef, tuple(_with_shape(aval, aval.shape[1:]) for aval in kind.avals)
    )
    inside = _type(part)
    other = _unlike(kind)
    if inside is None or _type(_repeated(part, other)) != ((other, *inside[0]), inside[1]):
        return None
    shapes = tuple([(aval.shape, aval.dtype) for aval in part.avals])
    return part if is_elementwise(kind.treedef, shapes) else None


@lru_cache(1024)
def stack(kind: ImplicitAval, length: int) -> ImplicitAval | None:
    """Return the abstract value of a stack of these; None where the class cannot be stacked."""
    made = _repeated(kind, length)
    return made if element(made, length) == kind else None


def _repeated(kind: ImplicitAval, length: int) -> ImplicitAval:
    avals = tuple(_with_shape(aval, (length, *aval.shape)) for aval in kind.avals)
    return ImplicitAval(kind.treedef, avals)


def _with_shape(aval: Any, shape: tuple[int, ...]) -> Any:
    # A sharding is that of the other rank.
    if aval == jax.core.ShapedArray(aval.shape, aval.dtype):
        return jax.core.ShapedArray(shape, aval.dtype)
    return aval.update(shape=shape)


def _unlike(kind: ImplicitAval) -> int:
    """Return a length that no axis has, nor any product or sum of lengths."""
    # A symbolic length is unlike any number.
    lengths = [n for aval in kind.avals for n in aval.shape if isinstance(n, int)]
    longest: int = max([1, *lengths])
    return 1 + 2 * longest


def _type(kind: ImplicitAval) -> Any:
    """Return the shape and dtype of the whole array; None where there is none."""
    # As on one device: meshes are not known here.
    avals = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in kind.avals]
    try:
        made = jax.make_jaxpr(lambda *leaves: densify(kind.treedef.build(leaves)))(*avals)
    except Exception:  # whatever its class raises: it has no such arrays
        return None
    (aval,) = made.out_avals
    return aval.shape, aval.dtype
