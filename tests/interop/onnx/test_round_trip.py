"""Functions of graphc as ONNX models, and these as graphs again: equal results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.interop.onnx import load
from tests.interop.onnx.models import normal

X = gt.tensor("x", dtype="float32", shape=(None, 6))
W = graphc.shared(normal(6, 6, seed=1), name="w")


def recurrence(x: Any) -> Any:
    return graphc.scan(lambda row, h: gt.tanh(h @ W + row), x, gt.zeros(6, dtype="float32"))


def reversed_recurrence(x: Any) -> Any:
    return graphc.loop(
        lambda h, row: (h * 0.5 + row, h), gt.zeros(6, dtype="float32"), x, reverse=True
    )


def stopped(x: Any) -> Any:
    return graphc.while_loop(lambda h: (h**2).sum() < 1e3, lambda h: 2 * h, x[0])


def branch(x: Any) -> Any:
    return graphc.cond(x.sum() > 0, gt.exp, lambda x: -x, x)


def layer(x: Any) -> Any:
    y = x - x.mean(1, keepdims=True)
    return gt.softmax((y / gt.sqrt((y**2).mean(1, keepdims=True) + 1e-5)) @ W + 1, axis=1)


def windows(x: Any) -> Any:
    return gt.signal.convolve2d(x, W[:2, :3], mode="valid")


def indices(x: Any) -> Any:
    return gt.set_subtensor(x[:, [0, 3]], 1.0), gt.concatenate([x[:, ::-2], x[:, :1]], axis=1)


def moved(x: Any) -> Any:
    return gt.roll(x, 2, axis=0), gt.max(x[:0], axis=0, initial=-np.inf)


def gradient(x: Any) -> Any:
    return graphc.grad((layer(x) ** 2).sum(), x)


FUNCTIONS = (
    recurrence, reversed_recurrence, stopped, branch, layer, windows, indices, moved, gradient
)  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_an_exported_function_is_loaded(function: Callable[[Any], Any], tmp_path: Path) -> None:
    found = function(X)
    f = graphc.function([X], list(found) if isinstance(found, tuple) else [found], mode="NUMPY")
    path = tmp_path / "model.onnx"
    f.export(path, dynamic={"x": ("n", None)})
    model = load(path, mode="NUMPY")
    assert model.shapes["x"] == ["n", 6]
    for n in (2, 5):
        x = normal(n, 6, seed=n)
        for y, wanted in zip(model(x).values(), f(x), strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
