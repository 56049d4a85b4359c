"""The straight-through estimator, of JAX's arrays and of symbolic ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, ImplicitArrayError, MaterializeError, ShapeError
from graphc.implicit import Diagonal, LoRA, implicit, materializations, materializing, quantize, ste
from graphc.implicit.straight_through import StraightThrough
from tests.implicit.compare import assert_same
from tests.implicit.programs import HITS, Int8

X = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)), jnp.float32)
W = jnp.asarray(np.random.default_rng(1).normal(size=(4, 5)), jnp.float32)


def quantised(w: Any, steps: float = 127.0) -> Int8:
    """The nearest integers times a factor, which is the largest number's share."""
    scale = jnp.max(jnp.abs(w)) / steps
    return Int8(jnp.round(w / scale).astype(jnp.int8), scale)


def by_hand(f: Callable[..., Any], w: Any, *args: Any) -> Any:
    """The estimator in JAX's own terms."""
    y = f(w, *args)
    y = y.materialize() if isinstance(y, Int8) else y
    return jax.lax.stop_gradient(y) + (w - jax.lax.stop_gradient(w))


TRANSFORMATIONS: dict[str, Callable[..., Any]] = {
    "value": lambda f: f,
    "jit": jax.jit,
    "gradient": lambda f: jax.grad(f, (0, 1)),
    "compiled gradient": lambda f: jax.jit(jax.grad(f, (0, 1))),
    "gradient of what is compiled": lambda f: jax.grad(jax.jit(f), (0, 1)),
    "tangent": lambda f: lambda x, w: jax.jvp(f, (x, w), (x + 1, w - 1)),
    "hessian": lambda f: jax.hessian(f, 1),
    "gradient of a gradient": lambda f: jax.grad(
        lambda x, w: (jax.grad(f, 1)(x, w) ** 2).sum(), (0, 1)
    ),
    "gradients of a batch": lambda f: (
        lambda x, w: jax.vmap(jax.grad(f, (0, 1)), (None, 0))(x, jnp.stack([w, -2 * w]))
    ),
    "gradient of a scan": lambda f: jax.grad(
        lambda x, w: jax.lax.scan(lambda c, i: (c + f(x * i, w), i), 0.0, jnp.arange(3.0))[0],
        (0, 1),
    ),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("how", TRANSFORMATIONS)
def test_a_dense_result(how: str) -> None:
    def loss(straight: Any) -> Any:
        return lambda x, w: jnp.sin(x @ straight(w)).sum()

    found = TRANSFORMATIONS[how](loss(ste(jnp.round)))(X, W)
    assert_same(found, TRANSFORMATIONS[how](loss(partial(by_hand, jnp.round)))(X, W))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("how", TRANSFORMATIONS)
def test_an_implicit_result_reaches_its_handlers(how: str) -> None:
    def loss(straight: Any) -> Any:
        return lambda x, w: implicit(lambda x, w: jnp.sin(x @ w).sum())(x, straight(w))

    HITS.clear()
    found = jax.jit(TRANSFORMATIONS[how](loss(ste(quantised))))(X, W)
    assert HITS
    by_formula = TRANSFORMATIONS[how](loss(partial(by_hand, quantised)))
    assert_same(found, jax.jit(by_formula)(X, W))


def layers(straight: Callable[..., Any], x: Any, ws: Any) -> Any:
    for w in ws:
        x = jnp.tanh(x @ straight(w))
    return (x**2).sum()


@pytest.mark.parametrize("count", [1, 2])
def test_training_makes_no_result_whole(count: int) -> None:
    ws = [W @ W.T * (i + 1) for i in range(count)]
    with materializing("error"):
        f = jax.grad(implicit(partial(layers, ste(quantised))), (0, 1))
        found = f(X, ws)
        text = jax.jit(f).lower(X, ws).as_text()
    assert_same(
        found, jax.jit(jax.grad(partial(layers, partial(by_hand, quantised)), (0, 1)))(X, ws)
    )
    # The integers are multiplied as they are.
    assert text.count("tensor<4x4xi8>) -> tensor<4x4xf32>") == 2 * count


def rounded_by_hand(axis: int) -> Callable[[Any], Any]:
    """Fake quantisation to 4 bits, in groups of 64, as it is written for JAX."""

    def rounded(w: Any) -> Any:
        groups = jnp.swapaxes(w, -1, axis).reshape(-1, 64)
        low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
        step = (high - low) / 15
        codes = jnp.clip(jnp.round((groups - low) / step), 0, 15)
        shape = jnp.swapaxes(w, -1, axis).shape
        return jnp.swapaxes((codes * step + low).reshape(shape), -1, axis)

    return lambda w: w + jax.lax.stop_gradient(rounded(w) - w)


@pytest.mark.parametrize("axis", [-1, -2])
def test_training_through_packed_codes_takes_the_memory_of_fake_quantisation(axis: int) -> None:
    x, w = jnp.ones((256, 1024)), jnp.asarray(np.random.default_rng(0).normal(size=(1024, 2048)))
    x, w = x.astype("float32"), w.astype("float32")

    def taken(straight: Any, by: Any) -> tuple[int, int]:
        loss = implicit(lambda x, w: jnp.sum(jnp.tanh(x @ straight(w)) ** 2))
        found = jax.jit(jax.grad(loss, by)).lower(x, w).compile().memory_analysis()
        return found.temp_size_in_bytes, found.output_size_in_bytes

    ours = ste(partial(quantize, kind="int4", axis=axis))
    hand = rounded_by_hand(axis)
    # By hand, w as it is rounded lies where the gradient goes to, so that is counted.
    assert sum(taken(ours, 1)) <= 1.1 * sum(taken(hand, 1))
    assert sum(taken(ours, (0, 1))) <= 1.3 * sum(taken(hand, (0, 1)))
    if axis == -1:
        # Where there is no such place, it is a temporary; codes are an eighth.
        assert taken(ours, 0)[0] < 0.6 * taken(hand, 0)[0]


def test_a_result_of_several_arrays_holds_nothing_of_its_own_size() -> None:
    straight = ste(lambda a, b: Diagonal(a[0] + b[0]))
    y = jax.eval_shape(straight, W @ W.T, W @ W.T)
    assert [x.shape for x in jax.tree.leaves(y)] == [(4,), (4, 4), (4, 4)]


def test_a_result_that_becomes_whole_is_reported_as_what_it_holds() -> None:
    with materializations() as report:
        implicit(jnp.exp)(ste(quantised)(W))
    assert [record.type for record in report] == ["Int8"]


def test_the_value_is_the_functions_own_to_the_last_bit() -> None:
    # x + (f(x) - x) would give 0.
    x = jnp.array([1e8, -0.0, jnp.inf, jnp.nan, 0.4])
    f = lambda x: x * 0 + 1e-8  # noqa: E731
    np.testing.assert_array_equal(ste(f)(x), f(x))
    y = ste(jnp.round)(x)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(jnp.round(x)))


