"""Interval arithmetic over blocks of elements: bounds of a function of one element in each block.

The ends of an interval are arrays of any library with one element for each block, and rules use
the functions that all libraries have (``numpy_like``). Unbounded intervals are:

- of bools, False to True: ``low`` is "certainly true", ``high`` "possibly true";
- of integers, the range of their dtype, also for results that might wrap around;
- of floating numbers, NaN at both ends: the values may be NaN too. Results of rounded operations
  are widened by a few units in the last place, so that they contain the results of backends that
  fuse or approximate operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.implicit.namespace import ArrayNamespace, numpy_like
from graphc.intervals.interval import (
    Arithmetic,
    Image,
    Interval,
    extent_of,
    point,
    precision_of,
)
from graphc.intervals.rules import image, truth
from graphc.ir import is_complex, is_float, is_inexact, is_integer, numpy_dtype

__all__ = [
    "Arrays",
    "Interval",
    "arithmetic_of",
    "bounded_where",
    "cast_interval",
    "dtype_of",
    "elementwise_interval",
    "interval_around",
    "is_point",
    "library",
    "library_of",
    "point",
    "unknown",
    "where_interval",
]


# Intervals.


def is_point(x: Interval) -> bool:
    """Return whether both ends are one array."""
    return x.low is x.high


def interval_around(value: Any, exact: bool, loose: bool = False) -> Interval:
    """Return the interval of a result at points, which other libraries may round differently.

    Args:
        value: The result, an array.
        exact: Whether all backends compute the same bits, even in floating point.
        loose: Whether libraries approximate the function, as they do exp and tanh.
    """
    dtype = dtype_of(value)
    if exact or not is_float(dtype):
        return point(value)
    return Arrays(library(value), dtype).round_outward(value, value, loose)


def unknown(dtype: str) -> Interval:
    """Return the unbounded interval of a dtype.

    Example:
        >>> unknown("int8"), unknown("bool")
        (Interval(low=array(-128, dtype=int8), high=array(127, dtype=int8)), \
Interval(low=array(False), high=array(True)))
    """
    low, high = range_of(dtype)
    # Two objects, so that the interval is no point.
    return Interval(low, np.array(high))


@lru_cache(maxsize=32)
def range_of(dtype: str) -> tuple[Any, Any]:
    """Return the smallest and the largest value of a dtype; NaN for floating dtypes."""
    if is_inexact(dtype):
        nan = np.array(np.nan, numpy_dtype(dtype))
        return nan, nan
    least, most, _ = extent_of(dtype)
    return np.array(least, dtype), np.array(most, dtype)


def dtype_of(x: Any) -> str:
    """Return the name of an array's dtype, for arrays of any library."""
    return _name_of(x.dtype)


_name_of = lru_cache(maxsize=64)(str)


class _NumPyFunctions(ArrayNamespace):
    """NumPy's functions for operands that are certainly not implicit arrays."""

    name = "NumPy"

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def cast(self, x: Any, dtype: Any) -> Any:
        return x.astype(numpy_dtype(dtype))


NUMPY = _NumPyFunctions()
NUMPY_TYPES = (np.ndarray, np.generic, int)


def library(*values: Any) -> Any:
    """Return the functions of the library that computes with these values."""
    if all(isinstance(x, NUMPY_TYPES) for x in values):
        return NUMPY
    return numpy_like(*values)


def library_of(*operands: Interval) -> Any:
    """Return the functions of the library that computes with these intervals."""
    return library(*[end for x in operands for end in x])


def bounded_where(xp: Any, sure: Any, low: Any, high: Any) -> Interval:
    """Return the interval where a condition holds, and an unbounded one elsewhere."""
    least, most = range_of(dtype_of(low))
    return Interval(xp.where(sure, low, least), xp.where(sure, high, most))


def _number(value: Any, like: Any) -> Any:
    """Return a number as a NumPy array of another array's dtype."""
    return np.array(value, numpy_dtype(dtype_of(like)))


# Arithmetic.

ROOM = 8
"""Machine epsilons by which a result of floating arithmetic is widened."""

LOOSE = 16
"""Machine epsilons of the result, and of 1, by which the result of an approximation is widened."""

WIDTH = 20
"""The bits that are relied on in a float32 estimate of a sum or product; 22 are correct."""


@lru_cache(maxsize=32)
def _limits(dtype: str) -> tuple[Any, Any]:
    """Return the float32 estimates between which an integer does not wrap around."""
    least, most, bits = extent_of(dtype)
    part = 1.0 if bits <= WIDTH else 1 - 2.0**-WIDTH
    return np.array(least * part if least else -0.5, np.float32), np.array(most * part, np.float32)


