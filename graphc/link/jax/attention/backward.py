"""The gradient of attention for heads that share a table, block by block.

Weights are recomputed from the log-sum-exps. A block's terms in the gradients with respect to keys
and values are accumulated, so that each block is visited once.

Source: Dao et al., arXiv:2205.14135, 2022, algorithm 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.attention.captured import Adder, pullback
from graphc.link.jax.attention.forward import Scale, product, times
from graphc.link.jax.attention.layout import Block, Tables, fold_row, score_dtype
from graphc.link.jax.attention.tiles import Tiles
from graphc.link.jax.jaxprs import replace_at
from graphc.link.jax.varying import vary_as


class QueryArrays(NamedTuple):
    """Arrays with an axis of queries: the queries, results, log-sum-exps, and both cotangents."""

    queries: Any
    out: Any
    sums: Any
    g_out: Any
    g_sums: Any


class Totals(NamedTuple):
    """Partial sums of gradients with respect to keys, values and captured arrays."""

    keys: Any
    values: Any
    captured: Sequence[Any]


class RowArrays(NamedTuple):
    """The arrays of the queries of a row of blocks.

    Attributes:
        queries: The queries, multiplied by the scale's first part (heads, below, E).
        g: The cotangent of the results (heads, below, Ev), 0 where a query has no key.
        sums: The log-sum-exps (heads, below); inf where a query has no key, so that weights are 0.
        common: The term that all scores' gradients of a query share (heads, below): the sum
            over keys of weights times their gradients, minus the cotangent of the log-sum-exp.
    """

    queries: Any
    g: Any
    sums: Any
    common: Any

    @classmethod
    def of(cls, arrays: QueryArrays, before: float) -> RowArrays:
        """Return the arrays of a row of blocks."""
        dtype = arrays.sums.dtype
        empty = arrays.sums == -np.inf
        g = jnp.where(empty[..., None], 0, arrays.g_out)
        common = jnp.sum(arrays.out.astype(dtype) * g.astype(dtype), -1) - arrays.g_sums
        sums = jnp.where(empty, np.inf, arrays.sums)
        common = jnp.where(empty, 0, common)
        return cls(times(arrays.queries, before), g, sums, common)


def gradients(  # noqa: PLR0913, PLR0917 (arrays of attention)
    tiles: Tiles,
    scale: float,
    tables: Tables,
    arrays: QueryArrays,
    k: Any,
    v: Any,
    wanted: Sequence[bool],
    captured: Sequence[Any],
) -> tuple[Any, Totals]:
    """Return the gradients with respect to queries, and to keys, values and captured arrays.

    Gradients with respect to captured arrays are added to ``captured``.
    """
    lengths, dtype = tiles.lengths, score_dtype(k.dtype)
    before, after = Scale.of(scale, k.dtype)
    keys, values = lengths.pad_keys(k), lengths.pad_keys(v, 0)
    # Padding queries see no key, so their gradients are 0.
    queries = QueryArrays(*map(lengths.pad_queries, arrays))
    queries = queries._replace(sums=lengths.pad_queries(arrays.sums, -np.inf))

    def of_row(row: Any, done: tuple[Any, Totals]) -> tuple[Any, Totals]:
        own = RowArrays.of(QueryArrays(*(lengths.row(x, row) for x in queries)), before)

        def step(block: Block, state: tuple[Any, Totals]) -> tuple[Any, Totals]:
            by_queries, totals = state
            column = block.column
            block_keys, block_values = (lengths.column(x, column) for x in (keys, values))
            scaled = times(product(block_keys, own.queries, 2, 2, dtype), after)
            score, back = _score_pullback(tiles, wanted, scaled, block)
            score = tiles.mask_scores(score, block)
            weights = lax.exp(score - own.sums[:, None])
            by_score = weights * (product(block_values, own.g, 2, 2, dtype) - own.common[:, None])
            by_score, adders = back(by_score, score == -np.inf)
            by_score, weights = (x.astype(k.dtype) for x in (by_score, weights))
            return by_queries + product(block_keys.swapaxes(1, 2), by_score, 2, 1, dtype), Totals(
                lengths.add_column(
                    totals.keys, column, product(by_score, own.queries, 2, 1, dtype)
                ),
                lengths.add_column(totals.values, column, product(weights, own.g, 2, 1, dtype)),
                [add(x) for x, add in zip(totals.captured, adders, strict=True)],
            )

        start = lax.full((lengths.heads, k.shape[3], lengths.below), 0, dtype)
        by_queries, totals = fold_row(tables, row, step, (vary_as(start, k), done[1]))
        by_queries = times(by_queries.swapaxes(1, 2), scale)
        return lengths.with_row(done[0], row, by_queries), totals

    by_keys, by_values = (lax.full(x.shape, 0, dtype) for x in (keys, values))
    start = lax.full(queries.queries.shape, 0, k.dtype), Totals(by_keys, by_values, captured)
    rows = np.int32(lengths.rows)
    by_queries, totals = lax.fori_loop(np.int32(0), rows, of_row, vary_as(start, k))
    by_keys = lengths.unpad_keys(times(totals.keys, after))
    by_values = lengths.unpad_keys(totals.values)
    return lengths.unpad_queries(by_queries), Totals(by_keys, by_values, totals.captured)


def _score_pullback(
    tiles: Tiles, wanted: Sequence[bool], scaled: Any, block: Block
) -> tuple[Any, Callable[[Any, Any], tuple[Any, Sequence[Adder]]]]:
    """Return scores, and their pullback to scaled products and wanted captured arrays.

    The pullback takes the scores' gradient, and which scores are masked.
    """
    if tiles.score is None:
        return scaled, lambda g, masked: (jnp.where(masked, 0, g), ())
    positions = [i for i, flag in enumerate(wanted) if flag]

    def apply_score(scaled: Any, *arrays: Any) -> Any:
        captured = replace_at(tiles.score_captured, positions, arrays)
        return replace(tiles, score_captured=captured).apply_score(scaled, block)

    score, pull = pullback(apply_score, scaled, [tiles.score_captured[i] for i in positions])

    def back(g: Any, masked: Any) -> tuple[Any, Sequence[Adder]]:
        by_scaled, adders = pull(jnp.where(masked, 0, g))
        # The derivative of a masked score may be NaN.
        return jnp.where(masked, 0, by_scaled), adders

    return score, back
