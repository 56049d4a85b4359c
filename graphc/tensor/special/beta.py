"""The beta function and the incomplete one, as in ``scipy.special``."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import exp, expm1, log, log1p
from graphc.tensor.core.tensor import TABLE, Tensor, TensorLike, as_tensor, constant, function
from graphc.tensor.core.trigonometric import sin
from graphc.tensor.special import series
from graphc.tensor.special.gamma import digamma, gamma_sign, gammaln, log_gamma_quantile
from graphc.tensor.special.special import ndtri, xlog1py, xlogy
from graphc.tensor.special.stirling import stirling
from graphc.tensor.statistics.nans import largest_number

__all__ = ["beta", "betainc", "betainc_by_a", "betainc_by_b", "betaincinv", "betaln"]


def _positive_betaln(a: Tensor, b: Tensor) -> Any:
    """Compute for a, b > 0, by Stirling's formula instead of differences of large logarithms."""
    p, q = ew.minimum(a, b), ew.maximum(a, b)
    small = gammaln(p) + (
        gammaln(ew.minimum(q, 10)) - gammaln(ew.minimum(p, 10) + ew.minimum(q, 10))
    )
    large, most = ew.maximum(p, 10), ew.maximum(q, 10)
    some = ew.minimum(p, 10)
    ratio = some / most
    ahead = (most - 0.5) * log1p(ratio) + some * log(most + some) - some
    mixed = gammaln(some) - (ahead + stirling(most + some) - stirling(most))
    large_both = (
        stirling(large)
        + stirling(most)
        - stirling(large + most)
        + (np.log(2 * np.pi).item() - log(most)) / 2
        + (large - 0.5) * (log(large) - log(large + most))
        - most * log1p(large / most)
    )
    return ew.where(ew.less_equal(q, 10), small, ew.where(ew.less_equal(p, 10), mixed, large_both))


@series.wide
def _betaln(a: Tensor, b: Tensor) -> Any:
    p, q = ew.minimum(a, b), ew.maximum(a, b)
    total = p + q
    sound = ew.greater(p, 0) & ew.less(q, 1e300)
    # Two poles cancel for whole numbers p <= 0 < q with p + q <= 0.
    pole = (ew.less_equal(p, 0) & ew.equal(p, ew.floor(p))) | (
        ew.less_equal(q, 0) & ew.equal(q, ew.floor(q))
    )
    poles = (
        pole
        & ew.greater(q, 0)
        & ew.equal(q, ew.floor(q))
        & ew.less_equal(total, 0)
        & ew.greater(p, -1e300)
    )
    # gamma(p) * gamma(-p) / beta(-p, p + q) keeps the digits of a large q.
    across = ew.less(p, 0) & ew.greater(total, 0) & ew.less(q, 1e300)
    first = ew.where(sound, p, ew.where(poles, 1 - total, ew.where(across, -p, 1)))
    y = _positive_betaln(first, ew.where(sound | poles, q, ew.where(across, total, 1)))
    shared = gammaln(p) + gammaln(ew.where(across, -p, q))
    other = ew.where(pole, np.inf, shared - ew.where(across, y, gammaln(total)))
    # Beside a number above 1e300, or infinity, gamma(p) / q**p.
    far = ew.greater_equal(q, 1e300) & ew.less(ew.abs(p), 1e290)
    beyond = ew.where(pole, np.inf, gammaln(ew.where(far, p, 1)) - p * log(ew.where(far, q, 1)))
    y = ew.where(
        far, beyond, ew.where(sound | poles, y, ew.where(ew.equal(p, np.inf), -np.inf, other))
    )
    return ew.where(ew.isnan(total), total, y)


def _rise(a: Tensor, total: Tensor) -> Any:
    """Return ``digamma(a) - digamma(total)``; two poles cancel, by reflection (DLMF 5.5.4)."""
    at_poles = ew.less_equal(a, 0) & ew.equal(a, ew.floor(a)) & ew.less_equal(total, 0)
    at_poles = at_poles & ew.equal(total, ew.floor(total))
    rise = digamma(ew.where(at_poles, 1 - a, a)) - digamma(ew.where(at_poles, 1 - total, total))
    return ew.where(at_poles, rise, rise)  # one value, which documentation states for each case


