"""Bessel functions of real order, as in ``scipy.special``.

Backends that lack them take integrals whose integrands do not oscillate, so that nothing cancels:
along the line for I and K, along a path of steep descent for J.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphc.tensor.arrays.create import ones_like
from graphc.tensor.core import elementwise, elementwise as ew
from graphc.tensor.core.arithmetic import hypot
from graphc.tensor.core.exponential import exp, expm1, log, log1p
from graphc.tensor.core.tensor import TABLE, Tensor, TensorLike, constant, function
from graphc.tensor.core.trigonometric import arcsin, arctan, cos, cosh, sin, sinh, tanh
from graphc.tensor.special.gamma import gamma_sign, gammaln
from graphc.tensor.special.series import (
    around_peak,
    excess_of_exp,
    integral,
    polynomial,
    shortfall_of_log1p,
    wide,
)
from graphc.tensor.special.stirling import stirling

__all__ = ["i0", "i0e", "i1", "i1e", "iv", "ive", "j0", "j1", "jv", "kn", "kv", "kve"]

RECIPROCAL_EVEN = (
    1.0, -0.6558780715202539, 0.16653861138229148, -0.009621971527876973, -0.0011651675918590652,
    0.0001280502823881162, -1.2504934821426706e-06, -2.056338416977607e-07, 5.002007644469223e-09,
    1.0434267116911005e-10, -3.696805618642206e-12,
)  # fmt: skip
RECIPROCAL_ODD = (
    -0.5772156649015329, 0.04200263503409524, 0.04219773455554433, -0.0072189432466631,
    0.00021524167411495098, 2.013485478078824e-05, -1.133027231981696e-06, -6.116095104481416e-09,
    1.18127457048702e-09, -7.782263439905071e-12, -5.100370287454476e-13,
)  # fmt: skip
"""Coefficients of 1 / gamma(1 + m) = even(m * m) - m * odd(m * m) (DLMF 5.7.1)."""


# The modified functions, scaled: exp(-x) * I and exp(x) * K.


def _integral_k(v: Tensor, x: Tensor, shift: float) -> Tensor:
    """Return ``exp(shift * x) * kv(v, x)`` for v >= 0 and x > 0.

    The integral of exp(-x * cosh(t) + v * t) / 2, with t measured from its peak (DLMF 10.32.9).
    """

    def integrands(u: Tensor, up: Tensor, down: Tensor, width: Tensor) -> list[Tensor]:
        s = width * sinh(u)
        return [exp(-(up * excess_of_exp(s) + down * excess_of_exp(-s)) / 2) * cosh(u)]

    size = hypot(v, x)
    width = 1 / (ew.sqrt(size) + 1)
    below = x * (x / (size + v))
    (area,) = around_peak(
        integrands, ones_like(width), size + v, below, width, points=(-5.5, 5.5, 0.06)
    )
    # The exponent at the peak, plus x.
    peak = v * log((v + size) / x) - v * (v / (size + x))
    return exp(peak - (1 - shift) * x) * width * area / 2


def _small_k(v: Tensor, x: Tensor) -> Any:
    """Return ``kv(v, x)`` for 0 <= v < 3/2 and 0 < x <= 2 (Temme, J. Comput. Phys. 19, 1975)."""
    nearest = ew.where(ew.greater_equal(v, 0.5), 1, 0)
    m = v - nearest
    half = x / 2
    d = np.log(2).item() - log(x)
    e = m * d
    odd, even = polynomial(m * m, RECIPROCAL_ODD), polynomial(m * m, RECIPROCAL_EVEN)
    above, below = even - m * odd, even + m * odd
    turn = np.pi * m
    spread = ew.where(ew.equal(m, 0), 1, turn / ew.where(ew.equal(m, 0), 1, sin(turn)))
    small = ew.less(abs(e), 1e-3)
    slope = ew.where(small, 1 + e * e / 6, sinh(e) / ew.where(small, 1, e))
    f = spread * (odd * cosh(e) + even * slope * d)
    p, q = exp(e) / (2 * above), exp(-e) / (2 * below)
    c: Any = 1.0
    first, second = f, p
    for k in range(1, 18):
        f = (k * f + p + q) / (k * k - m * m)
        c = c * (half * half / k)
        p, q = p / (k - m), q / (k + m)
        first, second = first + c * f, second + c * (p - k * f)
    return ew.where(ew.equal(nearest, 1), second / half, first)


def _positive_k(v: Tensor, x: Tensor, shift: float) -> Any:
    """Return ``exp(shift * x) * kv(v, x)`` for v >= 0 and x > 0."""
    small = ew.logical_and(ew.less(v, 1.5), ew.less_equal(x, 1))
    series = _small_k(ew.where(small, v, 0), ew.where(small, x, 1)) * exp(
        shift * ew.where(small, x, 0)
    )
    return ew.where(small, series, _integral_k(ew.where(small, 2, v), ew.where(small, 1, x), shift))


FAR = 1e300
"""Beyond this squares and products overflow, and an order is negligible beside x."""


def _below_far(compute: Any, v: Any, x: Any) -> Any:
    """Extend a function that decays like ``x**-0.5`` from smaller x."""
    far = ew.greater(x, FAR)
    return ew.where(far, 2.0**-16, 1) * compute(ew.minimum(v, FAR), ew.where(far, x * 2.0**-32, x))


def _k_edge(xp: Any, v: Any, x: Any) -> Any:
    """Return the limit of K where an argument is 0 or infinite, NaN where there is none.

    ``xp`` is a namespace of elementwise functions: NumPy, or ``graphc.tensor.core.elementwise``.
    """
    far = xp.equal(abs(v), np.inf)
    edge = xp.where(xp.equal(x, np.inf), xp.where(far, np.nan, 0.0), np.inf)
    return xp.where(xp.isnan(v) | xp.isnan(x) | xp.less(x, 0), np.nan, edge)


def _kve_edges(v: Tensor, x: Tensor, inner: Any) -> Any:
    sound = ew.greater(x, 0) & ew.less(x, np.inf) & ew.less(abs(v), np.inf)
    y = _below_far(inner, ew.where(sound, abs(v), 1), ew.where(sound, x, 1))
    return ew.where(sound, y, _k_edge(elementwise, v, x))


@wide
def _kv(v: Tensor, x: Tensor) -> Any:
    return _kve_edges(v, x, lambda v, x: _positive_k(v, x, 0.0))


@wide
def _kve(v: Tensor, x: Tensor) -> Any:
    return _kve_edges(v, x, lambda v, x: _positive_k(v, x, 1.0))


def _scaled_i(v: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``iv(v, x)`` for v >= 0 and x > 0 as two factors: the logarithm of one, and the other.

    Poisson's integral (DLMF 10.32.2) with t = tanh(u), and u measured from its peak.
    """

    def integrands(u: Tensor, n: Tensor, t: Tensor, width: Tensor) -> list[Tensor]:
        s = width * sinh(u)
        y = t * tanh(s)
        z = y / (1 + y)
        fall = log1p(2 * sinh(s / 2) ** 2) + shortfall_of_log1p(-z)
        return [exp(-n * fall) * cosh(u)]

    n = 2 * v + 1
    root = hypot(n, 2 * x)
    t = ew.minimum(2 * x / (n + root), 1 - 2.0**-53)
    width = 1 / ew.sqrt(n * (1 + t * t))
    (area,) = around_peak(integrands, ones_like(width), n, t, width, points=(-5.0, 5.0, 0.075))
    half = n / 2
    short = (n + n * (n / (root + 2 * x))) / (n + root)
    rise = v * ew.where(ew.greater(t, 0.5), log1p(-ew.where(ew.greater(t, 0.5), short, 0)), log(t))
    return rise + half - x * short, width * area * ew.sqrt(2 * n / (n + root)) * _stirling_ratio(
        half
    )


