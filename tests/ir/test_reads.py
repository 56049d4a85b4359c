"""An input is used where the expression read it as it was written, though the graph does not."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import UnusedInputError
from graphc.ir import read_by, toposort
from graphc.ir.reads import inputs_behind, living

VALUE = np.array([1.0, 2.0, 3.0])

READ: dict[str, Callable[[Any], Any]] = {
    "the slope of a sum": lambda x: graphc.grad(x.sum(), x),
    "the slope of a product": lambda x: graphc.grad((3 * x).sum(), x),
    "a slope's slope": lambda x: graphc.grad(graphc.grad((3 * x).sum(), x).sum() + x[0], x),
    "a Jacobian": lambda x: graphc.jacobian(2 * x, x),
    "a Hessian": lambda x: graphc.hessian((3 * x).sum(), x),
    "a tangent": lambda x: graphc.Rop(2 * x, x, gt.ones(3)),
    "a cotangent": lambda x: graphc.Lop(2 * x, x, gt.ones(3)),
    "a shape": lambda x: x.shape,
    "a shape by the function": gt.shape,
    "a length": lambda x: x.shape[0] * 2.5,
    "the shape of what is computed": lambda x: gt.exp(x)[:2].shape,
    "a size": lambda x: x.size + 1,
    "zeros": gt.zeros_like,
    "zeros by the method": lambda x: x.zeros_like() + 1.0,
    "zeros by NumPy's function": np.zeros_like,
    "ones": lambda x: gt.ones_like(2 * x),
    "a value": lambda x: gt.full_like(x, 7.0),
    "nothing": gt.empty_like,
    "a filled array": lambda x: gt.fill(x, 2.0),
    "a second array": lambda x: gt.second(x, 2.0),
    "zeros of a shape": lambda x: gt.zeros(x.shape),
    "ones of a length": lambda x: gt.ones((x.shape[0], 2)),
    "a random vector": lambda x: gt.random.normal(size=x.shape, rng=gt.random.key(0)),
}


@pytest.mark.parametrize("what", READ)
def test_an_input_that_was_read_is_used(what: str) -> None:
    x, other = gt.vector("x", shape=(3,)), gt.vector("other", shape=(3,))
    y = READ[what](x)
    found = graphc.function([x], y, mode="NUMPY")(VALUE)
    alone = graphc.function([], y, mode="NUMPY")() if x not in toposort([y]) else found
    np.testing.assert_array_equal(found, alone)
    with pytest.raises(UnusedInputError, match="the input other"):
        graphc.function([x, other], y, mode="NUMPY")


def test_an_input_that_was_read_for_something_else_is_not_used() -> None:
    x, y = gt.vector("x", shape=(3,)), gt.vector("y", shape=(3,))
    slopes = graphc.grad((2 * x + 3 * y).sum(), [x, y])
    shape = y.shape  # noqa: F841 (it lives on)
    with pytest.raises(UnusedInputError, match="the input y"):
        graphc.function([x, y], gt.exp(x), mode="NUMPY")
    graphc.function([x, y], slopes, mode="NUMPY")


def test_what_was_read_before_givens_and_by_an_update_is_used() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    w = graphc.shared(1.0)
    graphc.function([x], [], updates={w: graphc.grad(2 * x, x)}, mode="NUMPY")
    graphc.function([x], graphc.grad(2 * x, x) * y, givens={y: gt.constant(3.0)}, mode="NUMPY")


def test_a_warning_names_an_input_that_is_not_used() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    with pytest.warns(UserWarning, match="the input y"):
        graphc.function([x, y], graphc.grad(2 * x, x), on_unused_input="warn", mode="NUMPY")


def test_a_result_keeps_neither_inputs_nor_their_graph_alive() -> None:
    x = gt.scalar("x")
    cost = 2 * gt.exp(x) - 2 * gt.exp(x) + 5 * x
    slope = graphc.grad(3 * x, x)
    dead = [ref(cost), ref(x)]
    del x, cost
    gc.collect()
    assert [r() for r in dead] == [None, None]
    assert slope.eval(mode="NUMPY") == 3.0


def test_inputs_behind_a_deep_graph_are_found_without_recursion_and_shared() -> None:
    x = y = gt.scalar("x")
    for _ in range(5000):
        y = gt.sin(y)
    assert living([inputs_behind(y)]) == {x}
    assert inputs_behind(y) is inputs_behind(y.inputs[0])


def test_inputs_behind_each_of_many_layers_take_no_more_memory_than_the_layers() -> None:
    weights = [gt.scalar() for _ in range(2000)]
    y = gt.scalar()
    inputs = {y, *weights}
    for w in weights:
        y = gt.tanh(y * w)
    assert living([inputs_behind(y)]) == inputs
    tuples, left = {}, [inputs_behind(y)]
    while left:
        part = left.pop()
        if isinstance(part, tuple):
            tuples[id(part)] = part
            left += part
    assert sum(map(len, tuples.values())) == 2 * len(weights)


def test_a_result_that_is_made_again_and_again_remembers_only_what_lives() -> None:
    zeros = gt.zeros_like(gt.vector(shape=(3,)))
    kept = [gt.vector(shape=(3,)) for _ in range(20)]
    for x in kept:
        assert gt.zeros_like(x) is zeros
    for _ in range(1000):
        assert gt.zeros_like(gt.vector(shape=(3,))) is zeros
    assert read_by(zeros) >= {*kept}
    assert len(zeros._reads) < 20


def test_equal_graphs_are_one_object_whatever_they_were_made_from() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    assert graphc.grad(2 * x, x) is graphc.grad(2 * y, y)
