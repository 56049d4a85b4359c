"""Evenly spaced values, and the coordinates of grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np

from graphc.config import config
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Constant, dtype_name, is_inexact, is_integer, promote, real_dtype
from graphc.tensor.arrays.broadcast import broadcast_arrays, broadcast_to
from graphc.tensor.arrays.create import all_numbers, arange
from graphc.tensor.arrays.index import nonzero_indices
from graphc.tensor.arrays.join import stack
from graphc.tensor.core.axes import expand_dims, moveaxis
from graphc.tensor.core.elementwise import cast, equal, floor, maximum, sign, where, wide_dtype_name
from graphc.tensor.core.exponential import log, power
from graphc.tensor.core.shape import entries, mixed_entries
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, constant, function, operands

__all__ = [
    "geomspace", "indices", "ix_", "linspace", "logspace", "meshgrid", "mgrid", "ogrid",
]  # fmt: skip


@overload
def linspace(
    start: TensorLike,
    stop: TensorLike,
    num: Any = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor: ...


@overload
def linspace(
    start: TensorLike,
    stop: TensorLike,
    num: Any = 50,
    endpoint: bool = True,
    *,
    retstep: Literal[True],
    dtype: Any = None,
    axis: int = 0,
) -> tuple[Tensor, Tensor]: ...


@function
def linspace(  # noqa: PLR0913, PLR0917 (NumPy's arguments)
    start: TensorLike,
    stop: TensorLike,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return evenly spaced values from ``start`` to ``stop``.

    Args:
        start: The first value, or an array of them.
        stop: The last value, or with ``endpoint=False`` the first one left out; an array that
            broadcasts with ``start``.
        num: The number of values: a Python or symbolic integer.
        endpoint: Whether ``stop`` is the last value.
        retstep: Also return the distance.
        dtype: By default the common dtype of the two, ``config.floatX`` for Python's numbers and
            float64 for other integers. Values are rounded down for an integer one, those between
            integers without error.
        axis: The axis of the values in the result.

    Returns:
        The values, with ``retstep`` and their distance in a tuple.

    Raises:
        ShapeError: ``num`` is negative, or the shapes do not fit.

    Example:
        >>> linspace(0, 1, 5).eval(mode="NUMPY").tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    (first, last), wide, kind = _ends("linspace", (start, stop), dtype)
    (static,), symbolic = entries("linspace", num)
    count: Any = symbolic[0] if static is None else static
    gaps: Any = count - 1 if endpoint else count
    divisor = max(gaps, 1) if isinstance(gaps, int) else maximum(gaps, 1)
    positions = _along_first_axis(arange(count), max(first.ndim, last.ndim))
    step = (last - first) / cast(divisor, real_dtype(wide))
    ends, common = operands("linspace", (start, stop))
    if is_integer(kind) and is_integer(common) and common != "uint64":
        whole_first, whole_last = (cast(x, "int64") for x in ends)
        values = whole_first + (whole_last - whole_first) * positions // divisor
    else:
        values = cast(positions, real_dtype(wide)) * step + first
        if endpoint and (static is None or static > 1):
            # The last value is the end itself, without rounding.
            values = where(equal(positions, divisor), last, values)
        values = floor(values) if is_integer(kind) else values
    result = moveaxis(cast(values, kind), 0, axis)
    # A single value has no distance.
    return (result, cast(where(as_tensor(gaps) > 0, step, math.nan), wide)) if retstep else result


def _ends(op: str, ends: Sequence[Any], dtype: Any) -> tuple[list[Tensor], str, str]:
    """Return the ends in the dtype of the computation, that dtype, and the requested one."""
    xs, common = operands(op, ends)
    if all_numbers(*ends):
        common = config.floatX
    elif not is_inexact(common):
        common = "float64"
    kind = dtype_name(dtype) if dtype else common
    wide = wide_dtype_name(promote(common, kind) if is_inexact(kind) else common)
    return [cast(x, wide) for x in xs], wide, kind


def _along_first_axis(values: Tensor, ndim: int) -> Tensor:
    return expand_dims(values, tuple(range(1, ndim + 1)))


@function
def logspace(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    start: TensorLike,
    stop: TensorLike,
    num: Any = 50,
    base: TensorLike = 10.0,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """Return powers of a base with evenly spaced exponents.

    Args:
        start: The first exponent, or an array of them.
        stop: The last exponent; an array that broadcasts with ``start``.
        num: The number of values: a Python or symbolic integer.
        base: The base, a number or an array that broadcasts with the result.
        endpoint: Whether ``base ** stop`` is the last value.
        dtype: As for ``linspace``.
        axis: The axis of the values in the result.

    Raises:
        ShapeError: ``num`` is negative, or the shapes do not fit.
        ArgumentError: The base is a bool: ``endpoint`` goes by its name.

    Example:
        >>> logspace(0, 3, 4, base=2.0).eval(mode="NUMPY").tolist()
        [1.0, 2.0, 4.0, 8.0]
    """
    if isinstance(base, bool):
        raise ArgumentError(f"logspace: base={base} is a bool.", f"Write endpoint={base}.")
    _, wide, kind = _ends("logspace", (start, stop), dtype)
    values = power(base, linspace(start, stop, num, endpoint, dtype=wide, axis=axis))
    return cast(values, dtype or (values.dtype if kind == wide else kind))


@function
def geomspace(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    start: TensorLike,
    stop: TensorLike,
    num: Any = 50,
    base: float = 10.0,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """Return values from ``start`` to ``stop`` with a constant ratio between neighbours.

    Args:
        start: The first value, or an array of them; not 0.
        stop: The last value, of the same sign; an array that broadcasts with ``start``.
        num: The number of values: a Python or symbolic integer.
        base: The base of the logarithms in the computation; any gives the same values.
        endpoint: Whether ``stop`` is the last value.
        dtype: As for ``linspace``; the values are cut off for an integer one.
        axis: The axis of the values in the result.

    Raises:
        ShapeError: ``num`` is negative, or the shapes do not fit.
        ArgumentError: An end is known to be 0.

    Example:
        >>> geomspace(1, 16, 5, base=2.0).eval(mode="NUMPY").tolist()
        [1.0, 2.0, 4.0, 8.0, 16.0]
    """
    (first, last), wide, kind = _ends("geomspace", (start, stop), dtype)
    for end in (start, stop):
        x = as_tensor(end)
        if isinstance(x.op, Constant) and not x.op.value.all():
            raise ArgumentError(
                "geomspace: an end is 0, which has no logarithm.", "Pass nonzero ends."
            )
    turn = sign(first)
    root = cast(base, real_dtype(wide))
    low, high = (log(end / turn) / log(root) for end in (first, last))
    values = power(root, linspace(low, high, num, endpoint)) * turn
    (static,), symbolic = entries("geomspace", num)
    count: Any = symbolic[0] if static is None else static
    positions = _along_first_axis(arange(count), values.ndim - 1)
    if endpoint:
        values = where(equal(positions, count - 1), last, values)
    values = where(equal(positions, 0), first, values)
    return moveaxis(cast(values, kind), 0, axis)


@function
def meshgrid(
    *xi: TensorLike, copy: bool = True, sparse: bool = False, indexing: Literal["xy", "ij"] = "xy"
) -> list[Tensor]:
    """Return the coordinates of a grid's points, an array for each axis.

    Args:
        xi: The coordinates along each axis: vectors, or scalars for a single one.
        copy: Has no effect, as arrays never change.
        sparse: Leave the arrays of length 1 along the axes on which they are constant.
        indexing: ``"xy"`` exchanges the first two axes of the results, ``"ij"`` does not.

    Raises:
        ShapeError: An array has more than one axis.
        ArgumentError: The indexing is neither of these.

    Example:
        >>> import graphc.tensor as gt
        >>> [x.type for x in meshgrid(gt.tensor(shape=(2,)), gt.tensor(shape=(3,)))]
        [float64[3, 2], float64[3, 2]]
    """
    if indexing not in {"xy", "ij"}:
        raise ArgumentError(f"meshgrid: unknown indexing={indexing!r}.", "Use 'xy' or 'ij'.")
    ndim = len(xi)
    order = [1, 0, *range(2, ndim)] if indexing == "xy" and ndim > 1 else [*range(ndim)]
    grids = []
    for i, x in enumerate(_vectors("meshgrid", xi)):
        grids.append(expand_dims(x, [axis for axis in range(ndim) if axis != order[i]]))
    return grids if sparse else broadcast_arrays(*grids)


def _vectors(op: str, xs: Sequence[Any]) -> list[Tensor]:
    arrays = [as_tensor(x) for x in xs]
    for x in arrays:
        if x.ndim > 1:
            raise ShapeError(f"{op}: expected a vector, got {x!r}.")
    return [x if x.ndim else expand_dims(x, 0) for x in arrays]


@function
def ix_(*args: TensorLike) -> tuple[Tensor, ...]:
    """Return index arrays that select every combination of positions along each axis.

    Args:
        args: The positions along each axis: integer vectors, or masks.

    Returns:
        An array for each, of length 1 on all axes but its own.

    Raises:
        ShapeError: An array is not a vector.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.tensor("x", shape=(4, 5))[ix_([0, 2], [1, 3, 4])].type
        float64[2, 3]
    """
    grids = []
    for axis, x in enumerate(map(as_tensor, args)):
        if x.ndim != 1:
            raise ShapeError(f"ix_: expected a vector, got {x!r}.")
        positions = x
        if x.dtype == "bool":
            mask = x.op.value if isinstance(x.op, Constant) else None
            positions = nonzero_indices(x)[0] if mask is None else constant(np.flatnonzero(mask))
        # An empty list is one of floats, which index nothing.
        positions = cast(positions, "int64") if x.type.shape == (0,) else positions
        grids.append(expand_dims(positions, [i for i in range(len(args)) if i != axis]))
    return tuple(grids)


@overload
def indices(dimensions: Any, dtype: Any = "int64", sparse: Literal[False] = False) -> Tensor: ...


@overload
def indices(dimensions: Any, dtype: Any = "int64", *, sparse: Literal[True]) -> list[Tensor]: ...


@function
def indices(dimensions: Any, dtype: Any = "int64", sparse: bool = False) -> Tensor | list[Tensor]:
    """Return the index of each element of an array along each of its axes.

    Args:
        dimensions: The array's lengths: Python or symbolic integers.
        dtype: The dtype of the result.
        sparse: Return a list of arrays that are of length 1 on all axes but their own.

    Returns:
        An array with one axis more, the first, for the axes; or a list with ``sparse``.

    Example:
        >>> indices((2, 3)).type
        int64[2, 2, 3]
    """
    shape = mixed_entries("indices", dimensions)
    grids = meshgrid(*[arange(n, dtype=dtype) for n in shape], sparse=True, indexing="ij")
    if sparse:
        return grids
    if not grids:
        return constant([], dtype=dtype)
    return stack([broadcast_to(x, shape) for x in grids])


GridResult = TypeVar("GridResult", Tensor, list[Tensor])


class Grid(Generic[GridResult]):
    """Coordinates by slices: ``mgrid[0:3, 1:5:2]`` is a full grid, ``ogrid[...]`` an open one.

    A slice is as for ``arange``; an imaginary step ``5j`` means 5 values, the stop included. Bounds
    may be symbolic scalars. A full grid is one array with an axis in front for the coordinates, an
    open one a list of arrays of length 1 on all axes but their own; of a single slice, both are a
    vector.

    Attributes:
        sparse: Whether the grid is open.
    """

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    @overload
    def __getitem__(self, key: slice) -> Tensor: ...

    @overload
    def __getitem__(self, key: tuple[slice, ...]) -> GridResult: ...

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if not isinstance(key, tuple):
            return self._values(key)
        grids = meshgrid(*map(self._values, key), sparse=self.sparse, indexing="ij")
        return grids if self.sparse else stack(grids)

    def _values(self, part: slice) -> Tensor:
        if not isinstance(part, slice) or part.stop is None:
            raise ArgumentError(
                f"Grid: expected slices with a stop, got {part!r}.",
                "Write gt.mgrid[0:3, 1:5:2], for example.",
            )
        start = 0 if part.start is None else part.start
        if isinstance(part.step, complex):
            return linspace(start, part.stop, int(abs(part.step)))
        return arange(start, part.stop, 1 if part.step is None else part.step)


mgrid: Grid[Tensor] = Grid(sparse=False)
ogrid: Grid[list[Tensor]] = Grid(sparse=True)
