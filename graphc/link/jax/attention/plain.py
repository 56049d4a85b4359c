"""Attention and its gradient in plain JAX, which can be differentiated to any order in any mode.

Both are loops over rows of blocks, each with all keys. Derivatives of the gradient use them: empty
blocks cost as much as others, and memory stays linear in the length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from graphc.attention.parts import paired
from graphc.link.jax.attention.functions import tiled
from graphc.link.jax.attention.kernel import Spec
from graphc.link.jax.varying import vary_as


class Operands(NamedTuple):
    """The arrays of attention, and those of its gradient.

    Attributes:
        q: Queries, (B, Hq, Q, E).
        k: Keys, (B, Hkv, K, E).
        v: Values, (B, Hkv, K, Ev).
        tables: Four arrays that list the blocks, or none.
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


def attention(spec: Spec, given: Operands) -> tuple[Any, Any]:
    """The result of attention and the log-sum-exps.

    Args:
        spec: The functions, the block and the scale.
        given: The arrays, without those that a gradient needs.
    """
    rows = _ScoreRows(spec, [False] * len(given.score_captured), given)
    result = jax.checkpoint(rows.result)
    numbers = jnp.arange(rows.count, dtype="int32")
    queries = rows.apart(rows.wide(given.q))
    _, (out, lse) = jax.lax.scan(
        lambda _, x: (None, result(rows.shared, x)), None, (numbers, queries)
    )
    return rows.joined(out).astype(given.q.dtype), rows.joined(lse)


def gradient(spec: Spec, wanted: Sequence[bool], given: Operands) -> tuple[Any, ...]:
    """The cotangents of q, k, v and of the wanted arrays of the score function.

    Args:
        spec: The functions, the block and the scale.
        wanted: Which of ``score_captured``.
        given: The rest.
    """
    rows = _ScoreRows(spec, wanted, given)
    contribution = jax.checkpoint(rows.contribution)

    def row(total: Any, of_row: Any) -> Any:
        by_q, *others = contribution(rows.shared, of_row)
        return jax.tree.map(jnp.add, total, tuple(others)), by_q

    summed = (rows.shared.k, rows.shared.v, *rows.shared.captured)
    begin = tuple(jnp.zeros(x.shape, jnp.promote_types(x.dtype, rows.dtype)) for x in summed)
    others, by_q = jax.lax.scan(row, vary_as(begin, given.q), rows.each())
    made = (rows.joined(by_q), *others)
    captured = [x for x, flag in zip(given.score_captured, wanted, strict=True) if flag]
    like = (given.q, given.k, given.v, *captured)
    return tuple(y.astype(x.dtype) for y, x in zip(made, like, strict=True))


class _Shared(NamedTuple):
    """The arrays that all rows read; ``captured`` are those with a gradient."""

    k: Any
    v: Any
    tables: tuple[Any, ...]
    captured: tuple[Any, ...]
    others: tuple[Any, ...]
    mask_captured: tuple[Any, ...]


