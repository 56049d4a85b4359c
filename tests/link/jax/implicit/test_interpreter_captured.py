"""What functions capture: read at each call; implicit arrays are found."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graphc.errors import MaterializeError
from graphc.implicit import materializations, materializing
from graphc.implicit.functions import implicit
from tests.implicit.scaled import Scaled, array, assert_like, handled, hits, made

X = array(2, 4)
W = made(4, 4)


def test_captured_values_are_those_of_the_call() -> None:
    big, factor, settings = array(4, 4), 2, {"more": 1.0}

    def program(x: Any, w: Any) -> Any:
        return x @ w @ big * factor + settings["more"]

    def check() -> None:
        assert_like(run(X, W), X @ W.materialize() @ big * factor + settings["more"])

    run = implicit(program)
    check()
    big = big + 1
    check()
    factor = 3
    check()
    settings["more"] = -1.0
    check()


def test_captured_numpy_arrays_may_be_changed() -> None:
    big = np.ones((4, 4), np.float32)
    run = implicit(lambda x, w: x @ w @ big)
    for _ in range(2):
        assert_like(run(X, W), X @ W.materialize() @ big)
        big *= 2


def test_captured_tracers_do_not_leak() -> None:
    run: list[Any] = []

    def program(x: Any, w: Any) -> Any:
        return x @ w + state["bias"]

    state: dict[str, Any] = {}
    run = implicit(program)

    @jax.jit
    def outer(bias: Any) -> Any:
        state["bias"] = bias
        return run(X, W)

    for i in range(2):
        bias = array(2, 4, seed=i)
        assert_like(outer(bias), X @ W.materialize() + bias)
        state["bias"] = bias
        assert_like(run(X, W), X @ W.materialize() + bias)


KEPT = made(4, 4, seed=7)


class Model:
    def __init__(self, w: Any) -> None:
        self.w = w

    def operator(self, x: Any) -> Any:
        return x @ self.w

    def function(self, x: Any) -> Any:
        return jax.jit(lambda x: jnp.dot(x, self.w))(x)


def test_captured_implicit_arrays_are_found() -> None:
    w = made(4, 4, seed=5)
    model = Model(w)
    programs = [
        lambda x: x @ w,
        lambda x: jnp.dot(x, w),
        lambda x: lax.scan(lambda c, _: (jnp.dot(c, w), None), x, length=1)[0],
        lambda x: jnp.einsum("ij,jk", x, KEPT) * 0 + jnp.dot(x, w),
        model.operator,
        model.function,
        functools.partial(jnp.dot, b=w),
    ]
    for program in programs:
        run = implicit(program, materialize="error")
        for call in (run, run, jax.jit(run)):
            with hits() as taken:
                assert_like(call(X), X @ w.materialize())
                assert "dot_general" in taken


def product_of_two(a: Scaled, b: Scaled, **_: Any) -> Any:
    return a.values.astype(np.float32) * a.scale @ (b.values * b.scale)


CAPTURING: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "on the left": lambda w: lambda v: w @ v,
    "on the right": lambda w: lambda v: v @ w,
    "in a function": lambda w: lambda v: 2 * jnp.dot(w, v),
    "compiled": lambda w: jax.jit(lambda v: w @ v),
    "in a loop": lambda w: lambda v: lax.fori_loop(0, 2, lambda _, c: c + w @ v, jnp.ones((4, 4))),
    "in a branch": lambda w: lambda v: lax.cond(True, lambda: w @ v, lambda: v @ w),
    "in a batch": lambda w: lambda v: jax.vmap(lambda x: x * (w @ v)[0])(jnp.ones((2, 4))),
    "in a gradient": lambda w: lambda v: jax.grad(lambda x: (x * (w @ v)).sum())(2.0),
    "by a method": lambda w: Model(w).operator,
    "by a partial function": lambda w: functools.partial(operator.matmul, w),
}


@pytest.mark.parametrize("name", CAPTURING)
def test_captured_implicit_arrays_and_given_ones_meet_in_their_handler(name: str) -> None:
    w, v = made(4, 4, seed=5), made(4, 4, seed=6)
    wanted = CAPTURING[name](w.materialize())(v.materialize())
    run = implicit(CAPTURING[name](w), materialize="error")
    with handled("dot_general", product_of_two):
        assert_like(run(v), wanted)
        assert_like(jax.jit(run)(v), wanted)


@jax.jit
def traced_outside(w: Any, v: Any) -> Any:
    return implicit(lambda v: w @ v, materialize="error")(v)


def test_captured_arrays_that_are_traced_meet_given_ones_in_their_handler() -> None:
    w, v = made(4, 4, seed=5), made(4, 4, seed=6)
    with handled("dot_general", product_of_two):
        assert_like(traced_outside(w, v), w.materialize() @ v.materialize())


class Linear:
    """A layer as libraries write them: it converts what it holds."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __call__(self, x: Any) -> Any:
        return jnp.matmul(x, jnp.asarray(self.kernel))


def test_what_a_layer_converts_is_an_argument() -> None:
    w = made(4, 4, seed=5)
    layer = Linear(w)
    for program in (layer, lambda x: layer(x) + 0, lambda x: jax.jit(layer.__call__)(x) + 0):
        with hits() as taken, materializing("error"):
            assert_like(implicit(program)(X), X @ w.materialize())
            assert taken == ["dot_general"]


def test_what_is_no_argument_is_converted_as_the_policy_says() -> None:
    layer = Linear(made(4, 4, seed=5))
    hidden = weakref.ref(layer)  # it is not known what this captures

    def within(x: Any) -> Any:
        return hidden()(x)

    for program in (layer, jax.jit(layer), implicit(within)):
        with materializations() as report:
            assert_like(program(X), X @ layer.kernel.materialize())
        assert [(x.type, x.what) for x in report] == [("Scaled", "a conversion by JAX")]
        assert str(report[0].where).startswith("test_interpreter_captured.py:")
        with materializing("error"), pytest.raises(MaterializeError, match="a conversion by JAX"):
            implicit(lambda x: within(x) * 2)(X)


def test_a_conversion_to_numpy_is_up_to_the_policy_where_jax_traces_too() -> None:
    w = made(4, 4, seed=5)
    with materializations() as report:
        found = implicit(lambda x: x @ np.asarray(w))(X)
    assert [x.what for x in report] == ["a conversion by NumPy"]
    assert_like(found, X @ w.materialize())
    with materializing("error"), pytest.raises(MaterializeError, match="a conversion by NumPy"):
        implicit(lambda x: x @ np.asarray(w) * 2)(X)


def test_captured_implicit_arrays_are_those_of_the_call() -> None:
    model = Model(made(4, 4, seed=5))
    run = implicit(lambda x: model.function(x) + 0)
    for seed in (5, 6):
        model.w = made(4, 4, seed=seed)
        assert_like(run(X), X @ model.w.materialize())


def test_an_error_about_captured_arrays_says_what_to_do() -> None:
    w = made(4, 4)

    def program(x: Any) -> Any:
        return jnp.dot(x, w), jnp.dot(x, "text")

    with pytest.raises(TypeError) as caught:
        implicit(program)(X)
    assert "It captures implicit arrays, w: make them arguments." in caught.value.__notes__
