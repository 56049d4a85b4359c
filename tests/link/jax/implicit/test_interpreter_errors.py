"""What handlers may not give, and what errors and reports name."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc.tensor as gt
from graphc.errors import HandlerError, MaterializeError
from graphc.implicit import (
    Diagonal,
    ImplicitArray,
    materializations,
    register,
)
from graphc.implicit.functions import implicit
from graphc.implicit.layout import StructureLost
from tests.implicit.scaled import Scaled, array, assert_like, handled, hits, made

X = array(2, 4)
W = made(4, 4)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (lambda x: x.values, r"ArrayImpl of int8\[4, 4\]"),
        (lambda x: x.materialize()[0], r"ArrayImpl of float32\[4\]"),
        (lambda x: Scaled(x.values[:2], x.scale), r"Scaled of float32\[2, 4\]"),
        (lambda x: 3.0, r"3\.0, of the class float,"),
        (lambda x: gt.matrix("x"), r"Tensor"),
        (lambda x: None, r"None, of the class NoneType,"),
    ],
)
def test_a_handler_that_gives_something_else_is_named(given: Any, wanted: str) -> None:
    def wrong(x: Scaled, **_: Any) -> Any:
        return given(x)

    def program(w: Any) -> Any:
        return jnp.tanh(w)  # the line

    with handled("tanh", wrong), pytest.raises(HandlerError) as caught:
        implicit(program)(W)
    line = program.__code__.co_firstlineno + 1
    assert caught.value.where == f"test_interpreter_errors.py:{line}"
    assert "wrong gave" in caught.value.problem
    assert "float32[4, 4]" in caught.value.problem
    caught.match(wanted)


def test_a_handler_that_gives_too_few_results_is_named() -> None:
    def wrong(x: Scaled, **_: Any) -> Any:
        return [x, x, x]

    with handled("split", wrong), pytest.raises(HandlerError, match="which has 2 results"):
        implicit(lambda w: jnp.split(w, 2))(W)


def test_an_error_in_a_handler_has_its_name_and_the_line() -> None:
    def broken(x: Scaled, **_: Any) -> Any:
        raise KeyError("no such thing")

    with handled("tanh", broken), pytest.raises(KeyError) as caught:
        implicit(jax.jit(jnp.tanh))(W)
    (note,) = [x for x in caught.value.__notes__ if "handles" in x]
    assert "broken handles tanh, at test_interpreter_errors.py:" in note


def test_a_handler_that_asks_for_the_same_again_leaves_it_to_the_next() -> None:
    def again(x: Scaled, **_: Any) -> Any:
        return implicit(jnp.tanh)(x)

    with handled("tanh", again), materializations() as told:
        assert_like(implicit(jnp.tanh)(W), jnp.tanh(W.materialize()))
    assert [x.what for x in told] == ["tanh"]


def test_a_handler_that_loses_the_structure_of_traced_fields_leaves_it_to_the_next() -> None:
    @dataclass(frozen=True)
    class Outer(ImplicitArray):
        """An array whose handler needs arrays of JAX, and keeps no structure of them."""

        x: Any

        def materialize(self) -> Any:
            return self.x * 1

    @register("sin")
    def sin(x: Outer, **_: Any) -> Any:
        jnp.sin(x.x)  # a TypeError, unless the field is traced
        raise StructureLost

    x = Outer(Diagonal(jnp.array([1.0, 2.0, 3.0])))
    assert_like(implicit(jnp.sin)(x), np.sin(np.diag([1.0, 2.0, 3.0])))


def test_a_handler_that_never_ends_is_stopped() -> None:
    def endless(x: Scaled, **_: Any) -> Any:
        return implicit(jnp.tanh)(Scaled(x.values, x.scale + 1))

    with handled("tanh", endless), pytest.raises(HandlerError, match="calls itself without end"):
        implicit(jnp.tanh)(W)


def test_handlers_of_nested_structures_may_ask_for_the_inner_one() -> None:
    @dataclass(frozen=True, repr=False)
    class Doubled(ImplicitArray):
        inner: Any

        def materialize(self) -> Any:
            return implicit(lambda x: 2 * x)(self.inner)

    def product(x: jax.Array, w: Doubled, **parameters: Any) -> Any:
        return 2 * implicit(functools.partial(lax.dot_general, **parameters))(x, w.inner)

    register("dot_general")(product)
    with hits() as taken:
        found = implicit(jnp.dot, materialize="error")(X, Doubled(Doubled(W)))
        assert taken.count("dot_general") == 1
    assert_like(found, 4 * X @ W.materialize())


def test_the_policy_names_the_line() -> None:
    def program(w: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            return c + jnp.sinh(w), None  # the line

        return lax.scan(body, jnp.zeros((4, 4)), length=2)[0]

    line = program.__code__.co_firstlineno + 2
    with pytest.raises(MaterializeError, match="would become dense for sinh") as caught:
        implicit(program, materialize="error")(W)
    assert caught.value.where == f"test_interpreter_errors.py:{line}"


def test_lines_of_operators_are_those_of_each_use() -> None:
    with materializations() as told:
        first = W + 1
        second = W + 1
    assert_like(first, second)
    lines = [int(str(x.where).partition(":")[2]) for x in told]
    assert lines[1] == lines[0] + 1
