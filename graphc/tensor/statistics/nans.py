"""Reductions that ignore NaN, and replacement of NaN and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.ir import is_complex, is_inexact, numpy_dtype
from graphc.tensor.arrays.cumulative import cumprod, cumsum
from graphc.tensor.arrays.reduce import all, argmax, argmin, max, min, prod, sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.tensor import Axis, Tensor, TensorLike, as_tensor, function
from graphc.tensor.statistics.statistics import mean, var

__all__ = [
    "isneginf", "isposinf", "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum",
    "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _replace_nan(x: Any, value: Any) -> Tensor:
    x = as_tensor(x)
    return (
        ew.where(ew.isnan(x), np.array(value, x.type.numpy_dtype), x) if is_inexact(x.dtype) else x
    )


@function
def nansum(x: TensorLike, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the sum over axes without NaN; arguments as for ``sum``; 0 where nothing is left.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.nansum([1.0, np.nan, 2.0]).eval(mode="NUMPY").tolist()
        3.0
    """
    return sum(_replace_nan(x, 0), axis, dtype, keepdims)


@function
def nanprod(x: TensorLike, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the product over axes without NaN; arguments as for ``sum``; 1 if nothing is left.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nanprod([2.0, gt.nan, 3.0]).eval(mode="NUMPY").tolist()
        6.0
    """
    return prod(_replace_nan(x, 1), axis, dtype, keepdims)


@function
def nancumsum(x: TensorLike, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Return ``cumsum`` with 0 for NaN; arguments as for ``cumsum``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nancumsum([2.0, gt.nan, 3.0]).eval(mode="NUMPY").tolist()
        [2.0, 2.0, 5.0]
    """
    return cumsum(_replace_nan(x, 0), axis, dtype)


@function
def nancumprod(x: TensorLike, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Return ``cumprod`` with 1 for NaN; arguments as for ``cumsum``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nancumprod([2.0, gt.nan, 3.0]).eval(mode="NUMPY").tolist()
        [2.0, 2.0, 6.0]
    """
    return cumprod(_replace_nan(x, 1), axis, dtype)


@function
def nanmax(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the largest value over axes but NaN; arguments as for ``max``; NaN if all are.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.nanmax([1.0, np.nan, 2.0]).eval(mode="NUMPY").tolist()
        2.0
    """
    x = as_tensor(x)
    return _unless_all_nan(max(_replace_nan(x, -np.inf), axis, keepdims), x, axis, keepdims)


@function
def nanmin(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the smallest value over axes but NaN; arguments as for ``max``; NaN if all are.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nanmin([2.0, gt.nan, 3.0]).eval(mode="NUMPY").tolist()
        2.0
    """
    x = as_tensor(x)
    return _unless_all_nan(min(_replace_nan(x, np.inf), axis, keepdims), x, axis, keepdims)


def _unless_all_nan(y: Tensor, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    if not is_inexact(x.dtype):
        return y
    return ew.where(all(ew.isnan(x), axis, keepdims), np.array(np.nan, y.type.numpy_dtype), y)


@function
def nanargmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first largest value but NaN; 0 where all are NaN.

    Arguments and errors as for ``argmax``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nanargmax([1.0, gt.nan, 3.0]).eval(mode="NUMPY").tolist()
        2
    """
    return argmax(_replace_nan(x, -np.inf), axis, keepdims)


@function
def nanargmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first smallest value but NaN; 0 where all are NaN.

    Arguments and errors as for ``argmax``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nanargmin([gt.nan, 2.0, 1.0]).eval(mode="NUMPY").tolist()
        2
    """
    return argmin(_replace_nan(x, np.inf), axis, keepdims)


@function
def nanmean(x: TensorLike, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the mean over axes without NaN; arguments as for ``mean``; NaN if nothing is left.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.nanmean([1.0, np.nan, 2.0]).eval(mode="NUMPY").tolist()
        1.5
    """
    x = as_tensor(x)
    return mean(x, axis, dtype, keepdims, where=ew.logical_not(ew.isnan(x)))


@function
def nanvar(
    x: TensorLike, axis: Axis = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Tensor:
    """Return the variance over axes without NaN; arguments as for ``var``.

    NaN where no more values are left than ``ddof``.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.nanvar([1.0, np.nan, 3.0]).eval(mode="NUMPY").tolist()
        1.0
    """
    x = as_tensor(x)
    is_number = ew.logical_not(ew.isnan(x))
    y = var(x, axis, dtype, ddof, keepdims, where=is_number)
    enough = sum(is_number, axis, keepdims=keepdims) > ddof
    return ew.where(enough, y, np.array(np.nan, y.type.numpy_dtype))


@function
def nanstd(
    x: TensorLike, axis: Axis = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Tensor:
    """Return the square root of ``nanvar``; arguments as there.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nanstd([1.0, gt.nan, 3.0]).eval(mode="NUMPY").tolist()
        1.0
    """
    return ew.sqrt(nanvar(x, axis, dtype, ddof, keepdims))


@function
def nan_to_num(
    x: TensorLike,
    nan: TensorLike = 0.0,
    posinf: TensorLike | None = None,
    neginf: TensorLike | None = None,
) -> Tensor:
    """Return x with NaN and infinities replaced by numbers.

    Args:
        x: Any dtype and shape; real and imaginary parts are replaced separately.
        nan: The replacement of NaN.
        posinf: The replacement of inf, by default the largest number of the dtype.
        neginf: The replacement of -inf, by default the lowest one.

    Returns:
        An array of x's shape and dtype.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.nan_to_num([1.0, np.nan, np.inf], posinf=9.0).eval(mode="NUMPY").tolist()
        [1.0, 0.0, 9.0]
    """
    x = as_tensor(x)
    if not is_inexact(x.dtype):
        return x
    if is_complex(x.dtype):
        return ew.complex(
            *(nan_to_num(part, nan, posinf, neginf) for part in (ew.real(x), ew.imag(x)))
        )
    limit = largest_number(x.dtype)
    y = ew.where(ew.isnan(x), nan, x)
    y = ew.where(ew.equal(x, np.inf), limit if posinf is None else posinf, y)
    return ew.cast(ew.where(ew.equal(x, -np.inf), -limit if neginf is None else neginf, y), x.dtype)


def largest_number(dtype: str) -> float:
    """Return the largest finite value of a floating dtype."""
    top = np.array(np.inf, numpy_dtype(dtype))
    return float(np.nextafter(top, np.zeros_like(top)))


@function
def isposinf(x: TensorLike) -> Tensor:
    """Return whether x is inf, elementwise; false for integers.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.isposinf([-np.inf, 0.0, np.inf]).eval(mode="NUMPY").tolist()
        [False, False, True]
    """
    return _is_value(x, np.inf)


@function
def isneginf(x: TensorLike) -> Tensor:
    """Return whether x is -inf, elementwise; false for integers.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.isneginf([-np.inf, 0.0, np.inf]).eval(mode="NUMPY").tolist()
        [True, False, False]
    """
    return _is_value(x, -np.inf)


def _is_value(x: Any, value: float) -> Tensor:
    x = as_tensor(x)
    return ew.equal(x, value) if is_inexact(x.dtype) else ew.not_equal(x, x)
