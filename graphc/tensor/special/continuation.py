"""The hypergeometric function and its derivatives without loops, for backends that lack loops.

The method of ``hypergeometric.py``, the series at 0 and then Taylor series, but between fixed
points, all at once. The derivative with respect to a parameter is carried along as a tangent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.tensor.arrays.reduce import sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import exp, log1p
from graphc.tensor.core.tensor import TABLE, Tensor, constant
from graphc.tensor.special.gamma import gamma_sign, gammaln
from graphc.tensor.special.series import wide

CHUNK, CHUNKS = 256, 4
"""The number of terms of the series at 0 that are multiplied at once, and of such chunks."""

TERMS = 80
"""The terms of the Taylor series, which fall like 2**-k."""

POINTS = 1 - 2.0 ** -np.arange(1, 65)
"""The starts of Taylor series: each goes half of the way to 1. From the 53rd on they are 1."""

NOTHING = 1e-290
"""A smaller z counts as 0."""

LOST = 1e-9
"""If the last term relative to the sum is larger, the series is too short for the parameters."""


@dataclass(frozen=True, slots=True)
class Dual:
    """A number and its derivative."""

    value: Any
    slope: Any

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Dual) -> Dual:
        return Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: Dual) -> Dual:
        slope = self.slope * other.value + self.value * other.slope
        return Dual(self.value * other.value, slope)

    def times(self, factor: Any) -> Dual:
        return Dual(self.value * factor, self.slope * factor)

    def plus(self, term: Any) -> Dual:
        return Dual(self.value + term, self.slope)

    def where(self, condition: Any, other: Dual) -> Dual:
        return Dual(
            ew.where(condition, self.value, other.value),
            ew.where(condition, self.slope, other.slope),
        )

    def deeper(self) -> Dual:
        return Dual(_deeper(self.value), _deeper(self.slope))

    def at(self, *index: Any) -> Dual:
        return Dual(self.value[(..., *index)], self.slope[(..., *index)])


Triple = tuple[Dual, Dual, Dual]


def _deeper(x: Any) -> Any:
    return TABLE["expand_dims"](x, x.ndim)


def _degree(*parameters: Dual) -> Any:
    """Return the polynomial's degree; infinity where the series does not terminate."""
    degree: Any = np.inf
    for p in parameters:
        whole = (
            ew.less_equal(p.value, 0) & ew.equal(p.value, ew.floor(p.value)) & ew.equal(p.slope, 0)
        )
        degree = ew.minimum(ew.where(whole, -p.value, np.inf), degree)
    return degree


def _hyp2f1(parameters: Triple, z: Any) -> Dual:
    """Return 2F1(a, b; c; z) for z < 1."""
    a, b, c = parameters
    # For a smaller z, the complex step of other backends has no digits.
    z = ew.where(ew.less(ew.abs(z), NOTHING), 0, z)
    degree = _degree(a, b)
    endless = ew.equal(degree, np.inf)
    # Pfaff's transformation (DLMF 15.8.1), with the parameter of slower decay.
    turned = endless & ew.less(z, -0.3)
    first, other = (
        a.where(ew.less_equal(a.value, b.value), b),
        b.where(ew.less_equal(a.value, b.value), a),
    )
    # Euler's, where the function grows so fast that Taylor's series would be long.
    eased = endless & ew.greater(z, 0.5) & ew.less(c.value, a.value + b.value - 5)
    power = first.times(-1.0).where(turned, c - a - b)
    fall = log1p(-ew.where(turned | eased, z, 0))
    factor = exp(power.value * fall)
    a, b = (
        first.where(turned, (c - a).where(eased, a)),
        (c - other).where(turned, (c - b).where(eased, b)),
    )
    z = ew.where(turned, z / (z - 1), z)
    degree = ew.where(turned | eased, _degree(a, b), degree)
    whole = ew.less(degree, np.inf)
    at = ew.where(whole, z, ew.maximum(ew.minimum(z, 0.5), -0.5))
    y = _move_beyond_half((a, b, c), ew.where(whole, 0, z), *_series((a, b, c), at, degree))
    return Dual(factor, power.slope * fall * factor) * y


