"""Attention and its gradient in plain JAX, which can be differentiated to any order in any mode.

Both are loops over rows of blocks, each with all keys. Derivatives of the gradient use these loops:
empty blocks cost as much as others, and memory is linear in the length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from graphc.attention.inputs import table_pairs
from graphc.link.jax.attention.functions import map_over_grid
from graphc.link.jax.attention.kernel import Spec
from graphc.link.jax.varying import vary_as


class Operands(NamedTuple):
    """The arrays of attention and of its gradient.

    Attributes:
        q: Queries, (B, Hq, Q, E).
        k: Keys, (B, Hkv, K, E).
        v: Values, (B, Hkv, K, Ev).
        tables: Four arrays that list the blocks; empty for all blocks.
        score_captured: The arrays that the score function captures.
        mask_captured: The arrays that the mask function captures.
        out: The result of attention.
        lse: The log-sum-exps of the scores.
        g_out: The cotangent of the result.
        g_lse: The cotangent of the log-sum-exps.
    """

    q: Any
    k: Any
    v: Any
    tables: tuple[Any, ...]
    score_captured: tuple[Any, ...]
    mask_captured: tuple[Any, ...]
    out: Any = None
    lse: Any = None
    g_out: Any = None
    g_lse: Any = None


def attention(spec: Spec, operands: Operands) -> tuple[Any, Any]:
    """Return the result of attention and the log-sum-exps.

    Args:
        spec: The functions, the block and the scale.
        operands: The arrays, without the gradient's.
    """
    rows = _DenseRows(spec, [False] * len(operands.score_captured), operands)
    result = jax.checkpoint(rows.result)
    numbers = jnp.arange(rows.count, dtype="int32")
    queries = rows.split_rows(rows.to_score_dtype(operands.q))
    _, (out, lse) = jax.lax.scan(
        lambda _, x: (None, result(rows.shared, x)), None, (numbers, queries)
    )
    return rows.join_rows(out).astype(operands.q.dtype), rows.join_rows(lse)


def gradient(spec: Spec, wanted: Sequence[bool], operands: Operands) -> tuple[Any, ...]:
    """Return the cotangents of q, k, v and of the wanted arrays of the score function.

    Args:
        spec: The functions, the block and the scale.
        wanted: Whether each array of ``score_captured`` has a gradient.
        operands: The arrays of the gradient.
    """
    rows = _DenseRows(spec, wanted, operands)
    contribution = jax.checkpoint(rows.contribution)

    def row(total: Any, of_row: Any) -> Any:
        by_q, *others = contribution(rows.shared, of_row)
        return jax.tree.map(jnp.add, total, tuple(others)), by_q

    summed = (rows.shared.k, rows.shared.v, *rows.shared.captured)
    begin = tuple(jnp.zeros(x.shape, jnp.promote_types(x.dtype, rows.dtype)) for x in summed)
    others, by_q = jax.lax.scan(row, vary_as(begin, operands.q), rows.row_arrays())
    gradients = (rows.join_rows(by_q), *others)
    captured = [x for x, flag in zip(operands.score_captured, wanted, strict=True) if flag]
    like = (operands.q, operands.k, operands.v, *captured)
    return tuple(y.astype(x.dtype) for y, x in zip(gradients, like, strict=True))


class _Shared(NamedTuple):
    """The arrays that all rows read.

    Attributes:
        k: Keys, in the dtype of scores.
        v: Values, in the dtype of scores.
        tables: The tables of blocks.
        captured: The score function's arrays with a gradient.
        others: The score function's arrays without a gradient.
        mask_captured: The mask function's arrays.
    """

    k: Any
    v: Any
    tables: tuple[Any, ...]
    captured: tuple[Any, ...]
    others: tuple[Any, ...]
    mask_captured: tuple[Any, ...]


class _DenseRows:
    """Rows of blocks of the scores."""

    def __init__(self, spec: Spec, wanted: Sequence[bool], operands: Operands) -> None:
        self.spec, self.wanted, self.operands = spec, tuple(wanted), operands
        self.dtype = jnp.promote_types(operands.q.dtype, "float32")
        self.batch, self.heads, self.queries, _ = operands.q.shape
        self.groups, self.keys = operands.k.shape[1:3]
        self.count = -(-self.queries // spec.block[0])
        pairs = [*zip(operands.score_captured, wanted, strict=True)]
        self.shared = _Shared(
            self.to_score_dtype(operands.k),
            self.to_score_dtype(operands.v),
            operands.tables,
            tuple(x for x, flag in pairs if flag),
            tuple(x for x, flag in pairs if not flag),
            operands.mask_captured,
        )

    def row_arrays(self) -> tuple[Any, ...]:
        """Return the arrays of each row, stacked: its index, queries, results and cotangents."""
        operands = self.operands
        delta = (
            jnp.sum(self.to_score_dtype(operands.g_out) * self.to_score_dtype(operands.out), -1)
            - operands.g_lse
        )
        q, lse = (
            self.split_rows(self.to_score_dtype(operands.q)),
            self.split_rows(operands.lse, -jnp.inf),
        )
        g, delta = self.split_rows(self.to_score_dtype(operands.g_out)), self.split_rows(delta)
        return jnp.arange(self.count, dtype="int32"), q, lse, g, delta

    def to_score_dtype(self, x: Any) -> Any:
        """Return the array in the dtype of scores."""
        return x.astype(self.dtype)

    def split_rows(self, x: Any, fill: float = 0) -> Any:
        """Return an array (B, H, Q, ...) as (rows, B, H, queries of a row, ...), padded."""
        size = self.spec.block[0]
        widths = [(0, 0)] * x.ndim
        widths[2] = (0, self.count * size - self.queries)
        x = jnp.pad(x, widths, constant_values=fill)
        return jnp.moveaxis(x.reshape(*x.shape[:2], self.count, size, *x.shape[3:]), 2, 0)

    def join_rows(self, x: Any) -> Any:
        """Return the inverse of ``split_rows``."""
        x = jnp.moveaxis(x, 0, 2)
        return x.reshape(*x.shape[:2], -1, *x.shape[4:])[:, :, : self.queries]

    def result(self, shared: _Shared, of_row: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return the results of a row of blocks, and its log-sum-exps."""
        i, q = of_row
        indices = self.indices(i)
        scores = self.scores(shared, indices)(self.plain(shared, self.by_keys(q)), shared.captured)
        keep = self.keep(shared, i, indices) & (scores != -jnp.inf)
        seen = keep.any(-1, keepdims=True)
        # Infinities would make gradients NaN, even of elements that are not used.
        scores = jnp.where(keep, scores, 0)
        peak = jax.lax.stop_gradient(
            jnp.max(scores, -1, keepdims=True, where=keep, initial=-jnp.inf)
        )
        peak = jnp.where(seen, peak, 0)
        weights = jnp.where(keep, jnp.exp(jnp.where(keep, scores - peak, 0)), 0)
        total = jnp.where(seen, jnp.sum(weights, -1, keepdims=True), 1)
        out = self.by_heads(_dot("bngqk,bnke->bngqe", self.by_keys(weights / total), shared.v))
        return out, jnp.where(seen, jnp.log(total) + peak, -jnp.inf)[..., 0]

    def plain(self, shared: _Shared, q: Any) -> Any:
        """Return the scores of queries before the score function."""
        return self.by_heads(_dot("bngqe,bnke->bngqk", q, shared.k)) * self.spec.scale

    def contribution(self, shared: _Shared, of_row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the terms of a row of blocks in each of the gradients."""
        i, q, lse, g, delta = of_row
        q, g = self.by_keys(q), self.by_keys(g)
        indices = self.indices(i)
        apply_score = self.scores(shared, indices)
        scores, pull = jax.vjp(apply_score, self.plain(shared, q), shared.captured)
        seen = (lse != -jnp.inf)[..., None]
        keep = self.keep(shared, i, indices) & (scores != -jnp.inf) & seen
        # Infinities would make gradients NaN, as in ``result``.
        below = jnp.where(keep, scores, 0) - jnp.where(seen, lse[..., None], 0)
        weights = jnp.where(keep, jnp.exp(jnp.where(keep, below, 0)), 0)
        by_weights = self.by_heads(_dot("bngqe,bnke->bngqk", g, shared.v))
        by_plain, by_captured = pull(weights * (by_weights - delta[..., None]))
        by_plain = self.by_keys(by_plain * self.spec.scale)
        by_q = self.by_heads(_dot("bngqk,bnke->bngqe", by_plain, shared.k))
        by_k = _dot("bngqk,bngqe->bnke", by_plain, q)
        by_v = _dot("bngqk,bngqe->bnke", self.by_keys(weights), g)
        return (by_q, by_k, by_v, *by_captured)

    def by_keys(self, x: Any) -> Any:
        """Group heads by the keys that they read: (B, Hkv, heads of each, queries, any)."""
        shared = self.heads // self.groups
        return x.reshape(self.batch, self.groups, shared, *x.shape[2:])

    def by_heads(self, x: Any) -> Any:
        """Return the inverse of ``by_keys``."""
        return x.reshape(self.batch, self.heads, *x.shape[3:])

    def indices(self, i: Any) -> tuple[Any, ...]:
        """Return the indices of batches, heads, queries and keys; padding repeats the last."""
        queries = i * self.spec.block[0] + jnp.arange(self.spec.block[0], dtype="int32")
        ranges = (jnp.arange(n, dtype="int32") for n in (self.batch, self.heads, self.keys))
        batches, heads, keys = ranges
        return batches, heads, jnp.minimum(queries, self.queries - 1), keys

    def scores(self, shared: _Shared, indices: tuple[Any, ...]) -> Callable[[Any, Any], Any]:
        """Return a row's score function, of the plain scores and the arrays with a gradient."""

        def apply_score(plain: Any, captured: tuple[Any, ...]) -> Any:
            if self.spec.score is None:
                return plain
            first, others = iter(captured), iter(shared.others)
            arrays = [next(first if flag else others) for flag in self.wanted]
            return map_over_grid(self.spec.score, indices, arrays, plain)

        return apply_score

    def keep(self, shared: _Shared, i: Any, indices: tuple[Any, ...]) -> Any:
        """Return the mask of a row, which broadcasts to its shape."""
        mask = jnp.asarray(True)
        if self.spec.mask is not None:
            mask = map_over_grid(self.spec.mask, indices, shared.mask_captured)
        if not shared.tables:
            return mask
        partial, full = (self.in_listed_blocks(*table, i) for table in table_pairs(shared.tables))
        return full | (partial & mask)

    def in_listed_blocks(self, counts: Any, columns: Any, i: Any) -> Any:
        """Return whether each key is in a block of a row's table, (B or 1, H or 1, 1, K)."""
        pair = (counts, columns)
        counts, columns = (jax.lax.dynamic_index_in_dim(x, i, 2, keepdims=False) for x in pair)
        order = jnp.arange(columns.shape[-1])
        is_hit = (columns[..., None] == order) & (order < counts[..., None])[..., None]
        return jnp.repeat(is_hit.any(-2), self.spec.block[1], -1)[..., None, : self.keys]


def _dot(axes: str, a: Any, b: Any) -> Any:
    return jnp.einsum(axes, a, b, precision="highest")
