"""Programs that capture other data in every round: their graphs are equal and compile once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from tests.compile.corpus import case, same

RANDOM = np.random.default_rng(0)
W = RANDOM.normal(size=100) / 10
X = np.linspace(-1.0, 1.0, 12)
MANY = 5


def softmax(x: Any) -> Any:
    """In NumPy, by rows."""
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


@case()
def training_on_captured_batches(mode: Any) -> None:
    w = gt.vector("w")
    for _ in range(MANY):
        batch = RANDOM.normal(size=(32, 100))
        loss = gt.log1p(gt.exp(batch @ w)).mean()
        step = graphc.function([w], [loss, graphc.grad(loss, w)], mode=mode)
        z = batch @ W
        slopes = 1 / (1 + np.exp(-z))
        same(step(W), [np.log1p(np.exp(z)).mean(), batch.T @ slopes / 32])


@case()
def reinforcement_learning_on_captured_transitions(mode: Any) -> None:
    theta = gt.matrix("theta")
    policy = RANDOM.normal(size=(6, 3))
    for _ in range(MANY):
        states = RANDOM.normal(size=(20, 6))
        actions = RANDOM.integers(0, 3, size=20)
        rewards = RANDOM.normal(size=20)

        def objective(theta: Any, states: Any = states, actions: Any = actions) -> Any:
            logs = gt.special.log_softmax(states @ theta, axis=-1)
            return (logs[np.arange(20), actions] * rewards).mean()  # noqa: B023

        slope = graphc.grad(objective(theta), theta)
        wanted = np.eye(3)[actions] - softmax(states @ policy)
        same(
            graphc.function([theta], slope, mode=mode)(policy),
            states.T @ (rewards[:, None] * wanted) / 20,
        )


@case()
def masks_in_a_closure(mode: Any) -> None:
    def masked(mask: Any) -> Callable[[Any], Any]:
        return lambda scores: gt.switch(mask, scores, -np.inf).max()

    scores = gt.vector("scores")
    for i in range(MANY):
        mask = np.arange(12) <= i % 12
        f = graphc.function([scores], masked(mask)(scores), mode=mode)
        same(f(X), X[mask].max())


@case()
def data_of_an_object(mode: Any) -> None:
    class Sampler:
        def draw(self) -> None:
            self.data = RANDOM.normal(size=(12, 20))

        def energy(self, x: Any) -> Any:
            return gt.tanh(x @ self.data).sum()

    x, sampler = gt.vector("x"), Sampler()
    for _ in range(MANY):
        sampler.draw()
        f = graphc.function([x], sampler.energy(x), mode=mode)
        same(f(X), np.tanh(X @ sampler.data).sum())


@case()
def parameters_in_a_dict(mode: Any) -> None:
    x = gt.vector("x")
    params = {"scale": np.full(12, 2.0), "shift": np.zeros(12)}
    for _ in range(MANY):
        params["shift"] = RANDOM.normal(size=12)
        y = x * params["scale"] + params["shift"]
        f = graphc.function([x], y, mode=mode)
        same(f(X), X * 2 + params["shift"])


@case()
def an_array_of_jax_in_the_step_of_a_scan(mode: Any) -> None:
    x = gt.vector("x")
    for _ in range(MANY):
        noise = jnp.asarray(RANDOM.normal(size=12), "float32")

        def step(h: Any) -> Any:
            return gt.tanh(h + noise)  # noqa: B023

        states = graphc.scan(step, outputs_info=x, n_steps=2)
        wanted = np.tanh(np.tanh(X + np.asarray(noise)) + np.asarray(noise))
        same(graphc.function([x], states[-1], mode=mode)(X), wanted)


@case()
def values_of_expressions_of_captured_data(mode: Any) -> None:
    w = gt.vector("w")
    for _ in range(MANY):
        rows = RANDOM.normal(size=(5, 12))
        score = gt.exp(rows @ w).sum()
        same(score.eval({w: X}, mode=mode), np.exp(rows @ X).sum())
