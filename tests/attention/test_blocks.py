"""Blocks told apart: their intervals, their tables, and all values of those that are left open."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.attention import blocks
from graphc.attention.blocks import (
    BlockBounds,
    Tiling,
    block_indices,
    block_tables,
    bounds_of_blocks,
    evaluate_blocks,
)
from graphc.attention.intervals.interval import Interval, point
from tests.attention import reference

LENGTHS = st.tuples(st.integers(1, 20), st.integers(1, 20))
SIZES = st.tuples(st.integers(1, 7), st.integers(1, 7))


@given(LENGTHS, SIZES)
def test_intervals_of_indices_cover_each_index_once(
    lengths: tuple[int, int], block: tuple[int, int]
) -> None:
    b, h, *rest = block_indices(2, 3, *lengths, block)
    assert b.low.ravel().tolist() == [0, 1]
    assert h.low.ravel().tolist() == [0, 1, 2]
    for (low, high), n, size in zip(rest, lengths, block, strict=True):
        parts = [np.arange(i, j + 1) for i, j in zip(low.ravel(), high.ravel(), strict=True)]
        assert np.concatenate(parts).tolist() == list(range(n))
        assert max(map(len, parts)) <= size


def test_intervals_of_indices_broadcast_to_all_blocks() -> None:
    tiling = Tiling(2, 3, 300, 130, (128, 64))
    shapes = [end.shape for x in block_indices(*tiling) for end in x]
    assert np.broadcast_shapes(*shapes) == tiling.counts == (2, 3, 3, 3)


def test_no_queries_have_no_blocks() -> None:
    *_, q, _ = block_indices(1, 1, 0, 5, (4, 4))
    assert q.low.shape == q.high.shape == (1, 1, 0, 1)


@pytest.mark.parametrize("library", ["NumPy", "JAX", "graphc"])
@pytest.mark.parametrize("keys", [8, 7])
def test_tables_are_those_of_the_grid(library: str, keys: int) -> None:
    mask = np.random.default_rng(0).random((2, 3, 6, keys)) < 0.8
    kinds = reference.kinds(mask, (2, 2))
    every = kinds == reference.FULL
    if keys % 2:
        # The last column is full where all of its keys are seen, whatever its tables say.
        parts = mask[..., -1].reshape(2, 3, 3, 2)
        every[..., -1] = parts.all(-1)
    found = _made(library, every, kinds != reference.EMPTY, keys)
    reference.check_tables(found, mask, (2, 2))


def _made(library: str, certain: Any, possible: Any, keys: int) -> Any:
    if library == "graphc":
        inputs = [gt.tensor(dtype="bool", shape=x.shape) for x in (certain, possible)]
        return graphc.function(inputs, list(block_tables(*inputs, keys, 2)), mode="NUMPY")(
            certain, possible
        )
    if library == "JAX":
        certain, possible = jnp.asarray(certain), jnp.asarray(possible)
    return block_tables(certain, possible, keys, 2)


def test_a_grid_has_every_block() -> None:
    kept = Interval(np.array(False), np.ones((1, 1, 3, 1), bool))
    certain, possible = bounds_of_blocks(kept, (2, 1, 3, 4))
    assert certain.shape == possible.shape == (2, 1, 3, 4)
    assert (certain.sum(), possible.sum()) == (0, 24)


# All values.


class Counted:
    """A mask that counts how many elements it was asked for, altogether and at once."""

    def __init__(self, mask: Any) -> None:
        self.mask, self.total, self.most = mask, 0, 0

    def __call__(self, b: Any, h: Any, q: Any, k: Any) -> Any:
        found = self.mask[b, h, q, k]
        self.total += found.size
        self.most = max(self.most, found.size)
        return found


def open_(tiling: Tiling) -> BlockBounds:
    """Nothing is known of any block."""
    return BlockBounds(np.zeros(tiling.counts, bool), np.ones(tiling.counts, bool))


@given(st.integers(0, 99), LENGTHS, SIZES, st.sampled_from([0.02, 0.5, 0.98]))
@settings(max_examples=60)
def test_values_decide_every_block(
    seed: int, lengths: tuple[int, int], block: tuple[int, int], density: float
) -> None:
    mask = np.random.default_rng(seed).random((2, 2, *lengths)) < density
    tiling = Tiling(2, 2, *lengths, block)
    found = evaluate_blocks(Counted(mask), tiling, open_(tiling))
    reference.check_tables(block_tables(*found, lengths[1], block[1]), mask, block)


def test_blocks_that_are_decided_are_not_asked_for() -> None:
    tiling = Tiling(1, 1, 64, 64, (16, 16))
    known = BlockBounds(np.eye(4, dtype=bool)[None, None], np.tri(4, dtype=bool)[None, None])

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        assert (q // 16 > k // 16).all()
        return q > 40

    certain, possible = evaluate_blocks(mask, tiling, known)
    full, seen = np.eye(4, dtype=bool), np.eye(4, dtype=bool)
    full[3] = seen[3] = seen[2, :3] = True
    np.testing.assert_array_equal(certain[0, 0], full)
    np.testing.assert_array_equal(possible[0, 0], seen)


def test_what_is_given_stays_as_it_was() -> None:
    tiling = Tiling(1, 1, 8, 8, (4, 4))
    given_ = open_(tiling)
    evaluate_blocks(lambda b, h, q, k: q >= k, tiling, given_)
    assert not given_.certain.any()
    assert given_.possible.all()


def test_two_corners_that_differ_are_enough() -> None:
    n = 512
    mask = Counted(np.tri(n, dtype=bool)[None, None])
    tiling = Tiling(1, 1, n, n, (128, 128))
    diagonal = np.eye(4, dtype=bool)[None, None]
    evaluate_blocks(mask, tiling, BlockBounds(np.zeros_like(diagonal), diagonal))
    assert mask.total == 4 * 4


def test_blocks_leave_as_soon_as_they_are_partial() -> None:
    n = 1024
    mask = Counted(np.random.default_rng(0).random((1, 1, n, n)) < 0.5)
    tiling = Tiling(1, 1, n, n, (128, 128))
    evaluate_blocks(mask, tiling, open_(tiling))
    assert mask.total < 0.05 * n * n


def test_no_more_elements_are_asked_for_at_once_than_fit() -> None:
    n = 1024
    mask = Counted(np.zeros((1, 1, n, n), bool))
    tiling = Tiling(1, 1, n, n, (128, 128))
    evaluate_blocks(mask, tiling, open_(tiling))
    assert mask.most <= blocks.MAX_ELEMENTS


def test_masks_of_batches_and_heads_are_asked_for_theirs() -> None:
    mask = np.zeros((2, 3, 8, 8), bool)
    mask[1, 2] = True
    tiling = Tiling(2, 3, 8, 8, (4, 4))
    certain, possible = evaluate_blocks(Counted(mask), tiling, open_(tiling))
    assert np.argwhere(certain)[:, :2].tolist() == [[1, 2]] * 4
    np.testing.assert_array_equal(certain, possible)


def test_points_are_decided() -> None:
    certain, possible = bounds_of_blocks(point(np.array(True)), (1, 1, 2, 2))
    assert certain.all()
    assert possible.all()
