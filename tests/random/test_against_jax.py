"""Draws of a key are those of jax.random, and so are their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link import names
from tests.modes import uncompiled

pytestmark = pytest.mark.gpu

BACKENDS = names()
DTYPES = ("float32", "float64")
SIZE = (200, 3)
PARAMETER = (0.3, 1.0, 40.0)
"""One for each of three columns."""

TOLERANCES = {"float32": 2e-4, "float64": 1e-10}
"""Relative, and of what is next to 0 absolute: inverse error functions and powers of half a dozen
steps, each rounded, of libraries that differ in the last digits."""


@dataclass(frozen=True)
class Same:
    """A draw, and that of jax.random.

    Attributes:
        draw: Takes the parameter, an array of three numbers, and what every distribution takes.
        own: Takes JAX's module, the key, the parameter and JAX's keywords.
    """

    draw: Callable[..., Any]
    own: Callable[..., Any]


R = gt.random
ROWS = {
    "uniform": Same(lambda a, **k: R.uniform(-a, 3, **k), lambda key, a, **k: jr.uniform(
        key, minval=-a, maxval=3, **k)),
    "unit": Same(lambda a, **k: R.uniform(**k) * a, lambda key, a, **k: jr.uniform(key, **k) * a),
    "normal": Same(lambda a, **k: R.normal(1, a, **k), lambda key, a, **k: 1 + a * jr.normal(
        key, **k)),
    "lognormal": Same(lambda a, **k: R.lognormal(0, a / 40, **k), lambda key, a, **k: jr.lognormal(
        key, a / 40, **k)),
    "halfnormal": Same(lambda a, **k: R.halfnormal(0, a, **k), lambda key, a, **k: a * abs(
        jr.normal(key, **k))),
    "exponential": Same(R.exponential, lambda key, a, **k: a *
        jr.exponential(key, **k)),
    "weibull": Same(R.weibull, lambda key, a, **k: jr.weibull_min(
        key, 1.0, a, **k)),
    "rayleigh": Same(R.rayleigh, jr.rayleigh),
    "pareto": Same(R.pareto, jr.pareto),
    "laplace": Same(lambda a, **k: R.laplace(0, a, **k), lambda key, a, **k: a * jr.laplace(
        key, **k)),
    "logistic": Same(lambda a, **k: R.logistic(0, a, **k), lambda key, a, **k: a * jr.logistic(
        key, **k)),
    "gumbel": Same(lambda a, **k: R.gumbel(0, a, **k), lambda key, a, **k: a * jr.gumbel(
        key, **k)),
    "cauchy": Same(lambda a, **k: R.cauchy(0, a, **k), lambda key, a, **k: a * jr.cauchy(
        key, **k)),
    "halfcauchy": Same(lambda a, **k: R.halfcauchy(0, a, **k), lambda key, a, **k: a * abs(
        jr.cauchy(key, **k))),
    "triangular": Same(lambda a, **k: R.triangular(-1, a, 2 * a, **k),
        lambda key, a, **k: jr.triangular(key, jnp.full_like(a, -1), a, 2 * a, **k)),
    "truncnorm": Same(lambda a, **k: R.truncnorm(-a, 1, **k), lambda key, a, **k:
        jr.truncated_normal(key, -a, 1, **k)),
    "wald": Same(lambda a, **k: R.wald(a / 40, **k), lambda key, a, **k: jr.wald(
        key, a / 40, **k)),
    "gamma": Same(R.gamma, jr.gamma),
    "chisquare": Same(R.chisquare, jr.chisquare),
    "t": Same(R.t, jr.t),
    "beta": Same(lambda a, **k: R.beta(a, 2, **k), lambda key, a, **k: jr.beta(key, a, 2, **k)),
    "dirichlet": Same(
        lambda a, size, **k: R.dirichlet(a, size=size[:1], **k),
        lambda key, a, shape, **k: jr.dirichlet(key, a, shape=shape[:1], **k),
    ),
}  # fmt: skip


BY_REJECTION = ("gamma", "chisquare", "t", "beta", "dirichlet")
INVERTED = [name for name in ROWS if name not in BY_REJECTION]
PARTS = [
    *[pytest.param(INVERTED[i::4], id=f"inverted {i}") for i in range(4)],
    pytest.param(["gamma"], id="gamma"),
    # JAX compiles each of them for seconds.
    pytest.param(BY_REJECTION[1:], id="made of gamma", marks=pytest.mark.exhaustive),
]


@cache
def of_jax(name: str, dtype: str) -> Any:
    """What jax.random draws, as a function of the parameter."""
    key = jr.key([*ROWS].index(name))
    return lambda a: ROWS[name].own(key, a, shape=SIZE, dtype=dtype)


def drawn(name: str, dtype: str, a: Any) -> Any:
    y = ROWS[name].draw(a, size=SIZE, dtype=dtype, rng=gt.random.key([*ROWS].index(name)))
    assert y.type == gt.TensorType(dtype, SIZE), name
    return y


@pytest.mark.sample(every=3, rest=2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", PARTS)
def test_draws_are_those_of_jax(part: Sequence[str], backend: str, dtype: str) -> None:
    a = gt.vector("a", dtype=dtype, shape=(3,))
    outputs = {name: drawn(name, dtype, a) for name in part}
    f = graphc.function([a], outputs, uncompiled(backend), returns="numpy")
    found = f(np.array(PARAMETER, dtype))
    for name, y in found.items():
        with jax.enable_x64(dtype == "float64"):
            wanted = np.asarray(of_jax(name, dtype)(jnp.array(PARAMETER, dtype)))
        # Beside its scale a number next to 0 is as exact.
        scale = np.array(PARAMETER) if wanted.shape == SIZE and name != "beta" else 1.0
        off = np.max(np.abs(y - wanted) / (np.abs(wanted) + 1e-2 * scale))
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        assert off < TOLERANCES[dtype], (name, off)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", [name for name in ROWS if name != "wald"])
def test_gradients_are_those_of_jax(name: str) -> None:
    """But of Wald's distribution, where JAX takes no notice of which root is chosen."""
    a = gt.dvector("a")
    weights = np.random.default_rng(0).uniform(0.5, 1.5, SIZE)
    y = drawn(name, "float64", gt.specify_shape(a, (3,)))
    slope = graphc.grad((weights * y * y).sum(), a)
    f = graphc.function([a], slope, mode="NUMPY")
    with jax.enable_x64(True):
        draw = of_jax(name, "float64")
        wanted = jax.grad(lambda a: (weights * draw(a) ** 2).sum())(jnp.array(PARAMETER))
    # JAX's own gradients of gamma numbers are exact to some 1e-7.
    np.testing.assert_allclose(f(np.array(PARAMETER)), wanted, 1e-6, 1e-6 * np.max(np.abs(wanted)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_uniform_numbers_of_half_the_width_are_those_of_jax(backend: str) -> None:
    dtypes = ("bfloat16", "float16")
    key = R.key(11)
    draws = [R.uniform(size=300, dtype=dtype, rng=key) for dtype in dtypes]
    found = graphc.function([], draws, uncompiled(backend), returns="numpy")()
    for y, dtype in zip(found, dtypes, strict=True):
        wanted = np.asarray(jr.uniform(jr.key(11), (300,), dtype))
        assert y.dtype == wanted.dtype
        np.testing.assert_array_equal(y.astype(float), wanted.astype(float))