def test_every_floating_array_of_the_results_shape_is_straight() -> None:
    def f(x: Any, scale: Any, *, y: Any, count: Any, tree: Any) -> Any:
        return jnp.round(x * scale) + y * count + tree["z"]

    def loss(x: Any, scale: Any, y: Any, z: Any) -> Any:
        return (W * ste(f)(x, scale, y=y, count=jnp.ones(W.shape, int), tree={"z": z})).sum()

    found = jax.grad(loss, (0, 1, 2, 3))(W, jnp.float32(2.0), 2 * W, 3 * W)
    assert_same(found, (W, jnp.float32(0), W, W))


def test_what_it_captures_is_constant() -> None:
    found = jax.grad(lambda c: ste(lambda x: jnp.round(x * c))(W).sum())(2.0)
    assert found == 0


def test_numbers_and_other_objects_are_given_as_they_are() -> None:
    def f(x: Any, digits: int, how: str, *, scale: float = 1.0) -> Any:
        assert (type(digits), how, type(scale)) == (int, "even", float)
        return jnp.round(x, digits) * scale

    found = jax.grad(lambda x: ste(f)(x, 1, "even", scale=2.0).sum())(W)
    assert_same(found, jnp.ones_like(W))


def test_a_function_without_a_derivative_is_never_derived() -> None:
    def f(x: Any) -> Any:
        return jax.pure_callback(np.rint, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    value, found = jax.value_and_grad(lambda x: (ste(f)(x) ** 2).sum())(W)
    assert_same(found, 2 * jnp.round(W))
    assert_same(value, (jnp.round(W) ** 2).sum())


FLOATS = st.sampled_from(["float16", "bfloat16", "float32"])


@settings(max_examples=12)
@given(FLOATS, FLOATS, st.lists(st.integers(0, 3), max_size=3))
def test_tangents_and_cotangents_are_cast(given: str, gives: str, shape: list[int]) -> None:
    x = jnp.ones(shape, given)
    y, pull = jax.vjp(ste(lambda x: jnp.floor(x).astype(gives)), x)
    assert y.dtype == jnp.dtype(gives)
    (g,) = pull(jnp.full(shape, 0.5, gives))
    assert (g.dtype, g.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(g.astype("float32"), np.full(shape, 0.5))
    _, t = jax.jvp(ste(lambda x: x.astype(gives)), (x,), (2 * x,))
    assert (t.dtype, t.shape) == (y.dtype, y.shape)
    np.testing.assert_array_equal(t.astype("float32"), np.full(shape, 2.0))


def test_an_implicit_argument_gets_its_derivative_by_its_fields() -> None:
    a, b = jnp.ones((4, 2)), jnp.linspace(0, 1, 10).reshape(2, 5)

    def loss(a: Any, b: Any, straight: Any, make: Any) -> Any:
        return (straight(make(a, b)) ** 2).sum()

    found = jax.grad(loss, (0, 1))(a, b, ste(jnp.round), lambda a, b: LoRA(W, a, b))
    wanted = jax.grad(loss, (0, 1))(a, b, partial(by_hand, jnp.round), lambda a, b: W + a @ b)
    assert_same(found, wanted)
    with materializing("error"), pytest.raises(MaterializeError, match=r"derivative of ste|round"):
        jax.grad(lambda a: ste(jnp.round)(LoRA(W, a, b)).sum())(a)


def test_a_cotangent_in_the_results_own_form() -> None:
    y, pull = jax.vjp(ste(quantised), W)
    assert isinstance(y, StraightThrough)
    zero = np.zeros(W.shape, jax.dtypes.float0)
    (g,) = pull(StraightThrough(Int8(zero, jnp.float32(5.0)), 3 * W))
    assert_same(g, 3 * W)


@pytest.mark.sample(every=6)
def test_operations_on_an_implicit_result_by_operators() -> None:
    def loss(x: Any, w: Any, straight: Any) -> Any:
        return (x @ straight(w) + (2 * straight(w)).sum()).sum()

    found = jax.grad(loss, (0, 1))(X, W, ste(quantised))
    assert_same(found, jax.grad(loss, (0, 1))(X, W, partial(by_hand, quantised)))


def test_an_implicit_result_of_another_dtype_or_of_several_arrays() -> None:
    def f(a: Any, b: Any) -> Int8:
        return quantised((a + b).astype(jnp.float32))

    def loss(a: Any, b: Any) -> Any:
        return (implicit(jnp.matmul)(X, ste(f)(a, b)) ** 2).sum()

    half = W.astype(jnp.float16)
    ga, gb = jax.grad(loss, (0, 1))(half, W)
    y = quantised(half + W).materialize()
    assert_same(gb, 2 * X.T @ (X @ y))
    assert ga.dtype == jnp.float16
    np.testing.assert_allclose(ga, gb, rtol=2e-3, atol=1e-2)


# Bad input.


@pytest.mark.parametrize("x", [W, gt.matrix("x"), np.asarray(W)])
def test_a_result_without_a_derivative_is_an_error(x: Any) -> None:
    with pytest.raises(DTypeError, match=r"int32.*which has no derivative"):
        ste(lambda x: x.astype("int32"))(x)


@pytest.mark.parametrize("x", [W, gt.matrix("x", shape=(4, 5)), np.asarray(W)])
def test_a_result_of_another_shape_is_an_error(x: Any) -> None:
    with pytest.raises(ShapeError, match=r"no floating array of that shape"):
        ste(lambda x: x[:2])(x)


@pytest.mark.parametrize("x", [W, np.asarray(W)])
def test_what_is_no_array_is_an_error(x: Any) -> None:
    with pytest.raises(ImplicitArrayError, match="Return one array"):
        ste(lambda x: (x, x))(x)


def test_arrays_of_mlx_are_refused() -> None:
    with pytest.raises(ImplicitArrayError, match="MLX"):
        ste(lambda x: x)(mx.ones(2))


# Symbolic arrays.


def test_a_symbolic_result(mode: str) -> None:
    x = gt.vector("x")
    y = ste(gt.round)(x)
    outputs = [y, graphc.grad((y**3).sum(), x)]
    f = graphc.function([x], outputs, mode=mode, returns="numpy")
    value, slope = f(np.array([0.4, 1.7, -2.2]))
    np.testing.assert_array_equal(value, [0, 2, -2])
    np.testing.assert_array_equal(slope, [0, 12, 12])


def test_a_symbolic_result_that_is_implicit(mode: str) -> None:
    x, w = gt.matrix("x"), gt.matrix("w")
    d = ste(lambda w: Diagonal(gt.round(gt.diagonal(w))))(w)
    assert isinstance(d, StraightThrough)
    y = gt.dot(x, gt.as_tensor(d))
    gradients = graphc.grad(gt.sin(y).sum(), [x, w])
    f = graphc.function([x, w], [y, *gradients], mode=mode, returns="numpy")
    a, b = np.random.default_rng(0).normal(size=(2, 3, 3))
    b *= 3
    diagonal = np.diag(np.round(np.diag(b)))
    wanted = [a @ diagonal, np.cos(a @ diagonal) @ diagonal.T, a.T @ np.cos(a @ diagonal)]
    for found, each in zip(f(a, b), wanted, strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-12, atol=1e-12)


def test_symbolic_tangents_and_batches_go_straight() -> None:
    x = gt.vector("x")
    slopes = graphc.jacobian(ste(gt.round)(x) ** 2, x)
    f = graphc.function([x], slopes, mode="NUMPY")
    np.testing.assert_array_equal(f(np.array([0.4, 1.7])), np.diag([0.0, 4.0]))
    rows = graphc.vectorize(lambda x: graphc.grad((ste(gt.round)(x) ** 2).sum(), x), "(n)->(n)")
    x = gt.matrix("x")
    f = graphc.function([x], rows(x), mode="NUMPY")
    np.testing.assert_array_equal(f(np.array([[0.4, 1.7]])), [[0.0, 4.0]])
