"""What PyTensor's own JAX and MLX backends do not run, runs: converted, and as a mode of PyTensor.

Slices by run-time indices, missing values, masks that are reduced, loops that stop, and draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor import scan
from pytensor.gradient import grad
from pytensor.scan.utils import until
from pytensor.tensor.random.op import RandomVariable
from scipy import stats

import graphc
from graphc.interop.pytensor import from_pytensor, mode as graphc_mode
from tests.interop.pytensor.oracle import check, computed

X = np.array([1.5, -2.0, 0.5, 3.0, -1.0, 2.5])


def check_both(inputs: Sequence[Any], outputs: Sequence[Any], values: Any, mode: str) -> None:
    """Check the converted graph, and the function that PyTensor compiles by graphc."""
    check(inputs, outputs, values, mode)
    f = pytensor.function(inputs, outputs, mode=graphc_mode(mode))
    for found, wanted in zip(f(*values), computed(inputs, outputs, values), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-10, 1e-10)


def test_a_slice_by_a_run_time_index(mode: str) -> None:
    x, i, n = pt.vector("x"), pt.lscalar("i"), pt.lscalar("n")
    y = [x[i : i + 2], x[:n], x[i:n:2], x[n - 1 :: -1], pt.set_subtensor(x[i : i + 2], 0.0)]
    slope = grad((x[i : i + 2] ** 2).sum() + (x[:n] ** 3).sum(), x)
    check_both([x, i, n], [*y, slope], [X, 1, 4], mode)


def test_a_run_time_number_as_a_length(mode: str) -> None:
    x, n = pt.vector("x"), pt.lscalar("n")
    y = [pt.zeros((n,)), pt.arange(n), pt.tile(x[:2], n), x[: 2 * n].reshape((n, -1)), pt.eye(n)]
    check_both([x, n], y, [X, 3], mode)


def test_missing_values_written_into_the_known_ones(mode: str) -> None:
    known = np.array([[1.0, np.nan, 2.0], [np.nan, 0.5, np.nan]])
    missing, mu = pt.vector("missing"), pt.vector("mu", shape=(3,))
    whole = pt.set_subtensor(pt.as_tensor(known)[np.isnan(known)], missing)
    logp = -((whole - mu) ** 2).sum()
    values = [np.array([0.1, 0.2, 0.3]), np.array([0.0, 1.0, 2.0])]
    check_both([missing, mu], [whole, logp, *grad(logp, [missing, mu])], values, mode)


def test_a_mask_that_is_computed_and_reduced(mode: str) -> None:
    x = pt.vector("x")
    y = x[x > 0].sum()
    check_both([x], [y, grad(y**2, x), pt.log(x[x > 0]).sum(), x[x > 0].mean()], [X], mode)


def test_elements_written_where_a_computed_mask_holds(mode: str) -> None:
    x = pt.vector("x")
    y = [pt.set_subtensor(x[x < 0], 0.0), pt.inc_subtensor(x[x < 0], 1.0)]
    check_both([x], [*y, grad((y[0] ** 2).sum(), x)], [X], mode)


def test_a_loop_that_stops(mode: str) -> None:
    a = pt.scalar("a")
    states = scan(
        lambda y, a: (y * a + 1, until(y > 10)),
        outputs_info=[pt.ones(())],
        non_sequences=[a],
        n_steps=20,
        return_updates=False,
    )
    check_both([a], [states[-1], states.sum()], [1.3], mode)
    x, last = from_pytensor([a, states[-1]])
    f = graphc.function([x], [last, graphc.grad(last, x)], mode=mode, returns="numpy")
    _, slope = f(1.3)
    nearby = [f(1.3 + h)[0] for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (nearby[0] - nearby[1]) / 2e-6, 1e-6)


DRAWS = {
    "gamma": (pt.random.gamma, {"shape": 2.0, "scale": 1.5}, 3.0),
    "beta": (pt.random.beta, {"alpha": 2.0, "beta": 3.0}, 0.4),
    "poisson": (pt.random.poisson, {"lam": 2.5}, 2.5),
    "binomial": (pt.random.binomial, {"n": 9, "p": 0.3}, 2.7),
    "nbinom": (pt.random.negative_binomial, {"n": 3, "p": 0.4}, 4.5),
    "vonmises": (pt.random.vonmises, {"mu": 0.5, "kappa": 2.0}, 0.5),
    "weibull": (pt.random.weibull, {"shape": 1.0}, 1.0),
    "triangular": (pt.random.triangular, {"left": 0.0, "mode": 1.0, "right": 2.0}, 1.0),
    "hypergeometric": (pt.random.hypergeometric, {"ngood": 5, "nbad": 5, "nsample": 4}, 2.0),
    "t": (pt.random.t, {"df": 9.0}, 0.0),
    "categorical": (pt.random.categorical, {"p": np.array([0.7, 0.2, 0.1])}, 0.4),
    "wald": (pt.random.wald, {"mean": 1.0, "scale": 2.0}, 1.0),
}
"""Distributions that PyTensor lacks on MLX, with their means; on JAX it lacks some."""


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.filterwarnings("ignore:RandomVariable Ops will stop")
def test_distributions_are_drawn_from(name: str, mode: str) -> None:
    draw, parameters, mean = DRAWS[name]
    generator = pytensor.shared(np.random.default_rng(3))
    following, y = draw(**parameters, size=(4000,), rng=generator).owner.outputs
    f = pytensor.function([], y, mode=graphc_mode(mode), updates={generator: following})
    first, second = f(), f()
    assert abs(first.mean() - mean) < 5 * first.std() / 4000**0.5
    assert not np.array_equal(first, second)


class Shifted(RandomVariable):  # type: ignore[misc]
    """A random variable of a user's package, which NumPy draws."""

    name = "shifted"
    signature = "(),()->()"
    dtype = "float64"
    _print_name = ("Shifted", "Shifted")

    @classmethod
    def rng_fn(cls, rng: Any, center: Any, width: Any, size: Any) -> Any:
        return 7 + rng.uniform(center - width, center + width, size)


