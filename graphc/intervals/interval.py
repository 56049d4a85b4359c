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
    """Every value lies between these, both included.

    Of bools, ``low`` says certainly true and ``high`` possibly true.
    """

    low: Any
    high: Any


def point(x: Any) -> Interval:
    """The interval of a value that is known."""
    return Interval(x, x)


Image = Callable[..., Interval]
"""An interval in terms of an arithmetic and of operands, without rounding or overflow."""


class Arithmetic(ABC):
    """Functions of the ends of intervals of one dtype, by NumPy's names.

    Attributes:
        dtype: The dtype's name.
        least: The least integer of the dtype, or ``-inf``.
        most: The largest one, or ``inf``.
        bits: How many bits an integer has; 0 of other numbers.
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
        self.tiny = fineness_of(dtype).tiny if is_float(dtype) else 0

    @property
    def is_float(self) -> bool:
        return is_float(self.dtype)

    @property
    def is_bool(self) -> bool:
        return self.dtype == "bool"

    @abstractmethod
    def __getattr__(self, name: str) -> Callable[..., Any]:
        """NumPy's function of that name, of ends."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether there is an elementwise function of that name."""

    @abstractmethod
    def number(self, value: Any) -> Any:
        """A number as an end."""

    @abstractmethod
    def is_point(self, x: Interval) -> bool:
        """Whether the value is known."""

    @abstractmethod
    def value_of(self, x: Interval) -> Any:
        """The one number that all values are, if it is known; else None."""

    @abstractmethod
    def known(self, sure: Any, low: Any, high: Any) -> Interval:
        """An interval where a condition holds, and nothing known elsewhere."""

    @abstractmethod
    def finite(self, *ends: Any) -> Any:
        """Where no end makes a sum or product NaN."""

    @abstractmethod
    def rounded(self, low: Any, high: Any, loose: bool = False) -> Interval:
        """Floating ends moved outward by what rounding may have moved values.

        Args:
            low: The lower ends.
            high: The upper ends.
            loose: Whether the values are those of a function that libraries approximate.
        """

    def add_down(self, a: Any, b: Any) -> Any:
        """The lower end of a sum."""
        return self.add(a, b)

    def add_up(self, a: Any, b: Any) -> Any:
        """The upper end of a sum."""
        return self.add(a, b)

    def subtract_down(self, a: Any, b: Any) -> Any:
        """The lower end of a difference."""
        return self.subtract(a, b)

    def subtract_up(self, a: Any, b: Any) -> Any:
        """The upper end of a difference."""
        return self.subtract(a, b)

    @abstractmethod
    def fits(self, image: Image, made: Interval, operands: tuple[Interval, ...]) -> Any:
        """Where integers, an image of operands, do not leave the range of the dtype."""


class Fineness(NamedTuple):
    """The relative rounding of a floating dtype, and its smallest normal number."""

    eps: float
    tiny: float


@lru_cache(maxsize=16)
def fineness_of(dtype: str) -> Fineness:
    """How fine the numbers of a floating dtype are."""
    if dtype == "bfloat16":
        return Fineness(2.0**-7, 2.0**-126)
    kind = np.finfo(dtype)
    return Fineness(float(kind.eps), float(kind.smallest_normal))


@lru_cache(maxsize=64)
def extent_of(dtype: str) -> tuple[Any, Any, int]:
    """The least and the most value of a dtype, and how many bits its integers have."""
    if dtype == "bool":
        return False, True, 0
    if is_integer(dtype):
        kind = np.iinfo(dtype)
        return int(kind.min), int(kind.max), kind.bits
    return -math.inf, math.inf, 0


def _product(a: Any, b: Any) -> Any:
    # 0 * inf is NaN, which no interval of numbers holds; next to it the products are 0.
    return a * b if a and b else 0


def _quotient(a: Any, b: Any) -> Any:
    # inf / inf is NaN; next to it the quotients are 0.
    return a / b if math.isfinite(a) or math.isfinite(b) else 0.0


def _integral(function: Callable[[Any], int]) -> Callable[[Any], Any]:
    """A rounding to whole numbers that keeps infinities."""
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
    """Ends that are Python numbers; of values that are NaN, intervals say nothing.

    Example:
        >>> numbers_of("int8").known(True, 0, 200)
        Interval(low=0, high=200)
        >>> numbers_of("float64").known(False, 0, 200)
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

    def known(self, sure: Any, low: Any, high: Any) -> Interval:
        if not sure:
            return Interval(self.least, self.most)
        # NaN is what inf - inf gives.
        low = self.least if math.isnan(low) else low
        return Interval(low, self.most if math.isnan(high) else high)

    def finite(self, *ends: Any) -> bool:
        return True

    def rounded(self, low: Any, high: Any, loose: bool = False) -> Interval:
        # The ends are rounded as the values are; a narrow dtype rounds further.
        return Interval(self.rounded_end(low), self.rounded_end(high))

    def rounded_end(self, x: Any) -> float:
        """A number as the dtype holds it."""
        with np.errstate(over="ignore"):
            return float(np.asarray(float(x)).astype(numpy_dtype(self.dtype)))

    def fits(self, image: Image, made: Interval, operands: tuple[Interval, ...]) -> bool:
        return bool(self.least <= made.low and made.high <= self.most)

    def add_down(self, a: Any, b: Any) -> Any:
        return a + b - self._cancelled(a, b)

    def add_up(self, a: Any, b: Any) -> Any:
        return a + b + self._cancelled(a, b)

    def subtract_down(self, a: Any, b: Any) -> Any:
        return self.add_down(a, -b)

    def subtract_up(self, a: Any, b: Any) -> Any:
        return self.add_up(a, -b)

    def _cancelled(self, a: Any, b: Any) -> Any:
        # A product that is added without rounding in between is off from what is expected here,
        # which shows where the sum is next to 0.
        return max(abs(a), abs(b)) / 64 if self.is_float and a * b < 0 else 0


@lru_cache(maxsize=64)
def numbers_of(dtype: str) -> Numbers:
    """The arithmetic of a dtype's values as Python numbers."""
    return Numbers(dtype)


class Integers(Numbers):
    """Integers that never wrap around."""

    def __init__(self) -> None:
        super().__init__("int64")
        self.least, self.most = -math.inf, math.inf


INTEGERS = Integers()
