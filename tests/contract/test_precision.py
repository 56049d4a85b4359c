"""64-bit numbers are exact under JAX, whatever its own setting says, and the setting stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link.jax.backend import wide

pytestmark = pytest.mark.gpu

THIRD = 1 / 3


@pytest.fixture(params=[False, True], ids=["off", "on"])
def setting(request: pytest.FixtureRequest) -> Iterator[bool]:
    """The user's own choice for the thread, there before graphc is called."""
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    yield
    assert jax.config.jax_enable_x64 == before


def test_the_setting_is_off_in_these_tests() -> None:
    assert not jax.config.jax_enable_x64


EXACT: dict[str, Any] = {
    "float64": (lambda x: x / 3, np.float64(1.0), np.float64(1.0) / 3),
    "int64": (lambda x: x * 3 + 1, np.int64(2**40), np.int64(3 * 2**40 + 1)),
    "uint64": (lambda x: x + 1, np.uint64(2**63), np.uint64(2**63 + 1)),
    "complex128": (lambda x: x * 1j / 3, np.complex128(1), np.complex128(1j) / 3),
}


@pytest.mark.parametrize("dtype", EXACT)
def test_64_bits_are_exact(dtype: str, setting: bool) -> None:
    f, value, expected = EXACT[dtype]
    x = gt.scalar("x", dtype=dtype)
    y = graphc.function([x], f(x), mode="JAX")(value)
    assert (y.dtype, np.asarray(y)) == (expected.dtype, expected)


def test_64_bits_within_a_graph_of_32_are_exact(setting: bool) -> None:
    x = gt.fscalar("x")
    y = (((x.astype("float64") + 2.0**-40) - 1) * 2.0**40).astype("float32")
    f = graphc.function([x], y, mode=graphc.Mode("JAX", excluding=["canonicalize", "stabilize"]))
    assert float(f(np.float32(1))) == 1.0


def test_gradients_and_constants_are_exact(setting: bool) -> None:
    x = gt.vector("x")
    weights = gt.constant(np.arange(20) / 3)
    f = graphc.function([x], graphc.grad((gt.exp(x) * weights).sum(), x), mode="JAX")
    value = np.linspace(0, 1, 20)
    np.testing.assert_allclose(f(value), np.exp(value) * np.arange(20) / 3, rtol=1e-15)


def test_shared_values_are_exact(setting: bool) -> None:
    total = graphc.shared(0.0)
    f = graphc.function([], updates=[(total, total + THIRD)], mode="JAX")
    for _ in range(3):
        f()
    assert total.get_value() == THIRD + THIRD + THIRD


def test_lengths_that_inputs_decide_are_exact(setting: bool) -> None:
    n = gt.lscalar("n")
    f = graphc.function([n], gt.arange(n) / 3, mode="JAX")
    np.testing.assert_array_equal(f(np.int64(5)), np.arange(5) / 3)


def test_a_graph_of_32_bits_computes_in_32(setting: bool) -> None:
    x = gt.fvector("x")
    f = graphc.function([x], [x / 3, x.sum(), graphc.grad(gt.exp(x).sum(), x)], mode="JAX")
    value = np.array([1, 2**-20], np.float32)
    for found, expected in zip(
        f(value), (value / np.float32(3), value.sum(), np.exp(value)), strict=True
    ):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_graph_of_32_bits_is_not_called_in_64_bits() -> None:
    x = gt.fvector("x")
    program = graphc.function([x], gt.exp(x[: x.shape[0] - 1]), mode="JAX")._program
    assert not wide(program)


def test_a_users_own_jax_code_sees_no_difference(setting: bool) -> None:
    own = "float64" if setting else "float32"
    x = gt.vector("x")
    f = graphc.function([x], x / 3, mode="JAX")
    double = jax.jit(lambda v: v * 2)
    before = double(jnp.ones(3))
    y = f(np.ones(3))
    assert before.dtype == double(jnp.ones(3)).dtype == jnp.asarray(0.5).dtype == own
    assert jnp.arange(3).dtype == ("int64" if setting else "int32")
    assert y.dtype == "float64"
    assert jax.config.jax_enable_x64 == setting


def test_an_error_within_a_call_leaves_the_setting(setting: bool) -> None:
    x, y = gt.vectors("x", "y")
    f = graphc.function([x, y], x + y, mode="JAX")
    with pytest.raises(graphc.errors.ShapeError):
        f(np.ones(2), np.ones(3))
    assert jax.config.jax_enable_x64 == setting
    assert jnp.asarray(0.5).dtype == ("float64" if setting else "float32")