betaln = ew.binary(
    "betaln",
    "The logarithm of the beta function's magnitude",
    ew.real_inexact,
    lambda g, y, a, b: (g * _rise(a, a + b), g * _rise(b, a + b)),
    series.from_definition(_betaln),
    commutes=True,
    expand=_betaln,
    definition="``log(|gamma(a) * gamma(b) / gamma(a + b)|)``.",
    source="DLMF 5.12.1",
)


def log_beta_first_term(a: Tensor, b: Tensor) -> list[Any]:
    """Return the logarithm of ``a * beta(a, b)``, also for a tiny a."""
    return [_positive_betaln(a + 1, b) + log(a + b)]


def _log_beta_share(a: Tensor, b: Tensor, x: Tensor, rest: Tensor) -> Any:
    """Return the logarithm of ``x**a * rest**b / (a * beta(a, b))`` for rest = 1 - x.

    The result is as exact for large a and b as for small ones.

    Source: Loader, Fast and accurate computation of binomial probabilities, 2000.
    """
    both_large = ew.logical_and(ew.greater(a, 10), ew.greater(b, 10))
    p, q = ew.where(both_large, a, 10), ew.where(both_large, b, 10)
    off = x * q - p * rest
    gap = p * _log_gap(off / p, x * (p + q) / p) + q * _log_gap(-off / q, rest * (p + q) / q)
    error = stirling(p) + stirling(q) - stirling(p + q)
    peaked = -gap - error + log(q / (p + q) / (2 * np.pi * p)) / 2
    c, d = ew.where(both_large, 1, a), ew.where(both_large, 1, b)
    (scale,) = log_beta_first_term(c, d)
    fall = d * ew.where(ew.less(x, 0.5), log1p(-x), log(rest))
    return ew.where(both_large, peaked, c * log(x) + fall - scale)


def _log_gap(off: Tensor, ratio: Tensor) -> Any:
    """Return ``off - log(ratio)``, where ratio = 1 + off."""
    far = ew.less(off, -0.5)
    return ew.where(
        far, off - log(ew.where(far, ratio, 1)), series.shortfall_of_log1p(ew.where(far, 0, off))
    )


def _beta_tail(a: Tensor, b: Tensor, x: Tensor, rest: Tensor) -> list[Tensor]:
    """Integrate I_x(a + 1, b) over its density, and its derivatives.

    The substitution is t / (1 - t) = x / (1 - x) * exp(-s).
    """

    def integrands(s: Tensor, excess: Tensor, n: Tensor, x: Tensor) -> list[Tensor]:
        moved = x * expm1(-s)
        decay = n * (x * series.excess_of_exp(-s) - series.shortfall_of_log1p(moved))
        y = exp(-excess * s - decay)
        return [y, (s + log1p(moved)) * y, log1p(moved) * y]

    n = a + b + 1
    excess = a + 1 - n * x
    # Where the fall is slow it ends as fast as a double exponential, which takes closer points.
    fall = ew.maximum(ew.abs(excess) + ew.sqrt(n * x * rest), 2)
    return series.integral(integrands, 1 / fall, excess, n, x)


def _beta_inside(a: Tensor, b: Tensor, x: Tensor) -> list[Tensor]:
    """Return whether all are within the domain; and a, b, x there, 1, 1 and 1/2 elsewhere."""
    inside = ew.greater(a, 0) & ew.greater(b, 0) & ew.greater(x, 0) & ew.less(x, 1)
    inside = inside & ew.less(a, np.inf) & ew.less(b, np.inf)
    return [inside, ew.where(inside, a, 1), ew.where(inside, b, 1), ew.where(inside, x, 0.5)]


def _choose_tail(a: Tensor, b: Tensor, x: Tensor, rest: Tensor) -> list[Tensor]:
    """Return whether the upper tail is computed, and the computed tail's parameters and bounds."""
    middle = (a + 1) / (a + b + 2)
    upper = ew.greater(x, ew.where(ew.less(b, 0.5), ew.maximum(middle, 0.995), middle))
    pairs = [(b, a), (a, b), (rest, x), (x, rest)]
    return [upper, *[ew.where(upper, turned, original) for turned, original in pairs]]


