"""Formulas as they are written down, which overflow, cancel or lose digits, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

import graphc.tensor as gt

__all__ = ["FAR", "FORMS", "KEPT", "PAIRS", "SLICES", "Form"]


@dataclass(frozen=True)
class Form:
    """A formula of one number or two, for graphc and for mpmath.

    Attributes:
        written: The formula of arrays.
        true: The same of numbers with as many digits as it takes.
        slopes: Its derivatives by each operand; none where they are not kept.
        rounded: Magnitudes of what is added up where the value comes near 0 without its operand
            doing so, and then of what the slopes are: as many of its last digits are no one's.
    """

    written: Callable[..., Any]
    true: Callable[..., Any]
    slopes: tuple[Callable[..., Any], ...]
    rounded: tuple[Callable[..., Any] | None, ...] = (None, None)


def one(
    written: Callable[..., Any],
    true: Callable[..., Any],
    slope: Callable[..., Any] | None,
    value_of: Callable[..., Any] | None = None,
    slope_of: Callable[..., Any] | None = None,
) -> Form:
    return Form(written, true, (slope,) if slope else (), (value_of, slope_of))


FAR = 2000
"""From here on an exponential is 0 or without end beside any number of either dtype."""


def mp_exp(x: Any) -> Any:
    if abs(x) < FAR:
        return mp.exp(x)
    return mp.mpf(0) if x < 0 else mp.inf


def mp_sigmoid(x: Any) -> Any:
    return 1 / (1 + mp_exp(-x))


def mp_softplus(x: Any) -> Any:
    return mp.log(1 + mp_exp(x)) if x < FAR else x


def mp_log1mexp(x: Any) -> Any:
    return mp.log(1 - mp_exp(x)) if x < 0 else mp.nan


def mp_erfc(x: Any) -> Any:
    with mp.workdps(40):
        return mp.erfc(x) if x < FAR else mp.mpf(0)


def mp_erf(x: Any) -> Any:
    with mp.workdps(40):
        return mp.erf(x) if abs(x) < FAR else mp.sign(x)


def mp_log_erfc(x: Any) -> Any:
    """By the asymptotic series where erfc itself is out of mpmath's reach."""
    with mp.workdps(40):
        if x < FAR:
            return mp.log(mp.erfc(x)) if abs(x) > 1e-3 else mp.log1p(-mp.erf(x))
        return -x * x - mp.log(x * mp.sqrt(mp.pi)) - 1 / (2 * x * x)


def mp_mills(x: Any) -> Any:
    """The slope of log(erfc(x))."""
    with mp.workdps(40):
        if x < FAR:
            return -2 / mp.sqrt(mp.pi) * mp.exp(-x * x) / mp.erfc(x)
        return -2 * x * (1 + 1 / (2 * x * x))


def mp_log_ndtr(x: Any) -> Any:
    """The logarithm of the normal distribution."""
    if x < 0:
        return mp_log_erfc(-x / mp.sqrt(2)) - mp.log(2)
    with mp.workdps(40):
        return mp.log1p(-mp_erfc(x / mp.sqrt(2)) / 2)


def mp_gammaln(x: Any) -> Any:
    with mp.workdps(40):
        return mp.loggamma(x).real if abs(x) > 1e-30 else -mp.log(abs(x)) - mp.euler * x


def mp_digamma(x: Any) -> Any:
    with mp.workdps(40):
        return mp.digamma(x) if abs(x) > 1e-30 else -1 / x - mp.euler


BELL = 2 / mp.sqrt(mp.pi)
HALF = 0.5
ROOT_HALF = np.sqrt(0.5).item()
s, sp, e, log = mp_sigmoid, mp_softplus, mp_exp, mp.log
itself = mp.mpmathify
unit = lambda *x: mp.mpf(1)  # noqa: E731


def sinh(x: Any) -> Any:
    return (e(x) - e(-x)) / 2


def cosh(x: Any) -> Any:
    return (e(x) + e(-x)) / 2


def tanh(x: Any) -> Any:
    return sinh(x) / cosh(x) if abs(x) < FAR else mp.sign(x)


