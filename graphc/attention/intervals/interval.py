"""Between which values a function of one element lies over a block of them: interval arithmetic.

An interval is known for each block at once: its ends are arrays of any library, and rules are
written in the functions that all libraries have (``numpy_like``). What is not sure is left open:

- of bools, ``low`` says certainly true and ``high`` possibly true;
- of integers, nothing known is the range of their dtype, as is what might wrap around;
- of floating numbers, NaN at both ends is nothing known, not even whether it is a number. The
  results of rounded operations are a few units in the last place wider than computed, so that they
  hold however a backend fuses and approximates.
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
    fineness_of,
    point,
)
from graphc.intervals.rules import truth
from graphc.ir import is_complex, is_float, is_inexact, is_integer, numpy_dtype

__all__ = [
    "Arrays",
    "Interval",
    "arithmetic_of",
    "casted",
    "chosen",
    "dtype_of",
    "is_point",
    "known_where",
    "library",
    "library_of",
    "point",
    "settled",
    "unknown",
]


# Intervals.


def is_point(x: Interval) -> bool:
    """Whether the values are known."""
    return x.low is x.high


def settled(value: Any, exact: bool, loose: bool = False) -> Interval:
    """The interval of a result computed at points, as other libraries may round it differently.

    Args:
        value: The result, an array.
        exact: Whether no backend computes it differently, even in floating point.
        loose: Whether it is the value of a function that libraries approximate.
    """
    dtype = dtype_of(value)
    if exact or not is_float(dtype):
        return point(value)
    return Arrays(library(value), dtype).rounded(value, value, loose)


def unknown(dtype: str) -> Interval:
    """Nothing is known of a value but its dtype.

    Example:
        >>> unknown("int8"), unknown("bool")
        (Interval(low=array(-128, dtype=int8), high=array(127, dtype=int8)), \
Interval(low=array(False), high=array(True)))
    """
    low, high = range_of(dtype)
    # Two objects: nothing known is no point.
    return Interval(low, np.array(high))


@lru_cache(maxsize=32)
def range_of(dtype: str) -> tuple[Any, Any]:
    """The least and the most that values of a dtype may be; NaN for floating ones."""
    if is_inexact(dtype):
        nothing = np.array(np.nan, numpy_dtype(dtype))
        return nothing, nothing
    least, most, _ = extent_of(dtype)
    return np.array(least, dtype), np.array(most, dtype)


def dtype_of(x: Any) -> str:
    """The name of an array's dtype, whatever library it is of."""
    return _name_of(x.dtype)


_name_of = lru_cache(maxsize=64)(str)


class _Plain(ArrayNamespace):
    """NumPy's functions alone: nothing here is implicit, and is not asked whether it is."""

    name = "NumPy"

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def cast(self, x: Any, dtype: Any) -> Any:
        return x.astype(numpy_dtype(dtype))


PLAIN = _Plain()
NUMPYS = (np.ndarray, np.generic, int)


def library(*values: Any) -> Any:
    """The functions of the library that an operation on these is computed in."""
    if all(isinstance(x, NUMPYS) for x in values):
        return PLAIN
    return numpy_like(*values)


def library_of(*operands: Interval) -> Any:
    """The functions of the library that an operation on these intervals is computed in."""
    return library(*[end for x in operands for end in x])


def known_where(xp: Any, sure: Any, low: Any, high: Any) -> Interval:
    """An interval where a condition holds, and nothing known elsewhere."""
    least, most = range_of(dtype_of(low))
    return Interval(xp.where(sure, low, least), xp.where(sure, high, most))


def _number(value: Any, like: Any) -> Any:
    """A number as a NumPy array of another array's dtype."""
    return np.array(value, numpy_dtype(dtype_of(like)))


# Arithmetic.

ROOM = 8
"""By how many relative roundings a result of floating arithmetic is widened."""

LOOSE = 16
"""By how many that of an approximated function is, of its magnitude and of one."""

WIDTH = 20
"""float32 tells sums and products of integers to so many bits, and two more."""


@lru_cache(maxsize=32)
def _limits(dtype: str) -> tuple[Any, Any]:
    """Between which estimates in float32 an integer does not wrap around."""
    least, most, bits = extent_of(dtype)
    part = 1.0 if bits <= WIDTH else 1 - 2.0**-WIDTH
    return np.array(least * part if least else -0.5, np.float32), np.array(most * part, np.float32)


