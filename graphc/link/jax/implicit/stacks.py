"""Handlers of JAX's primitives along the leading axis of stacks, field by field.

Stacks exist of every class whose ``materialize`` takes axes in front of the array's as batches.
The class's own handlers go first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from graphc.implicit.array import ImplicitArray
from graphc.implicit.registry import register
from graphc.link.jax.implicit.avals import element, flatten, stack
from graphc.link.jax.implicit.rules import dense_index, gather_rows
from graphc.link.jax.primitives import primitive

AFTER_OTHERS = -1
"""The precedence of handlers of all classes."""


def _map_fields(function: Callable[..., Any], *xs: Any) -> Any:
    """Apply a function to each field of stacks of equal elements; else return NotImplemented."""
    if not all(isinstance(x, ImplicitArray) and x.ndim for x in xs):
        return NotImplemented
    leaves, kinds = zip(*[flatten([x]) for x in xs], strict=True)
    elements = {element(kind, x.shape[0]) for (kind,), x in zip(kinds, xs, strict=True)}
    if None in elements or len(elements) > 1:
        return NotImplemented
    fields = [function(*xs) for xs in zip(*leaves, strict=True)]
    return kinds[0][0].treedef.build(fields)


@register("slice", AFTER_OTHERS)
def _slice(x: ImplicitArray, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    first, *others = zip(start_indices, limit_indices, strides or [1] * x.ndim, strict=True)
    if others != [(0, n, 1) for n in x.shape[1:]]:
        return NotImplemented
    rows = slice(*first)
    return _map_fields(lambda field: field[rows], x)


@register("dynamic_slice", AFTER_OTHERS)
def _dynamic_slice(x: ImplicitArray, *starts: Any, slice_sizes: Any, **_: Any) -> Any:
    if tuple(slice_sizes[1:]) != x.shape[1:]:
        return NotImplemented
    start, size = dense_index(starts[0]), slice_sizes[0]
    return _map_fields(lambda field: jax.lax.dynamic_slice_in_dim(field, start, size, 0), x)


@register("gather", AFTER_OTHERS)
def _gather(x: ImplicitArray, indices: Any, **parameters: Any) -> Any:
    def rows_of(x: Any, indices: Any, axis: int) -> Any:
        if axis or indices.ndim > 1:
            return NotImplemented
        return _map_fields(lambda field: jnp.take(field, indices, axis=0, mode="clip"), x)

    return gather_rows(x, indices, rows_of, parameters)


@register("squeeze", AFTER_OTHERS)
def _squeeze(x: ImplicitArray, *, dimensions: Any) -> Any:
    return _map_fields(lambda field: field[0], x) if tuple(dimensions) == (0,) else NotImplemented


@register("broadcast_in_dim", AFTER_OTHERS)
def _repeat(x: ImplicitArray, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    is_stack = tuple(broadcast_dimensions) == tuple(range(1, len(shape)))
    leaves, (kind,) = flatten([x])
    if not is_stack or tuple(shape[1:]) != x.shape or kind is None:
        return NotImplemented
    if stack(kind, shape[0]) is None:
        return NotImplemented
    return kind.treedef.build([jnp.broadcast_to(leaf, (shape[0], *leaf.shape)) for leaf in leaves])


@register("concatenate", AFTER_OTHERS)
def _concatenate(*xs: Any, dimension: int) -> Any:
    if dimension:
        return NotImplemented
    return _map_fields(lambda *fields: jnp.concatenate(fields), *xs)


def _stack(*xs: Any, axis: int) -> Any:
    if axis:
        return NotImplemented
    rows = [_repeat(x, shape=(1, *x.shape), broadcast_dimensions=range(1, x.ndim + 1)) for x in xs]
    return (
        NotImplemented
        if NotImplemented in rows
        else _map_fields(lambda *f: jnp.concatenate(f), *rows)
    )


if primitive("stack") is not None:
    register("stack", AFTER_OTHERS)(_stack)
