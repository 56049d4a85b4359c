"""Scans, and their gradients as PyTensor builds them, give the same after conversion."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.gradient import grad, hessian
from pytensor.scan.utils import until

import graphc
from graphc.interop.pytensor import from_pytensor
from tests.interop.pytensor.oracle import check, computed

random = np.random.default_rng(0)
SCANS: dict[str, Callable[[], Any]] = {}


def case(build: Callable[[], Any]) -> Callable[[], Any]:
    SCANS[build.__name__] = build
    return build


scan = partial(pytensor.scan, return_updates=False)


def zero() -> Any:
    return pt.zeros(())


@case
def a_state_and_a_sequence() -> Any:
    x, a = pt.vector("x"), pt.scalar("a")
    y = scan(lambda x, y: a * y + x, sequences=x, outputs_info=[zero()])
    grads = [*grad((y**2).sum(), [x, a]), *grad(y[-1], [x, a])]
    return [x, a], [y, y[-1], *grads], [random.normal(size=5), 0.5]


@case
def states_that_are_arrays() -> Any:
    w, h, x = pt.matrix("w"), pt.vector("h"), pt.matrix("x")
    y = scan(lambda x, y: pt.tanh(w @ y + x), sequences=x, outputs_info=[h])
    values = [random.normal(size=(3, 3)), random.normal(size=3), random.normal(size=(4, 3))]
    return [w, h, x], [y, *grad((y**2).sum(), [w, h, x])], values


@case
def taps() -> Any:
    i, x = pt.matrix("i"), pt.vector("x")
    y = scan(
        lambda x0, x2, a, b: a * 0.5 + pt.sin(b) + x0 * x2,
        sequences=[{"input": x, "taps": [0, 2]}],
        outputs_info=[{"initial": i, "taps": [-3, -1]}],
    )
    return (
        [i, x],
        [y, y[-1], *grad((y**2).sum(), [i, x])],
        [random.normal(size=(3, 2)), np.arange(6.0)],
    )


@case
def taps_far_back_and_a_number_of_steps() -> Any:
    i, n = pt.vector("i"), pt.lscalar("n")
    first = {"initial": i, "taps": [-12, -1]}
    y = scan(lambda a, b: a * 0.5 + b, outputs_info=[first], n_steps=n)
    return [i, n], [y, grad((y**2).sum(), i)], [random.normal(size=12), 7]


@case
def several_outputs() -> Any:
    x = pt.vector("x")
    one = pt.as_tensor(np.array(1.0))
    found = scan(
        lambda x, p, q: [p + x, q * p, p - q, x * 2],
        sequences=x,
        outputs_info=[one, 2 * one, None, None],
    )
    return [x], [*found, grad(sum((y**2).sum() for y in found), x)], [random.normal(size=4)]


@case
def backwards() -> Any:
    x = pt.vector("x")
    y = scan(lambda x, y: y * 0.5 + x, sequences=x, outputs_info=[zero()], go_backwards=True)
    return [x], [y, grad((y**2).sum(), x)], [random.normal(size=5)]


@case
def nested() -> Any:
    x, a = pt.matrix("x"), pt.scalar("a")

    def rows(row: Any) -> Any:
        return scan(lambda v, y: y * a + v, sequences=row, outputs_info=[zero()])[-1]

    y = scan(rows, sequences=x)
    return [x, a], [y, *grad((y**2).sum(), [x, a])], [random.normal(size=(3, 4)), 0.5]


@case
def truncated() -> Any:
    x, a = pt.vector("x"), pt.scalar("a")
    y = scan(lambda x, y: a * y + x, sequences=x, outputs_info=[zero()], truncate_gradient=2)
    return [x, a], [y, *grad(y[-1], [x, a])], [random.normal(size=6), 0.5]


@case
def second_derivatives() -> Any:
    x = pt.vector("x")
    y = scan(lambda x, y: x * pt.sin(y) + y, sequences=x, outputs_info=[pt.ones(())])
    return [x], [hessian((y**2).sum(), x)], [random.normal(size=3)]


@case
def no_steps() -> Any:
    x = pt.vector("x")
    y = scan(lambda x, y: y + x, sequences=x, outputs_info=[pt.ones(())])
    return [x], [y, grad(y.sum(), x)], [np.zeros(0)]


@case
def steps_until_a_condition_holds() -> Any:
    x = pt.scalar("x")
    y = scan(lambda y: (y * 2, until(y > 10)), outputs_info=[x], n_steps=20)
    return [x], [y, y[-1]], [np.array(1.0)]


@case
def rewritten_by_pytensor() -> Any:
    """Buffers are short then, and hold the last rows."""
    x, a, i = pt.vector("x"), pt.scalar("a"), pt.vector("i")
    y = scan(lambda x, y: a * y + x, sequences=x, outputs_info=[zero()])
    z = scan(lambda u, v: u * a + v, outputs_info=[{"initial": i, "taps": [-2, -1]}], n_steps=5)
    outputs = [y[-1], y[-2:], z[-1], z[2:], *grad(y[-1] + z[-1], [x, a, i])]
    mode = Mode("py", "fast_run").excluding("inplace", "fusion")
    graph = pytensor.function([x, a, i], outputs, mode=mode).maker.fgraph
    values = [random.normal(size=5), 0.5, random.normal(size=2)]
    return list(graph.inputs), list(graph.outputs), values


SLOW = ("second_derivatives", "rewritten_by_pytensor")
"""Those that compile for seconds; ``make test`` runs them in NumPy."""

RUNS = [
    pytest.param(
        name, mode, marks=[pytest.mark.exhaustive] if name in SLOW and mode != "NUMPY" else []
    )
    for name in SCANS
    for mode in ("NUMPY", "JAX", "MLX")
]


@pytest.mark.sample("name", every=2)
@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_a_scan_and_its_gradient_give_what_pytensors_give(name: str, mode: str) -> None:
    inputs, outputs, values = SCANS[name]()
    check(inputs, outputs, [np.asarray(x) for x in values], mode)


def test_a_scan_draws_anew_in_each_step_and_call(mode: str) -> None:
    rng = pytensor.shared(np.random.default_rng(1))

    def step(x: Any, rng: Any) -> Any:
        following, y = pt.random.normal.make_node(rng, None, x, 1.0).outputs
        return y, {rng: following}

    x = pt.vector("x")
    with warnings.catch_warnings(action="ignore"):
        xs, updates = pytensor.scan(step, outputs_info=[x], non_sequences=[rng], n_steps=3)
        key, a, walk, (following,) = from_pytensor([rng, x, xs, list(updates.values())])
    f = graphc.function([a], walk, updates={key: following}, mode=mode, returns="numpy")
    first, second = f(np.zeros(4000)), f(np.zeros(4000))
    np.testing.assert_allclose(first.std(1), np.sqrt([1, 2, 3]), 0.05)
    assert not np.isin(first, second).any()


def test_graphcs_gradient_of_a_converted_scan_is_pytensors(mode: str) -> None:
    inputs, _, values = SCANS["a_state_and_a_sequence"]()
    x, a = inputs
    y = scan(lambda x, y: pt.tanh(a * y + x), sequences=x, outputs_info=[zero()])
    cost = (y**2).sum()
    expected = computed(inputs, grad(cost, inputs), values)
    ins, c = from_pytensor([inputs, cost])
    f = graphc.function(ins, graphc.grad(c, ins), mode=mode, returns="numpy")
    for found, wanted in zip(f(*values), expected, strict=True):
        np.testing.assert_allclose(found, wanted, 1e-10)


def test_graphcs_gradient_of_a_scan_that_stops_goes_through_the_steps_done(mode: str) -> None:
    x = pt.scalar("x")
    y = scan(lambda y: (y * 2, until(y > 10)), outputs_info=[x], n_steps=20)[-1]
    a, b = from_pytensor([x, y])
    assert float(graphc.function([a], graphc.grad(b, a), mode=mode)(1.0)) == 32.0


def test_the_gradient_of_a_hidden_markov_model_knows_no_underflow(mode: str) -> None:
    log_pmf, log_moves = pt.matrix("log_pmf"), pt.matrix("log_moves")
    last = scan(
        lambda now, before, moves: pt.logsumexp(before[:, None] + moves, axis=0) + now,
        sequences=log_pmf,
        outputs_info=[pt.zeros(2)],
        non_sequences=[log_moves],
    )[-1]
    inputs = [log_pmf, log_moves]
    ins, slopes = from_pytensor([inputs, grad(pt.logsumexp(last), inputs)])
    f = graphc.function(ins, slopes, mode=mode, returns="numpy")
    values, moves = random.normal(size=(5, 2)), np.log([[0.9, 0.1], [0.2, 0.8]])
    # What is added to every state changes the likelihood by as much, and none of its slopes.
    for found, wanted in zip(f(values - 400, moves), f(values, moves), strict=True):
        assert np.isfinite(wanted).all()
        np.testing.assert_allclose(found, wanted, 1e-10)
