"""Blocks that bounds leave undecided, decided by their corners or by all of their elements.

Corners are evaluated in NumPy, by the rules of bounds, and need no compilation. A compiled function
evaluates all elements, of some blocks at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.attention.blocks import BlockBounds, Tiling
from graphc.attention.grids import compact
from graphc.attention.intervals.interval import Interval, point
from graphc.link.jax.attention.programs import CACHE_SIZE, MaskProgram
from graphc.link.jax.varying import vary_as

ELEMENTS = 2**18
"""The number of elements evaluated at a time: a mebibyte for each 32-bit intermediate."""


def decide_by_values(
    program: MaskProgram,
    intervals: Sequence[Interval],
    captured: Sequence[Any],
    bounds: BlockBounds,
    tiling: Tiling,
) -> BlockBounds:
    """Return bounds in which the mask's values decide the blocks that intervals left undecided.

    Args:
        program: The mask function.
        intervals: The indices in each block.
        captured: The arrays that the function captures.
        bounds: The bounds by intervals.
        tiling: The blocks.

    Returns:
        NumPy arrays, unless the function captures tracers.
    """
    certain, possible = bounds
    undecided = possible & ~certain
    if not undecided.size:
        return bounds
    if any(isinstance(x, jax.core.Tracer) for x in (undecided, *captured)):
        every, some = _probe_in_trace(program, captured, undecided, tiling)
        return BlockBounds(
            jnp.where(undecided, every, certain), jnp.where(undecided, some, possible)
        )
    blocks = np.flatnonzero(undecided).astype(np.int32)
    if blocks.size:
        blocks = blocks[~_mixed_corners(program, intervals, captured, blocks, tiling)]
    if not blocks.size:
        return bounds
    every, some = _probe_blocks(program, captured, blocks, tiling)
    certain, possible = certain.copy(), possible.copy()
    certain.flat[blocks], possible.flat[blocks] = every, some
    return BlockBounds(certain, possible)


def _mixed_corners(
    program: MaskProgram,
    intervals: Sequence[Interval],
    captured: Sequence[Any],
    blocks: Any,
    tiling: Tiling,
) -> Any:
    """Return whether one corner of a block is certainly kept and another certainly not."""
    pairs = zip(intervals, np.unravel_index(blocks, tiling.counts), strict=True)
    b, h, q, k = [[end.ravel()[at] for end in interval] for interval, at in pairs]
    corners = [(b[0], h[0], q[i], k[j]) for i in (0, 1) for j in (0, 1)]
    points = [point(np.stack(x)) for x in zip(*corners, strict=True)]
    certain, possible = program.bounds(points, captured, tiling.span)
    mixed = np.any(np.atleast_2d(certain), 0) & ~np.all(np.atleast_2d(possible), 0)
    return np.broadcast_to(mixed, blocks.shape)


def _probe_blocks(
    program: MaskProgram, captured: Sequence[Any], blocks: Any, tiling: Tiling
) -> tuple[Any, Any]:
    """Return whether all and whether any elements of the blocks at these indices are kept."""
    probe, size = _probe(program, tiling.block)
    lengths = np.array((tiling.queries, tiling.keys), np.int32)
    results = [np.zeros((2, 0), bool)]
    for first in range(0, blocks.size, size):
        # The last block is repeated, so that all calls have one shape and nothing is recompiled.
        part = blocks[np.minimum(np.arange(first, first + size), blocks.size - 1)]
        results.append(probe(_block_starts(part, tiling, np.floor_divide), lengths, captured))
    every, some = np.concatenate([np.asarray(x) for x in results], axis=1)[:, : blocks.size]
    return every, some


def _probe_in_trace(
    program: MaskProgram, captured: Sequence[Any], undecided: Any, tiling: Tiling
) -> tuple[Any, Any]:
    """Return whether all and whether any elements are kept, of blocks known only at run time."""
    probe, size = _probe(program, tiling.block)
    total = undecided.size
    size = min(size, total)
    (count,), blocks = compact(undecided.reshape(1, total))
    blocks = jnp.pad(blocks[0], (0, -total % size))
    lengths = np.array((tiling.queries, tiling.keys), np.int32)

    def step(i: Any, results: Any) -> Any:
        part = lax.dynamic_slice_in_dim(blocks, i * size, size)
        new = probe(_block_starts(part, tiling, lax.div), lengths, captured)
        # Decided blocks follow the undecided ones.
        is_undecided = i * size + np.arange(size, dtype=np.int32) < count
        return results.at[:, jnp.where(is_undecided, part, total)].set(new, mode="drop")

    steps = (count + (size - 1)) // size
    zeros = vary_as(jnp.zeros((2, total), bool), undecided, *captured)
    every, some = lax.fori_loop(0, steps, step, zeros)
    return every.reshape(undecided.shape), some.reshape(undecided.shape)


def _block_starts(blocks: Any, tiling: Tiling, div: Callable[[Any, Any], Any]) -> list[Any]:
    """Return the batch, the head, the first query and the first key of blocks at flat indices."""
    _, heads, rows, columns = tiling.counts
    indices = []
    for n in (columns, rows, heads):
        quotient = div(blocks, np.int32(n))
        indices.append(blocks - quotient * np.int32(n))
        blocks = quotient
    j, i, h = indices
    return [blocks, h, i * np.int32(tiling.block[0]), j * np.int32(tiling.block[1])]


@lru_cache(CACHE_SIZE)
def _probe(program: MaskProgram, block: tuple[int, int]) -> tuple[Any, int]:
    """Return a compiled function of some blocks at a time, and their number.

    The function takes the results of ``_block_starts``, the lengths, and captured arrays, and
    returns (2, size): whether all and whether any elements are kept.
    """
    rows, columns = [np.arange(n, dtype=np.int32) for n in block]
    height = max(1, min(rows.size, ELEMENTS // columns.size))
    slices = np.pad(rows, (0, -rows.size % height), mode="edge").reshape(-1, height)
    size = max(1, ELEMENTS // (rows.size * columns.size))

    @jax.jit
    def probe(blocks: Any, lengths: Any, captured: Sequence[Any]) -> Any:
        b, h, first_row, first_column = blocks
        # Beyond the end, the last query or key is repeated.
        k = jnp.minimum(first_column[:, None] + columns, lengths[1] - 1)

        def part(rows: Any) -> Any:
            q = jnp.minimum(first_row[:, None] + rows, lengths[0] - 1)
            keep = _mask_values(program, (b, h, q, k), captured)
            return jnp.stack([keep.all((1, 2)), keep.any((1, 2))])

        if len(slices) == 1:
            return part(slices[0])
        results = lax.map(part, jnp.asarray(slices))
        return jnp.stack([results[:, 0].all(0), results[:, 1].any(0)])

    return probe, size


def _mask_values(program: MaskProgram, indices: Sequence[Any], captured: Sequence[Any]) -> Any:
    """Return the mask of some blocks, (blocks, rows, columns)."""
    function: Any = program
    others = [None] * len(captured)
    for axes in ((None, None, None, 0), (None, None, 0, None), (0, 0, 0, 0)):
        function = jax.vmap(function, in_axes=(*axes, *others))
    return function(*indices, *captured)