class _ScoreRows:
    """Rows of blocks of the scores."""

    def __init__(self, spec: Spec, wanted: Sequence[bool], given: Operands) -> None:
        self.spec, self.wanted, self.given = spec, tuple(wanted), given
        self.dtype = jnp.promote_types(given.q.dtype, "float32")
        self.batch, self.heads, self.queries, _ = given.q.shape
        self.groups, self.keys = given.k.shape[1:3]
        self.count = -(-self.queries // spec.block[0])
        pairs = [*zip(given.score_captured, wanted, strict=True)]
        self.shared = _Shared(
            self.wide(given.k),
            self.wide(given.v),
            given.tables,
            tuple(x for x, flag in pairs if flag),
            tuple(x for x, flag in pairs if not flag),
            given.mask_captured,
        )

    def each(self) -> tuple[Any, ...]:
        """The arrays that each row reads, stacked: its number, queries, results and cotangents."""
        given = self.given
        delta = jnp.sum(self.wide(given.g_out) * self.wide(given.out), -1) - given.g_lse
        q, lse = self.apart(self.wide(given.q)), self.apart(given.lse, -jnp.inf)
        g, delta = self.apart(self.wide(given.g_out)), self.apart(delta)
        return jnp.arange(self.count, dtype="int32"), q, lse, g, delta

    def wide(self, x: Any) -> Any:
        """The array in the dtype of scores."""
        return x.astype(self.dtype)

    def apart(self, x: Any, fill: float = 0) -> Any:
        """An array (B, H, Q, ...) as (rows, B, H, queries of a row, ...), padded at the end."""
        size = self.spec.block[0]
        more = [(0, 0)] * x.ndim
        more[2] = (0, self.count * size - self.queries)
        x = jnp.pad(x, more, constant_values=fill)
        return jnp.moveaxis(x.reshape(*x.shape[:2], self.count, size, *x.shape[3:]), 2, 0)

    def joined(self, x: Any) -> Any:
        """The inverse of ``apart``."""
        x = jnp.moveaxis(x, 0, 2)
        return x.reshape(*x.shape[:2], -1, *x.shape[4:])[:, :, : self.queries]

    def result(self, shared: _Shared, of_row: tuple[Any, Any]) -> tuple[Any, Any]:
        """The results of a row of blocks, and its log-sum-exps."""
        i, q = of_row
        places = self.places(i)
        scores = self.scores(shared, places)(self.plain(shared, self.by_keys(q)), shared.captured)
        keep = self.keep(shared, i, places) & (scores != -jnp.inf)
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
        """The scores of queries before the score function."""
        return self.by_heads(_dot("bngqe,bnke->bngqk", q, shared.k)) * self.spec.scale

    def contribution(self, shared: _Shared, of_row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The terms of a row of blocks in each of the gradients."""
        i, q, lse, g, delta = of_row
        q, g = self.by_keys(q), self.by_keys(g)
        places = self.places(i)
        changed = self.scores(shared, places)
        scores, pull = jax.vjp(changed, self.plain(shared, q), shared.captured)
        seen = (lse != -jnp.inf)[..., None]
        keep = self.keep(shared, i, places) & (scores != -jnp.inf) & seen
        # As above.
        below = jnp.where(keep, scores, 0) - jnp.where(seen, lse[..., None], 0)
        weights = jnp.where(keep, jnp.exp(jnp.where(keep, below, 0)), 0)
        moved = self.by_heads(_dot("bngqe,bnke->bngqk", g, shared.v))
        by_plain, by_captured = pull(weights * (moved - delta[..., None]))
        by_plain = self.by_keys(by_plain * self.spec.scale)
        by_q = self.by_heads(_dot("bngqk,bnke->bngqe", by_plain, shared.k))
        by_k = _dot("bngqk,bngqe->bnke", by_plain, q)
        by_v = _dot("bngqk,bngqe->bnke", self.by_keys(weights), g)
        return (by_q, by_k, by_v, *by_captured)

    def by_keys(self, x: Any) -> Any:
        """Heads grouped by the keys that they read: (B, Hkv, heads of each, queries, any)."""
        shared = self.heads // self.groups
        return x.reshape(self.batch, self.groups, shared, *x.shape[2:])

    def by_heads(self, x: Any) -> Any:
        """The inverse of ``by_keys``."""
        return x.reshape(self.batch, self.heads, *x.shape[3:])

    def places(self, i: Any) -> tuple[Any, ...]:
        """The numbers of batches, heads, queries and keys; beyond the last query, it again."""
        queries = i * self.spec.block[0] + jnp.arange(self.spec.block[0], dtype="int32")
        ranges = (jnp.arange(n, dtype="int32") for n in (self.batch, self.heads, self.keys))
        batches, heads, keys = ranges
        return batches, heads, jnp.minimum(queries, self.queries - 1), keys

    def scores(self, shared: _Shared, places: tuple[Any, ...]) -> Callable[[Any, Any], Any]:
        """The score function of a row, of the plain scores and the arrays with a gradient."""

        def changed(plain: Any, captured: tuple[Any, ...]) -> Any:
            if self.spec.score is None:
                return plain
            first, others = iter(captured), iter(shared.others)
            given = [next(first if flag else others) for flag in self.wanted]
            return tiled(self.spec.score, places, given, plain)

        return changed

    def keep(self, shared: _Shared, i: Any, places: tuple[Any, ...]) -> Any:
        """The mask of a row, which broadcasts to its shape."""
        kept = jnp.asarray(True)
        if self.spec.mask is not None:
            kept = tiled(self.spec.mask, places, shared.mask_captured)
        if not shared.tables:
            return kept
        partial, full = (self.listed(n, numbers, i) for n, numbers in paired(shared.tables))
        return full | (partial & kept)

    def listed(self, n: Any, numbers: Any, i: Any) -> Any:
        """Whether each key is in a block that a row's table lists, (B or 1, H or 1, 1, K)."""
        n, numbers = (jax.lax.dynamic_index_in_dim(x, i, 2, keepdims=False) for x in (n, numbers))
        order = jnp.arange(numbers.shape[-1])
        hits = (numbers[..., None] == order) & (order < n[..., None])[..., None]
        return jnp.repeat(hits.any(-2), self.spec.block[1], -1)[..., None, : self.keys]


def _dot(axes: str, a: Any, b: Any) -> Any:
    return jnp.einsum(axes, a, b, precision="highest")
