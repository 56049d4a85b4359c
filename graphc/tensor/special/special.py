"""Functions of statistics and physics, as in ``scipy.special``."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from graphc.tensor.arrays.reduce import (
    AxisComposite,
    MaxWithDefault,
    apply_composite,
    restore_axes,
    sum,
)
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import exp, expm1, log, log1p
from graphc.tensor.core.tensor import TABLE, Axis, Tensor, TensorLike, constant, function
from graphc.tensor.core.trigonometric import arctanh, cos, sin
from graphc.tensor.special.normal import (
    erf_in_parts,
    erfc_in_parts,
    erfinv_in_parts,
    ndtri_in_parts,
    scaled_erfc,
)
from graphc.tensor.special.series import from_definition, integral, polynomial, single, wide

__all__ = [
    "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "expi", "kl_div", "log_ndtr",
    "log_softmax", "logit", "ndtr", "ndtri", "ndtri_exp", "owens_t", "rel_entr", "sinc",
    "softmax", "xlog1py", "xlogy",
]  # fmt: skip

ROOT_PI = np.sqrt(np.pi).item()
ROOT_HALF = np.sqrt(0.5).item()


# The error function and its relatives.

erf = ew.unary(
    "erf",
    "The error function",
    ew.real_inexact,
    lambda g, y, x: g * (2 / ROOT_PI) * exp(-x * x),
    expand=erf_in_parts,
    facts=ew.Facts(range=(-1.0, 1.0), trend=ew.RISING, fixed=(0,), parity=-1),
    definition="``2 / sqrt(pi) * ∫ exp(-t**2) dt``, t from 0 to x.",
    source="DLMF 7.2.1",
)
erfc = ew.unary(
    "erfc",
    "1 - erf(x), exact for a large x",
    ew.real_inexact,
    lambda g, y, x: -g * (2 / ROOT_PI) * exp(-x * x),
    expand=erfc_in_parts,
    facts=ew.Facts(range=(0.0, 2.0), positive=True, trend=ew.FALLING),
    definition="``2 / sqrt(pi) * ∫ exp(-t**2) dt``, t from x to inf.",
    source="DLMF 7.2.2",
)

erfinv = ew.unary(
    "erfinv",
    "The inverse of erf: the x with erf(x) = y",
    ew.real_inexact,
    lambda g, x, y: g * (ROOT_PI / 2) * exp(x * x),
    expand=erfinv_in_parts,
    facts=ew.Facts(
        poles=(-1.0, 1.0), trend=ew.RISING, support=((-1.0, 1.0),), fixed=(0,), parity=-1
    ),
    source="DLMF 7.17.1",
)


@wide
def _erfcinv(y: Tensor) -> Any:
    near = ew.logical_and(ew.greater(y, 0.5), ew.less_equal(y, 2))
    # Half of the smallest numbers would be 0 where the processor leaves out subnormal ones.
    tail = ew.where(ew.less(y, 1e-9), ndtri_exp(log(y) - np.log(2).item()), ndtri(y / 2))
    return ew.where(near, erfinv(1 - ew.where(near, y, 1)), -ROOT_HALF * tail)


erfcinv = ew.unary(
    "erfcinv",
    "The inverse of erfc: the x with erfc(x) = y",
    ew.real_inexact,
    lambda g, x, y: -g * (ROOT_PI / 2) * exp(x * x),
    expand=_erfcinv,
    facts=ew.Facts(poles=(0.0, 2.0), trend=ew.FALLING, support=((0.0, 2.0),)),
    source="DLMF 7.17.1",
)


@wide
def _erfcx(x: Tensor) -> Any:
    y = scaled_erfc(ew.abs(x))
    return ew.where(ew.less(x, 0), 2 * exp(x * x) - y, y)


erfcx: ew.Unary = ew.unary(
    "erfcx",
    "exp(x * x) * erfc(x), finite where erfc underflows",
    ew.real_inexact,
    lambda g, y, x: g * _erfcx_slope(y, x),
    expand=_erfcx,
    facts=ew.Facts(range=ew.NONNEGATIVE, positive=True, trend=ew.FALLING),
    source="DLMF 7.2.3, at an imaginary argument",
)


def _erfcx_slope(y: Any, x: Any) -> Any:
    # The two terms nearly cancel from x = 50 on: there the tail of their series is used.
    far = ew.greater(x, 50)
    z = ew.where(far, x, 50)
    series = -1 / (ROOT_PI * z * z) * polynomial(1 / (z * z), (1, -3 / 2, 15 / 4, -105 / 8))
    return ew.where(far, series, 2 * ew.where(far, 0, x) * y - 2 / ROOT_PI)


# The normal distribution.


def _density(x: Any) -> Any:
    return exp(-x * x / 2) * (ROOT_HALF / ROOT_PI)


ndtr = ew.unary(
    "ndtr",
    "The standard normal distribution function: the probability of a value below x",
    ew.real_inexact,
    lambda g, y, x: g * _density(x),
    expand=wide(lambda x: erfc(-ROOT_HALF * x) / 2),
    facts=ew.Facts(range=(0.0, 1.0), positive=True, trend=ew.RISING),
    definition="``1 / sqrt(2 * pi) * ∫ exp(-t**2 / 2) dt``, t from -inf to x.",
    source="Abramowitz & Stegun 26.2.2",
)
ndtri = ew.unary(
    "ndtri",
    "The inverse of ndtr: the x with ndtr(x) = y",
    ew.real_inexact,
    lambda g, x, y: g / _density(x),
    expand=ndtri_in_parts,
    facts=ew.Facts(poles=(0.0, 1.0), trend=ew.RISING, support=((0.0, 1.0),)),
)


@wide
def _log_ndtr(x: Tensor) -> Any:
    low = ew.less(x, -1)
    tail = ew.where(low, x, -1)
    log_tail = log(erfcx(-ROOT_HALF * tail) / 2) - tail * tail / 2
    return ew.where(low, log_tail, log1p(-erfc(ROOT_HALF * ew.where(low, 0, x)) / 2))


def _hazard(x: Any) -> Any:
    # density(x) / ndtr(x), without their underflow.
    return (2 * ROOT_HALF / ROOT_PI) / erfcx(-ROOT_HALF * x)


log_ndtr = ew.unary(
    "log_ndtr",
    "The logarithm of ndtr, finite where ndtr underflows",
    ew.real_inexact,
    lambda g, y, x: g * _hazard(x),
    expand=_log_ndtr,
    facts=ew.Facts(range=(-math.inf, 0.0), trend=ew.RISING),
)


@wide
def _ndtri_exp(y: Tensor) -> Any:
    """Use ndtri near 0, and below -5 Newton's method for the logarithm of the tail."""
    low = ew.less(y, -5)
    wanted = ew.where(low, y, -5)
    x = -ew.sqrt(-wanted - (log(-wanted) + np.log(4 * np.pi).item()) / 2) / ROOT_HALF
    for _ in range(5):
        scaled = erfcx(-ROOT_HALF * x)
        x = x - (log(scaled / 2) - x * (x / 2) - wanted) * scaled * (ROOT_PI * ROOT_HALF)
    x = ew.where(ew.equal(y, -np.inf), y, x)
    near = ew.where(ew.greater(y, -0.5), -ndtri(-expm1(ew.where(low, -1, y))), ndtri(exp(y)))
    return ew.where(low, x, near)


