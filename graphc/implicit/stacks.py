"""Implicit arrays whose fields all have a leading axis more: stacks, whose elements are implicit.

``materialize`` takes axes in front of those that a class has for batches, as ``jax.vmap`` does.
What is done to the leading axis alone is done to that of each field.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, derived
from graphc.implicit.batches import is_elementwise
from graphc.implicit.policy import dense
from graphc.implicit.registry import register
from graphc.implicit.treedef import Treedef
from graphc.ir import Node, TensorType, dtype_name
from graphc.tensor import Tensor
from graphc.tensor.arrays.index import HOLE, Entry, Index, Range
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.core.shape import Reshape
from graphc.tensor.core.specify import SpecifyShape

Types = tuple[TensorType, ...]


@lru_cache(1024)
def element(treedef: Treedef, types: Types) -> Types | None:
    """The types of the fields of each element of a stack; None for what is no stack.

    It is one if all its fields have the leading axis, and the whole has that whatever its length
    is, and its elements are those of the fields' elements: so a batch differs from a matrix that is
    as long by accident, and from one whose rows depend on each other.
    """
    leading = {type.shape[:1] for type in types}
    if len(leading) != 1 or leading == {()}:
        return None
    parts = tuple([type.with_shape(type.shape[1:]) for type in types])
    return parts if of_elements(treedef, parts) is not None else None


@lru_cache(1024)
def of_elements(treedef: Treedef, types: Types) -> TensorType | None:
    """The type of one element of a stack of such fields; None where its class has no stacks."""
    inside = _whole(treedef, types)
    # A length that none of its axes has, nor any product or sum that its class may form.
    n = 1 + 2 * max([1, *[n for type in types for n in type.shape if n is not None]])
    several = _whole(treedef, tuple([type.with_shape((n, *type.shape)) for type in types]))
    if inside is None or several != inside.with_shape((n, *inside.shape)):
        return None
    shapes = tuple([(type.shape, type.numpy_dtype) for type in types])
    return inside if is_elementwise(treedef, shapes) else None


def _whole(treedef: Treedef, types: Types) -> TensorType | None:
    """The type of what ``materialize`` gives; None where there is no such array."""
    try:
        shape, dtype = derived(
            treedef, tuple([(type.shape, type.numpy_dtype) for type in types]), True
        )
    except ImplicitArrayError:
        return None
    return TensorType(dtype_name(dtype), shape)


def _is_deep(treedef: Treedef, fields: Sequence[Node], depth: int) -> bool:
    """Whether it is a stack of stacks, to a depth."""
    types: Types | None = tuple([field.type for field in fields])
    for _ in range(depth):
        types = element(treedef, types) if types else None
    return types is not None


# What is done to the leading axis.


def _each(x: ImplicitArray, function: Any, depth: int = 1) -> Any:
    """Apply a function to each field of a stack with that many leading axes.

    NotImplemented of what is no stack before or after.
    """
    treedef, fields = Treedef.of(x)
    if not _is_deep(treedef, fields, 1):
        return NotImplemented
    made = [function(field) for field in fields]
    return treedef.build(made) if _is_deep(treedef, made, depth) else NotImplemented


@register(Index, precedence=-1)
def _index(x: ImplicitArray, *symbolic: Any, entries: tuple[Entry, ...]) -> Any:
    """Elements, or some of them."""
    first, *others = entries
    if first is None or any(entry != Range() for entry in others):
        return NotImplemented

    places = [dense(place, "an index") for place in symbolic]

    def part(field: Tensor) -> Tensor:
        op = Index((first, *[Range()] * (field.ndim - 1)))
        return Tensor.make(op, field, *places)

    if isinstance(first, Range):
        return _each(x, part)
    return _each(x, part, depth=places[0].ndim if first is HOLE else 0)


@register(SpecifyShape, precedence=-1)
def _specify_shape(
    x: ImplicitArray, *symbolic: Any, shape: tuple[int | None, ...], title: str
) -> Any:
    """How many elements there are."""
    if any(n is None or n not in {-1, m} for n, m in zip(shape[1:], x.shape[1:], strict=True)):
        return NotImplemented

    lengths = [dense(length, "a length") for length in symbolic]

    def of_length(field: Tensor) -> Tensor:
        op = SpecifyShape((shape[0], *[-1] * (field.ndim - 1)), title)
        return Tensor.make(op, field, *lengths)

    return _each(x, of_length)


@register(Reshape, precedence=-1)
def _reshape(x: ImplicitArray, *symbolic: Any, shape: tuple[int | None, ...]) -> Any:
    """A stack as one of stacks, or the other way round."""
    kept = min(len(shape), x.ndim) - 1
    front, rest = shape[: len(shape) - kept], shape[len(shape) - kept :]
    deep = x.ndim - kept
    if {len(front), deep} != {1, 2} or None in rest or rest != x.shape[deep:]:
        return NotImplemented
    treedef, fields = Treedef.of(x)
    tails = [field.type.shape[deep:] for field in fields]
    if not _is_deep(treedef, fields, deep) or any(None in tail for tail in tails):
        return NotImplemented
    pairs = zip(fields, tails, strict=True)
    lengths = [dense(length, "a length") for length in symbolic]
    made = [Tensor.make(Reshape((*front, *tail)), field, *lengths) for field, tail in pairs]
    return treedef.build(made) if _is_deep(treedef, made, len(front)) else NotImplemented


@register(Concatenate, precedence=-1)
def _concatenate(*xs: ImplicitArray, axis: int) -> Any:
    """The elements of several."""
    forms = [Treedef.of(x) for x in xs]
    (first, fields), *others = forms
    if axis or not all(_is_deep(treedef, part, 1) for treedef, part in forms):
        return NotImplemented
    rows = [[x.type.with_shape(x.type.shape[1:]) for x in part] for _, part in forms]
    if any(treedef != first for treedef, _ in others) or not all(alike(rows[0], x) for x in rows):
        return NotImplemented
    columns: Any = zip(fields, *[part for _, part in others], strict=True)
    return first.build([Tensor.make(Concatenate(0), *column) for column in columns])


def alike(xs: Sequence[TensorType], ys: Sequence[TensorType]) -> bool:
    """Whether fields of these types may be of one type each."""
    return all(_fits(x, y) for x, y in zip(xs, ys, strict=True))


def _fits(a: TensorType, b: TensorType) -> bool:
    pairs = zip(a.shape, b.shape, strict=False)
    known = all(n == m or None in {n, m} for n, m in pairs)
    return a.dtype == b.dtype and a.ndim == b.ndim and known
