"""Means, variances and covariances, and comparisons within a tolerance."""

from __future__ import annotations

import builtins
import math
from typing import Any, Literal, overload

from graphc.errors import ShapeError
from graphc.ir import is_complex, is_inexact, promote, real_dtype
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.reduce import all, as_floating, mask_elements, max, min, sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.arithmetic import squared_magnitude
from graphc.tensor.core.axes import expand_dims, transpose
from graphc.tensor.core.shape import length, lengths
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
from graphc.tensor.linalg.dot import dot

__all__ = [
    "allclose", "array_equal", "average", "corrcoef", "cov", "isclose", "mean", "ptp", "std",
    "var",
]  # fmt: skip

# Moments. Half-width floats are averaged in float32.


def _count_elements(x: Tensor, axes: tuple[int, ...], mask: Any, keepdims: bool) -> Any:
    dtype = real_dtype(x.dtype)
    if mask is not None:
        held = broadcast_to(ew.cast(mask, "bool"), lengths(x))
        return ew.cast(sum(held, axes, keepdims=keepdims), dtype)
    count: Any = math.prod(length(x, axis) for axis in axes)
    return ew.cast(count, dtype) if isinstance(count, Tensor) else count


def _wide(x: Any, dtype: Any) -> tuple[Tensor, str]:
    """Return the array in the dtype to average in, and the result's dtype."""
    x = as_floating(x, dtype)
    return ew.cast(x, ew.wide_dtype_name(x.dtype)), x.dtype


@function
def mean(
    x: TensorLike,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    *,
    where: TensorLike | None = None,
) -> Tensor:
    """Return the mean over axes; integers and bool are averaged in float64.

    Args:
        x: Any shape and dtype.
        axis: Axes to reduce, all by default.
        dtype: The dtype to compute in.
        keepdims: Keep the reduced axes, of length 1.
        where: Which elements count, all by default; broadcasts to x.

    Returns:
        A floating array without ``axis``; NaN for an empty slice.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.mean([[1, 2], [3, 4]], axis=0).eval(mode="NUMPY").tolist()
        [2.0, 3.0]
    """
    x, result = _wide(x, dtype)
    axes = axes_of("mean", axis, x.ndim)
    total = sum(x, axes, keepdims=keepdims, where=where)
    return ew.cast(total / _count_elements(x, axes, where, keepdims), result)


@function
def var(
    x: TensorLike,
    axis: Axis = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: TensorLike | None = None,
) -> Tensor:
    """Return the variance: the mean of the squared distances from the mean.

    Args:
        x: Any shape and dtype.
        axis: Axes to reduce, all by default.
        dtype: The dtype to compute in.
        ddof: The sum of squares is divided by the number of elements less this, or by 0 where
            there are fewer: the result is then infinite or NaN, as NumPy's is.
        keepdims: Keep the reduced axes, of length 1.
        where: Which elements count, all by default; broadcasts to x.

    Returns:
        A real floating array without ``axis``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.var([1.0, 2.0, 3.0, 4.0]).eval(mode="NUMPY").tolist()
        1.25
    """
    x, result = _wide(x, dtype)
    axes = axes_of("var", axis, x.ndim)
    # Elements that do not count may be NaN, whose gradient would be NaN, not 0.
    centred = mask_elements(where, x - mean(x, axes, keepdims=True, where=where), 0)
    total = sum(squared_magnitude(centred), axes, keepdims=keepdims)
    return ew.cast(
        total / _degrees_of_freedom(_count_elements(x, axes, where, keepdims), ddof),
        real_dtype(result),
    )


def _degrees_of_freedom(count: Any, ddof: Any) -> Any:
    degrees = count - ddof
    return ew.maximum(degrees, 0) if isinstance(degrees, Tensor) else builtins.max(degrees, 0)


@function
def std(
    x: TensorLike,
    axis: Axis = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: TensorLike | None = None,
) -> Tensor:
    """Return the square root of ``var``; arguments as there.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.std([1.0, 3.0]).eval(mode="NUMPY").tolist()
        1.0
    """
    return ew.sqrt(var(x, axis, dtype, ddof, keepdims, where=where))


