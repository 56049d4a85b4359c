"""Intervals of elementwise functions: rules for functions whose row's facts do not suffice.

A rule takes an ``Arithmetic``, here ``k``, and the operands' intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

from graphc.intervals.interval import Arithmetic, Image, Interval, point
from graphc.tensor.core.elementwise import REALS, ROWS, Facts

Rule = Callable[..., Interval]


def image(k: Arithmetic, name: str, *operands: Interval) -> Interval | None:
    """Return the interval of an elementwise function of intervals of one dtype, or None.

    Args:
        k: The arithmetic of the operands' dtype.
        name: The row's name.
        operands: The operands' intervals.

    Example:
        >>> from graphc.intervals.interval import INTEGERS
        >>> image(INTEGERS, "multiply", Interval(-2, 3), Interval(4, 5))
        Interval(low=-10, high=15)
    """
    rule = RULES.get(name)
    if rule is not None:
        return rule(k, *operands)
    return _by_facts(k, name, ROWS[name].facts, operands)


def _by_facts(
    k: Arithmetic, name: str, facts: Facts, operands: tuple[Interval, ...]
) -> Interval | None:
    """Return the image of the operands' ends if the function has a trend, else its range."""
    if facts.trend and k.has(name):
        low, high = _ends(getattr(k, name), facts.trend, operands)
        if facts.exact:
            return Interval(low, high)
        low, high = k.round_outward(low, high, loose=True)
        return _limit(k, Interval(low, high), facts.range)
    if facts.range == REALS or facts.support or not k.is_float:
        return None
    least, most = outward(facts.range)
    ends = [end for x in operands for end in x]
    return k.bounded_where(k.finite(*ends), k.number(least), k.number(most))


def _ends(
    f: Callable[..., Any], trend: tuple[int, ...], operands: tuple[Interval, ...]
) -> Interval:
    pairs = [x if step > 0 else x[::-1] for x, step in zip(operands, trend, strict=True)]
    return Interval(f(*[low for low, _ in pairs]), f(*[high for _, high in pairs]))


def outward(x: tuple[float, float]) -> Interval:
    """Return a row's range with room for the rounding of libraries' approximations.

    An end at 0 stays: no library rounds across it.
    """
    low, high = x
    return Interval(low * 2 if low < 0 else low / 2, high * 2 if high > 0 else high / 2)


def _limit(k: Arithmetic, x: Interval, limits: tuple[float, float]) -> Interval:
    if limits == REALS:
        return x
    least, most = map(k.number, outward(limits))
    return Interval(k.maximum(x.low, least), k.minimum(x.high, most))


# Arithmetic.


def _round_or_wrap(k: Arithmetic, f: Image, *operands: Interval) -> Interval:
    """Return an image whose values are rounded if floating, and wrap around if integers."""
    exact = f(k, *operands)
    if k.is_float:
        ends = [end for x in operands for end in x]
        return k.bounded_where(k.finite(*ends), *k.round_outward(*exact))
    return k.bounded_where(k.fits(f, exact, operands), *exact)


