"""The check finds every kind of violation that a pass could leave."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import graphc.tensor as gt
from graphc.errors import InvalidGraphError
from graphc.ir import Graph, Node, TensorType, TupleType
from graphc.ir.check import check, check_same_interface
from graphc.ir.node import _create, set_inputs, set_type
from graphc.tensor import Tensor
from graphc.tensor.arrays.index import Nonzero


def good() -> Graph:
    x = gt.vector("x")
    return Graph([x], [gt.exp(x).sum(), x[1:]])


def wrongly_typed() -> Graph:
    x = gt.vector("x")
    y = gt.exp(gt.sin(x))
    set_type(y, TensorType("float32", (None,)))
    return Graph([x], [y])


def doubled_node() -> Graph:
    x = gt.vector("x")
    y = gt.exp(x)
    return Graph([x], [_create(y.op, y.inputs, y.type, None), y])


def input_twice() -> Graph:
    x = gt.vector("x")
    return Graph([x, x], [gt.exp(x)])


def tuple_output() -> Graph:
    x = gt.vector("x")
    return Graph([x], [Node.make(Nonzero(), x)])


def out_of_order() -> Graph:
    graph = good()
    object.__setattr__(graph, "nodes", graph.nodes[::-1])
    return graph


def rewired() -> Graph:
    x = gt.vector("x")
    y = gt.cosh(x + 0.123)
    graph = Graph([x], [y])
    set_inputs(y, (gt.vector("other"),))
    return graph


def output_left_out() -> Graph:
    graph = good()
    object.__setattr__(graph, "outputs", (gt.cosh(graph.inputs[0]),))
    return graph


PLANTED: dict[str, tuple[Callable[[], Graph], str]] = {
    "a type its operation does not infer": (wrongly_typed, "its operation infers"),
    "two nodes of one kind": (doubled_node, "not the only node"),
    "an input twice": (input_twice, "same input twice"),
    "a bare tuple": (tuple_output, "tuple of values"),
    "nodes before their inputs": (out_of_order, "stands before its input"),
    "an edited input": (rewired, "stands before its input"),
    "an output not in the order": (output_left_out, "not in the order"),
}


def test_a_graph_as_built_passes() -> None:
    check(good())


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_violation_is_found(what: str) -> None:
    make, message = PLANTED[what]
    with pytest.raises(InvalidGraphError, match=message):
        check(make())


def test_a_rewrite_may_learn_a_length() -> None:
    x, y = gt.vector("x"), gt.tensor(shape=(3,))
    before, after = Graph([x, y], [x]), Graph([x, y], [y])
    check_same_interface(before, after)
    with pytest.raises(InvalidGraphError, match="Output 0 was"):
        check_same_interface(after, before)


def test_a_rewrite_keeps_the_inputs() -> None:
    x, y = gt.vector("x"), gt.vector("y")
    with pytest.raises(InvalidGraphError, match="inputs changed"):
        check_same_interface(Graph([x], [x]), Graph([y], [y]))


def test_a_rewrite_keeps_the_dtype() -> None:
    x = gt.vector("x")
    with pytest.raises(InvalidGraphError, match="became int64"):
        check_same_interface(Graph([x], [x]), Graph([x], [x.astype("int64")]))


def test_several_results_are_a_tuple_and_picks() -> None:
    places = gt.nonzero(gt.matrix("x"))
    several = places[0].inputs[0]
    assert isinstance(several.type, TupleType)
    assert [type(p) for p in places] == [Tensor, Tensor]
    check(Graph(several.inputs, places))
