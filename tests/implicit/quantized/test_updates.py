"""Rows written into quantized arrays, as into a cache of keys and values, and read by attention."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt
from graphc.attention import flex_attention
from graphc.implicit import materializing
from graphc.implicit.functions import implicit
from graphc.implicit.quantized import Quantized, quantize

SHAPE = (2, 3, 8, 40)  # the last group is not full
ROWS = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")


def empty(kind: str, library: Any = jnp.zeros) -> Any:
    return quantize(library(SHAPE, "float32"), kind, group_size=32)


def quantized(rows: Any, kind: str) -> Any:
    """What rows are after a round trip through codes."""
    return quantize(np.ascontiguousarray(rows), kind, group_size=32).materialize()


def check(found: Any, wanted: Any) -> None:
    assert isinstance(found, Quantized)
    np.testing.assert_allclose(found.materialize(), wanted, rtol=1e-6)


WRITES: dict[str, tuple[Any, Any]] = {
    "slice": (
        lambda c, x, i: lax.dynamic_update_slice(c, x[:, :, :2], (0, 0, i, 0)),
        lambda c, x, i: c.__setitem__(np.s_[:, :, i : i + 2], x[:, :, :2]),
    ),
    "slice beyond the end": (
        lambda c, x, i: lax.dynamic_update_slice(c, x[:, :, :4], (0, 0, i + 90, 0)),
        lambda c, x, i: c.__setitem__(np.s_[:, :, 4:], x[:, :, :4]),
    ),
    "index": (
        lambda c, x, i: c.at[:, :, i].set(x[:, :, 0]),
        lambda c, x, i: c.__setitem__(np.s_[:, :, i], x[:, :, 0]),
    ),
    "a place for each sequence": (
        lambda c, x, i: c.at[jnp.arange(2), :, jnp.array([i, 1])].set(x[:, :, 0]),
        lambda c, x, i: c.__setitem__((np.arange(2), slice(None), np.array([i, 1])), x[:, :, 0]),
    ),
    "rows": (
        lambda c, x, i: c.at[:, :, jnp.array([5, 2])].set(x[:, :, :2]),
        lambda c, x, i: c.__setitem__(np.s_[:, :, [5, 2]], x[:, :, :2]),
    ),
    "one number": (
        lambda c, x, i: c.at[:, 1, 3:5].set(0.5),
        lambda c, x, i: c.__setitem__(np.s_[:, 1, 3:5], 0.5),
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_functions_of_jax_write_rows(write: str) -> None:
    run, expect = WRITES[write]
    wanted = np.zeros(SHAPE, "float32")
    expect(wanted, ROWS, 3)
    with materializing("error"):
        found = jax.jit(implicit(run))(empty("int8"), ROWS, 3)
    check(found, quantized(wanted, "int8"))


def test_columns_of_a_cache_are_written_where_codes_lie_along_the_other_axis() -> None:
    cache = jax.tree.map(jnp.asarray, empty("int8")).matrix_transpose()
    x = np.swapaxes(ROWS, -1, -2)[..., :1]
    with materializing("error"):
        found = implicit(lambda c, x: lax.dynamic_update_slice(c, x, (0, 0, 0, 5)))(cache, x)
        read = implicit(lambda c: lax.dynamic_slice_in_dim(c, 5, 1, 3))(found)
    wanted = np.swapaxes(quantized(ROWS[:, :, :1], "int8"), -1, -2)
    check(read, wanted)
    np.testing.assert_allclose(np.asarray(found)[..., 5:6], wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", ["int2", "nf4", "ternary"])
def test_a_loop_of_jax_fills_a_cache_of_each_kind(kind: str) -> None:
    def fill(cache: Any, rows: Any) -> Any:
        def write(i: Any, cache: Any) -> Any:
            return lax.dynamic_update_slice(
                cache, lax.dynamic_slice_in_dim(rows, i, 1, 2), (0, 0, i, 0)
            )

        return lax.fori_loop(0, SHAPE[2], write, cache)

    with materializing("error"):
        check(jax.jit(implicit(fill))(empty(kind), ROWS), quantized(ROWS, kind))


def test_a_write_of_part_of_a_group_makes_the_cache_whole() -> None:
    def write(cache: Any) -> Any:
        return lax.dynamic_update_slice(cache, jnp.ones((1, 1, 1, 4)), (0, 0, 0, 4))

    with materializing("error"), pytest.raises(graphc.errors.MaterializeError):
        implicit(write)(empty("int8"))
    wanted = np.zeros(SHAPE, "float32")
    wanted[0, 0, 0, 4:8] = 1
    np.testing.assert_array_equal(implicit(write)(empty("int8")), wanted)


@pytest.mark.parametrize("mode", ["JAX", "MLX", "NUMPY"])
def test_a_loop_of_a_graph_fills_a_cache_that_attention_reads(mode: str) -> None:
    cache = gt.implicit(empty("int8", np.zeros), name="cache")
    rows = gt.tensor("rows", dtype="float32", shape=SHAPE)
    q = gt.tensor("q", dtype="float32", shape=(2, 6, 1, 40))
    i = gt.scalar("i", dtype="int64")

    def step(i: Any, cache: Any) -> Any:
        return gt.set_subtensor(cache[:, :, i], rows[:, :, i])

    filled = graphc.scan(step, gt.arange(SHAPE[2]), outputs_info=cache)[-1]

    def visible(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return gt.where(kv_idx <= i, score, -np.inf)

    y = flex_attention(q, filled, filled, visible, enable_gqa=True)
    with materializing("error"):
        f = graphc.function([q, rows, cache, i], [filled, y], mode=mode)
    queries = np.random.default_rng(1).standard_normal((2, 6, 1, 40)).astype("float32")
    found, out = f(queries, ROWS, empty("int8", np.zeros), 4)
    wanted = quantized(ROWS, "int8")
    check(found, wanted)
    keys = np.repeat(wanted[:, :, :5], 2, 1)
    scores = np.einsum("bhqe,bhke->bhqk", queries, keys) / np.sqrt(40)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("bhqk,bhke->bhqe", weights / weights.sum(-1, keepdims=True), keys)
    np.testing.assert_allclose(np.asarray(out), expected, rtol=2e-5, atol=2e-6)


def test_attention_in_functions_of_jax_reads_whole_blocks_of_a_cache() -> None:
    rows = np.random.default_rng(2).standard_normal((1, 2, 256, 40)).astype("float32")
    q, keys = jnp.asarray(rows[:, :, :1]), quantize(jnp.asarray(rows), "int8", group_size=32)

    def attend(q: Any, k: Any, n: Any) -> Any:
        return flex_attention(q, k, k, lambda score, b, h, i, j: jnp.where(j < n, score, -jnp.inf))

    with materializing("error"):
        found = implicit(attend)(q, keys, 130)
    np.testing.assert_allclose(found, attend(q, jnp.asarray(np.asarray(keys)), 130), atol=1e-5)