ndtri_exp = ew.unary(
    "ndtri_exp",
    "The inverse of log_ndtr: the x with log_ndtr(x) = y",
    ew.real_inexact,
    lambda g, x, y: g / _hazard(x),
    expand=_ndtri_exp,
    facts=ew.Facts(poles=(0.0,), trend=ew.RISING, support=((-math.inf, 0.0),)),
)


@cache
def _gauss_legendre_rule() -> tuple[Any, Any]:
    return np.polynomial.legendre.leggauss(48)


@wide
def _owens_t(h: Tensor, a: Tensor) -> Any:
    """Integrate for |a| <= 1, and use the integral of 1 / a elsewhere (Owen, 1956)."""
    size, slope = ew.abs(h), ew.abs(a)
    steep = ew.greater(slope, 1)
    scaled = ew.where(steep, size * slope, size)
    scaled = ew.where(ew.isnan(scaled), 0, scaled)
    inner = _owen_integral(scaled, ew.where(steep, 1 / slope, slope))
    above, beyond = erfc(ROOT_HALF * size) / 2, erfc(ROOT_HALF * scaled) / 2
    turned = (above * (1 - beyond) + beyond * (1 - above)) / 2 - inner
    y = ew.where(steep, turned, inner)
    y = ew.where(ew.less(a, 0), -y, y)
    return ew.where(ew.logical_or(ew.isnan(h), ew.isnan(a)), np.nan, y)