def _sums(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    return Interval(k.add_down(a.low, b.low), k.add_up(a.high, b.high))


def _differences(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    return Interval(k.subtract_down(a.low, b.high), k.subtract_up(a.high, b.low))


def _products(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    return _corners(k, k.multiply, a, b)


def _corners(k: Arithmetic, f: Callable[[Any, Any], Any], a: Interval, b: Interval) -> Interval:
    """Return the smallest and the largest value of a function at the corners of its operands."""
    pairs = product(*[[x.low] if k.is_point(x) else x for x in (a, b)])
    ends = [f(x, y) for x, y in pairs]
    low = high = ends[0]
    for x in ends[1:]:
        low, high = k.minimum(low, x), k.maximum(high, x)
    return Interval(low, high)


def _add(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    return _or(k, a, b) if k.is_bool else _round_or_wrap(k, _sums, a, b)


def _subtract(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    differences = _round_or_wrap(k, _differences, a, b)
    if k.least == 0:
        # Differences of large numbers are too close to 0 to be estimated.
        return k.bounded_where(k.greater_equal(a.low, b.high), *differences)
    return differences


def _multiply(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    return _and(k, a, b) if k.is_bool else _round_or_wrap(k, _products, a, b)


def _divide(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    tiny, one = k.number(k.tiny), k.number(1)
    away = k.logical_or(k.greater(b.low, tiny), k.less(b.high, k.negative(tiny)))
    divisor = Interval(k.where(away, b.low, one), k.where(away, b.high, one))
    quotients = k.round_outward(*_corners(k, k.divide, a, divisor))
    return k.bounded_where(k.logical_and(away, k.finite(*a, *b)), *quotients)


class _Divisors(NamedTuple):
    """Integer divisors, replaced by 1 where ``sure`` is false: there the quotient is unbounded."""

    sure: Any
    by: Interval


def _divisors(k: Arithmetic, a: Interval, b: Interval) -> _Divisors:
    """Return the divisors that are not 0 and whose quotients stay in the dtype's range.

    Libraries disagree on division by 0.
    """
    zero, one = k.number(0), k.number(1)
    sure = k.greater(b.low, zero)
    if k.least:
        least = k.number(k.least)
        below = k.logical_and(k.less(b.high, zero), k.greater(a.low, least))
        below = k.logical_and(below, k.greater(b.low, least))
        sure = k.logical_or(sure, below)
    return _Divisors(sure, Interval(*[k.where(sure, x, one) for x in b]))


def _floor_divide(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    if k.is_float:
        return Interval(*[k.floor(end) for end in _divide(k, a, b)])
    sure, by = _divisors(k, a, b)
    return k.bounded_where(sure, *_corners(k, k.floor_divide, a, by))


def _remainder(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    if k.is_float:
        return _floating_remainder(k, a, b)
    sure, by = _divisors(k, a, b)
    zero, one = k.number(0), k.number(1)
    positive = k.greater(by.low, zero)
    # Within one period of one divisor the remainder only grows.
    first, last = k.floor_divide(a.low, by.low), k.floor_divide(a.high, by.low)
    together = k.logical_and(k.equal(by.low, by.high), k.equal(first, last))
    # A value below every divisor is its own remainder.
    own = k.logical_and(k.greater_equal(a.low, zero), k.less(a.high, by.low))
    low = k.where(positive, zero, k.add(by.low, one))
    high = k.where(positive, k.subtract(by.high, one), zero)
    low = k.where(together, k.remainder(a.low, by.low), low)
    high = k.where(together, k.remainder(a.high, by.low), high)
    low, high = k.where(own, a.low, low), k.where(own, a.high, high)
    return k.bounded_where(sure, low, high)


def _floating_remainder(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    zero = k.number(0)
    finite = k.finite(*a, *b)
    above = k.logical_and(k.greater(b.low, zero), finite)
    below = k.logical_and(k.less(b.high, zero), finite)
    low = k.where(above, zero, b.low)
    high = k.where(above, b.high, zero)
    return k.bounded_where(k.logical_or(above, below), *k.round_outward(low, high))


def _fmod(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    """Return the interval of remainders that have the sign of the first operand."""
    if k.is_float:
        rest = _floating_remainder(k, _abs(k, a), _abs(k, b))
    else:
        if not k.least:
            return _remainder(k, a, b)
        sure, by = _divisors(k, a, b)
        # The lowest integer has no magnitude in its dtype; the next one's remainders are as wide.
        inside = Interval(*[k.maximum(x, k.number(-k.most)) for x in a])
        rest = _remainder(k, _abs(k, inside), _abs(k, by))
        lowest = k.equal(a.low, k.number(k.least))
        rest = k.bounded_where(k.logical_and(sure, k.logical_not(lowest)), *rest)
    zero = k.number(0)
    # The remainders of the magnitudes get the sign of the first operand.
    positive, negative = k.greater_equal(a.low, zero), k.less_equal(a.high, zero)
    least = k.maximum(rest.low, zero)
    low = k.where(positive, least, k.negative(rest.high))
    high = k.where(negative, k.negative(least), rest.high)
    # An unbounded interval stays unbounded.
    sure = _is_number(k, low, high) if k.is_float else k.greater(rest.low, k.number(k.least))
    return k.bounded_where(sure, low, high)


def _is_number(k: Arithmetic, low: Any, high: Any) -> Any:
    """Return where neither end is NaN."""
    return k.logical_and(k.equal(low, low), k.equal(high, high))


def _opposites(k: Arithmetic, x: Interval) -> Interval:
    return Interval(k.negative(x.high), k.negative(x.low))


def _negative(k: Arithmetic, x: Interval) -> Interval:
    y = _opposites(k, x)
    return y if k.is_float else k.bounded_where(k.fits(_opposites, y, (x,)), *y)


def _magnitudes(k: Arithmetic, x: Interval) -> Interval:
    opposite = _opposites(k, x)
    low = k.maximum(k.maximum(x.low, opposite.low), k.number(0))
    return Interval(low, k.maximum(opposite.high, x.high))


def _abs(k: Arithmetic, x: Interval) -> Interval:
    if k.is_bool or k.least == 0:
        return x
    y = _magnitudes(k, x)
    return y if k.is_float else k.bounded_where(k.fits(_magnitudes, y, (x,)), *y)


def _square(k: Arithmetic, x: Interval) -> Interval:
    size = _abs(k, x)
    return _multiply(k, size, size)


def _reciprocal(k: Arithmetic, x: Interval) -> Interval:
    return _divide(k, point(k.number(1)), x)


MAX_MULTIPLIED_POWER = 8
"""The largest exponent whose interval is computed by repeated multiplication."""


def _power(k: Arithmetic, x: Interval, exponent: Interval) -> Interval:
    n = k.value_of(exponent)
    if k.is_bool or n not in range(MAX_MULTIPLIED_POWER + 1):
        return _sign_of_power(k, x, exponent, even=n is not None and n % 2 == 0)
    if n == 0:
        return point(k.number(1))
    if int(n) % 2 == 0:
        return _integer_power(k, _abs(k, x), int(n))
    below, above = [_integer_power(k, point(end), int(n)) for end in x]
    if k.is_float:
        sure = _is_number(k, below.low, above.high)
    else:
        # An integer power that wrapped around is unbounded, and so not a point.
        sure = k.logical_and(k.equal(below.low, below.high), k.equal(above.low, above.high))
    return k.bounded_where(sure, below.low, above.high)


def _sign_of_power(k: Arithmetic, x: Interval, exponent: Interval, even: bool) -> Interval:
    """Return the interval of nonnegative floating powers, where the sign is certain."""
    zero = k.number(0)
    if not k.is_float:
        return k.bounded_where(False, zero, zero)
    grows = k.logical_and(k.greater_equal(x.low, zero), k.greater_equal(exponent.low, zero))
    sure = k.logical_or(k.greater(x.low, zero), grows) if not even else True
    return k.bounded_where(k.logical_and(sure, k.finite(*x, *exponent)), zero, k.number(k.most))


def _integer_power(k: Arithmetic, x: Interval, n: int) -> Interval:
    y = x
    for _ in range(n - 1):
        y = _multiply(k, y, x)
    return y


# Order.


def _maximum(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    if k.is_bool:
        return _or(k, a, b)
    return Interval(k.maximum(a.low, b.low), k.maximum(a.high, b.high))


def _minimum(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    if k.is_bool:
        return _and(k, a, b)
    return Interval(k.minimum(a.low, b.low), k.minimum(a.high, b.high))


def _clip(k: Arithmetic, x: Interval, low: Interval, high: Interval) -> Interval:
    return _minimum(k, _maximum(k, x, low), high)


# Comparisons. NaN compares false, so "possibly true" is "not certainly false".


def _less(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    never = k.greater_equal(a.low, b.high)
    return Interval(k.less(a.high, b.low), k.logical_not(never))


def _less_equal(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    never = k.greater(a.low, b.high)
    return Interval(k.less_equal(a.high, b.low), k.logical_not(never))


def _greater(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    return _less(k, b, a)


def _greater_equal(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    return _less_equal(k, b, a)


def _equal(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    certain = k.logical_and(k.equal(a.low, b.high), k.equal(a.high, b.low))
    apart = k.logical_or(k.less(a.high, b.low), k.less(b.high, a.low))
    return Interval(certain, k.logical_not(apart))


def _not_equal(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    equal = _equal(k, a, b)
    return Interval(k.logical_not(equal.high), k.logical_not(equal.low))


# Logic and bits.


def truth(k: Arithmetic, x: Interval) -> Interval:
    """Return the bool interval of ``x != 0``."""
    if k.is_bool:
        return x
    zero = k.number(0)
    away = k.logical_or(k.greater(x.low, zero), k.less(x.high, zero))
    none = k.logical_and(k.equal(x.low, zero), k.equal(x.high, zero))
    return Interval(away, k.logical_not(none))


def _not(k: Arithmetic, x: Interval) -> Interval:
    x = truth(k, x)
    return Interval(k.logical_not(x.high), k.logical_not(x.low))


def _and(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    a, b = truth(k, a), truth(k, b)
    return Interval(k.logical_and(a.low, b.low), k.logical_and(a.high, b.high))


def _or(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    a, b = truth(k, a), truth(k, b)
    return Interval(k.logical_or(a.low, b.low), k.logical_or(a.high, b.high))


def _xor(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    a, b = truth(k, a), truth(k, b)
    low = k.logical_or(
        k.logical_and(a.low, k.logical_not(b.high)), k.logical_and(k.logical_not(a.high), b.low)
    )
    high = k.logical_or(
        k.logical_and(a.high, k.logical_not(b.low)), k.logical_and(k.logical_not(a.low), b.high)
    )
    return Interval(low, high)


def _bitwise(name: str, logical: Rule, bound: Rule) -> Rule:
    """Return a rule of bits: the exact result of two points, else a bound."""

    def rule(k: Arithmetic, a: Interval, b: Interval) -> Interval:
        if k.is_bool:
            return logical(k, a, b)
        low, high = bound(k, a, b)
        single = k.logical_and(k.equal(a.low, a.high), k.equal(b.low, b.high))
        exact = getattr(k, name)(a.low, b.low)
        return Interval(k.where(single, exact, low), k.where(single, exact, high))

    return rule


def _common_bits(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    zero, most = k.number(0), k.number(k.most)
    # ``-1 & x`` is x: a negative number may keep all bits of the other.
    highs = [k.where(k.greater_equal(x.low, zero), x.high, most) for x in (a, b)]
    either = [k.greater_equal(x.low, zero) for x in (a, b)]
    return k.bounded_where(k.logical_or(*either), zero, k.minimum(*highs))


def _joined_bits(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    """``a | b <= a + b`` for numbers from 0 on."""
    low = k.maximum(a.low, b.low)
    positive = k.greater_equal(k.minimum(a.low, b.low), k.number(0))
    most = _sums(k, point(a.high), point(b.high))
    fits = k.fits(_sums, most, (point(a.high), point(b.high)))
    return k.bounded_where(k.logical_and(fits, positive), low, most.high)


def _differing_bits(k: Arithmetic, a: Interval, b: Interval) -> Interval:
    low, high = _joined_bits(k, a, b)
    return Interval(k.minimum(low, k.number(0)), high)


def _invert(k: Arithmetic, x: Interval) -> Interval:
    return _not(k, x) if k.is_bool else Interval(k.invert(x.high), k.invert(x.low))


class _Shifts(NamedTuple):
    """Distances of a shift, and where they are from 0 to below the integers' width."""

    sure: Any
    by: Interval


def _shifts(k: Arithmetic, by: Interval) -> _Shifts:
    zero, last = k.number(0), k.number(k.bits - 1)
    sure = k.logical_and(k.greater_equal(by.low, zero), k.less_equal(by.high, last))
    return _Shifts(sure, Interval(*[k.where(sure, x, zero) for x in by]))


def _products_by_powers_of_two(k: Arithmetic, x: Interval, by: Interval) -> Interval:
    return _corners(k, k.multiply, x, Interval(*[k.exp2(end) for end in by]))


def _left_shift(k: Arithmetic, x: Interval, by: Interval) -> Interval:
    sure, by = _shifts(k, by)
    y = _corners(k, k.left_shift, x, by)
    fits = k.fits(_products_by_powers_of_two, y, (x, by))
    return k.bounded_where(k.logical_and(sure, fits), *y)


def _right_shift(k: Arithmetic, x: Interval, by: Interval) -> Interval:
    sure, by = _shifts(k, by)
    return k.bounded_where(sure, *_corners(k, k.right_shift, x, by))


RULES: dict[str, Rule] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "fmod": _fmod,
    "negative": _negative,
    "abs": _abs,
    "square": _square,
    "reciprocal": _reciprocal,
    "power": _power,
    "maximum": _maximum,
    "minimum": _minimum,
    "fmax": _maximum,
    "fmin": _minimum,
    "clip": _clip,
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
    "bitwise_and": _bitwise("bitwise_and", _and, _common_bits),
    "bitwise_or": _bitwise("bitwise_or", _or, _joined_bits),
    "bitwise_xor": _bitwise("bitwise_xor", _xor, _differing_bits),
    "left_shift": _left_shift,
    "right_shift": _right_shift,
}
