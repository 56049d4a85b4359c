"""The gamma function, complete and incomplete, and its relatives, as in ``scipy.special``."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.tensor.arrays.create import ones_like
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import exp, expm1, log
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function
from graphc.tensor.special import series, stirling
from graphc.tensor.special.special import ndtri, xlogy

__all__ = [
    "chi2sf", "digamma", "factorial", "gamma", "gammainc", "gammainc_by_a", "gammaincc",
    "gammainccinv", "gammaincinv", "gammal", "gammaln", "gammau", "multigammaln", "poch",
    "polygamma", "tri_gamma", "zeta",
]  # fmt: skip

# The gamma function and its logarithm's derivatives.

gamma: ew.Unary = ew.unary(
    "gamma",
    "The gamma function, (x - 1)! for a positive integer",
    ew.real_inexact,
    lambda g, y, x: g * y * digamma(x),
    expand=stirling.gamma_in_parts,
    facts=ew.Facts(poles=(0.0, -1.0, ...)),
    definition="``∫ t**(x - 1) * exp(-t) dt``, t from 0 to inf, for x > 0; ``gamma(x + 1) = x "
    "* gamma(x)``.",
    source="DLMF 5.2.1",
)
gammaln = ew.unary(
    "gammaln",
    "The logarithm of the gamma function's magnitude",
    ew.real_inexact,
    lambda g, y, x: g * digamma(x),
    expand=stirling.gammaln_in_parts,
    facts=ew.Facts(poles=(0.0, -1.0, ...)),
    definition="``log(|gamma(x)|)``.",
    source="DLMF 5.2.1",
)
digamma: ew.Unary = ew.unary(
    "digamma",
    "The derivative of gammaln",
    ew.real_inexact,
    lambda g, y, x: g * tri_gamma(x),
    expand=stirling.digamma_in_parts,
    facts=ew.Facts(poles=(0.0, -1.0, ...)),
    definition="The derivative of ``log(|gamma(x)|)``.",
    source="DLMF 5.2.2",
)


BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 /
    330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip
DIRECT = 12
"""The number of terms of the zeta function that are added before the rest is an integral."""


def _positive_zeta(s: Tensor, q: Tensor) -> Tensor:
    """Compute the Hurwitz zeta function for q > 0, s > 1 by Euler-Maclaurin (DLMF 25.11.7)."""
    end = q + DIRECT
    y = q**-s
    for k in range(1, DIRECT):
        y = y + (q + k) ** -s
    last = end**-s
    y = y + end ** (1 - s) / (s - 1) + last / 2
    # Where s is large beside its base, the last power is negligible, and so are its products.
    rate = ew.minimum(1 / end, 1e3 / s)
    term = last * s * rate / 2
    for j, b in enumerate(BERNOULLI, 1):
        y = y + b * term
        k = 2 * j
        term = term * (((s + (k - 1)) * rate) * ((s + k) * rate)) / ((k + 1) * (k + 2))
    return y


@series.wide
def _zeta(s: Tensor, q: Tensor) -> Any:
    """Reflect the terms of negative base, for q < 0 and an integer s."""
    below = ew.less(q, 0)
    whole = ew.logical_and(ew.equal(s, ew.floor(s)), ew.less(s, np.inf))
    sound = (
        ew.greater(s, 1)
        & ew.logical_or(ew.greater(q, 0), below & whole)
        & ew.less(ew.abs(q), np.inf)
    )
    sound = ew.logical_and(sound, ew.logical_not(below & ew.equal(q, ew.floor(q))))
    s1, q1 = ew.where(sound, ew.minimum(s, 1e300), 2), ew.where(sound, q, 1)
    under = ew.logical_and(sound, below)
    lowest = ew.where(under, q1, -0.5)
    rest = -lowest - ew.floor(-lowest)
    sign = ew.where(ew.equal(s1, 2 * ew.floor(s1 / 2)), 1, -1)
    # In this order two terms of opposite sign cancel exactly.
    above = _positive_zeta(s1, ew.where(under, 1 - rest, q1))
    y = above + ew.where(under, sign * _positive_zeta(s1, rest), 0)
    y = y - ew.where(under, sign * _positive_zeta(s1, 1 - lowest), 0)
    pole = ew.logical_or(
        ew.equal(s, 1), ew.greater(s, 1) & ew.less_equal(q, 0) & ew.equal(q, ew.floor(q))
    )
    far = ew.greater(s, 1) & ew.equal(q, np.inf)
    return ew.where(sound, y, ew.where(pole, np.inf, ew.where(far, 0, np.nan)))


zeta: ew.Binary = ew.binary(
    "zeta",
    "The Hurwitz zeta function, the sum of (q + k) ** -s over k = 0, 1, ...",
    ew.real_inexact,
    lambda g, y, s, q: (ew.missing_gradient("zeta", "its exponent", s), -g * s * zeta(s + 1, q)),
    expand=_zeta,
    definition="The sum of ``(q + k)**-s`` over k = 0, 1, ..., for s > 1, and q > 0 or a whole s.",
    source="DLMF 25.11.1",
)


@series.wide
def _polygamma(n: Tensor, x: Tensor) -> Any:
    """Compute ``(-1)**(n + 1) * n! * zeta(n + 1, x)`` (DLMF 25.11.12)."""
    whole = ew.equal(n, ew.floor(n)) & ew.greater(n, 0) & ew.less(n, np.inf)
    order = ew.where(whole, n, 1)
    sign = ew.where(ew.equal(order, 2 * ew.floor(order / 2)), -1, 1)
    y = ew.where(whole, sign * gamma(order + 1) * _zeta(order + 1, x), np.nan)
    return ew.where(ew.equal(n, 0), digamma(x), y)


polygamma: ew.Binary = ew.binary(
    "polygamma",
    "The n-th derivative of digamma, for a whole number n",
    ew.real_inexact,
    lambda g, y, n, x: (ew.missing_gradient("polygamma", "its order", n), g * polygamma(n + 1, x)),
    ew.from_scipy("polygamma", wide=True),
    expand=_polygamma,
    definition="``(-1)**(n + 1) * n! * zeta(n + 1, x)`` for n > 0; ``digamma(x)`` for n = 0.",
    source="DLMF 5.15.1 and 25.11.12",
)
tri_gamma: ew.Unary = ew.unary(
    "tri_gamma",
    "The derivative of digamma",
    ew.real_inexact,
    lambda g, y, x: g * polygamma(2, x),
    lambda x: polygamma.reference(np.ones_like(x), x),
    expand=series.wide(lambda x: _zeta(2 * ones_like(x), x)),
    facts=ew.Facts(range=ew.NONNEGATIVE, positive=True, poles=(0.0, -1.0, ...)),
    definition="The sum of ``(x + k)**-2`` over k = 0, 1, ...",
    source="DLMF 5.15.1",
)

# The incomplete gamma functions.


def _log_gamma_share(a: Tensor, x: Tensor) -> Any:
    """Return the logarithm of ``x**a * exp(-x) / gamma(a + 1)``, for large and small a.

    Source: Loader, Fast and accurate computation of binomial probabilities, 2000.
    """
    large, small = ew.maximum(a, 10), ew.minimum(a, 10)
    off = (x - large) / large
    far = ew.less(off, -0.5)
    gap = ew.where(
        far,
        off - log(ew.where(far, x / large, 1)),
        series.shortfall_of_log1p(ew.where(far, 0, off)),
    )
    peaked = -stirling.stirling(large) - large * gap - (log(large) + np.log(2 * np.pi).item()) / 2
    return ew.where(ew.greater(a, 10), peaked, small * log(x) - x - gammaln(small + 1))


def _gamma_tail(a: Tensor, x: Tensor, lower: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tail over its leading factor, and the integrals of its derivatives.

    The substitution is t = x * exp(-s) or x * exp(s). The lower tail is raised first,
    ``P(a, x) = share + P(a + 1, x)``, so that the integrand falls also for a small a.
    """

    def integrands(s: Tensor, excess: Tensor, x: Tensor, side: Tensor) -> list[Tensor]:
        y = exp(-excess * s - x * series.excess_of_exp(side * s))
        return [y, s * y]

    excess = ew.where(lower, a + 1 - x, x - a)
    side = ew.where(lower, -1.0, 1.0)
    whole, moment = series.integral(integrands, 1 / (ew.abs(excess) + ew.sqrt(x)), excess, x, side)
    return whole, moment


