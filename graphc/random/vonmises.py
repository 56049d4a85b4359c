"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.loop.functional import loop
from graphc.random.distribution import distribution
from graphc.random.gaussian import least_above_minus_one
from graphc.random.keys import Lengths, child
from graphc.random.reparameterized import ReparameterizedDraw, draw_each
from graphc.random.uniform import uniforms
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.reduce import all, sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.arithmetic import hypot
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.exponential import exp, log
from graphc.tensor.core.tensor import Tensor, constant
from graphc.tensor.core.trigonometric import arcsin, arctan, cos, sin, tan
from graphc.tensor.special.bessel import i0e, i1e
from graphc.tensor.special.series import from_definition, polynomial, wide

__all__ = ["vonmises"]

MAX_CANDIDATES = 1000
"""The largest number of candidates for an angle; more than 13 in 20 are accepted."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)

LARGE = 200.0
"""The kappa from which the distance of the mean cosine from 1 is computed by a series."""

HUGE = 1e150

SERIES = (1 / 2, 1 / 8, 1 / 8, 25 / 128, 13 / 32, 1073 / 1024)


def _shortfall(kappa: Tensor) -> Tensor:
    """Return 1 minus the mean of the angle's cosine (for large kappa, DLMF 10.40.1)."""
    small, large = ew.minimum(kappa, LARGE), ew.maximum(kappa, LARGE)
    return ew.where(
        ew.less(kappa, LARGE), 1 - i1e(small) / i0e(small), polynomial(1 / large, SERIES) / large
    )


@wide
def _by_kappa(x: Tensor, kappa: Tensor) -> Any:
    """Return the derivative of the distribution function with respect to kappa, over the density.

    The integral runs from 0 to an angle near 0, and otherwise from the angle outwards as far as the
    density is not negligible; in both, hardly any digits cancel.
    """
    valid = ew.logical_and(ew.less_equal(ew.abs(x), math.pi), kappa >= 0) & ew.less(kappa, np.inf)
    # At a fixed angle, the derivative falls like 1 / kappa: divide before anything overflows.
    beyond = ew.maximum(ew.where(valid, kappa, 1) / HUGE, 1)
    size, k = ew.where(valid, ew.abs(x), 1), ew.where(valid, kappa, 1) / beyond
    sin_half, cos_half = sin(size / 2), cos(size / 2)
    # The distance of two angles, given the difference of their cosines.
    further = ew.minimum(20 / k, cos_half * cos_half)
    down = sin_half * ew.sqrt(ew.maximum(cos_half * cos_half - further, 0))
    outer = 2 * arcsin(further / (ew.sqrt(sin_half * sin_half + further) * cos_half + down))
    reach = ew.where(ew.less(k * sin_half * sin_half, 0.5), -size, outer)
    half, rest = (expand_dims(z, -1) for z in (size / 2, reach / 2))
    rest = rest * constant((1 + NODES) / 2, bake=True)
    k, short = (expand_dims(z, -1) for z in (k, _shortfall(k)))
    density = exp(-2 * k * sin(rest) * sin(2 * half + rest))
    y = sum(constant(WEIGHTS / 2, bake=True) * (short - 2 * sin(half + rest) ** 2) * density, -1)
    return ew.where(valid, ew.sign(x) * reach * y / beyond, np.nan)


vonmises_by_kappa: ew.Binary = ew.binary(
    "vonmises_by_kappa",
    "The derivative with respect to kappa of a quantile of the von Mises distribution",
    ew.real_inexact,
    lambda g, y, x, kappa: (
        g * (2 * sin(x / 2) ** 2 - _shortfall(kappa) + kappa * sin(x) * y),
        ew.missing_gradient("vonmises_by_kappa", "kappa", kappa),
    ),
    from_definition(_by_kappa),
    expand=_by_kappa,
)


@dataclass(frozen=True, slots=True)
class VonMises(ReparameterizedDraw):
    """An angle from -pi to pi for each key and kappa, with mode 0.

    Source: Best & Fisher, Efficient simulation of the von Mises distribution, Applied Statistics
    28(2), 1979; written so that no digits are lost whatever kappa is.
    """

    name = "random_vonmises"

    def draw(self, k0: Tensor, k1: Tensor, kappa: Tensor) -> Tensor:  # type: ignore[override]
        """Draw angles of a wrapped Cauchy distribution, with rejection."""
        dtype = kappa.dtype
        kappa = ew.where(ew.less(kappa, 0), np.nan, kappa)
        h = hypot(1, 2 * kappa)
        root = ew.sqrt(2 * (1 + h))
        above_kappa = 1 + 1 / (h + 2 * kappa) + root
        total = 1 + h + root
        narrow = above_kappa / (total + 2 * kappa)
        least = above_kappa * above_kappa / (4 * total)

        def step(carry: Any, _: None) -> tuple[Any, None]:
            words, done, result = carry
            words, key = child(words, 0), child(words, 1)
            u = uniforms(child(key, 0), (), dtype, least_above_minus_one(dtype), 1.0)
            v = uniforms(child(key, 1), (), dtype)
            angle = 2 * arctan(narrow * tan(math.pi / 2 * u))
            y = least + 2 * kappa * sin(angle / 2) ** 2
            # NaN, from a negative kappa, is accepted.
            accepted = ew.logical_not(ew.greater(log(v) + (y - 1), log(y)))
            fresh = ew.logical_and(accepted, ew.logical_not(done))
            return (words, ew.logical_or(done, accepted), ew.where(fresh, angle, result)), None

        carry = ((k0, k1), zeros_like(kappa, "bool"), zeros_like(kappa))
        (*_, result), _ = loop(
            step, carry, until=lambda carry: all(carry[1]), max_steps=MAX_CANDIDATES
        )
        return result  # type: ignore[no-any-return]

    def derivatives(self, y: Tensor, kappa: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        return (vonmises_by_kappa(y, kappa),)


@distribution
def vonmises(key: Tensor, shape: Lengths, dtype: str, mu: Any, kappa: Any) -> Tensor:
    """Draw angles from -pi to pi of the von Mises distribution, differentiable in both parameters.

    Args:
        mu: The mode, in radians.
        kappa: The concentration, 0 or positive.

    Distribution:
        - density at x: ``exp(kappa * (cos(x - mu) - 1)) / (2 * pi * i0e(kappa))``,
          where ``-pi <= x <= pi``
        - mean direction: ``mu``
        - circular variance: ``1 - i1e(kappa) / i0e(kappa)``
        - draws are differentiable in mu and kappa

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.vonmises(0.0, [0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    x = mu + draw_each(VonMises(), key, shape, kappa)
    wrapped = ew.remainder(x + math.pi, 2 * math.pi) - math.pi
    return ew.where(ew.less_equal(ew.abs(x), math.pi), x, wrapped)
