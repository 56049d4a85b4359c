"""A step of training, to export."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt

TABLE = np.arange(30.0).reshape(10, 3)


def model(mode: str = "NUMPY") -> graphc.Function[Any]:
    """A step of training, with noise, a counter, a captured array and nested results."""
    x = gt.matrix("x", dtype="float64")
    rate = gt.scalar("rate")
    w = graphc.shared(np.eye(3), name="w")
    count = graphc.shared(0, name="count")
    noise = gt.random.RandomStream(3).normal(size=3)
    h = graphc.scan(lambda row, h: gt.tanh(h @ w + row), x, gt.zeros(3))[-1]
    loss = ((h - noise - TABLE[2]) ** 2).sum() + gt.as_tensor(TABLE)[4:].mean()
    slope = graphc.grad(loss, w)
    return graphc.function(
        [x, graphc.In(rate, value=0.25)],
        {"loss": loss, "parts": [h, {"slope": slope}]},
        updates=[(w, w - rate * slope), (count, count + 1)],
        mode=mode,
        name="train",
    )