def _series(parameters: Triple, at: Any, degree: Any) -> tuple[Dual, Dual]:
    """Return the value and the derivative at a point by the series at 0 (DLMF 15.2.1)."""
    zero = 0 * at
    y, slope = Dual(zero + 1, zero), _ratio(parameters, 0)
    p = [x.deeper() for x in parameters]
    at, degree = _deeper(at), _deeper(degree)
    # The product of all nonzero factors so far, its derivative, the number of zeros, and theirs.
    product, change, zeros, unit = (_deeper(x) for x in (zero + 1, zero, zero, zero))
    term = y
    for i in range(CHUNKS):
        k = constant(np.arange(CHUNK * i, CHUNK * (i + 1.0)), bake=True)
        (a, b, c) = (x.plus(k) for x in p)
        inside = ew.less(k, degree)
        none = [ew.equal(x.value, 0) & ew.not_equal(x.slope, 0) for x in (a, b)]
        own = [ew.where(n, 1, x.value) for n, x in zip(none, (a, b), strict=True)]
        below = ew.where(ew.equal(c.value, 0) & ew.less_equal(degree, k), 1, c.value)
        ratio = ew.where(inside, own[0] * own[1] / (below * (k + 1)) * at, 0)
        rates = _rate(a) + _rate(b)
        product = product * TABLE["cumprod"](ratio, -1)
        change = change + TABLE["cumsum"](rates - c.slope / below, -1)
        zeros = zeros + TABLE["cumsum"](ew.where(none[0], 1, 0) + ew.where(none[1], 1.0, 0), -1)
        units = ew.where(none[0], a.slope, 0) + ew.where(none[1], b.slope, 0)
        unit = unit + TABLE["cumsum"](units, -1)
        alive = ew.equal(zeros, 0)
        once = ew.where(ew.equal(zeros, 1), product * unit, 0)
        terms = Dual(ew.where(alive, product, 0), ew.where(alive, product * change, once))
        following = _ratio((p[0], p[1], p[2].where(inside, _without_derivative(1 + 0 * at))), k + 1)
        sloped = following * terms
        y = y + Dual(sum(terms.value, -1), sum(terms.slope, -1))
        slope = slope + Dual(sum(sloped.value, -1), sum(sloped.slope, -1))
        product, change, zeros, unit = (x[..., -1:] for x in (product, change, zeros, unit))
        term = terms.at(-1)
    return _mark_lost(y, term, 0), slope


def _rate(p: Dual) -> Any:
    return ew.where(ew.equal(p.value, 0), 0, p.slope / ew.where(ew.equal(p.value, 0), 1, p.value))


def _ratio(parameters: Triple, k: Any) -> Dual:
    """Return ``(a + k) * (b + k) / (c + k)``."""
    a, b, c = (x.plus(k) for x in parameters)
    y = a * b
    value = y.value / c.value
    return Dual(value, (y.slope - value * c.slope) / c.value)


def _mark_lost(y: Dual, term: Dual, least: Any) -> Dual:
    """Return NaN where the last term still counts in the sum, or in a lower bound of it."""
    lost = ew.greater(ew.abs(term.value), LOST * ew.maximum(ew.abs(y.value), least))
    return Dual(ew.where(lost, np.nan, y.value), ew.where(lost, np.nan, y.slope))


def _move_beyond_half(parameters: Triple, z: Any, y: Dual, slope: Dual) -> Dual:
    """Return the value at z from those at 1/2, for z beyond."""
    columns = _steps(parameters, z)
    while columns[0][0].value.type.shape[-1] != 1:
        early, late = ([[x.at(slice(i, None, 2)) for x in row] for row in columns] for i in (0, 1))
        columns = [
            [late[i][0] * early[0][j] + late[i][1] * early[1][j] for j in range(2)]
            for i in range(2)
        ]
    return columns[0][0].at(0) * y + columns[0][1].at(0) * slope