def _nearer(a: Tensor, x: Tensor) -> list[Tensor]:
    """Return whether the lower tail is computed, its relative size, log of its leading factor."""
    lower = ew.logical_or(ew.less(x, a), ew.less_equal(x, 1))
    whole, _ = _gamma_tail(a, x, lower)
    return [lower, ew.where(lower, 1 + x * whole, a * whole), _log_gamma_share(a, x)]


def _rest(a: Tensor, x: Tensor, tail: Tensor) -> Any:
    """Return 1 less the tail; the upper one keeps its digits where a small a makes it small."""
    tiny = ew.logical_and(ew.less_equal(a, 0.5), ew.less_equal(x, 1))
    return ew.where(tiny, _small_upper(ew.where(tiny, a, 0.5), ew.where(tiny, x, 1)), 1 - tail)


def log_gamma_tails(a: Tensor, x: Tensor) -> list[Any]:
    """Return the logarithms of both tails, and of x times the density."""
    lower, shares, log_share = _nearer(a, x)
    tail = log_share + log(shares)
    rest = log(_rest(a, x, exp(tail)))
    return [ew.where(lower, tail, rest), ew.where(lower, rest, tail), log(a) + log_share]


def _inside(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return whether a and x are positive and finite; and both, 1 elsewhere."""
    inside = ew.logical_and(
        ew.logical_and(ew.greater(a, 0), ew.less(a, np.inf)),
        ew.logical_and(ew.greater(x, 0), ew.less(x, np.inf)),
    )
    # Only the ratio of large numbers counts, and squares of their relative steps underflow.
    shrunk = ew.where(ew.greater(ew.maximum(a, x), 1e290), 2.0**-64, 1)
    return inside, ew.where(inside, a * shrunk, 1), ew.where(inside, x * shrunk, 1)


def _at_edges(a: Tensor, x: Tensor, inner: Tensor, inside: Tensor, low: float) -> Any:
    """Return P (low = 0) or Q (low = 1) on the borders of their domain, NaN outside."""
    at_zero = ew.logical_and(ew.equal(x, 0), ew.greater(a, 0)) | ew.logical_and(
        ew.isinf(a), ew.less(x, np.inf)
    )
    at_infinity = ew.logical_and(ew.isinf(x), ew.less(a, np.inf)) | ew.logical_and(
        ew.equal(a, 0), ew.greater(x, 0)
    )
    outside = ew.logical_or(ew.less(a, 0), ew.less(x, 0)) | ew.logical_or(ew.isnan(a), ew.isnan(x))
    edge = ew.where(at_zero, low, ew.where(at_infinity, 1 - low, np.nan))
    return ew.where(inside, inner, ew.where(outside, np.nan, edge))


@series.wide
def _gammainc(a: Tensor, x: Tensor) -> Any:
    inside, a1, x1 = _inside(a, x)
    lower, shares, log_share = _nearer(a1, x1)
    tail = exp(log_share) * shares
    return _at_edges(a, x, ew.where(lower, tail, 1 - tail), inside, 0.0)


@series.wide
def _gammaincc(a: Tensor, x: Tensor) -> Any:
    inside, a1, x1 = _inside(a, x)
    lower, shares, log_share = _nearer(a1, x1)
    tail = exp(log_share) * shares
    return _at_edges(a, x, ew.where(lower, _rest(a1, x1, tail), tail), inside, 1.0)


def _small_upper(a: Tensor, x: Tensor) -> Tensor:
    """Return Q(a, x) for a <= 1/2 and x <= 1, from the power series of P (DLMF 8.7.1)."""
    term, total = -x, -x / (a + 1)
    for k in range(2, 20):
        term = term * (-x / k)
        total = total + term / (a + k)
    power = a * log(x) - stirling.log_gamma_of_one_plus(a)
    return -expm1(power) - exp(power) * a * total


def _shares_by_a(a: Tensor, u: Tensor) -> Tensor:
    """Return the derivative of P(a, exp(u)) in a, over ``x**a * exp(-x) / gamma(a + 1)``."""
    x = exp(u)
    # On either side of exp(digamma(a)) the logarithm's excess has one sign, so nothing cancels.
    psi = digamma(a)
    lower = ew.logical_or(ew.less(u, psi), ew.less_equal(x, 1))
    whole, moment = _gamma_tail(a, x, lower)
    below = (u - digamma(a + 1)) * (1 + x * whole) - x * moment
    above = a * (u - psi) * whole + a * moment
    return ew.where(lower, below, -above)


@series.wide
def _gammainc_by_a(a: Tensor, x: Tensor) -> Any:
    inside, a1, x1 = _inside(a, x)
    slope = exp(_log_gamma_share(a1, x1)) * _shares_by_a(a1, log(x1))
    outside = ew.logical_or(ew.less(a, 0), ew.less(x, 0)) | ew.logical_or(ew.isnan(a), ew.isnan(x))
    return ew.where(inside, slope, ew.where(outside | ew.equal(a, 0), np.nan, 0))


@series.wide
def _log_gamma_by_a(a: Tensor, u: Tensor) -> Any:
    sound = ew.logical_and(ew.greater(a, 0), ew.less(a, np.inf)) & ew.less(u, np.inf)
    a1 = ew.where(sound, a, 1)
    # For x next to 0, the logarithm alone counts.
    far = ew.less(u, -700)
    y = -_shares_by_a(a1, ew.where(sound, ew.maximum(u, -700), 0)) / a1
    tail = (digamma(a1 + 1) - u) / a1
    return ew.where(sound, ew.where(far, tail, y), np.nan)


def _gamma_pdf(a: Any, x: Any) -> Any:
    return exp(xlogy(a - 1, x) - x - gammaln(a))


gammainc_by_a = ew.binary(
    "gammainc_by_a",
    "The derivative of gammainc(a, x) with respect to a; relative error about 1e-12",
    ew.real_inexact,
    lambda g, y, a, x: (
        ew.missing_gradient("gammainc_by_a", "a", a),
        g * _gamma_pdf(a, x) * (log(x) - digamma(a)),
    ),
    series.from_definition(_gammainc_by_a),
    expand=_gammainc_by_a,
    facts=ew.Facts(support=(ew.NONNEGATIVE, ew.NONNEGATIVE)),
)
log_gamma_by_a: ew.Binary = ew.binary(
    "log_gamma_by_a",
    "du / da along constant gammainc(a, exp(u)); relative error about 1e-12",
    ew.real_inexact,
    lambda g, y, a, u: (
        ew.missing_gradient("log_gamma_by_a", "a", a),
        g * (digamma(a) - u - y * (a - exp(u))),
    ),
    series.from_definition(_log_gamma_by_a),
    expand=_log_gamma_by_a,
)
gammainc = ew.binary(
    "gammainc",
    "The regularised lower incomplete gamma function P(a, x)",
    ew.real_inexact,
    lambda g, y, a, x: (g * gammainc_by_a(a, x), g * _gamma_pdf(a, x)),
    expand=_gammainc,
    facts=ew.Facts(range=(0.0, 1.0), support=(ew.NONNEGATIVE, ew.NONNEGATIVE)),
    definition="``1 / gamma(a) * ∫ t**(a - 1) * exp(-t) dt``, t from 0 to x.",
    source="DLMF 8.2.4",
)
gammaincc = ew.binary(
    "gammaincc",
    "The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)",
    ew.real_inexact,
    lambda g, y, a, x: (-g * gammainc_by_a(a, x), -g * _gamma_pdf(a, x)),
    expand=_gammaincc,
    facts=ew.Facts(range=(0.0, 1.0), support=(ew.NONNEGATIVE, ew.NONNEGATIVE)),
    definition="``1 / gamma(a) * ∫ t**(a - 1) * exp(-t) dt``, t from x to inf.",
    source="DLMF 8.2.4",
)


# Their inverses, by Newton's rule for the logarithms.

ROUNDS = 6
"""Steps of Newton's rule. From these starts the fifth no longer changed any of some thousand points
with a from 1e-3 to 1e8 and tails from 1e-300 on."""


def log_gamma_quantile(a: Tensor, p: Tensor, q: Tensor) -> Any:
    """Return an estimate of log(x) where the lower tail is p and the upper one q = 1 - p."""
    z = ndtri(ew.minimum(p, q))
    # Wilson and Hilferty's cube is near enough for a > 1.
    cube = 1 - 1 / (9 * a) + ew.where(ew.less(p, q), z, -z) / (3 * ew.sqrt(a))
    power = (log(p) + gammaln(a + 1)) / a
    far = -log(q) - gammaln(a)
    beyond = ew.maximum(far - (1 - a) * log(ew.maximum(far, 1)), 0.5)
    small = ew.where(ew.greater(far, 1), log(beyond), ew.minimum(power, 0))
    large = ew.where(ew.greater(cube, 0.1), log(a) + 3 * log(ew.maximum(cube, 0.1)), power)
    return ew.where(ew.greater(a, 1), large, small)


def _gamma_quantile(a: Tensor, p: Tensor, q: Tensor) -> Any:
    """Return the x at which the lower tail is p, and the upper one q = 1 - p."""
    sound = ew.greater(a, 0) & ew.less(a, np.inf) & ew.greater(p, 0) & ew.greater(q, 0)
    # Products with a smaller one are subnormal.
    a1 = ew.maximum(ew.where(sound, a, 1), 1e-290)
    p1, q1 = ew.where(sound, p, 0.5), ew.where(sound, q, 0.5)
    lower = ew.less(p1, q1)
    wanted = log(ew.minimum(p1, q1))
    u = log_gamma_quantile(a1, p1, q1)
    for _ in range(ROUNDS):
        x = exp(u)
        # An x that is 0 is no further from the root.
        is_positive = ew.greater(x, 0)
        below, above, density = log_gamma_tails(a1, ew.where(is_positive, x, 1))
        tail = ew.where(lower, below, above)
        step = (tail - wanted) * exp(tail - density)
        step = ew.where(
            is_positive & ew.less(ew.abs(step), LONGEST),
            step,
            ew.where(is_positive, LONGEST * ew.sign(step), 0),
        )
        u = u - ew.where(lower, step, -step)
    edge = ew.where(ew.equal(q, 0), np.inf, ew.where(ew.equal(p, 0), 0, np.nan))
    inside = ew.greater_equal(a, 0) & ew.greater_equal(p, 0) & ew.greater_equal(q, 0)
    return ew.where(sound, exp(u), ew.where(inside, edge, np.nan))


LONGEST = 20.0
"""The longest step, used where a tail is flat."""


@series.wide
def _gammaincinv(a: Tensor, y: Tensor) -> Any:
    return _gamma_quantile(a, y, 1 - y)


@series.wide
def _gammainccinv(a: Tensor, y: Tensor) -> Any:
    return _gamma_quantile(a, 1 - y, y)


gammaincinv = ew.binary(
    "gammaincinv",
    "The inverse of gammainc: the x with gammainc(a, x) = y",
    ew.real_inexact,
    lambda g, x, a, y: _inverse_slope(g, gammainc_by_a(a, x), _gamma_pdf(a, x)),
    expand=_gammaincinv,
    facts=ew.Facts(range=ew.NONNEGATIVE, support=(ew.NONNEGATIVE, (0.0, 1.0))),
)
gammainccinv = ew.binary(
    "gammainccinv",
    "The inverse of gammaincc: the x with gammaincc(a, x) = y",
    ew.real_inexact,
    lambda g, x, a, y: _inverse_slope(g, -gammainc_by_a(a, x), -_gamma_pdf(a, x)),
    expand=_gammainccinv,
    facts=ew.Facts(range=ew.NONNEGATIVE, support=(ew.NONNEGATIVE, (0.0, 1.0))),
)


def _inverse_slope(g: Any, by_a: Any, by_x: Any) -> tuple[Any, Any]:
    # F(a, x(a, y)) = y, whatever a and y.
    return -g * by_a / by_x, g / by_x


# Functions made of the rows.


def gamma_sign(x: Tensor) -> Tensor:
    # Below 0 it changes at each whole number.
    whole = ew.floor(x)
    return ew.where(ew.less(x, 0), 1 - 2 * (whole - 2 * ew.floor(whole / 2)), 1)


@function
def factorial(n: TensorLike) -> Tensor:
    """Return ``gamma(n + 1)``: n! for integers, and 0 for negative numbers as in SciPy.

    Args:
        n: Real numbers of any shape.

    Returns:
        An array of that shape, of a floating dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.factorial(gt.as_tensor([0, 3, 5])).eval(mode="NUMPY").tolist()
        [1.0, 6.0, 120.0]
    """
    n = as_tensor(n)
    return ew.where(ew.less(n, 0), 0, gamma(n + 1))


@function
def poch(z: TensorLike, m: TensorLike) -> Tensor:
    """Return the rising factorial ``gamma(z + m) / gamma(z)``, where z and z + m are no poles.

    At infinite z or m the result is the limit, if there is one.

    Args:
        z: Real numbers of any shape.
        m: Real numbers; the two broadcast.

    Returns:
        An array of the common shape, of a floating dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> round(float(gt.poch(2.0, 3).eval(mode="NUMPY")), 9)
        24.0
    """
    z, m = as_tensor(z), as_tensor(m)
    far = ew.isinf(z) & ew.isfinite(m) | ew.equal(ew.minimum(z, m), np.inf)
    zero = ew.isinf(m) & ew.isfinite(z) & ew.less_equal(z, 0) & ew.equal(z, ew.floor(z))
    # The branch that is not chosen must not make the gradient NaN.
    z_near, m_near = ew.where(far | zero, 1, z), ew.where(far | zero, 1, m)
    ratio = exp(gammaln(z_near + m_near) - gammaln(z_near))
    near = gamma_sign(z_near + m_near) * gamma_sign(z_near) * ratio
    limit = (
        ew.where(ew.greater(z, 0) | ew.equal(m, ew.floor(m)), 1, np.nan) * ew.where(far, z, 1) ** m
    )
    return ew.where(zero, 0, ew.where(far, limit, near))


@function
def gammal(k: TensorLike, x: TensorLike) -> Tensor:
    """Return the lower incomplete gamma function, ``gammainc(k, x) * gamma(k)``.

    Args:
        k: Positive real numbers of any shape.
        x: Real numbers from 0 on; the two broadcast.

    Returns:
        An array of the common shape, of a floating dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.gammal(2.0, 1.0).round(4).eval(mode="NUMPY").tolist()
        0.2642
    """
    return gammainc(k, x) * gamma(k)


@function
def gammau(k: TensorLike, x: TensorLike) -> Tensor:
    """Return the upper incomplete gamma function, ``gammaincc(k, x) * gamma(k)``.

    Args:
        k: Positive real numbers of any shape.
        x: Real numbers from 0 on; the two broadcast.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.gammau(2.0, 1.0).round(4).eval(mode="NUMPY").tolist()
        0.7358
    """
    return gammaincc(k, x) * gamma(k)


@function
def chi2sf(x: TensorLike, k: TensorLike) -> Tensor:
    """Return the probability that a chi-squared variable of k degrees of freedom exceeds x.

    Args:
        x: Real numbers of any shape.
        k: Positive real numbers; the two broadcast.

    Returns:
        An array of the common shape, of a floating dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.chi2sf(0.0, 3.0).eval(mode="NUMPY").tolist()
        1.0
    """
    return gammaincc(as_tensor(k) / 2, as_tensor(x) / 2)


@function
def multigammaln(a: TensorLike, d: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension d.

    Args:
        a: Real numbers greater than ``(d - 1) / 2``, of any shape.
        d: A Python integer from 1 on.

    Returns:
        An array of a's shape, of a floating dtype.

    Raises:
        ArgumentError: d is not a positive Python integer.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.multigammaln(3.0, 2).round(4).eval(mode="NUMPY").tolist()
        1.5502
    """
    if isinstance(d, bool) or not isinstance(d, int) or d < 1:
        raise ArgumentError(
            f"multigammaln: the dimension {d!r} is not a positive Python integer.",
            "Pass 1 or more.",
        )
    a = as_tensor(a)
    constant_part: float = d * (d - 1) / 4 * np.log(np.pi).item()
    total = gammaln(a)
    for j in range(1, d):
        total = total + gammaln(a - j / 2)
    return total + constant_part
