"""Whether an array equals its transpose: the quick look against what is built."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Graph, Node, TensorType, is_complex, toposort
from graphc.rewrite import optimize
from graphc.rewrite.facts.symmetry import _Look, _Transposes, equals_transpose
from graphc.tensor import Tensor
from tests.rewrite.random_graphs import random_graph

a, b = gt.tensor("a", shape=(4, 4)), gt.tensor("b", shape=(4, 4))
v = gt.tensor("v", shape=(4,))
column, row = gt.expand_dims(v, 1), gt.expand_dims(v, 0)


def nothing(x: Node) -> bool:
    return False


def is_b(x: Node) -> bool:
    return x is b


SYMMETRIC: list[Node] = [
    a + a.T,
    gt.exp(a * a.T) - 2 * (a.T + a),
    gt.abs(column - row),
    gt.exp(column) * gt.exp(row),
    optimize(Graph([a], [a @ a.T])).graph.outputs[0],
    gt.tanh(b) + gt.exp(b),
    (gt.exp(a) + gt.exp(a.T)) / (1 + gt.sin(a) * gt.sin(a.T)),
    gt.square(gt.expand_dims(a, 1) - gt.expand_dims(a, 0)).sum(axis=-1),
]

OTHERS: list[Node] = [
    a,
    a - a.T,
    a + gt.exp(a.T),
    column - row,
    gt.exp(a) * gt.exp(b),
    a @ b.T,
    a / a.T,
]


def test_what_equals_its_transpose_is_told_from_what_does_not() -> None:
    assert [equals_transpose(x, is_b) for x in SYMMETRIC] == [True] * len(SYMMETRIC)
    assert [equals_transpose(x, is_b) for x in OTHERS] == [False] * len(OTHERS)


def test_a_look_rules_out_nothing_that_would_be_built() -> None:
    built = looked = 0
    for seed in range(150):
        for x in toposort(random_graph(seed).outputs):
            is_matrix = isinstance(x.type, TensorType) and x.type.ndim >= 2
            if not is_matrix or is_complex(x.type.dtype):
                continue
            i = x.type.ndim - 2
            may, does = _Look(nothing).may_be(x, x, i), _Transposes(nothing).of(x, i) is x
            assert may or not does, x
            built, looked = built + does, looked + may
    assert 0 < built <= looked


def test_a_look_is_short_where_operands_could_be_exchanged_at_each_level() -> None:
    x: Tensor = a
    for _ in range(40):
        x = x * gt.exp(x)
    look = _Look(nothing)
    assert not look.may_be(x, x, 0)
