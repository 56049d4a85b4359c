"""Graphs as operations: values, derivatives, and what becomes of them when they are compiled."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    InvalidGraphError,
    MissingInputError,
    ShapeError,
)
from graphc.implicit import Diagonal
from graphc.ir import Graph, toposort
from graphc.link import names
from graphc.loop.subgraph import Subgraph
from tests.modes import uncompiled

X, Y, Z = gt.scalars("x", "y", "z")
POINT = (2.0, 3.0, 4.0)


def sub_graphs(outputs: Any) -> list[str]:
    """The names of the sub-graphs in a graph, also in those that operations hold."""
    found: list[str] = []
    for node in toposort(outputs):
        found += [node.op.name] if isinstance(node.op, Subgraph) else []
        for held in node.op.graphs():
            found += sub_graphs(held.outputs)
    return found


def run(inputs: Any, outputs: Any, backend: str, *values: Any) -> list[Any]:
    f = graphc.function(
        inputs, outputs, uncompiled(backend), returns="numpy", on_unused_input="ignore"
    )
    return f(*values)  # type: ignore[no-any-return]


def test_it_gives_what_the_graph_gives_under_its_own_name() -> None:
    op = graphc.OpFromGraph([X, Y, Z], [X + Y * Z], name="fused")
    y = op(X, Y, Z)
    assert y is op(X, Y, Z)
    assert "fused" in str(graphc.dprint(y, file="str"))
    assert float(y.eval(dict(zip((X, Y, Z), POINT, strict=True)), mode="NUMPY")) == 14.0


def test_equal_graphs_are_one_operation_whatever_the_variables() -> None:
    a, b, c = gt.scalars("a", "b", "c")
    one = graphc.OpFromGraph([X, Y, Z], [X + Y * Z], name="fused")
    other = graphc.OpFromGraph([a, b, c], [a + b * c], name="fused")
    assert one(X, Y, Z) is other(X, Y, Z)


def test_several_outputs_come_as_a_list() -> None:
    both = graphc.OpFromGraph([X, Y], [X + Y, X * Y])(X, Y)
    assert isinstance(both, list)
    assert [float(v) for v in run([X, Y], both, "NUMPY", 2.0, 3.0)] == [5.0, 6.0]


def test_lengths_of_arguments_are_lengths_in_it() -> None:
    x = gt.vector("x")
    op = graphc.OpFromGraph([x], [gt.concatenate([x, x])])
    assert op(gt.tensor(shape=(3,))).type.shape == (6,)
    assert op(np.zeros(4)).type.shape == (8,)


def test_it_is_gone_when_compiled_and_rewritten_with_the_rest() -> None:
    op = graphc.OpFromGraph([X], [gt.log(X)])
    f = graphc.function([X], op(gt.exp(X)), mode="NUMPY")
    assert f.graph.outputs == f.graph.inputs


@pytest.mark.parametrize("backend", names())
@pytest.mark.parametrize("inline", [True, False])
def test_it_nests_and_has_gradients_of_any_order(inline: bool, backend: str) -> None:
    square = graphc.OpFromGraph([X], [X**2], inline=inline, name="square")
    op = graphc.OpFromGraph([X, Y], [square(X) * Y, gt.sin(X)], inline=inline, name="outer")
    a, b = op(X, square(Y))
    first = graphc.grad(a + b, [X, Y])
    second = graphc.grad(first[1], X)
    tangent = graphc.Rop(a, [X, Y], [gt.ones_like(X), gt.ones_like(Y)])
    found = run([X, Y], [a, b, *first, second, tangent], backend, 2.0, 3.0)
    slopes = [36 + np.cos(2.0), 24.0]
    np.testing.assert_allclose(found, [36, np.sin(2.0), *slopes, 24, 60])


@pytest.mark.parametrize("backend", names())
def test_one_that_is_kept_stays_an_operation_whose_name_plans_show(backend: str) -> None:
    x = gt.vector("x")
    op = graphc.OpFromGraph([x], [gt.log(1 + x), (x**2).sum()], inline=False, name="kept")
    a, b = op(x)
    f = graphc.function([x], [a, graphc.grad(b, x)], uncompiled(backend), returns="numpy")
    assert sub_graphs(f.graph.outputs) == ["kept", "gradient of kept"]
    assert "kept(a0)" in str(f.plan())
    # Inside of it rewrites are made, too: the digits of a small x are kept.
    small = np.array([1e-20, 2.0])
    np.testing.assert_allclose(f(small)[0], np.log1p(small))
    np.testing.assert_allclose(f(small)[1], 2 * small)


@pytest.mark.parametrize("backend", names())
@pytest.mark.parametrize("inline", [True, False])
def test_loops_and_branches_may_be_in_it_and_it_in_them(inline: bool, backend: str) -> None:
    x, c = gt.vector("x"), gt.scalar("c")
    ends = graphc.scan(lambda now, last: 0.5 * last + now, sequences=x, outputs_info=c)[-1]
    op = graphc.OpFromGraph([x, c], [ends], inline=inline, name="decay")
    rows = graphc.scan(
        lambda row, last: graphc.ifelse(last > 0, op(row, last), last - 1.0),
        sequences=gt.stack([x, 2 * x]), outputs_info=c,
    )  # fmt: skip
    found = run([x, c], [rows, graphc.grad(rows[-1], x)], backend, [1.0, 2.0, 4.0], 8.0)
    first = 1 * 0.25 + 2 * 0.5 + 4 + 1
    np.testing.assert_allclose(found[0], [first, 2 * (first - 1) + first / 8])
    np.testing.assert_allclose(found[1], np.array([0.25, 0.5, 1]) * (2 + 1 / 8))


@pytest.mark.parametrize("backend", names())
@pytest.mark.parametrize("inline", [True, False])
def test_a_batch_is_computed_at_once(inline: bool, backend: str) -> None:
    x, c = gt.vector("x"), gt.scalar("c")
    rows, many = gt.tensor("rows", shape=(None, None)), gt.vector("many")
    op = graphc.OpFromGraph([x, c], [gt.exp(x) * c, (c * x).sum()], inline=inline, name="op")
    wide = graphc.vectorize_graph(op(x, c), {x: rows})
    both = graphc.vectorize_graph(op(x, c), {x: rows, c: many})
    slopes = [graphc.grad(wide[0].sum() + wide[1].sum(), v) for v in (rows, c)]
    values = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    found = run([rows, c, many], [*wide, *both, *slopes], backend, values, 2.0, [1.0, 2.0, 3.0])
    n = np.array([1.0, 2.0, 3.0])
    wanted = [
        np.exp(values) * 2, values.sum(1) * 2, np.exp(values) * n[:, None], values.sum(1) * n,
        np.exp(values) * 2 + 2, (np.exp(values) + values).sum(),
    ]  # fmt: skip
    for y, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, expected)


# Derivatives of its own.


@pytest.mark.parametrize("backend", names())
@pytest.mark.parametrize("inline", [True, False])
def test_one_gradient_of_several_may_be_its_own(inline: bool, backend: str) -> None:
    def doubled(inputs: Any, outputs: Any, gradients: Any) -> Any:
        return 2 * inputs[2] * gradients[0]

    op = graphc.OpFromGraph([X, Y, Z], [X + Y * Z], pullback=[None, doubled, None], inline=inline)
    slopes = graphc.grad(op(X, Y, Z), [X, Y, Z])
    assert [float(g) for g in run([X, Y, Z], slopes, backend, *POINT)] == [1.0, 8.0, 3.0]


def test_one_function_gives_all_gradients_from_lists() -> None:
    seen: list[Any] = []

    def own(inputs: Any, outputs: Any, gradients: Any) -> Any:
        seen.append((inputs, outputs, gradients))
        return [gradients[0] * outputs[1], None]

    op = graphc.OpFromGraph([X, Y], [X * Y, X + Y], lop_overrides=own)
    first, second = op(X, Y)
    by_x, by_y = graphc.grad(first, [X, Y], disconnected_inputs="ignore")
    assert [float(g) for g in run([X, Y], [by_x, by_y], "NUMPY", 2.0, 3.0)] == [5.0, 0.0]
    ((inputs, outputs, gradients),) = seen
    assert inputs == [X, Y]
    assert outputs == [first, second]
    assert len(gradients) == 2


def test_an_operation_may_be_the_gradient_of_another() -> None:
    g, y = gt.scalars("g", "y")
    back = graphc.OpFromGraph([X, y, g], [3 * g * X], name="back")
    op = graphc.OpFromGraph([X], [X**2], lop_overrides=back)
    assert float(graphc.grad(op(X), X).eval({X: 2.0}, mode="NUMPY")) == 6.0


def test_forward_mode_follows_from_the_gradient_or_is_its_own() -> None:
    def own(inputs: Any, outputs: Any, gradients: Any) -> Any:
        return [7 * gradients[0]]

    def tangents(inputs: Any, moved: Any) -> Any:
        return [11 * moved[0]]

    ones = gt.ones_like(X)
    by_lop = graphc.OpFromGraph([X], [X**2], lop_overrides=own)
    by_both = graphc.OpFromGraph([X], [X**2], pullback=own, pushforward=tangents)
    by_each = graphc.OpFromGraph([X], [X**2, X], rop_overrides=[tangents_of_one, None])
    ys = [by_lop(X), by_both(X), *by_each(X)]
    found = run([X], graphc.Rop(ys, X, ones), "NUMPY", 2.0)
    assert [float(y) for y in found] == [7.0, 11.0, 11.0, 1.0]
    # Backwards, a forward derivative of its own says nothing.
    assert float(graphc.grad(by_each(X)[0], X).eval({X: 2.0}, mode="NUMPY")) == 4.0


def tangents_of_one(inputs: Any, moved: Any) -> Any:
    return 11 * moved[0]


@pytest.mark.parametrize("backend", names())
def test_a_gradient_of_its_own_holds_in_steps_and_batches(backend: str) -> None:
    def own(inputs: Any, outputs: Any, gradients: Any) -> Any:
        a, b = inputs
        return [10 * gradients[0] * b, gradients[0] * a]

    op = graphc.OpFromGraph([X, Y], [X * Y], lop_overrides=own)
    xs, c = gt.vector("xs"), gt.scalar("c")
    ends = graphc.scan(op, sequences=xs, outputs_info=c)[-1]
    wide = graphc.vectorize(op, "(),()->()")(xs, c)
    outputs = [graphc.grad(ends, [xs, c]), graphc.grad(wide.sum(), [xs, c])]
    found = run([xs, c], [y for pair in outputs for y in pair], backend, [2.0, 3.0], 5.0)
    wanted = [[150.0, 100.0], 6.0, [50.0, 50.0], 5.0]
    for y, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, expected)


def test_shared_variables_are_inputs_unless_it_is_strict() -> None:
    w = graphc.shared(np.array(3.0), "w")
    op = graphc.OpFromGraph([X], [X * w])
    assert [float(g) for g in run([X], graphc.grad(op(X), [X, w]), "NUMPY", 2.0)] == [3.0, 2.0]
    with pytest.raises(MissingInputError, match="w"):
        graphc.OpFromGraph([X], [X * w], strict=True)


def test_of_a_shared_variable_a_gradient_of_its_own_says_nothing() -> None:
    w = graphc.shared(np.array(3.0), "w")
    whole = graphc.OpFromGraph([X], [X * w], lop_overrides=lambda i, o, g: [g[0]])
    with pytest.raises(GradientError, match="taken from outside"):
        graphc.grad(whole(X), w)
    # Given one by one, the others are the graph's.
    each = graphc.OpFromGraph([X], [X * w], lop_overrides=[lambda i, o, g: 5 * g[0]])
    assert [float(g) for g in run([X], graphc.grad(each(X), [X, w]), "NUMPY", 2.0)] == [5.0, 2.0]


def test_programs_do_not_depend_on_the_gradients_that_nobody_took() -> None:
    one = graphc.OpFromGraph([X], [X**2], lop_overrides=lambda i, o, g: [g[0]])(X)
    other = graphc.OpFromGraph([X], [X**2], lop_overrides=lambda i, o, g: [2 * g[0]])(X)
    assert one is not other
    assert Graph([X], [one]).key() == Graph([X], [other]).key()


@pytest.mark.parametrize("inline", [True, False])
def test_implicit_arrays_go_into_it(inline: bool) -> None:
    x = gt.tensor("x", shape=(3, 3))
    d = gt.vector("d", shape=(3,))
    whole = graphc.OpFromGraph([x], [x @ gt.ones(3)], inline=inline)
    y = whole(gt.as_tensor(Diagonal(d)) if inline else gt.diag(d))
    f = graphc.function([d], y, mode="NUMPY")
    assert f([1.0, 2.0, 3.0]).tolist() == [1.0, 2.0, 3.0]
    if inline:
        # Of a diagonal matrix no matrix is made.
        assert all(node.type.ndim < 2 for node in f.graph.nodes)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["double", "square", "sine"]), min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.integers(0, 3),
)
def test_nesting_changes_nothing(chain: list[str], kept: list[bool], n: int) -> None:
    steps = {"double": lambda v: 2 * v, "square": lambda v: v * v, "sine": gt.sin}
    x = gt.vector("x")
    nested = plain = x
    for name, keep in zip(chain, kept, strict=False):
        op = graphc.OpFromGraph([x], [steps[name](nested)], inline=not keep, name=name)
        nested, plain = op(x), steps[name](plain)
    outputs = [y for v in (nested, plain) for y in (v, graphc.grad(v.sum(), x))]
    value = np.linspace(-1, 1, n)
    a, by_a, b, by_b = run([x], outputs, "NUMPY", value)
    np.testing.assert_allclose(a, b)
    np.testing.assert_allclose(by_a, by_b)


# Errors.


def test_what_is_wrong_is_told() -> None:
    v = gt.vector("v")
    for inputs, outputs, error in [
        ([X, X], [X], ArgumentError),
        (X, [X], ArgumentError),
        ([X], [1.0], ArgumentError),
        ([X], [X + Y], MissingInputError),
    ]:
        with pytest.raises(error):
            graphc.OpFromGraph(inputs, outputs)
    with pytest.raises(ArgumentError, match="2 functions for 1"):
        graphc.OpFromGraph([X], [X], pullback=[None, None])
    with pytest.raises(ArgumentError, match="are the same"):
        graphc.OpFromGraph([X], [X], pushforward=[None], rop_overrides=[None])
    with pytest.raises(ArgumentError, match="not a function"):
        graphc.OpFromGraph([X], [X], lop_overrides=[1])
    op = graphc.OpFromGraph([v], [v.sum()], name="op")
    for given_, error in [
        ((), ArgumentError),
        ((X,), ShapeError),
        ((gt.lvector("k"),), DTypeError),
    ]:
        with pytest.raises(error, match="op takes"):
            op(*given_)
    with pytest.raises(InvalidGraphError, match="op takes"):
        op(v).inputs[0].with_inputs([gt.matrix("m")])


def test_gradients_in_another_number_are_an_error() -> None:
    two = graphc.OpFromGraph([X], [X], lop_overrides=lambda i, o, g: [g[0], g[0]], name="two")
    with pytest.raises(GradientError, match="2 arrays for 1 arguments"):
        graphc.grad(two(X), X)
    bare = graphc.OpFromGraph([X], [X], lop_overrides=lambda i, o, g: g[0])
    with pytest.raises(ArgumentError, match="Return a list"):
        graphc.grad(bare(X), X)


def test_programs_hold_no_derivatives() -> None:
    kept = graphc.OpFromGraph([X], [X**2], inline=False, lop_overrides=lambda i, o, g: [g[0]])
    rows = graphc.scan(kept, sequences=gt.vector("v"))
    f = graphc.function([X, *graph_inputs(rows)], [kept(X), rows], mode="NUMPY")
    held = [node.op for node in f.graph.nodes]
    held += [node.op for op in held for graph in op.graphs() for node in graph.nodes]
    kept_ones = [op for op in held if isinstance(op, Subgraph)]
    assert kept_ones
    assert all(op.own is None for op in kept_ones)


def graph_inputs(y: Any) -> list[Any]:
    return [node for node in toposort([y]) if node.name == "v"]


def test_a_graph_with_one_is_written_and_read() -> None:
    y = graphc.OpFromGraph([X, Y], [X * Y, X + Y], name="both")(X, Y)[0]
    graph = pickle.loads(pickle.dumps(Graph([X, Y], [y])))
    assert graph.key() == Graph([X, Y], [y]).key()


@pytest.mark.parametrize("backend", names())
def test_what_is_passed_on_or_constant_may_be_a_result(backend: str) -> None:
    x = gt.vector("x")
    many = gt.constant(np.arange(20.0))
    op = graphc.OpFromGraph([x], [x, gt.constant(2.0), x.sum() * many], inline=False)
    found = run([x], [*op(x), graphc.grad(op(x)[2].sum(), x)], backend, [1.0, 2.0])
    for y, expected in zip(found, [[1, 2], 2, 3 * np.arange(20), [190, 190]], strict=True):
        np.testing.assert_array_equal(y, expected)


def test_it_may_take_or_give_nothing_and_stand_for_what_is_computed() -> None:
    x = gt.vector("x")
    assert graphc.OpFromGraph([x], [])(x) == []
    assert float(graphc.OpFromGraph([], [gt.constant(2.0)])().eval(mode="NUMPY")) == 2.0
    computed = gt.exp(x)
    op = graphc.OpFromGraph([computed], [computed + 1])
    assert op(x).eval({x: [1.0, 2.0]}, mode="NUMPY").tolist() == [2.0, 3.0]
