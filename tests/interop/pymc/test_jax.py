"""Log-densities of PyMC's models as JAX functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytest

from graphc.errors import ArgumentError, UnsupportedOperationError
from graphc.interop.pymc import jax_logp, logp
from tests.interop.pymc.measured import measured, near
from tests.interop.pytensor.models import MODELS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def slope(f: Any, x: Any, direction: Any) -> Any:
    """A derivative by central differences."""
    return (f(x + 1e-6 * direction) - f(x - 1e-6 * direction)) / 2e-6


def test_derivatives_of_all_orders_and_batches_are_those_of_the_density() -> None:
    model = measured()
    f, density = logp(model, mode="NUMPY"), jax_logp(model)
    x = f.ravel(near(model))
    value, gradient = f(x)
    found, slopes = jax.jit(jax.value_and_grad(density))(x)
    np.testing.assert_allclose(found, value, 1e-12)
    np.testing.assert_allclose(slopes, gradient, 1e-12)
    direction = np.array([1.0, -2.0, 0.5])
    _, tangent = jax.jvp(density, (jnp.asarray(x),), (jnp.asarray(direction),))
    np.testing.assert_allclose(tangent, gradient @ direction, 1e-12)
    second = [slope(lambda x: f(x)[1], x, e) for e in np.eye(3)]
    for hessian in (jax.hessian(density), jax.jacrev(jax.jacrev(density))):
        np.testing.assert_allclose(hessian(x), second, 1e-6, 1e-8)
    xs = x + np.arange(4.0)[:, None] / 10
    values, gradients = jax.vmap(jax.value_and_grad(density))(xs)
    expected = f(xs)
    np.testing.assert_allclose(values, expected[0], 1e-12)
    np.testing.assert_allclose(gradients, expected[1], 1e-12)


def test_a_value_and_its_gradient_are_one_program() -> None:
    """The loop of the density is in it once, with its gradient's."""
    density = jax_logp(MODELS["garch"]())
    both = jax.make_jaxpr(jax.value_and_grad(density))(np.zeros(density.size))
    calls = [x for x in both.eqns if x.primitive.name == "graphc"]
    assert len(calls) == 1


def test_a_dict_is_a_pytree_of_values() -> None:
    model = measured()
    flat, density = jax_logp(model), jax_logp(model, flat=False)
    point = near(model)
    value, slopes = jax.value_and_grad(density)(point)
    expected = jax.value_and_grad(flat)(flat.ravel(point))
    np.testing.assert_allclose(value, expected[0], 1e-12)
    np.testing.assert_allclose(flat.ravel(slopes), expected[1], 1e-12)
    assert jnp.shape(flat.unravel(jnp.zeros((5, 3)))["mu"]) == (5, 2)


def test_data_are_read_when_jax_traces_or_are_arguments() -> None:
    model = measured()
    density = jax_logp(model)
    x = np.array([0.1, 0.2, 0.3])
    once = given = jax.jit(density)
    old = density.data()
    before = once(x)
    with model:
        pm.set_data({"seen": [3.0, 4.0]})
    after, _ = logp(model, mode="NUMPY")(x)
    assert once(x) == before
    np.testing.assert_allclose([density(x), given(x, density.data())], [after, after], 1e-12)
    np.testing.assert_allclose(given(x, old), before, 1e-12)
    by_data = jax.grad(density, argnums=1)(x, old)["seen"]
    expected = [slope(lambda d: density(x, {"seen": d}), old["seen"], e) for e in np.eye(2)]
    np.testing.assert_allclose(by_data, expected, 1e-6)
    both = jax.jvp(density, (x, old), (x, {"seen": jnp.ones(2)}))[1]
    np.testing.assert_allclose(both, jax.grad(density)(x, old) @ x + sum(expected), 1e-6)


def test_without_64_bits_places_and_results_have_32() -> None:
    density = jax_logp(measured())
    wide, _ = jax.value_and_grad(density)(jnp.zeros(3))
    with jax.enable_x64(False):
        value, gradient = jax.jit(jax.value_and_grad(density))(jnp.zeros(3))
    assert (value.dtype, gradient.dtype) == ("float32", "float32")
    np.testing.assert_allclose(value, wide, 1e-6)


def test_discrete_variables_have_no_tangents() -> None:
    with pm.Model() as model:
        n, p = pm.Poisson("n", 3), pm.Beta("p", 1, 1)
        pm.Binomial("y", n, p, observed=1)
    with pytest.raises(ArgumentError, match="no gradient: n"):
        jax_logp(model)
    density = jax_logp(model, flat=False)
    point = {"n": np.array(3), "p_logodds__": np.array(0.2)}
    _, expected = logp(model, mode="NUMPY", flat=False)(point)
    slopes = jax.grad(density, allow_int=True)(point)
    np.testing.assert_allclose(slopes["p_logodds__"], expected["p_logodds__"], 1e-12)
    assert slopes["n"].dtype == jax.dtypes.float0


def test_what_does_not_fit_is_an_error() -> None:
    density = jax_logp(measured())
    with pytest.raises(ArgumentError, match="vectors of 3 elements"):
        density(jnp.zeros(4))
    with pytest.raises(ArgumentError, match="no value of sigma_log__"):
        jax_logp(measured(), flat=False)({"mu": jnp.zeros(2)})
    with pytest.raises(ArgumentError, match=r"does not read z.\nIt reads seen"):
        density(jnp.zeros(3), {"z": 1.0})
    with pm.Model() as model:
        pm.Normal(
            "y", pm.Normal("a"), observed=pm.Minibatch(np.arange(9.0), batch_size=3), total_size=9
        )
    with pytest.raises(UnsupportedOperationError, match=r"random.*minibatch"):
        jax_logp(model)
