"""Branches: only the chosen one is computed, forwards and backwards, wherever it stands."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GraphcError,
    InvalidGraphError,
    RuntimeShapeError,
    ShapeError,
)
from graphc.ir import Graph, Node, TensorType, toposort
from graphc.ir.graph import check
from graphc.link import names
from graphc.loop import Loop
from graphc.loop.branch import Switch, choice
from graphc.rewrite import optimize
from graphc.rewrite.loops.stage import sink_graph
from graphc.tensor import Tensor
from tests.grad.differences import check_derivatives
from tests.modes import lacks

DONE: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class Noted(graphc.Op):
    """The identity, whose computations are counted, and those of its gradient."""

    label: str

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: Any) -> Any:
        DONE[self.label] += 1
        return x

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (noted(f"d{self.label}", g),)

    def batch(self, size: Any, batched: Any, x: Tensor) -> Tensor:
        return Tensor.make(self, x)


def noted(label: str, x: Any) -> Any:
    return Tensor.make(Noted(label), gt.as_tensor(x))


def work(f: Any, *values: Any) -> dict[str, int]:
    """What a call computes, and how often."""
    DONE.clear()
    f(*values)
    return dict(DONE)


def compiled(inputs: Any, outputs: Any) -> Any:
    return graphc.function(inputs, outputs, graphc.Mode("NUMPY", excluding=["coupled_recurrence"]))


def switches(*outputs: Any) -> list[Node]:
    return [node for node in toposort(outputs) if isinstance(node.op, Switch)]


# What is computed.


def test_only_the_chosen_branch_is_computed() -> None:
    x = gt.scalar("x")
    f = compiled([x], graphc.ifelse(x > 0, noted("a", x + 1), noted("b", x * 2)))
    assert work(f, 1.0) == {"a": 1}
    assert work(f, -1.0) == {"b": 1}


def test_only_the_chosen_branch_is_differentiated() -> None:
    x = gt.scalar("x")
    y = graphc.ifelse(x > 0, noted("a", gt.exp(x)), noted("b", gt.sin(x)))
    f = compiled([x], [y, graphc.grad(y**2, x)])
    assert work(f, 1.0) == {"a": 1, "da": 1}
    assert work(f, -1.0) == {"b": 1, "db": 1}


def test_a_second_derivative_computes_the_chosen_branch_alone() -> None:
    x = gt.scalar("x")
    y = graphc.ifelse(x > 0, noted("a", gt.exp(x)), noted("b", gt.sin(x)))
    f = compiled([x], graphc.grad(graphc.grad(y, x), x))
    assert not {"b", "db", "ddb"} & work(f, 1.0).keys()
    assert not {"a", "da", "dda"} & work(f, -1.0).keys()


def test_one_of_several_functions_is_computed() -> None:
    i, x = gt.lscalar("i"), gt.scalar("x")
    functions = [lambda x, k=k: noted(str(k), x + k) for k in range(4)]
    f = compiled([i, x], graphc.switch_case(i, functions, x))
    for k in range(4):
        assert work(f, k, 1.0) == {str(k): 1}


def test_what_two_of_three_need_is_not_computed_for_the_third() -> None:
    i, x = gt.lscalar("i"), gt.scalar("x")
    y = noted("y", gt.exp(x))
    f = compiled([i, x], graphc.switch_case(i, [lambda: y, lambda: y * y, lambda: x]))
    assert [work(f, k, 1.0) for k in range(3)] == [{"y": 1}, {"y": 1}, {}]


def test_what_all_branches_need_is_computed_once() -> None:
    x = gt.scalar("x")
    y = noted("y", gt.exp(x))
    f = compiled([x], [graphc.ifelse(x > 0, y + 1, y * y), y])
    assert work(f, 1.0) == {"y": 1}


def test_what_is_needed_elsewhere_is_computed_once() -> None:
    x = gt.scalar("x")
    a, b = noted("a", gt.exp(x)), noted("b", gt.sin(x))
    f = compiled([x], [graphc.ifelse(x > 0, a, b), a + 1])
    assert work(f, 1.0) == {"a": 1}
    assert work(f, -1.0) == {"a": 1, "b": 1}


def test_choices_by_one_condition_share_what_they_need() -> None:
    x = gt.scalar("x")
    a = noted("a", gt.exp(x))
    f = compiled([x], [graphc.ifelse(x > 0, a, 0.0), graphc.ifelse(x > 0, a * a, x)])
    assert work(f, 1.0) == {"a": 1}
    assert work(f, -1.0) == {}


def test_choices_by_different_conditions_share_what_they_need() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    a = noted("a", gt.exp(x))
    f = compiled([x, y], graphc.ifelse(x > 0, a, 0.0) + graphc.ifelse(y > 0, a * a, x))
    assert work(f, 1.0, 1.0) == {"a": 1}


def test_branches_within_branches_are_computed_where_both_are_chosen() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    inner = graphc.ifelse(y > 0, noted("a", x + 1), noted("b", x + 2))
    z = graphc.ifelse(x > 0, inner, noted("c", x + 3))
    f = compiled([x, y], [z, graphc.grad(z**2, x)])
    assert work(f, 1.0, 1.0) == {"a": 1, "da": 1}
    assert work(f, 1.0, -1.0) == {"b": 1, "db": 1}
    assert work(f, -1.0, 1.0) == {"c": 1, "dc": 1}


def test_a_branch_knows_what_its_condition_chooses_within_it() -> None:
    x = gt.scalar("x")
    inner = graphc.ifelse(x > 0, noted("a", x + 1), noted("b", x + 2))
    f = compiled([x], graphc.ifelse(x > 0, inner, 2 * inner))
    assert len(switches(*f.graph.outputs)) == 1
    assert work(f, 1.0) == {"a": 1}
    assert work(f, -1.0) == {"b": 1}


def test_one_choice_after_the_other_is_computed_lazily_with_its_gradient() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    first = graphc.ifelse(x > 0, noted("a", 2 * x), noted("b", 3 * x))
    second = graphc.ifelse(y > 0, noted("c", first * first), noted("d", gt.sin(first)))
    f = compiled([x, y], [second, graphc.grad(second**2, x)])
    assert work(f, 1.0, -1.0).keys() == {"a", "da", "d", "dd"}
    assert work(f, -1.0, 1.0).keys() == {"b", "db", "c", "dc"}


def test_a_value_and_its_gradient_are_one_switch() -> None:
    x = gt.vector("x")
    y = graphc.ifelse(x.sum() > 0, gt.exp(x), gt.sin(x))
    f = compiled([x], [(y**2).sum(), graphc.grad((y**2).sum(), x)])
    assert len(switches(*f.graph.outputs)) == 1


def test_a_loop_in_a_branch_is_shared_with_its_gradients() -> None:
    x, w = gt.vector("x"), gt.scalar("w")

    def run() -> Any:
        return graphc.loop(lambda h, a: (gt.tanh(h * w + a), h), gt.as_tensor(0.25), x)[0]

    y = graphc.cond(x.sum() > 0, run, lambda: x.sum() * w)
    slope = graphc.grad(y**2, w)
    outputs = [y, slope, graphc.grad(slope, w)]
    for order in (1, 2, 3):
        graph = compiled([x, w], outputs[:order]).graph
        (switch,) = switches(*graph.outputs)
        held = [node for branch in switch.op.graphs() for node in branch.nodes]
        assert not [node for node in graph.nodes if isinstance(node.op, Loop)]
        assert len([node for node in held if isinstance(node.op, Loop)]) == 2 ** (order - 1)


def test_a_step_of_a_loop_computes_the_chosen_branch() -> None:
    x, a = gt.vector("x"), gt.scalar("a")

    def step(h: Any, x_t: Any) -> Any:
        new = graphc.cond(x_t > 0, lambda: h + noted("a", x_t * h), lambda: noted("b", gt.exp(a)))
        return new, new

    final, rows = graphc.loop(step, gt.as_tensor(1.0), x)
    f = compiled([x, a], [final, rows])
    assert work(f, [1.0, -1.0, 2.0, 3.0], 0.0) == {"a": 3, "b": 1}
    assert work(f, [1.0, 2.0], 0.0) == {"a": 2}


def test_what_no_branch_of_a_step_chose_is_not_computed() -> None:
    x, a = gt.vector("x"), gt.scalar("a")
    dear = noted("a", gt.exp(a))
    rows = graphc.map(lambda x: graphc.ifelse(x > 0, dear * x, x), x)
    f = compiled([x, a], rows)
    assert work(f, [-1.0, -2.0], 0.0) == {}


# Values and derivatives.


def of_three(x: Any, k: int) -> Any:
    functions = [lambda x: x * x.sum(), lambda x: gt.exp(x) * x[0], lambda x: gt.sin(x) @ x * x]
    return graphc.switch_case(gt.as_tensor(k), functions, x)


def in_loop(x: Any) -> Any:
    def step(h: Any, x_t: Any) -> Any:
        new = graphc.cond(x_t > h, lambda: gt.tanh(h * x_t), lambda: h - x_t * x_t)
        return new, new * x_t

    final, rows = graphc.loop(step, gt.as_tensor(0.25), x)
    return final * rows


def around_loop(x: Any) -> Any:
    def run(x: Any) -> Any:
        return graphc.loop(lambda h, x_t: (gt.tanh(h * x_t + x_t), h), gt.as_tensor(0.25), x)[0]

    return graphc.cond(x.sum() > 1, run, lambda x: x.prod(), x)


def with_where(x: Any) -> Any:
    y = gt.where(x > 1, gt.log(x), x)
    return graphc.ifelse(gt.all(y < 3), y * y.sum(), gt.sqrt(x))


POINT = np.array([0.5, 1.25, -0.75])
DERIVED: dict[str, tuple[Callable[..., Any], Any]] = {
    "then": (lambda x: graphc.ifelse(x.sum() > 0, gt.exp(x) * x, gt.sqrt(x)), POINT),
    "else": (lambda x: graphc.ifelse(x.sum() > 9, gt.sqrt(x), gt.exp(x) * x), POINT),
    "the first": (lambda x: of_three(x, -4), POINT),
    "the second": (lambda x: of_three(x, 1), POINT),
    "the last": (lambda x: of_three(x, 12), POINT),
    "an operand not reached": (lambda x: graphc.ifelse(x[0] > 0, x[1:] * x[0], gt.ones(2)), POINT),
    "complex": (
        lambda x: graphc.ifelse(gt.abs(x).sum() > 0, gt.exp(x) * x, gt.conj(x)),
        np.array([0.5 - 1j, 1.25 + 0.5j]),
    ),
    "after one another": (
        lambda x: graphc.ifelse(
            graphc.ifelse(x[0] > 0, x * x, x).sum() > 1, gt.sin(x) * x[1], x @ x * x
        ),
        POINT,
    ),
    "within one another": (
        lambda x: graphc.ifelse(x[0] > 0, graphc.ifelse(x[2] > 0, x, x * x.sum()), x), POINT,
    ),
    "in a loop": (in_loop, POINT),
    "around a loop": (around_loop, np.abs(POINT)),
    "around no loop": (around_loop, -np.abs(POINT)),
    "beside where": (with_where, np.abs(POINT)),
    "for each of a batch": (
        graphc.vectorize(
            lambda x: graphc.switch_case(
                gt.floor(x.sum()).astype("int64"), [lambda: x * x, lambda: gt.exp(x) * x[0]]
            ),
            "(n)->(n)",
        ),
        np.array([[0.5, 0.25], [1.5, 0.25], [0.75, 0.5]]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVED)
def test_derivatives_are_what_differences_give(name: str) -> None:
    f, point = DERIVED[name]
    check_derivatives(f, point)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", DERIVED)
def test_backends_agree_on_derivatives(name: str) -> None:
    f, point = DERIVED[name]
    x = TensorType(point.dtype, (None,) * point.ndim)("x")
    y = gt.real(f(x))
    g = graphc.grad(y.sum(), x)
    outputs = [y, g, graphc.grad(gt.real(g * g).sum(), x)]
    if g.ndim == 1 and point.dtype.kind == "f":
        outputs += [graphc.jacobian(y, x), graphc.hessian(y.sum(), x)]
    backends = [name for name in names() if not lacks(name, point.dtype.name)]
    first, *others = (
        graphc.function([x], outputs, mode, returns="numpy")(point)
        for mode in (graphc.Mode("NUMPY", excluding="all"), *backends)
    )
    for found in others:
        for a, b in zip(found, first, strict=True):
            np.testing.assert_allclose(a, b, 1e-11, 1e-11)


def test_a_branch_not_chosen_never_makes_a_gradient_nan(mode: str) -> None:
    x = gt.vector("x")
    whole = x.sum()
    singular = [gt.log(whole), gt.sqrt(whole), 1 / whole, whole**0.5, gt.log(x @ x) * whole]
    costs = [graphc.ifelse(whole > 0, y, 2 * whole) for y in singular]
    costs.append(
        graphc.ifelse(whole > 0, singular[0], 0.0) + graphc.ifelse(whole > 0, singular[0], whole)
    )
    f = graphc.function([x], [graphc.grad(y, x) for y in costs], mode, returns="numpy")
    for found, wanted in zip(f(np.zeros(3)), [*[2.0] * 5, 1.0], strict=True):
        np.testing.assert_array_equal(found, [wanted] * 3)
    again = [graphc.grad(graphc.grad(y, x).sum(), x, disconnected_inputs="ignore") for y in costs]
    for found in graphc.function([x], again, mode, returns="numpy")(np.zeros(3)):
        np.testing.assert_array_equal(found, np.zeros(3))


def test_a_branch_not_chosen_in_a_loop_never_makes_a_gradient_nan(mode: str) -> None:
    x, a = gt.vector("x"), gt.scalar("a")
    rows = graphc.map(lambda x: graphc.ifelse(x > 0, gt.log(x) + gt.log(a), x), x)
    f = graphc.function([x, a], graphc.grad(rows.sum(), [x, a]), mode, returns="numpy")
    by_x, by_a = f(np.array([0.0, -1.0]), 0.0)
    assert (by_x.tolist(), by_a) == ([1.0, 1.0], 0.0)


def test_an_element_of_a_batch_meets_no_branch_that_it_did_not_choose(mode: str) -> None:
    x, w = gt.matrix("x"), gt.vector("w")

    def f(x: Any) -> Any:
        return graphc.ifelse(x[0] > 0, gt.log(x[0]) + gt.log(w @ w), x.sum())

    y = graphc.vectorize(f, "(n)->()")(x)
    run = graphc.function([x, w], [y, *graphc.grad(y.sum(), [x, w])], mode, returns="numpy")
    value, by_x, by_w = run(np.array([[0.0, 2.0], [-1.0, 1.0]]), np.zeros(2))
    assert (value.tolist(), by_x.tolist(), by_w.tolist()) == ([2, 0], [[1, 1], [1, 1]], [0, 0])
    value, by_x, by_w = run(np.array([[0.0, 2.0], [4.0, 1.0]]), np.array([1.0, 2.0]))
    np.testing.assert_allclose(value, [2, np.log(4) + np.log(5)])
    np.testing.assert_allclose(by_x, [[1, 1], [0.25, 0]])
    np.testing.assert_allclose(by_w, [0.4, 0.8])


def test_a_batch_of_one_branch_computes_that_branch() -> None:
    i, x = gt.lscalar("i"), gt.matrix("x")
    f = graphc.vectorize(
        lambda x: graphc.switch_case(i, [lambda: noted("a", x * 2), lambda: noted("b", x + 1)]),
        "(n)->(n)",
    )
    run = compiled([i, x], f(x))
    assert work(run, 0, np.ones((2, 3))) == {"a": 1}
    np.testing.assert_array_equal(run(1, np.ones((2, 3))), np.full((2, 3), 2.0))


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_batch_of_any_length_chooses_for_each_element(length: int, mode: str) -> None:
    i, x, w = gt.lvector("i"), gt.lmatrix("x"), gt.scalar("w")
    functions = [lambda x: (x[::-1], w), lambda x: (x * x, 2 * w), lambda x: (-x, w * w)]

    def one(i: Any, x: Any) -> Any:
        return list(graphc.switch_case(i, functions, x))

    outputs = graphc.vectorize(one, "(),(n)->(n),()")(i, x)
    numbers, values = np.arange(length) - 1, np.arange(2 * length).reshape(length, 2)
    found = graphc.function([i, x, w], outputs, mode, returns="numpy")(numbers, values, 3.0)
    wanted = [values[:1, ::-1], values[1:2, ::-1], values[2:] * values[2:]]
    np.testing.assert_array_equal(found[0], np.concatenate(wanted))
    np.testing.assert_array_equal(found[1], np.array([3.0, 3.0, 6.0])[:length])


def test_arrays_without_elements_go_through(mode: str) -> None:
    x = gt.matrix("x")
    y = graphc.ifelse(x.sum() > 0, x * 2, gt.exp(x))
    f = graphc.function([x], [y, graphc.grad(y.sum(), x)], mode, returns="numpy")
    for found in f(np.zeros((0, 3))):
        assert found.shape == (0, 3)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "uint64"])
def test_an_index_beyond_the_ends_is_the_nearest(dtype: str, mode: str) -> None:
    i = TensorType(dtype)("i")
    y = graphc.switch_case(i, [lambda k=k: gt.as_tensor(10 * k) for k in range(3)])
    f = graphc.function([i], y, mode)
    tried = [0, 1, 2, 3, 100] if dtype != "bool" else [False, True]
    tried += [2**40] if dtype in {"int64", "uint64"} else []
    tried += [-1, -100] if dtype.startswith("int") else []
    for k in tried:
        assert int(f(k)) == 10 * min(max(int(k), 0), 2)


def test_results_may_be_integers_and_truths(mode: str) -> None:
    x, n = gt.scalar("x"), gt.lscalar("n")
    y = graphc.ifelse(x > 0, [n * 2, x > 1, x * x], [n + 1, x < -1, x])
    f = graphc.function([x, n], [*y, graphc.grad(y[2] * y[0], x)], mode)
    assert [v.item() for v in map(np.asarray, f(3.0, 5))] == [10, True, 9.0, 60.0]
    assert [v.item() for v in map(np.asarray, f(-0.5, 5))] == [6, False, -0.5, 6.0]


def test_what_no_branch_depends_on_has_no_gradient() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    cost = graphc.ifelse(gt.floor(y) > 0, x, 2 * x)
    assert graphc.grad(cost, y, disconnected_inputs="ignore", return_disconnected="none") is None
    with pytest.raises(graphc.errors.DisconnectedInputError):
        graphc.grad(cost, y)


def test_a_gradient_by_a_part_of_one_branch_is_zero_where_the_other_is_chosen() -> None:
    x = gt.scalar("x")
    part = gt.exp(x)
    f = compiled([x], graphc.grad(graphc.ifelse(x > 0, part * part, x), part))
    assert f(-1.0) == 0
    assert f(2.0) == 2 * np.exp(2.0)


def test_a_branch_may_be_replaced_in() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    cost = graphc.ifelse(x > 0, gt.log(x), x)
    (other,) = graphc.clone_replace([cost], {x: y})
    assert other is graphc.ifelse(y > 0, gt.log(y), y)


def tangle(seed: int) -> tuple[list[Any], list[Any]]:
    """Choices made of choices, by conditions made of them too, with two derivatives."""
    rng = random.Random(seed)
    x, y, i = gt.vector("x"), gt.vector("y"), gt.lscalar("i")
    known, conditions = [x, y, x * y], [x.sum() > 0, y.sum() > x.sum(), gt.less(i, 1)]
    for _ in range(rng.randint(4, 12)):
        a, b, c = (rng.choice(known) for _ in range(3))
        z: Any = rng.choice(
            [
                graphc.ifelse(rng.choice(conditions), a, b),
                graphc.ifelse(rng.choice(conditions), gt.sin(a), b * 2),
                graphc.switch_case(i, [lambda a=a: a, lambda b=b: b * 2, lambda c=c: c]),
                gt.sin(a) * b,
                gt.tanh(a) - c.sum() / 8,
            ]
        )
        conditions += [z.sum() > 0.25] if rng.random() < 0.25 else []
        known.append(z)
    outputs = [known[-1], rng.choice(known)]
    slopes = graphc.grad(outputs[0].sum() + outputs[1].sum(), [x, y], disconnected_inputs="ignore")
    seconds = graphc.grad(slopes[0].sum(), [x, y], disconnected_inputs="ignore")
    return [x, y, i], [*outputs, *slopes, *seconds]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("seed", range(24))
def test_tangled_choices_keep_their_values(seed: int) -> None:
    inputs, outputs = tangle(seed)
    graph = Graph(inputs, outputs)
    for _ in range(8):
        graph = sink_graph(graph)
    check(graph)
    assert sink_graph(graph).outputs == graph.outputs
    modes = names() if seed % 6 == 0 else ["NUMPY"]
    plain, *others = (
        graphc.function(inputs, outputs, mode, returns="numpy", on_unused_input="ignore")
        for mode in (graphc.Mode("NUMPY", excluding="all"), *modes)
    )
    rng = np.random.default_rng(seed)
    for k in range(3):
        values = *rng.standard_normal((2, 3)), k
        wanted = plain(*values)
        for f in others:
            for a, b in zip(f(*values), wanted, strict=True):
                np.testing.assert_allclose(a, b, 1e-10, 1e-10)


# How it is asked for.


class Pair(NamedTuple):
    a: Any
    b: Any


def test_containers_come_back_as_they_are() -> None:
    x = gt.scalar("x")
    y = graphc.cond(
        x > 0,
        lambda p: Pair({"a": p.a, "b": [p.b]}, (x,)),
        lambda p: Pair({"b": [2 * p.b], "a": 3.0}, (p.a,)),
        Pair(x, x + 1),
    )
    assert type(y) is Pair
    f = compiled([x], y)
    found = f(-1.0)
    assert {k: np.asarray(v).tolist() for k, v in found.a.items()} == {"a": 3.0, "b": [0.0]}
    assert list(y.a) == ["a", "b"]
    assert graphc.ifelse(x > 0, [x], [x + 1])[0] is graphc.ifelse(x > 0, x, x + 1)


def test_a_number_takes_the_dtype_of_the_other_branch() -> None:
    x = gt.scalar("x", dtype="float32")
    assert graphc.ifelse(x > 0, x, 0).dtype == "float32"
    assert graphc.ifelse(x > 0, 1.5, x).dtype == "float32"
    assert graphc.ifelse(x > 0, 1, 2.5).dtype == "float64"


def test_an_integer_condition_holds_where_it_is_not_zero(mode: str) -> None:
    n = gt.lscalar("n")
    f = graphc.function([n], graphc.ifelse(n, n + 10, n), mode)
    assert [int(f(k)) for k in (-2, 0, 3)] == [8, 0, 13]


def test_functions_use_what_is_around_them(mode: str) -> None:
    x = gt.scalar("x")
    w = graphc.shared(np.full(12, 2.0), "w")
    large = gt.as_tensor(np.arange(12.0))
    y = graphc.cond(x > 0, lambda: gt.sum(w * large), lambda: large.sum() * x)
    f = graphc.function([x], y, mode)
    assert float(f(1.0)) == 132.0
    w.set_value(np.ones(12))
    assert float(f(1.0)) == 66.0
    assert float(f(-1.0)) == -66.0


def test_lengths_may_differ_where_a_backend_allows_it() -> None:
    x = gt.tensor("x", shape=(4,))
    y = graphc.ifelse(x.sum() > 0, x[:2], x)
    assert y.type == TensorType("float64", (None,))
    assert compiled([x], y)(np.ones(4)).shape == (2,)
    assert compiled([x], y)(-np.ones(4)).shape == (4,)
    with pytest.raises(RuntimeShapeError, match=r"one branch gives the shape .*\n.*one shape"):
        graphc.function([x], y, "JAX")(np.ones(4))


def test_a_length_may_decide_and_be_decided(mode: str) -> None:
    x, n = gt.vector("x"), gt.lscalar("n")
    y = graphc.ifelse(x.shape[0] > 3, x[:3], x)
    z = gt.zeros(graphc.ifelse(n > 2, n, 2))
    f = graphc.function([x, n], [y, z], mode)
    assert [v.shape for v in f(np.ones(5), 4)] == [(3,), (4,)]
    assert [v.shape for v in f(np.ones(2), 0)] == [(2,), (2,)]


def test_a_slice_in_a_branch_may_end_at_an_integer_input(mode: str) -> None:
    x, n = gt.vector("x"), gt.lscalar("n")
    y = graphc.ifelse(x[0] > 0, x[:n].sum(), (gt.arange(n) * 1.0).sum())
    f = graphc.function([x, n], y, mode)
    assert [float(f(np.array(v), 2)) for v in ([1.0, 2.0, 4.0], [-1.0, 2.0, 4.0])] == [3.0, 1.0]


# What it is.


def test_equal_switches_are_one_object() -> None:
    x = gt.scalar("x")

    def made() -> Graph:
        y = graphc.ifelse(x > 0, gt.exp(x), x)
        return sink_graph(Graph([x], [y, graphc.grad(y, x)]))

    assert made().outputs == made().outputs
    assert made().key() == made().key()


def test_a_switch_survives_pickling() -> None:
    x = gt.scalar("x")
    graph = sink_graph(Graph([x], [graphc.ifelse(x > 0, gt.exp(x), x, name="one")]))
    again = pickle.loads(pickle.dumps(graph))
    assert again.key() == graph.key()
    f = compiled([x], graphc.ifelse(x > 0, gt.exp(x), x))
    assert pickle.loads(pickle.dumps(f))(-2.0) == -2.0


def graph_of(name: str) -> Graph:
    """A function with its gradient."""
    f, point = DERIVED[name]
    x = TensorType(point.dtype, (None,) * point.ndim)("x")
    y = gt.real(f(x))
    return Graph([x], [y, graphc.grad(y.sum(), x)])


@pytest.mark.parametrize("name", DERIVED)
def test_what_is_in_its_place_stays_there(name: str) -> None:
    placed = sink_graph(graph_of(name))
    check(placed)
    assert sink_graph(placed).outputs == placed.outputs


@pytest.mark.parametrize("name", DERIVED)
def test_rewriting_comes_to_an_end(name: str) -> None:
    once = optimize(graph_of(name), checking=True).graph
    assert optimize(once, checking=True).graph.outputs == once.outputs


def test_choices_of_one_index_among_different_numbers_of_branches_stay_apart() -> None:
    i, x = gt.lscalar("i"), gt.scalar("x")
    inner = graphc.switch_case(i, [lambda: x, lambda: x * 2])
    y = graphc.switch_case(i, [lambda k=k: inner + 10 * k for k in range(4)])
    f = compiled([i, x], [y, inner])
    found = [[float(v) for v in f(k, 1.0)] for k in range(-1, 5)]
    assert found == [[1, 1], [1, 1], [12, 2], [22, 2], [32, 2], [32, 2]]


def test_a_constant_condition_leaves_no_switch() -> None:
    x = gt.scalar("x")
    f = compiled([x], graphc.ifelse(True, gt.exp(x), gt.log(x)))
    assert f.graph.outputs == (gt.exp(x),)


def test_equal_branches_leave_no_switch() -> None:
    x = gt.scalar("x")
    assert graphc.ifelse(x > 0, gt.exp(x), gt.exp(x)) is gt.exp(x)
    f = compiled([x], graphc.ifelse(x > 0, gt.log(1 + x), gt.log1p(x)))
    assert f.graph.outputs == (gt.log1p(x),)


def test_results_that_nothing_needs_are_not_computed() -> None:
    x = gt.scalar("x")
    y, _ = graphc.ifelse(x > 0, [x * 2, noted("a", x)], [x, noted("b", x)])
    assert work(compiled([x], y), 1.0) == {}


def test_a_long_chain_of_choices_takes_little_time() -> None:
    x = gt.scalar("x")
    y = x
    for k in range(40):
        y = graphc.ifelse(y > k / 10, gt.sin(y) + y, gt.cos(y) * y)
    f = compiled([x], [y, graphc.grad(y, x)])
    assert len(switches(*f.graph.outputs)) <= 80
    value = slope = None
    for step in (0, 1e-6, -1e-6):
        v = 0.3 + step
        for k in range(40):
            v = np.sin(v) + v if v > k / 10 else np.cos(v) * v
        value = v if step == 0 else value
        slope = v if step > 0 else slope if slope is None else (slope - v) / 2e-6
    np.testing.assert_allclose(f(0.3), [value, slope], 1e-6, 1e-9)


# What is wrong is told.

x, w, n = gt.scalar("x"), gt.vector("w"), gt.lscalar("n")
WRONG: dict[str, tuple[Callable[[], Any], type[GraphcError], str]] = {
    "a vector for a condition": (
        lambda: graphc.ifelse(w > 0, x, x + 1), DTypeError, r"a bool or integer scalar\.\n.*gt\.a",
    ),
    "a floating condition": (
        lambda: graphc.cond(x, lambda: x, lambda: x + 1), DTypeError, "cond: .*float64",
    ),
    "a floating index": (
        lambda: graphc.switch_case(x, [lambda: x]), DTypeError, "switch_case: .*float64",
    ),
    "an array in place of a function": (
        lambda: graphc.cond(x > 0, x, lambda: x), ArgumentError, "cond: the function .* is not a",
    ),
    "a function of operands without any": (
        lambda: graphc.cond(x > 0, lambda x: x, lambda x: x), ArgumentError, "missing a required",
    ),
    "a function of too many operands": (
        lambda: graphc.switch_case(n, [lambda: x], x), ArgumentError, "switch_case: the function",
    ),
    "no branches": (lambda: graphc.switch_case(n, []), ArgumentError, "no branches"),
    "another dtype": (
        lambda: graphc.ifelse(x > 0, x, n), DTypeError,
        r"int64\[\] \(test_branch.py:\d+\), another float64\[\] \(test_branch.py:\d+\)\.\n.*astype",
    ),
    "another rank": (lambda: graphc.ifelse(x > 0, x, w), ShapeError, r"the ranks differ\.\n"),
    "a number for an array": (lambda: graphc.ifelse(x > 0, 0.0, w), ShapeError, "ranks differ"),
    "a fraction for an integer": (lambda: graphc.ifelse(x > 0, 0.5, n), DTypeError, "float64"),
    "another length of a list": (
        lambda: graphc.ifelse(x > 0, [x, x], [x]), ArgumentError, "structures differ",
    ),
    "a list and an array": (
        lambda: graphc.ifelse(x > 0, x, [x]), ArgumentError, "structures differ",
    ),
    "other keys": (
        lambda: graphc.cond(x > 0, lambda: {"a": x}, lambda: {"b": x}), ArgumentError, "structures",
    ),
    "its name": (
        lambda: graphc.ifelse(w > 0, x, x + 1, name="mine"), DTypeError, "ifelse 'mine'",
    ),
    "lanes of different shapes": (
        lambda: graphc.vectorize(
            lambda i: graphc.switch_case(i, [lambda: gt.ones(207), lambda: gt.ones(307)]), "()->(n)"
        )(gt.lvector()),
        ShapeError, "differ in shape",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_with_the_line(name: str) -> None:
    f, kind, message = WRONG[name]
    with pytest.raises(kind, match=message) as caught:
        f()
    assert type(caught.value) is kind
    assert "test_branch.py:" in str(caught.value)


def test_an_operand_of_another_type_makes_no_switch() -> None:
    op = choice(n, x, x + 1).inputs[0].op
    with pytest.raises(InvalidGraphError, match="expected float64"):
        Node.make(op, n, x, w)


def test_a_failure_in_a_branch_tells_its_line(mode: str) -> None:
    y, m = gt.vector("y"), gt.vector("m")
    total = graphc.ifelse(y.sum() > 0, (y + m).sum(), 0.0)
    f = graphc.function([y, m], total, mode)
    with pytest.raises(RuntimeShapeError, match=r"test_branch\.py"):
        f(np.ones(2), np.ones(3))


def test_a_branch_is_not_computed_whatever_rules_are_left_out() -> None:
    c, x = gt.bscalar(), gt.scalar()
    endless = graphc.while_loop(lambda v: v > -1, lambda v: v + 1, x)
    f = graphc.function([c, x], graphc.ifelse(c, endless, x), graphc.Mode("NUMPY", excluding="all"))
    assert f(0, 2.0) == 2.0


def test_branches_of_a_factorisation_have_a_derivative() -> None:
    """A branch takes the triangle, and not the tuple of both factors, which its tangent needs."""
    x, d, i = gt.tensor("x", shape=(2, 2)), gt.tensor("d", shape=(2, 2)), gt.lscalar("i")
    r = gt.linalg.qr(x)[1]
    y = graphc.switch_case(i, [lambda: gt.trunc(r), lambda: r, lambda: gt.ceil(r)])
    outputs = [y, graphc.pushforward(y, [x], [d])]
    f = graphc.function([x, d, i], outputs, mode="NUMPY")
    value, direction = np.array([[1.5, 0.5], [0.5, 1.5]]), np.array([[1.0, -1.0], [0.5, 2.0]])
    step = 1e-6 * direction
    wanted = (np.linalg.qr(value + step)[1] - np.linalg.qr(value - step)[1]) / 2e-6
    found, slope = f(value, direction, 1)
    np.testing.assert_allclose(found, np.linalg.qr(value)[1])
    np.testing.assert_allclose(slope, wanted, atol=1e-8)