def _owen_integral(h: Tensor, a: Tensor) -> Any:
    # From h * x = 9 on, exp(-(h * x)**2 / 2) is negligible.
    end = ew.minimum(a, 9 / h)
    nodes, weights = _gauss_legendre_rule()
    x = TABLE["expand_dims"](end / 2, end.ndim) * constant(nodes + 1, bake=True)
    height = TABLE["expand_dims"](h, h.ndim)
    fall = exp(-((height * x) ** 2) / 2) / (1 + x * x)
    area = end / 2 * sum(constant(weights, bake=True) * fall, -1)
    return ew.where(
        ew.greater(h, 40),
        0,
        exp(-(ew.where(ew.greater(h, 40), 0, h) ** 2) / 2) * area / (2 * np.pi),
    )


owens_t = ew.binary(
    "owens_t",
    "Owen's T: the probability of X > h and 0 < Y < a * X for two normal variables",
    ew.real_inexact,
    lambda g, y, h, a: (
        -g * _density(h) * erf(ROOT_HALF * a * h) / 2,
        g * exp(-h * h * (1 + a * a) / 2) / (2 * np.pi * (1 + a * a)),
    ),
    from_definition(_owens_t),
    expand=_owens_t,
    facts=ew.Facts(range=(-0.25, 0.25)),
    definition="``1 / (2 * pi) * ∫ exp(-h**2 * (1 + t**2) / 2) / (1 + t**2) dt``, t from 0 to a.",
    source="Owen, Annals of Mathematical Statistics 27(4), 1956",
)

# Logarithms of probabilities, and entropies.


@single
def _logit(p: Tensor) -> Any:
    middle = ew.less(ew.abs(p - 0.5), 0.25)
    inner = 2 * arctanh(2 * ew.where(middle, p, 0.5) - 1)
    return ew.where(middle, inner, log(p) - log1p(-p))


logit = ew.unary(
    "logit",
    "log(p / (1 - p)), the inverse of sigmoid",
    ew.real_inexact,
    lambda g, y, p: g / (p * (1 - p)),
    expand=_logit,
    facts=ew.Facts(poles=(0.0, 1.0), trend=ew.RISING, support=((0.0, 1.0),)),
)


@single
def _xlogy(x: Tensor, y: Tensor) -> Any:
    zero = ew.logical_and(ew.equal(x, 0), ew.logical_not(ew.isnan(y)))
    return ew.where(zero, 0, x * log(ew.where(zero, 1, y)))


@single
def _xlog1py(x: Tensor, y: Tensor) -> Any:
    zero = ew.logical_and(ew.equal(x, 0), ew.logical_not(ew.isnan(y)))
    return ew.where(zero, 0, x * log1p(ew.where(zero, 0, y)))


def _ratio(x: Any, y: Any) -> Any:
    # 0 / 0 is 0; for another y a quotient of 0 has a derivative with respect to x.
    zero = ew.logical_and(ew.equal(x, 0), ew.equal(y, 0))
    return ew.where(zero, 0, x / ew.where(zero, 1, y))