def _nearer(a: Tensor, b: Tensor, x: Tensor, rest: Tensor) -> list[Any]:
    """Return whether the upper tail is used, its first parameter, relative size, log factor."""
    upper, p, q, z, other = _choose_tail(a, b, x, rest)
    whole, *_ = _beta_tail(p, q, z, other)
    return [upper, p, 1 + z * (p + q) * whole, _log_beta_share(p, q, z, other)]


def log_beta_tail(a: Tensor, b: Tensor, x: Tensor, rest: Tensor) -> list[Any]:
    """Return the logarithm of ``betainc(a, b, x)``, and its derivative in logit(x)."""
    upper, p, shares, log_share = _nearer(a, b, x, rest)
    tail = log_share + log(shares)
    below = ew.where(upper, log1p(-exp(tail)), tail)
    return [below, exp(log(p) + log_share - below)]


@series.wide
def _betainc(a: Tensor, b: Tensor, x: Tensor) -> Any:
    inside, a1, b1, x1 = _beta_inside(a, b, x)
    upper, _, shares, log_share = _nearer(a1, b1, x1, 1 - x1)
    tail = exp(log_share) * shares
    inner = ew.where(upper, 1 - tail, tail)
    sound = (
        ew.greater_equal(a, 0)
        & ew.greater_equal(b, 0)
        & ew.greater_equal(x, 0)
        & ew.less_equal(x, 1)
    )
    open_ended = ew.equal(a, b) & ew.logical_or(ew.equal(a, 0), ew.isinf(a))
    low = ew.equal(x, 0) | (ew.less(x, 1) & ew.logical_or(ew.equal(b, 0), ew.isinf(a)))
    return ew.where(
        inside, inner, ew.where(sound & ew.logical_not(open_ended), ew.where(low, 0, 1), np.nan)
    )


def _betainc_slope(a: Tensor, b: Tensor, x: Tensor, first: bool) -> Any:
    inside, a1, b1, x1 = _beta_inside(a, b, x)
    upper, p, q, z, rest = _choose_tail(a1, b1, x1, 1 - x1)
    n = p + q
    whole, by_p, by_q = _beta_tail(p, q, z, rest)
    over = 1 + z * n * whole
    lead = ew.where(upper, log1p(-x1), log(x1)) - digamma(p + 1)
    trail = ew.where(upper, log(x1), log1p(-x1)) - digamma(q)
    share = exp(_log_beta_share(p, q, z, rest))
    slopes = [
        share * ((weight + digamma(n)) * over + z * whole - z * n * moment)
        for weight, moment in ((lead, by_p), (trail, by_q))
    ]
    by_a, by_b = ew.where(upper, -slopes[1], slopes[0]), ew.where(upper, -slopes[0], slopes[1])
    sound = ew.greater(a, 0) & ew.greater(b, 0) & ew.logical_or(ew.equal(x, 0), ew.equal(x, 1))
    return ew.where(inside, by_a if first else by_b, ew.where(sound, 0, np.nan))


@series.wide
def _betainc_by_a(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return _betainc_slope(a, b, x, first=True)


@series.wide
def _betainc_by_b(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return _betainc_slope(a, b, x, first=False)


def _beta_pdf(a: Any, b: Any, x: Any) -> Any:
    return exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b))


