"""Executables that were loaded follow JAX's settings, and take part in what JAX traces."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link import CompileContext
from tests.link.executables import (
    Kept,
    loaded,
    made,
    pair,
    same,
    square,
)


def test_products_of_another_precision_are_another_executable() -> None:
    a, b = gt.matrices("a", "b", dtype="float32")
    x = np.eye(3, dtype="float32")
    execute, context = loaded([a, b], [a @ b], x, x)
    for _ in range(2):
        with jax.default_matmul_precision("float32"):
            same(execute(x, x), x)
        same(execute(x, x), x)
    assert context.kinds == ["compile"]
    text = execute.lower(x, x).as_text()
    with jax.default_matmul_precision("float32"):
        assert execute.lower(x, x).as_text() != text


def test_nothing_else_depends_on_the_precision() -> None:
    inputs, outputs, arguments = pair("float32")
    execute, context = loaded(inputs, outputs, *arguments)
    with jax.default_matmul_precision("float32"):
        execute(*arguments)
    assert context.kinds == []


def test_a_loaded_executable_can_be_traced() -> None:
    execute, _ = square()
    x = np.array([1, 2, 3], "float32")
    same(jax.jit(execute)(x), x * x)
    same(jax.grad(lambda x: execute(x).sum())(x), 2 * x)
    same(jax.vmap(execute)(np.stack([x, x])), np.stack([x * x] * 2))
    assert "dot" not in str(jax.make_jaxpr(execute)(x))
    same(execute(x), x * x)


def test_several_results_are_traced_with_the_code_around() -> None:
    """As those of ``jax.jit`` are: a new value must not be stored while JAX traces."""
    x = gt.vector("x", dtype="float32")
    execute, context = loaded([x], [x + 1, x * 2], np.ones(3, "float32"))
    kinds: list[bool] = []

    def around(y: Any) -> Any:
        found = execute(np.ones(3, "float32"))
        kinds.extend(isinstance(x, jax.core.Tracer) for x in found)
        return found[0] + found[1] + y

    same(jax.jit(around)(np.ones(3, "float32")), np.full(3, 5, "float32"))
    assert kinds == [True, True]
    same(execute(np.ones(3, "float32")), [np.full(3, 2, "float32")] * 2)
    assert context.kinds == []


def test_what_is_first_called_while_jax_traces_is_loaded_only_later() -> None:
    x = gt.vector("x", dtype="float32")
    context = Kept()
    one = np.ones(3, "float32")
    made([x], [x + 1, x * 2], context)(one)
    execute = made([x], [x + 1, x * 2], context)
    same(jax.jit(lambda y: execute(one)[0] + y)(one), np.full(3, 3, "float32"))
    same(execute(one), [np.full(3, 2, "float32")] * 2)


def test_jit_can_be_turned_off() -> None:
    execute, context = square()
    x = np.array([1, 2, 3], "float32")
    with jax.disable_jit():
        same(execute(x), x * x)
        same(execute(x[:2]), x[:2] * x[:2])
    assert context.kinds == []


def test_not_a_number_is_found_where_jax_looks_for_it() -> None:
    x = gt.vector("x", dtype="float32")
    wrong = np.array([1, -1, 1], "float32")
    errors = []
    for execute in (made([x], [gt.log(x)], CompileContext()), loaded([x], [gt.log(x)], wrong)[0]):
        with jax.debug_nans(True), pytest.raises(graphc.errors.OperationError) as caught:
            execute(wrong)
        errors.append(str(caught.value))
        assert np.isnan(execute(wrong)[1])
    assert "invalid value (nan) encountered in log" in errors[0]
    assert errors[0] == errors[1]