class Arrays(Arithmetic):
    """Ends that are arrays of one dtype and of any library; those of floats may be NaN.

    Sums and products of integers are estimated in float32 too, which tells whether they wrap
    around where no wider integers are at hand.
    """

    def __init__(self, xp: Any, dtype: str) -> None:
        super().__init__(dtype)
        self._xp = xp

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self._xp, name)
        return found

    def has(self, name: str) -> bool:
        return hasattr(np, name) or name == "sigmoid"

    def sigmoid(self, x: Any) -> Any:
        """The logistic function, which NumPy does not have."""
        one = self.number(1)
        return self.divide(one, self.add(one, self.exp(self.negative(x))))

    def number(self, value: Any) -> Any:
        return np.array(value, numpy_dtype(self.dtype))

    def is_point(self, x: Interval) -> bool:
        return is_point(x)

    def value_of(self, x: Interval) -> Any:
        known = is_point(x) and isinstance(x.low, np.ndarray | np.generic) and not np.ndim(x.low)
        return x.low.item() if known else None

    def known(self, sure: Any, low: Any, high: Any) -> Interval:
        return known_where(self._xp, sure, low, high)

    def finite(self, *ends: Any) -> Any:
        sure = self.isfinite(ends[0])
        for x in ends[1:]:
            sure = self.logical_and(sure, self.isfinite(x))
        return sure

    def rounded(self, low: Any, high: Any, loose: bool = False) -> Interval:
        eps, tiny = fineness_of(self.dtype)
        factor = self.number((LOOSE if loose else ROOM) * eps)
        room = self.number(LOOSE * eps if loose else tiny)
        low = self.subtract(low, self.add(self.multiply(self.abs(low), factor), room))
        high = self.add(high, self.add(self.multiply(self.abs(high), factor), room))
        sure = self.logical_not(self.logical_or(self.isnan(low), self.isnan(high)))
        return self.known(sure, low, high)

    def fits(self, image: Image, made: Interval, operands: tuple[Interval, ...]) -> Any:
        least, most = _limits(self.dtype)
        estimates = Arrays(self._xp, "float32")
        low, high = image(estimates, *[self._estimated(x) for x in operands])
        return self.logical_and(self.greater_equal(low, least), self.less_equal(high, most))

    def _estimated(self, x: Interval) -> Interval:
        if is_point(x):
            return point(self._xp.cast(x.low, "float32"))
        return Interval(*[self._xp.cast(end, "float32") for end in x])


def arithmetic_of(*operands: Interval) -> Arrays:
    """The arithmetic of intervals of one dtype."""
    return Arrays(library_of(*operands), dtype_of(operands[0].low))


# Choices and casts.


def _truth(x: Interval) -> Interval:
    return truth(arithmetic_of(x), x)


def chosen(condition: Interval, a: Interval, b: Interval) -> Interval:
    """The interval of ``where(condition, a, b)``, of intervals of one dtype."""
    xp, condition = library_of(condition, a, b), _truth(condition)
    if dtype_of(a.low) == "bool":
        least, most = xp.logical_and, xp.logical_or
    else:
        least, most = xp.minimum, xp.maximum

    def end(join: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        either = xp.where(condition.high, join(x, y), y)
        return xp.where(condition.low, x, either)

    return Interval(end(least, a.low, b.low), end(most, a.high, b.high))


def casted(x: Interval, dtype: str) -> Interval:
    """The interval of values in another dtype; nothing is known of those that it cannot hold."""
    given = dtype_of(x.low)
    if given == dtype:
        return x
    if is_complex(given) or is_complex(dtype):
        return unknown(dtype)
    if dtype == "bool":
        return _truth(x)
    xp = library_of(x)
    with np.errstate(all="ignore"):
        if is_integer(dtype) and given != "bool":
            return _as_integers(xp, x, dtype)
        if is_point(x):
            return point(xp.cast(x.low, dtype))
        return Interval(*[xp.cast(end, dtype) for end in x])


def _as_integers(xp: Any, x: Interval, dtype: str) -> Interval:
    given, kind = dtype_of(x.low), np.iinfo(dtype)
    if is_float(given):
        # One below the least is the last that is cut to it; of wide dtypes it is the least itself.
        above = xp.greater(x.low, _number(float(kind.min) - (not kind.min), x.low))
        sure = xp.logical_and(above, xp.less(x.high, _number(2.0 ** _digits(kind), x.high)))
    else:
        held = np.iinfo(given)
        least, most = max(kind.min, held.min), min(kind.max, held.max)
        sure = xp.logical_and(
            xp.greater_equal(x.low, _number(least, x.low)),
            xp.less_equal(x.high, _number(most, x.high)),
        )
    zero = _number(0, x.low)
    if is_point(x) and isinstance(sure, np.ndarray | np.generic) and np.all(sure):
        return point(xp.cast(x.low, dtype))
    ends = [xp.cast(xp.where(sure, end, zero), dtype) for end in x]
    return known_where(xp, sure, *ends)


def _digits(kind: np.iinfo[Any]) -> int:
    """How many bits an integer has beside its sign."""
    return kind.bits - (kind.min < 0)