def mp_log_cosh(x: Any) -> Any:
    if abs(x) < 1:
        return mp.log1p(2 * mp.sinh(x / 2) ** 2)
    return abs(x) + sp(-2 * abs(x)) - log(2)


def sech2(x: Any) -> Any:
    return 1 / cosh(x) ** 2 if abs(x) < FAR else mp.mpf(0)


def tanh_slope(x: Any) -> Any:
    """Asked for where ``1 - y * y`` has its digits: in the tails they are the price of using y."""
    y = sech2(x)
    return y if y > 0.1 else mp.nan


def ratio(a: Any, b: Any) -> Any:
    """A quotient that overflows as it is written is nobody's to mend."""
    return a / b if a * b > 0 and 1e-30 < a / b < 1e30 else mp.nan


def likelihood(p: Any) -> Any:
    return -(0.25 * gt.log(p) + (1 - 0.25) * gt.log(1 - p))


FORMS: dict[str, Form] = {
    # Exponentials and logarithms of each other.
    "log(exp(x))": one(lambda x: gt.log(gt.exp(x)), itself, unit),
    "exp(log(x))": one(lambda x: gt.exp(gt.log(x)), lambda x: e(log(x)), lambda x: e(0 * log(x))),
    "log1p(expm1(x))": one(lambda x: gt.log1p(gt.expm1(x)), itself, unit),
    "exp(log1p(x))": one(
        lambda x: gt.exp(gt.log1p(x)), lambda x: e(log(1 + x)), lambda x: e(0 * log(1 + x))
    ),
    "expm1(log1p(x))": one(
        lambda x: gt.expm1(gt.log1p(x)), lambda x: e(log(1 + x)) - 1, lambda x: e(0 * log(1 + x))
    ),
    "expm1(log(x))": one(
        lambda x: gt.expm1(gt.log(x)), lambda x: e(log(x)) - 1, lambda x: e(0 * log(x))
    ),
    "exp(-log(x))": one(
        lambda x: gt.exp(-gt.log(x)), lambda x: e(-log(x)), lambda x: -e(-2 * log(x))
    ),
    "log2(exp2(x))": one(lambda x: gt.log2(gt.exp2(x)), itself, unit),
    "log(exp2(x))": one(lambda x: gt.log(gt.exp2(x)), lambda x: x * log(2), lambda x: log(2)),
    "log2(exp(x))": one(lambda x: gt.log2(gt.exp(x)), lambda x: x / log(2), lambda x: 1 / log(2)),
    "log10(exp(x))": one(
        lambda x: gt.log10(gt.exp(x)), lambda x: x / log(10), lambda x: 1 / log(10)
    ),
    "log10(10**x)": one(lambda x: gt.log10(10.0**x), itself, unit),
    "log(3**x)": one(lambda x: gt.log(3.0**x), lambda x: x * log(3), lambda x: log(3)),
    "exp2(log2(x))": one(
        lambda x: gt.exp2(gt.log2(x)), lambda x: e(log(x)), lambda x: e(0 * log(x))
    ),
    "log(3 exp(x))": one(lambda x: gt.log(3 * gt.exp(x)), lambda x: x + log(3), unit, abs),
    "log(exp(x) / 5)": one(lambda x: gt.log(gt.exp(x) / 5), lambda x: x - log(5), unit, abs),
    "log(sqrt(x))": one(
        lambda x: gt.log(gt.sqrt(x)), lambda x: log(x) / 2, lambda x: e(0 * log(x)) / (2 * x)
    ),
    "log(x**2)": one(lambda x: gt.log(x**2), lambda x: log(x * x), lambda x: 2 / x),
    "log(x**3)": one(lambda x: gt.log(x**3), lambda x: 3 * log(x), lambda x: 3 * e(0 * log(x)) / x),
    "log(x**-4)": one(lambda x: gt.log(x**-4.0), lambda x: log(x**-4), lambda x: -4 / x),
    "log(x**1.5)": one(
        lambda x: gt.log(x**1.5), lambda x: 1.5 * log(x), lambda x: 1.5 * e(0 * log(x)) / x
    ),
    "sqrt(exp(x))": one(lambda x: gt.sqrt(gt.exp(x)), lambda x: e(x / 2), lambda x: e(x / 2) / 2),
    "1 / exp(x)": one(lambda x: 1 / gt.exp(x), lambda x: e(-x), lambda x: -e(-x)),
    "exp(x) exp(-x)": one(lambda x: gt.exp(x) * gt.exp(-x), unit, lambda x: mp.mpf(0)),
    "exp(3 x) / exp(2 x)": one(lambda x: gt.exp(3 * x) / gt.exp(2 * x), e, e),
    "exp(x)**2 / exp(x)": one(lambda x: gt.exp(x) ** 2 / gt.exp(x), e, e),
    "exp(x)**3 exp(-2 x)": one(lambda x: gt.exp(x) ** 3 * gt.exp(-2 * x), e, e),
    # Near 1 and near 0.
    "log(1 + x)": one(lambda x: gt.log(1 + x), lambda x: log(1 + x), lambda x: 1 / (1 + x)),
    "log(1 - x)": one(lambda x: gt.log(1 - x), lambda x: log(1 - x), lambda x: -1 / (1 - x)),
    "log2(1 + x)": one(
        lambda x: gt.log2(1 + x), lambda x: log(1 + x) / log(2), lambda x: 1 / (1 + x) / log(2)
    ),
    "log10(1 + x)": one(
        lambda x: gt.log10(1 + x), lambda x: log(1 + x) / log(10), lambda x: 1 / (1 + x) / log(10)
    ),
    "exp(x) - 1": one(lambda x: gt.exp(x) - 1, lambda x: e(x) - 1, e),
    "1 - exp(-x)": one(lambda x: 1 - gt.exp(-x), lambda x: 1 - e(-x), lambda x: e(-x)),
    # log(1 - exp(x)).
    "log(1 - exp(x))": one(
        lambda x: gt.log(1 - gt.exp(x)), mp_log1mexp, lambda x: -e(x) / (1 - e(x))
    ),
    "log(1 - exp(-x))": one(
        lambda x: gt.log(1 - gt.exp(-x)), lambda x: mp_log1mexp(-x), lambda x: e(-x) / (1 - e(-x))
    ),
    "log1p(-exp(x))": one(
        lambda x: gt.log1p(-gt.exp(x)), mp_log1mexp, lambda x: -e(x) / (1 - e(x))
    ),
    "log(-expm1(x))": one(
        lambda x: gt.log(-gt.expm1(x)), mp_log1mexp, lambda x: -e(x) / (1 - e(x))
    ),
    "log(exp(x) - 1)": one(
        lambda x: gt.log(gt.exp(x) - 1),
        lambda x: x + mp_log1mexp(-x),
        lambda x: 1 / (1 - e(-x)) if x > 0 else mp.nan,
        lambda x: 1,
    ),
    # Softplus.
    "log(1 + exp(x))": one(lambda x: gt.log(1 + gt.exp(x)), sp, s),
    "log1p(exp(x))": one(lambda x: gt.log1p(gt.exp(x)), sp, s),
    "log(1 + exp(-x))": one(lambda x: gt.log(1 + gt.exp(-x)), lambda x: sp(-x), lambda x: -s(-x)),
    "-log(sigmoid(-x))": one(lambda x: -gt.log(gt.sigmoid(-x)), sp, s),
    "-log(1 - sigmoid(x))": one(lambda x: -gt.log(1 - gt.sigmoid(x)), sp, s),
    "-log(1 / (1 + exp(x)))": one(lambda x: -gt.log(1 / (1 + gt.exp(x))), sp, s),
    "log(1 + exp(2 x)) / 2": one(
        lambda x: gt.log(1 + gt.exp(2 * x)) / 2, lambda x: sp(2 * x) / 2, lambda x: s(2 * x)
    ),
    "log(1 + 3 exp(x))": one(
        lambda x: gt.log(1 + 3 * gt.exp(x)), lambda x: sp(x + log(3)), lambda x: s(x + log(3))
    ),
    "log(exp(x) + 5)": one(
        lambda x: gt.log(gt.exp(x) + 5), lambda x: sp(x - log(5)) + log(5), lambda x: s(x - log(5))
    ),
    "log(exp(x) + exp(-x))": one(
        lambda x: gt.log(gt.exp(x) + gt.exp(-x)), lambda x: abs(x) + sp(-2 * abs(x)), tanh
    ),
    "exp(log(1 + exp(x)))": one(lambda x: gt.exp(gt.log(1 + gt.exp(x))), lambda x: 1 + e(x), e),
    "exp(log(1 + exp(x))) - 1": one(lambda x: gt.exp(gt.log(1 + gt.exp(x))) - 1, e, e),
    # Sigmoid.
    "1 / (1 + exp(-x))": one(lambda x: 1 / (1 + gt.exp(-x)), s, lambda x: s(x) * s(-x)),
    "exp(x) / (1 + exp(x))": one(lambda x: gt.exp(x) / (1 + gt.exp(x)), s, lambda x: s(x) * s(-x)),
    "exp(-x) / (1 + exp(-x))": one(
        lambda x: gt.exp(-x) / (1 + gt.exp(-x)), lambda x: s(-x), lambda x: -s(x) * s(-x)
    ),
    "1 - sigmoid(x)": one(lambda x: 1 - gt.sigmoid(x), lambda x: s(-x), lambda x: -s(x) * s(-x)),
    "1 - 1 / (1 + exp(-x))": one(
        lambda x: 1 - 1 / (1 + gt.exp(-x)), lambda x: s(-x), lambda x: -s(x) * s(-x)
    ),
    "(1 + tanh(x / 2)) / 2": one(
        lambda x: 0.5 * (1 + gt.tanh(x / 2)), s, lambda x: tanh_slope(x / 2) / 4
    ),
    "log(1 / (1 + exp(-x)))": one(
        lambda x: gt.log(1 / (1 + gt.exp(-x))), lambda x: -sp(-x), lambda x: s(-x)
    ),
    "log(sigmoid(x))": one(lambda x: gt.log(gt.sigmoid(x)), lambda x: -sp(-x), lambda x: s(-x)),
    "log(1 - 1 / (1 + exp(-x)))": one(
        lambda x: gt.log(1 - 1 / (1 + gt.exp(-x))), lambda x: -sp(x), lambda x: -s(x)
    ),
    "log(sigmoid(x) / (1 - sigmoid(x)))": one(
        lambda x: gt.log(gt.sigmoid(x) / (1 - gt.sigmoid(x))), itself, unit
    ),
    "sigmoid(x) (1 - sigmoid(x))": one(
        lambda x: gt.sigmoid(x) * (1 - gt.sigmoid(x)),
        lambda x: s(x) * s(-x),
        lambda x: s(x) * s(-x) * (s(-x) - s(x)),
    ),
    "-(log(p) / 4 + 3 log(1 - p) / 4) of sigmoid": one(
        lambda x: likelihood(gt.sigmoid(x)),
        lambda x: sp(-x) / 4 + 3 * sp(x) / 4,
        lambda x: s(x) - 0.25,
        None,
        unit,
    ),
    "-(log(p) / 4 + 3 log(1 - p) / 4) by hand": one(
        lambda x: likelihood(1 / (1 + gt.exp(-x))),
        lambda x: sp(-x) / 4 + 3 * sp(x) / 4,
        lambda x: s(x) - 0.25,
        None,
        unit,
    ),
    # Hyperbolic functions.
    "(exp(x) - exp(-x)) / 2": one(lambda x: (gt.exp(x) - gt.exp(-x)) / 2, sinh, cosh),
    "(exp(x) + exp(-x)) / 2": one(lambda x: (gt.exp(x) + gt.exp(-x)) / 2, cosh, sinh),
    "(exp(x) - exp(-x)) / (exp(x) + exp(-x))": one(
        lambda x: (gt.exp(x) - gt.exp(-x)) / (gt.exp(x) + gt.exp(-x)), tanh, sech2
    ),
    "(exp(2 x) - 1) / (exp(2 x) + 1)": one(
        lambda x: (gt.exp(2 * x) - 1) / (gt.exp(2 * x) + 1), tanh, sech2
    ),
    "(1 - exp(-2 x)) / (1 + exp(-2 x))": one(
        lambda x: (1 - gt.exp(-2 * x)) / (1 + gt.exp(-2 * x)), tanh, sech2
    ),
    "2 sigmoid(2 x) - 1": one(lambda x: 2 * gt.sigmoid(2 * x) - 1, tanh, sech2),
    "sinh(x) / cosh(x)": one(lambda x: gt.sinh(x) / gt.cosh(x), tanh, tanh_slope),
    "1 + tanh(x)": one(lambda x: 1 + gt.tanh(x), lambda x: 2 * s(2 * x), tanh_slope),
    "1 - tanh(x)": one(lambda x: 1 - gt.tanh(x), lambda x: 2 * s(-2 * x), lambda x: -tanh_slope(x)),
    "log(cosh(x))": one(lambda x: gt.log(gt.cosh(x)), mp_log_cosh, tanh),
    "1 - cos(x)": one(lambda x: 1 - gt.cos(x), lambda x: 2 * mp.sin(x / 2) ** 2, mp.sin),
    "log((1 + x) / (1 - x)) / 2": one(
        lambda x: gt.log((1 + x) / (1 - x)) / 2,
        lambda x: mp.atanh(x) if abs(x) < 1 else mp.nan,
        lambda x: 1 / (1 - x * x) if abs(x) < 1 else mp.nan,
    ),
    # The error function.
    "1 - erf(x)": one(lambda x: 1 - gt.erf(x), mp_erfc, lambda x: -BELL * e(-x * x)),
    "1 + erf(x)": one(lambda x: 1 + gt.erf(x), lambda x: mp_erfc(-x), lambda x: BELL * e(-x * x)),
    "1 - erfc(x)": one(lambda x: 1 - gt.erfc(x), mp_erf, lambda x: BELL * e(-x * x)),
    "2 - erfc(x)": one(lambda x: 2 - gt.erfc(x), lambda x: mp_erfc(-x), lambda x: BELL * e(-x * x)),
    "log(erfc(x))": one(lambda x: gt.log(gt.erfc(x)), mp_log_erfc, mp_mills),
    "log(1 - erf(x))": one(lambda x: gt.log(1 - gt.erf(x)), mp_log_erfc, mp_mills),
    "log(erf(x))": one(
        lambda x: gt.log(gt.erf(x)),
        lambda x: mp.log1p(-mp_erfc(x)) if x > 1 else log(mp_erf(x)),
        lambda x: BELL * e(-x * x) / mp_erf(x) if x > 0 else mp.nan,
    ),
    "log(erfc(-x / sqrt(2)) / 2)": one(
        lambda x: gt.log(0.5 * gt.erfc(-x / np.sqrt(2))),
        mp_log_ndtr,
        lambda x: -mp_mills(-x / mp.sqrt(2)) / mp.sqrt(2),
    ),
    "log((1 + erf(x / sqrt(2))) / 2)": one(
        lambda x: gt.log((1 + gt.erf(x / np.sqrt(2))) / 2),
        mp_log_ndtr,
        lambda x: -mp_mills(-x / mp.sqrt(2)) / mp.sqrt(2),
    ),
    "log(gamma(x))": one(
        lambda x: gt.log(gt.gamma(x)),
        lambda x: mp_gammaln(x) if x > 0 else mp.nan,
        lambda x: mp_digamma(x) if x > 0 else mp.nan,
        unit,
        unit,
    ),
    # Products that are 0 where a factor is.
    "(1 - x) log(1 - x)": one(
        lambda x: (1 - x) * gt.log(1 - x),
        lambda x: (1 - x) * log(1 - x) if x != 1 else mp.mpf(0),
        lambda x: -log(1 - x) - 1,
        None,
        unit,
    ),
    "x log(x)": one(
        lambda x: x * gt.log(x),
        lambda x: x * log(x) if x else mp.mpf(0),
        lambda x: log(x) + 1,
        None,
        unit,
    ),
}

