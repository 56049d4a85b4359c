"""Elements selected by indices and by conditions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.config import config
from graphc.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from graphc.ir import Op, TensorType, is_inexact, is_integer
from graphc.tensor.arrays.broadcast import broadcast_arrays, broadcast_lengths, broadcast_to
from graphc.tensor.arrays.create import arange, zeros_like
from graphc.tensor.arrays.index import HOLE, Index, IndexUpdate, nonzero_indices
from graphc.tensor.arrays.join import stack
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import expand_dims, moveaxis, slice_at_axis
from graphc.tensor.core.shape import length, lengths, mixed_entries, ravel, reshape
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import (
    Axis,
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    constant,
    function,
    operands,
)

__all__ = [
    "choose", "compress", "count_nonzero", "extract", "inverse_permutation", "one_hot",
    "permute_row_elements", "put_along_axis", "ravel_multi_index", "relu", "select", "take",
    "take_along_axis", "to_one_hot", "unravel_index",
]  # fmt: skip

# Indices.


@dataclass(frozen=True, slots=True)
class CheckedIndices(Op):
    """Integers, each checked to be from 0 on and below the length beside it.

    Others raise in backends that see values as the program runs; compiled backends check no
    indices.

    Attributes:
        what: The name of the indices in errors.
    """

    what: str
    name = "checked_indices"

    def infer(self, i: TensorType, n: TensorType) -> TensorType:
        return i.with_shape(ew.broadcast_shapes(self.what, (i, n)))

    def perform(self, i: np.ndarray[Any, Any], n: np.ndarray[Any, Any]) -> Any:
        i, n = np.broadcast_arrays(i, n)
        wrong = (i < 0) | (i >= n)
        if wrong.any():
            raise BoundsError(
                f"{self.what}: {i[wrong][0]} is not from 0 on and below {n[wrong][0]}.",
                "mode='clip' and mode='wrap' bring such values into the range, where there is one.",
            )
        return i

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        return Tensor.make(self, *ew.align_ranks(batched, inputs))


def checked_indices(what: str, i: Tensor, n: Any) -> Tensor:
    """Return indices checked to be from 0 on and below a length, an integer or an array of them."""
    return Tensor.make(CheckedIndices(what), i, as_tensor(n, dtype="int64"))


def apply_index_mode(op: str, i: Any, n: Any, mode: str) -> Tensor:
    """Return indices wrapped, clipped or checked to lie below a length.

    Raises:
        ArgumentError: The mode is unknown.
        DTypeError: The indices are no integers.
    """
    i = _indices(op, i)
    if mode == "wrap":
        return ew.remainder(i, n)
    if mode == "clip":
        return ew.clip(i, 0, as_tensor(n, dtype="int64") - 1)
    if mode == "raise":
        return checked_indices(op, i, n)
    raise ArgumentError(f"{op}: unknown mode={mode!r}.", "Use 'raise', 'wrap' or 'clip'.")


def _indices(op: str, i: Any) -> Tensor:
    i = as_tensor(i)
    if i.type.shape == (0,) and not i.inputs and is_inexact(i.dtype):
        i = ew.cast(i, "int64")
    if not is_integer(i.dtype):
        raise DTypeError(f"{op}: expected integers, got {i!r}.", "Cast them with astype.")
    return ew.cast(i, "int64")


@function
def take(
    x: TensorLike, indices: TensorLike, axis: int | None = None, mode: str = "raise"
) -> Tensor:
    """Return the elements at these positions along an axis, or of all in row-major order.

    Args:
        x: Any shape.
        indices: Integers of any shape, Python's or symbolic; negative ones count from the end.
        axis: A Python integer; None takes from all elements.
        mode: For indices outside: ``"raise"``, as indexing does, ``"wrap"`` them around, or
            ``"clip"`` them to the first and the last, so that none counts from the end.

    Raises:
        ShapeError: x has no such axis.
        ArgumentError: The mode is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.take([10, 20, 30], [2, 0]).eval(mode="NUMPY").tolist()
        [30, 10]
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = ravel(x), 0
    (at,) = axes_of("take", axis, x.ndim)
    if mode != "raise":
        indices = apply_index_mode("take", indices, length(x, at), mode)
    return x[slice_at_axis(indices, at)]


