"""JAX functions in graphs: values, derivatives, batches and loops are those of JAX by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.interop import wrap_jax
from tests.interop.by_hand import MODES, assert_equal_trees, by_hand, computed

RNG = np.random.default_rng(12)
MATRIX, VECTOR = RNG.normal(size=(4, 3)), RNG.normal(size=3)

pytestmark = pytest.mark.parametrize("mode", MODES)


def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w) + jax.nn.softmax(w)[0]


def cost(x: Any, w: Any) -> Any:
    return jnp.sum(layer(x, w) ** 3 * jnp.arange(4.0)) + jnp.prod(w)


def test_values_are_those_of_the_function(mode: str) -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    found = computed(mode, [x, w], wrap_jax(layer)(x, w), MATRIX, VECTOR)
    assert_equal_trees(found, by_hand(layer, MATRIX, VECTOR))


def test_a_gradient_is_jaxs(mode: str) -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    found = computed(mode, [x, w], graphc.grad(wrap_jax(cost)(x, w), [x, w]), MATRIX, VECTOR)
    assert_equal_trees(tuple(found), by_hand(jax.grad(cost, (0, 1)), MATRIX, VECTOR))


def test_a_gradient_goes_through_what_is_before_and_after(mode: str) -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    y = gt.exp(wrap_jax(layer)(gt.sin(x), w * w)).sum()

    def same(x: Any, w: Any) -> Any:
        return jnp.exp(layer(jnp.sin(x), w * w)).sum()

    found = computed(mode, [x, w], graphc.grad(y, [x, w]), MATRIX, VECTOR)
    assert_equal_trees(tuple(found), by_hand(jax.grad(same, (0, 1)), MATRIX, VECTOR))


def test_a_hessian_is_jaxs(mode: str) -> None:
    w = gt.vector("w")
    x = gt.constant(MATRIX)
    found = computed(mode, [w], graphc.hessian(wrap_jax(cost)(x, w), w), VECTOR)
    assert_equal_trees(found, by_hand(jax.hessian(cost, 1), MATRIX, VECTOR))


def test_a_third_derivative_is_jaxs(mode: str) -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x) * jnp.exp(x / 2)

    x = gt.scalar("x")
    y = wrap_jax(f)(x)
    for _ in range(3):
        y = graphc.grad(y, x)
    assert_equal_trees(computed(mode, [x], y, 0.7), by_hand(jax.grad(jax.grad(jax.grad(f))), 0.7))


def test_a_jacobian_is_jaxs(mode: str) -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    y = wrap_jax(lambda x, w: jnp.tanh(x @ w))(x, w)
    found = computed(mode, [x, w], graphc.jacobian(y, w), MATRIX, VECTOR)
    wanted = by_hand(jax.jacobian(lambda x, w: jnp.tanh(x @ w), 1), MATRIX, VECTOR)
    assert_equal_trees(found, wanted)


def test_a_pushforward_is_jaxs(mode: str) -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    moved = graphc.pushforward(wrap_jax(layer)(x, w), [x, w], [x * 2, gt.cos(w)])
    wanted = by_hand(lambda x, w: jax.jvp(layer, (x, w), (x * 2, jnp.cos(w)))[1], MATRIX, VECTOR)
    assert_equal_trees(computed(mode, [x, w], moved, MATRIX, VECTOR), wanted)


def test_a_pushforward_by_one_argument_leaves_the_others(mode: str) -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    moved = graphc.pushforward(wrap_jax(layer)(x, w), w, gt.ones_like(w))
    wanted = by_hand(
        lambda x, w: jax.jvp(lambda w: layer(x, w), (w,), (jnp.ones(3),))[1], MATRIX, VECTOR
    )
    assert_equal_trees(computed(mode, [x, w], moved, MATRIX, VECTOR), wanted)


# Rules of the user's own.


@jax.custom_vjp
def odd_slope(x: Any) -> Any:
    return x**2


odd_slope.defvjp(lambda x: (x**2, x), lambda x, g: (7.0 * jnp.cos(x) * g,))


@jax.custom_jvp
def odd_tangent(x: Any) -> Any:
    return x**2


odd_tangent.defjvp(lambda xs, ts: (xs[0] ** 2, 5.0 * jnp.sin(xs[0]) * ts[0]))


def test_a_custom_pullback_is_used(mode: str) -> None:
    x = gt.vector("x")
    y = wrap_jax(odd_slope)(x)
    slope = graphc.grad(y.sum(), x)
    found = computed(mode, [x], [slope, graphc.grad(slope.sum(), x)], VECTOR)
    np.testing.assert_allclose(found[0], 7 * np.cos(VECTOR))
    np.testing.assert_allclose(found[1], -7 * np.sin(VECTOR))


def test_a_pushforward_of_a_custom_pullback_is_its_transpose(mode: str) -> None:
    x = gt.vector("x")
    y = wrap_jax(lambda x: jnp.cumsum(odd_slope(x)))(x)
    moved = graphc.pushforward(y, x, x**3)
    found = computed(mode, [x], moved, VECTOR)
    np.testing.assert_allclose(found, np.cumsum(7 * np.cos(VECTOR) * VECTOR**3))


def test_a_custom_pushforward_is_used(mode: str) -> None:
    x = gt.vector("x")
    y = wrap_jax(odd_tangent)(x)
    outputs = [graphc.grad(y.sum(), x), graphc.pushforward(y, x, gt.ones_like(x))]
    for found in computed(mode, [x], outputs, VECTOR):
        np.testing.assert_allclose(found, 5 * np.sin(VECTOR))


def test_a_while_loop_has_a_pushforward(mode: str) -> None:
    def doubled(x: Any) -> Any:
        return jax.lax.while_loop(lambda c: c < 10, lambda c: c * 2, x)

    x = gt.scalar("x")
    moved = graphc.pushforward(wrap_jax(doubled)(x), x, gt.as_tensor(1.0))
    assert computed(mode, [x], moved, 3.0) == 4.0


# What has no slope.


def test_integers_get_no_gradient_and_pass_none(mode: str) -> None:
    def chosen(x: Any, i: Any) -> Any:
        return x[i] ** 2, i + 1, x > 0

    x, i = gt.vector("x"), gt.lvector("i")
    squares, following, positive = wrap_jax(chosen)(x, i)
    total = squares.sum() + (following * positive).sum()
    places = np.array([0, 2, 2])
    found = computed(mode, [x, i], [graphc.grad(total, x), following], VECTOR, places)
    np.testing.assert_allclose(found[0], 2 * VECTOR * [1, 0, 2])
    np.testing.assert_array_equal(found[1], places + 1)
    assert found[1].dtype == np.int64


def test_a_gradient_of_one_of_several_results_leaves_the_others(mode: str) -> None:
    x = gt.vector("x")
    results = wrap_jax(lambda x: {"a": x**2, "b": jnp.sqrt(x - 100), "c": x.astype(int)})(x)
    found = computed(mode, [x], graphc.grad(results["a"].sum(), x), VECTOR)
    np.testing.assert_allclose(found, 2 * VECTOR)


def test_a_gradient_of_integers_alone_is_none(mode: str) -> None:
    x = gt.vector("x")
    y = wrap_jax(lambda x: jnp.sign(x).astype(int))(x)
    slope = graphc.grad((y * 1.0).sum(), x, disconnected_inputs="ignore")
    assert computed(mode, [x], slope, VECTOR).tolist() == [0, 0, 0]


def test_a_complex_gradient_is_graphcs(mode: str) -> None:
    dtype = "complex64" if mode == "MLX" else "complex128"
    z = gt.tensor("z", dtype=dtype, shape=(None,))

    def f(np: Any, z: Any) -> Any:
        return np.sum(np.abs(z * z + 1j * z) + np.real(z * (2 - 1j)))

    slopes = [graphc.grad(y, z) for y in (wrap_jax(lambda z: f(jnp, z))(z), f(gt, z))]
    value = np.array([1 + 2j, -0.5 + 3j, 2 - 1j], dtype)
    found, wanted = computed(mode, [z], slopes, value)
    assert_equal_trees(found, wanted)


def test_a_complex_pushforward_is_graphcs(mode: str) -> None:
    dtype = "complex64" if mode == "MLX" else "complex128"
    z = gt.tensor("z", dtype=dtype, shape=(None,))

    def f(np: Any, z: Any) -> Any:
        return z * z + np.conj(z)

    moved = [graphc.pushforward(y, z, z * 1j) for y in (wrap_jax(lambda z: f(jnp, z))(z), f(gt, z))]
    value = np.array([1 + 2j, -0.5 + 3j, 2 - 1j], dtype)
    found, wanted = computed(mode, [z], moved, value)
    assert_equal_trees(found, wanted)


# Batches.


def test_a_batch_is_jaxs(mode: str) -> None:
    f = graphc.vectorize(wrap_jax(lambda a, b: jnp.outer(a, b) + a.sum()), "(n),(m)->(n,m)")
    a, b = gt.tensor("a", shape=(5, 1, None)), gt.tensor("b", shape=(2, None))
    values = RNG.normal(size=(5, 1, 3)), RNG.normal(size=(2, 4))
    found = computed(mode, [a, b], f(a, b), *values)
    one = jnp.vectorize(lambda a, b: jnp.outer(a, b) + a.sum(), signature="(n),(m)->(n,m)")
    assert_equal_trees(found, by_hand(one, *values))


def test_a_gradient_of_a_batch_is_jaxs(mode: str) -> None:
    f = graphc.vectorize(wrap_jax(lambda a, b: jnp.sin(a @ b)), "(n),(n)->()")
    a, b = gt.matrix("a"), gt.vector("b")
    values = RNG.normal(size=(5, 3)), VECTOR
    found = computed(mode, [a, b], graphc.grad((f(a, b) ** 2).sum(), [a, b]), *values)
    slope = jax.grad(lambda a, b: (jnp.sin(a @ b) ** 2).sum(), (0, 1))
    assert_equal_trees(tuple(found), by_hand(slope, *values))


def test_a_batch_of_gradients_is_jaxs(mode: str) -> None:
    def slope(a: Any, b: Any) -> Any:
        return graphc.grad(wrap_jax(cost)(a, b), b)

    a, b = gt.tensor3("a"), gt.matrix("b")
    values = RNG.normal(size=(5, 4, 3)), RNG.normal(size=(5, 3))
    found = computed(mode, [a, b], graphc.vectorize(slope, "(n,m),(m)->(m)")(a, b), *values)
    assert_equal_trees(found, by_hand(jax.vmap(jax.grad(cost, 1)), *values))


def test_an_empty_batch_is_empty(mode: str) -> None:
    f = graphc.vectorize(wrap_jax(lambda a: jnp.outer(a, a)), "(n)->(n,n)")
    a = gt.matrix("a")
    assert computed(mode, [a], f(a), np.zeros((0, 3))).shape == (0, 3, 3)


# Loops.


def test_a_scan_of_it_is_jaxs(mode: str) -> None:
    def step(x: Any, h: Any, w: Any) -> Any:
        return jnp.tanh(h * w + x)

    xs, h, w = gt.matrix("xs"), gt.vector("h"), gt.vector("w")
    states = graphc.scan(wrap_jax(step), sequences=xs, outputs_info=h, non_sequences=w)
    values = RNG.normal(size=(6, 3)), VECTOR, RNG.normal(size=3)

    def same(xs: Any, h: Any, w: Any) -> Any:
        return jax.lax.scan(lambda h, x: (step(x, h, w),) * 2, h, xs)[1]

    found = computed(mode, [xs, h, w], states, *values)
    assert_equal_trees(found, by_hand(same, *values))
    slopes = graphc.grad((states**2).sum(), [xs, h, w])
    wanted = by_hand(jax.grad(lambda *a: (same(*a) ** 2).sum(), (0, 1, 2)), *values)
    assert_equal_trees(tuple(computed(mode, [xs, h, w], slopes, *values)), wanted)


def test_what_a_step_captures_gets_its_gradient(mode: str) -> None:
    weights = RNG.normal(size=(3, 4))
    w = gt.constant(weights)

    @wrap_jax
    def step(h: Any) -> Any:
        return jnp.tanh(h @ w @ w.T)

    h = gt.vector("h")
    last = graphc.scan(step, outputs_info=h, n_steps=4)[-1]

    def same(w: Any, h: Any) -> Any:
        for _ in range(4):
            h = jnp.tanh(h @ w @ w.T)
        return h.sum()

    found = computed(mode, [h], graphc.grad(last.sum(), w), VECTOR)
    assert_equal_trees(found, by_hand(jax.grad(same), weights, VECTOR))


def test_a_branch_of_it_is_jaxs(mode: str) -> None:
    x = gt.vector("x")
    sine, cosine = wrap_jax(jnp.sin), wrap_jax(jnp.cos)
    y = graphc.cond(x[0] > 0, sine, cosine, x)
    for value, wanted in ((np.abs(VECTOR), np.sin), (-np.abs(VECTOR), np.cos)):
        np.testing.assert_allclose(computed(mode, [x], y, value), wanted(value))


# Where shapes come from.


def test_its_result_may_decide_a_shape(mode: str) -> None:
    n = gt.lscalar("n")
    y = gt.arange(wrap_jax(lambda n: n * 2 + 1)(n))
    assert computed(mode, [n], y, 2).tolist() == [0, 1, 2, 3, 4]


def test_an_empty_array_is_taken(mode: str) -> None:
    x = gt.vector("x")
    y = wrap_jax(lambda x: (x.sum(), x * 2, x[:1]))(x)
    total, doubled, first = computed(mode, [x], list(y), np.zeros(0))
    assert (float(total), doubled.shape, first.shape) == (0.0, (0,), (0,))
    assert computed(mode, [x], graphc.grad(y[0], x), np.zeros(0)).shape == (0,)


def test_a_function_without_arguments_is_a_constant(mode: str) -> None:
    y = wrap_jax(lambda: jnp.arange(3.0))()
    assert computed(mode, [], y).tolist() == [0, 1, 2]
