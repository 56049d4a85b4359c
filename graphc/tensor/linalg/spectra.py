"""Shared parts of spectral operations: failures, and inverses of vanishing gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir import TensorType, is_float, promote
from graphc.ir.lengths import least
from graphc.tensor.arrays.broadcast import broadcast_lengths, broadcast_to
from graphc.tensor.arrays.create import eye
from graphc.tensor.arrays.reduce import max
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.shape import length, lengths
from graphc.tensor.core.tensor import Tensor, as_tensor
from graphc.tensor.linalg.mirror import check_floats, in_floats

Array = np.ndarray[Any, Any]


# Operands and their types.


def check_matrix(op: str, x: TensorType | Tensor) -> None:
    """Raise unless x holds matrices in a dtype that LAPACK computes in.

    Raises:
        ShapeError: x has fewer than two axes.
        DTypeError: x is no float32, float64, complex64 or complex128.
    """
    check_floats(op, x)
    if x.ndim < 2:
        raise ShapeError(
            f"{op}({x!r}): expected matrices.",
            "The last two axes are the matrix, those in front a batch.",
        )


def min_dimension(x: Tensor) -> Any:
    """Return the number of rows or columns of matrices, whichever are fewer."""
    m, n = lengths(x)[-2:]
    static = least(*x.type.shape[-2:])
    return ew.where(ew.less_equal(m, n), m, n) if static is None else static


def complex_of(dtype: str) -> str:
    """Return the complex dtype of the same precision."""
    return promote(dtype, "complex64")


def as_matrices(op: str, x: Any) -> tuple[Tensor, str]:
    """Return matrices in the dtype of the computation, and the dtype of the results.

    Raises:
        ShapeError: x has fewer than two axes.
    """
    (x,), dtype = in_floats(op, x)
    check_matrix(op, x)
    return x, dtype


def as_batched_matrices(op: str, *values: Any) -> tuple[list[Tensor], str]:
    """Return the same for several arrays, whose axes in front are broadcast."""
    xs, dtype = in_floats(op, *values)
    for x in xs:
        check_matrix(op, x)
    ew.broadcast_shapes(op, [x.type.with_shape(x.type.shape[:-2]) for x in xs])
    heads = broadcast_lengths(xs, 2)
    return [broadcast_to(x, (*heads, *lengths(x)[-2:])) for x in xs], dtype


def rounded_back(y: Tensor, dtype: str) -> Tensor:
    """Return a result computed in float32 for half-width floats, in their dtype."""
    return ew.cast(y, dtype) if is_float(y.dtype) and ew.wide_dtype_name(dtype) != dtype else y


# Vectors as matrices.


def row(x: Tensor) -> Tensor:
    """Return vectors as matrices of one row."""
    return x[..., None, :]


def column(x: Tensor) -> Tensor:
    """Return vectors as matrices of one column."""
    return x[..., :, None]


def on_diagonal(values: Tensor) -> Tensor:
    """Return square matrices with vectors on their diagonals, and zeros elsewhere."""
    unit = eye(length(values, -1), dtype="bool")
    return ew.where(unit, row(values), as_tensor(0, dtype=values.dtype))


# Gaps.


def nearly_zero(values: Tensor) -> Tensor:
    """Return which numbers are zero up to rounding, relative to the largest."""
    size = ew.abs(values)
    rounding = float(np.finfo(size.type.numpy_dtype).eps)
    n = ew.cast(as_tensor(length(values, -1)), size.dtype)
    return max(size, -1, keepdims=True, initial=0) * (rounding * n)


def inverse_gaps(values: Tensor) -> Tensor:
    """Return ``1 / (values[j] - values[i])``, and 0 where the two are equal up to rounding.

    A function with a derivative at repeated eigenvalues does not depend on the choice of their
    vectors, so the factors of these zeros are zero as well.
    """
    gaps = row(values) - column(values)
    alike = ew.less_equal(ew.abs(gaps), row(nearly_zero(values)))
    return ew.where(alike, 0, 1 / ew.where(alike, 1, gaps))


# References.


def by_lapack(
    compute: Callable[..., Any],
    xs: Sequence[Array],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[Any],
) -> tuple[Array, ...]:
    """Return ``map_matrices``, for functions that take batches: all at once, unless one fails."""
    if all(np.isfinite(x).all() for x in xs):
        try:
            results = compute(*xs)
        except np.linalg.LinAlgError:
            return map_matrices(compute, xs, shapes, dtypes)
        pairs = zip(results, dtypes, strict=True)
        return tuple(np.asarray(y).astype(dtype, copy=False) for y, dtype in pairs)
    return map_matrices(compute, xs, shapes, dtypes)


def map_matrices(
    compute: Callable[..., Any],
    xs: Sequence[Array],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[Any],
) -> tuple[Array, ...]:
    """Return the results of a function of matrices for each of a batch; NaN where it fails.

    A matrix that is not finite is a failure, too.

    Args:
        compute: Function of one matrix of each array, which returns a sequence of results.
        xs: Arrays of matrices, of one batch.
        shapes: Shapes of the results for one element of the batch.
        dtypes: Dtypes of the results.
    """
    front = xs[0].shape[:-2]
    pairs = zip(shapes, dtypes, strict=True)
    results = tuple(np.empty((*front, *shape), dtype) for shape, dtype in pairs)
    if any(y.size for y in results):
        for index in np.ndindex(front):
            values = _attempt(compute, [x[index] for x in xs])
            for i, y in enumerate(results):
                y[index] = np.nan if values is None else values[i]
    return results


def _attempt(compute: Callable[..., Any], xs: Sequence[Array]) -> Any:
    if not all(np.isfinite(x).all() for x in xs):
        return None
    try:
        return compute(*xs)
    except np.linalg.LinAlgError:
        return None
