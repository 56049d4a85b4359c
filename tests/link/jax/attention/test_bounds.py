"""Bounds of mask functions that JAX traced hold for every element of every block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import lax

import graphc.tensor as gt
from graphc.attention import blocks
from graphc.attention.blocks import Tiling
from graphc.attention.intervals.graphs import bounds
from graphc.attention.mods import lift_mod, mask_of
from graphc.capture import Lifted
from graphc.ir import Graph
from graphc.link.jax.attention.mods import call_mod, captured_values, placeholders
from graphc.loop.evaluate import evaluate
from tests.attention import functions

TILING = Tiling(2, 2, 45, 52, (8, 7))


def bounded(function: Callable[..., Any], tiling: Tiling = TILING) -> tuple[np.ndarray, np.ndarray]:
    """What bounds say of the blocks of a mask function: certainly full, possibly not empty."""
    lifted = lift_mod(function, "mask_mod")
    types, values = captured_values("mask_mod", lifted)
    arrays = placeholders(types[0])
    mod = mask_of(Lifted(lifted.stripped, tuple(arrays)), call_mod)
    captured = evaluate(Graph([x.array for x in arrays], mod.captured), *values)
    kept = bounds(mod.graph, blocks.block_indices(*tiling), captured, tiling.span)
    return tuple(np.broadcast_to(end, tiling.counts) for end in kept)  # type: ignore[return-value]


def true_blocks(dense: np.ndarray, tiling: Tiling = TILING) -> tuple[np.ndarray, np.ndarray]:
    """Which blocks of a (B, H, Q, K) mask are full, and which are not empty."""
    gaps = [-n % size for n, size in zip(dense.shape[2:], tiling.block, strict=True)]
    whole = np.pad(dense, ((0, 0), (0, 0), *[(0, gap) for gap in gaps]), mode="edge")
    b, h, rows, columns = tiling.counts
    parts = whole.reshape(b, h, rows, tiling.block[0], columns, tiling.block[1])
    return parts.all((3, 5)), parts.any((3, 5))


def of_elements(function: Callable[..., Any], tiling: Tiling = TILING) -> np.ndarray:
    """What JAX says of all elements."""
    for axes in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None)):
        function = jax.vmap(function, axes)
    numbers = [np.arange(n, dtype=np.int32) for n in tiling[:4]]
    return np.asarray(jax.vmap(function, (0, None, None, None))(*numbers))


def assert_contained(certain: np.ndarray, possible: np.ndarray, dense: np.ndarray) -> None:
    full, any_ = true_blocks(dense)
    assert not np.argwhere(certain & ~full).tolist()
    assert not np.argwhere(any_ & ~possible).tolist()


@settings(max_examples=100)
@given(functions.masks())
def test_bounds_contain_the_values_of_random_functions(text: str) -> None:
    dense = functions.dense(text, TILING[:4])
    assert_contained(*bounded(functions.of_jax(text)), dense)


@pytest.mark.exhaustive
@settings(max_examples=1000)
@given(functions.masks(leaves=12))
def test_bounds_contain_the_values_of_large_random_functions(text: str) -> None:
    dense = functions.dense(text, TILING[:4])
    assert_contained(*bounded(functions.of_jax(text)), dense)


IDS = jnp.asarray(np.repeat(np.arange(8), 7)[:52])
ROWS = jnp.stack([IDS, IDS[::-1]])
LENGTHS = jnp.arange(10, 22)
SLOPES = jnp.linspace(0.1, 1.2, 12)
OFFSETS = jnp.arange(-60, 60) // 9
FLAGS = jnp.asarray(np.add.outer(np.arange(52), np.arange(60)) % 40 < 20)
COLUMNS = jnp.asarray(np.add.outer(np.arange(30), np.arange(52)))
LEAST = jnp.int32(-(2**31))
KEY = jax.random.key(3)


@jax.custom_jvp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defjvps(lambda t, y, x: 2 * t)

FULLY = {
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: (q - k < 9) & (q >= k),
    "prefix": lambda b, h, q, k: (k < LENGTHS[b]) | (q >= k),
    "documents": lambda b, h, q, k: IDS[q] == IDS[k],
    "documents of each sequence": lambda b, h, q, k: ROWS[b, q] == ROWS[b, k],
    "rows of rows": lambda b, h, q, k: ROWS[b][q] == ROWS[b][k],
    "taken": lambda b, h, q, k: jnp.take(IDS, q) == jnp.take(ROWS, k, axis=1)[0],
    "clipped": lambda b, h, q, k: IDS.at[q + 9].get(mode="clip") > IDS[k],
    "filled": lambda b, h, q, k: IDS.at[q - 9].get(mode="fill", fill_value=9) > IDS[k],
    "promised": lambda b, h, q, k: ROWS.at[b, k].get(mode="promise_in_bounds") < IDS[q],
    "counted from the end": lambda b, h, q, k: IDS[q - 60] >= IDS[k],
    "dynamic": lambda b, h, q, k: lax.dynamic_index_in_dim(IDS, q, keepdims=False) > k,
    "slices": lambda b, h, q, k: (lax.dynamic_slice(IDS, (q,), (3,)) >= IDS[k]).all(),
    "offsets": lambda b, h, q, k: OFFSETS[q - k + 60] > 1,
    "quotients": lambda b, h, q, k: q // 16 == k // 16,
    "by the head": lambda b, h, q, k: jnp.where(h % 2 == 0, jnp.abs(q - k) < 9, q - k > 20),
    "any row": lambda b, h, q, k: jnp.any(ROWS[:, q] * 7 >= k),
    "stacked": lambda b, h, q, k: jnp.any(jnp.stack([q >= k, h == 1])),
    "powers": lambda b, h, q, k: (q - k) ** 2 < 70,
    "clip": lambda b, h, q, k: jnp.clip(q - k, -3, 5) > 2,
    "branches": lambda b, h, q, k: lax.cond(h == 1, lambda: q >= k, lambda: q - k > 20),
    "switch": lambda b, h, q, k: lax.switch(b, [lambda: q >= k, lambda: q < k]),
    "slopes": lambda b, h, q, k: jnp.exp(-SLOPES[h] * jnp.abs(q - k)) > 0.1,
    "logarithms": lambda b, h, q, k: jnp.log1p(q) > jnp.sqrt(k * 1.0),
    "custom derivative": lambda b, h, q, k: doubled(q) >= k,
    "checkpoint": lambda b, h, q, k: jax.checkpoint(lambda q, k: q >= k)(q, k),
    "compiled": lambda b, h, q, k: jax.jit(lambda q, k: q >= k)(q, k),
    "xor": lambda b, h, q, k: (q >= k) ^ (h == 0),
    "one number": lambda b, h, q, k: jnp.sum(IDS) > 3,
    "always": lambda b, h, q, k: True,
    "shifted": lambda b, h, q, k: (q >> 3) == (k >> 3),
    "unsigned": lambda b, h, q, k: lax.shift_right_logical(q.astype("uint32"), jnp.uint32(3)) > 2,
    "sum": lambda b, h, q, k: jnp.sum(jnp.stack([q, q])) >= 2 * k,
    "flags": lambda b, h, q, k: FLAGS[0][k] | (q < 3),
    "taken rows": lambda b, h, q, k: jnp.take(ROWS, b, axis=0)[q] == jnp.take(ROWS, b, axis=0)[k],
    "a part of a row": lambda b, h, q, k: lax.dynamic_slice(IDS, (b,), (40,))[q] >= IDS[k],
    "any of many rows": lambda b, h, q, k: jnp.any(COLUMNS[:, q] > 81) | (q >= k),
    "the least of a column": lambda b, h, q, k: ((COLUMNS - 99)[:, q].min() < 0) & (q >= k),
    "a branch by a captured number": lambda b, h, q, k: lax.cond(
        LENGTHS[0] > 5, lambda: q >= k, lambda: q < k
    ),
    "branches in a compiled function": jax.jit(
        lambda b, h, q, k: lax.cond(h == 1, lambda: q >= k, lambda: q - k > 20)
    ),
}
"""Masks of which most blocks are decided by bounds."""

PARTLY = {
    "is in": lambda b, h, q, k: jnp.isin(IDS[q], jnp.array([2, 3])) & (k > 9),
    "products": lambda b, h, q, k: q * k % 7 == 0,
    "two indices": lambda b, h, q, k: FLAGS[q, k],
    "random": lambda b, h, q, k: jax.random.bernoulli(jax.random.fold_in(KEY, q * 64 + k)),
    "counted": lambda b, h, q, k: lax.population_count(q) > lax.population_count(k),
    "loops": lambda b, h, q, k: lax.fori_loop(0, 3, lambda i, x: x + i * k, q) > 40,
    "overflow": lambda b, h, q, k: q * 100_000_007 > k * 99_999_989,
    "searched": lambda b, h, q, k: jnp.searchsorted(LENGTHS, q) == k % 12,
    "not a number": lambda b, h, q, k: jnp.log(q - 3.0) > jnp.log(k - 3.0),
    "subnormal": lambda b, h, q, k: jnp.exp(-3.0 * q) > 0.0,
    "any of many": lambda b, h, q, k: jnp.any(COLUMNS[:, q] >= k),
    "common bits": lambda b, h, q, k: (q | 7) >= (k | 7),
    "bits": lambda b, h, q, k: (q & k) == 0,
    "narrow": lambda b, h, q, k: q.astype("int8") * jnp.int8(9) > k.astype("int8"),
    "bfloat16": lambda b, h, q, k: q.astype("bfloat16") * 0.1 > k.astype("bfloat16"),
    "divided by zero": lambda b, h, q, k: lax.div(h + 5, b) > k,
    "the rest by zero": lambda b, h, q, k: lax.rem(h + 5, b) > k,
    "the least number": lambda b, h, q, k: lax.div(LEAST + b, h - 1) > k - 9,
    "the least number divided": lambda b, h, q, k: LEAST // (h + 16) > k - 2**27,
    "shifted too far": lambda b, h, q, k: (h + 1) << (b * 40) > k,
    "bits of negative numbers": lambda b, h, q, k: lax.shift_right_logical(h - 1, 4) > k,
    "quotients of negative numbers": lambda b, h, q, k: lax.div(q - k, 7) == (k - q) // -7,
    "a number beyond integers": lambda b, h, q, k: (b * 3e9).astype("int32") > k,
    "a wide box": lambda b, h, q, k: jnp.sum(lax.dynamic_slice(IDS, (q,), (30,))) > k,
    "fused": lambda b, h, q, k: q * 0.1 - k * 0.1 <= 0.0,
}
"""Masks of which bounds say little."""


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", [*FULLY, *PARTLY])
def test_bounds_contain_the_values(name: str) -> None:
    function = {**FULLY, **PARTLY}[name]
    assert_contained(*bounded(function), of_elements(function))


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", FULLY)
def test_bounds_decide_most_blocks(name: str) -> None:
    certain, possible = bounded(FULLY[name])
    full, any_ = true_blocks(of_elements(FULLY[name]))
    uniform = full | ~any_
    missed = uniform & possible & ~certain
    assert missed.sum() <= 0.1 * uniform.sum()


def test_bounds_of_concrete_arrays_are_numpys() -> None:
    certain, possible = bounded(FULLY["documents of each sequence"])
    assert type(certain) is type(possible) is np.ndarray


def test_bounds_of_symbolic_arrays_are_those_of_concrete_ones() -> None:
    ids = gt.vector("ids", dtype="int32", shape=(52,))
    lifted = lift_mod(lambda b, h, q, k: jnp.equal(ids[q], jnp.take(ids, k)), "mask_mod")
    mod = mask_of(lifted)
    kept = bounds(mod.graph, blocks.block_indices(*TILING), mod.captured, TILING.span)
    found = [gt.broadcast_to(end, TILING.counts).sum().eval({ids: np.asarray(IDS)}) for end in kept]
    certain, possible = bounded(FULLY["documents"])
    assert found == [certain.sum(), possible.sum()]
