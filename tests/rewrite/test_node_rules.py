"""Every rule that is a function of a node, on a graph made for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.ir import Graph, Node
from graphc.rewrite import optimize
from graphc.rewrite.rule import RULES, NodeRule
from graphc.tensor import Tensor
from graphc.tensor.create import Arange, Eye
from graphc.tensor.elementwise import Cast
from graphc.tensor.index import HOLE, Index, Range
from graphc.tensor.reduce import LogSumExp, Max, Prod, Sum
from graphc.tensor.shape import (
    BroadcastTo,
    Concatenate,
    ExpandDims,
    Length,
    Reshape,
    Shape,
    Squeeze,
    Transpose,
)
from graphc.tensor.special import LogSoftmax, Softmax
from tests.rewrite.exact import tolerance, values_of

x, w = gt.matrix("x"), gt.vector("w")
c = gt.tensor("c", shape=(2, 1, 3))
truth = gt.tensor("truth", dtype="bool", shape=(None,))
small = gt.tensor("small", dtype="int8", shape=(None,))
half = gt.tensor("half", dtype="float16", shape=(None,))
scalar = gt.scalar("scalar")
shares = gt.softmax(x, 1)
n = gt.lscalar("n")

random = np.random.default_rng(0)
VALUES: dict[Node, Any] = {
    x: random.normal(size=(3, 4)),
    w: random.normal(size=4),
    c: random.normal(size=(2, 1, 3)),
    truth: np.array([True, False, True, True]),
    small: np.array([-128, -1, 0, 127], np.int8),
    half: np.array([1e-3, 0.5, -0.25, 2e-5], np.float16),
    scalar: 1.25,
    n: 3,
}

make = Tensor.make
two = gt.constant(2)
flags = gt.constant([True, False, True, True])
rows, columns = make(Length(0), x), make(Length(1), x)
entries = make(Length(0), w)
wide = make(BroadcastTo((3, None), ()), w, entries)
repeated_scalar = make(BroadcastTo((None,), ()), scalar, entries)

Example = tuple[Node, Node]

EXAMPLES: dict[str, list[Example]] = {
    "arange_made_static": [
        (make(Arange("int64"), gt.constant(1), gt.constant(20), two), gt.arange(1, 20, 2)),
    ],
    "eye_made_static": [
        (make(Eye((None, None), 1, "float32"), n, two), gt.eye(n, 2, 1, "float32")),
    ],
    "operand_of_neutral_elements": [
        (w * gt.ones((3, entries)), gt.broadcast_to(w, (3, entries))),
        (gt.zeros((3, 4)) + scalar, gt.broadcast_to(scalar, (3, 4))),
    ],
    "power_of_small_integer": [
        (x**3, x * gt.square(x)),
        (x**4, gt.square(gt.square(x))),
    ],
    "choice_of_one_thing": [
        (gt.where(truth, w, w), w),
        (gt.where(truth, scalar, scalar), gt.broadcast_to(scalar, make(Length(0), truth))),
    ],
    "choice_by_constant": [
        (gt.where(True, w, x), gt.broadcast_to(w, (rows, entries))),
        (gt.where(False, w, x), x),
    ],
    "choice_by_negation": [
        (gt.where(gt.logical_not(truth), w, scalar), gt.where(truth, scalar, w)),
    ],
    "choice_within_choice": [
        (gt.where(truth, gt.where(truth, w, 1.0), 2.0), gt.where(truth, w, 2.0)),
        (gt.where(truth, 1.0, gt.where(truth, 2.0, w)), gt.where(truth, 1.0, w)),
    ],
    "cast_to_own_dtype": [(make(Cast("float64"), x), x)],
    "cast_of_cast": [
        (small.astype("int32").astype("uint8"), small.astype("uint8")),
        (small.astype("float32").astype("int8"), small),
        (w.astype("complex128").astype("float32"), w.astype("float32")),
        (truth.astype("int8").astype("float64"), truth.astype("float64")),
    ],
    "index_of_everything": [(make(Index((Range(), Range())), x), x)],
    "index_by_new_axes": [
        (make(Index((None, Range(), None, Range())), x), gt.expand_dims(x, (0, 2))),
    ],
    "length_by_index": [(make(Index((-1,)), make(Shape(), x)), columns)],
    "index_made_static": [
        (make(Index((HOLE, Range(HOLE, HOLE))), x, two, gt.constant(1), n - 1), x[2, 1 : n - 1]),
        (make(Index((HOLE, HOLE)), x, gt.constant([0, 1]), two), x[[0, 1], 2]),
    ],
    "reduction_over_no_axes": [(make(Sum(()), x), x), (make(Max(()), x), x)],
    "reduction_over_length_one": [
        (make(Sum((0, 1)), c), make(Sum((0,)), make(Squeeze((1,)), c))),
        (make(Prod((1,)), c), make(Prod(()), make(Squeeze((1,)), c))),
    ],
    "reduction_of_same_reduction": [
        (gt.sum(gt.sum(c, 1), 1), gt.sum(c, (1, 2))),
        (gt.max(gt.max(c, 0), (0, 1)), gt.max(c)),
    ],
    "reduction_of_expand_dims": [
        (gt.sum(gt.expand_dims(x, (0, 2)), (1, 2)), make(ExpandDims((0,)), gt.sum(x, 0))),
    ],
    "reduction_of_transpose": [
        (gt.sum(x.T), gt.sum(x)),
        (gt.min(gt.transpose(c, (2, 0, 1)), 0), gt.min(c, 2)),
    ],
    "sum_of_negative": [(gt.sum(-x, 0), -gt.sum(x, 0))],
    "sum_of_broadcast": [
        (gt.sum(wide, 0), make(Sum(()), w) * 3),
        (
            gt.sum(make(BroadcastTo((2, 5, 3), (1,)), c), (1, 2)),
            gt.sum(make(Squeeze((1,)), c), 1) * 5,
        ),
        (
            make(Sum((0,)), make(BroadcastTo((300, None), ()), small, entries)),
            make(Sum(()), small) * np.int8(44),
        ),
        (
            make(Sum((0,)), make(BroadcastTo((70_000, None), ()), half, entries)),
            gt.cast(make(Sum(()), half).astype("float32") * 70_000, "float16"),
        ),
        (gt.sum(repeated_scalar), make(Sum(()), scalar) * entries.astype("float64")),
    ],
    "extreme_of_broadcast": [(gt.max(wide), make(Max((0,)), w))],
    "log_of_sum_of_exp": [
        (gt.log(gt.sum(gt.exp(x), 1)), make(LogSumExp((1,)), x)),
        (gt.log(gt.sum(gt.exp(x), 0, keepdims=True)), gt.logsumexp(x, 0, keepdims=True)),
    ],
    "log_of_softmax": [(gt.log(gt.softmax(x, 1)), make(LogSoftmax((1,)), x))],
    "softmax_times_share": [
        (shares * (x / shares), x),
        (shares * (x / shares - 2), x - shares * 2.0),
        (shares * (gt.expand_dims(w, 0) - x / shares), shares * gt.expand_dims(w, 0) - x),
        (shares * (x / shares + gt.tanh(x)), x + shares * gt.tanh(x)),
    ],
    "exp_over_sum_of_exp": [
        (gt.exp(x) / gt.sum(gt.exp(x), 1, keepdims=True), make(Softmax((1,)), x)),
        (gt.exp(x) / gt.sum(gt.exp(x)), make(Softmax((0, 1)), x)),
    ],
    "exp_times_share_of_sum": [
        (gt.exp(w) * (scalar / gt.sum(gt.exp(w))), scalar * make(Softmax((0,)), w)),
        (
            gt.exp(x) * gt.expand_dims(x[:, 0] / gt.sum(gt.exp(x), 1), 1),
            gt.expand_dims(x[:, 0], 1) * make(Softmax((1,)), x),
        ),
        (
            (x[:, :1] / gt.sum(gt.exp(x), 1, keepdims=True)) * gt.exp(x),
            x[:, :1] * make(Softmax((1,)), x),
        ),
    ],
    "exp_of_log_softmax": [(gt.exp(gt.log_softmax(x, 0)), make(Softmax((0,)), x))],
    "length_from_inputs": [
        (make(Length(1), gt.exp(x) * 2), columns),
        (make(Length(1), w + gt.exp(x)), entries),
        (make(Length(0), x @ w), rows),
        (make(Length(1), gt.transpose(gt.sum(gt.expand_dims(x, 0), 0))), rows),
        (make(Length(0), gt.concatenate([x, x], 1)), rows),
        (make(Length(0), x[:, 1:2].reshape((n, -1))), n),
        (make(Length(1), x[None, :, 0]), rows),
    ],
    "shape_from_inputs": [
        (make(Shape(), gt.exp(x)), make(Shape(), x)),
        (make(Shape(), x.T), gt.stack([columns, rows])),
        (make(Shape(), wide), gt.stack([gt.constant(3), entries])),
    ],
    "lengths_made_static": [
        (make(BroadcastTo((None, None), ()), w, two, entries), gt.broadcast_to(w, (2, entries))),
        (make(Reshape((None, -1)), x, two), make(Reshape((2, -1)), x)),
    ],
    "transpose_of_transpose": [
        (c.transpose(1, 2, 0).transpose(1, 2, 0), c.transpose(2, 0, 1)),
        (x.T.T, x),
    ],
    "transpose_to_same_order": [(make(Transpose((0, 1)), x), x)],
    "reshape_of_reshape": [
        (x.reshape(-1).reshape(2, -1), x.reshape(2, -1)),
        (c.reshape(3, 2).reshape(-1), c.reshape(-1)),
    ],
    "reshape_to_own_shape": [
        (make(Reshape((2, 1, 3)), c), c),
        (make(Reshape((None, None)), x, rows, columns), x),
    ],
    "expand_dims_of_squeeze": [(gt.expand_dims(gt.squeeze(c, 1), 1), c)],
    "expand_dims_of_expand_dims": [
        (gt.expand_dims(gt.expand_dims(x, 1), (0, 2)), gt.expand_dims(x, (0, 2, 3)))
    ],
    "squeeze_of_expand_dims": [
        (gt.squeeze(gt.expand_dims(x, (0, 2)), (0, 2)), x),
        (gt.squeeze(gt.expand_dims(x, (0, 2, 4)), (2,)), gt.expand_dims(x, (0, 3))),
        (gt.squeeze(gt.expand_dims(c, 0), (0, 2)), gt.squeeze(c, 1)),
    ],
    "no_axes_changed": [(make(Squeeze(()), x), x), (make(ExpandDims(()), x), x)],
    "concatenate_of_one": [(make(Concatenate(0), x), x)],
    "broadcast_to_own_shape": [
        (make(BroadcastTo((2, 1, 3), ()), c), c),
        (make(BroadcastTo((None, None), ()), x, rows, columns), x),
    ],
    "expand_dims_of_repeated_scalar": [
        (
            make(ExpandDims((0, 2)), repeated_scalar),
            make(BroadcastTo((1, None, 1), ()), scalar, entries),
        ),
    ],
    "broadcast_to_of_one_element": [
        (gt.broadcast_to(gt.expand_dims(scalar, (0, 1)), (rows, 3)), gt.full((rows, 3), scalar)),
        (gt.broadcast_to(gt.constant([1.0]), rows), gt.ones((rows,))),
    ],
    "broadcast_to_of_broadcast_to": [
        (
            gt.broadcast_to(gt.broadcast_to(w, (1, entries)), (2, 3, entries)),
            gt.broadcast_to(w, (2, 3, entries)),
        ),
    ],
    "operand_broadcast_by_operation": [
        (repeated_scalar + w, scalar + w),
        (gt.constant([1.5, 1.5, 1.5]) * c, 1.5 * c),
        (x - gt.expand_dims(scalar, (0, 1)), x - scalar),
        (wide * gt.zeros((3, entries)), w * gt.zeros((3, entries))),
    ],
    "function_of_broadcast": [
        (gt.exp(wide), make(BroadcastTo((3, None), ()), gt.exp(w), entries)),
        (wide * scalar, make(BroadcastTo((3, None), ()), w * scalar, entries)),
        (wide.astype("float32"), make(BroadcastTo((3, None), ()), w.astype("float32"), entries)),
    ],
    "constants_folded": [
        (gt.constant([1, 2]) + gt.constant([3, 4]), gt.constant([4, 6])),
        (gt.exp(gt.constant(0.0)), gt.constant(1.0)),
        (gt.arange(3), gt.constant([0, 1, 2])),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "power_of_small_integer": [x**5, x ** gt.constant([3.0, 4.0, 3.0, 4.0]), small**3],
    "choice_of_one_thing": [gt.where(truth, w, 0)],
    "choice_by_constant": [gt.where(flags, w, 0)],
    "cast_of_cast": [
        w.astype("float32").astype("float64"),
        n.astype("float64").astype("int64"),
        small.astype("float32").astype("uint8"),
        gt.zscalar().real.astype("float32").astype("float16"),
    ],
    "index_by_new_axes": [x[None, 1:], x[:, :]],
    "index_made_static": [x[[0, 1], n]],
    "reduction_of_transpose": [gt.sum(c.transpose(1, 2, 0), 0)],
    "sum_of_broadcast": [gt.sum(wide, 1)],
    "extreme_of_broadcast": [gt.max(repeated_scalar), gt.max(make(BroadcastTo((0, 4), ()), w), 1)],
    "log_of_sum_of_exp": [
        gt.log(gt.sum(gt.exp(gt.zvector()))),
        gt.log(gt.sum(x)),
    ],
    "exp_over_sum_of_exp": [
        gt.exp(x) / gt.sum(gt.exp(x), 1),
        gt.exp(x) / gt.sum(gt.exp(w)),
        gt.exp(x) / gt.sum(gt.exp(x), 0),
    ],
    "exp_times_share_of_sum": [
        gt.exp(x) * (1 / gt.sum(gt.exp(x), 1)),
        gt.exp(x) * gt.expand_dims(1 / gt.sum(gt.exp(x), 0), 1),
        gt.sin(x) * (1 / gt.sum(gt.sin(x))),
    ],
    "length_from_inputs": [rows, make(Length(0), x[1:]), make(Length(0), x.reshape(-1))],
    "shape_from_inputs": [make(Shape(), x)],
    "reshape_of_reshape": [x.reshape(2, 6).reshape(-1)],
    "broadcast_to_own_shape": [make(BroadcastTo((None,), ()), w, n)],
    "broadcast_to_of_broadcast_to": [gt.broadcast_to(gt.broadcast_to(w, (rows, n)), (rows, 4))],
    "operand_broadcast_by_operation": [
        gt.broadcast_to(scalar, n) + w,
        scalar + gt.zeros((3,)),
        gt.constant([1.0, 2.0, 3.0]) * c,
    ],
    "function_of_broadcast": [wide + w, wide * gt.broadcast_to(w, (rows, entries))],
    "constants_folded": [gt.exp(x), gt.arange(11), 1 // gt.zeros((20,))],
}


def node_rules() -> list[NodeRule]:
    return [rule for rule in RULES.values() if isinstance(rule, NodeRule)]


def cases(table: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(name, example, id=f"{name}-{i}")
        for name, examples in table.items()
        for i, example in enumerate(examples)
    ]


def test_every_rule_has_an_example() -> None:
    assert set(EXAMPLES) == {rule.name for rule in node_rules()}


@pytest.mark.parametrize(("name", "example"), cases(EXAMPLES))
def test_the_rule_makes_what_the_example_says(name: str, example: Example) -> None:
    before, after = example
    assert RULES[name].apply(before) is after


@pytest.mark.parametrize(("name", "example"), cases(EXAMPLES))
def test_the_example_keeps_its_values(name: str, example: Example) -> None:
    lhs, rhs = values_of(example, VALUES)
    assert lhs.shape == rhs.shape
    np.testing.assert_allclose(rhs, lhs, **tolerance(lhs.dtype.name))


@pytest.mark.parametrize(("name", "example"), cases(EXAMPLES))
def test_the_rule_is_found_by_its_root(name: str, example: Example) -> None:
    graph = Graph(VALUES, [example[0]])
    done = optimize(graph, including=[name], recording=True, checking=True)
    applied = {change.rule.name for report in done.passes for change in report.records}
    assert applied == {name}


@pytest.mark.parametrize(("name", "node"), cases(LEFT_ALONE))
def test_the_rule_leaves_what_it_does_not_hold_for(name: str, node: Node) -> None:
    assert RULES[name].apply(node) in {None, node}


def test_a_constant_that_cannot_be_computed_stays() -> None:
    class Broken(Cast):
        __slots__ = ()

        def perform(self, x: Any) -> Any:
            raise ValueError(f"no {x}")

    node = make(Broken("float32"), gt.constant(1.0))
    assert RULES["constants_folded"].apply(node) is None