xlogy: ew.Binary = ew.binary(
    "xlogy",
    "x * log(y), 0 where x is 0",
    ew.real_inexact,
    lambda g, z, x, y: (g * log(y), g * _ratio(x, y)),
    expand=_xlogy,
)
xlog1py = ew.binary(
    "xlog1py",
    "x * log(1 + y), 0 where x is 0, exact for a small y",
    ew.real_inexact,
    lambda g, z, x, y: (g * log1p(y), g * _ratio(x, 1 + y)),
    expand=_xlog1py,
)
entr = ew.unary(
    "entr",
    "-x * log(x), the entropy of a probability x; 0 at 0, -inf below",
    ew.real_inexact,
    lambda g, y, x: -g * (1 + log(x)),
    expand=single(
        lambda x: ew.where(ew.less(x, 0), -np.inf, -xlogy(x, ew.where(ew.less(x, 0), 1, x)))
    ),
    facts=ew.Facts(range=(-math.inf, 1 / math.e), fixed=(0,)),
)


def _log_ratio(x: Tensor, y: Tensor) -> Any:
    """Return ``log(x / y)`` for positive numbers, whose quotient may overflow."""
    quotient = x / y
    near = ew.logical_and(ew.greater(quotient, 0.5), ew.less(quotient, 2))
    return ew.where(near, log1p(ew.where(near, (x - y) / y, 0)), log(x) - log(y))


def _with_borders(x: Tensor, y: Tensor, inner: Any, at_zero: Any) -> Any:
    """Return a function of positive x and y, with its values at and beyond the borders."""
    inside = ew.logical_and(ew.greater(x, 0), ew.greater(y, 0))
    at_border = ew.cast(at_zero, x.dtype)
    border = ew.where(ew.logical_and(ew.equal(x, 0), ew.greater_equal(y, 0)), at_border, np.inf)
    y_or_border = ew.where(inside, inner(ew.where(inside, x, 1), ew.where(inside, y, 1)), border)
    return ew.where(ew.logical_or(ew.isnan(x), ew.isnan(y)), np.nan, y_or_border)


@single
def _rel_entr(x: Tensor, y: Tensor) -> Any:
    return _with_borders(x, y, lambda a, b: a * _log_ratio(a, b), 0)


@wide
def _kl_div(x: Tensor, y: Tensor) -> Any:
    return _with_borders(x, y, lambda a, b: a * _log_ratio(a, b) - a + b, y)


rel_entr = ew.binary(
    "rel_entr",
    "x * log(x / y), a term of the relative entropy; 0 where x is 0, inf for negative numbers",
    ew.real_inexact,
    lambda g, z, x, y: (g * (1 + log(x) - log(y)), -g * _ratio(x, y)),
    expand=_rel_entr,
)
kl_div = ew.binary(
    "kl_div",
    "x * log(x / y) - x + y, a term of the Kullback-Leibler divergence; inf for negative numbers",
    ew.real_inexact,
    lambda g, z, x, y: (g * (log(x) - log(y)), g * (1 - _ratio(x, y))),
    expand=_kl_div,
    facts=ew.Facts(range=ew.NONNEGATIVE),
)


# Integrals of exponentials and sines.

ORDERS = np.arange(1.0, 141.0)
INVERSE_POWERS = np.cumprod([1.0, *range(1, 40)]).tolist()
LOG_FACTORIALS = np.cumsum(np.log(ORDERS)) + np.log(ORDERS)


@wide
def _expi(x: Tensor) -> Any:
    """Use the power series (DLMF 6.6.1) from -1 to 40; an integral below; inverse powers above."""
    series = ew.logical_and(ew.greater_equal(x, -1), ew.less_equal(x, 40))
    z = ew.where(series, ew.where(ew.equal(x, 0), 1, x), 1)
    size = TABLE["expand_dims"](log(ew.abs(z)), z.ndim)
    terms = exp(size * constant(ORDERS, bake=True) - constant(LOG_FACTORIALS, bake=True))
    signs = ew.where(
        TABLE["expand_dims"](ew.less(z, 0), z.ndim), constant((-1) ** ORDERS, bake=True), 1
    )
    inner = float(np.euler_gamma) + log(ew.abs(z)) + sum(terms * signs, -1)
    w = ew.where(ew.less(x, -1), -x, 1)
    (tail,) = integral(lambda s, w: [exp(-s) / (w + s)], TABLE["ones_like"](w), w)
    v = ew.where(ew.greater(x, 40), x, 40)
    # In two steps, as Ei is finite a little beyond where exp is.
    beyond = exp(v / 2) / v * polynomial(1 / v, INVERSE_POWERS) * exp(v / 2)
    outer = ew.where(ew.less(x, -1), -exp(-w) * tail, beyond)
    y = ew.where(series, ew.where(ew.equal(x, 0), -np.inf, inner), outer)
    return ew.where(ew.logical_or(ew.isnan(x), ew.equal(x, np.inf)), x, y)


