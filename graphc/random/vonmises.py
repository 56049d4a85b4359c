"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.loop.functional import loop
from graphc.random.bits import Lengths, child
from graphc.random.distribution import distribution
from graphc.random.lanes import Lanes, drawn
from graphc.random.normal import above
from graphc.random.uniform import uniforms
from graphc.tensor.arithmetic import hypot
from graphc.tensor.axes import expand_dims
from graphc.tensor.bessel import i0e, i1e
from graphc.tensor.create import zeros_like
from graphc.tensor.elementwise import (
    Elementwise,
    abs,
    binary,
    greater,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    real_inexact,
    remainder,
    sign,
    sqrt,
    undefined,
    where,
)
from graphc.tensor.exponential import exp, log
from graphc.tensor.reduce import all, sum
from graphc.tensor.series import computed, polynomial, wide
from graphc.tensor.tensor import Tensor, constant
from graphc.tensor.trigonometric import arcsin, arctan, cos, sin, tan

MOST = 1000
"""How many candidates there can be for an angle; more than 13 of 20 are taken."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)

LARGE = 200.0
"""From there on the mean's distance from 1 is a series."""

HUGE = 1e150

SERIES = (1 / 2, 1 / 8, 1 / 8, 25 / 128, 13 / 32, 1073 / 1024)


def _shortfall(kappa: Tensor) -> Tensor:
    """1 less the mean of the angle's cosine (of large numbers DLMF 10.40.1)."""
    small, large = minimum(kappa, LARGE), maximum(kappa, LARGE)
    return where(  # type: ignore[no-any-return]
        less(kappa, LARGE), 1 - i1e(small) / i0e(small), polynomial(1 / large, SERIES) / large
    )


@wide
def _by_kappa(x: Tensor, kappa: Tensor) -> Any:
    """The integral of the density's slope on one side of the angle, over its density.

    It is that from 0 for an angle that is next to 0, and otherwise as far out as there is anything:
    of each, next to nothing cancels.
    """
    sound = logical_and(less_equal(abs(x), math.pi), kappa >= 0) & less(kappa, np.inf)
    # For a fixed angle it falls like 1 / kappa, as this does before anything overflows.
    beyond = maximum(where(sound, kappa, 1) / HUGE, 1)
    size, k = where(sound, abs(x), 1), where(sound, kappa, 1) / beyond
    own, other = sin(size / 2), cos(size / 2)
    # Of two angles whose cosines differ by so much, the distance.
    further = minimum(20 / k, other * other)
    down = own * sqrt(maximum(other * other - further, 0))
    outer = 2 * arcsin(further / (sqrt(own * own + further) * other + down))
    reach = where(less(k * own * own, 0.5), -size, outer)
    half, rest = (expand_dims(z, -1) for z in (size / 2, reach / 2))
    rest = rest * constant((1 + NODES) / 2, bake=True)
    k, short = (expand_dims(z, -1) for z in (k, _shortfall(k)))
    density = exp(-2 * k * sin(rest) * sin(2 * half + rest))
    y = sum(constant(WEIGHTS / 2, bake=True) * (short - 2 * sin(half + rest) ** 2) * density, -1)
    return where(sound, sign(x) * reach * y / beyond, np.nan)


vonmises_by_kappa: Elementwise = binary(
    "vonmises_by_kappa",
    "The slope by kappa of the angle below which there is a share of the von Mises distribution",
    real_inexact,
    lambda g, y, x, kappa: (
        g * (2 * sin(x / 2) ** 2 - _shortfall(kappa) + kappa * sin(x) * y),
        undefined("vonmises_by_kappa", "kappa", kappa),
    ),
    computed(_by_kappa),
    expand=_by_kappa,
)


@dataclass(frozen=True, slots=True)
class VonMises(Lanes):
    """An angle from -pi to pi for each key and kappa, the likeliest one 0.

    Source: Best & Fisher, Efficient simulation of the von Mises distribution, Applied Statistics
    28(2), 1979; written so that no digits are lost whatever kappa is.
    """

    @property
    def name(self) -> str:
        return "random_vonmises"

    def numbers(self, k0: Tensor, k1: Tensor, kappa: Tensor) -> Tensor:  # type: ignore[override]
        """Angles of a wrapped Cauchy distribution, of which some are refused."""
        dtype = kappa.dtype
        kappa = where(less(kappa, 0), np.nan, kappa)
        h = hypot(1, 2 * kappa)
        root = sqrt(2 * (1 + h))
        above_kappa = 1 + 1 / (h + 2 * kappa) + root
        total = 1 + h + root
        narrow = above_kappa / (total + 2 * kappa)
        least = above_kappa * above_kappa / (4 * total)

        def step(carry: Any, _: None) -> tuple[Any, None]:
            words, done, taken = carry
            words, own = child(words, 0), child(words, 1)
            u = uniforms(child(own, 0), (), dtype, above(dtype), 1.0)
            v = uniforms(child(own, 1), (), dtype)
            angle = 2 * arctan(narrow * tan(math.pi / 2 * u))
            y = least + 2 * kappa * sin(angle / 2) ** 2
            # So is NaN, as of a negative kappa.
            found = logical_not(greater(log(v) + (y - 1), log(y)))
            fresh = logical_and(found, logical_not(done))
            return (words, logical_or(done, found), where(fresh, angle, taken)), None

        carry = ((k0, k1), zeros_like(kappa, "bool"), zeros_like(kappa))
        (*_, taken), _ = loop(step, carry, until=lambda carry: all(carry[1]), max_steps=MOST)
        return taken  # type: ignore[no-any-return]

    def slopes(self, y: Tensor, kappa: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        return (vonmises_by_kappa(y, kappa),)


@distribution
def vonmises(key: Tensor, shape: Lengths, dtype: str, mu: Any, kappa: Any) -> Tensor:
    """Angles of the von Mises distribution, from -pi to pi; gradients by both parameters.

    Args:
        mu: The likeliest angle, in radians.
        kappa: How much likelier it is than others, 0 or positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.vonmises(0.0, [0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    x = mu + drawn(VonMises(), key, shape, kappa)
    turned = remainder(x + math.pi, 2 * math.pi) - math.pi
    return where(less_equal(abs(x), math.pi), x, turned)  # type: ignore[no-any-return]
