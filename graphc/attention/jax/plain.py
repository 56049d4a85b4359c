"""Attention and its gradient as plain JAX, which has derivatives of any order in any mode.

Both are loops over rows of blocks, each with all keys: what derivatives of a gradient are made of,
where blocks that are empty cost as much as others, and memory stays linear in the length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from graphc.attention.jax.functions import tiled
from graphc.attention.jax.kernel import Spec

__all__ = ["Operands", "attention", "gradient"]


class Operands(NamedTuple):
    """What attention is computed of, and with the rest its gradient.

    Attributes:
        q: Queries, (B, Hq, Q, E).
        k: Keys, (B, Hkv, K, E).
        v: Values, (B, Hkv, K, Ev).
        tables: Four arrays that list the blocks, or none.
        score_captured: What the score function captures.
        mask_captured: What the mask function captures.
        out: The result of attention.
        lse: The logarithms of the sums of exponentials.
        g_out: The cotangent of the result.
        g_lse: That of the logarithms.
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
    """The result of attention and the logarithms of sums.

    Args:
        spec: The functions, the block and the scale.
        given: The arrays, without those that a gradient needs.
    """
    rows = _Rows(spec, [False] * len(given.score_captured), given)
    result = jax.checkpoint(rows.result)
    numbers = jnp.arange(rows.count, dtype="int32")
    queries = rows.apart(rows.wide(given.q))
    _, (out, lse) = jax.lax.scan(
        lambda _, x: (None, result(rows.shared, x)), None, (numbers, queries)
    )
    return rows.joined(out).astype(given.q.dtype), rows.joined(lse)


def gradient(spec: Spec, wanted: Sequence[bool], given: Operands) -> tuple[Any, ...]:
    """The cotangents of q, k, v and of those of the captured arrays of the score that are wanted.

    Args:
        spec: The functions, the block and the scale.
        wanted: Which of ``score_captured``.
        given: The rest.
    """
    rows = _Rows(spec, wanted, given)
    contribution = jax.checkpoint(rows.contribution)

    def row(total: Any, of_row: Any) -> Any:
        by_q, *others = contribution(rows.shared, of_row)
        return jax.tree.map(jnp.add, total, tuple(others)), by_q

    summed = (rows.shared.k, rows.shared.v, *rows.shared.captured)
    begin = tuple(jnp.zeros(x.shape, jnp.promote_types(x.dtype, rows.dtype)) for x in summed)
    others, by_q = jax.lax.scan(row, begin, rows.each())
    made = (rows.joined(by_q), *others)
    asked = [x for x, flag in zip(given.score_captured, wanted, strict=True) if flag]
    like = (given.q, given.k, given.v, *asked)
    return tuple(y.astype(x.dtype) for y, x in zip(made, like, strict=True))


class _Shared(NamedTuple):
    """What all rows read: keys, values, tables, captured arrays, those that are wanted first."""

    k: Any
    v: Any
    tables: tuple[Any, ...]
    captured: tuple[Any, ...]
    others: tuple[Any, ...]
    mask_captured: tuple[Any, ...]


class _Rows:
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
        """What each row reads: its number, its queries, results and cotangents, row by row."""
        given = self.given
        delta = jnp.sum(self.wide(given.g_out) * self.wide(given.out), -1) - given.g_lse
        q, lse = self.apart(self.wide(given.q)), self.apart(given.lse, -jnp.inf)
        g, delta = self.apart(self.wide(given.g_out)), self.apart(delta)
        return jnp.arange(self.count, dtype="int32"), q, lse, g, delta

    def wide(self, x: Any) -> Any:
        """In the dtype of scores."""
        return x.astype(self.dtype)

    def apart(self, x: Any, fill: float = 0) -> Any:
        """(B, H, Q, ...) as (rows, B, H, queries of a row, ...), filled up at the end."""
        size = self.spec.block[0]
        more = [(0, 0)] * x.ndim
        more[2] = (0, self.count * size - self.queries)
        x = jnp.pad(x, more, constant_values=fill)
        return jnp.moveaxis(x.reshape(*x.shape[:2], self.count, size, *x.shape[3:]), 2, 0)

    def joined(self, x: Any) -> Any:
        """The same the other way."""
        x = jnp.moveaxis(x, 0, 2)
        return x.reshape(*x.shape[:2], -1, *x.shape[4:])[:, :, : self.queries]

    def result(self, shared: _Shared, of_row: tuple[Any, Any]) -> tuple[Any, Any]:
        """What the queries of a row of blocks get, and the logarithms of their sums."""
        i, q = of_row
        places = self.places(i)
        scores = self.scores(shared, places)(self.plain(shared, self.by_keys(q)), shared.captured)
        keep = self.keep(shared, i, places) & (scores != -jnp.inf)
        seen = keep.any(-1, keepdims=True)
        # Nothing is infinite where something is differentiated, even if it is not used.
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
        """What a row of blocks has of each of the gradients."""
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
        """Heads apart by the keys that they read: (B, Hkv, heads of each, queries, any)."""
        shared = self.heads // self.groups
        return x.reshape(self.batch, self.groups, shared, *x.shape[2:])

    def by_heads(self, x: Any) -> Any:
        """The same the other way."""
        return x.reshape(self.batch, self.heads, *x.shape[3:])

    def places(self, i: Any) -> tuple[Any, ...]:
        """The numbers of batches, heads, queries and keys; beyond the last query, that one."""
        queries = i * self.spec.block[0] + jnp.arange(self.spec.block[0], dtype="int32")
        ranges = (jnp.arange(n, dtype="int32") for n in (self.batch, self.heads, self.keys))
        batches, heads, keys = ranges
        return batches, heads, jnp.minimum(queries, self.queries - 1), keys

    def scores(self, shared: _Shared, places: tuple[Any, ...]) -> Callable[[Any, Any], Any]:
        """The scores of a row as a function of what they were and of captured arrays."""

        def changed(plain: Any, asked: tuple[Any, ...]) -> Any:
            if self.spec.score is None:
                return plain
            first, others = iter(asked), iter(shared.others)
            captured = [next(first if flag else others) for flag in self.wanted]
            return tiled(self.spec.score, places, captured, plain)

        return changed

    def keep(self, shared: _Shared, i: Any, places: tuple[Any, ...]) -> Any:
        """Which scores of a row are kept, in something that broadcasts to its shape."""
        kept = jnp.asarray(True)
        if self.spec.mask is not None:
            kept = tiled(self.spec.mask, places, shared.mask_captured)
        if not shared.tables:
            return kept
        partial, full = (self.listed(n, numbers, i) for n, numbers in _pairs(shared.tables))
        return full | (partial & kept)

    def listed(self, n: Any, numbers: Any, i: Any) -> Any:
        """Whether each key is in a block that a row's table lists, (B or 1, H or 1, 1, K)."""
        n, numbers = (jax.lax.dynamic_index_in_dim(x, i, 2, keepdims=False) for x in (n, numbers))
        order = jnp.arange(numbers.shape[-1])
        hits = (numbers[..., None] == order) & (order < n[..., None])[..., None]
        return jnp.repeat(hits.any(-2), self.spec.block[1], -1)[..., None, : self.keys]


def _dot(axes: str, a: Any, b: Any) -> Any:
    return jnp.einsum(axes, a, b, precision="highest")


def _pairs(tables: Sequence[Any]) -> list[tuple[Any, Any]]:
    n, numbers, full_n, full_numbers = tables
    return [(n, numbers), (full_n, full_numbers)]
