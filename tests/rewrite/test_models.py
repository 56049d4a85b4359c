"""What becomes of models people write: fewer operations, and derivatives that stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import Graph, Node
from graphc.rewrite import optimize
from tests.rewrite.exact import values_of

x, W = gt.matrix("x"), gt.matrix("W")
y, w, h = gt.vector("y"), gt.vector("w"), gt.vector("h")
b, s = gt.scalar("b"), gt.scalar("s")

Model = tuple[Node, list[Node]]


def logistic() -> Model:
    p = 1 / (1 + gt.exp(-(x @ w + b)))
    return gt.mean(-y * gt.log(p) - (1 - y) * gt.log(1 - p)) + 0.01 * gt.sum(w**2), [w, b]


def normal() -> Model:
    return gt.sum(-0.5 * ((y - b) / s) ** 2 - gt.log(s) - 0.5 * np.log(2 * np.pi)), [b, s]


def student() -> Model:
    return gt.sum(-5 / 2 * gt.log(1 + ((y - b) / s) ** 2 / 4) - gt.log(s)), [b, s]


def huber() -> Model:
    far = gt.abs(y - b)
    return gt.sum(gt.where(far < 1, 0.5 * (y - b) ** 2, far - 0.5)), [b]


def perceptron() -> Model:
    return gt.mean((gt.tanh(x @ W + b) @ w - y) ** 2), [W, w, b]


def rectified() -> Model:
    return gt.mean((gt.maximum(x @ W, 0) @ w - y) ** 2), [W, w]


def batch_norm() -> Model:
    z = x @ W
    centred = z - gt.mean(z, 0)
    return gt.mean((centred / gt.sqrt(gt.mean(centred**2, 0) + 1e-5) @ w - y) ** 2), [W, w]


def gates() -> Model:
    kept, new, shown = gt.sigmoid(h * w), gt.sigmoid(h + w), gt.sigmoid(h - w)
    return gt.sum(shown * gt.tanh(kept * y + new * gt.tanh(h * 2))), [h, w, y]


def gelu() -> Model:
    return gt.sum(0.5 * y * (1 + gt.tanh(0.7978845608 * (y + 0.044715 * y**3)))), [y]


def polynomial() -> Model:
    return gt.sum(y**5 - 3 * y**4 + 2 * y**3 - y**2 + b * y + 1), [y, b]


def kernel() -> Model:
    return gt.sum(s**2 * gt.exp(-0.5 * (y[:, None] - y[None, :]) ** 2 / b**2)), [y, s, b]


def unit_vector() -> Model:
    return gt.sum(y / gt.sqrt(gt.sum(y**2)) * s), [y, s]


def powers() -> Model:
    return gt.sum(gt.sqrt(y) ** 3 / y + y**1.5), [y]


def mixture() -> Model:
    return gt.logsumexp(gt.stack([-((y - s) ** 2) / 2, -((y - b) ** 2) / 2]).sum(1)), [s, b]


def attention() -> Model:
    return gt.sum(gt.square(gt.softmax(x @ W @ x.T / gt.sqrt(s), 1) @ x)), [x, W]


MODELS = [
    logistic, normal, student, huber, perceptron, rectified, batch_norm, gates, gelu, polynomial,
    kernel, unit_vector, powers, mixture, attention,
]  # fmt: skip


def operations(outputs: list[Node]) -> int:
    return sum(bool(node.inputs) for node in Graph(INPUTS, outputs).nodes)


INPUTS = [x, W, y, w, h, b, s]


def first(model: Callable[[], Model]) -> list[Node]:
    loss, wrt = model()
    return [loss, *graphc.grad(loss, wrt)]


def second(model: Callable[[], Model]) -> list[Node]:
    loss, wrt = model()
    norms = [gt.sum(g * g) for g in graphc.grad(loss, wrt)]
    return graphc.grad(gt.sum(gt.stack(norms)), wrt)


@pytest.mark.parametrize("derivatives", [first, second])
@pytest.mark.parametrize("model", MODELS)
def test_rewriting_adds_no_operation(model: Any, derivatives: Any) -> None:
    outputs = derivatives(model)
    done = optimize(Graph(INPUTS, outputs), checking=True).graph
    assert operations(list(done.outputs)) < operations(outputs)


# The derivative of an extreme is by which elements equal it: they must do so bit for bit, whatever
# becomes of them.

EXPRESSIONS: list[Callable[[Any], Any]] = [
    lambda x: gt.square(gt.tanh(x)) - 1,
    lambda x: gt.exp(x) - 1,
    lambda x: 1 - gt.exp(-gt.square(x)),
    lambda x: gt.exp(x) / (1 + gt.exp(x)),
    lambda x: 3 - 2 * x,
    lambda x: -(x / 3) * 0.7,
    lambda x: x * 0.1 + 0.2 + 0.3,
    lambda x: (x - w) / s,
    lambda x: gt.log(1 + gt.exp(x * s)),
    lambda x: gt.sqrt(gt.square(x) + 1) - gt.abs(x),
    lambda x: gt.log(gt.softmax(x, 1)),
    lambda x: 1 - gt.sigmoid(x + b),
    lambda x: gt.concatenate([gt.exp(x) * 2, -(x.T) / 3 + w[:4][:, None]]),
    lambda x: (gt.exp(x[1:, ::-1]) * 0.3).T,
    lambda x: gt.where(x > 0, x**3 * 0.1, gt.expm1(x) * s),
    lambda x: gt.sort(x * 0.7, 1) - gt.cumsum(x / 3, 0),
]
EXTREMES: list[Callable[[Any], Any]] = [
    lambda z: gt.max(z, 1),
    lambda z: gt.min(z, 0),
    gt.max,
    lambda z: gt.min(-z, 1),
    lambda z: gt.max(z * 0.3 - 1, 0),
    lambda z: gt.max(gt.exp(gt.min(z, 1) / 7)),
    lambda z: gt.log(gt.sum(gt.exp(z - gt.max(z, 1, keepdims=True)), 1)),
]

random = np.random.default_rng(3)
VALUES: dict[Node, Any] = {
    x: random.normal(size=(4, 4)),
    w: random.normal(size=4),
    s: 1.7,
    b: -0.3,
}


@pytest.mark.parametrize("extreme", range(len(EXTREMES)))
@pytest.mark.parametrize("expression", range(len(EXPRESSIONS)))
def test_derivatives_of_extremes_are_those_as_written(expression: int, extreme: int) -> None:
    found = EXTREMES[extreme](EXPRESSIONS[expression](x))
    g = graphc.grad(gt.sum(found), x)
    done = optimize(Graph([x, w, s, b], [g]), checking=True).graph.outputs[0]
    wanted, got = values_of([g, done], VALUES)
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
    assert extreme == len(EXTREMES) - 1 or np.any(got)
