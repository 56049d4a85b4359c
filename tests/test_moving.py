"""Scripts in the style of PyTensor's and Theano's tutorials run once their imports are changed.

``config.scan_returns_updates`` is set, as docs/migrating.md says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc

HEAD = """
import numpy as np
import pytensor
import pytensor.tensor as T
from pytensor import function, shared
from pytensor.tensor.random.utils import RandomStream
"""

POWERS = """
k, A = T.iscalar("k"), T.vector("A")
result, updates = pytensor.scan(fn=lambda prior_result, A: prior_result * A,
                                outputs_info=T.ones_like(A), non_sequences=A, n_steps=k)
power = function(inputs=[A, k], outputs=result[-1], updates=updates)
found = [power(range(5), 2), power(range(5), 4)]
"""

MINIBATCHES = """
rng = np.random.RandomState(3)
data = rng.normal(size=(40, 3))
target = (data @ [1.0, -2.0, 0.5] > 0).astype("int32")
train_x = shared(np.asarray(data, dtype=pytensor.config.floatX), borrow=True)
train_y = T.cast(shared(np.asarray(target, dtype=pytensor.config.floatX)), "int32")
index, x, y = T.lscalar(), T.matrix("x"), T.ivector("y")
W = shared(value=np.zeros((3, 2), dtype=pytensor.config.floatX), name="W", borrow=True)
p_y_given_x = T.special.softmax(T.dot(x, W), axis=-1)
cost = -T.mean(T.log(p_y_given_x)[T.arange(y.shape[0]), y])
train = function(
    inputs=[index], outputs=(cost,), updates=[(W, W - 0.5 * T.grad(cost, W))],
    givens={x: train_x[index * 10: (index + 1) * 10], y: train_y[index * 10: (index + 1) * 10]})
found = [train(i)[0] for i in range(4)] + [W.get_value()]
assert "%s_grad" % W == "W_grad" and type(train(0)) is list
"""

NETWORK = """
rng = np.random.RandomState(0)
wx, wh = (shared(rng.normal(size=(2, 2)), name) for name in ("wx", "wh"))
x, h0 = T.matrix("x"), T.vector("h0")

def recurrence(x_t, h_tm1):
    h_t = T.sigmoid(T.dot(x_t, wx) + T.dot(h_tm1, wh))
    return [h_t, T.special.softmax(h_t, axis=-1)]

[h, s], _ = pytensor.scan(fn=recurrence, sequences=x, outputs_info=[h0, None],
                          n_steps=x.shape[0])
found = function([x, h0], [h, s])(np.ones((3, 2)), np.zeros(2))
"""

MACHINE = """
stream = RandomStream(7)
rng = np.random.RandomState(1)
W = shared(rng.uniform(-0.1, 0.1, size=(6, 4)), "W")
chain = shared(np.zeros((5, 4)), "chain")
v = T.matrix("v")

def gibbs(h):
    v_mean = T.sigmoid(T.dot(h, W.T))
    v_sample = stream.binomial(size=v_mean.shape, n=1, p=v_mean).astype("float64")
    h_mean = T.sigmoid(T.dot(v_sample, W))
    return [v_mean, v_sample, stream.binomial(size=h_mean.shape, n=1, p=h_mean).astype("float64")]

([v_means, v_samples, h_samples], updates) = pytensor.scan(
    gibbs, outputs_info=[None, None, chain], n_steps=3)

def energy(v):
    return -T.log(1 + T.exp(T.dot(v, W))).sum()

end = v_samples[-1]
updates[W] = W - 0.01 * T.grad(energy(v) - energy(end), W, consider_constant=[end])
updates[chain] = h_samples[-1]
train = function([v], [v_means[-1], end], updates=updates)
before = W.get_value()
found = [train(np.ones((5, 6)))[1], train(np.ones((5, 6)))[1], before, W.get_value(),
         chain.get_value()]
"""


def run(script: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray[Any, Any]]:
    """Return the results of a script in which ``pytensor`` is replaced by ``graphc``."""
    monkeypatch.setattr(graphc.config, "mode", mode)
    monkeypatch.setattr(graphc.config, "scan_returns_updates", True)
    space: dict[str, Any] = {}
    exec((HEAD + script).replace("pytensor", "graphc"), space)
    return [np.asarray(y) for y in space["found"]]


pytestmark = pytest.mark.filterwarnings("ignore::graphc.RecompileWarning")


def test_powers_by_a_scan_with_updates(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    squares, fourths = run(POWERS, mode, monkeypatch)
    np.testing.assert_allclose([squares, fourths], [np.arange(5.0) ** 2, np.arange(5.0) ** 4])


def test_minibatches_by_givens(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *costs, found = run(MINIBATCHES, mode, monkeypatch)
    data = np.random.RandomState(3).normal(size=(40, 3))
    target = np.eye(2)[(data @ [1.0, -2.0, 0.5] > 0).astype(int)]
    w, expected = np.zeros((3, 2)), []
    for x, y in zip(np.split(data, 4), np.split(target, 4), strict=True):
        p = np.exp(x @ w) / np.exp(x @ w).sum(1, keepdims=True)
        expected.append(-np.log((p * y).sum(1)).mean())
        w = w - 0.5 * x.T @ (p - y) / 10
    np.testing.assert_allclose(costs, expected, 1e-6)
    np.testing.assert_allclose(found, w, 1e-5)


def test_a_recurrent_network(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    h, s = run(NETWORK, mode, monkeypatch)
    rng = np.random.RandomState(0)
    wx, wh, state = rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), np.zeros(2)
    for h_t, s_t in zip(h, s, strict=True):
        state = 1 / (1 + np.exp(-(np.ones(2) @ wx + state @ wh)))
        np.testing.assert_allclose(h_t, state, 1e-6)
        np.testing.assert_allclose(s_t, np.exp(state) / np.exp(state).sum(), 1e-6)


def test_contrastive_divergence(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, before, after, chain = run(MACHINE, mode, monkeypatch)
    expected = run(MACHINE, "NUMPY", monkeypatch)
    for x, y in zip((first, second, before, after, chain), expected, strict=True):
        np.testing.assert_allclose(x, y, 1e-6, 1e-9)
    assert {*np.unique(first)} == {0.0, 1.0}
    assert (first != second).any()
    assert {*np.unique(chain)} <= {0.0, 1.0}
    assert (before != after).all()