betainc_by_a = ew.several(
    3,
    "betainc_by_a",
    "The derivative of betainc(a, b, x) with respect to a; relative error about 1e-12",
    ew.real_inexact,
    lambda g, y, a, b, x: (
        ew.missing_gradient("betainc_by_a", "a", a),
        ew.missing_gradient("betainc_by_a", "b", b),
        g * _beta_pdf(a, b, x) * (log(x) - digamma(a) + digamma(a + b)),
    ),
    series.from_definition(_betainc_by_a),
    expand=_betainc_by_a,
    facts=ew.Facts(support=(ew.NONNEGATIVE, ew.NONNEGATIVE, (0.0, 1.0))),
)
betainc_by_b = ew.several(
    3,
    "betainc_by_b",
    "The derivative of betainc(a, b, x) with respect to b; relative error about 1e-12",
    ew.real_inexact,
    lambda g, y, a, b, x: (
        ew.missing_gradient("betainc_by_b", "a", a),
        ew.missing_gradient("betainc_by_b", "b", b),
        g * _beta_pdf(a, b, x) * (log1p(-x) - digamma(b) + digamma(a + b)),
    ),
    series.from_definition(_betainc_by_b),
    expand=_betainc_by_b,
    facts=ew.Facts(support=(ew.NONNEGATIVE, ew.NONNEGATIVE, (0.0, 1.0))),
)
betainc = ew.several(
    3,
    "betainc",
    "The regularised incomplete beta function",
    ew.real_inexact,
    lambda g, y, a, b, x: (
        g * betainc_by_a(a, b, x),
        g * betainc_by_b(a, b, x),
        g * _beta_pdf(a, b, x),
    ),
    ew.from_scipy("betainc", wide=True),
    expand=_betainc,
    facts=ew.Facts(range=(0.0, 1.0), support=(ew.NONNEGATIVE, ew.NONNEGATIVE, (0.0, 1.0))),
    definition="``1 / beta(a, b) * ∫ t**(a - 1) * (1 - t)**(b - 1) dt``, t from 0 to x.",
    source="DLMF 8.17.2",
)


# Its inverse, by Newton's rule for the logarithm of the smaller tail, by the logit of x.

ROUNDS = 6
"""Steps of Newton's rule. From these starts the fifth no longer changed any of some thousand points
with a and b from 1e-2 to 1e6 and tails from 1e-300 on."""

LONGEST = 20.0
"""The longest step, used where the tail is flat."""

MOST = 700.0
"""The largest logit: beyond it exp overflows."""


def _sigmoid(u: Tensor) -> Any:
    return 1 / (1 + exp(-u))


def _logit_of_exp(y: Tensor) -> Any:
    return y - log(-expm1(ew.minimum(y, -1e-300)))


def _starts(a: Tensor, b: Tensor, p: Tensor) -> list[Any]:
    """Return starting logits near the quantile, each for other parameters.

    They approximate by the normal distribution (Abramowitz & Stegun 26.5.22), by the first term of
    either tail, and by the gamma distribution of either variable, where it is small.
    """
    z = -ndtri(p)
    lift = (z * z - 3) / 6
    r, s = 1 / ew.maximum(2 * a - 1, 0.1), 1 / ew.maximum(2 * b - 1, 0.1)
    h = 2 / (r + s)
    w = z * ew.sqrt(ew.maximum(h + lift, 0)) / h - (s - r) * (lift + 5 / 6 - 2 / (3 * h))
    (low,), (high,) = log_beta_first_term(a, b), log_beta_first_term(b, a)
    from_upper = exp(log_gamma_quantile(b, 1 - p, p)) / (a + (b - 1) / 2)
    from_lower = exp(log_gamma_quantile(a, p, 1 - p)) / (b + (a - 1) / 2)
    return [
        log(a / b) - 2 * w,
        _logit_of_exp((log(p) + low) / a),
        -_logit_of_exp((log1p(-p) + high) / b),
        _logit_of_exp(-from_upper),
        -_logit_of_exp(-from_lower),
    ]


def _nearest_start(a: Tensor, b: Tensor, wanted: Tensor) -> Any:
    starts = [ew.maximum(ew.minimum(u, MOST), -MOST) for u in _starts(a, b, exp(wanted))]
    # Along one axis, as a tail takes many operations.
    a, b, wanted, *starts = (TABLE["expand_dims"](x, x.ndim) for x in (a, b, wanted, *starts))
    indices = constant(np.arange(len(starts)), bake=True)
    u = starts[0]
    for i, other in enumerate(starts[1:], 1):
        u = ew.where(ew.equal(indices, i), other, u)
    u = ew.where(ew.isnan(u), 0, u)
    size = ew.abs(_logit_step(a, b, wanted, u))
    size = ew.where(ew.isnan(size), np.inf, size)
    best, least = u[..., 0], size[..., 0]
    for i in range(1, len(starts)):
        nearer = ew.less(size[..., i], least)
        best, least = ew.where(nearer, u[..., i], best), ew.where(nearer, size[..., i], least)
    return best