class Arrays(Arithmetic):
    """Arithmetic of ends that are arrays of one dtype and any library; floating ends may be NaN.

    Libraries may lack wider integers, so float32 estimates decide whether sums and products of
    integers wrap around.
    """

    def __init__(self, xp: Any, dtype: str) -> None:
        super().__init__(dtype)
        self._xp = xp

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self._xp, name)
        return function

    def has(self, name: str) -> bool:
        return hasattr(np, name) or name == "sigmoid"

    def sigmoid(self, x: Any) -> Any:
        """Return the logistic function, which NumPy lacks."""
        one = self.number(1)
        return self.divide(one, self.add(one, self.exp(self.negative(x))))

    def number(self, value: Any) -> Any:
        return np.array(value, numpy_dtype(self.dtype))

    def is_point(self, x: Interval) -> bool:
        return is_point(x)

    def value_of(self, x: Interval) -> Any:
        is_number = isinstance(x.low, np.ndarray | np.generic) and not np.ndim(x.low)
        return x.low.item() if is_number and is_point(x) else None

    def bounded_where(self, sure: Any, low: Any, high: Any) -> Interval:
        return bounded_where(self._xp, sure, low, high)

    def finite(self, *ends: Any) -> Any:
        sure = self.isfinite(ends[0])
        for x in ends[1:]:
            sure = self.logical_and(sure, self.isfinite(x))
        return sure

    def round_outward(self, low: Any, high: Any, loose: bool = False) -> Interval:
        eps, tiny = precision_of(self.dtype)
        factor = self.number((LOOSE if loose else ROOM) * eps)
        room = self.number(LOOSE * eps if loose else tiny)
        low = self.subtract(low, self.add(self.multiply(self.abs(low), factor), room))
        high = self.add(high, self.add(self.multiply(self.abs(high), factor), room))
        sure = self.logical_not(self.logical_or(self.isnan(low), self.isnan(high)))
        return self.bounded_where(sure, low, high)

    def fits(self, image: Image, result: Interval, operands: tuple[Interval, ...]) -> Any:
        least, most = _limits(self.dtype)
        estimates = Arrays(self._xp, "float32")
        low, high = image(estimates, *[self._estimate(x) for x in operands])
        return self.logical_and(self.greater_equal(low, least), self.less_equal(high, most))

    def _estimate(self, x: Interval) -> Interval:
        if is_point(x):
            return point(self._xp.cast(x.low, "float32"))
        return Interval(*[self._xp.cast(end, "float32") for end in x])


def arithmetic_of(*operands: Interval) -> Arrays:
    """Return the arithmetic of intervals of one dtype."""
    return Arrays(library_of(*operands), dtype_of(operands[0].low))


# Functions of intervals.


def elementwise_interval(name: str, *operands: Interval) -> Interval | None:
    """Return the interval of an elementwise function of intervals; None if it has no rule.

    Args:
        name: The row's name.
        operands: Intervals of one dtype, whose ends broadcast.

    Example:
        >>> q = Interval(np.array([0, 128]), np.array([127, 255]))
        >>> certain, possible = elementwise_interval("less", q, point(np.array(128)))
        >>> certain, possible
        (array([ True, False]), array([ True, False]))
    """
    if any(is_complex(dtype_of(x.low)) for x in operands):
        return None
    with np.errstate(all="ignore"):
        return image(arithmetic_of(*operands), name, *operands)


def _truth(x: Interval) -> Interval:
    return truth(arithmetic_of(x), x)


def where_interval(condition: Interval, a: Interval, b: Interval) -> Interval:
    """Return the interval of ``where(condition, a, b)`` for intervals of one dtype."""
    xp, condition = library_of(condition, a, b), _truth(condition)
    if dtype_of(a.low) == "bool":
        least, most = xp.logical_and, xp.logical_or
    else:
        least, most = xp.minimum, xp.maximum

    def end(join: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        y_or_both = xp.where(condition.high, join(x, y), y)
        return xp.where(condition.low, x, y_or_both)

    return Interval(end(least, a.low, b.low), end(most, a.high, b.high))


def cast_interval(x: Interval, dtype: str) -> Interval:
    """Return the interval of values cast to a dtype, unbounded where they may not fit."""
    source = dtype_of(x.low)
    if source == dtype:
        return x
    if is_complex(source) or is_complex(dtype):
        return unknown(dtype)
    if dtype == "bool":
        return _truth(x)
    xp = library_of(x)
    with np.errstate(all="ignore"):
        if is_integer(dtype) and source != "bool":
            return _as_integers(xp, x, dtype)
        if is_point(x):
            return point(xp.cast(x.low, dtype))
        return Interval(*[xp.cast(end, dtype) for end in x])


def _as_integers(xp: Any, x: Interval, dtype: str) -> Interval:
    source, target = dtype_of(x.low), np.iinfo(dtype)
    if is_float(source):
        # Numbers between -1 and 0 are truncated to 0, the smallest unsigned integer.
        above = xp.greater(x.low, _number(float(target.min) - (not target.min), x.low))
        bits = target.bits - (target.min < 0)
        sure = xp.logical_and(above, xp.less(x.high, _number(2.0**bits, x.high)))
    else:
        source_range = np.iinfo(source)
        least, most = max(target.min, source_range.min), min(target.max, source_range.max)
        sure = xp.logical_and(
            xp.greater_equal(x.low, _number(least, x.low)),
            xp.less_equal(x.high, _number(most, x.high)),
        )
    zero = _number(0, x.low)
    if is_point(x) and isinstance(sure, np.ndarray | np.generic) and np.all(sure):
        return point(xp.cast(x.low, dtype))
    ends = [xp.cast(xp.where(sure, end, zero), dtype) for end in x]
    return bounded_where(xp, sure, *ends)