def _stirling_ratio(x: Tensor) -> Any:
    """Return Stirling's formula over gamma, divided by pi * sqrt(2)."""
    near = ew.less(x, 10)
    small, large = ew.where(near, x, 10), ew.where(near, 10, x)
    direct = gammaln(small) - (small - 0.5) * log(small) + small - np.log(2 * np.pi).item() / 2
    return exp(-ew.where(near, direct, stirling(large))) / (np.pi * np.sqrt(2).item())


def _half_turns(v: Tensor) -> Any:
    """Return ``sin(pi * v)``, exactly 0 for integers."""
    rest = v - 2 * ew.floor(v / 2 + 0.5)
    return ew.where(ew.equal(v, ew.floor(v)), 0, sin(np.pi * rest))


def _ive_of(v: Tensor, x: Tensor, shift: float) -> Any:
    """Return ``iv(v, x) * exp(-x)``, or iv itself where shift is 1, for x > 0."""
    order = abs(v)
    power, factor = _scaled_i(order, x)
    y = exp(power + shift * x) * factor
    turned = ew.less(v, 0) & ew.not_equal(v, ew.floor(v))
    other = _positive_k(ew.where(turned, order, 1), ew.where(turned, x, 1), shift - 1)
    return y + ew.where(turned, (2 / np.pi) * _half_turns(order) * other, 0)


