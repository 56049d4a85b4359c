"""Programs made again for what a wrapped function captured: told with its name and the line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import RecompileWarning
from graphc.interop import wrap_jax

HERE = "test_wrap_jax_recompile.py:"


@pytest.fixture(autouse=True)
def _warning() -> Iterator[None]:
    with graphc.config.change_flags(recompile="warn"):
        yield


def run(y: Any, x: Any) -> Any:
    return graphc.function([x], y, returns="numpy")(np.ones(12))


def told_of(build: Any) -> list[str]:
    """What is told of three functions, each built and dropped."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for i in range(3):
            x = gt.vector("x")
            run(build(x, i), x)
    return [str(each.message) for each in found if each.category is RecompileWarning]


def test_a_captured_array_that_changes_is_a_cause_with_its_name() -> None:
    def build(x: Any, i: int) -> Any:
        batch = np.full((32, 12), float(i))
        return wrap_jax(lambda x: jnp.tanh(batch @ x).sum())(x)

    events: list[graphc.Event] = []
    with graphc.events.subscribe(events.append):
        assert told_of(build) == []
    cause = str(events[-1].cause)
    assert cause.startswith("captured value: `batch`")
    assert HERE in cause


def test_a_captured_number_that_changes_is_told() -> None:
    def build(x: Any, i: int) -> Any:
        rate = 0.5 * i + 0.1
        return graphc.grad(wrap_jax(lambda x: jnp.sum(x**2) * rate)(x), x)

    (text,) = told_of(build)
    assert "0.1 -> 0.6" in text
    assert "[Python scalar, baked in]" in text
    assert HERE in text


def test_a_number_among_the_arguments_that_changes_is_told() -> None:
    (text,) = told_of(wrap_jax(lambda x, n: x * n))
    assert "0 -> 1" in text
    assert "[Python scalar, baked in]" in text


def test_a_runtime_number_is_not_told() -> None:
    def build(x: Any, i: int) -> Any:
        rate = graphc.runtime(0.5 * i)
        return wrap_jax(lambda x: x * rate)(x)

    assert not [text for text in told_of(build) if "compiled" in text.split("\n")[0].split(";")[0]]


def test_other_functions_are_not_told_of_as_numbers() -> None:
    functions = (jnp.sin, jnp.cos, jnp.tanh)
    assert told_of(lambda x, i: wrap_jax(functions[i])(x)) == []
