"""The gradient of attention, of heads that share a table, block by block.

Weights are recomputed from the log-sum-exps. A block's terms in the gradients with respect to keys
and values are added in place, so that each block is visited once.

Source: Dao et al., arXiv:2205.14135, 2022, algorithm 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.attention.captured import Adder, pulled
from graphc.link.jax.attention.forward import Scale, over_blocks, product, times
from graphc.link.jax.attention.layout import Tables, wide
from graphc.link.jax.attention.tiles import Tiles
from graphc.link.jax.varying import vary_as


class QueryArrays(NamedTuple):
    """Arrays with an axis of queries: the queries, results, log-sum-exps, and both cotangents."""

    queries: Any
    out: Any
    sums: Any
    g_out: Any
    g_sums: Any


class Totals(NamedTuple):
    """Sums of gradients so far, with respect to keys, values and captured arrays."""

    keys: Any
    values: Any
    captured: Sequence[Any]


class RowArrays(NamedTuple):
    """The arrays of the queries of a row of blocks.

    Attributes:
        queries: The queries, multiplied by the scale's first part (heads, below, E).
        g: The cotangent of the results (heads, below, Ev), 0 where a query has no key.
        sums: Logarithms of sums (heads, 1, below); inf where a query has no key, so that weights
            are 0.
        common: What all scores' gradients of a query have in common (heads, 1, below): the sum
            over keys of weights times their gradients, less the cotangent of the log-sum-exp.
    """

    queries: Any
    g: Any
    sums: Any
    common: Any

    @classmethod
    def of(cls, given: QueryArrays, before: float) -> RowArrays:
        """The arrays of a row of blocks."""
        dtype = given.sums.dtype
        empty = given.sums == -np.inf
        g = jnp.where(empty[..., None], 0, given.g_out)
        common = jnp.sum(given.out.astype(dtype) * g.astype(dtype), -1) - given.g_sums
        sums = jnp.where(empty, np.inf, given.sums)
        common = jnp.where(empty, 0, common)
        return cls(times(given.queries, before), g, sums[:, None], common[:, None])


def gradients(  # noqa: PLR0913, PLR0917 (arrays of attention)
    tiles: Tiles,
    scale: float,
    tables: Tables,
    given: QueryArrays,
    k: Any,
    v: Any,
    wanted: Sequence[bool],
    captured: Sequence[Any],
) -> tuple[Any, Totals]:
    """The gradients with respect to queries, and to keys, values and captured arrays.

    The last ones are added to ``captured``.
    """
    lengths, dtype = tiles.lengths, wide(k.dtype)
    before, after = Scale.of(scale, k.dtype)
    keys, values = lengths.of_keys(k), lengths.of_keys(v, 0)
    # What is added to the last block counts for nothing, as a query that has no key.
    queries = QueryArrays(*map(lengths.of_queries, given))
    queries = queries._replace(sums=lengths.of_queries(given.sums, -np.inf))

    def of_row(row: Any, done: tuple[Any, Totals]) -> tuple[Any, Totals]:
        own = RowArrays.of(QueryArrays(*(lengths.row(x, row) for x in queries)), before)

        def step(state: tuple[Any, Totals], columns: Sequence[Any], kept: Any) -> Any:
            by_queries, totals = state
            some, theirs = lengths.blocks(keys, columns), lengths.blocks(values, columns)
            scaled = times(product(some, own.queries, 2, 2, dtype), after)
            score, back = _pulled(tiles, wanted, scaled, row, columns)
            if kept is not None:
                score = jnp.where(kept, score, -np.inf)
            weights = jnp.exp(score - own.sums)
            by_score = weights * (product(theirs, own.g, 2, 2, dtype) - own.common)
            by_score, adders = back(by_score, kept)
            by_score = by_score.astype(k.dtype)
            weights = weights.astype(k.dtype)
            by_keys = product(by_score, own.queries, 2, 1, dtype)
            new = Totals(
                lengths.added(totals.keys, columns, by_keys),
                lengths.added(totals.values, columns, product(weights, own.g, 2, 1, dtype)),
                [add(x) for x, add in zip(totals.captured, adders, strict=True)],
            )
            return by_queries + product(some.swapaxes(1, 2), by_score, 2, 1, dtype), new

        start = vary_as(jnp.zeros((lengths.heads, k.shape[3], lengths.below), dtype), k)
        by_queries, totals = over_blocks(tiles, tables, row, step, (start, done[1]))
        by_queries = times(by_queries.swapaxes(1, 2), scale)
        return lengths.with_row(done[0], row, by_queries), totals

    none = Totals(jnp.zeros(keys.shape, dtype), jnp.zeros(values.shape, dtype), captured)
    start = vary_as((lengths.no_queries(k.dtype, k.shape[3]), none), k)
    by_queries, totals = lax.fori_loop(np.int32(0), np.int32(lengths.rows), of_row, start)
    by_keys = lengths.keys_back(times(totals.keys, after))
    by_values = lengths.keys_back(totals.values)
    return lengths.back(by_queries), Totals(by_keys, by_values, totals.captured)


def _pulled(
    tiles: Tiles, wanted: Sequence[bool], scaled: Any, row: Any, columns: Sequence[Any]
) -> tuple[Any, Callable[[Any, Any], tuple[Any, Sequence[Adder]]]]:
    """Scores, and the pullback of their gradient to products and wanted captured arrays."""
    if tiles.score is None:
        return scaled, lambda g, kept: (g if kept is None else jnp.where(kept, g, 0), ())
    places = [i for i, flag in enumerate(wanted) if flag]

    def changed(scaled: Any, *chosen: Any) -> Any:
        given = list(tiles.score_captured)
        for i, x in zip(places, chosen, strict=True):
            given[i] = x
        return replace(tiles, score_captured=given).changed(scaled, row, columns)

    score, pull = pulled(changed, scaled, [tiles.score_captured[i] for i in places])

    def back(g: Any, kept: Any) -> tuple[Any, Sequence[Adder]]:
        if kept is None:
            return pull(g)
        by_scaled, adders = pull(jnp.where(kept, g, 0))
        # A score that is left out may have no slope.
        return jnp.where(kept, by_scaled, 0), adders

    return score, back
