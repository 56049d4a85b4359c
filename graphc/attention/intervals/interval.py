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
from typing import Any, NamedTuple

import numpy as np

from graphc.implicit.level import Level, numpy_like
from graphc.ir import is_complex, is_float, is_integer, numpy_dtype

__all__ = [
    "Interval",
    "both",
    "casted",
    "chosen",
    "dtype_of",
    "is_point",
    "known_where",
    "level_of",
    "library",
    "number",
    "point",
    "range_of",
    "rounded",
    "settled",
    "truth",
    "unknown",
]


class Interval(NamedTuple):
    """Every value lies between these, both included."""

    low: Any
    high: Any


# Intervals.


def point(x: Any) -> Interval:
    """Values that are known."""
    return Interval(x, x)


def is_point(x: Interval) -> bool:
    """Whether the values are known."""
    return x.low is x.high


def settled(value: Any, exact: bool) -> Interval:
    """What was computed of points: rounded operations may give another value elsewhere.

    Args:
        value: The result, an array.
        exact: Whether no backend computes it differently, even in floating point.
    """
    dtype = dtype_of(value)
    if exact or not is_float(dtype):
        return point(value)
    return rounded(library(value), value, value)


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
    if dtype == "bool":
        return np.array(False), np.array(True)
    if is_integer(dtype):
        kind = np.iinfo(dtype)
        return np.array(kind.min, dtype), np.array(kind.max, dtype)
    nothing = np.array(np.nan, numpy_dtype(dtype))
    return nothing, nothing


def dtype_of(x: Any) -> str:
    """The name of an array's dtype, whatever library it is of."""
    return _name_of(x.dtype)


_name_of = lru_cache(maxsize=64)(str)


class _Plain(Level):
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


def level_of(*operands: Interval) -> Any:
    """The functions of the library that an operation on these intervals is computed in."""
    return library(*[end for x in operands for end in x])


def known_where(level: Any, sure: Any, low: Any, high: Any) -> Interval:
    """An interval where a condition holds, and nothing known elsewhere."""
    least, most = range_of(dtype_of(low))
    return Interval(level.where(sure, low, least), level.where(sure, high, most))


def truth(x: Interval) -> Interval:
    """Values read as bool: whether they are not zero."""
    if dtype_of(x.low) == "bool":
        return x
    level = level_of(x)
    zero = number(0, x.low)
    away = level.logical_or(level.greater(x.low, zero), level.less(x.high, zero))
    none = level.logical_and(level.equal(x.low, zero), level.equal(x.high, zero))
    return Interval(away, level.logical_not(none))


def number(value: Any, like: Any) -> Any:
    """A number as a NumPy array of another array's dtype."""
    return np.array(value, numpy_dtype(dtype_of(like)))


def both(level: Any, low: Any, high: Any) -> Interval:
    """Floating ends, NaN where either of them is."""
    if not is_float(dtype_of(low)):
        return Interval(low, high)
    sure = level.logical_not(level.logical_or(level.isnan(low), level.isnan(high)))
    return known_where(level, sure, low, high)


# Rounding.

ROOM = 8
"""By how many relative roundings a result of floating arithmetic is widened."""

LOOSE = 16
"""By how many that of an approximated function is, of its magnitude and of one."""


def _fineness(dtype: str) -> tuple[float, float]:
    """The relative rounding of a dtype, and its smallest normal number: less may flush to 0."""
    if dtype == "bfloat16":
        return 2.0**-7, 2.0**-126
    kind = np.finfo(dtype)
    return float(kind.eps), float(kind.smallest_normal)


def rounded(level: Any, low: Any, high: Any, loose: bool = False) -> Interval:
    """Floating ends moved outward by what rounding may have moved values.

    Args:
        level: The functions of their library.
        low: The lower ends.
        high: The upper ends.
        loose: Whether the values are those of a function that libraries approximate.
    """
    dtype = dtype_of(low)
    eps, tiny = _fineness(dtype)
    factor = number((LOOSE if loose else ROOM) * eps, low)
    room = number(LOOSE * eps if loose else tiny, low)
    below = level.add(level.multiply(level.abs(low), factor), room)
    above = level.add(level.multiply(level.abs(high), factor), room)
    return both(level, level.subtract(low, below), level.add(high, above))


# Choices and casts.


def chosen(condition: Interval, a: Interval, b: Interval) -> Interval:
    """The interval of ``where(condition, a, b)``, of intervals of one dtype."""
    level, condition = level_of(condition, a, b), truth(condition)
    if dtype_of(a.low) == "bool":
        least, most = level.logical_and, level.logical_or
    else:
        least, most = level.minimum, level.maximum

    def end(join: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        either = level.where(condition.high, join(x, y), y)
        return level.where(condition.low, x, either)

    return Interval(end(least, a.low, b.low), end(most, a.high, b.high))


def casted(x: Interval, dtype: str) -> Interval:
    """The interval of values in another dtype; nothing is known of those that it cannot hold."""
    given = dtype_of(x.low)
    if given == dtype:
        return x
    if is_complex(given) or is_complex(dtype):
        return unknown(dtype)
    if dtype == "bool":
        return truth(x)
    level = level_of(x)
    with np.errstate(all="ignore"):
        if is_integer(dtype) and given != "bool":
            return _as_integers(level, x, dtype)
        if is_point(x):
            return point(level.cast(x.low, dtype))
        return Interval(*[level.cast(end, dtype) for end in x])


def _as_integers(level: Any, x: Interval, dtype: str) -> Interval:
    given, kind = dtype_of(x.low), np.iinfo(dtype)
    if is_float(given):
        # One below the least is the last that is cut to it; of wide dtypes it is the least itself.
        above = level.greater(x.low, number(float(kind.min) - (not kind.min), x.low))
        sure = level.logical_and(above, level.less(x.high, number(2.0 ** _digits(kind), x.high)))
    else:
        held = np.iinfo(given)
        least, most = max(kind.min, held.min), min(kind.max, held.max)
        sure = level.logical_and(
            level.greater_equal(x.low, number(least, x.low)),
            level.less_equal(x.high, number(most, x.high)),
        )
    zero = number(0, x.low)
    if is_point(x) and isinstance(sure, np.ndarray | np.generic) and np.all(sure):
        return point(level.cast(x.low, dtype))
    ends = [level.cast(level.where(sure, end, zero), dtype) for end in x]
    return known_where(level, sure, *ends)


def _digits(kind: np.iinfo[Any]) -> int:
    """How many bits an integer has beside its sign."""
    return kind.bits - (kind.min < 0)