def _even(v: Tensor) -> Tensor:
    return ew.equal(v, 2 * ew.floor(v / 2))


def _i_edge(xp: Any, v: Any, x: Any, at_infinity: float) -> Any:
    """Return the limit of I or J where an argument is 0 or infinite, NaN where there is none.

    ``xp`` is as for ``_k_edge``, and ``at_infinity`` the limit as x goes to infinity.
    """
    whole = xp.floor(v)
    odd = whole - 2 * xp.floor(whole / 2)
    # The sign is that of gamma(v + 1).
    pole = xp.where(xp.equal(v, whole), 0.0, (2 * odd - 1) * np.inf)
    at_zero = xp.where(xp.equal(v, 0), 1.0, xp.where(xp.greater(v, 0), 0.0, pole))
    edge = xp.where(xp.equal(x, np.inf), at_infinity, np.nan)
    edge = xp.where(xp.equal(x, 0), at_zero, edge)
    fades = xp.greater_equal(x, 0) & xp.less(x, np.inf)
    edge = xp.where(xp.equal(v, np.inf), xp.where(fades, 0.0, np.nan), edge)
    return xp.where(xp.isnan(v) | xp.isnan(x) | xp.equal(v, -np.inf), np.nan, edge)


def _with_edges(name: str, edge: Callable[..., Any]) -> Callable[..., Any]:
    """Return SciPy's function, with the values of ``edge`` where an argument is 0 or infinite."""
    inside = ew.from_scipy(name)

    def reference(v: np.ndarray[Any, Any], x: np.ndarray[Any, Any]) -> Any:
        y = inside(v, x)
        v, x = np.asarray(v, np.float64), np.asarray(x, np.float64)
        at_edge = ~np.isfinite(v) | ~np.isfinite(x) | (x == 0)
        if not at_edge.any():
            return y
        with np.errstate(invalid="ignore"):
            return np.where(at_edge, edge(np, v, x), y).astype(y.dtype)

    return reference


def _with_sign(v: Tensor, x: Tensor, compute: Any, at_infinity: float) -> Any:
    """Continue a function of x > 0 to all x, for integer v, with the values at the edges."""
    whole = ew.equal(v, ew.floor(v))
    sound = ew.not_equal(x, 0) & ew.less(abs(x), np.inf) & ew.less(abs(v), np.inf)
    sound = sound & ew.logical_or(ew.greater(x, 0), whole)
    y = compute(ew.where(sound, v, 1), ew.where(sound, abs(x), 1))
    edge = _i_edge(elementwise, v, x, at_infinity)
    return ew.where(sound, ew.where(ew.less(x, 0) & ew.logical_not(_even(v)), -y, y), edge)


