"""Programs that fit models, and compile for each fit or once for all, as they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from tests.compile.corpus import case, same

RANDOM = np.random.default_rng(1)
X = np.linspace(-1.0, 1.0, 12)
DATA = RANDOM.normal(size=(32, 5))
LABELS = (DATA @ np.arange(5.0) > 0) * 1.0


def logistic(data: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], penalty: float) -> Any:
    """The loss of weights and its gradient, of data that are captured."""
    w = gt.vector("w")
    loss = (gt.softplus(data @ w) - labels * (data @ w)).mean() + penalty * (w**2).sum()
    return w, [loss, graphc.grad(loss, w)]


def fitted(step: Callable[..., Any], rounds: int) -> np.ndarray[Any, Any]:
    """Weights after that many steps down the gradient."""
    w = np.zeros(5)
    for _ in range(rounds):
        w = w - 0.5 * np.asarray(step(w)[1])
    return w


def fitted_by_hand(
    data: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], penalty: float, rounds: int
) -> np.ndarray[Any, Any]:
    """The same in NumPy."""
    w = np.zeros(5)
    for _ in range(rounds):
        shares = 1 / (1 + np.exp(-data @ w))
        w = w - 0.5 * (data.T @ (shares - labels) / len(data) + 2 * penalty * w)
    return w


@case()
def cross_validation(mode: Any) -> None:
    for fold in range(5):
        kept = np.arange(30) % 5 != fold
        data, labels = DATA[:30][kept], LABELS[:30][kept]
        w, outputs = logistic(data, labels, 0.01)
        step = graphc.function([w], outputs, mode=mode)
        same(fitted(step, 20), fitted_by_hand(data, labels, 0.01, 20))


@case()
def a_sweep_of_hyperparameters(mode: Any) -> None:
    for penalty in (0.0, 0.001, 0.01, 0.1, 1.0, 0.3):
        w, outputs = logistic(DATA, LABELS, penalty)
        step = graphc.function([w], outputs, mode=mode)
        same(fitted(step, 12), fitted_by_hand(DATA, LABELS, penalty, 12))


@case()
def training_and_evaluation_of_one_builder(mode: Any) -> None:
    def built(dropout: float, training: bool) -> Any:
        x, w = gt.matrix("x"), gt.vector("w")
        z = x @ w * (1 - dropout)
        return graphc.function([x, w], graphc.grad(z.sum(), w) if training else z, mode=mode)

    train = built(0.5, training=True)
    same(train(DATA, np.ones(5)), DATA.sum(axis=0) * 0.5)
    test = built(0.0, training=False)
    same(test(DATA, np.ones(5)), DATA.sum(axis=1))


@case()
def objects_with_a_function_each(mode: Any) -> None:
    class Layer:
        def __init__(self, width: int) -> None:
            self.weights = RANDOM.normal(size=(width, width))
            x = gt.vector("x", shape=(width,))
            self.forward = graphc.function([x], gt.tanh(x @ self.weights), mode=mode)

    layers = [Layer(width) for width in (4, 5, 6, 7)]
    for layer in layers:
        ones = np.ones(len(layer.weights))
        same(layer.forward(ones), np.tanh(layer.weights.sum(axis=0)))


@case()
def a_shared_variable_with_many_values(mode: Any) -> None:
    rate, x = graphc.shared(0.0, name="rate"), gt.vector("x")
    f = graphc.function([x], x * rate, mode=mode)
    for value in np.arange(20.0):
        rate.set_value(value)
        same(f(X), X * value)


@case()
def a_shared_variable_a_fit(mode: Any) -> None:
    for start in np.arange(6.0):
        w, x = graphc.shared(np.full(3, start)), gt.vector("x")
        graphc.function([x], updates=[(w, w + x)], mode=mode)(np.ones(3))
        same(w.get_value(), np.full(3, start + 1))


@case()
def a_small_model_of_every_size(mode: Any) -> None:
    for width in (4, 8, 16, 32):
        x = gt.matrix("x", shape=(None, 5))
        w = graphc.shared(np.ones((5, width)), name="w")
        f = graphc.function([x], gt.tanh(x @ w).sum(), mode=mode)
        same(f(DATA), np.tanh(DATA.sum(axis=1)).sum() * width)


@case()
def numbers_that_are_marked_as_data(mode: Any) -> None:
    x = gt.vector("x")
    for i in range(10):
        rate = graphc.runtime(0.5**i)
        same(graphc.function([x], gt.tanh(x) * rate, mode=mode)(X), np.tanh(X) * 0.5**i)


@case()
def a_loop_that_passes_what_changes(mode: Any) -> None:
    w, rate, batch = gt.vector("w"), gt.scalar("rate"), gt.matrix("batch")
    loss = gt.softplus(batch @ w).mean()
    step = graphc.function([w, rate, batch], w - rate * graphc.grad(loss, w), mode=mode)
    weights = np.zeros(5)
    for i in range(20):
        rows = DATA[RANDOM.integers(0, 32, size=8)]
        shares = 1 / (1 + np.exp(-rows @ weights))
        wanted = weights - 0.5**i * rows.T @ shares / 8
        weights = np.asarray(step(weights, 0.5**i, rows))
        same(weights, wanted)
