"""Patterns that MLX has one operation for: what is found, and that its values are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import Graph
from graphc.link import load
from graphc.link.fuse import fused
from graphc.link.mlx.attention import layer_norm, rms_norm
from graphc.rewrite import optimize
from graphc.tensor.attention import Attention, LayerNorm, Normalization, RMSNorm
from tests.modes import uncompiled

RANDOM = np.random.default_rng(0)


def centred(x: Any) -> Any:
    return x - gt.mean(x, -1, keepdims=True)


def variance(x: Any) -> Any:
    return gt.var(x, -1, keepdims=True) + 1e-5


def square_mean(x: Any) -> Any:
    return gt.mean(x * x, -1, keepdims=True) + 1e-5


def scores(q: Any, k: Any) -> Any:
    return q @ gt.swapaxes(k, -1, -2)


def by_exponentials(q: Any, k: Any, v: Any) -> Any:
    weights = gt.exp(scores(q, k) * 0.5)
    return weights / gt.sum(weights, -1, keepdims=True) @ v


X, W, QKV = (2, 5, 8), (8,), ((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 7))

PATTERNS: dict[str, tuple[type, Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "layer norm": (
        LayerNorm, lambda x, w, b: centred(x) / gt.sqrt(variance(x)) * w + b, (X, W, W)
    ),
    "its weight in front": (
        LayerNorm, lambda x, w, b: b + w * (centred(x) * variance(x) ** -0.5), (X, W, W)
    ),
    "no bias": (LayerNorm, lambda x, w: centred(x) / gt.sqrt(variance(x)) * w, (X, W)),
    "neither": (LayerNorm, lambda x: centred(x) * gt.reciprocal(gt.sqrt(variance(x))), (X,)),
    "of a matrix": (LayerNorm, lambda x: centred(x) / gt.sqrt(variance(x)), ((5, 8),)),
    "of what is computed": (
        LayerNorm, lambda x: centred(gt.exp(x)) / gt.sqrt(variance(gt.exp(x))), (X,)
    ),
    "rms norm": (RMSNorm, lambda x, w: x / gt.sqrt(square_mean(x)) * w, (X, W)),
    "rms norm alone": (RMSNorm, lambda x: x * square_mean(x) ** -0.5, (X,)),
    "attention": (Attention, lambda q, k, v: gt.softmax(scores(q, k) * 0.5, -1) @ v, QKV),
    "divided": (
        Attention,
        lambda q, k, v: gt.softmax(scores(q, k) / gt.sqrt(gt.cast(q.shape[-1], q.dtype)), -1) @ v,
        QKV,
    ),
    "not scaled": (Attention, lambda q, k, v: gt.softmax(scores(q, k), -1) @ v, QKV),
    "masked": (
        Attention, lambda q, k, v, m: gt.softmax(scores(q, k) * 0.5 + m, -1) @ v, (*QKV, (5, 6))
    ),
    "masked and not scaled": (
        Attention, lambda q, k, v, m: gt.softmax(m + scores(q, k), -1) @ v, (*QKV, (3, 5, 6))
    ),
    "by exponentials": (Attention, by_exponentials, QKV),
    "of matrices": (
        Attention, lambda q, k, v: gt.softmax(scores(q, k) * 0.5, -1) @ v, ((5, 4), (6, 4), (6, 7))
    ),
}  # fmt: skip


def symbols(name: str, dtype: str, static: bool) -> tuple[list[Any], Any]:
    _, make, shapes = PATTERNS[name]
    xs = [gt.tensor(dtype=dtype, shape=s if static else (None,) * len(s)) for s in shapes]
    return xs, make(*xs)


BACKEND = replace(
    load("MLX"),
    lowerings={**load("MLX").lowerings, LayerNorm: layer_norm, RMSNorm: rms_norm},
)
"""With what it has on a GPU alone."""


def found(outputs: list[Any], inputs: list[Any]) -> list[type]:
    graph = fused(optimize(Graph(inputs, outputs)).graph, BACKEND)
    return [type(node.op) for node in graph.nodes if isinstance(node.op, Normalization | Attention)]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_found(name: str, static: bool) -> None:
    xs, y = symbols(name, "float32", static)
    assert found([y], xs) == [PATTERNS[name][0]]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", PATTERNS)
def test_its_values_and_gradients_are_those_of_what_was_written(
    name: str, dtype: str, static: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for op, lowering in BACKEND.lowerings.items():
        monkeypatch.setitem(load("MLX").lowerings, op, lowering)
    xs, y = symbols(name, dtype, static)
    gradients = graphc.grad(gt.sum(gt.square(y)), xs)
    values = [RANDOM.normal(size=shape).astype(dtype) for shape in PATTERNS[name][2]]
    tolerance = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-2}[dtype]
    for outputs in ([y], [y, *gradients]):
        by_mlx = graphc.function(xs, outputs, uncompiled("MLX"), returns="numpy")(*values)
        by_numpy = graphc.function(xs, outputs, "NUMPY")(*values)
        for one, other in zip(by_mlx, by_numpy, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, tolerance, tolerance * 10)


@pytest.mark.parametrize("name", ["layer norm", "rms norm", "attention"])
def test_what_a_gradient_needs_is_not_computed_twice(name: str) -> None:
    xs, y = symbols(name, "float32", False)
    assert found([y, *graphc.grad(gt.sum(gt.square(y)), xs)], xs) == []


@pytest.mark.parametrize("name", PATTERNS)
def test_float64_stays_as_it_was_written(name: str) -> None:
    xs, y = symbols(name, "float64", False)
    assert found([y], xs) == []


def test_what_only_looks_like_a_pattern_is_left() -> None:
    x, w = gt.matrix("x", dtype="float32"), gt.vector("w", dtype="float32")
    one = gt.tensor("one", dtype="float32", shape=(1,))
    other = gt.matrix("other", dtype="float32")
    assert found([centred(x) / gt.sqrt(variance(other))], [x, other]) == []
    assert found([x / gt.sqrt(gt.mean(x * x, 0, keepdims=True) + 1e-5)], [x]) == []
    assert found([x / gt.sqrt(gt.mean(x * x, -1, keepdims=True) + w[0])], [x, w]) == []
    assert found([x / gt.sqrt(gt.sum(x * x, -1, keepdims=True) + 1e-5)], [x]) == []
    assert found([gt.softmax(x @ other.T, 0) @ other], [x, other]) == []
    y = x / gt.sqrt(square_mean(x))
    assert found([y * one], [x, one]) == [RMSNorm]
    assert found([y, gt.sqrt(square_mean(x))], [x]) == []


def test_a_pattern_within_a_loop_and_compiled_is_right() -> None:
    x, w = gt.matrix("x", dtype="float32"), gt.matrix("w", dtype="float32")
    y = graphc.scan(
        lambda h, w: centred(h @ w) / gt.sqrt(variance(h @ w)),
        outputs_info=[x], non_sequences=[w], n_steps=3,
    )  # fmt: skip
    values = [RANDOM.normal(size=(4, 4)).astype(np.float32) for _ in range(2)]
    by_mlx, by_numpy = (
        graphc.function([x, w], y, mode, returns="numpy")(*values) for mode in ("MLX", "NUMPY")
    )
    np.testing.assert_allclose(by_mlx, by_numpy, 1e-4, 1e-4)