PAIRS: dict[str, Form] = {
    "exp(a) / exp(b)": Form(
        lambda a, b: gt.exp(a) / gt.exp(b),
        lambda a, b: e(a - b),
        (lambda a, b: e(a - b), lambda a, b: -e(a - b)),
    ),
    "exp(a) / (exp(a) + exp(b))": Form(
        lambda a, b: gt.exp(a) / (gt.exp(a) + gt.exp(b)),
        lambda a, b: s(a - b),
        (lambda a, b: s(a - b) * s(b - a), lambda a, b: -s(a - b) * s(b - a)),
    ),
    "log(exp(a) + exp(b))": Form(
        lambda a, b: gt.log(gt.exp(a) + gt.exp(b)),
        lambda a, b: a + sp(b - a),
        (lambda a, b: s(a - b), lambda a, b: s(b - a)),
        (lambda a, b: max(abs(a), abs(b)), None),
    ),
    "log(exp(a) - exp(b))": Form(
        lambda a, b: gt.log(gt.exp(a) - gt.exp(b)),
        lambda a, b: a + mp_log1mexp(b - a),
        (
            lambda a, b: 1 / (1 - e(b - a)) if a > b else mp.nan,
            lambda a, b: 1 / (1 - e(a - b)) if a > b else mp.nan,
        ),
        (lambda a, b: max(abs(a), abs(b)), None),
    ),
    "sqrt(a**2 + b**2)": Form(
        lambda a, b: gt.sqrt(a**2 + b**2),
        mp.hypot,
        (lambda a, b: a / mp.hypot(a, b), lambda a, b: b / mp.hypot(a, b)),
    ),
    "a log(a / b)": Form(
        lambda a, b: a * gt.log(a / b),
        lambda a, b: a * log(ratio(a, b)) if a else mp.mpf(0),
        (lambda a, b: log(ratio(a, b)) + 1, lambda a, b: -ratio(a, b)),
        (lambda a, b: abs(a), unit),
    ),
}

