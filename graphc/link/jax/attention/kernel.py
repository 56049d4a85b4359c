"""Attention over tables of blocks, and its gradient, in plain JAX.

Tables and captured arrays are arguments: new ones of the same shapes need no other program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.attention.backward import QueryArrays, Totals, gradients
from graphc.link.jax.attention.forward import attention
from graphc.link.jax.attention.layout import (
    GroupLengths,
    TableGroup,
    Tables,
    all_blocks,
    group_by_table,
    score_dtype,
)
from graphc.link.jax.attention.tiles import KEYS_FIRST, QUERIES_FIRST, Tiles
from graphc.link.jax.varying import vary_as


@dataclass(frozen=True)
class Spec:
    """The specification of attention, without arrays.

    Attributes:
        score: The score function, (s, b, h, q, k, *captured) of JAX scalars, or None.
        mask: The mask function, (b, h, q, k, *captured) of JAX scalars, or None.
        block: The numbers of queries and keys of a block.
        scale: The factor of products of queries and keys.
    """

    score: Callable[..., Any] | None
    mask: Callable[..., Any] | None
    block: tuple[int, int]
    scale: float


def forward(  # noqa: PLR0913, PLR0917 (arrays of attention)
    spec: Spec,
    q: Any,
    k: Any,
    v: Any,
    tables: Sequence[Any],
    score_captured: Sequence[Any],
    mask_captured: Sequence[Any],
) -> tuple[Any, Any]:
    """Return attention over the blocks that tables list; other blocks cost nothing.

    Args:
        spec: The functions, the block and the scale.
        q: Queries (B, Hq, Q, E).
        k: Keys (B, Hkv, K, E), where Hkv divides Hq.
        v: Values (B, Hkv, K, Ev).
        tables: Counts and columns of partial blocks, then of full ones, (Bm, Hm, nQ) and
            (Bm, Hm, nQ, nK), int32; empty for all blocks.
        score_captured: The arrays that the score function captures.
        mask_captured: The arrays that the mask function captures.

    Returns:
        The results (B, Hq, Q, Ev) in the queries' dtype, and the log-sum-exps (B, Hq, Q) in
        float32 or float64; 0 and -inf for a query that sees no key.

    Example:
        >>> import jax.numpy as jnp
        >>> x = jnp.ones((1, 1, 3, 2))
        >>> spec = Spec(None, lambda b, h, q, k: k <= q, (2, 2), 1.0)
        >>> out, sums = forward(spec, x, x, x, (), (), ())
        >>> jnp.exp(sums - 2).round(4).tolist()
        [[[1.0, 2.0, 3.0]]]
    """
    if _is_empty(q, k):
        sums = jnp.full(q.shape[:3], -np.inf, score_dtype(q.dtype))
        return vary_as((jnp.zeros((*q.shape[:3], v.shape[3]), q.dtype), sums), q)
    call = _GroupedAttention(spec, q, k, tables, score_captured, mask_captured)

    def attend(index: Any, group_tables: Tables) -> tuple[Any, Any]:
        group, tiles = call.group(index, QUERIES_FIRST)
        arrays = (group.select_queries(q), group.select_keys(k), group.select_keys(v))
        return attention(tiles, spec.scale, group_tables, *arrays)

    out, sums = call.map_groups(attend)
    return out, sums


def backward(  # noqa: PLR0913, PLR0917 (arrays of attention)
    spec: Spec,
    q: Any,
    k: Any,
    v: Any,
    tables: Sequence[Any],
    score_captured: Sequence[Any],
    mask_captured: Sequence[Any],
    out: Any,
    lse: Any,
    g_out: Any,
    g_lse: Any,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    """Return the gradients of ``forward`` with respect to q, k, v and the score function's arrays.

    Weights are recomputed from ``lse`` block by block, so that memory is linear in the lengths.

    Args:
        spec: The functions, the block and the scale, as for ``forward``.
        q: Queries.
        k: Keys.
        v: Values.
        tables: The tables of blocks.
        score_captured: The arrays that the score function captures.
        mask_captured: The arrays that the mask function captures.
        out: The results of ``forward``.
        lse: The log-sum-exps of ``forward``.
        g_out: The cotangent of ``out``.
        g_lse: The cotangent of ``lse``.
        wanted: Whether each of the score function's arrays has a gradient; False if not floating.

    Returns:
        The gradients, each of the shape and dtype of its array.

    Example:
        >>> import jax.numpy as jnp
        >>> x = jnp.ones((1, 1, 3, 2))
        >>> spec = Spec(None, lambda b, h, q, k: k <= q, (2, 2), 1.0)
        >>> out, sums = forward(spec, x, x, x, (), (), ())
        >>> g = jnp.ones_like(out), jnp.zeros_like(sums)
        >>> _, _, by_values = backward(spec, x, x, x, (), (), (), out, sums, *g, ())
        >>> (12 * by_values[0, 0, :, 0]).round().tolist()
        [22.0, 10.0, 4.0]
    """
    by = [x for x, flag in zip(score_captured, wanted, strict=True) if flag]
    if _is_empty(q, k):
        return vary_as(tuple(jnp.zeros(x.shape, x.dtype) for x in (q, k, v, *by)), q)
    call = _GroupedAttention(spec, q, k, tables, score_captured, mask_captured)
    rows = QueryArrays(q, out, lse, g_out.astype(q.dtype), g_lse.astype(score_dtype(q.dtype)))

    def differentiate(totals: Totals, index: Any, group_tables: Tables) -> tuple[Totals, Any]:
        group, tiles = call.group(index, KEYS_FIRST)
        arrays = QueryArrays(*map(group.select_queries, rows))
        keys, values = group.select_keys(k), group.select_keys(v)
        dq, (dk, dv, captured) = gradients(
            tiles, spec.scale, group_tables, arrays, keys, values, wanted, totals.captured
        )
        by_keys, by_values = group.add_group(totals.keys, dk), group.add_group(totals.values, dv)
        return Totals(by_keys, by_values, captured), dq

    zeros = vary_as([jnp.zeros(x.shape, score_dtype(x.dtype)) for x in (k, v, *by)], q)
    (dk, dv, captured), dq = call.scan_groups(differentiate, Totals(zeros[0], zeros[1], zeros[2:]))
    pairs = zip((dq, dk, dv, *captured), (q, k, v, *by), strict=True)
    return tuple(x.astype(like.dtype) for x, like in pairs)


def _is_empty(q: Any, k: Any) -> bool:
    """Return whether there is no pair of a query and a key."""
    return 0 in (*q.shape[:3], k.shape[2])


class _GroupedAttention:
    """A call of attention, split into groups of heads that share a table."""

    def __init__(
        self,
        spec: Spec,
        q: Any,
        k: Any,
        tables: Sequence[Any],
        score_captured: Sequence[Any],
        mask_captured: Sequence[Any],
    ) -> None:
        self.spec = spec
        self.captured = (score_captured, mask_captured)
        batch, heads, queries, _ = q.shape
        keyed, keys = k.shape[1:3]
        self.shared = heads // keyed
        lengths = GroupLengths(batch, keyed, self.shared, queries, keys, spec.block)
        default = all_blocks(lengths, spec.mask is not None)
        self.tables = Tables(*(tables or vary_as(default, q)))
        self.groups = group_by_table(self.tables, batch, heads, keyed)
        batches, group_heads, group_keyed = self.groups.sizes
        shared = group_heads // group_keyed
        self.lengths = GroupLengths(batches, group_keyed, shared, queries, keys, spec.block)

    def group(self, index: Any, axes: str) -> tuple[TableGroup, Tiles]:
        """Return the group at an index, and its tiles with these axes."""
        spec = self.spec
        group = self.groups.group(index, self.shared)
        indices = group.indices()
        return group, Tiles(spec.score, spec.mask, self.lengths, indices, *self.captured, axes)

    def map_groups(self, function: Callable[[Any, Tables], Any]) -> Any:
        """Return the results (B, Hq, ...) of a function of each group."""
        return self.scan_groups(lambda none, *group: (none, function(*group)), None)[1]

    def scan_groups(self, function: Callable[[Any, Any, Tables], Any], start: Any) -> Any:
        """Return the last carry of a function of each group, and its results (B, Hq, ...)."""
        groups = self.groups
        numbers = jnp.arange(groups.number, dtype=np.int32)
        tables = jax.tree.map(lambda x: x.reshape(groups.number, *x.shape[2:]), self.tables)
        if groups.number == 1:
            return function(start, np.int32(0), jax.tree.map(lambda x: x[0], tables))
        last, results = lax.scan(
            lambda carry, group: function(carry, *group), start, (numbers, tables)
        )
        return last, jax.tree.map(groups.join_groups, results)