def _grid(op: str, x: Tensor, indices: Any, axis: Any) -> tuple[Tensor, list[Tensor]]:
    """Return the array, or all elements if there is no axis, and index arrays for each axis."""
    indices = _indices(op, indices)
    if axis is None:
        x, axis = ravel(x), 0
    if indices.ndim != x.ndim:
        raise ShapeError(
            f"{op}: the indices {indices!r} and {x!r} differ in rank.",
            "Pass indices with as many axes as the array.",
        )
    (at,) = axes_of(op, axis, x.ndim)
    grid = [
        expand_dims(arange(n), tuple(j for j in range(x.ndim) if j != i))
        for i, n in enumerate(lengths(x))
    ]
    grid[at] = indices
    return x, grid


@function
def take_along_axis(x: TensorLike, indices: TensorLike, axis: int | None = -1) -> Tensor:
    """Return the elements at given positions of each slice along an axis.

    Args:
        x: Any shape.
        indices: Integers with as many axes, whose other lengths are x's or broadcast; negative
            ones count from the end.
        axis: The axis; None takes from all elements, with a vector of indices.

    Returns:
        An array of the indices' shape, where nothing broadcasts.

    Raises:
        ShapeError: The two differ in rank, or lengths do not fit.
        DTypeError: The indices are no integers.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.as_tensor([[3, 1, 2], [4, 6, 5]])
        >>> gt.take_along_axis(x, gt.argsort(x), axis=1).eval(mode="NUMPY").tolist()
        [[1, 2, 3], [4, 5, 6]]
    """
    x, grid = _grid("take_along_axis", as_tensor(x), indices, axis)
    return Tensor.make(Index((HOLE,) * x.ndim), x, *grid)


@function
def put_along_axis(
    x: TensorLike,
    indices: TensorLike,
    values: TensorLike,
    axis: int | None = -1,
    *,
    accumulate: bool = False,
) -> Tensor:
    """Return x with the elements at given positions of each slice along an axis replaced.

    Args:
        x: Any shape.
        indices: As for ``take_along_axis``; which of several values for one element remains is
            not defined.
        values: Array that broadcasts to the indices' shape; cast to x's dtype.
        axis: The axis; None puts into all elements, with a vector of indices.
        accumulate: Add the values instead; several for one element add up.

    Returns:
        An array of x's shape and dtype; x itself does not change.

    Raises:
        ShapeError: The ranks or lengths do not fit.
        DTypeError: The indices are no integers.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.put_along_axis([[1, 2], [3, 4]], [[1], [0]], 9, axis=1).eval(mode="NUMPY").tolist()
        [[1, 9], [9, 4]]
    """
    x = as_tensor(x)
    flat, grid = _grid("put_along_axis", x, indices, axis)
    values = as_tensor(values, dtype=x.dtype)
    update = IndexUpdate((HOLE,) * flat.ndim, accumulate)
    y = Tensor.make(update, flat, values, *grid)
    return y if axis is not None else reshape(y, lengths(x))


@function
def choose(x: TensorLike, choices: TensorLike, mode: str = "raise") -> Tensor:
    """Return, for each element, the one of the choice that its index names.

    Args:
        x: Integers, which broadcast with the choices.
        choices: Arrays that broadcast, or one array whose first axis goes over them.
        mode: For integers that name no choice: ``"raise"``, ``"wrap"`` around or ``"clip"``.
            Compiled backends do not see values, and take integers on trust instead of raising.

    Raises:
        BoundsError: An integer names no choice, when the program runs in NumPy.
        DTypeError: x does not hold integers.
        ArgumentError: The mode is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.choose([1, 0, 1], [[1, 2, 3], [10, 20, 30]]).eval(mode="NUMPY").tolist()
        [10, 2, 30]
    """
    if isinstance(choices, list | tuple):
        (*arrays,), _ = operands("choose", choices)
        choices = stack(broadcast_arrays(*arrays))
    choices = as_tensor(choices)
    n, one = length(choices, 0), choices[0]
    x = apply_index_mode("choose", x, n, mode)
    shape = broadcast_lengths([x, one])
    new = tuple(range(1, 1 + len(shape) - one.ndim))
    full = broadcast_to(expand_dims(choices, new), (n, *shape))
    return take_along_axis(full, broadcast_to(x, shape)[None], 0)[0]


# Conditions.


