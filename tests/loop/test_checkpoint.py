"""Loops in segments: the same values and gradients, and less memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import Pick, to_gathered_form, toposort
from graphc.loop.loop import Loop

RANDOM = np.random.default_rng(5)


def net(x: Any, h0: Any, w: Any, **how: Any) -> list[Any]:
    """Two outputs of a recurrence with taps, and the last value of a third."""
    return graphc.scan(
        lambda x_t, p, q, b, s: [gt.tanh(x_t + p * w + q * 0.3 + b), b * 0.9 + q * x_t[0], s + q],
        x,
        [
            {"initial": gt.stack([h0, h0 * 2]), "taps": [-2, -1]},
            h0,
            {"initial": h0, "traced": False},
        ],
        **how,
    )


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 12, 16, 17])
@pytest.mark.parametrize("backwards", [False, True])
def test_values_and_gradients_are_those_without_checkpoints(
    n: int, known: bool, backwards: bool
) -> None:
    x, h0, w = gt.tensor("x", shape=(n if known else None, 2)), gt.vector("h0"), gt.scalar("w")
    given = RANDOM.standard_normal((n, 2)), RANDOM.standard_normal(2), 0.7
    found = []
    for checkpoint in (None, "sqrt", 1, 3, 5, 40):
        ys = net(x, h0, w, checkpoint=checkpoint, go_backwards=backwards)
        cost = (ys[0] ** 2).sum() + gt.sin(ys[1]).sum() + (ys[2] ** 3).sum()
        f = graphc.function([x, h0, w], [*ys, *graphc.grad(cost, [x, h0, w])], mode="NUMPY")
        found.append(f(*given))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("n", [0, 1, 7, 9])
def test_lengths_may_be_known_only_when_it_runs(n: int, mode: str) -> None:
    x, h0, w = gt.matrix("x"), gt.vector("h0"), gt.scalar("w")
    given = RANDOM.standard_normal((n, 2)), RANDOM.standard_normal(2), 0.7
    found = []
    for checkpoint in (None, "sqrt", 4):
        ys = net(x, h0, w, checkpoint=checkpoint)
        slopes = graphc.grad((ys[0] ** 2).sum() + ys[2].sum(), [x, h0, w])
        found.append(graphc.function([x, h0, w], [*ys, *slopes], mode=mode)(*given))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)


def test_second_derivatives_go_through_segments() -> None:
    x, h0 = gt.vector("x"), gt.scalar("h0")
    given = {x: RANDOM.standard_normal(11), h0: np.array(0.4)}
    found = []
    for checkpoint in (None, "sqrt"):
        h = graphc.scan(lambda x_t, h: gt.sin(h * x_t) + h, x, h0, checkpoint=checkpoint)[-1]
        f = graphc.function([x, h0], graphc.hessian_vector_product(h, x, gt.cos(x)), mode="NUMPY")
        found.append(f(*given.values()))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10)


def test_a_root_that_divides_the_length_leaves_no_steps_over() -> None:
    for n in (12, 1000, 1024):
        x = gt.vector(shape=(n,))
        last = graphc.scan(lambda x_t, h: h * x_t, x, 1.0, checkpoint="sqrt")
        assert len([node for node in toposort([last]) if isinstance(node.op, Loop)]) == 1


def peak(checkpoint: Any, n: int, traced: bool = False) -> int:
    """The bytes that a gradient by a first state takes while it runs, the last state being used."""
    x, h0 = gt.matrix("x"), gt.vector("h0")
    states = graphc.scan(
        lambda x_t, h: gt.tanh(x_t + h * gt.sin(h)),
        x,
        {"initial": h0, "traced": traced},
        checkpoint=checkpoint,
    )
    last = states[-1] if traced else states
    f = graphc.function([x, h0], graphc.grad(last.sum(), h0), mode="NUMPY")
    given = RANDOM.standard_normal((n, 500)), RANDOM.standard_normal(500)
    f(*given)
    tracemalloc.start()
    f(*given)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_a_gradient_stores_as_much_as_the_root_of_the_number_of_steps() -> None:
    state = 500 * 8
    assert peak(None, 400) > 400 * state
    # 20 states between segments, 20 within one, and what a step holds.
    assert peak("sqrt", 400) < 60 * state
    assert peak("sqrt", 397) < 60 * state


def test_so_it_does_where_the_last_of_all_states_is_taken() -> None:
    state = 500 * 8
    assert peak("sqrt", 400, traced=True) < 60 * state
    assert peak("sqrt", 397, traced=True) < 60 * state


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("n", [1, 12, 17])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_state_is_that_without_checkpoints(n: int, known: bool, reverse: bool) -> None:
    x, h0 = gt.vector("x", shape=(n if known else None,)), gt.scalar("h0")
    last = 0 if reverse else -1
    found = []
    for checkpoint in (None, "sqrt", 5):
        _, (h, twice, shifted) = graphc.loop(
            lambda h, x_t: (gt.sin(h * x_t) + h, (gt.sin(h * x_t) + h, 2 * h, h + x_t)),
            h0,
            x,
            reverse=reverse,
            checkpoint=checkpoint,
        )
        y = h[last] + twice[last] * shifted[last]
        f = graphc.function([x, h0], [y, *graphc.grad(y, [x, h0])], mode="NUMPY")
        found.append(f(np.linspace(-1, 1, n), 0.4))
        (end,) = to_gathered_form([h[last]])
        loops = [node.op for node in toposort([end]) if isinstance(node.op, Loop)]
        assert loops
        assert isinstance(end.op, Pick)
        assert end.op.index < loops[-1].carries
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)
