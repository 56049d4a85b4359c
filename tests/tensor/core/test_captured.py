"""What ``config.warn_on_captured_constants`` tells of: arrays that nobody said are constants."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import config
from graphc.errors import CapturedConstantWarning, UnusedInputError

x, h0 = gt.vector("x"), gt.vector("h0")
LARGE, OTHER = np.arange(10.0), np.arange(20.0)


@pytest.fixture(autouse=True)
def _asked() -> Iterator[None]:
    with config.change_flags(warn_on_captured_constants=True, mode="NUMPY"):
        graphc.function([x], x)  # where a trace ends
        yield


def told(build: Callable[[], Any]) -> list[warnings.WarningMessage]:
    """What is told while a graph is built."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        build()
    assert all(warning.category is CapturedConstantWarning for warning in found)
    return found


LOUD = {
    "an operand": lambda: x * LARGE,
    "an operand on the left": lambda: LARGE * x,
    "an argument of a function": lambda: gt.dot(LARGE, x),
    "a list of numbers": lambda: x + [1.0] * 10,
    "an index": lambda: x[np.arange(10)],
    "a part of a list": lambda: gt.stack([x, LARGE]),
    "what stands for an input": lambda: graphc.function([], x, givens=[(x, LARGE)]),
}

QUIET = {
    "a scalar": lambda: x * 2.5,
    "a 0-d array": lambda: x * np.array(2.5),
    "nine elements": lambda: x * np.arange(9.0),
    "a constant that is said to be one": lambda: x * gt.constant(LARGE),
    "a constant that is baked": lambda: x * gt.constant(LARGE, bake=True),
    "a number marked for run time": lambda: x * graphc.runtime(2.5),
    "a shared variable": lambda: x * graphc.shared(LARGE),
    "an argument of a call": lambda: graphc.function([x], x * 2)(LARGE),
    "a value to evaluate with": lambda: (x * 2).eval({x: LARGE}),
    "an array that graphc makes": lambda: gt.ones(10) * x,
    "known lengths": lambda: gt.tensor(shape=(2,) * 12).shape * 2,
    "a derivative that is verified": lambda: graphc.verify_grad(gt.tanh, [LARGE]),
}


@pytest.mark.parametrize("build", LOUD.values(), ids=LOUD)
def test_an_array_that_is_captured_is_told(build: Callable[[], Any]) -> None:
    assert len(told(build)) == 1


@pytest.mark.parametrize("build", QUIET.values(), ids=QUIET)
def test_nothing_else_is_told(build: Callable[[], Any]) -> None:
    assert told(build) == []


def test_by_default_nothing_is_told() -> None:
    with config.change_flags(warn_on_captured_constants=False):
        assert told(lambda: x * LARGE) == []


def test_the_type_the_line_and_the_ways_out_are_named() -> None:
    (warning,) = told(lambda: x * np.ones((3, 4), "float32"))
    line = f"{Path(__file__).name}:{warning.lineno}"
    assert warning.filename == __file__
    assert "np.ones((3, 4)" in Path(__file__).read_text().splitlines()[warning.lineno - 1]
    for part in ("float32[3, 4]", line, "input", "gt.constant(x)", "warn_on_captured_constants"):
        assert part in str(warning.message)


def test_it_is_told_once_a_trace() -> None:
    assert len(told(lambda: x * LARGE + OTHER[:10] * x)) == 1
    assert told(lambda: x - LARGE) == []
    graphc.function([x], x)
    assert len(told(lambda: x - LARGE)) == 1


def test_a_function_that_is_not_made_ends_no_trace() -> None:
    assert len(told(lambda: x * LARGE)) == 1
    with pytest.raises(UnusedInputError):
        graphc.function([x, h0], x)
    assert told(lambda: x * OTHER) == []


def looped(x_t: Any, h: Any) -> Any:
    """A step that captures two arrays."""
    return gt.tanh(h * LARGE + LARGE[::-1] + x_t)


def test_a_step_is_a_trace_of_its_own() -> None:
    def build() -> Any:
        return graphc.scan(looped, sequences=x, outputs_info=h0)[-1] * LARGE

    found = told(build)
    lines = [Path(__file__).read_text().splitlines()[warning.lineno - 1] for warning in found]
    assert ["gt.tanh" in line for line in lines] == [True, False]


def test_a_step_that_is_written_down_again_is_told_once() -> None:
    # Its first value is a number, whose dtype is found by writing the step down for several.
    def step(x_t: Any, total: Any) -> Any:
        return total + x_t * gt.sum(LARGE)

    assert len(told(lambda: graphc.scan(step, sequences=x, outputs_info=0))) == 1


def test_a_function_made_within_a_step_ends_no_trace() -> None:
    def step(x_t: Any, h: Any) -> Any:
        h = h * LARGE
        graphc.function([x], x)
        return h + LARGE[::-1] + x_t

    assert len(told(lambda: graphc.scan(step, sequences=x, outputs_info=h0))) == 1


def test_the_branches_of_a_choice_are_told_apart() -> None:
    found = told(lambda: graphc.cond(x[0] > 0, lambda: x * LARGE, lambda: x - LARGE))
    assert len(found) == 2


def test_the_gradient_of_a_step_tells_nothing_more() -> None:
    found = told(
        lambda: graphc.grad(graphc.scan(looped, sequences=x, outputs_info=h0)[-1].sum(), h0)
    )
    assert len(found) == 1
