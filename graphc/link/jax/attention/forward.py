"""Attention of heads that share a table: row by row of blocks, each with its blocks of keys.

The largest score so far, the sum of exponentials and the weighted sum of values are corrected from
block to block, so that no row of scores is ever whole.

Source: Milakov & Gimelshein, arXiv:1805.02867, 2018; Dao et al., arXiv:2205.14135, 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.attention.layout import Tables, wide
from graphc.link.jax.attention.tiles import Tiles
from graphc.link.jax.varying import vary_as

HEADS = ((0,), (0,))
"""The batch dimensions of products: one matrix for each head."""


class Scale(NamedTuple):
    """The factor of products, in two parts.

    Attributes:
        before: The factor of queries; 1 where their dtype is too narrow.
        after: The factor of products.
    """

    before: float
    after: float

    @classmethod
    def of(cls, scale: float, dtype: Any) -> Scale:
        """The factors for queries of a dtype."""
        return cls(scale, 1.0) if dtype == wide(dtype) else cls(1.0, scale)


class State(NamedTuple):
    """The running softmax of a row of blocks.

    Attributes:
        largest: The largest score of each query (heads, below).
        total: The sum of exponentials of scores less that (heads, below).
        values: The sum of values weighted by them (heads, below, Ev).
    """

    largest: Any
    total: Any
    values: Any


def attention(
    tiles: Tiles, scale: float, tables: Tables, q: Any, k: Any, v: Any
) -> tuple[Any, Any]:
    """Results (b, h, Q, Ev) of the queries' dtype, and log-sum-exps (b, h, Q)."""
    lengths, dtype = tiles.lengths, wide(q.dtype)
    before, after = Scale.of(scale, q.dtype)
    queries, keys, values = lengths.of_queries(q), lengths.of_keys(k), lengths.of_keys(v, 0)
    size = (lengths.heads, lengths.below)
    state = State(
        # Below all scores but -inf, so that differences of two are never NaN.
        jnp.full(size, np.finfo(dtype).min, dtype),
        jnp.zeros(size, dtype),
        jnp.zeros((*size, v.shape[3]), dtype),
    )
    start = vary_as(state, q)

    def of_row(row: Any, done: tuple[Any, Any]) -> tuple[Any, Any]:
        own = times(lengths.row(queries, row), before)

        def step(state: State, columns: Sequence[Any], kept: Any) -> State:
            score = times(product(own, lengths.blocks(keys, columns), 2, 2, dtype), after)
            score = tiles.changed(score, row, columns)
            score = score if kept is None else jnp.where(kept, score, -np.inf)
            return _after(state, score, lengths.blocks(values, columns))

        ended = _ended(over_blocks(tiles, tables, row, step, start))
        return tuple(lengths.with_row(x, row, new) for x, new in zip(done, ended, strict=True))

    none = lengths.no_queries(q.dtype, v.shape[3]), lengths.no_queries(dtype)
    out, sums = lax.fori_loop(np.int32(0), np.int32(lengths.rows), of_row, vary_as(none, q))
    return lengths.back(out), lengths.back(sums)


def over_blocks(
    tiles: Tiles,
    tables: Tables,
    row: Any,
    step: Callable[[Any, Sequence[Any], Any], Any],
    state: Any,
) -> Any:
    """The state after steps: several full blocks at once, then single ones, then partial ones.

    A step is given the state, the columns of its blocks, and the mask of their elements.
    """
    given: Sequence[Any] = [None if x is None else x[row] for x in tables]
    partial, partial_columns, full, full_columns = given

    def of_partial(i: Any, state: Any) -> Any:
        column = partial_columns[i]
        # Within a branch it is found once: fused with what takes it, it would be found by each,
        # and comparisons that hang on the last digit would not agree.
        kept = lax.cond(partial > 0, tiles.kept, tiles.none_kept, row, column)
        return step(state, [column], kept)

    if full is not None:
        state = _over_full(tiles.lengths.chunk, full, full_columns, step, state)
    return state if partial is None else lax.fori_loop(np.int32(0), partial, of_partial, state)


def _over_full(
    n: int, full: Any, columns: Any, step: Callable[[Any, Sequence[Any], Any], Any], state: Any
) -> Any:
    """The state after a row's full blocks, ``n`` at once and then single ones."""

    def of_some(i: Any, state: Any) -> Any:
        some = lax.dynamic_slice_in_dim(columns, i * np.int32(n), n)
        return step(state, [some[j] for j in range(n)], None)

    def of_one(i: Any, state: Any) -> Any:
        return step(state, [columns[i]], None)

    done = np.int32(0)
    if 1 < n <= columns.size:
        state = lax.fori_loop(np.int32(0), full // np.int32(n), of_some, state)
        done = full // np.int32(n) * np.int32(n)
    return lax.fori_loop(done, full, of_one, state)


def _after(state: State, score: Any, values: Any) -> State:
    """The state after more keys, of scores (heads, below, n) and values (heads, n, Ev)."""
    largest = jnp.maximum(state.largest, score.max(2))
    # XLA may find scores twice and round a user's function differently: none is above the largest.
    weights = jnp.exp(jnp.minimum(score - largest[..., None], 0))
    correction = jnp.exp(state.largest - largest)
    new = product(weights.astype(values.dtype), values, 2, 1, score.dtype)
    return State(
        largest,
        state.total * correction + weights.sum(2),
        state.values * correction[..., None] + new,
    )


def _ended(state: State) -> tuple[Any, Any]:
    """Results, and log-sum-exps; where there was no key, 0 and -inf."""
    empty = state.total == 0
    total = jnp.where(empty, 1, state.total)
    sums = jnp.where(empty, -np.inf, state.largest + jnp.log(total))
    return state.values / total[..., None], sums


def product(a: Any, b: Any, axis: int, other: int, dtype: Any) -> Any:
    """The matrices' products for each head, over an axis of each, in the dtype of scores."""
    dimensions = (((axis,), (other,)), HEADS)
    return lax.dot_general(a, b, dimensions, preferred_element_type=dtype)


def times(x: Any, scale: float) -> Any:
    """A multiple of the array's dtype."""
    return x if scale == 1 else x * np.asarray(scale, x.dtype)
