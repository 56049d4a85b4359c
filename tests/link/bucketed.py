"""Graphs of arrays whose lengths are in buckets, which the tests of JAX and MLX share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt

__all__ = ["LENGTHS", "RANDOM", "TABLE", "recurrent", "recurrent_values", "vectors", "x", "y"]

RANDOM = np.random.default_rng(0)
LENGTHS = (5, 16, 1, 20, 32)

x, y = gt.vector("x", bucket=2), gt.vector("y", bucket=2)


def vectors(n: int) -> tuple[np.ndarray, np.ndarray]:
    return RANDOM.normal(size=n), RANDOM.normal(size=n)


TABLE: dict[str, Callable[[], list[Any]]] = {
    "elementwise": lambda: [gt.tanh(x) + y, gt.where(x > 0, gt.exp(x), y), x * x.shape[0]],
    "reductions": lambda: [
        *(f(gt.cos(x)) for f in (gt.sum, gt.prod, gt.mean, gt.max, gt.min, gt.argmax, gt.argmin)),
        *(gt.any(x > 2), gt.all(x < 9), gt.logsumexp(x), gt.linalg.norm(x), gt.var(x)),
    ],
    "lengths": lambda: [gt.arange(x.shape[0]) * 2, x.shape[0] // 2, x.size % 3, gt.shape(x)],
    "products": lambda: [x @ y, gt.outer(x, y).sum(1), gt.outer(x, y) @ gt.outer(y, y)],
    "cumulative": lambda: [gt.cumsum(x), gt.cumprod(x), gt.cumsum(x[::-1])[::-1], gt.diff(x)],
    "joins": lambda: [gt.concatenate([x, y, x[:1]]), gt.stack([x, y]), gt.stack([x, y], 1).ravel()],
    "slices": lambda: [x[1:], x[:-1], x[-1], x[::-1], x[::2], x[0], x[:3], x[-2:], x[:0:-1]],
    "shapes": lambda: [
        *(x.reshape((-1, 1)), gt.outer(x, y).ravel(), gt.outer(x, y[1:]).T.ravel()),
        *(gt.broadcast_to(x, (3, x.shape[0])), gt.zeros_like(x), gt.ones((x.shape[0], 2)) * 3),
    ],
    "writing": lambda: [
        x[1:].set(0),
        x[-1:].inc(y[:1]),
        x[::-1].set(y),
        x[0].set(y[-1]),
        x[:].inc(y),
    ],
    "order": lambda: [gt.sort(x), gt.argsort(x), gt.sort(-x)[::-1], gt.searchsorted(gt.sort(x), y)],
    "softmax": lambda: [gt.special.softmax(x), gt.special.log_softmax(gt.outer(x, y), axis=0)],
    "branches": lambda: [
        graphc.cond(x.sum() > 0, lambda: gt.tanh(x), lambda: y * 2),
        *graphc.grad(graphc.cond(x[0] > 0, x[1:].sum, lambda: x @ y), [x, y]),
    ],
    "convolutions": lambda: [
        *(gt.convolve(x, y), gt.convolve(x, [1.0, 2.0, 3.0], mode="same")),
        *graphc.grad((gt.convolve(x, y[:1], mode="valid") ** 2).sum(), [x, y]),
    ],
    "gradients": lambda: graphc.grad(
        (gt.special.softmax(x) * gt.cumsum(y)).sum() + gt.logsumexp(x * y) + gt.max(x), [x, y]
    ),
}


def recurrent() -> tuple[list[Any], list[Any]]:
    rows = gt.matrix("rows", bucket=(2, None))
    w, h0 = gt.matrix("w"), gt.vector("h0")
    states = graphc.scan(
        lambda row, h: gt.tanh(h @ w + row), sequences=[rows], outputs_info=[h0], name="rnn"
    )
    loss = ((states.sum(1) - x) ** 2).mean()
    return [rows, x, w, h0], [states, states[-1], loss, *graphc.grad(loss, [rows, w, h0])]


def recurrent_values(n: int) -> tuple[np.ndarray, ...]:
    return (
        RANDOM.normal(size=(n, 3)),
        RANDOM.normal(size=n),
        RANDOM.normal(size=(3, 3)),
        RANDOM.normal(size=3),
    )
