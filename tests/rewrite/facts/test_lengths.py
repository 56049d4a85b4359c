"""The shape of an array is found without the array, for every operation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ShapeError
from graphc.ir import (
    Constant,
    Graph,
    Input,
    Leaf,
    Node,
    Op,
    TensorType,
    TupleType,
    is_inexact,
    picks,
    toposort,
)
from graphc.loop.branch import Switch
from graphc.rewrite import optimize
from graphc.rewrite.facts.lengths import equal_lengths, length_of, lengths_of
from graphc.tensor import Tensor
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.create import Arange
from graphc.tensor.arrays.index import Index, Nonzero
from graphc.tensor.arrays.repeat import RepeatIndices
from graphc.tensor.core.shape import Length, Shape
from tests.contract.case import Case
from tests.contract.operations import FAMILIES
from tests.rewrite.exact import values_of

CASES = [
    pytest.param(case, id=f"{family}-{name}")
    for family, cases in FAMILIES.items()
    for name, case in cases.items()
]

x, m, w = gt.vector("x"), gt.matrix("m"), gt.vector("w")
k = gt.lscalar("k")


def symbolic(case: Case) -> tuple[list[Tensor], list[Any]]:
    """A case's operands, of lengths that are unknown but for 1, and its results."""
    dtype = "float64" if "float64" in case.dtypes else case.dtypes[0]
    shapes = [tuple(1 if n == 1 else None for n in shape) for shape in case.shapes]
    xs = [TensorType(dtype, shape)() for shape in shapes]
    try:
        ys = case.symbolic(*xs)
    except ShapeError:  # it wants to know a length
        xs = [TensorType(dtype, shape)() for shape in case.shapes]
        ys = case.symbolic(*xs)
    return xs, list(ys) if isinstance(ys, list | tuple) else [ys]


def shape_graph(y: Tensor, xs: list[Tensor]) -> Graph:
    shape = Tensor.make(Shape(), y)
    inputs = {node: None for node in toposort([shape]) if isinstance(node.op, Input)}
    return optimize(Graph([*dict.fromkeys([*xs, *inputs])], [shape]), checking=True).graph


def is_about_lengths(node: Node) -> bool:
    """Whether it is a length or made of lengths, or a view of which only the length is asked."""
    if isinstance(node.op, Input | Leaf | Constant | Shape | Length | Index | BroadcastTo):
        return True
    if isinstance(node.type, TupleType):
        return False
    small = node.type.is_static and math.prod(node.type.shape) <= 8
    return bool(small and not is_inexact(node.type.dtype))


def depends_on_values(y: Node) -> bool:
    """Whether some length is decided by the elements of an array."""
    return any(
        isinstance(node.op, Nonzero | RepeatIndices | Switch)
        or (isinstance(node.op, Arange) and is_inexact(node.op.dtype))
        for node in toposort([y])
    )


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("case", CASES)
def test_a_shape_is_found_without_the_array(case: Case) -> None:
    xs, ys = symbolic(case)
    random = np.random.default_rng(0)
    values: dict[Node, Any] = {
        a: random.normal(size=shape).astype(a.type.numpy_dtype)
        for a, shape in zip(xs, case.shapes, strict=True)
    }
    for y in ys:
        if not isinstance(y, Tensor) or not y.ndim:
            continue
        graph = shape_graph(y, xs)
        computed = [node for node in graph.nodes if not is_about_lengths(node)]
        assert not computed or depends_on_values(y), graph.nodes
        array, found = values_of([y, *graph.outputs], values)
        assert tuple(found.tolist()) == array.shape


def test_slices_of_equal_lengths_have_equal_lengths() -> None:
    assert equal_lengths(gt.exp(x)[1:], 0, x[1:] * 2, 0)
    assert equal_lengths(gt.exp(x)[:k], 0, gt.sin(x)[:k], 0)
    assert equal_lengths(gt.exp(m)[0, 1:], 0, m[:, 1:], 1)
    assert equal_lengths(x[1:], 0, x[:-1], 0)
    assert equal_lengths(x[2:-1], 0, x[1:-2], 0)
    assert not equal_lengths(x[1:], 0, x[:-2], 0)
    assert not equal_lengths(x[1:], 0, x[:1], 0)


