"""What functions capture: read at each call; implicit arrays are found."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graphc.implicit.functions import implicit
from tests.implicit.scaled import array, assert_like, hits, made

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