@wide
def _iv(v: Tensor, x: Tensor) -> Any:
    compute = partial(_below_far, lambda v, x: _ive_of(v, x, 1.0))
    return _with_sign(v, x, compute, np.inf)


@wide
def _ive(v: Tensor, x: Tensor) -> Any:
    compute = partial(_below_far, lambda v, x: _ive_of(v, x, 0.0))
    return _with_sign(v, x, compute, 0.0)


# J, the function of the first kind.


def _power_series(v: Tensor, x: Tensor) -> Any:
    """Return ``jv(v, x)`` for 0 < x < 2 (DLMF 10.2.2)."""
    pole = ew.less(v, 0) & ew.equal(v, ew.floor(v))
    order = ew.where(pole, -v, v)
    quarter = -(x * x) / 4
    term: Any = 1.0
    total = term
    for k in range(1, 22):
        term = term * quarter / (k * (order + k))
        total = total + term
    size = exp(order * (log(x) - np.log(2).item()) - gammaln(order + 1)) * gamma_sign(order + 1)
    return ew.where(pole & ew.logical_not(_even(order)), -1, 1) * size * total


def _watson(v: Tensor, x: Tensor) -> Tensor:
    """Return ``jv(v, x)`` for v >= x >= 2, along the path of steepest descent (Watson, 8.31)."""

    def integrands(y: Tensor, v: Tensor, x: Tensor, level: Tensor) -> list[Tensor]:
        t = np.pi * y / (np.pi + y)
        c = (v / x) * t / sin(t)
        rise = ew.sqrt(ew.maximum((c - 1) * (c + 1), 0))
        fall = x * rise * cos(t) - v * log(c + rise) - level
        return [exp(fall) * (np.pi / (np.pi + y)) ** 2]

    rise = ew.sqrt((v - x) * (v + x))
    level = rise - v * log((v + rise) / x)
    (area,) = integral(integrands, 1 / ew.sqrt(rise + x ** (2 / 3)), v, x, level)
    return exp(level) * area / np.pi


