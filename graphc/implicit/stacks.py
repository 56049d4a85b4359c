"""Stacks: implicit arrays whose fields all have one more leading axis.

``materialize`` accepts leading batch axes, as ``jax.vmap`` adds them. An operation on the leading
axis alone is applied to the leading axis of each field.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, infer_type, opening
from graphc.implicit.policy import as_dense
from graphc.implicit.registry import register
from graphc.implicit.treedef import Treedef, declares_implicit, shapes_fit
from graphc.ir import Node, TensorType, dtype_name, is_own_class
from graphc.tensor import Tensor
from graphc.tensor.arrays.index import HOLE, Entry, Index, Range
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.core.shape import Reshape
from graphc.tensor.core.specify import SpecifyShape

Shapes = tuple[tuple[tuple[Any, ...], np.dtype[Any]], ...]
"""The lengths and dtype of each array, None or a symbol for a length that is not known."""

UNKNOWN = 3
"""The number that stands for an unknown length."""


@lru_cache(1024)
def is_elementwise(treedef: Treedef, shapes: Shapes) -> bool:
    """Return whether materializing a stack of two equals stacking two dense arrays.

    Types cannot decide: ``values - values.mean(0)`` has the shape of a stack for every length.
    graphc's own classes need no trial. A class whose ``materialize`` fails has no stacks.

    Args:
        treedef: The tree structure of one element, and of the stack.
        shapes: The types of the arrays of one element.
    """
    if all(map(is_own_class, treedef.classes())):
        return True
    # Integer fields may be indices, which are out of bounds if they are large.
    return any(_agrees(treedef, shapes, bound) for bound in (100, 2))


def _agrees(treedef: Treedef, shapes: Shapes, bound: int) -> bool:
    rng = np.random.default_rng(0)
    stacks = [_draw_stack(rng, shape, dtype, bound) for shape, dtype in shapes]
    jax: Any = sys.modules.get("jax")
    now: AbstractContextManager[Any] = jax.ensure_compile_time_eval() if jax else nullcontext()
    try:
        with now, opening(), np.errstate(all="ignore"):
            batched = _densify(treedef, stacks)
            stacked = np.stack([_densify(treedef, [x[i] for x in stacks]) for i in range(2)])
    except Exception:  # whatever the class raises: it has no stacks
        return False
    if batched.shape != stacked.shape:
        return False
    # A batch may round sums of products differently; mixing elements changes far more.
    size = np.max(np.abs(stacked), initial=0, where=np.isfinite(stacked)) if stacked.size else 0
    return np.allclose(batched, stacked, rtol=1e-2, atol=1e-2 * float(size), equal_nan=True)


def _draw_stack(rng: np.random.Generator, shape: Any, dtype: np.dtype[Any], bound: int) -> Any:
    lengths = (2, *[n if isinstance(n, int) else UNKNOWN for n in shape])
    if dtype.kind in "biu":
        return rng.integers(0, bound, lengths).astype(dtype)
    return rng.uniform(0.5, 2.0, lengths).astype(dtype)


def _densify(treedef: Treedef, leaves: list[Any]) -> np.ndarray[Any, Any]:
    array = treedef.build(leaves)
    while declares_implicit(array):
        array = array.materialize()
    array = np.asarray(array)
    return array.astype(complex if array.dtype.kind == "c" else float)


Types = tuple[TensorType, ...]


@lru_cache(1024)
def element(treedef: Treedef, types: Types) -> Types | None:
    """Return the types of the fields of each element of a stack; None if this is no stack.

    An implicit array is a stack if all its fields have the leading axis, the dense array has the
    leading axis whatever its length is, and the elements of the dense array are determined by the
    elements of the fields. This excludes a matrix that has as many rows by accident, and one whose
    rows depend on each other.
    """
    leading = {type.shape[:1] for type in types}
    if len(leading) != 1 or leading == {()}:
        return None
    inner = tuple([type.with_shape(type.shape[1:]) for type in types])
    return inner if of_elements(treedef, inner) is not None else None


def of_elements(treedef: Treedef, types: Types) -> TensorType | None:
    """Return the type of one element of a stack; None if the class has no stacks."""
    shapes = tuple([(type.shape, type.numpy_dtype) for type in types])
    single = element_type(treedef, shapes, True)
    return None if single is None else TensorType(dtype_name(single[1]), single[0])


@lru_cache(1024)
def element_type(treedef: Treedef, shapes: Shapes, symbolic: bool) -> Any:
    """Return the shape and dtype of one element of a stack; None if the class has no stacks.

    Args:
        treedef: The tree structure of one element.
        shapes: The types of the arrays of one element.
        symbolic: Whether the arrays are symbolic.
    """
    single = _dense_type(treedef, shapes, symbolic)
    # A length that no axis has, nor any product or sum of lengths that the class may form.
    n = 1 + 2 * max([1, *[n for shape, _ in shapes for n in shape if isinstance(n, int)]])
    stacked = tuple([((n, *shape), dtype) for shape, dtype in shapes])
    if single is None or _dense_type(treedef, stacked, symbolic) != ((n, *single[0]), single[1]):
        return None
    return single if is_elementwise(treedef, shapes) else None


def _dense_type(treedef: Treedef, shapes: Shapes, symbolic: bool) -> Any:
    """Return the shape and dtype of the dense array; None if the fields do not fit together."""
    try:
        return infer_type(treedef, shapes, symbolic)
    except ImplicitArrayError:
        return None


def _is_deep(treedef: Treedef, fields: Sequence[Node], depth: int) -> bool:
    """Return whether fields form a stack of stacks, nested to this depth."""
    types: Types | None = tuple([field.type for field in fields])
    for _ in range(depth):
        types = element(treedef, types) if types else None
    return types is not None


# Operations on the leading axis.


def _map_fields(x: ImplicitArray, function: Any, depth: int = 1) -> Any:
    """Apply a function to each field of a stack; the result is a stack nested to ``depth``.

    Returns:
        NotImplemented if the array, or the result, is no stack.
    """
    treedef, fields = Treedef.of(x)
    if not _is_deep(treedef, fields, 1):
        return NotImplemented
    results = [function(field) for field in fields]
    return treedef.build(results) if _is_deep(treedef, results, depth) else NotImplemented


@register(Index, precedence=-1)
def _index(x: ImplicitArray, *symbolic: Any, entries: tuple[Entry, ...]) -> Any:
    first, *others = entries
    if first is None or any(entry != Range() for entry in others):
        return NotImplemented

    indices = [as_dense(i, "an index") for i in symbolic]

    def index_field(field: Tensor) -> Tensor:
        op = Index((first, *[Range()] * (field.ndim - 1)))
        return Tensor.make(op, field, *indices)

    if isinstance(first, Range):
        return _map_fields(x, index_field)
    return _map_fields(x, index_field, depth=indices[0].ndim if first is HOLE else 0)


@register(SpecifyShape, precedence=-1)
def _specify_shape(
    x: ImplicitArray, *symbolic: Any, shape: tuple[int | None, ...], title: str
) -> Any:
    if any(n is None or n not in {-1, m} for n, m in zip(shape[1:], x.shape[1:], strict=True)):
        return NotImplemented

    lengths = [as_dense(length, "a length") for length in symbolic]

    def of_length(field: Tensor) -> Tensor:
        op = SpecifyShape((shape[0], *[-1] * (field.ndim - 1)), title)
        return Tensor.make(op, field, *lengths)

    return _map_fields(x, of_length)


@register(Reshape, precedence=-1)
def _reshape(x: ImplicitArray, *symbolic: Any, shape: tuple[int | None, ...]) -> Any:
    """Reshape a stack to a stack of stacks, or the reverse."""
    ndim = min(len(shape), x.ndim) - 1
    front, rest = shape[: len(shape) - ndim], shape[len(shape) - ndim :]
    depth = x.ndim - ndim
    if {len(front), depth} != {1, 2} or None in rest or rest != x.shape[depth:]:
        return NotImplemented
    treedef, fields = Treedef.of(x)
    tails = [field.type.shape[depth:] for field in fields]
    if not _is_deep(treedef, fields, depth) or any(None in tail for tail in tails):
        return NotImplemented
    pairs = zip(fields, tails, strict=True)
    lengths = [as_dense(length, "a length") for length in symbolic]
    reshaped = [Tensor.make(Reshape((*front, *tail)), field, *lengths) for field, tail in pairs]
    return treedef.build(reshaped) if _is_deep(treedef, reshaped, len(front)) else NotImplemented


@register(Concatenate, precedence=-1)
def _concatenate(*xs: ImplicitArray, axis: int) -> Any:
    stacks = [Treedef.of(x) for x in xs]
    (first, fields), *others = stacks
    if axis or not all(_is_deep(treedef, leaves, 1) for treedef, leaves in stacks):
        return NotImplemented
    rows = [[x.type.with_shape(x.type.shape[1:]) for x in leaves] for _, leaves in stacks]
    if any(treedef != first for treedef, _ in others) or not all(
        all(map(may_equal, rows[0], row)) for row in rows
    ):
        return NotImplemented
    columns: Any = zip(fields, *[leaves for _, leaves in others], strict=True)
    return first.build([Tensor.make(Concatenate(0), *column) for column in columns])


def may_equal(a: TensorType, b: TensorType) -> bool:
    """Return whether two types are equal except for unknown lengths."""
    return a.dtype == b.dtype and shapes_fit(a.shape, b.shape)
