"""Reductions that leave NaN out, and other values in place of NaN and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.ir import is_complex, is_inexact, numpy_dtype
from graphc.tensor.cumulative import cumprod, cumsum
from graphc.tensor.elementwise import (
    cast,
    complex,
    equal,
    imag,
    isnan,
    logical_not,
    not_equal,
    real,
    sqrt,
    where,
)
from graphc.tensor.reduce import all, argmax, argmin, max, min, prod, sum
from graphc.tensor.statistics import mean, var
from graphc.tensor.tensor import Axis, Tensor, as_tensor, function

__all__: list[str] = []


def _filled(x: Any, value: Any) -> Tensor:
    x = as_tensor(x)
    return where(isnan(x), np.array(value, x.type.numpy_dtype), x) if is_inexact(x.dtype) else x  # type: ignore[no-any-return]


@function
def nansum(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes without NaN; arguments as for ``sum``; 0 where nothing is left."""
    return sum(_filled(x, 0), axis, dtype, keepdims)


@function
def nanprod(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes without NaN; arguments as for ``sum``; 1 where nothing is left."""
    return prod(_filled(x, 1), axis, dtype, keepdims)


@function
def nancumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """``cumsum`` with 0 in place of NaN; arguments as for ``cumsum``."""
    return cumsum(_filled(x, 0), axis, dtype)


@function
def nancumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """``cumprod`` with 1 in place of NaN; arguments as for ``cumsum``."""
    return cumprod(_filled(x, 1), axis, dtype)


@function
def nanmax(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest value over axes but NaN; arguments as for ``max``; NaN if there is no other."""
    x = as_tensor(x)
    return _unless_all_nan(max(_filled(x, -np.inf), axis, keepdims), x, axis, keepdims)


@function
def nanmin(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest value over axes but NaN; arguments as for ``max``; NaN if there is no other."""
    x = as_tensor(x)
    return _unless_all_nan(min(_filled(x, np.inf), axis, keepdims), x, axis, keepdims)


def _unless_all_nan(y: Tensor, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    if not is_inexact(x.dtype):
        return y
    return where(all(isnan(x), axis, keepdims), np.array(np.nan, y.type.numpy_dtype), y)  # type: ignore[no-any-return]


@function
def nanargmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the first largest value but NaN; 0 where there is nothing but NaN.

    Arguments and errors as for ``argmax``.
    """
    return argmax(_filled(x, -np.inf), axis, keepdims)


@function
def nanargmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the first smallest value but NaN; 0 where there is nothing but NaN.

    Arguments and errors as for ``argmax``.
    """
    return argmin(_filled(x, np.inf), axis, keepdims)


@function
def nanmean(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over axes without NaN; arguments as for ``mean``; NaN where nothing is left."""
    x = as_tensor(x)
    return mean(x, axis, dtype, keepdims, where=logical_not(isnan(x)))


@function
def nanvar(
    x: Any, axis: Axis = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Tensor:
    """The variance over axes without NaN; arguments as for ``var``.

    NaN where no more values are left than ``ddof``.
    """
    x = as_tensor(x)
    kept = logical_not(isnan(x))
    y = var(x, axis, dtype, ddof, keepdims, where=kept)
    enough = sum(kept, axis, keepdims=keepdims) > ddof
    return where(enough, y, np.array(np.nan, y.type.numpy_dtype))  # type: ignore[no-any-return]


@function
def nanstd(
    x: Any, axis: Axis = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Tensor:
    """The square root of ``nanvar``; arguments as there."""
    return sqrt(nanvar(x, axis, dtype, ddof, keepdims))


@function
def nan_to_num(x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """x with numbers in place of NaN and infinities.

    Args:
        x: Any dtype and shape; parts of complex numbers are taken each by itself.
        nan: In place of NaN.
        posinf: In place of inf, by default the largest number of the dtype.
        neginf: In place of -inf, by default the lowest one.

    Returns:
        An array of x's shape and dtype.
    """
    x = as_tensor(x)
    if not is_inexact(x.dtype):
        return x  # type: ignore[no-any-return]
    if is_complex(x.dtype):
        return complex(*(nan_to_num(part, nan, posinf, neginf) for part in (real(x), imag(x))))
    limit = largest_number(x.dtype)
    y = where(isnan(x), nan, x)
    y = where(equal(x, np.inf), limit if posinf is None else posinf, y)
    return cast(where(equal(x, -np.inf), -limit if neginf is None else neginf, y), x.dtype)


def largest_number(dtype: str) -> float:
    """The largest finite value of a floating dtype."""
    top = np.array(np.inf, numpy_dtype(dtype))
    return float(np.nextafter(top, np.zeros_like(top)))


@function
def isposinf(x: Any) -> Tensor:
    """Whether x is inf; false for integers."""
    return _is_value(x, np.inf)


@function
def isneginf(x: Any) -> Tensor:
    """Whether x is -inf; false for integers."""
    return _is_value(x, -np.inf)


def _is_value(x: Any, value: float) -> Tensor:
    x = as_tensor(x)
    return equal(x, value) if is_inexact(x.dtype) else not_equal(x, x)
