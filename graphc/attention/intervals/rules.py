"""What intervals become in elementwise functions: a rule for each, by its name.

Sums and products of integers are estimated in float32 too, which tells whether they wrap around
where no wider integers are at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.intervals.interval import (
    Interval,
    both,
    dtype_of,
    is_point,
    known_where,
    level_of,
    number,
    point,
    range_of,
    rounded,
    truth,
    unknown,
)
from graphc.ir import is_complex, is_float, is_integer

__all__ = ["EXACT", "RULES", "applied"]

Rule = Callable[..., Interval]


# Where a result is no other than that of numbers without end.


def _finite(level: Any, *ends: Any) -> Any:
    """Where all ends are finite: of infinities, sums and products may be NaN."""
    sure = level.isfinite(ends[0])
    for x in ends[1:]:
        sure = level.logical_and(sure, level.isfinite(x))
    return sure


WIDTH = 20
"""float32 tells sums and products of integers to so many bits, and two more."""


@lru_cache(maxsize=32)
def _limits(dtype: str) -> tuple[Any, Any]:
    """Between which estimates in float32 an integer does not wrap around."""
    kind = np.iinfo(dtype)
    part = 1.0 if kind.bits <= WIDTH else 1 - 2.0**-WIDTH
    low = kind.min * part if kind.min else -0.5
    return np.array(low, np.float32), np.array(kind.max * part, np.float32)


def _within(level: Any, dtype: str, low: Any, high: Any) -> Any:
    """Where integers, estimated in float32, are in the range of their dtype."""
    least, most = _limits(dtype)
    return level.logical_and(
        level.greater_equal(low, least),
        level.less_equal(high, most),
    )


def _estimates(level: Any, *ends: Any) -> list[Any]:
    return [level.cast(x, "float32") for x in ends]


# Arithmetic.


def _add(level: Any, a: Interval, b: Interval) -> Interval:
    dtype = dtype_of(a.low)
    if dtype == "bool":
        return _or(level, a, b)
    low, high = level.add(a.low, b.low), level.add(a.high, b.high)
    if is_float(dtype):
        made = rounded(level, low, high)
        return known_where(level, _finite(level, *a, *b), *made)
    ends = _estimates(level, a.low, b.low, a.high, b.high)
    sure = _within(level, dtype, level.add(*ends[:2]), level.add(*ends[2:]))
    return known_where(level, sure, low, high)


def _subtract(level: Any, a: Interval, b: Interval) -> Interval:
    dtype = dtype_of(a.low)
    low, high = level.subtract(a.low, b.high), level.subtract(a.high, b.low)
    if is_float(dtype):
        made = rounded(level, low, high)
        return known_where(level, _finite(level, *a, *b), *made)
    if np.iinfo(dtype).min == 0:
        return known_where(level, level.greater_equal(a.low, b.high), low, high)
    ends = _estimates(level, a.low, b.high, a.high, b.low)
    sure = _within(level, dtype, level.subtract(*ends[:2]), level.subtract(*ends[2:]))
    return known_where(level, sure, low, high)


def _corners(level: Any, f: Callable[[Any, Any], Any], a: Interval, b: Interval) -> Interval:
    """The least and the most that a function has at the corners of its operands."""
    ends = [
        f(x, y) for x in ([a.low] if is_point(a) else a) for y in ([b.low] if is_point(b) else b)
    ]
    low = high = ends[0]
    for x in ends[1:]:
        low, high = level.minimum(low, x), level.maximum(high, x)
    return Interval(low, high)


def _multiply(level: Any, a: Interval, b: Interval) -> Interval:
    dtype = dtype_of(a.low)
    if dtype == "bool":
        return _and(level, a, b)
    low, high = _corners(level, level.multiply, a, b)
    if is_float(dtype):
        made = rounded(level, low, high)
        return known_where(level, _finite(level, *a, *b), *made)
    rough = [Interval(*_estimates(level, *x)) for x in (a, b)]
    sure = _within(level, dtype, *_corners(level, level.multiply, *rough))
    return known_where(level, sure, low, high)


def _divide(level: Any, a: Interval, b: Interval) -> Interval:
    zero, one = number(0, b.low), number(1, b.low)
    away = level.logical_or(level.greater(b.low, zero), level.less(b.high, zero))
    divisor = Interval(level.where(away, b.low, one), level.where(away, b.high, one))
    made = rounded(level, *_corners(level, level.divide, a, divisor))
    return known_where(level, level.logical_and(away, _finite(level, *a, *b)), *made)


class _Divisors(NamedTuple):
    """Divisors of integers, 1 where nothing can be said, and where something can."""

    sure: Any
    by: Interval


def _divisors(level: Any, a: Interval, b: Interval) -> _Divisors:
    """Where no divisor is 0, which libraries disagree on, and no quotient leaves the range."""
    zero, one = number(0, b.low), number(1, b.low)
    sure = level.greater(b.low, zero)
    least = np.iinfo(dtype_of(a.low)).min
    if least:
        inside = level.greater(a.low, number(least, a.low))
        below = level.logical_and(level.less(b.high, zero), inside)
        below = level.logical_and(below, level.greater(b.low, number(least, b.low)))
        sure = level.logical_or(sure, below)
    return _Divisors(sure, Interval(*[level.where(sure, x, one) for x in b]))


def _floor_divide(level: Any, a: Interval, b: Interval) -> Interval:
    if is_float(dtype_of(a.low)):
        return _floor(level, _divide(level, a, b))
    sure, by = _divisors(level, a, b)
    return known_where(level, sure, *_corners(level, level.floor_divide, a, by))


def _truncated(level: Any, a: Any, b: Any) -> Any:
    quotient = level.floor_divide(level.abs(a), level.abs(b))
    return level.multiply(quotient, level.multiply(level.sign(a), level.sign(b)))


def _truncate_divide(level: Any, a: Interval, b: Interval) -> Interval:
    dtype = dtype_of(a.low)
    if is_float(dtype):
        return _trunc(level, _divide(level, a, b))
    if not np.iinfo(dtype).min:
        return _floor_divide(level, a, b)
    sure, by = _divisors(level, a, b)
    # The lowest integer has no magnitude.
    sure = level.logical_and(sure, level.greater(a.low, number(np.iinfo(dtype).min, a.low)))
    return known_where(level, sure, *_corners(level, partial(_truncated, level), a, by))


def _remainder(level: Any, a: Interval, b: Interval) -> Interval:
    if is_float(dtype_of(a.low)):
        return _floating_remainder(level, a, b)
    sure, by = _divisors(level, a, b)
    zero, one = number(0, b.low), number(1, b.low)
    positive = level.greater(by.low, zero)
    # Within one period of one divisor the remainder only grows.
    first, last = level.floor_divide(a.low, by.low), level.floor_divide(a.high, by.low)
    together = level.logical_and(level.equal(by.low, by.high), level.equal(first, last))
    # A value below every divisor is its own remainder.
    own = level.logical_and(level.greater_equal(a.low, zero), level.less(a.high, by.low))
    low = level.where(positive, zero, level.add(by.low, one))
    high = level.where(positive, level.subtract(by.high, one), zero)
    low = level.where(together, level.remainder(a.low, by.low), low)
    high = level.where(together, level.remainder(a.high, by.low), high)
    low, high = level.where(own, a.low, low), level.where(own, a.high, high)
    return known_where(level, sure, low, high)


def _floating_remainder(level: Any, a: Interval, b: Interval) -> Interval:
    zero = number(0, b.low)
    finite = _finite(level, *a, *b)
    above = level.logical_and(level.greater(b.low, zero), finite)
    below = level.logical_and(level.less(b.high, zero), finite)
    low = level.where(above, zero, b.low)
    high = level.where(above, b.high, zero)
    return known_where(level, level.logical_or(above, below), *rounded(level, low, high))


def _fmod(level: Any, a: Interval, b: Interval) -> Interval:
    """A remainder with the sign of the first operand."""
    dtype = dtype_of(a.low)
    if is_float(dtype):
        size = _abs(level, b)
        rest = _floating_remainder(level, _abs(level, a), size)
    else:
        if not np.iinfo(dtype).min:
            return _remainder(level, a, b)
        sure, by = _divisors(level, a, b)
        # The lowest integer has no magnitude; those of its neighbour are as wide.
        inside = Interval(*[level.maximum(x, number(-np.iinfo(dtype).max, x)) for x in a])
        rest = _remainder(level, _abs(level, inside), _abs(level, by))
        lowest = level.equal(a.low, number(np.iinfo(dtype).min, a.low))
        rest = known_where(level, level.logical_and(sure, level.logical_not(lowest)), *rest)
    zero = number(0, a.low)
    # The magnitudes' remainders, on the side where the operand is.
    positive, negative = level.greater_equal(a.low, zero), level.less_equal(a.high, zero)
    most = rest.high
    least = level.maximum(rest.low, zero)
    low = level.where(positive, least, level.negative(most))
    high = level.where(negative, level.negative(least), most)
    return both(level, low, high) if is_float(dtype) else _kept_open(level, rest, low, high)


def _kept_open(level: Any, rest: Interval, low: Any, high: Any) -> Interval:
    """Integer ends, where the interval that they are made of is no whole range."""
    least, _ = range_of(dtype_of(rest.low))
    return known_where(level, level.greater(rest.low, least), low, high)


def _negative(level: Any, x: Interval) -> Interval:
    dtype = dtype_of(x.low)
    low, high = level.negative(x.high), level.negative(x.low)
    if is_float(dtype):
        return Interval(low, high)
    least = np.iinfo(dtype).min
    if least:
        return known_where(level, level.greater(x.low, number(least, x.low)), low, high)
    return known_where(level, level.equal(x.high, number(0, x.low)), low, high)


def _abs(level: Any, x: Interval) -> Interval:
    dtype = dtype_of(x.low)
    if dtype == "bool":
        return x
    if is_integer(dtype) and not np.iinfo(dtype).min:
        return x
    opposite = level.negative(x.high)
    low = level.maximum(level.maximum(x.low, opposite), number(0, x.low))
    high = level.maximum(level.negative(x.low), x.high)
    if is_float(dtype):
        return Interval(low, high)
    sure = level.greater(x.low, number(np.iinfo(dtype).min, x.low))
    return known_where(level, sure, low, high)


def _square(level: Any, x: Interval) -> Interval:
    size = _abs(level, x)
    return _multiply(level, size, size)


def _reciprocal(level: Any, x: Interval) -> Interval:
    return _divide(level, point(number(1, x.low)), x)


MOST = 8
"""The largest power that is worked out by multiplication."""


def _power(level: Any, x: Interval, exponent: Interval) -> Interval:
    """Powers by one small whole number that is known."""
    dtype, n = dtype_of(x.low), exponent.low
    whole = is_point(exponent) and isinstance(n, np.ndarray | np.generic) and not np.ndim(n)
    if not whole or dtype == "bool" or n not in range(MOST + 1):
        return unknown(dtype)
    if n == 0:
        return point(number(1, x.low))
    if int(n) % 2 == 0:
        return _repeated(level, _abs(level, x), int(n))
    below, above = [_repeated(level, point(end), int(n)) for end in x]
    if is_float(dtype):
        return both(level, below.low, above.high)
    # What wrapped around is no point any more.
    sure = level.logical_and(level.equal(below.low, below.high), level.equal(above.low, above.high))
    return known_where(level, sure, below.low, above.high)


def _repeated(level: Any, x: Interval, n: int) -> Interval:
    made = x
    for _ in range(n - 1):
        made = _multiply(level, made, x)
    return made


# Order.


def _each_end(name: str) -> Rule:
    """A rule of an exact function that grows with each operand."""

    def rule(level: Any, *operands: Interval) -> Interval:
        function = getattr(level, name)
        low = function(*[x.low for x in operands])
        return Interval(low, function(*[x.high for x in operands]))

    return rule


_floor, _trunc = _each_end("floor"), _each_end("trunc")


def _maximum(level: Any, a: Interval, b: Interval) -> Interval:
    if dtype_of(a.low) == "bool":
        return _or(level, a, b)
    return Interval(level.maximum(a.low, b.low), level.maximum(a.high, b.high))


def _minimum(level: Any, a: Interval, b: Interval) -> Interval:
    if dtype_of(a.low) == "bool":
        return _and(level, a, b)
    return Interval(level.minimum(a.low, b.low), level.minimum(a.high, b.high))


def _clip(level: Any, x: Interval, low: Interval, high: Interval) -> Interval:
    return _minimum(level, _maximum(level, x, low), high)


def _approximate(name: str) -> Rule:
    """A rule of a function that grows, and that libraries approximate."""

    def rule(level: Any, x: Interval) -> Interval:
        function = getattr(level, name)
        return rounded(level, function(x.low), function(x.high), loose=True)

    return rule


def _sigmoid(level: Any, x: Interval) -> Interval:
    one = number(1, x.low)
    low, high = [level.divide(one, level.add(one, level.exp(level.negative(end)))) for end in x]
    return rounded(level, low, high, loose=True)


def _wave(level: Any, x: Interval) -> Interval:
    # Wider than 1, as libraries round a little differently.
    return known_where(level, _finite(level, *x), number(-2, x.low), number(2, x.low))


# Comparisons. NaN compares false, so what is possible is asked for by what excludes it.


def _less(level: Any, a: Interval, b: Interval) -> Interval:
    never = level.greater_equal(a.low, b.high)
    return Interval(level.less(a.high, b.low), level.logical_not(never))


def _less_equal(level: Any, a: Interval, b: Interval) -> Interval:
    never = level.greater(a.low, b.high)
    return Interval(level.less_equal(a.high, b.low), level.logical_not(never))


def _greater(level: Any, a: Interval, b: Interval) -> Interval:
    return _less(level, b, a)


def _greater_equal(level: Any, a: Interval, b: Interval) -> Interval:
    return _less_equal(level, b, a)


def _equal(level: Any, a: Interval, b: Interval) -> Interval:
    certain = level.logical_and(level.equal(a.low, b.high), level.equal(a.high, b.low))
    apart = level.logical_or(level.less(a.high, b.low), level.less(b.high, a.low))
    return Interval(certain, level.logical_not(apart))


def _not_equal(level: Any, a: Interval, b: Interval) -> Interval:
    return _not(level, _equal(level, a, b))


# Logic and bits.


def _not(level: Any, x: Interval) -> Interval:
    x = truth(x)
    return Interval(level.logical_not(x.high), level.logical_not(x.low))


def _and(level: Any, a: Interval, b: Interval) -> Interval:
    a, b = truth(a), truth(b)
    return Interval(level.logical_and(a.low, b.low), level.logical_and(a.high, b.high))


def _or(level: Any, a: Interval, b: Interval) -> Interval:
    a, b = truth(a), truth(b)
    return Interval(level.logical_or(a.low, b.low), level.logical_or(a.high, b.high))


def _xor(level: Any, a: Interval, b: Interval) -> Interval:
    a, b = truth(a), truth(b)
    return _or(level, _and(level, a, _not(level, b)), _and(level, _not(level, a), b))


def _of_bits(name: str, logical: Rule, bound: Rule) -> Rule:
    """A rule of bits: of values that are known what they give, of others what is known."""

    def rule(level: Any, a: Interval, b: Interval) -> Interval:
        if dtype_of(a.low) == "bool":
            return logical(level, a, b)
        low, high = bound(level, a, b)
        single = level.logical_and(level.equal(a.low, a.high), level.equal(b.low, b.high))
        exact = getattr(level, name)(a.low, b.low)
        return Interval(level.where(single, exact, low), level.where(single, exact, high))

    return rule


def _common_bits(level: Any, a: Interval, b: Interval) -> Interval:
    zero, (_, most) = number(0, a.low), range_of(dtype_of(a.low))
    # A negative number keeps any bits of the other.
    highs = [level.where(level.greater_equal(x.low, zero), x.high, most) for x in (a, b)]
    either = [level.greater_equal(x.low, zero) for x in (a, b)]
    return known_where(level, level.logical_or(*either), zero, level.minimum(*highs))


def _joined_bits(level: Any, a: Interval, b: Interval) -> Interval:
    """Bits that either has, of numbers that are not negative: no more than their sum."""
    low = level.maximum(a.low, b.low)
    positive = level.greater_equal(level.minimum(a.low, b.low), number(0, a.low))
    total = level.add(*_estimates(level, a.high, b.high))
    sure = level.logical_and(_within(level, dtype_of(low), total, total), positive)
    return known_where(level, sure, low, level.add(a.high, b.high))


def _differing_bits(level: Any, a: Interval, b: Interval) -> Interval:
    low, high = _joined_bits(level, a, b)
    return Interval(level.minimum(low, number(0, low)), high)


def _invert(level: Any, x: Interval) -> Interval:
    if dtype_of(x.low) == "bool":
        return _not(level, x)
    return Interval(level.invert(x.high), level.invert(x.low))


class _Places(NamedTuple):
    """By how many places bits are shifted, and where that is from 0 on and below the width."""

    sure: Any
    by: Interval


def _places(level: Any, by: Interval) -> _Places:
    zero, last = number(0, by.low), number(np.iinfo(dtype_of(by.low)).bits - 1, by.low)
    sure = level.logical_and(level.greater_equal(by.low, zero), level.less_equal(by.high, last))
    return _Places(sure, Interval(*[level.where(sure, x, zero) for x in by]))


def _left_shift(level: Any, x: Interval, by: Interval) -> Interval:
    sure, by = _places(level, by)
    low, high = _corners(level, level.left_shift, x, by)
    rough = Interval(*_estimates(level, *x))
    factor = Interval(*[level.exp2(e) for e in _estimates(level, *by)])
    inside = _within(level, dtype_of(x.low), *_corners(level, level.multiply, rough, factor))
    return known_where(level, level.logical_and(sure, inside), low, high)


def _right_shift(level: Any, x: Interval, by: Interval) -> Interval:
    sure, by = _places(level, by)
    return known_where(level, sure, *_corners(level, level.right_shift, x, by))


RULES: dict[str, Rule] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "floor_divide": _floor_divide,
    "truncate_divide": _truncate_divide,
    "remainder": _remainder,
    "fmod": _fmod,
    "negative": _negative,
    "abs": _abs,
    "square": _square,
    "reciprocal": _reciprocal,
    "power": _power,
    "sign": _each_end("sign"),
    "floor": _floor,
    "ceil": _each_end("ceil"),
    "trunc": _trunc,
    "round": _each_end("round"),
    "maximum": _maximum,
    "minimum": _minimum,
    "fmax": _maximum,
    "fmin": _minimum,
    "clip": _clip,
    **{
        name: _approximate(name)
        for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt")
    },
    **{name: _approximate(name) for name in ("tanh", "sinh", "arctan", "arcsinh")},
    "sigmoid": _sigmoid,
    "sin": _wave,
    "cos": _wave,
    "less": _less,
    "less_equal": _less_equal,
    "greater": _greater,
    "greater_equal": _greater_equal,
    "equal": _equal,
    "not_equal": _not_equal,
    "logical_not": _not,
    "logical_and": _and,
    "logical_or": _or,
    "logical_xor": _xor,
    "invert": _invert,
    "bitwise_and": _of_bits("bitwise_and", _and, _common_bits),
    "bitwise_or": _of_bits("bitwise_or", _or, _joined_bits),
    "bitwise_xor": _of_bits("bitwise_xor", _xor, _differing_bits),
    "left_shift": _left_shift,
    "right_shift": _right_shift,
}
"""The bounds of an elementwise function of graphc's, by its name, and of a few of JAX's.

``truncate_divide`` rounds quotients towards zero. A function that is not here has none.
"""

EXACT = frozenset({
    *("negative", "abs", "sign", "floor", "ceil", "trunc", "round", "maximum", "minimum"),
    *("fmax", "fmin", "clip", "copysign"),
})  # fmt: skip
"""The functions whose floating results every backend computes alike, to the last bit."""


def applied(name: str, *operands: Interval) -> Interval | None:
    """The interval of an elementwise function of intervals of one dtype; None without a rule.

    Args:
        name: A key of ``RULES``.
        operands: Each of arrays that have a dtype and broadcast.

    Example:
        >>> q = Interval(np.array([0, 128]), np.array([127, 255]))
        >>> certain, possible = applied("less", q, point(np.array(128)))
        >>> certain, possible
        (array([ True, False]), array([ True, False]))
    """
    rule = RULES.get(name)
    if rule is None or any(is_complex(dtype_of(x.low)) for x in operands):
        return None
    with np.errstate(all="ignore"):
        return rule(level_of(*operands), *operands)
