"""Tangents are Jacobians times vectors, also where only a pullback is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    DisconnectedInputError,
    ShapeError,
    UnsupportedOperationError,
)
from graphc.ir import Op
from graphc.tensor import Tensor
from tests.reference import evaluate

x, y = gt.vector("x"), gt.vector("y")


def test_several_tangents_come_as_a_list() -> None:
    pushed = graphc.pushforward([x * y, gt.exp(x)], [x, y], [gt.ones_like(x), x])
    found = evaluate(pushed, {x: [1.0, 2.0], y: [3.0, 4.0]})
    np.testing.assert_allclose(found[0], [3 + 1, 4 + 4])
    np.testing.assert_allclose(found[1], np.exp([1.0, 2.0]))


def steps_of_static_length() -> tuple[Tensor, Tensor]:
    xs = gt.tensor("xs", shape=(4, 3))
    ys = graphc.scan(lambda row, c: gt.tanh(row + 2 * c), xs, [gt.zeros((3,))])
    return xs, ys


MOVING: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "pushforward": lambda xs, ys, e: graphc.pushforward(ys, xs, e),
    "pullback": lambda xs, ys, e: graphc.pullback(ys, xs, e),
    "known_grads": lambda xs, ys, e: graphc.grad(None, xs, known_grads={ys: e}),
    "Hessian": lambda xs, ys, e: graphc.hessian_vector_product((ys**2).sum(), xs, e),
}


@pytest.mark.parametrize("what", MOVING)
def test_what_is_given_may_know_less_of_its_lengths_than_the_array(what: str) -> None:
    xs, ys = steps_of_static_length()
    open, known = gt.matrix("open"), gt.tensor("known", shape=(4, 3))
    derivatives = [MOVING[what](xs, ys, e) for e in (open, known)]
    f = graphc.function([xs, open, known], derivatives, mode="NUMPY")
    rng = np.random.default_rng(0)
    value, moved = rng.normal(size=(2, 4, 3))
    found, wanted = f(value, moved, moved)
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ShapeError, match="does not have the shape"):
        f(value, moved[:2], moved)
    with pytest.raises(ShapeError, match="axis 0 has length 2, not 4"):
        MOVING[what](xs, ys, gt.tensor("short", shape=(2, None)))


def test_it_has_an_older_name() -> None:
    assert graphc.Rop(x**2, x, y) is graphc.pushforward(x**2, x, y)


@pytest.mark.parametrize("own", [True, False])
def test_asking_for_rules_of_its_own_changes_nothing(own: bool) -> None:
    pushed = graphc.pushforward(x**2, x, y)
    assert graphc.pushforward(x**2, x, y, use_op_pushforward=own) is pushed
    assert graphc.Rop(x**2, x, y, use_op_rop_implementation=own) is pushed


@pytest.mark.parametrize(("returned", "none"), [("zero", False), ("none", True)])
def test_an_output_without_influence(returned: Any, none: bool) -> None:
    with pytest.raises(DisconnectedInputError):
        graphc.pushforward(gt.exp(y), x, x)
    pushed = graphc.pushforward(gt.exp(y), x, x, "ignore", returned)
    assert (pushed is None) is none


@pytest.mark.parametrize("tangents", [[x, x], gt.scalar()], ids=["number", "rank"])
def test_tangents_that_do_not_fit_are_refused(tangents: Any) -> None:
    with pytest.raises(ArgumentError):
        graphc.pushforward(x, x, tangents)


def test_tangents_are_in_the_structure_of_what_moves() -> None:
    wrt, moves = {"a": x, "b": [y]}, {"b": [gt.ones_like(y)], "a": gt.ones_like(x)}
    pushed = graphc.pushforward({"product": x * y}, wrt, moves)
    assert evaluate([pushed["product"]], {x: [1.0, 2.0], y: [3.0, 4.0]})[0].tolist() == [4.0, 6.0]
    product = graphc.hessian_vector_product((x**2 * y).sum(), wrt, moves)
    a, b = evaluate([product["a"], product["b"][0]], {x: [1.0], y: [3.0]})
    assert (a.tolist(), b.tolist()) == ([8.0], [2.0])
    with pytest.raises(ArgumentError, match="another structure: expected a dict with the keys"):
        graphc.pushforward(x * y, wrt, [x, y])


def test_tangents_of_lengths_that_are_not_continuous_do_not_arrive() -> None:
    with pytest.raises(DisconnectedInputError):
        graphc.pushforward(gt.floor(x), x, x)
    with pytest.raises(DisconnectedInputError):
        graphc.pushforward(x.argmax(), x, x)


@dataclass(frozen=True, slots=True)
class Twice(Op):
    """Twice its operand, with a choice of pullbacks and no pushforward."""

    linear: bool

    def infer(self, x: Any) -> Any:
        return x

    def pullback(self, g: Any, y: Any, x: Any) -> Any:
        return (2 * g,) if self.linear else (2 * g * g,)


def test_a_pullback_is_a_pushforward() -> None:
    pushed = graphc.pushforward(Tensor.make(Twice(True), x), x, y)
    assert evaluate([pushed], {y: [1.0, 2.0], x: [0.0, 0.0]})[0].tolist() == [2.0, 4.0]


def test_a_pullback_that_is_not_linear_is_none() -> None:
    with pytest.raises(UnsupportedOperationError, match="not linear"):
        graphc.pushforward(Tensor.make(Twice(False), x), x, y)


CHAINS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda a: gt.tanh(gt.exp(a) * a),
    "reductions": lambda a: gt.softmax(a) * a.max() + a.prod(),
    "softmaxes": lambda a: gt.softmax(a) * gt.log_softmax(a**2) + gt.logsumexp(a),
    "indices": lambda a: a[::-1][1:].set(2.0) * a[1],
}


@pytest.mark.parametrize("length", [3, None])
@pytest.mark.parametrize("what", CHAINS)
def test_forward_and_reverse_agree(what: str, length: int | None) -> None:
    point, v = np.array([0.3, 0.7, 0.5]), np.array([1.0, -2.0, 0.5])
    z = gt.tensor(shape=(length,))
    out = CHAINS[what](z)
    w = gt.constant(np.arange(1.0, 1 + len(evaluate([out], {z: point})[0])))
    pushed = (graphc.pushforward(out, z, gt.constant(v)) * w).sum()
    pulled = (graphc.pullback(out, z, w) * v).sum()
    a, b = evaluate([pushed, pulled], {z: point})
    np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.exhaustive
def test_a_long_chain_through_pullbacks_is_pushed_forward() -> None:
    z = gt.vector()
    y = z
    for _ in range(1000):
        y = y - y.max() * y.prod()
    pushed = graphc.pushforward(y.sum(), z, gt.ones_like(z))
    (found,) = evaluate([pushed], {z: np.array([0.5, 0.0])})
    # Each step takes a quarter of what the second element, and by it the first, has moved.
    np.testing.assert_allclose(found, 2 * 0.75**1000, rtol=1e-10)
