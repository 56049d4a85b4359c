"""Operations on arrays: axes, shapes, creation, joining, indexing, sorting and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import graphc.tensor as gt
from graphc.interop.pytensor.application import (
    Application,
    Refusal,
    constant_integer,
    length,
    lengths,
)
from graphc.interop.pytensor.elementwise import Converter, in_dtype, without_casts
from graphc.ir import Constant, Node
from graphc.loop.functional import loop
from graphc.tensor.core.tensor import Tensor, constant


def dim_shuffle(at: Application, x: Tensor) -> Tensor:
    """Reorder axes, insert axes of length 1, and drop axes of length 1."""
    order = at.op.new_order
    if isinstance(x.op, Constant) and x.op.value.size == 1:
        return constant(x.op.value.reshape((1,) * len(order)))
    dropped = [i for i in range(x.ndim) if i not in order]
    return gt.dimshuffle(gt.specify_broadcastable(x, *dropped) if dropped else x, order)


def make_vector(at: Application, *scalars: Tensor) -> Tensor:
    if not scalars:
        return gt.zeros(0, dtype=at.dtype)
    return gt.make_vector(*[in_dtype(x, at.dtype) for x in scalars])


# Joining, splitting and repeating; the axis is a parameter or an operand.


def join(at: Application, *xs: Tensor) -> Tensor:
    if hasattr(at.op, "axis"):
        axis = at.op.axis
    else:
        axis, xs = constant_integer(xs[0], "the axis"), xs[1:]
    return gt.concatenate([in_dtype(x, at.dtype) for x in xs], axis)


def split(at: Application, x: Tensor, *rest: Tensor) -> list[Tensor]:
    axis = at.op.axis if hasattr(at.op, "axis") else constant_integer(rest[0], "the axis")
    return gt.split(x, lengths(rest[-1]), n_splits=at.op.len_splits, axis=axis)


# Indexing: ``Subtensor``, ``AdvancedSubtensor``, and the operations that write into an array.


def index_of(entry: Any) -> Any:
    """Return one index: an array, an integer, a slice, or None for a new axis."""
    if isinstance(entry, slice):
        return slice(
            *[None if n is None else _end(n) for n in (entry.start, entry.stop, entry.step)]
        )
    if isinstance(entry, Node) and not entry.ndim:  # type: ignore[attr-defined]
        return length(entry)
    return entry


def _end(n: Any) -> Any:
    return length(n) if isinstance(n, Node) else int(n)


def indices(op: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the indices of an operation, whose ``idx_list`` gives the slots of its inputs.

    Newer versions of PyTensor have the input's number there, older ones its type.
    """
    entries = getattr(op, "idx_list", None)
    if entries is None:
        return tuple(index_of(x) for x in values)
    remaining = iter(values)
    numbered = hasattr(op, "n_index_vars")

    def value(entry: Any) -> Any:
        if entry is None:
            return None
        if numbered:
            return values[entry]
        return int(entry) if isinstance(entry, int) else next(remaining)

    def with_values(entry: Any) -> Any:
        if isinstance(entry, slice):
            return slice(value(entry.start), value(entry.stop), value(entry.step))
        return value(entry)

    return tuple(index_of(with_values(entry)) for entry in entries)


def inc_subtensor(at: Application, x: Tensor, y: Tensor, *values: Any) -> Tensor:
    """Replace or increase elements of an array.

    Where an index occurs twice, both increments count, unless the operation ignores duplicates.
    """
    part = x[indices(at.op, values)]
    y = in_dtype(y, x.dtype)
    if at.op.set_instead_of_inc:
        return gt.set_subtensor(part, y)
    if getattr(at.op, "ignore_duplicates", False):
        return gt.set_subtensor(part, part + y)
    return gt.inc_subtensor(part, y)


def ravel_multi_index(at: Application, *operands: Tensor) -> Tensor:
    *indices, dims = operands
    return gt.ravel_multi_index(tuple(indices), lengths(dims), mode=at.op.mode, order=at.op.order)


def permute_row_elements(at: Application, x: Tensor, y: Tensor, *rest: Tensor) -> Tensor:
    inverse = bool(constant_integer(rest[0], "inverse")) if rest else at.op.inverse
    return gt.permute_row_elements(x, y, inverse=inverse)


# Sorting and accumulating.


def _axis(at: Application, rest: Any) -> int | None:
    """Return the axis, which older versions of PyTensor give as an array."""
    if not rest:
        return at.op.axis  # type: ignore[no-any-return]
    (axis,) = rest
    return None if axis is None else constant_integer(axis, "the axis")


def cumulative(at: Application, x: Tensor) -> Tensor:
    function = {"add": gt.cumsum, "mul": gt.cumprod}[at.op.mode]
    return function(in_dtype(x, at.dtype), at.op.axis, dtype=at.dtype)


def unique(at: Application, x: Tensor) -> Any:
    op = at.op
    results = gt.unique(x, op.return_index, op.return_inverse, op.return_counts, op.axis)
    if not op.return_inverse or op.axis is not None:
        return results
    inverse = 1 + op.return_index
    return [gt.ravel(y) if i == inverse else y for i, y in enumerate(results)]


# Reductions: ``CAReduce`` and its subclasses.


def _product_without_zeros(x: Tensor, axis: Any) -> Tensor:
    return gt.prod(gt.where(gt.equal(x, 0), gt.ones_like(x), x), axis)


REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "Add": gt.sum,
    "Mul": gt.prod,
    "Maximum": gt.max,
    "Minimum": gt.min,
    "MulWithoutZeros": _product_without_zeros,
}
"""The reductions by a scalar operation."""

