"""Intervals, and the arithmetic that their ends are computed in."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from graphc.ir import is_float, is_integer, numpy_dtype


class Interval(NamedTuple):
    """The closed interval from ``low`` to ``high`` that holds every value of an array.

    For bools, ``low`` is whether all values are true, ``high`` whether any may be.
    """

    low: Any
    high: Any


def point(x: Any) -> Interval:
    """Return the interval that holds ``x`` alone."""
    return Interval(x, x)


Image = Callable[..., Interval]
"""A function of an arithmetic and of operands' intervals, without rounding or overflow."""


class Arithmetic(ABC):
    """Functions of the ends of intervals of one dtype, by NumPy's names.

    Attributes:
        dtype: The dtype's name.
        least: The least integer of the dtype, or ``-inf``.
        most: The largest integer of the dtype, or ``inf``.
        bits: The width of an integer in bits; 0 for other numbers.
        tiny: The smallest normal floating number, below which processors may flush to 0.
    """

    dtype: str
    least: float
    most: float
    bits: int
    tiny: float

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.least, self.most, self.bits = extent_of(dtype)
        self.tiny = precision_of(dtype).tiny if is_float(dtype) else 0

    @property
    def is_float(self) -> bool:
        return is_float(self.dtype)

    @property
    def is_bool(self) -> bool:
        return self.dtype == "bool"

    @abstractmethod
    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return NumPy's function of that name, applied to ends."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return whether there is an elementwise function of that name."""

    @abstractmethod
    def number(self, value: Any) -> Any:
        """Return a number as an end."""

    @abstractmethod
    def is_point(self, x: Interval) -> bool:
        """Return whether the interval holds one number alone."""

    @abstractmethod
    def value_of(self, x: Interval) -> Any:
        """Return the only number in the interval, or None."""

    @abstractmethod
    def bounded_where(self, sure: Any, low: Any, high: Any) -> Interval:
        """Return the interval where a condition holds, and the dtype's full range elsewhere."""

    @abstractmethod
    def finite(self, *ends: Any) -> Any:
        """Return where no end makes a sum or product NaN."""

    @abstractmethod
    def round_outward(self, low: Any, high: Any, loose: bool = False) -> Interval:
        """Move floating ends outward by the error that rounding may have added to values.

        Args:
            low: The lower ends.
            high: The upper ends.
            loose: Whether libraries approximate the function, as they do exp and tanh.
        """

    def add_down(self, a: Any, b: Any) -> Any:
        """Return the lower end of a sum."""
        return self.add(a, b)

    def add_up(self, a: Any, b: Any) -> Any:
        """Return the upper end of a sum."""
        return self.add(a, b)

    def subtract_down(self, a: Any, b: Any) -> Any:
        """Return the lower end of a difference."""
        return self.subtract(a, b)

    def subtract_up(self, a: Any, b: Any) -> Any:
        """Return the upper end of a difference."""
        return self.subtract(a, b)

    @abstractmethod
    def fits(self, image: Image, result: Interval, operands: tuple[Interval, ...]) -> Any:
        """Return where the image of integer operands stays in the range of the dtype."""


class Precision(NamedTuple):
    """The machine epsilon of a floating dtype, and its smallest normal number."""

    eps: float
    tiny: float


@lru_cache(maxsize=16)
def precision_of(dtype: str) -> Precision:
    """Return the precision of a floating dtype."""
    if dtype == "bfloat16":
        return Precision(2.0**-7, 2.0**-126)
    limits = np.finfo(dtype)
    return Precision(float(limits.eps), float(limits.smallest_normal))


@lru_cache(maxsize=64)
def extent_of(dtype: str) -> tuple[Any, Any, int]:
    """Return the smallest and the largest value of a dtype, and the width of its integers."""
    if dtype == "bool":
        return False, True, 0
    if is_integer(dtype):
        limits = np.iinfo(dtype)
        return int(limits.min), int(limits.max), limits.bits
    return -math.inf, math.inf, 0


