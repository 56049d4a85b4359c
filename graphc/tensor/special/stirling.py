"""The gamma function, its logarithm and its derivative digamma, by series in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import exp, log, log1p
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.core.trigonometric import sin, tan
from graphc.tensor.special.series import polynomial, wide

LARGE = 10
"""The x from which the series in inverse powers are exact to 1e-16."""

STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)

SLOPES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
"""Coefficients of log(x) - 1 / (2 * x) - digamma(x), in inverse squares (DLMF 5.11.2)."""

ZETAS = (
    1 - float(np.euler_gamma), 0.3224670334241132, -0.0673523010531981, 0.020580808427784546,
    -0.007385551028673986, 0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425,
    -0.00022315475845357939, 9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05,
    -9.439488275268397e-06, 4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07,
    -4.492469198764566e-07, 2.1207184805554665e-07, -1.0043224823968099e-07, 4.7698101693639804e-08,
    -2.2711094608943164e-08, 1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09,
)  # fmt: skip
"""(-1)**k * (zeta(k) - 1) / k from k = 2 on, after the first."""

ROOT, BEYOND = 1.4616321449683622, 9.549995429965697e-17
"""The positive root of digamma, in two parts."""

DIGAMMA = (
    0.9510558760318328, -0.21181371064073024, 0.06013562106019684, -0.018550615381739702,
    0.005936795278301875, -0.0019350666647392832, 0.0006368880303847901, -0.00021074841284590126,
    6.99501882655044e-05, -2.325823275895313e-05, 7.741234441368395e-06, -2.578133701610713e-06,
    8.589062683365892e-07, -2.8621216825577647e-07, 9.543261570760428e-08, -3.1807298477301726e-08,
    1.0528133851878114e-08, -3.509235492410718e-09, 1.2466690231864029e-09, -4.1555064115551965e-10,
    8.748420037436287e-11, -2.9161179626023815e-11, 2.916093601085364e-11, -9.720300404202244e-12,
)  # fmt: skip
"""Coefficients of digamma(x) / (x - root) for x from 1 to 2, in 2 * x - 3: through its values at
Chebyshev's points; error 4e-18."""


def stirling(x: Tensor) -> Any:
    """Return the logarithm of gamma over Stirling's formula, for x >= 10 (DLMF 5.11.1)."""
    return polynomial(1 / (x * x), STIRLING) / x


def log_gamma_of_one_plus(a: Tensor) -> Any:
    """Return ``gammaln(1 + a)`` for 0 <= a <= 1/2, exact for a small a (DLMF 5.7.3)."""
    return a * polynomial(a, ZETAS) - log1p(a)


def _reduce(x: Tensor) -> tuple[Any, Any, Any]:
    """Return ``gammaln(z)`` for z = x - k in [3/2, 5/2]; the integer k; the factors between.

    The factors are the product of z, z + 1, ... below x, for 0 < x < 10.
    """
    k = ew.floor(x - 1.5)
    off = x - (k + 2)
    product = ew.where(ew.greater(k, 0), off + 2, 1)
    for j in range(1, LARGE - 2):
        product = product * ew.where(ew.greater(k, j), off + (j + 2), 1)
    return off * polynomial(off, ZETAS), k, product


def _turns(x: Tensor) -> tuple[Any, Any]:
    """Return the nearest integer to x, and x less that integer, exactly."""
    whole = ew.floor(x + 0.5)
    return whole, x - whole


def _positive_gamma(x: Tensor) -> Any:
    small = ew.less(x, LARGE)
    x1 = ew.where(small, x, 1.5)
    log_z, k, product = _reduce(x1)
    below = ew.where(ew.less(k, 0), x1, 1) * ew.where(ew.less(k, -1), x1 + 1, 1)
    # Beyond 200 it is infinite; there exp(-x) would be 0.
    x2 = ew.minimum(ew.maximum(x, LARGE), 200)
    power = x2 ** (x2 / 2 - 0.25)
    large = power * (exp(-x2) * exp(stirling(x2)) * np.sqrt(2 * np.pi).item()) * power
    return ew.where(small, exp(log_z) * product / below, large)


@wide
def gamma_in_parts(x: Tensor) -> Any:
    """Return ``gamma(x)``, below 0 by reflection (DLMF 5.5.3); relative error 1e-15."""
    below = ew.less(x, 0)
    y = _positive_gamma(ew.where(below, 1 - x, ew.where(ew.equal(x, 0), 1, x)))
    whole, rest = _turns(ew.where(below, x, -0.5))
    sign = ew.where(ew.equal(whole, 2 * ew.floor(whole / 2)), 1, -1)
    turned = np.pi / (sign * sin(np.pi * ew.where(ew.equal(rest, 0), 0.5, rest)) * y)
    y = ew.where(below, ew.where(ew.equal(rest, 0) | ew.equal(x, -np.inf), np.nan, turned), y)
    return ew.where(ew.equal(x, 0), 1 / x, y)


@wide
def gammaln_in_parts(x: Tensor) -> Any:
    """Return ``gammaln(x)``; relative error 1e-15, but for next to its zeros below 0."""
    below = ew.less(x, 0)
    z = ew.where(below, 1 - x, x)
    small = ew.less(z, LARGE)
    x1 = ew.where(small, z, 1.5)
    log_z, k, product = _reduce(x1)
    lower = ew.where(ew.less(k, -1), log(x1) + log1p(x1), log1p(x1 - 1))
    inner = log_z + ew.where(ew.less(k, 0), -lower, log(product))
    x2 = ew.maximum(z, LARGE)
    outer = (x2 - 0.5) * (log(x2) - 1) + (np.log(2 * np.pi).item() - 1) / 2 + stirling(x2)
    y = ew.where(small, inner, outer)
    # Below 0 by reflection (DLMF 5.5.3).
    _, rest = _turns(ew.where(below, x, -0.5))
    turned = np.log(np.pi).item() - log(sin(np.pi * ew.abs(rest))) - y
    turned = ew.where(ew.equal(rest, 0), np.inf, turned)
    return ew.where(ew.equal(x, -np.inf), x, ew.where(below, turned, y))


def _positive_digamma(x: Tensor) -> Any:
    small = ew.less(x, LARGE)
    x1 = ew.where(small, x, 1)
    k = ew.floor(x1) - 1
    z = x1 - k
    y = ((z - ROOT) - BEYOND) * polynomial(2 * z - 3, DIGAMMA)
    y = y - ew.where(ew.less(k, 0), 1 / x1, 0)
    for j in range(LARGE - 2):
        y = y + ew.where(ew.greater(k, j), 1 / (z + j), 0)
    x2 = ew.maximum(x, LARGE)
    square = 1 / (x2 * x2)
    return ew.where(small, y, log(x2) - 1 / (2 * x2) - square * polynomial(square, SLOPES))


@wide
def digamma_in_parts(x: Tensor) -> Any:
    """Return ``digamma(x)``; relative error 2e-15, but for next to its zeros below 0."""
    below = ew.less(x, 0)
    y = _positive_digamma(ew.where(below, 1 - x, ew.where(ew.equal(x, 0), 1, x)))
    # Below 0 by reflection (DLMF 5.5.4).
    _, rest = _turns(ew.where(below, x, -0.5))
    turned = y - np.pi / tan(np.pi * ew.where(ew.equal(rest, 0), 0.5, rest))
    y = ew.where(below, ew.where(ew.equal(rest, 0) | ew.equal(x, -np.inf), np.nan, turned), y)
    return ew.where(ew.equal(x, 0), -1 / x, y)