WEIGHTS = np.array([1.0, 0.0, 2.5, 1e-3])
LABEL = 2
LABELS = np.array([0.0, 0.0, 1.0, 0.0])


def mp_logsumexp(x: Any, weights: Any = (1, 1, 1, 1)) -> Any:
    peak = max(a for a, w in zip(x, weights, strict=True) if w)
    return peak + log(sum(w * e(a - peak) for a, w in zip(x, weights, strict=True) if w))


def mp_softmax(x: Any, weights: Any = (1, 1, 1, 1)) -> list[Any]:
    total = mp_logsumexp(x, weights)
    return [w * e(a - total) if w else mp.mpf(0) for a, w in zip(x, weights, strict=True)]


def mp_log_softmax(x: Any) -> list[Any]:
    total = mp_logsumexp(x)
    return [a - total for a in x]


def exps(x: Any) -> Any:
    return gt.exp(x), gt.sum(gt.exp(x), axis=1, keepdims=True)


def shifted(x: Any) -> Any:
    return x - gt.max(x, axis=1, keepdims=True)


def by_hand(x: Any) -> Any:
    weights, total = exps(x)
    return weights / total


def chosen(p: Any) -> Any:
    return p[gt.arange(p.shape[0]), LABEL]


def one_of(form: Callable[..., Any], true: Any, slope: Any) -> Form:
    return Form(form, true, (slope,), (lambda x: max(1, *map(abs, x)), unit))