def _product(a: Any, b: Any) -> Any:
    # 0 * inf is NaN, which no interval contains; nearby products are 0.
    return a * b if a and b else 0


def _quotient(a: Any, b: Any) -> Any:
    # inf / inf is NaN; nearby quotients are 0.
    return a / b if math.isfinite(a) or math.isfinite(b) else 0.0


def _integral(function: Callable[[Any], int]) -> Callable[[Any], Any]:
    """Return a rounding to integers that keeps infinities."""
    return lambda x: function(x) if math.isfinite(x) else x


def _sign(x: Any) -> int:
    return int(x > 0) - int(x < 0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": _product,
    "divide": _quotient,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "negative": operator.neg,
    "abs": abs,
    "sign": _sign,
    "minimum": min,
    "maximum": max,
    "floor": _integral(math.floor),
    "ceil": _integral(math.ceil),
    "trunc": _integral(math.trunc),
    "round": _integral(round),
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "logical_and": lambda a, b: bool(a and b),
    "logical_or": lambda a, b: bool(a or b),
    "logical_not": operator.not_,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "invert": operator.invert,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "where": lambda condition, a, b: a if condition else b,
}
"""Functions of Python numbers, exact for integers."""


class Numbers(Arithmetic):
    """Arithmetic of ends that are Python numbers; intervals say nothing of values that are NaN.

    Example:
        >>> numbers_of("int8").bounded_where(True, 0, 200)
        Interval(low=0, high=200)
        >>> numbers_of("float64").bounded_where(False, 0, 200)
        Interval(low=-inf, high=inf)
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return FUNCTIONS[name]
        except KeyError:
            raise AttributeError(name) from None

    def has(self, name: str) -> bool:
        return name in FUNCTIONS

    def number(self, value: Any) -> Any:
        return value

    def is_point(self, x: Interval) -> bool:
        return bool(x.low == x.high)

    def value_of(self, x: Interval) -> Any:
        return x.low if x.low == x.high else None

    def bounded_where(self, sure: Any, low: Any, high: Any) -> Interval:
        if not sure:
            return Interval(self.least, self.most)
        # inf - inf is NaN.
        low = self.least if math.isnan(low) else low
        return Interval(low, self.most if math.isnan(high) else high)

    def finite(self, *ends: Any) -> bool:
        return True

    def round_outward(self, low: Any, high: Any, loose: bool = False) -> Interval:
        # Ends and values are rounded alike; a narrow dtype rounds further.
        return Interval(self._round(low), self._round(high))

    def _round(self, x: Any) -> float:
        with np.errstate(over="ignore"):
            return float(np.asarray(float(x)).astype(numpy_dtype(self.dtype)))

    def fits(self, image: Image, result: Interval, operands: tuple[Interval, ...]) -> bool:
        return bool(self.least <= result.low and result.high <= self.most)

    def add_down(self, a: Any, b: Any) -> Any:
        return a + b - self._cancellation_error(a, b)

    def add_up(self, a: Any, b: Any) -> Any:
        return a + b + self._cancellation_error(a, b)

    def subtract_down(self, a: Any, b: Any) -> Any:
        return self.add_down(a, -b)

    def subtract_up(self, a: Any, b: Any) -> Any:
        return self.add_up(a, -b)

    def _cancellation_error(self, a: Any, b: Any) -> Any:
        # A fused multiply-add does not round the product: a sum near 0 then has another value.
        return max(abs(a), abs(b)) / 64 if self.is_float and a * b < 0 else 0


@lru_cache(maxsize=64)
def numbers_of(dtype: str) -> Numbers:
    """Return the arithmetic of a dtype's values as Python numbers."""
    return Numbers(dtype)


class Integers(Numbers):
    """Integers that never wrap around."""

    def __init__(self) -> None:
        super().__init__("int64")
        self.least, self.most = -math.inf, math.inf


INTEGERS = Integers()
