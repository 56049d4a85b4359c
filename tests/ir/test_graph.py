"""A graph's key says what it computes, and nothing else."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import FrozenError, InvalidGraphError, MissingInputError
from graphc.ir import Graph, Node, TensorType, TupleType, replace_nodes, toposort
from graphc.ir.graph import check, check_same_interface
from graphc.ir.node import _create, set_inputs, set_type
from graphc.tensor import Tensor
from graphc.tensor.arrays.index import Nonzero

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import numpy as np, graphc, graphc.tensor as gt
from graphc.ir import Graph
x, w = gt.matrix("x"), gt.constant(np.arange(30.0), name="w")
y = gt.softmax(x[:, None, 1:3] * 2.5, axis=-1).reshape(-1)[::-1].sum() + w.mean() + np.nan
y += gt.where(x > 0, gt.sqrt(x), 0).sum() + gt.dot(x, x.T).astype("float32").max()
print(Graph([x], [y, graphc.grad(y, x), graphc.grad_clip(x, -1, 1)]).key())
"""


def key_in_a_new_process(seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_keys_are_equal_in_every_process() -> None:
    keys = {key_in_a_new_process(seed) for seed in ("0", "1", "random")}
    assert len(keys) == 1
    assert len(keys.pop()) == 40


def key_of(f: Callable[..., Any], name: str | None = None, **of: Any) -> str:
    x = gt.tensor(name, **({"shape": (None, 3)} | of))
    return Graph([x], [f(x)]).key()


def test_a_key_is_blind_to_names() -> None:
    assert key_of(gt.exp, "x") == key_of(gt.exp, "y") == key_of(gt.exp)


def test_a_key_is_blind_to_what_leaves_hold() -> None:
    def over(array: np.ndarray, name: str) -> str:
        return key_of(lambda x: x * gt.constant(array, name))

    assert over(np.zeros((20, 3)), "a") == over(np.ones((20, 3)), "b")
    assert over(np.zeros((20, 3)), "a") != over(np.zeros((21, 3)), "a")


def test_a_key_is_blind_to_the_order_in_which_nodes_were_made() -> None:
    x, y = gt.scalars(2)
    first = Graph([x, y], [gt.exp(x) - gt.sin(y)]).key()
    a, b = gt.scalars(2)
    late = gt.sin(b)
    assert Graph([a, b], [gt.exp(a) - late]).key() == first


DIFFERENT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "operations": (gt.exp, gt.sin),
    "constants": (lambda x: x + 1, lambda x: x + 2),
    "signs of zero": (lambda x: x + 0.0, lambda x: x + -0.0),
    "axes": (lambda x: x.sum(0), lambda x: x.sum(1)),
    "index bounds": (lambda x: x[1:], lambda x: x[2:]),
    "wiring": (lambda x: gt.exp(x) - x, lambda x: x - gt.exp(x)),
    "dtypes of casts": (lambda x: x.astype("int8"), lambda x: x.astype("uint8")),
    "barriers": (lambda x: graphc.grad_scale(x, 1.0), lambda x: graphc.grad_scale(x, 2.0)),
    "ranges": (lambda x: x + gt.arange(0, 3), lambda x: x + gt.arange(1, 4)),
    "picks": (lambda x: gt.nonzero(x)[0], lambda x: gt.nonzero(x)[1]),
    "sharing": (lambda x: gt.exp(x) * gt.exp(x), lambda x: gt.exp(x) * gt.exp(gt.exp(x))),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_graphs_that_compute_other_things_have_other_keys(what: str) -> None:
    a, b = DIFFERENT[what]
    assert key_of(a) != key_of(b)


def test_types_of_inputs_are_part_of_the_key() -> None:
    keys = {key_of(gt.exp), key_of(gt.exp, dtype="float32"), key_of(gt.exp, shape=(2, 3))}
    assert len(keys) == 3


def test_the_order_of_inputs_and_outputs_is_part_of_the_key() -> None:
    x, y = gt.scalars(2)
    a, b = x - y, gt.exp(x)
    keys = {
        Graph([x, y], [a, b]).key(),
        Graph([y, x], [a, b]).key(),
        Graph([x, y], [b, a]).key(),
        Graph([x, y], [a]).key(),
    }
    assert len(keys) == 4


def test_an_input_that_is_not_given_is_named() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    with pytest.raises(MissingInputError, match=r"y: float64\[\].*not among the inputs"):
        Graph([x], [x + y])


def test_an_inner_node_as_input_cuts_off_what_it_is_made_of() -> None:
    x = gt.scalar("x")
    y = gt.exp(x)
    assert Graph([y], [y + 1]).key() == Graph([x], [x + 1]).key()


def test_every_node_stands_after_its_inputs() -> None:
    x = gt.matrix("x")
    graph = Graph([x], [graphc.grad(gt.softmax(x @ x).sum(), x)])
    place = {node: i for i, node in enumerate(graph.nodes)}
    assert all(place[a] < place[node] for node in graph.nodes for a in node.inputs)
    assert len(graph) == len(set(graph.nodes))


def test_users_are_the_nodes_an_input_goes_to() -> None:
    x = gt.scalar("x")
    a, b = gt.exp(x), gt.sin(x)
    y = a - b
    assert Graph([x], [y]).users() == {x: [a, b], a: [y], b: [y], y: []}


def test_replacing_a_node_makes_again_what_depends_on_it() -> None:
    x, y = gt.scalars(2)
    kept = gt.sin(y)
    (z,) = replace_nodes([gt.exp(x) * kept], {x: y})
    assert z is gt.exp(y) * kept


def test_replacements_are_all_made_at_once() -> None:
    x, y = gt.scalars(2)
    assert replace_nodes([x - y], {x: y, y: x}) == [y - x]


def test_a_substituted_input_is_an_input_no_more() -> None:
    x, y = gt.scalars(2)
    graph = Graph([x, y], [x * y]).substitute({x: gt.constant(2.0)})
    assert graph.inputs == (y,)
    assert graph.outputs == (y * 2.0,)


def test_a_graph_never_changes() -> None:
    with pytest.raises(FrozenError):
        Graph([], []).inputs = ()


def test_a_sort_stops_at_what_is_known() -> None:
    x = gt.scalar("x")
    y = gt.exp(x)
    z = gt.sin(y)
    assert toposort([z], [y]) == [z]


def test_a_key_does_not_depend_on_what_was_built_before() -> None:
    def key() -> str:
        a = gt.scalar("a")
        return Graph([a], [gt.sin(a) + gt.exp(gt.constant(3.5)) * gt.cos(a)]).key()

    before = key()
    kept = gt.exp(gt.constant(3.5))
    assert key() == before, kept


def test_a_key_tells_one_leaf_from_two() -> None:
    one, two = (gt.constant(np.arange(20.0)) for _ in range(2))
    assert Graph([], [one * one]).key() != Graph([], [one * two]).key()


def test_a_restored_graph_is_made_of_the_nodes_that_building_it_makes() -> None:
    a = gt.scalar("a")
    e = gt.exp(a)
    restored = pickle.loads(pickle.dumps(Graph([a], [e, gt.sin(a) + e])))
    (b,) = restored.inputs
    assert restored.outputs[1] is gt.sin(b) + gt.exp(b)


def test_a_graph_tells_the_classes_of_its_operations_and_which_hold_graphs() -> None:
    x, h = gt.matrix("x"), gt.vector("h")
    states = graphc.scan(lambda a, h: gt.tanh(a + h), sequences=x, outputs_info=h)
    graph = Graph([x, h], [gt.exp(states[-1])])
    assert graph.kinds == {type(node.op) for node in graph.nodes}
    assert graph.holders() == [node for node in graph.nodes if node.op.graphs()] != []
    assert Graph([x], [gt.exp(x)]).holders() == []


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
