"""GPTQ and AWQ against plain NumPy, and the errors that they save where inputs are correlated."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.implicit import ChannelScaled, calibrate, materializing, quantize
from graphc.implicit.functions import implicit
from graphc.implicit.quantized import Quantized

K, N, SIZE = 64, 24, 16


def layer(k: int = K) -> tuple[Any, Any]:
    """A matrix, and inputs of few directions whose magnitudes differ, as those of models do."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((k, N))
    x = rng.standard_normal((256, k // 8)) @ rng.standard_normal((k // 8, k))
    x = x + 0.1 * rng.standard_normal((256, k))
    return w, x * np.exp(rng.standard_normal(k))


def error(q: Any, w: Any, x: Any) -> float:
    return float(np.linalg.norm(x @ np.asarray(q) - x @ w) / np.linalg.norm(x @ w))


def by_gptq(w: Any, x: Any, size: int) -> Any:
    """The algorithm of the paper, row by row, for symmetric integers of 4 bits."""
    w, h = w.copy(), x.T @ x
    h = h + 0.01 * np.diag(h).mean() * np.eye(len(h))
    upper = np.linalg.cholesky(np.linalg.inv(h)).T
    y = np.zeros_like(w)
    for i in range(len(w)):
        if i % size == 0:
            scale = np.abs(w[i : i + size]).max(0) / 7
        y[i] = np.clip(np.rint(w[i] / scale), -7, 7) * scale
        off = (w[i] - y[i]) / upper[i, i]
        w[i + 1 :] -= np.outer(upper[i, i + 1 :], off)
    return y


def by_awq(w: Any, x: Any, size: int) -> Any:
    """The search of the paper, by root mean squares, for symmetric integers of 4 bits."""
    best, found = np.inf, w
    magnitude = np.sqrt((x**2).sum(0))
    magnitude = np.maximum(magnitude / magnitude.max(), 1e-4)
    for step in range(20):
        s = magnitude ** (step / 20)
        s = (s / np.sqrt(s.max() * s.min()))[:, None]
        groups = (w * s).reshape(-1, size, w.shape[1])
        scale = np.abs(groups).max(1, keepdims=True) / 7
        y = (np.clip(np.rint(groups / scale), -7, 7) * scale).reshape(w.shape) / s
        off = ((x @ (y - w)) ** 2).sum()
        if off < best:
            best, found = off, y
    return found


@pytest.mark.parametrize(("method", "reference"), [("gptq", by_gptq), ("awq", by_awq)])
@pytest.mark.sample(every=3)
@pytest.mark.parametrize("size", [SIZE, -1])
def test_results_are_those_of_the_plain_algorithm(method: str, reference: Any, size: int) -> None:
    w, x = layer()
    q = calibrate(w, x, "int4", method=method, group_size=size, symmetric=True)
    wanted = reference(w, x, K if size == -1 else size)
    np.testing.assert_allclose(np.asarray(q), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("library", [mx.array, jnp.asarray, np.asarray])
def test_correlated_inputs_lose_little(library: Any) -> None:
    w, x = (a.astype("float32") for a in layer(128))
    plain = error(quantize(w, "int3", axis=-2), w, x)
    q = calibrate(library(w), library(x), "int3")
    assert isinstance(q, Quantized)
    assert type(q.packed) is type(quantize(library(w), "int3").packed)
    assert error(q.materialize(), w, x) < 0.35 * plain
    scaled = calibrate(library(w), library(x), "int3", method="awq")
    assert error(scaled.materialize(), w, x) < 0.95 * plain


@pytest.mark.sample(every=5)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("nf4", {"group_size": 48}),
        ("ternary", {}),
        ("float4_e2m1fn", {"axis": -1, "group_size": 8}),
        ("int4", {"axis": -1, "group_size": 16}),
        ("1bit", {"group_size": 32}),
    ],
)
def test_every_kind_and_axis_gains_with_lengths_that_groups_do_not_divide(
    kind: str, options: Any
) -> None:
    w, x = layer(88)
    plain = error(quantize(w, kind, **{"axis": -2, **options}), w, x)
    q = calibrate(w, x, kind, **options)
    assert q.shape == w.shape
    assert error(q, w, x) < 0.85 * plain


@pytest.mark.parametrize("axis", [-1, -2])
def test_the_scale_of_a_last_group_is_the_mean_of_its_own_elements(axis: int) -> None:
    """Independent inputs of one magnitude, of which no row takes up the error of another."""
    w = np.random.default_rng(0).standard_normal((72, 72))
    q = calibrate(w, np.eye(72), "ternary", axis=axis, group_size=64)
    last = w[64:] if axis == -2 else w.T[64:]
    np.testing.assert_allclose(q.scales[:, 1], np.abs(last).mean(0))


def test_a_kind_with_scales_of_eight_bits_takes_scales_of_inputs() -> None:
    w, x = layer()
    scaled = calibrate(w, x, "nvfp4", method="awq")
    assert error(scaled, w, x) < error(quantize(w, "nvfp4", axis=-2), w, x)


def test_matrices_of_scaled_rows_are_multiplied_as_they_are() -> None:
    w, x = (a.astype("float32") for a in layer())
    q = calibrate(w, x, "int4", method="awq")
    assert isinstance(q, ChannelScaled)
    dense, rows = np.asarray(q), x[:3]
    values = np.ones((2, N), "float32")
    for mode in ("JAX", "MLX", "NUMPY"):
        a, b, c = (gt.matrix("a", shape=(3, K), dtype="float32"), gt.implicit(q, name="b"), values)
        with materializing("error"):
            f = graphc.function([a, b], [a @ b * 2, c @ b.T, b[gt.constant([3, 1])]], mode=mode)
        found = f(rows, q)
        wanted = (rows @ dense * 2, values @ dense.T, dense[[3, 1]])
        for y, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(y), want, rtol=1e-4, atol=1e-3)
    on_jax = jax.tree.map(jnp.asarray, q)
    with materializing("error"):
        y = implicit(lambda x, w: (x @ w.astype("float32")) @ w.T)(jnp.asarray(rows), on_jax)
    np.testing.assert_allclose(y, rows @ dense @ dense.T, rtol=1e-3, atol=1e-2)


def test_graphs_calibrate_inputs() -> None:
    w, x = layer()
    a, b = gt.matrix("a", shape=w.shape), gt.matrix("b", shape=(None, K))
    q = calibrate(a, b, "int4", symmetric=True, group_size=SIZE)
    f = graphc.function([a, b], gt.as_tensor(q))
    np.testing.assert_allclose(np.asarray(f(w, x)), by_gptq(w, x, SIZE), rtol=1e-6)


def test_a_sample_of_zeros_is_no_error() -> None:
    w, x = layer()
    np.testing.assert_allclose(
        np.asarray(calibrate(w, 0 * x)), np.asarray(quantize(w, axis=-2)), atol=1e-12
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "rtn"}, "'gptq', 'awq'"),
        ({"kind": "mxfp4"}, "scales of 8 bits"),
        ({"method": "awq", "axis": -1}, "axis=-1"),
        ({"group_size": 7}, "Groups of 7"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(options: Any, message: str) -> None:
    w, x = layer()
    with pytest.raises(ImplicitArrayError, match=message):
        calibrate(w, x, **options)
    with pytest.raises(ImplicitArrayError, match="a sample of"):
        calibrate(w, x[:, 1:])