def _bend(v: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return sine and cosine of b, where the next path leaves the axis; whether b is minimal."""
    ratio = ew.minimum(v / x, 1)
    steep = ew.sqrt((1 - ratio) * (1 + ratio))
    least = ew.minimum(1.4 * x ** (-1 / 3), 1)
    slow = ew.less(steep, least)
    flat = ew.sqrt((1 - least) * (1 + least))
    return ew.where(slow, least, steep), ew.where(slow, flat, ratio), slow


def _hankel(v: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute J and Y for 0 <= v <= x and x >= 2: Schlaefli's integral (DLMF 10.9.18).

    Past the saddle, w = s + i * t goes from minus infinity to infinity + i * pi through i * b, with
    tan(t / 2) = tan(b / 2) * exp(s / sin(b)).
    """

    def integrands(s: Tensor, v: Tensor, x: Tensor, sine: Tensor, cosine: Tensor) -> list[Tensor]:
        # d = t - b is small, and cos(b + d) next to 0 has no digits of its own.
        base = sine / (1 + cosine)
        moved = expm1(s / sine)
        half = base * (1 + moved)
        d = 2 * arctan(base * moved / (1 + base * half))
        rate = 2 * half / (1 + half * half) / sine
        size = exp(x * sinh(s) * (cosine * cos(d) - sine * sin(d)) - v * s)
        rising = 2 * sinh(s / 2) ** 2 * (sine * cos(d) + cosine * sin(d))
        middle = cosine * cos(d / 2) - sine * sin(d / 2)
        angle = x * (rising + 2 * middle * sin(d / 2)) - v * d
        c, z = cos(angle), sin(angle)
        return [size * (c - rate * z), size * (z + rate * c)]

    sine, cosine, slow = _bend(v, x)
    # Beyond this x, only its phase and the falling amplitude matter.
    mild = ew.minimum(x, 1e100)
    width = 1 / ew.sqrt(mild * sine)
    parameters = (ew.minimum(v, mild), mild, sine, cosine)
    points = (-7.5, 7.5, 0.09)
    re, im = (
        y * ew.sqrt(mild / x) for y in around_peak(integrands, width, *parameters, points=points)
    )
    # The phase x * sin(b) - v * b, which is x - pi * v / 2 and a small part where x is large.
    quarter = (v - 4 * ew.floor(v / 4)) * (np.pi / 2)
    rest = v * arcsin(ew.minimum(v / x, 1)) - v * (v / (x + ew.sqrt(x - v) * ew.sqrt(x + v)))
    inner = ew.where(slow, x * sine - v * arcsin(sine), rest - quarter)
    outer = ew.where(slow, 0, x)
    c = cos(outer) * cos(inner) - sin(outer) * sin(inner)
    z = sin(outer) * cos(inner) + cos(outer) * sin(inner)
    return (c * im + z * re) / np.pi, (z * im - c * re) / np.pi


def _second_kind(v: Tensor, x: Tensor) -> Tensor:
    """Return ``-yv(v, x)`` for v >= x >= 2: the integral along the axis past its peak, then up."""

    def integrands(s: Tensor, v: Tensor, x: Tensor, low: Tensor, steep: Tensor) -> list[Tensor]:
        # s is measured from the peak at -low, and the path bends at low.
        half = exp((s - 2 * low) / steep)
        t = 2 * arctan(half)
        rate = 2 * half / (1 + half * half) / steep
        position = s - low
        level = v * low - x * sinh(low)
        size = exp(x * sinh(position) * cos(t) - v * position - level)
        angle = x * cosh(position) * sin(t) - v * t
        return [size * (cos(angle) - rate * sin(angle))]

    rise = ew.sqrt((v - x) * (v + x))
    low = log((v + rise) / x)
    width = 1 / ew.sqrt(rise + x ** (2 / 3))
    steep = ew.maximum(ew.minimum(rise / x, 1), ew.minimum(1.4 * x ** (-1 / 3), 1))
    (area,) = around_peak(integrands, width, v, x, low, steep, points=(-9.0, 24.0, 0.09))
    return exp(v * low - rise) * area / np.pi


def _jv_positive(v: Tensor, x: Tensor) -> Any:
    """Return ``jv(v, x)`` for x > 0; negative orders by J and Y of order -v (DLMF 10.4.5)."""
    near = ew.less(x, 2)
    series = _power_series(ew.where(near, v, 0), ew.where(near, x, 1))
    z, order = ew.where(near, 2, x), abs(v)
    high = ew.greater_equal(order, z)
    j, y = _hankel(ew.where(high, 1, order), z)
    over = ew.where(high, order, z)
    j = ew.where(high, _watson(over, z), j)
    whole = ew.equal(v, ew.floor(v))
    turned = ew.less(v, 0) & ew.logical_not(whole)
    y = ew.where(high, -_second_kind(over, z), y)
    c, s = _half_turns(order + 0.5), _half_turns(order)
    other = c * j - s * ew.where(turned, y, 0)
    flipped = ew.less(v, 0) & whole & ew.logical_not(_even(order))
    return ew.where(near, series, ew.where(turned, other, ew.where(flipped, -j, j)))


@wide
def _jv(v: Tensor, x: Tensor) -> Any:
    return _with_sign(v, x, _jv_positive, np.nan)


def _of_order(order: float) -> Any:
    @wide
    def expand(x: Tensor) -> Any:
        v = order * ones_like(x)
        z = abs(x)
        sound = ew.greater(z, 0) & ew.less(z, np.inf)
        near = ew.less(z, 2)
        inner = ew.where(
            near,
            _power_series(v, ew.where(sound & near, z, 1)),
            _hankel(v, ew.where(sound & ew.logical_not(near), z, 2))[0],
        )
        y = ew.where(sound, inner, ew.where(ew.equal(z, 0), 1 - order, np.nan))
        return ew.where(ew.less(x, 0), -y, y) if order else y

    return expand


# Rows. Gradients take both neighbours of an order in one array, as each takes long to compile.


def _neighbours(row: ew.Elementwise, v: Tensor, x: Tensor, *steps: int) -> list[Any]:
    orders = TABLE["expand_dims"](v, v.ndim) + constant(np.array(steps, v.type.numpy_dtype))
    y = row(orders, TABLE["expand_dims"](x, x.ndim))
    return [y[..., i] for i in range(len(steps))]


def _half_sum(row: ew.Elementwise, v: Tensor, x: Tensor) -> Any:
    below, above = _neighbours(row, v, x, -1, 1)
    return (below + above) / 2


def _half_difference(row: ew.Elementwise, v: Tensor, x: Tensor) -> Any:
    below, above = _neighbours(row, v, x, -1, 1)
    return (below - above) / 2


def _scaled_slope(row: ew.Elementwise, v: Tensor, x: Tensor, side: Any) -> Any:
    below, y, above = _neighbours(row, v, x, -1, 0, 1)
    return (below + above) / 2 - side * y


def _along_x(name: str, slope: Callable[[Tensor, Tensor], Any]) -> Any:
    def pullback(g: Any, y: Any, v: Any, x: Any) -> tuple[Any, Any]:
        return ew.missing_gradient(name, "its order", v), g * slope(v, x)

    return pullback


j0 = ew.unary(
    "j0",
    "The Bessel function of the first kind of order 0",
    ew.real_inexact,
    lambda g, y, x: -g * j1(x),
    expand=_of_order(0.0),
    facts=ew.Facts(range=(-0.4028, 1.0), parity=1),
    definition="``1 / pi * ∫ cos(x * sin(t)) dt``, t from 0 to pi.",
    source="DLMF 10.9.1",
)
j1: ew.Unary = ew.unary(
    "j1",
    "The Bessel function of the first kind of order 1",
    ew.real_inexact,
    lambda g, y, x: g * (j0(x) - jv(2, x)) / 2,
    expand=_of_order(1.0),
    facts=ew.Facts(range=(-0.5819, 0.5819), fixed=(0,), parity=-1),
    definition="``1 / pi * ∫ cos(x * sin(t) - t) dt``, t from 0 to pi.",
    source="DLMF 10.9.2",
)
jv: ew.Binary = ew.binary(
    "jv",
    "The Bessel function of the first kind, of order v; error 1e-13 relative to its amplitude",
    ew.real_inexact,
    _along_x("jv", lambda v, x: _half_difference(jv, v, x)),
    _with_edges("jv", partial(_i_edge, at_infinity=np.nan)),
    expand=_jv,
    definition="The sum of ``(-1)**k * (x / 2)**(2 * k + v) / (k! * gamma(v + k + 1))`` over "
    "k = 0, 1, ...; NaN for x < 0 and a v that is not whole.",
    source="DLMF 10.2.2",
)
i0 = ew.unary(
    "i0",
    "The modified Bessel function of the first kind of order 0",
    ew.real_inexact,
    lambda g, y, x: g * i1(x),
    ew.from_scipy("i0"),  # NumPy's has other digits
    expand=wide(lambda x: ew.where(ew.less(abs(x), np.inf), iv(0, x), np.nan)),
    facts=ew.Facts(range=(1.0, math.inf), positive=True, parity=1),
    definition="``1 / pi * ∫ exp(x * cos(t)) dt``, t from 0 to pi.",
    source="DLMF 10.32.1",
)
i1: ew.Unary = ew.unary(
    "i1",
    "The modified Bessel function of the first kind of order 1",
    ew.real_inexact,
    lambda g, y, x: g * (i0(x) + iv(2, x)) / 2,
    expand=wide(lambda x: ew.where(ew.less(abs(x), np.inf), iv(1, x), np.nan)),
    facts=ew.Facts(trend=ew.RISING, fixed=(0,), parity=-1),
    definition="``1 / pi * ∫ exp(x * cos(t)) * cos(t) dt``, t from 0 to pi.",
    source="DLMF 10.32.3",
)
i0e = ew.unary(
    "i0e",
    "exp(-|x|) * i0(x)",
    ew.real_inexact,
    lambda g, y, x: g * (i1e(x) - ew.sign(x) * y),
    expand=wide(lambda x: ew.where(ew.equal(abs(x), np.inf), 0, ive(0, x))),
    facts=ew.Facts(range=(0.0, 1.0), positive=True, parity=1),
)
i1e: ew.Unary = ew.unary(
    "i1e",
    "exp(-|x|) * i1(x)",
    ew.real_inexact,
    lambda g, y, x: g * ((i0e(x) + ive(2, x)) / 2 - ew.sign(x) * y),
    expand=wide(lambda x: ew.where(ew.equal(abs(x), np.inf), 0, ive(1, x))),
    facts=ew.Facts(range=(-0.2191, 0.2191), fixed=(0,), parity=-1),
)
iv: ew.Binary = ew.binary(
    "iv",
    "The modified Bessel function of the first kind, of order v",
    ew.real_inexact,
    _along_x("iv", lambda v, x: _half_sum(iv, v, x)),
    _with_edges("iv", partial(_i_edge, at_infinity=np.inf)),
    expand=_iv,
    definition="The sum of ``(x / 2)**(2 * k + v) / (k! * gamma(v + k + 1))`` over k = 0, 1, "
    "...; NaN for x < 0 and a v that is not whole.",
    source="DLMF 10.25.2",
)
ive: ew.Binary = ew.binary(
    "ive",
    "exp(-|x|) * iv(v, x)",
    ew.real_inexact,
    _along_x("ive", lambda v, x: _scaled_slope(ive, v, x, ew.sign(x))),
    _with_edges("ive", partial(_i_edge, at_infinity=0.0)),
    expand=_ive,
)
kv: ew.Binary = ew.binary(
    "kv",
    "The modified Bessel function of the second kind, of order v",
    ew.real_inexact,
    _along_x("kv", lambda v, x: -_half_sum(kv, v, x)),
    _with_edges("kv", _k_edge),
    expand=_kv,
    facts=ew.Facts(range=ew.NONNEGATIVE, support=(ew.REALS, ew.NONNEGATIVE)),
    definition="``∫ exp(-x * cosh(t)) * cosh(v * t) dt``, t from 0 to inf.",
    source="DLMF 10.32.9",
)
kve: ew.Binary = ew.binary(
    "kve",
    "exp(x) * kv(v, x)",
    ew.real_inexact,
    _along_x("kve", lambda v, x: -_scaled_slope(kve, v, x, 1)),
    _with_edges("kve", _k_edge),
    expand=_kve,
    facts=ew.Facts(range=ew.NONNEGATIVE, support=(ew.REALS, ew.NONNEGATIVE)),
)


@function
def kn(n: TensorLike, x: TensorLike) -> Tensor:
    """Return the modified Bessel function of the second kind of integer order, ``kv(n, x)``.

    Args:
        n: Whole numbers of any shape.
        x: Real numbers; the two broadcast.

    Returns:
        An array of the common shape, of a floating dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.kn(1, [0.5, 2.0]).round(4).eval(mode="NUMPY").tolist()
        [1.6564, 0.1399]
    """
    return kv(n, x)
