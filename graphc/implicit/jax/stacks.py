"""Implicit arrays whose leading axis is a batch: a stack of implicit arrays, or one of a stack."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax

from graphc.implicit.batches import is_elementwise
from graphc.implicit.jax.kinds import Kind
from graphc.implicit.policy import whole

__all__ = ["element", "stack"]


@lru_cache(1024)
def element(kind: Kind, length: int) -> Kind | None:
    """What each of a stack is; None for what is no stack of that length.

    It is one if all its arrays have the leading axis, and the whole has it whatever its length:
    so a batch axis is told from one of a matrix that is as long by accident. Axes in front of those
    that a class knows are batches to it, as they are to ``jax.vmap``.
    """
    if any(aval.shape[:1] != (length,) for aval in kind.avals):
        return None
    part = Kind(kind.form, tuple(_with_shape(aval, aval.shape[1:]) for aval in kind.avals))
    inside = _type(part)
    other = _unlike(kind)
    if inside is None or _type(_repeated(part, other)) != ((other, *inside[0]), inside[1]):
        return None
    shapes = tuple([(aval.shape, aval.dtype) for aval in part.avals])
    return part if is_elementwise(kind.form, shapes) else None


@lru_cache(1024)
def stack(kind: Kind, length: int) -> Kind | None:
    """What so many of them are together; None where their class has no stacks."""
    made = _repeated(kind, length)
    return made if element(made, length) == kind else None


def _repeated(kind: Kind, length: int) -> Kind:
    avals = tuple(_with_shape(aval, (length, *aval.shape)) for aval in kind.avals)
    return Kind(kind.form, avals)


def _with_shape(aval: Any, shape: tuple[int, ...]) -> Any:
    # A sharding is that of the other rank.
    if aval == jax.core.ShapedArray(aval.shape, aval.dtype):
        return jax.core.ShapedArray(shape, aval.dtype)
    return aval.update(shape=shape)


def _unlike(kind: Kind) -> int:
    """A length that none of its axes has, nor any product or sum that its class may form."""
    # A symbolic length is unlike any number.
    lengths = [n for aval in kind.avals for n in aval.shape if isinstance(n, int)]
    longest: int = max([1, *lengths])
    return 1 + 2 * longest


def _type(kind: Kind) -> Any:
    """The shape and dtype of the whole; None where there is none."""
    # As on one device: meshes are not known here.
    avals = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in kind.avals]
    try:
        made = jax.make_jaxpr(lambda *leaves: whole(kind.form.build(leaves)))(*avals)
    except Exception:  # whatever its class raises: it has no such arrays
        return None
    (aval,) = made.out_avals
    return aval.shape, aval.dtype
