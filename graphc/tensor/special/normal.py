"""The error function and the normal distribution by polynomials, in float64.

Coefficients belong to the polynomials through the functions' values at Chebyshev's points,
computed with 60 digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import exp, log
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.special.series import polynomial, wide

ROOT_HALF = np.sqrt(0.5).item()
ROOT_TWO_PI = np.sqrt(2 * np.pi).item()

ERFCX = (
    1.2329951186255526, -0.1396211168405625, 0.015379652102620042, 0.06809705425469036,
    -0.10103906603632504, 0.09373283499843951, -0.0663303658116485, 0.03716751553591141,
    -0.01619773406595253, 0.005031969992810925, -0.0007577732195352293, -0.0001992567764579197,
    0.00015062130746391778, -2.4398942309069806e-05, -1.1220753452725425e-05, 5.709201212226352e-06,
    2.909062968371427e-07, -8.249127434964572e-07, 7.89343963476142e-08, 1.1009041560728304e-07,
    -2.1917128684776733e-08, -1.470518755238763e-08, 3.979908209935334e-09, 1.7887492189077536e-09,
    -5.47796315403793e-10, -1.37212432109558e-10, 4.335744696880128e-11,
)  # fmt: skip
"""Coefficients of (1 + 2 * x) * erfcx(x) for x >= 0, in (x - 4) / (x + 4); error 2e-17 (after
Shepherd & Laframboise, Math. Comp. 36, 1981)."""

ERF = (
    0.9654687386698673, -0.1405360890227171, 0.019852496688983708, -0.0022854855611440673,
    0.00021751715604160108, -1.7537169441492004e-05, 1.2233827383524026e-06, -7.511569160710623e-08,
    4.115800597661665e-09, -2.03524938661036e-10, 9.167606748998164e-12, -3.7910973708931526e-13,
    1.4548169783352384e-14, -5.16472878942302e-16,
)  # fmt: skip
"""Coefficients of erf(x) / x for |x| <= 1, in 2 * x * x - 1; error 1e-18."""

ERFINV = (
    0.9327066662749881, 0.051874703907177536, 0.006181808576726758, 0.0009148027403644767,
    0.00015013013053765588, 2.6177977723317635e-05, 4.74999530782189e-06, 8.864769765147032e-07,
    1.689390982309312e-07, 3.27202200129208e-08, 6.419348264259088e-09, 1.2726448605196243e-09,
    2.54514904541036e-10, 5.1323972573455195e-11, 1.0405151698080588e-11, 2.076275683364122e-12,
    4.2508816720435685e-13, 1.0973406731939194e-13, 2.268026608345425e-14,
)  # fmt: skip
"""Coefficients of erfinv(y) / y for |y| <= 0.6, in y * y / 0.18 - 1; error 1e-18."""


def scaled_erfc(x: Tensor) -> Any:
    """Return ``exp(x * x) * erfc(x)`` for x >= 0; relative error 1e-15."""
    return polynomial(1 - 8 / (x + 4), ERFCX) / (1 + 2 * x)


def _erf_near(x: Tensor) -> Any:
    return x * polynomial(2 * x * x - 1, ERF)


@wide
def erf_in_parts(x: Tensor) -> Any:
    """Return ``erf(x)``; relative error 1e-15."""
    size = ew.abs(x)
    near = ew.less(size, 1)
    far = ew.sign(x) * (1 - exp(-size * size) * scaled_erfc(size))
    return ew.where(near, _erf_near(ew.where(near, x, 0)), far)


@wide
def erfc_in_parts(x: Tensor) -> Any:
    """Return ``erfc(x)``; relative error 1e-15, and ``x * x`` times 1e-16 for a large x."""
    size = ew.abs(x)
    near = ew.less(size, 0.5)
    tail = exp(-size * size) * scaled_erfc(size)
    return ew.where(
        near, 1 - _erf_near(ew.where(near, x, 0)), ew.where(ew.less(x, 0), 2 - tail, tail)
    )


def _erfinv_near(y: Tensor) -> Any:
    return y * polynomial(y * y / 0.18 - 1, ERFINV)


def _quantile(q: Tensor) -> Any:
    """Return the x above which the normal distribution has the probability q <= 0.2.

    Two steps of Halley's rule, each of which cubes the error, start from the approximation of
    Abramowitz & Stegun 26.2.23, whose error is 5e-4.
    """
    log_q = log(q)
    t = ew.sqrt(-2 * log_q)
    above = polynomial(t, (2.515517, 0.802853, 0.010328))
    x = t - above / polynomial(t, (1.0, 1.432788, 0.189269, 0.001308))
    for _ in range(2):
        # The excess of the part above x, over the density.
        excess = ROOT_TWO_PI * (scaled_erfc(ROOT_HALF * x) / 2 - exp(x * x / 2 + log_q))
        x = x + excess / (1 - x * excess / 2)
    return x


@wide
def ndtri_in_parts(p: Tensor) -> Any:
    """Return the x for which ndtr(x) is p; relative error 2e-15."""
    off = 2 * p - 1
    near = ew.less_equal(ew.abs(off), 0.6)
    middle = _erfinv_near(ew.where(near, off, 0)) / ROOT_HALF
    q = ew.minimum(p, 1 - p)
    tail = ew.less(q, 0.25) & ew.greater(q, 0)
    far = _quantile(ew.where(tail, q, 0.2))
    far = ew.where(tail, far, ew.where(ew.equal(q, 0), np.inf, np.nan))
    return ew.where(near, middle, ew.sign(off) * far)


@wide
def erfinv_in_parts(y: Tensor) -> Any:
    """Return the x for which erf(x) is y; relative error 2e-15."""
    size = ew.abs(y)
    near = ew.less_equal(size, 0.6)
    tail = ew.greater(size, 0.5) & ew.less(size, 1)
    far = ROOT_HALF * _quantile((1 - ew.where(tail, size, 0.7)) / 2)
    far = ew.where(tail, far, ew.where(ew.equal(size, 1), np.inf, np.nan))
    return ew.where(near, _erfinv_near(ew.where(near, y, 0)), ew.sign(y) * far)