def mp_loss(x: Any) -> list[Any]:
    return [mp_logsumexp(x) - x[LABEL]]


def mp_loss_slope(x: Any) -> list[Any]:
    return [p - t for p, t in zip(mp_softmax(x), LABELS, strict=True)]


def mp_own_slope(x: Any) -> list[Any]:
    return [mp.mpf(1) - 4 * p for p in mp_softmax(x)]


def softmax_slope(x: Any) -> list[Any]:
    first, *rest = mp_softmax(x)
    return [first * (1 - first), *(-first * p for p in rest)]


def total_of(x: Any) -> list[Any]:
    return [mp_logsumexp(x)]


SLICES: dict[str, Form] = {
    "log(sum(exp(x)))": one_of(lambda x: gt.log(gt.sum(gt.exp(x), axis=1)), total_of, mp_softmax),
    "log(sum(exp(x), keepdims))": one_of(lambda x: gt.log(exps(x)[1]), total_of, mp_softmax),
    "log(mean(exp(x)))": one_of(
        lambda x: gt.log(gt.mean(gt.exp(x), axis=1)),
        lambda x: [mp_logsumexp(x) - log(4)],
        mp_softmax,
    ),
    "log(sum(3 exp(x)))": one_of(
        lambda x: gt.log(gt.sum(3 * gt.exp(x), axis=1)),
        lambda x: [mp_logsumexp(x) + log(3)],
        mp_softmax,
    ),
    "log(sum(w exp(x)))": one_of(
        lambda x: gt.log(gt.sum(WEIGHTS.astype(x.dtype) * gt.exp(x), axis=1)),
        lambda x: [mp_logsumexp(x, WEIGHTS)],
        lambda x: mp_softmax(x, WEIGHTS),
    ),
    "log(exp(a) + exp(b) + exp(c) + exp(d))": one_of(
        lambda x: gt.log(gt.exp(x[:, 0]) + gt.exp(x[:, 1]) + gt.exp(x[:, 2]) + gt.exp(x[:, 3])),
        total_of,
        mp_softmax,
    ),
    "exp(x) / sum(exp(x))": one_of(
        lambda x: by_hand(x)[:, 0], lambda x: mp_softmax(x)[:1], softmax_slope
    ),
    "log(softmax(x))": one_of(
        lambda x: gt.log(gt.softmax(x, axis=1)), mp_log_softmax, mp_own_slope
    ),
    "log(exp(x) / sum(exp(x)))": one_of(lambda x: gt.log(by_hand(x)), mp_log_softmax, mp_own_slope),
    "x - log(sum(exp(x)))": one_of(lambda x: x - gt.log(exps(x)[1]), mp_log_softmax, mp_own_slope),
    "x - max(x) - log(sum(exp(x - max(x))))": one_of(
        lambda x: shifted(x) - gt.log(exps(shifted(x))[1]), mp_log_softmax, mp_own_slope
    ),
    "-sum(t log(softmax(x)))": one_of(
        lambda x: -gt.sum(LABELS.astype(x.dtype) * gt.log(gt.softmax(x, axis=1)), axis=1),
        mp_loss,
        mp_loss_slope,
    ),
    "-sum(t log(exp(x) / sum(exp(x))))": one_of(
        lambda x: -gt.sum(LABELS.astype(x.dtype) * gt.log(by_hand(x)), axis=1),
        mp_loss,
        mp_loss_slope,
    ),
    "-log(softmax(x))[i]": one_of(
        lambda x: -chosen(gt.log(gt.softmax(x, axis=1))), mp_loss, mp_loss_slope
    ),
    "-log(softmax(x)[i])": one_of(
        lambda x: -gt.log(chosen(gt.softmax(x, axis=1))), mp_loss, mp_loss_slope
    ),
    "-log((exp(x) / sum(exp(x)))[i])": one_of(
        lambda x: -gt.log(chosen(by_hand(x))), mp_loss, mp_loss_slope
    ),
    "-log(exp(x)[i] / sum(exp(x)))": one_of(
        lambda x: -gt.log(chosen(gt.exp(x)) / gt.sum(gt.exp(x), axis=1)), mp_loss, mp_loss_slope
    ),
    "-log((exp(x - max) / sum(exp(x - max)))[i])": one_of(
        lambda x: -gt.log(chosen(by_hand(shifted(x)))), mp_loss, mp_loss_slope
    ),
}

KEPT = {
    "exp(log(x))",
    "exp(log1p(x))",
    "expm1(log1p(x))",
    "expm1(log(x))",
    "exp(-log(x))",
    "exp2(log2(x))",
    "log(sqrt(x))",
    "exp(log(1 + exp(x)))",
    "x - max(x) - log(sum(exp(x - max(x))))",
}
"""What has 12 digits of float64 as it is written, and more by a rule, or in float32."""