def _logit_step(a: Tensor, b: Tensor, wanted: Tensor, u: Tensor) -> Any:
    tail, slope = log_beta_tail(a, b, _sigmoid(u), _sigmoid(-u))
    return (tail - wanted) / slope


@series.wide
def _betaincinv(a: Tensor, b: Tensor, p: Tensor) -> Any:
    sound = ew.greater(a, 0) & ew.greater(b, 0) & ew.greater(p, 0) & ew.less(p, 1)
    sound = sound & ew.less(a, np.inf) & ew.less(b, np.inf)
    a1, b1, p1 = ew.where(sound, a, 1), ew.where(sound, b, 1), ew.where(sound, p, 0.5)
    upper = ew.greater(p1, 0.5)
    c, d = ew.where(upper, b1, a1), ew.where(upper, a1, b1)
    wanted = log(ew.where(upper, 1 - p1, p1))
    u = _nearest_start(c, d, wanted)
    for _ in range(ROUNDS):
        step = _logit_step(c, d, wanted, u)
        u = u - ew.where(ew.isnan(step), 0, ew.maximum(ew.minimum(step, LONGEST), -LONGEST))
    edge = ew.greater(a, 0) & ew.greater(b, 0) & ew.logical_or(ew.equal(p, 0), ew.equal(p, 1))
    return ew.where(sound, _sigmoid(ew.where(upper, -u, u)), ew.where(edge, p, np.nan))


betaincinv = ew.several(
    3,
    "betaincinv",
    "The inverse of betainc: the x with betainc(a, b, x) = y",
    ew.real_inexact,
    lambda g, x, a, b, y: tuple(
        g * part / _beta_pdf(a, b, x)
        for part in (-betainc_by_a(a, b, x), -betainc_by_b(a, b, x), 1)
    ),
    ew.from_scipy("betaincinv", wide=True),
    expand=_betaincinv,
    facts=ew.Facts(range=(0.0, 1.0), support=(ew.NONNEGATIVE, ew.NONNEGATIVE, (0.0, 1.0))),
    source="DLMF 8.17.2",
)


@function
def beta(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the beta function, ``gamma(a) * gamma(b) / gamma(a + b)``, without overflow of either.

    Args:
        a: Real numbers of any shape.
        b: Real numbers; the two broadcast.

    Returns:
        An array of the common shape, of a floating dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> round(float(gt.beta(2.0, 3.0).eval(mode="NUMPY")), 12)
        0.083333333333
    """
    a, b = as_tensor(a), as_tensor(b)
    total = a + b
    zero = ew.less_equal(total, 0) & ew.equal(total, ew.floor(total)) & ew.not_equal(a, ew.floor(a))
    there = _beta_at_zero(ew.where(zero, a, -0.5), ew.where(zero, b, -0.5))
    a, b = ew.where(zero, 1, a), ew.where(zero, 1, b)
    size = exp(betaln(a, b))
    return ew.where(zero, there, gamma_sign(a) * gamma_sign(b) * gamma_sign(a + b) * size)


def _beta_at_zero(a: Tensor, b: Tensor) -> Any:
    """Return beta where a + b is 0, -1, ...: 0, written so that its derivative is right.

    By reflection (DLMF 5.5.3), ``1 / gamma(z)`` is ``gamma(1 - z) * sin(pi * z) / pi``.
    """
    total = a + b
    size = gammaln(a) + gammaln(b) + gammaln(1 - total)
    # An infinite size times 0 would be NaN.
    size = ew.minimum(exp(size), largest_number(size.dtype))
    signs = gamma_sign(a) * gamma_sign(b) * gamma_sign(total + 0.5)
    return signs * size * sin(np.pi * (total - ew.floor(total))) / np.pi