def _steps(parameters: Triple, z: Any) -> list[list[Dual]]:
    """Carry value and derivative from each point to the next, or to z (DLMF 15.10.1).

    Rows are the value and the derivative; columns what they are multiplied with, in this order.
    """
    a, b, c = (x.deeper() for x in parameters)
    at = constant(POINTS, bake=True)
    reach = constant((1 - POINTS) / 2, bake=True)
    move = ew.maximum(ew.minimum(_deeper(z) - at, reach), 0)
    base = constant(np.maximum(POINTS * (1 - POINTS), 2.0**-60), bake=True)
    lead = c - (a + b).plus(1).times(at)
    rate, bend = _deeper(move / base), _deeper(1 - 2 * at)
    lead, (a, b) = lead.deeper(), (a.deeper(), b.deeper())
    move = _deeper(move)
    zero = 0 * (a.slope + move)
    p = Dual(constant(np.array([1.0, 0.0])) + zero, zero * constant(np.zeros(2)))
    q = Dual(constant(np.array([0.0, 1.0])) * move + zero, p.slope)
    total, sloped = p + q, q
    start = ew.abs(total.value)
    for k in range(TERMS):
        by_p = (a.plus(k) * b.plus(k)).times(move * rate / ((k + 2) * (k + 1)))
        by_q = lead.plus(k * bend).times(rate / (k + 2))
        p, q = q, by_p * p - by_q * q
        total, sloped = total + q, sloped + q.times(k + 2.0)
    total = _mark_lost(total, q, start)
    still = ew.equal(move, 0)
    unit = [Dual(constant(np.array(x)) + zero, zero + constant(np.zeros(2))) for x in UNITS]
    sloped = unit[1].where(still, sloped.times(1 / ew.where(still, 1, move)))
    total = unit[0].where(still, total)
    return [[x.at(j) for j in range(2)] for x in (total, sloped)]


UNITS = ((1.0, 0.0), (0.0, 1.0))


def _without_derivative(x: Any) -> Dual:
    return Dual(x, 0 * x)


def _is_pole(x: Any) -> Any:
    return ew.less_equal(x, 0) & ew.equal(x, ew.floor(x))


@wide
def hyp2f1_in_parts(a: Tensor, b: Tensor, c: Tensor, z: Tensor) -> Any:
    """Return 2F1(a, b; c; z), infinite or NaN beyond z = 1 where it is not real."""
    polynomial = _is_pole(a) | _is_pole(b)
    # Euler's transformation (DLMF 15.8.1) where it makes a polynomial: of the series, the part that
    # decays slower would cancel. An integer power is real also beyond z = 1.
    power = c - a - b
    real = ew.less(z, 1) | (ew.greater(z, 1) & ew.equal(power, ew.floor(power)))
    turned = ~polynomial & real & (_is_pole(c - a) | _is_pole(c - b))
    sound = (ew.less(z, 1) | polynomial | turned) & ew.less(ew.abs(a + b + c + z), np.inf)
    turned = turned & sound
    factor = ew.where(turned, (1 - ew.where(turned, z, 0)) ** ew.where(turned, power, 0), 1)
    numbers = [ew.where(turned, c - a, a), ew.where(turned, c - b, b), c]
    parameters = [_without_derivative(ew.where(sound, x, 1)) for x in numbers]
    y = factor * _hyp2f1((parameters[0], parameters[1], parameters[2]), ew.where(sound, z, 0)).value
    # Gauss's sum (DLMF 15.4.20).
    summed = exp(gammaln(c) + gammaln(power) - gammaln(c - a) - gammaln(c - b))
    sign = gamma_sign(c) * gamma_sign(power) * gamma_sign(c - a) * gamma_sign(c - b)
    at_one = ew.where(ew.greater(power, 0), sign * summed, np.inf)
    other = ew.where(ew.equal(z, 1), at_one, ew.where(ew.greater(z, 1), np.inf, np.nan))
    return ew.where(sound, y, ew.where(ew.isnan(a + b + c + z), np.nan, other))


def slope_in_parts(which: int) -> Any:
    """Return the derivative with respect to the parameter of that number."""

    @wide
    def expand(*xs: Tensor) -> Any:
        z = xs[3]
        finite = xs[0] + xs[1] + xs[2] + z
        sound = ew.less(z, 1) & ew.less(ew.abs(finite), np.inf)
        numbers = [ew.where(sound, x, 1) for x in xs[:3]]
        a, b, c = (Dual(x, 0 * x + float(i == which)) for i, x in enumerate(numbers))
        return ew.where(sound, _hyp2f1((a, b, c), ew.where(sound, z, 0)).slope, np.nan)

    return expand
