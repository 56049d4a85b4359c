"""Attention over tables of blocks, and its gradient, in plain JAX.

Tables and captured arrays are arguments like any other: new ones of the same shapes are the same
program.
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
from graphc.link.jax.attention.layout import HeadGroup, Lengths, Tables, all_blocks, grouping, wide
from graphc.link.jax.attention.tiles import KEYS_FIRST, QUERIES_FIRST, Tiles
from graphc.link.jax.varying import vary_as


@dataclass(frozen=True)
class Spec:
    """The specification of attention, without arrays.

    Attributes:
        score: The score function, (s, b, h, q, k, *captured) of JAX scalars, or None.
        mask: The mask function, (b, h, q, k, *captured) of JAX scalars, or None.
        block: Queries and keys of a block.
        scale: The factor of products of queries and keys.
        ring: The mesh axes along which keys and values rotate; none where they are whole.
    """

    score: Callable[..., Any] | None
    mask: Callable[..., Any] | None
    block: tuple[int, int]
    scale: float
    ring: tuple[Any, ...] = ()


def forward(  # noqa: PLR0913, PLR0917 (arrays of attention)
    spec: Spec,
    q: Any,
    k: Any,
    v: Any,
    tables: Sequence[Any],
    score_captured: Sequence[Any],
    mask_captured: Sequence[Any],
) -> tuple[Any, Any]:
    """Attention of blocks that tables list; the others cost nothing.

    Args:
        spec: The functions, the block and the scale.
        q: Queries (B, Hq, Q, E).
        k: Keys (B, Hkv, K, E), where Hkv divides Hq.
        v: Values (B, Hkv, K, Ev).
        tables: Counts and columns of partial blocks, then of full ones, (Bm, Hm, nQ) and
            (Bm, Hm, nQ, nK), int32; or none, for all blocks.
        score_captured: The arrays that the score function captures.
        mask_captured: The arrays that the mask function captures.

    Returns:
        The results (B, Hq, Q, Ev), in the queries' dtype; and the logarithms of the sums of
        exponentials (B, Hq, Q), float32 or float64. Where a query sees no key, 0 and -inf.

    Example:
        >>> import jax.numpy as jnp
        >>> x = jnp.ones((1, 1, 3, 2))
        >>> spec = Spec(None, lambda b, h, q, k: k <= q, (2, 2), 1.0)
        >>> out, sums = forward(spec, x, x, x, (), (), ())
        >>> jnp.exp(sums - 2).round(4).tolist()
        [[[1.0, 2.0, 3.0]]]
    """
    if _is_empty(q, k):
        sums = jnp.full(q.shape[:3], -np.inf, wide(q.dtype))
        return vary_as((jnp.zeros((*q.shape[:3], v.shape[3]), q.dtype), sums), q)
    call = _Call(spec, q, k, tables, score_captured, mask_captured)

    def one(index: Any, own: Tables) -> tuple[Any, Any]:
        group, tiles = call.group(index, QUERIES_FIRST)
        arrays = (group.of_queries(q), group.of_keys(k), group.of_keys(v))
        return attention(tiles, spec.scale, own, *arrays)

    out, sums = call.over_groups(one)
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
    """The gradients of ``forward`` with respect to q, k, v and the score function's arrays.

    Weights are recomputed from ``lse`` block by block, so that memory is linear in the lengths.

    Args:
        spec: As given to ``forward``, as are all up to ``mask_captured``.
        q: Queries.
        k: Keys.
        v: Values.
        tables: Of blocks.
        score_captured: Of the score function.
        mask_captured: Of the mask function.
        out: The first result of ``forward``.
        lse: The second.
        g_out: The cotangent of the first.
        g_lse: The cotangent of the second.
        wanted: Which of the score function's arrays have gradients; floating ones.

    Returns:
        The gradients, each of the shape and dtype of its array. Rows without keys add nothing.

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
    call = _Call(spec, q, k, tables, score_captured, mask_captured)
    rows = QueryArrays(q, out, lse, g_out.astype(q.dtype), g_lse.astype(wide(q.dtype)))

    def one(totals: Totals, index: Any, own: Tables) -> tuple[Totals, Any]:
        group, tiles = call.group(index, KEYS_FIRST)
        given = QueryArrays(*map(group.of_queries, rows))
        keys, values = group.of_keys(k), group.of_keys(v)
        dq, (dk, dv, captured) = gradients(
            tiles, spec.scale, own, given, keys, values, wanted, totals.captured
        )
        by_keys, by_values = group.added(totals.keys, dk), group.added(totals.values, dv)
        return Totals(by_keys, by_values, captured), dq

    none = vary_as([jnp.zeros(x.shape, wide(x.dtype)) for x in (k, v, *by)], q)
    (dk, dv, captured), dq = call.summed_over_groups(one, Totals(none[0], none[1], none[2:]))
    pairs = zip((dq, dk, dv, *captured), (q, k, v, *by), strict=True)
    return tuple(x.astype(like.dtype) for x, like in pairs)


def _is_empty(q: Any, k: Any) -> bool:
    """Whether there is no pair of a query and a key."""
    return 0 in (*q.shape[:3], k.shape[2])


class _Call:
    """One call, split into groups of heads that share a table."""

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
        whole = Lengths(batch, keyed, self.shared, queries, keys, spec.block)
        made = all_blocks(whole, spec.mask is not None)
        counts, columns, *full = tables or vary_as(tuple(made), q)
        self.tables = Tables(counts, columns, *full)
        self.groups = grouping(self.tables, batch, heads, keyed)
        batches, own, of_keys = self.groups.sizes
        self.lengths = Lengths(batches, of_keys, own // of_keys, queries, keys, spec.block)

    def group(self, index: Any, axes: str) -> tuple[HeadGroup, Tiles]:
        """The group of a number, and its tiles of these axes."""
        spec = self.spec
        group = self.groups.group(index, self.shared)
        given = (spec.score, spec.mask, self.lengths, group.indices())
        return group, Tiles(*given, *self.captured, axes)

    def over_groups(self, one: Callable[[Any, Tables], Any]) -> Any:
        """The results (B, Hq, ...) of a function of each group."""
        return self.summed_over_groups(lambda none, *given: (none, one(*given)), None)[1]

    def summed_over_groups(self, one: Callable[[Any, Any, Tables], Any], start: Any) -> Any:
        """The last carry of a function of each group, and its results (B, Hq, ...)."""
        groups = self.groups
        numbers = jnp.arange(groups.number, dtype=np.int32)
        tables = jax.tree.map(lambda x: x.reshape(groups.number, *x.shape[2:]), self.tables)
        if groups.number == 1:
            return one(start, np.int32(0), jax.tree.map(lambda x: x[0], tables))
        last, found = lax.scan(lambda carry, given: one(carry, *given), start, (numbers, tables))
        return last, jax.tree.map(groups.joined, found)