@pytest.mark.parametrize("n", [0, 3, 20])
def test_a_slice_of_known_length_is_measured_on_an_array_of_its_own(n: int) -> None:
    y = gt.tensor("y", shape=(n,))
    done = shape_graph(gt.concatenate([gt.exp(y)[:k] * 0, x]), [x, y, k])
    assert optimize(done).graph.outputs == done.outputs


empty = gt.tensor("empty", shape=(None, 0))
fixed = gt.tensor("fixed", dtype="int64", shape=(5,))
PARTS = [
    empty[1:],
    gt.zeros_like(empty[1:]),
    gt.broadcast_to(empty, (2, empty.shape[0], 0))[:, 1:],
    fixed[k:],
    gt.tan(m[k:]) * gt.tan(m[k:]),
    gt.concatenate([m, m[k:]]) * 2,
    m[:k][:, ::-1] * 0,
    fixed[k:][::2],
    gt.exp(m)[k:, 0:0],
    gt.concatenate([m[0].reshape((-1, m.shape[1]))] * 2),
    gt.linalg.block_diag(*[m[0].reshape((-1, m.shape[1]))] * 2),
]


@pytest.mark.parametrize("part", PARTS)
def test_the_length_of_a_part_is_found_in_the_end(part: Tensor) -> None:
    xs = [empty, fixed, m, k]
    done = shape_graph(part, xs)
    assert optimize(done).graph.outputs == done.outputs
    random = np.random.default_rng(1)
    values: dict[Node, Any] = {
        empty: np.zeros((3, 0)),
        fixed: np.arange(5),
        m: random.normal(size=(4, 2)),
        k: 2,
    }
    array, found = values_of([part, *done.outputs], values)
    assert tuple(found.tolist()) == array.shape


def test_a_product_of_equal_lengths_is_a_square() -> None:
    square = gt.ravel(x[:, None] * gt.exp(x))
    (n,) = values_of([gt.as_tensor(length_of(square, 0))], {x: np.ones(3)})
    assert n == 9


def test_a_computed_entry_of_a_shape_may_be_minus_one() -> None:
    y = gt.reshape(gt.exp(x), (k, 3))
    (n,) = values_of([gt.as_tensor(length_of(y, 0))], {x: np.ones(6), k: -1})
    assert n == 2


def test_lengths_that_may_differ_are_not_equal() -> None:
    assert not equal_lengths(x, 0, w, 0)
    assert not equal_lengths(x[:k], 0, x[k:], 0)


def test_a_length_that_was_asked_for_is_the_length() -> None:
    assert length_of(gt.exp(gt.zeros((k, 3))), 0) is k
    assert lengths_of(x.reshape((2, -1))[:, None]) == lengths_of(x.reshape((2, -1))[:, None])


def test_an_operation_of_a_users_own_needs_no_rule() -> None:
    @dataclass(frozen=True, slots=True)
    class Swap(Op):
        def infer(self, a: TensorType, b: TensorType) -> TensorType:
            return TensorType(a.dtype, (b.shape[0], a.shape[0], 3, None))

    y = Tensor.make(Swap(), x, m)
    assert [length_of(y, axis) for axis in range(3)] == [length_of(m, 0), length_of(x, 0), 3]
    own: Any = length_of(y, 3)
    assert own is Tensor.make(Length(3), y)


def test_a_chain_of_many_nodes_has_a_length() -> None:
    y = x
    for _ in range(20_000):
        y = gt.sin(y)
    assert length_of(y, 0) is Tensor.make(Length(0), x)


def test_a_carry_has_the_known_length_of_the_initial_one() -> None:
    h, u = gt.vector("h"), gt.vector("u")
    rows = graphc.scan(
        lambda c, u: [c * 2, u], outputs_info=[h, None], non_sequences=[u], n_steps=4
    )
    start = gt.tensor("start", shape=(3,))
    (loop,) = graphc.clone_replace(rows[0], {h: start}).inputs
    last, *_ = picks(loop)
    assert last.type.shape == (None,)
    assert length_of(last, 0).op.value == 3