@overload
def average(
    x: TensorLike,
    axis: Axis = None,
    weights: TensorLike | None = None,
    returned: Literal[False] = False,
    keepdims: bool = False,
) -> Tensor: ...


@overload
def average(
    x: TensorLike,
    axis: Axis = None,
    weights: TensorLike | None = None,
    *,
    returned: Literal[True],
    keepdims: bool = False,
) -> tuple[Tensor, Tensor]: ...


@function
def average(
    x: TensorLike,
    axis: Axis = None,
    weights: TensorLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the mean with a weight for each element.

    Args:
        x: Any shape and dtype.
        axis: Axes to reduce, all by default.
        weights: Of x's shape, or of the lengths of ``axis`` alone; equal by default.
        returned: Also return the sums of the weights.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        A floating array without ``axis``, and with ``returned`` a second one of that shape.

    Raises:
        ShapeError: The weights fit neither x nor its axes.

    Example:
        >>> import graphc.tensor as gt
        >>> float(gt.average([1, 2, 4], weights=[2, 1, 1]).eval(mode="NUMPY"))
        2.0
    """
    x = as_tensor(x)
    axes = axes_of("average", axis, x.ndim)
    if weights is None:
        y = mean(x, axes, keepdims=keepdims)
        count = _count_elements(as_floating(x), axes, None, False)
        count = ew.cast(_count_elements(y, (), None, True) * count, y.dtype)
        return (y, broadcast_to(count, lengths(y))) if returned else y
    weights = _beside(x, as_tensor(weights), axes)
    dtype = promote(x.dtype, weights.dtype)
    dtype = dtype if is_inexact(dtype) else "float64"
    total = sum(ew.cast(weights, dtype), axes, keepdims=keepdims)
    y = sum(ew.cast(x, dtype) * ew.cast(weights, dtype), axes, keepdims=keepdims) / total
    return (y, broadcast_to(total, lengths(y))) if returned else y


def _beside(x: Tensor, weights: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return weights of some of x's axes, with axes of length 1 for the others."""
    if weights.ndim == x.ndim:
        return weights
    if weights.ndim != len(axes):
        raise ShapeError(
            f"average: weights {weights!r} do not fit {len(axes)} axes of {x!r}.",
            "Pass weights of x's shape, or of the axes' lengths.",
        )
    return expand_dims(weights, tuple(i for i in range(x.ndim) if i not in axes))


@function
def ptp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the difference of the largest and the smallest value; arguments as for ``max``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.ptp([3, 1, 7]).eval(mode="NUMPY").tolist()
        6
    """
    x = as_tensor(x)
    return max(x, axis, keepdims) - min(x, axis, keepdims)


# Covariances.


@function
def cov(  # noqa: PLR0913, PLR0917 (NumPy's arguments)
    x: TensorLike,
    y: TensorLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: TensorLike | None = None,
    aweights: TensorLike | None = None,
) -> Tensor:
    """Return the covariance matrix of variables.

    Args:
        x: A matrix with a row for each variable and a column for each observation, or a vector:
            observations of one variable.
        y: More variables, observed at the same time.
        rowvar: Variables are rows; else they are columns.
        bias: Divide by the number of observations, not by one less.
        ddof: Divide by the number of observations less this.
        fweights: A vector of integers: how often each observation was made.
        aweights: A vector of weights of the observations.

    Returns:
        A matrix, or a scalar for one variable.

    Raises:
        ShapeError: An array has more than two axes.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.cov([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]).eval(mode="NUMPY").tolist()
        [[1.0, 2.0], [2.0, 4.0]]
    """
    x = _variables("cov", x, y, rowvar)
    ddof = (0 if bias else 1) if ddof is None else ddof
    if fweights is None and aweights is None:
        centred = x - mean(x, 1, keepdims=True)
        scale = _degrees_of_freedom(ew.cast(as_tensor(length(x, 1)), real_dtype(x.dtype)), ddof)
        return _scalar_if_one(dot(centred, ew.conj(transpose(centred))) / scale)
    dtype = real_dtype(x.dtype)
    a = as_tensor(1.0 if aweights is None else aweights, dtype=dtype)
    weights = a if fweights is None else ew.cast(fweights, dtype) * a
    total = sum(weights)
    centred = x - sum(x * weights, 1, keepdims=True) / total
    scale = total - ddof * sum(weights * a) / total if aweights is not None else total - ddof
    return _scalar_if_one(dot(centred, ew.conj(transpose(centred * weights))) / ew.clip(scale, 0))


def _variables(op: str, x: Any, y: Any, rowvar: bool) -> Tensor:
    x = _rows(op, x, rowvar)
    if y is None:
        return x  # type: ignore[no-any-return]
    (x, y), _ = operands(op, (x, _rows(op, y, rowvar)))
    return concatenate([x, y], 0)


def _rows(op: str, x: Any, rowvar: bool) -> Tensor:
    x = as_floating(x)
    x = x if is_complex(x.dtype) else ew.cast(x, promote(x.dtype, "float64"))
    if x.ndim > 2:
        raise ShapeError(f"{op}: expected a vector or a matrix, got {x!r}.")
    if x.ndim < 2:
        return expand_dims(x, tuple(range(2 - x.ndim)))
    return x if rowvar else transpose(x)


def _scalar_if_one(y: Tensor) -> Tensor:
    return y[0, 0] if y.type.shape == (1, 1) else y


@function
def corrcoef(x: TensorLike, y: TensorLike | None = None, rowvar: bool = True) -> Tensor:
    """Return the matrix of correlation coefficients of variables; arguments as for ``cov``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.corrcoef([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).round(6).eval(mode="NUMPY").tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(x, y, rowvar)
    if not c.ndim:
        return c / c
    n = arange(length(c, 0))
    deviation = ew.sqrt(ew.real(c[n, n]))
    y = c / deviation[:, None] / deviation[None, :]
    if is_complex(y.dtype):
        return ew.complex(ew.clip(ew.real(y), -1, 1), ew.clip(ew.imag(y), -1, 1))
    return ew.clip(y, -1, 1)


# Comparisons within a tolerance.


@function
def isclose(
    a: TensorLike, b: TensorLike, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return whether ``|a - b| <= atol + rtol * |b|``; infinities are close to themselves alone.

    Args:
        a: Any dtype and shape.
        b: An array that broadcasts with a.
        rtol: The tolerance relative to b.
        atol: The absolute tolerance.
        equal_nan: Whether NaN is close to NaN.

    Returns:
        An array of bool.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.isclose([1.0, 2.0], [1.0 + 1e-9, 2.1]).eval(mode="NUMPY").tolist()
        [True, False]
    """
    (a, b), _ = operands("isclose", (a, b))
    a, b = as_floating(a), as_floating(b)
    near = ew.less_equal(ew.abs(a - b), atol + rtol * ew.abs(b)) & ew.isfinite(b) | ew.equal(a, b)
    return near | (ew.isnan(a) & ew.isnan(b)) if equal_nan else near


@function
def allclose(
    a: TensorLike, b: TensorLike, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return whether all elements are close; arguments as for ``isclose``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.allclose([1.0, 2.0], [1.0, 2.0 + 1e-9]).eval(mode="NUMPY").tolist()
        True
    """
    return all(isclose(a, b, rtol, atol, equal_nan))


@function
def array_equal(a: TensorLike, b: TensorLike, equal_nan: bool = False) -> Tensor:
    """Return whether two arrays have the same shape and elements.

    Args:
        a: Any dtype and shape.
        b: Any dtype and shape.
        equal_nan: Whether NaN equals NaN.

    Returns:
        A bool scalar; false where ranks or lengths differ.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.array_equal([1, 2], [1, 2]).eval(mode="NUMPY").tolist()
        True
    """
    (a, b), _ = operands("array_equal", (a, b))
    if a.ndim != b.ndim:
        return constant(False)
    fit = constant(True)
    common: list[slice] = []
    for n, m in zip(lengths(a), lengths(b), strict=True):
        if isinstance(n, int) and isinstance(m, int):
            if n != m:
                return constant(False)
            common.append(slice(None))
        else:
            fit = fit & ew.equal(n, m)
            common.append(slice(ew.minimum(n, m)))
    # Elements are compared where both arrays have them.
    a, b = a[tuple(common)], b[tuple(common)]
    same = ew.equal(a, b)
    return fit & all(same | (ew.isnan(a) & ew.isnan(b)) if equal_nan else same)
