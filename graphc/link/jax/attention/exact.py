"""Blocks that bounds leave undecided, decided by their corners, or by all of their elements.

Corners are computed in NumPy, by the rules of bounds, so that nothing has to be compiled for what
they decide. Elements are evaluated by a compiled function, of some blocks at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.attention.blocks import Decided, Tiling
from graphc.attention.grids import compact
from graphc.attention.intervals.interval import Interval, point
from graphc.link.jax.attention.programs import KEPT, Program
from graphc.link.jax.varying import vary_as

ELEMENTS = 2**18
"""The elements that are evaluated at a time: a mebibyte for each intermediate of 32 bits."""


def decided(
    program: Program,
    intervals: Sequence[Interval],
    captured: Sequence[Any],
    known: Decided,
    tiling: Tiling,
) -> Decided:
    """Which blocks are full, and which are not empty, where bounds leave it open.

    Args:
        program: The mask function.
        intervals: The indices in each block.
        captured: The arrays that the function captures.
        known: What bounds say of the blocks.
        tiling: The blocks.

    Returns:
        NumPy arrays, unless the function captures tracers.
    """
    certain, possible = known
    undecided = possible & ~certain
    if not undecided.size:
        return known
    if any(isinstance(x, jax.core.Tracer) for x in (undecided, *captured)):
        every, some = _in_trace(program, captured, undecided, tiling)
        return Decided(jnp.where(undecided, every, certain), jnp.where(undecided, some, possible))
    places = np.flatnonzero(undecided).astype(np.int32)
    if places.size:
        places = places[~_mixed_corners(program, intervals, captured, places, tiling)]
    if not places.size:
        return known
    every, some = _at_once(program, captured, places, tiling)
    certain, possible = certain.copy(), possible.copy()
    certain.flat[places], possible.flat[places] = every, some
    return Decided(certain, possible)


def _mixed_corners(
    program: Program,
    intervals: Sequence[Interval],
    captured: Sequence[Any],
    places: Any,
    tiling: Tiling,
) -> Any:
    """Whether one corner of a block is certainly kept and another certainly not."""
    where = np.unravel_index(places, tiling.counts)
    b, h, q, k = [
        [end.ravel()[at] for end in interval] for interval, at in zip(intervals, where, strict=True)
    ]
    corners = [(b[0], h[0], q[i], k[j]) for i in (0, 1) for j in (0, 1)]
    points = [point(np.stack(x)) for x in zip(*corners, strict=True)]
    kept, possible = program.bounds(points, captured, tiling.span)
    mixed = np.any(np.atleast_2d(kept), 0) & ~np.all(np.atleast_2d(possible), 0)
    return np.broadcast_to(mixed, places.shape)


def _at_once(
    program: Program, captured: Sequence[Any], places: Any, tiling: Tiling
) -> tuple[Any, Any]:
    """Whether all and whether any elements are kept of the blocks of these numbers."""
    probe, size = _probe(program, tiling.block)
    lengths = np.array((tiling.queries, tiling.keys), np.int32)
    found = [np.zeros((2, 0), bool)]
    for first in range(0, places.size, size):
        # Always as many blocks, so that nothing is compiled again: the last is repeated.
        part = places[np.minimum(np.arange(first, first + size), places.size - 1)]
        found.append(probe(_blocks(part, tiling, np.floor_divide), lengths, captured))
    every, some = np.concatenate([np.asarray(x) for x in found], axis=1)[:, : places.size]
    return every, some


def _in_trace(
    program: Program, captured: Sequence[Any], undecided: Any, tiling: Tiling
) -> tuple[Any, Any]:
    """The same in a trace, where the undecided blocks are known only when the program runs."""
    probe, size = _probe(program, tiling.block)
    total = undecided.size
    size = min(size, total)
    (count,), places = compact(undecided.reshape(1, total))
    places = jnp.pad(places[0], (0, -total % size))
    lengths = np.array((tiling.queries, tiling.keys), np.int32)

    def step(i: Any, found: Any) -> Any:
        part = lax.dynamic_slice_in_dim(places, i * size, size)
        new = probe(_blocks(part, tiling, lax.div), lengths, captured)
        # The places after those of undecided blocks are of other blocks.
        own = i * size + np.arange(size, dtype=np.int32) < count
        return found.at[:, jnp.where(own, part, total)].set(new, mode="drop")

    steps = (count + (size - 1)) // size
    none = vary_as(jnp.zeros((2, total), bool), undecided, *captured)
    every, some = lax.fori_loop(0, steps, step, none)
    return every.reshape(undecided.shape), some.reshape(undecided.shape)


def _blocks(places: Any, tiling: Tiling, div: Callable[[Any, Any], Any]) -> list[Any]:
    """The batches and heads of blocks of these numbers, and the first query and key of each."""
    _, heads, rows, columns = tiling.counts
    indices = []
    for n in (columns, rows, heads):
        above = div(places, np.int32(n))
        indices.append(places - above * np.int32(n))
        places = above
    j, i, h = indices
    return [places, h, i * np.int32(tiling.block[0]), j * np.int32(tiling.block[1])]


@lru_cache(KEPT)
def _probe(program: Program, block: tuple[int, int]) -> tuple[Any, int]:
    """A compiled function of some blocks at a time, and their number.

    It takes what ``_blocks`` gives, the lengths, and captured arrays, and gives (2, size): whether
    all and whether any elements are kept.
    """
    rows, columns = [np.arange(n, dtype=np.int32) for n in block]
    height = max(1, min(rows.size, ELEMENTS // columns.size))
    slices = np.pad(rows, (0, -rows.size % height), mode="edge").reshape(-1, height)
    size = max(1, ELEMENTS // (rows.size * columns.size))

    @jax.jit
    def probe(blocks: Any, lengths: Any, captured: Sequence[Any]) -> Any:
        b, h, first_row, first_column = blocks
        # What is beyond the last query or key is that one again.
        k = jnp.minimum(first_column[:, None] + columns, lengths[1] - 1)

        def part(rows: Any) -> Any:
            q = jnp.minimum(first_row[:, None] + rows, lengths[0] - 1)
            kept = _kept(program, (b, h, q, k), captured)
            return jnp.stack([kept.all((1, 2)), kept.any((1, 2))])

        if len(slices) == 1:
            return part(slices[0])
        found = lax.map(part, jnp.asarray(slices))
        return jnp.stack([found[:, 0].all(0), found[:, 1].any(0)])

    return probe, size


def _kept(program: Program, indices: Sequence[Any], captured: Sequence[Any]) -> Any:
    """The mask of some blocks, (blocks, rows, columns)."""
    function: Any = program
    others = [None] * len(captured)
    for axes in ((None, None, None, 0), (None, None, 0, None), (0, 0, 0, 0)):
        function = jax.vmap(function, in_axes=(*axes, *others))
    return function(*indices, *captured)