expi = ew.unary(
    "expi",
    "The exponential integral Ei: the integral of exp(t) / t up to x; relative error about 1e-13",
    ew.real_inexact,
    lambda g, y, x: g * exp(x) / x,
    expand=_expi,
    facts=ew.Facts(poles=(0.0,)),
    definition="``∫ exp(t) / t dt``, t from -inf to x; the principal value for x > 0.",
    source="DLMF 6.2.5",
)


def _sinc_slope(y: Any, x: Any) -> Any:
    # cos(z) and sin(z) / z nearly cancel for a small z = pi * x.
    z = x * np.pi
    small = ew.less(ew.abs(z), 0.3)
    near = ew.where(small, z, 0)
    terms = (-1 / 3, 1 / 30, -1 / 840, 1 / 45360, -1 / 3991680, 1 / 518918400)
    series = np.pi * near * polynomial(near * near, terms)
    return ew.where(small, series, (cos(z) - y) / ew.where(small, 1, x))


def _sinc(x: Tensor) -> Any:
    z = ew.where(ew.equal(x, 0), 1.0, x * np.pi)
    return ew.where(ew.equal(x, 0), 1, sin(z) / z)


sinc = ew.unary(
    "sinc",
    "sin(pi * x) / (pi * x), 1 at 0",
    ew.real_inexact,
    lambda g, y, x: g * _sinc_slope(y, x),
    expand=single(_sinc),
    facts=ew.Facts(parity=1),  # NaN, and in no range, where pi * x overflows
)

# Composites.


class Softmax(AxisComposite):
    """``exp(x) / sum(exp(x))`` within each slice, without overflow."""

    __slots__ = ()

    def expand(self, x: Tensor) -> Tensor:
        weights = exp(x - restore_axes(Tensor.make(MaxWithDefault(self.axes), x), self.axes))
        return weights / sum(weights, self.axes, keepdims=True)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (y * (g - sum(g * y, self.axes, keepdims=True)),)


class LogSoftmax(AxisComposite):
    """``log(softmax(x))`` within each slice, exact also where softmax is 0."""

    __slots__ = ()
    name = "log_softmax"

    def expand(self, x: Tensor) -> Tensor:
        shifted = x - restore_axes(Tensor.make(MaxWithDefault(self.axes), x), self.axes)
        return shifted - log(sum(exp(shifted), self.axes, keepdims=True))

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (g - exp(y) * sum(g, self.axes, keepdims=True),)


@function
def softmax(x: TensorLike, axis: Axis = None) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` over axes, without overflow.

    Args:
        x: Logarithms of weights; real, any shape.
        axis: The axes to sum over, all by default.

    Returns:
        An array of x's shape and floating dtype.

    Raises:
        DTypeError: x is complex.
        ShapeError: x has no such axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.softmax([0.0, 0.0]).eval(mode="NUMPY").tolist()
        [0.5, 0.5]
    """
    return apply_composite(Softmax, x, axis)


@function
def log_softmax(x: TensorLike, axis: Axis = None) -> Tensor:
    """Return ``log(softmax(x, axis))``, exact where softmax rounds to 0; arguments as there.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.log_softmax([0.0, 0.0, -1000.0]).round(4).eval(mode="NUMPY").tolist()
        [-0.6931, -0.6931, -1000.6931]
    """
    return apply_composite(LogSoftmax, x, axis)
