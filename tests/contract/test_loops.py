"""Every loop on every backend: values and derivatives against plain Python loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link import names
from tests.contract.loop_check import check
from tests.contract.loops import CASES
from tests.contract.tolerance import assert_agree

pytestmark = pytest.mark.gpu


@pytest.mark.sample(every=6, rest=6)
@pytest.mark.parametrize("excluding", [(), ("all",)], ids=["rewritten", "as written"])
@pytest.mark.parametrize("backend", names())
@pytest.mark.parametrize("name", CASES)
def test_a_loop_gives_what_a_plain_loop_gives(name: str, backend: str, excluding: Any) -> None:
    check(CASES[name], backend, excluding)


def climbed(h: float, x: Any, limit: float) -> tuple[list[float], float]:
    """States until one is above a limit, and the slope of their sum by the first."""
    found, slope, total = [], 1.0, 0.0
    for x_t in x:
        slope, h = slope * (1 + x_t * np.cos(h)), h + x_t * np.sin(h)
        found.append(h)
        total += slope
        if h > limit:
            break
    return found, total


def climbing(x_t: Any, h: Any) -> Any:
    """A step of these."""
    return h + x_t * gt.sin(h)


@pytest.mark.parametrize("backend", names())
def test_one_function_does_any_number_of_steps(backend: str) -> None:
    x, h0, n = gt.vector("x"), gt.scalar("h0"), gt.lscalar("n")
    trace = graphc.scan(climbing, x, h0, n_steps=n)
    outputs = [trace, graphc.grad(trace.sum(), h0)]
    f = graphc.function([x, h0, n], outputs, backend, returns="numpy")
    values = np.linspace(0.1, 0.8, 8)
    for length, steps in [(8, 3), (8, 0), (8, 8), (5, 1), (5, 5), (8, 3), (1, 0), (1, 1), (8, 6)]:
        states, slope = climbed(0.5, values[:steps], np.inf)
        found, by_first = f(values[:length], 0.5, steps)
        assert_agree(found, np.array(states), steps, scale=1.0)
        assert_agree(by_first, np.array(slope), steps, scale=1.0)


@pytest.mark.parametrize("backend", names())
def test_one_function_stops_wherever_its_arguments_say(backend: str) -> None:
    def step(x_t: Any, h: Any) -> Any:
        new = climbing(x_t, h)
        return new, graphc.until(new > limit)

    x, h0, limit = gt.vector("x"), gt.scalar("h0"), gt.scalar("limit")
    trace = graphc.scan(step, x, h0)
    outputs = [trace, trace[-1], graphc.grad(trace.sum(), h0), trace.shape[0]]
    f = graphc.function([x, h0, limit], outputs, backend, returns="numpy")
    values = np.linspace(0.1, 0.8, 8)
    for length, most in [(8, 9.0), (8, 0.5), (8, 0.6), (8, 1.5), (4, 0.7), (1, 0.0), (8, 9.0)]:
        states, slope = climbed(0.5, values[:length], most)
        found, last, by_first, done = f(values[:length], 0.5, most)
        assert_agree(found, np.array(states), most, scale=1.0)
        assert_agree(last, np.array(states[-1]), most, scale=1.0)
        assert_agree(by_first, np.array(slope), most, scale=1.0)
        assert done == len(states)


@pytest.mark.parametrize("backend", names())
def test_the_last_state_of_no_step_is_the_first(backend: str) -> None:
    x, h0, n = gt.matrix("x"), gt.vector("h0"), gt.lscalar("n")
    by_sequence = graphc.scan(lambda x_t, h: h * x_t, x, h0)[-1]
    by_number = graphc.scan(lambda h: gt.sin(h) + 1, outputs_info=h0, n_steps=n)[-1]
    outputs = [by_sequence, by_number]
    outputs += [graphc.grad((3 * y).sum(), h0) for y in outputs]
    f = graphc.function([x, h0, n], outputs, backend, returns="numpy")
    first, second, *slopes = f(np.zeros((0, 2)), np.array([0.5, -1.0]), 0)
    assert_agree(first, np.array([0.5, -1.0]))
    assert_agree(second, np.array([0.5, -1.0]))
    for slope in slopes:
        assert_agree(slope, np.array([3.0, 3.0]))


def test_there_are_more_than_a_hundred_of_them() -> None:
    assert len(CASES) >= 120
