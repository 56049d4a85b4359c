"""Every loop on every backend: values and derivatives against plain Python loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphcError, UnsupportedOperationError
from graphc.ir import is_inexact
from graphc.link import names
from tests.contract.loop_case import LoopCase
from tests.contract.loops import CASES
from tests.contract.tolerance import assert_agree
from tests.modes import lacks

FIRST, SECOND = 1e-8, 1e-6
"""How far slopes may be from differences, and slopes of slopes from differences of differences."""

NARROWER = {"float64": "float32", "complex128": "complex64"}
"""What a backend that lacks a case's dtypes computes it in, and its results are in."""

NARROW = 1e-4
"""How far slopes may be then."""


def derived(
    case: LoopCase, order: int, outputs: list[Any], xs: list[Any]
) -> tuple[list[Any], list[Any]]:
    """The case's derivatives and what differences give, with how far apart they may be."""
    wrt = [xs[i] for i in case.wrt]
    pairs = zip(case.weights, outputs, strict=True)
    parts = [(gt.conj(gt.constant(w)) * y) for w, y in pairs if is_inexact(y.dtype)]
    cost = sum((gt.real(part).sum() for part in parts), gt.constant(0.0))
    slopes = graphc.grad(cost, wrt, disconnected_inputs="ignore")
    found, wanted = list(slopes), [(f"slope {i}", y, FIRST) for i, y in enumerate(case.slopes)]
    if case.felt is not None:
        return found, wanted
    ways = [gt.constant(d) for d in case.directions]
    inexact = [y for y in outputs if is_inexact(y.dtype)]
    found += graphc.pushforward(inexact, wrt, ways, disconnected_outputs="ignore")
    wanted += [(f"tangent {i}", y, FIRST) for i, y in enumerate(case.tangents)]
    if order == 1:
        return found, wanted
    found += graphc.pushforward(slopes, wrt, ways, disconnected_outputs="ignore")
    wanted += [(f"slope {i} moved", y, SECOND) for i, y in enumerate(case.second)]
    along = [gt.real(gt.conj(d) * g).sum() for d, g in zip(ways, slopes, strict=True)]
    found += graphc.grad(sum(along, gt.constant(0.0)), wrt, disconnected_inputs="ignore")
    wanted += [(f"slope {i} of the slope", y, SECOND) for i, y in enumerate(case.second)]
    return found, wanted


def several_tensors(ys: Any) -> list[Any]:
    """Arrays, whether one or several are given."""
    return list(ys) if isinstance(ys, list | tuple) else [ys]


def check(case: LoopCase, backend: str, excluding: Any) -> None:
    """The graph's values are the plain loop's, and its derivatives are differences of these."""
    if backend in case.refused:
        with pytest.raises(GraphcError, match=case.refused[backend]):
            compare(case, backend, excluding)
    elif any(lacks(backend, x.dtype.name) for x in case.given):
        with pytest.raises(
            UnsupportedOperationError, match=rf"mode='{backend}' does not support complex128"
        ):
            compare(case, backend, excluding)
        compare(case, backend, excluding, float64="downcast")
    else:
        compare(case, backend, excluding)


def compare(case: LoopCase, backend: str, excluding: Any, **narrow: Any) -> None:
    """Raise where the graph gives something else than the plain loop and its differences.

    Args:
        case: The graph, and the loop.
        backend: What runs it.
        excluding: Rules that are not applied.
        narrow: The option of a mode that computes in narrower dtypes, or nothing.
    """
    xs = case.symbols()
    outputs = several_tensors(case.build(*xs))
    # Rewritten or not, a backend is given the same operations: first derivatives show these.
    order = min(case.order, 1) if excluding and backend != "NUMPY" else case.order
    derivatives, wanted = derived(case, order, outputs, xs) if order else ([], [])
    f = graphc.function(
        xs,
        [*outputs, *derivatives],
        graphc.Mode(backend, excluding=excluding, **narrow),
        on_unused_input="ignore",
        returns="numpy",
    )
    found = f(*case.given)
    for i, (y, value, t) in enumerate(zip(found, case.values, outputs, strict=False)):
        value = value.astype(NARROWER[value.dtype.name]) if narrow else value
        assert_agree(y, value, f"output {i}", scale=1.0 if is_inexact(t.dtype) else 0.0)
    for y, (what, value, near) in zip(found[len(outputs) :], wanted, strict=True):
        assert y.shape == value.shape, what
        near = NARROW if narrow else near
        np.testing.assert_allclose(y, value, near, near, err_msg=what)


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