class ShiftedNormal(type(pt.random.normal)):  # type: ignore[misc]
    """A subclass of PyTensor's random variable, which draws otherwise."""

    @classmethod
    def rng_fn(cls, rng: Any, mean: Any, scale: Any, size: Any) -> Any:
        return Shifted.rng_fn(rng, mean, 3**0.5 * scale, size)


class ShiftedVector(Shifted):
    """A random variable of vectors."""

    signature = "(n),()->(n)"

    @classmethod
    def rng_fn(cls, rng: Any, center: Any, width: Any, size: Any) -> Any:
        batch = np.broadcast_shapes(center.shape[:-1], width.shape) if size is None else size
        return Shifted.rng_fn(rng, center, width[..., None], (*batch, center.shape[-1]))


@pytest.mark.filterwarnings("ignore:.* has no converter", "ignore:RandomVariable Ops will stop")
@pytest.mark.parametrize("size", [None, (4, 2)])
def test_a_random_variable_of_vectors_of_unknown_length_draws_by_its_rng_fn(
    size: Any, mode: str
) -> None:
    center, rng = pt.dmatrix("center"), pytensor.shared(np.random.default_rng(3))
    y = ShiftedVector()(center, 0.5, size=size, rng=rng)
    f = pytensor.function([center], y, mode=graphc_mode(mode))
    for n in (3, 5):
        centers = np.add.outer([0.0, 100.0], 10.0 * np.arange(n))
        draws = f(centers)
        assert draws.shape == (*(size or (2,)), n)
        assert np.all(np.abs(draws - 7 - centers) <= 0.5)
        assert np.unique(draws - centers).size == draws.size


@pytest.mark.filterwarnings("ignore:.* has no converter", "ignore:RandomVariable Ops will stop")
@pytest.mark.parametrize(("kind", "width"), [(Shifted, 2.0), (ShiftedNormal, 12**0.5)])
def test_a_random_variable_of_another_package_draws_by_its_rng_fn(
    kind: Any, width: float, mode: str
) -> None:
    n, rng = pt.lscalar("n"), pytensor.shared(np.random.default_rng(3))
    y = kind()(np.array([[0.0], [100.0]]), 2.0, size=(2, n), rng=rng)
    found = pytensor.function([n], y, mode=graphc_mode(mode))(4001)
    assert found.shape == (2, 4001)
    for row, center in zip(found, (7, 107), strict=True):
        assert stats.kstest(row, stats.uniform(center - width, 2 * width).cdf).pvalue > 1e-3
