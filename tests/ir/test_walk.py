"""Walks meet each node once, in a fixed order, however deep a graph is."""

from __future__ import annotations

from typing import Any

import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import (
    Node,
    ancestors,
    dependencies_first,
    dependent,
    explicit_graph_inputs,
    graph_inputs,
    reachable_nodes,
    toposort,
    unfold,
)

DEEP = 5_000
"""Deeper than Python's recursion limit."""

TREE = {"root": ["left", "right"], "left": ["leaf"], "right": ["leaf", "left"], "leaf": []}


def chain() -> tuple[Any, Any]:
    x = gt.scalar("x")
    y = x
    for _ in range(DEEP):
        y = gt.sin(y)
    return x, y


def test_a_walk_meets_each_node_once_in_the_order_of_meeting() -> None:
    asked: list[str] = []

    def following(name: str) -> list[str]:
        asked.append(name)
        return TREE[name]

    assert [*reachable_nodes(["root", "left"], following)] == ["root", "left", "leaf", "right"]
    assert asked == ["root", "left", "leaf", "right"]


def test_each_node_comes_after_what_it_needs() -> None:
    done: dict[str, int] = {}
    for name in dependencies_first(["root"], TREE.__getitem__, done):
        assert all(other in done for other in TREE[name])
        done[name] = len(done)
    assert [*done] == ["leaf", "left", "right", "root"]


def test_what_is_done_already_is_left_out() -> None:
    done = {"left"}
    names: list[str] = []
    for name in dependencies_first(["root", "right"], TREE.__getitem__, done):
        done.add(name)
        names.append(name)
    assert names == ["leaf", "right", "root"]


def test_several_may_be_done_together() -> None:
    done: set[str] = set()
    names: list[str] = []
    for name in dependencies_first(["left", "right"], TREE.__getitem__, done):
        done |= {name, "right"}
        names.append(name)
    assert names == ["leaf", "left"]


def test_walks_are_not_recursive() -> None:
    x, y = chain()
    assert len(reachable_nodes([y], lambda node: node.inputs)) == DEEP + 1
    assert len(dependent(toposort([y]), [x])) == DEEP + 1
    done: set[Node] = set()
    for node in dependencies_first([y], lambda node: node.inputs, done):
        done.add(node)
    assert len(done) == DEEP + 1


def meanings(table: dict[Node, Node], output: Node) -> Node:
    done: dict[Node, Node] = {}

    def again(node: Node) -> Node:
        return node.with_inputs([done[x] for x in node.inputs])

    def endless(node: Node) -> Exception:
        return ValueError(f"endless: {node.op.name}")

    (found,) = unfold([output], done, again, table.get, endless)
    return found


def test_a_meaning_is_unfolded_in_turn() -> None:
    x = gt.scalar("x")
    table = {gt.tanh(x): gt.sinh(x) / gt.cosh(x), gt.sinh(x): gt.exp(x)}
    assert meanings(table, gt.sqrt(gt.tanh(x))) is gt.sqrt(gt.exp(x) / gt.cosh(x))


@pytest.mark.parametrize("by", [gt.tanh, lambda x: gt.exp(gt.tanh(x))])
def test_a_meaning_made_of_itself_is_refused(by: Any) -> None:
    x = gt.scalar("x")
    with pytest.raises(ValueError, match="endless: tanh"):
        meanings({gt.tanh(x): by(x)}, gt.sqrt(gt.tanh(x)))


def test_the_inputs_of_a_graph_are_what_nothing_computes() -> None:
    x, w, c = gt.scalar("x"), graphc.shared(1.0, "w"), gt.constant(3.0)
    inner = gt.exp(x)
    y = inner * w + c
    assert {*ancestors([y])} == {y, inner * w, inner, x, w, c}
    assert {*graph_inputs([y])} == {x, w, c}
    assert {*ancestors([y], blockers=[inner])} == {y, inner * w, inner, w, c}
    assert {*explicit_graph_inputs([y])} == {*explicit_graph_inputs(y)} == {x}