@function
def compress(condition: TensorLike, x: TensorLike, axis: int | None = None) -> Tensor:
    """Return the slices along an axis for which a condition holds.

    Their number depends on the condition, so compiled backends take a constant one only.

    Args:
        condition: A vector, read as bool; slices beyond its end are left out.
        x: Any shape.
        axis: The axis; by default all elements in row-major order.

    Raises:
        ShapeError: The condition is not a vector.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.compress([True, False], [[1, 2], [3, 4]], axis=0).eval(mode="NUMPY").tolist()
        [[1, 2]]
    """
    condition = ew.cast(condition, "bool")
    if condition.ndim != 1:
        raise ShapeError(f"compress: expected a vector as condition, got {condition!r}.")
    return take(x, nonzero_indices(condition)[0], axis)


@function
def extract(condition: TensorLike, x: TensorLike) -> Tensor:
    """Return the elements for which a condition of the same size holds, as a vector.

    Args:
        condition: Read as bool; any shape, in row-major order.
        x: As many elements.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.extract([True, False, True], [1, 2, 3]).eval(mode="NUMPY").tolist()
        [1, 3]
    """
    return compress(ravel(ew.cast(condition, "bool")), x)


@function
def count_nonzero(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the number of nonzero elements over axes, int64.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.count_nonzero([[1, 0], [2, 3]], axis=1).eval(mode="NUMPY").tolist()
        [1, 2]
    """
    return sum(ew.not_equal(x, 0), axis, keepdims=keepdims)


@function
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """Return, for each element, the choice of the first condition that holds.

    Args:
        condlist: Conditions, arrays of bool that broadcast.
        choicelist: As many arrays, which broadcast with them.
        default: The value where no condition holds.

    Raises:
        ArgumentError: There is no condition, or another number of choices.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.as_tensor([-2, 0, 3])
        >>> gt.select([x < 0, x > 0], [-x, x * 10], 7).eval(mode="NUMPY").tolist()
        [2, 7, 30]
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentError(
            f"select: got {len(condlist)} conditions and {len(choicelist)} choices.",
            "Pass one choice for each condition.",
        )
    (*choices, y), _ = operands("select", (*choicelist, default))
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        y = ew.where(condition, choice, y)
    return y


# Flat positions and indices.


@function
def ravel_multi_index(
    multi_index: Iterable[TensorLike], dims: Any, mode: Any = "raise", order: str = "C"
) -> Tensor:
    """Return flat positions from an index for each axis.

    Args:
        multi_index: Arrays of integers that broadcast, one for each axis, or one array whose
            first axis goes over them.
        dims: The lengths of the axes: integers, Python's or symbolic, or a vector of integers.
        mode: For indices that are out of bounds: ``"raise"``, ``"wrap"`` around or ``"clip"``; or
            one for each axis. JAX and MLX do not check instead of raising.
        order: ``"C"``: row-major, or ``"F"``: column-major.

    Returns:
        An int64 array.

    Raises:
        ArgumentError: If there are more or fewer lengths, or modes, than arrays of indices, or a
            mode or order is unknown.
        DTypeError: If indices or lengths are not integers.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.ravel_multi_index(([1, 2], [3, 0]), (3, 4)).eval(mode="NUMPY").tolist()
        [7, 8]
    """
    if isinstance(multi_index, Tensor) and isinstance(dims, list | tuple):
        multi_index = specify_shape(multi_index, (len(dims), *[None] * (multi_index.ndim - 1)))
    indices = list(multi_index)
    if isinstance(dims, Tensor):
        dims = specify_shape(dims, (len(indices),))
    dims = mixed_entries("ravel_multi_index", dims)
    modes = [mode] * len(dims) if isinstance(mode, str) else list(mode)
    if not len(dims) == len(indices) == len(modes):
        raise ArgumentError(
            f"ravel_multi_index: got {len(indices)} indices and {len(modes)} modes for {len(dims)} "
            "axes.",
            "Pass one for each axis.",
        )
    bounded = [
        apply_index_mode("ravel_multi_index", i, n, m)
        for i, n, m in zip(indices, dims, modes, strict=True)
    ]
    pairs = list(zip(bounded, dims, strict=True))
    y: Any = constant(0)
    for i, n in pairs if _is_row_major("ravel_multi_index", order) else reversed(pairs):
        y = y * n + i
    return y  # type: ignore[no-any-return]


def _is_row_major(op: str, order: str) -> bool:
    if order not in {"C", "F"}:
        raise ArgumentError(f"{op}: unknown order={order!r}.", "Use 'C' or 'F'.")
    return order == "C"


@function
def unravel_index(indices: TensorLike, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    """Return an index for each axis from flat positions.

    Args:
        indices: Integers of any shape, from 0 on and below the number of elements; others raise
            in NumPy, and compiled backends take them on trust.
        shape: The lengths of the axes: integers, Python's or symbolic.
        order: ``"C"``: row-major, or ``"F"``: column-major.

    Returns:
        An int64 array for each axis.

    Example:
        >>> import graphc.tensor as gt
        >>> [y.eval(mode="NUMPY").tolist() for y in gt.unravel_index([1, 5], (2, 3))]
        [[0, 1], [1, 2]]
    """
    dims = mixed_entries("unravel_index", shape)
    rest = checked_indices("unravel_index", _indices("unravel_index", indices), math.prod(dims))
    row_major = _is_row_major("unravel_index", order)
    result: list[Tensor] = []
    for n in reversed(dims) if row_major else dims:
        result.append(ew.remainder(rest, n))
        rest = ew.floor_divide(rest, n)
    return tuple(reversed(result)) if row_major else tuple(result)


# Permutations, and indices as vectors.


@function
def inverse_permutation(perm: TensorLike) -> Tensor:
    """Return the inverse of a permutation along the last axis.

    Args:
        perm: Integers: each from 0 on and below the last length once.

    Returns:
        An array of perm's shape and dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.inverse_permutation([2, 0, 1]).eval(mode="NUMPY").tolist()
        [1, 2, 0]
    """
    perm = as_tensor(perm)
    indices = _indices("inverse_permutation", perm)
    offsets = arange(length(perm, -1), dtype=perm.dtype if is_integer(perm.dtype) else "int64")
    return put_along_axis(zeros_like(indices, dtype=offsets.dtype), indices, offsets, -1)


@function
def permute_row_elements(x: TensorLike, y: TensorLike, inverse: bool = False) -> Tensor:
    """Return the elements along the last axis in another order.

    Args:
        x: Any shape; its axes in front of the last broadcast with y's.
        y: Permutations along the last axis, int64.
        inverse: Undo the permutations.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.permute_row_elements([[1.0, 2.0, 3.0]], [[2, 0, 1]]).eval(mode="NUMPY").tolist()
        [[3.0, 1.0, 2.0]]
    """
    x, y = as_tensor(x), _indices("permute_row_elements", y)
    ndim = max(x.ndim, y.ndim)
    x, y = as_tensor(x, ndim=ndim), as_tensor(y, ndim=ndim)
    y = inverse_permutation(y) if inverse else y
    return take_along_axis(x, y, -1)


@function
def to_one_hot(y: TensorLike, nb_class: Any, dtype: Any = None) -> Tensor:
    """Return a one-hot vector for each integer, along a new last axis.

    Args:
        y: Integers of any shape; one outside gives a vector of zeros.
        nb_class: The length of the vectors.
        dtype: ``config.floatX`` by default.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.to_one_hot([0, 2], 3, dtype="int8").eval(mode="NUMPY").tolist()
        [[1, 0, 0], [0, 0, 1]]
    """
    y = _indices("to_one_hot", y)
    return ew.cast(ew.equal(expand_dims(y, -1), arange(nb_class)), dtype or config.floatX)


@function
def one_hot(x: TensorLike, num_classes: Any, dtype: Any = None, axis: int = -1) -> Tensor:
    """Return a one-hot vector for each integer, along a new axis, as ``jax.nn.one_hot``.

    Args:
        x: Integers of any shape; one outside of ``0 <= x < num_classes`` gives a vector of zeros.
        num_classes: The length of the vectors.
        dtype: ``config.floatX`` by default.
        axis: The position of the new axis in the result.

    Raises:
        DTypeError: If x is not of integers.
        ShapeError: If the result has no such axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.one_hot([0, 2], 3, dtype="int8", axis=0).eval(mode="NUMPY").tolist()
        [[1, 0], [0, 0], [0, 1]]
    """
    return moveaxis(to_one_hot(x, num_classes, dtype), -1, axis)


@function
def relu(x: TensorLike) -> Tensor:
    """Return ``max(x, 0)``, with the gradient 0 at 0, as ``jax.nn.relu``; NaN stays.

    Args:
        x: Real numbers of any shape.

    Raises:
        DTypeError: If x is complex.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.relu([-1.0, 2.0]).eval(mode="NUMPY").tolist()
        [0.0, 2.0]
    """
    x = as_tensor(x)
    return ew.where(x <= 0, zeros_like(x), x)