LOGICAL: dict[str, Callable[..., Tensor]] = {"AND": gt.all, "OR": gt.any}
"""The reductions of bools by a scalar operation."""


def reduction(at: Application, x: Tensor) -> Tensor:
    """Reduce by a scalar operation, in the accumulator's dtype of the operation."""
    op, name = at.op, type(at.op.scalar_op).__name__
    # A scalar may be reduced along an axis, as NumPy's reductions allow.
    axis = None if op.axis is None or not x.ndim else tuple(op.axis)
    if x.dtype == "bool" and name in LOGICAL and at.dtype == "bool":
        return LOGICAL[name](x, axis)
    x = in_dtype(x, getattr(op, "acc_dtype", None) or at.dtype)
    if name in REDUCTIONS:
        return REDUCTIONS[name](x, axis)
    return _fold(at, x, axis)


def _fold(at: Application, x: Tensor, axis: tuple[int, ...] | None) -> Tensor:
    """Reduce by any other scalar operation, one element after the other."""
    identity = getattr(at.op.scalar_op, "identity", None)
    if identity is None:
        raise Refusal(f"the scalar operation {at.op.scalar_op} has no identity")
    axes = range(x.ndim) if axis is None else axis
    remaining = [i for i in range(x.ndim) if i not in axes]
    transposed = gt.transpose(x, [*axes, *remaining])
    rows = transposed.reshape((-1, *[transposed.shape[i] for i in range(len(axes), x.ndim)]))
    first = gt.full_like(rows.sum(0), identity, dtype=x.dtype)

    def step(y: Tensor, row: Tensor) -> tuple[Tensor, None]:
        (new,) = at.conversion.scalar(at.of(at.op.scalar_op), [y, row])
        return in_dtype(new, x.dtype), None

    result, _ = loop(step, first, rows, name=str(at.op))
    return result


ARRAYS: dict[str, Converter] = {
    # Reductions.
    "CAReduce": reduction,
    "FixedOpCAReduce": reduction,
    "NonZeroDimsCAReduce": reduction,
    "MaxAndMinCAReduce": reduction,
    "Max": reduction,
    "Min": reduction,
    "All": reduction,
    "Any": reduction,
    "Sum": reduction,
    "Prod": reduction,
    "ProdWithoutZeros": reduction,
    "Argmax": lambda at, x: gt.argmax(x, None if at.op.axis is None else tuple(at.op.axis)),
    # Axes and shapes.
    "DimShuffle": dim_shuffle,
    "Shape": lambda at, x: x.shape,
    "Shape_i": lambda at, x: x.shape[at.op.i],
    "SpecifyShape": lambda at, x, *shape: gt.specify_shape(
        x, [None if n is None else length(n) for n in shape]
    ),
    "Reshape": lambda at, x, new: gt.reshape(x, lengths(new), ndim=at.op.ndim),
    "JoinDims": lambda at, x: gt.join_dims(x, at.op.start_axis, at.op.n_axes),
    "SplitDims": lambda at, x, new: gt.split_dims(x, lengths(new), at.op.axis),
    # Arrays made of lengths and numbers.
    "Alloc": lambda at, value, *shape: gt.alloc(value, *map(length, shape)),
    # Zeros, as nothing may depend on the elements.
    "AllocEmpty": lambda at, *shape: gt.empty([*map(length, shape)], at.dtype),
    "ARange": lambda at, a, b, by: gt.arange(length(a), length(b), length(by), dtype=at.dtype),
    "Bartlett": lambda at, n: gt.bartlett(length(n)),
    "Eye": lambda at, n, m, k: gt.eye(length(n), length(m), length(k), dtype=at.dtype),
    "MakeVector": make_vector,
    "ExtractDiag": lambda at, x: gt.diagonal(x, at.op.offset, at.op.axis1, at.op.axis2),
    "AllocDiag": lambda at, x: gt.alloc_diag(x, at.op.offset, at.op.axis1, at.op.axis2),
    "FillDiagonal": without_casts(gt.fill_diagonal),
    "FillDiagonalOffset": lambda at, a, value, offset: gt.fill_diagonal_offset(
        a, value, length(offset)
    ),
    # Arrays joined, split and repeated.
    "Join": join,
    "Split": split,
    "Repeat": lambda at, x, n: gt.repeat(x, n if n.ndim else length(n), at.op.axis),
    # Indexing.
    "Subtensor": lambda at, x, *values: x[indices(at.op, values)],
    "AdvancedSubtensor": lambda at, x, *values: x[indices(at.op, values)],
    "AdvancedSubtensor1": lambda at, x, *values: x[indices(at.op, values)],
    "IncSubtensor": inc_subtensor,
    "AdvancedIncSubtensor": inc_subtensor,
    "AdvancedIncSubtensor1": inc_subtensor,
    "MakeSlice": lambda at, *ends: slice(*ends),
    "Nonzero": without_casts(gt.nonzero),
    "UnravelIndex": lambda at, i, dims: gt.unravel_index(i, lengths(dims), order=at.op.order),
    "RavelMultiIndex": ravel_multi_index,
    "PermuteRowElements": permute_row_elements,
    "Choose": lambda at, a, choices: gt.choose(a, choices, mode=at.op.mode),
    # Arrays sorted, searched and accumulated. Each of PyTensor's kinds of sorting may be stable.
    "SortOp": lambda at, x, *rest: gt.sort(x, _axis(at, rest)),
    "ArgSortOp": lambda at, x, *rest: gt.argsort(x, _axis(at, rest), stable=True),
    "SearchsortedOp": lambda at, x, v, *sorter: gt.searchsorted(x, v, at.op.side, *sorter),
    "CumOp": cumulative,
    "Unique": unique,
}
"""The converters of operations on arrays, by the names of their classes."""
