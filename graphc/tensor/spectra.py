"""What operations on spectra share: how they fail, and what stands for one over a gap of zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir import TensorType, here, is_float, promote, where as where_is
from graphc.tensor.broadcast import broadcast_lengths, broadcast_to, repeated
from graphc.tensor.create import eye
from graphc.tensor.elementwise import abs, broadcast_shapes, cast, less_equal, where, widened_name
from graphc.tensor.mirror import check_floats, in_floats
from graphc.tensor.reduce import max
from graphc.tensor.shape import length, lengths
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = [
    "apart",
    "by_lapack",
    "check_matrix",
    "column",
    "complex_of",
    "fewer",
    "given",
    "given_together",
    "narrow",
    "nearly_zero",
    "on_diagonal",
    "row",
    "smaller",
    "spread",
    "stacked",
]

Array = np.ndarray[Any, Any]


# What is given, and its type.


def check_matrix(op: str, x: TensorType) -> None:
    """Raise where it is no array of matrices in a dtype that LAPACK computes in.

    Raises:
        ShapeError: It has fewer than two axes.
        DTypeError: It is no float32, float64, complex64 or complex128.
    """
    check_floats(op, x)
    if x.ndim < 2:
        raise ShapeError(
            f"{op}({x!r}): this is no matrix.",
            "The last two axes are the matrix, those in front a batch.",
            where_is(here()),
        )


def fewer(n: int | None, m: int | None) -> int | None:
    """The smaller of two lengths, where it is known."""
    return min(n, m) if n is not None and m is not None else 0 if 0 in {n, m} else None


def smaller(x: Tensor) -> Any:
    """How many rows or columns matrices have, whichever are fewer."""
    m, n = lengths(x)[-2:]
    known = fewer(*x.type.shape[-2:])
    return where(less_equal(m, n), m, n) if known is None else known


def complex_of(dtype: str) -> str:
    """The complex dtype of the same precision."""
    return promote(dtype, "complex64")


def given(op: str, x: Any) -> tuple[Tensor, str]:
    """Matrices in the dtype to compute in, and the one that results of that dtype are to have.

    Raises:
        ShapeError: It has fewer than two axes.
    """
    (x,), dtype = in_floats(op, x)
    check_matrix(op, x.type)
    return x, dtype


def given_together(op: str, *values: Any) -> tuple[list[Tensor], str]:
    """The same of several arrays, whose axes in front are broadcast."""
    xs, dtype = in_floats(op, *values)
    for x in xs:
        check_matrix(op, x.type)
    broadcast_shapes(op, [x.type.with_shape(x.type.shape[:-2]) for x in xs])
    heads = broadcast_lengths(xs, 2)
    return [broadcast_to(x, (*heads, *lengths(x)[-2:])) for x in xs], dtype


def spread(size: Any, batched: Sequence[bool], xs: Sequence[Tensor]) -> list[Tensor]:
    """The inputs of a batch, those that are equal for all of it repeated."""
    pairs = zip(xs, batched, strict=True)
    return [x if flag else repeated(x, size) for x, flag in pairs]


def narrow(y: Tensor, dtype: str) -> Tensor:
    """A result that was computed in float32 for half-width floats, in their dtype."""
    return cast(y, dtype) if is_float(y.dtype) and widened_name(dtype) != dtype else y


# Vectors as matrices.


def row(x: Tensor) -> Tensor:
    """Vectors as matrices of one row."""
    return x[..., None, :]


def column(x: Tensor) -> Tensor:
    """Vectors as matrices of one column."""
    return x[..., :, None]


def on_diagonal(values: Tensor) -> Tensor:
    """Square matrices with vectors on their diagonals, and zeros elsewhere."""
    unit = eye(length(values, -1), dtype="bool")
    return where(unit, row(values), as_tensor(0, dtype=values.dtype))  # type: ignore[no-any-return]


# Gaps.


def nearly_zero(values: Tensor) -> Tensor:
    """What of numbers as large as the largest of these is zero but for rounding."""
    size = abs(values)
    rounding = float(np.finfo(size.type.numpy_dtype).eps)
    n = cast(as_tensor(length(values, -1)), size.dtype)
    return max(size, -1, keepdims=True, initial=0) * (rounding * n)


def apart(values: Tensor) -> Tensor:
    """``1 / (values[j] - values[i])``, and 0 where the two are equal but for rounding.

    A function whose derivative exists at repeated eigenvalues does not depend on which vectors
    stand for them, so that what is multiplied by these zeros is zero as well.
    """
    gaps = row(values) - column(values)
    alike = less_equal(abs(gaps), row(nearly_zero(values)))
    return where(alike, 0, 1 / where(alike, 1, gaps))  # type: ignore[no-any-return]


# References.


def by_lapack(
    compute: Callable[..., Any],
    xs: Sequence[Array],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[Any],
) -> tuple[Array, ...]:
    """What ``stacked`` gives, for functions that take batches: these at once, if none fails."""
    if all(np.isfinite(x).all() for x in xs):
        try:
            found = compute(*xs)
        except np.linalg.LinAlgError:
            return stacked(compute, xs, shapes, dtypes)
        pairs = zip(found, dtypes, strict=True)
        return tuple(np.asarray(y).astype(dtype, copy=False) for y, dtype in pairs)
    return stacked(compute, xs, shapes, dtypes)


def stacked(
    compute: Callable[..., Any],
    xs: Sequence[Array],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[Any],
) -> tuple[Array, ...]:
    """The results of a function of matrices for each of a batch; NaN where it fails.

    It fails where an element is not finite, and where the function says so.

    Args:
        compute: Takes a matrix of each array, and gives a sequence of results.
        xs: Arrays of matrices, of one batch.
        shapes: Of the results of one element of the batch.
        dtypes: Of the results.
    """
    front = xs[0].shape[:-2]
    pairs = zip(shapes, dtypes, strict=True)
    made = tuple(np.empty((*front, *shape), dtype) for shape, dtype in pairs)
    if any(y.size for y in made):
        for place in np.ndindex(front):
            found = _attempt(compute, [x[place] for x in xs])
            for i, y in enumerate(made):
                y[place] = np.nan if found is None else found[i]
    return made


def _attempt(compute: Callable[..., Any], xs: Sequence[Array]) -> Any:
    if not all(np.isfinite(x).all() for x in xs):
        return None
    try:
        return compute(*xs)
    except np.linalg.LinAlgError:
        return None
