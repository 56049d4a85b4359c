"""Attention by kernels for GPUs: the cases that have them, and what Triton is given.

That their results are right is tested with all other attention, as the world ``kernels``.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.sharding import AbstractDevice, AbstractMesh

import graphc
import graphc.attention as ga
import graphc.tensor as gt
from graphc.errors import ModeError
from graphc.link.jax.attention import accelerated, pallas
from tests.attention import reference

TRITON = "__gpu$xla.gpu.triton"

LENGTHS = (70, 90)
"""No multiples of a block's lengths."""

INTERPRETED = graphc.Mode("JAX", attention="interpret")
PALLAS = graphc.Mode("JAX", attention="pallas")


def attention(dtype: str, block: tuple[int, int] = (16, 32), score: Any = None) -> Any:
    """Causal attention, whose heads share keys, and its gradients."""
    queries, keys = LENGTHS
    q = gt.tensor("q", shape=(2, 4, queries, 24), dtype=dtype)
    k = gt.tensor("k", shape=(2, 2, keys, 24), dtype=dtype)
    v = gt.tensor("v", shape=(2, 2, keys, 5), dtype=dtype)
    slopes = gt.tensor("slopes", shape=(4,), dtype="float32")
    is_even = np.arange(keys) % 2 == 0
    mask = ga.create_block_mask(
        lambda b, h, i, j: (j <= i + 20) | is_even[j], None, None, queries, keys, BLOCK_SIZE=block
    )
    change = score or (lambda s, b, h, i, j: s - slopes[h] * abs(i - j))
    out = ga.flex_attention(q, k, v, change, mask, enable_gqa=True)
    wrt = [q, k, v, slopes]
    cost = (out.astype("float32") ** 2).sum()
    return wrt, [out, *graphc.grad(cost, wrt, disconnected_inputs="ignore")]


def export(f: Any, inputs: Any) -> str:
    """The program for CUDA's devices, as StableHLO."""
    shapes = [jax.ShapeDtypeStruct(x.type.shape, x.type.dtype) for x in inputs]
    checks = [jax.export.DisabledSafetyCheck.custom_call(TRITON)]
    exported = jax.export.export(jax.jit(f.pure), platforms=["cuda"], disabled_checks=checks)
    gpu = AbstractDevice("NVIDIA H100", num_cores=132, platform="cuda")
    with jax.sharding.use_abstract_mesh(AbstractMesh((), (), abstract_device=gpu)):
        return str(exported(*shapes).mlir_module())


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were traced."""
    traced: list[str] = []
    call = pl.pallas_call

    def record(kernel: Any, **options: Any) -> Any:
        traced.append(kernel.func.__name__)
        return call(kernel, **options)

    monkeypatch.setattr(pallas.pl, "pallas_call", record)
    return traced


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_attention_pallas_is_three_triton_kernels_on_cuda(dtype: str) -> None:
    """One kernel computes results, one gradients of queries, and one those of keys and values."""
    inputs, outputs = attention(dtype)
    text = export(graphc.function(inputs, outputs, PALLAS), inputs)
    assert text.count(f"@{TRITON}(") == 3
    assert "stablehlo.dot_general" not in text


def test_attention_pallas_is_xlas_on_a_cpu() -> None:
    """A program that runs elsewhere has no kernels, and the same numbers."""
    inputs, outputs = attention("float32")
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(x.type.shape).astype("float32") for x in inputs]
    results = graphc.function(inputs, outputs, PALLAS)(*arrays)
    expected = graphc.function(inputs, outputs, "JAX")(*arrays)
    for y, z in zip(results, expected, strict=True):
        np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "by kernels on CUDA's devices"),
        ({"dtype": "float64"}, "by XLA: Triton multiplies no matrices of float64"),
        ({"block": (16, 24)}, "by XLA: blocks of (16, 24) are no powers of two from 16 on"),
        ({"block": (8, 32)}, "by XLA: blocks of (8, 32) are no powers of two from 16 on"),
        (
            {"score": lambda s, b, h, i, j: s + gt.sum(gt.arange(4) < h)},
            "by XLA: the score function computes with arrays, not with elements of arrays",
        ),
    ],
)
def test_plan_says_which_attention_has_kernels(options: Any, reason: str) -> None:
    inputs, outputs = attention(**{"dtype": "float32", **options})
    plan = str(graphc.function(inputs, outputs[:1], PALLAS, on_unused_input="ignore").plan())
    assert f"({reason})" in plan


def test_attention_of_jax_arrays_follows_the_default_mode(kernels: list[str]) -> None:
    q, k, v, g_out, _ = reference.problem(3, heads=(4, 2), lengths=(21, 18), dims=(4, 3))
    slopes = np.array([0.5, -0.25, 0.125, 1.0])
    mask = ga.create_block_mask(ga.causal, None, None, 21, 18, BLOCK_SIZE=8)

    def cost(q: Any, k: Any, v: Any, slopes: Any) -> Any:
        out = ga.flex_attention(
            q, k, v, lambda s, b, h, i, j: s - slopes[h] * (i - j), mask, enable_gqa=True
        )
        return (g_out * out).sum()

    with jax.enable_x64(True):
        arrays = list(map(jnp.asarray, (q, k, v, slopes)))
        gradient = jax.grad(cost, (0, 1, 2, 3))
        with graphc.config.change_flags(mode=INTERPRETED):
            results = gradient(*arrays)
        assert {*kernels} == {"_forward", "_backward_of_queries", "_backward_of_keys"}
        traced = len(kernels)
        jax.block_until_ready(gradient(*arrays))
        assert len(kernels) == traced
    distances = np.arange(21)[:, None] - np.arange(18)
    expected = reference.backward(
        q, k, v, g_out, mask=distances >= 0, plus=-slopes[:, None, None] * distances
    )
    by_slopes = -(expected.final * distances).sum((0, 2, 3))
    for x, y in zip(results, (expected.q, expected.k, expected.v, by_slopes), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_attention_in_a_loop_has_kernels(kernels: list[str]) -> None:
    """The graphs of loops are searched for attention too."""
    x = gt.tensor("x", shape=(1, 1, 9, 4), dtype="float64")
    ys = graphc.scan(lambda x: ga.flex_attention(x, x, x), outputs_info=[x], n_steps=3)
    f = graphc.function([x], ys[-1], INTERPRETED)
    value = np.random.default_rng(0).standard_normal((1, 1, 9, 4))
    expected = value
    for _ in range(3):
        expected = reference.forward(expected, expected, expected).out
    np.testing.assert_allclose(f(value), expected, rtol=1e-12)
    assert {*kernels} == {"_forward"}


def test_mode_names_the_choices_of_attention() -> None:
    with pytest.raises(ModeError, match="'xla' or 'pallas' or 'interpret'"):
        graphc.Mode("JAX", attention="triton")


def test_attention_is_xlas_where_pallas_has_no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerated, "pallas_triton", lambda: None)
    inputs, outputs = attention("float16")
    f = graphc.function(inputs, outputs, PALLAS)
    assert "(by XLA: Pallas has no Triton in this release of JAX)" in str(f.plan())
    assert TRITON not in export(f, inputs)
