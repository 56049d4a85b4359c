"""What a step makes of a carry, and recurrences without a loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile import mode as modes
from graphc.ir import Graph, toposort
from graphc.link import load
from graphc.loop.build import build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep
from graphc.rewrite import optimize
from graphc.rewrite.loops.dependence import AnalysedLoop
from graphc.rewrite.loops.recurrences import Affine, affine
from tests.reference import evaluate

PLAIN = Loop(Graph([], []))
RANDOM = np.random.default_rng(0)
LINEAR = {"including": ["all", "linear_recurrence"]}
COUPLED = {"including": ["all", "coupled_recurrence"]}

a, b = gt.vector("a"), gt.vector("b")
a_t, b_t, h, g = gt.scalars("a_t", "b_t", "h", "g")
first, second = gt.scalars("first", "second")


def over(nexts: list[Any], rows: list[Any], like: Loop = PLAIN) -> list[Any]:
    """A loop that carries h, and g where there are two, over a and b."""
    init, carries = [first, second][: len(nexts)], [h, g][: len(nexts)]
    n = gt.as_tensor(a.shape[0])
    return build(like, n, None, init, [a, b], LoopStep(carries, [a_t, b_t], nexts, rows))


def opened(*nexts: Any) -> AnalysedLoop:
    y = over(list(nexts), [])[0]
    (loop,) = y.inputs
    return AnalysedLoop.at(loop)


FORMS: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[[Any, Any], Affine]]] = {
    "sum": (lambda h, a, b: h + b, lambda a, b: Affine((1,), b)),
    "difference": (lambda h, a, b: b - h, lambda a, b: Affine((-1,), b)),
    "product": (lambda h, a, b: a * h, lambda a, b: Affine((a,), 0)),
    "both": (lambda h, a, b: a * h + b, lambda a, b: Affine((a,), b)),
    "quotient": (lambda h, a, b: (h + b) / a, lambda a, b: Affine((1 / a,), b / a)),
    "twice": (lambda h, a, b: h + h, lambda a, b: Affine((2,), 0)),
    "choice": (
        lambda h, a, b: gt.where(a > 0, h, b),
        lambda a, b: Affine((gt.where(a > 0, 1.0, 0.0),), gt.where(a > 0, 0.0, b)),
    ),
    "smoothing": (lambda h, a, b: h + a * (b - h), lambda a, b: Affine((1 + -a,), a * b)),
    "same": (lambda h, a, b: h, lambda a, b: Affine((1,), 0)),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_step_is_taken_apart(name: str) -> None:
    make, wanted = FORMS[name]
    body = opened(make(h, a_t, b_t), g + a_t + b_t)
    known = wanted(*body.xs)
    found = affine(body, 0, [0])
    assert found is not None
    values = {body.xs[0]: -1.7, body.xs[1]: 0.6}
    pairs = zip((*found.factors, found.term), (*known.factors, known.term), strict=True)
    for x, y in pairs:
        if isinstance(y, int):
            assert x == y
        else:
            assert np.isclose(*evaluate([x, y], values))  # type: ignore[list-item]


@pytest.mark.parametrize(
    "step",
    [
        lambda h, a, b: gt.tanh(h),
        lambda h, a, b: h * h,
        lambda h, a, b: a / h,
        lambda h, a, b: gt.where(h > 0, h, b),
        lambda h, a, b: gt.maximum(h, b),
    ],
)
def test_what_is_not_linear_is_no_such_form(step: Any) -> None:
    assert affine(opened(step(h, a_t, b_t)), 0, [0]) is None


def by_python(step: Any, init: Any, xs: Any, reverse: bool) -> Any:
    carry, rows = init, np.zeros((len(xs[0]), len(init)))
    for i in range(len(xs[0]))[:: -1 if reverse else 1]:
        rows[i] = carry = step(*carry, *(x[i] for x in xs))
    return np.array(carry), rows


STEPS: dict[str, Any] = {
    "moving average": lambda h, g, a, b: (0.9 * h + 0.1 * b, g + a),
    "one after the other": lambda h, g, a, b: (a * h + b, g * b - h),
    "what was before": lambda h, g, a, b: (b, g / 2 + h),
    "products": lambda h, g, a, b: (h * a, h - g * 2),
    "a difference": lambda h, g, a, b: (b - h, a),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_recurrences_are_what_a_loop_in_python_gives(name: str, reverse: bool) -> None:
    step = STEPS[name]
    nexts = [gt.as_tensor(y) for y in step(h, g, a_t, b_t)]
    outputs = over(nexts, nexts, replace(PLAIN, reverse=reverse))
    after = optimize(Graph([a, b, first, second], outputs), **LINEAR).graph.outputs
    assert not [node for node in toposort(after) if isinstance(node.op, Loop)]
    for n in (0, 1, 2, 7, 500):
        xs = [RANDOM.standard_normal(n) for _ in range(2)]
        if n > 2:
            xs[0][1] = 0.0  # a factor of zero forgets all that was before
        last, rows = by_python(step, (0.3, -1.2), xs, reverse)
        values = dict(zip([a, b, first, second], [*xs, 0.3, -1.2], strict=True))
        found = evaluate(after, values)
        np.testing.assert_allclose(found[:2], last, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(np.stack(found[2:], -1), rows, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "complex128"])
def test_any_number_can_be_carried(dtype: str) -> None:
    x, start = gt.tensor(dtype=dtype, shape=(None, 2)), gt.tensor(dtype=dtype, shape=(2,))
    carry, x_t = gt.tensor(dtype=dtype, shape=(2,)), gt.tensor(dtype=dtype, shape=(2,))
    new = x_t * carry + x_t[0]
    before = build(
        PLAIN, gt.as_tensor(x.shape[0]), None, [start], [x], LoopStep([carry], [x_t], [new], [new])
    )
    after = optimize(Graph([x, start], before), **LINEAR).graph.outputs
    assert not [node for node in toposort(after) if isinstance(node.op, Loop)]
    values = {x: RANDOM.integers(-2, 3, (6, 2)), start: np.array([1, 2])}
    for y, z in zip(evaluate(before, values), evaluate(list(after), values), strict=True):
        assert y.dtype == z.dtype
        np.testing.assert_allclose(z, y, rtol=1e-3)


def test_carries_that_need_each_other_stay() -> None:
    outputs = over([a_t * h + g, h], [h])
    after = optimize(Graph([a, b, first, second], outputs), **LINEAR).graph.outputs
    assert [node for node in toposort(after) if isinstance(node.op, Loop)]


COUPLED_STEPS: dict[str, Any] = {
    "AR(2)": lambda h, g, a, b: (1.3 * h - 0.6 * g + b, h),
    "a rotation": lambda h, g, a, b: (0.6 * h - 0.8 * g, 0.8 * h + 0.6 * g + a),
    "factors of the step": lambda h, g, a, b: (a * h + b * g, (h - g) / 2 + a),
    "that grow": lambda h, g, a, b: (1.02 * h + g / 9 + b, g + h / 9),
}


@pytest.mark.sample("name", "backend")
@pytest.mark.parametrize("backend", ["NUMPY", "MLX", "JAX"])
@pytest.mark.parametrize("name", COUPLED_STEPS)
def test_coupled_scalars_are_what_a_loop_in_python_gives(name: str, backend: str) -> None:
    step = COUPLED_STEPS[name]
    mode = graphc.Mode(backend, recompile="ignore", **COUPLED)
    for reverse in (False, True):
        nexts = list(step(h, g, a_t, b_t))
        outputs = over(nexts, nexts, replace(PLAIN, reverse=reverse))
        f = graphc.function([a, b, first, second], outputs, mode, returns="numpy")
        assert not [node for node in f.graph.nodes if isinstance(node.op, Loop)]
        for n in (0, 1, 2, 33, 200) if backend != "JAX" else (33,):
            xs = [RANDOM.uniform(-0.7, 0.7, n) for _ in range(2)]
            last, rows = by_python(step, (0.3, -1.2), xs, reverse)
            found = f(*xs, 0.3, -1.2)
            # The largest state is what a rounding is relative to.
            size = np.abs(rows).max(initial=1.0)
            rtol = 1e-4 if backend == "MLX" else 1e-11
            np.testing.assert_allclose(found[:2], last, rtol=rtol, atol=rtol * size)
            np.testing.assert_allclose(np.stack(found[2:], -1), rows, rtol=rtol, atol=rtol * size)


def ar2(noise: Any, coefficients: Any, start: Any) -> Any:
    return graphc.scan(
        lambda e, last, before: coefficients[0] * last + coefficients[1] * before + e,
        sequences=noise,
        outputs_info={"initial": start, "taps": [-1, -2]},
    )


@pytest.mark.parametrize("backend", ["NUMPY", "MLX"])
def test_the_gradient_of_coupled_scalars_has_no_loop_either(backend: str) -> None:
    c = gt.vector("c")
    cost = (gt.cos(ar2(b, c, a)) * b).sum()
    slopes = graphc.grad(cost, [a, b, c])
    outputs = [*slopes, *graphc.grad(sum((x**2).sum() for x in slopes), [a, b, c])]
    values = [RANDOM.standard_normal(2), RANDOM.standard_normal(120), np.array([1.1, -0.4])]
    f = graphc.function([a, b, c], outputs, backend, returns="numpy")
    assert not [node for node in f.graph.nodes if isinstance(node.op, Loop)]
    loops = graphc.function([a, b, c], outputs, graphc.Mode("NUMPY", excluding=["loop"]))
    rtol = 1e-3 if backend == "MLX" else 1e-9
    for x, y in zip(f(*values), loops(*values), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * np.abs(y).max())


@pytest.mark.parametrize("backend", ["NUMPY", "MLX"])
def test_products_of_coupled_factors_may_overflow_where_states_do_not(backend: str) -> None:
    # Powers of this step are infinite long before the first state that is not zero.
    noise = np.zeros(2000)
    noise[-9] = 1.0
    c = gt.vector("c")
    f = graphc.function([b, c], ar2(b, c, gt.zeros(2)), backend, returns="numpy")
    found = f(noise, np.array([3.0, 1.0]))
    assert not found[:-9].any()
    np.testing.assert_allclose(found[-9:-5], [1, 3, 10, 33], rtol=1e-6)
    # What is not a number at one step is none of the steps before.
    noise[40] = np.nan
    found = f(noise, np.array([1.2, -0.5]))
    assert not found[:40].any()
    assert np.isnan(found[40:]).all()


def test_coupled_integers_are_exact() -> None:
    n = gt.lscalar("n")
    start = gt.constant(np.array([0, 1]))
    states = graphc.scan(
        lambda last, before: last + before,
        outputs_info={"initial": start, "taps": [-1, -2]},
        n_steps=n,
    )
    f = graphc.function([n], states, "NUMPY")
    assert not [node for node in f.graph.nodes if isinstance(node.op, Loop)]
    assert f(80)[-1] == 37889062373143906


@pytest.mark.parametrize(
    "step",
    [
        lambda h, g, a, b: (gt.where(a > 0, h, g), h),
        lambda h, g, a, b: (gt.tanh(h) + g, h),
        lambda h, g, a, b: (h * g, h),
    ],
)
def test_coupled_scalars_that_are_not_linear_stay(step: Any) -> None:
    outputs = over(list(step(h, g, a_t, b_t)), [h])
    after = optimize(Graph([a, b, first, second], outputs), **COUPLED).graph.outputs
    assert [node for node in toposort(after) if isinstance(node.op, Loop)]


def test_linear_carries_leave_a_loop_that_stays_for_others() -> None:
    outputs = over([a_t * h + b_t, gt.tanh(g * h)], [g])
    after = optimize(Graph([a, b, first, second], outputs), **LINEAR).graph.outputs
    (loop,) = [node for node in toposort(after) if isinstance(node.op, Loop)]
    assert loop.op.carries == 1  # type: ignore[attr-defined]
    values = {a: RANDOM.standard_normal(5), b: RANDOM.standard_normal(5), first: 0.3, second: 2.0}
    for y, z in zip(evaluate(outputs, values), evaluate(list(after), values), strict=True):
        np.testing.assert_allclose(z, y, rtol=1e-12)


def test_the_gradient_is_that_of_the_loop() -> None:
    final, rows = over([a_t * h + gt.sin(b_t)], [h])
    cost = final**2 + gt.sum(rows**3)
    wrt = [a, b, first]
    outputs = graphc.grad(cost, wrt)
    after = optimize(Graph(wrt, outputs), **LINEAR).graph.outputs
    assert not [node for node in toposort(after) if isinstance(node.op, Loop)]
    for n in (0, 1, 6):
        values = {a: RANDOM.standard_normal(n), b: RANDOM.standard_normal(n), first: 0.7}
        for y, z in zip(evaluate(outputs, values), evaluate(list(after), values), strict=True):
            np.testing.assert_allclose(z, y, rtol=1e-10, atol=1e-12)


def test_a_backend_that_gains_from_it_has_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "linear_recurrence" not in graphc.Mode("NUMPY").included
    gaining = replace(load("NUMPY"), gains=frozenset({"linear_recurrence"}))
    monkeypatch.setattr(modes, "load", lambda name: gaining)
    mode = graphc.Mode("NUMPY")
    assert "linear_recurrence" in mode.included
    assert repr(mode) == "Mode('NUMPY')"
    assert "linear_recurrence" not in graphc.Mode("NUMPY", including=["dot"]).included


def test_the_rule_alone_takes_recurrences_out_of_loops_in_loops() -> None:
    # Lengths that a rewrite finds out are then in some types and not in others.
    x, w = gt.matrix("x"), gt.vector("w")
    y = graphc.scan(lambda row: graphc.scan(lambda v: gt.exp(v * row.sum()) - w, row), x)
    outputs = graphc.grad((y**2).sum(), [x, w])
    weights = {"x": RANDOM.standard_normal((4, 3)), "w": RANDOM.standard_normal(3)}
    mode = graphc.Mode("NUMPY", excluding="all").including("linear_recurrence")
    found = graphc.function([x, w], outputs, mode)(**weights)
    wanted = graphc.function([x, w], outputs, "NUMPY")(**weights)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
