"""Attention as a graph of basic operations: a loop over rows of blocks, each dense.

It runs where a backend has no kernel, as NumPy, and is differentiated for all but the first
gradient. Its memory grows with the lengths, its time with their product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphc.attention.mods import tiled
from graphc.attention.parts import Parts, compute_dtype, paired, scale_of
from graphc.grad.barriers import zero_grad
from graphc.grad.reverse import cotangents
from graphc.ir import Graph, MakeTuple, Node
from graphc.loop.functional import loop
from graphc.tensor.arrays.create import arange, zeros, zeros_like
from graphc.tensor.arrays.reduce import any, max, sum
from graphc.tensor.arrays.select import take
from graphc.tensor.core.axes import expand_dims, moveaxis
from graphc.tensor.core.elementwise import (
    cast,
    equal,
    logical_and,
    logical_or,
    maximum,
    minimum,
    sqrt,
    where,
)
from graphc.tensor.core.exponential import exp, log
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral

if TYPE_CHECKING:
    from graphc.attention.flex import Flex, FlexGradient


def attention(op: Flex, inputs: Sequence[Tensor]) -> Node:
    """The result and the log-sum-exps."""
    rows = _ScoreRows(op, op.parts(inputs))
    if rows.queries == 0:
        shape = (rows.batch, rows.heads, 0)
        empty = zeros((*shape, length(rows.v, 3)), inputs[0].dtype), zeros(shape, rows.dtype)
        return Node.make(MakeTuple(), *empty)

    def row(carry: Any, i: Tensor) -> Any:
        scores, _, keep = rows.scores(i)
        if keep is not None:
            scores = where(keep, scores, -math.inf)
        peak = zero_grad(_finite(max(scores, -1, keepdims=True, initial=-math.inf)))
        weights = exp(scores - peak)
        total = sum(weights, -1, keepdims=True)
        empty = equal(total, 0)
        safe = where(empty, 1, total)
        y = rows.by_heads(_dot(rows.by_keys(weights / safe), rows.v, 3, 2))
        return carry, (y, where(empty, -math.inf, log(safe) + peak)[..., 0])

    _, (out, sums) = loop(row, None, rows.numbers, checkpoint=1)
    return Node.make(MakeTuple(), cast(rows.joined(out), inputs[0].dtype), rows.joined(sums))


def gradient(op: FlexGradient, inputs: Sequence[Tensor]) -> Node:
    """The gradients with respect to queries, keys, values and the wanted captured arrays."""
    parts = op.parts(inputs)
    rows = _ScoreRows(op, parts)
    out, sums, g, g_sums = (cast(x, rows.dtype) for x in parts.rest)
    delta = sum(g * out, -1, keepdims=True) - expand_dims(g_sums, -1)
    captured = op.wanted_of(parts.score_captured)
    if rows.queries == 0:
        return Node.make(MakeTuple(), *map(zeros_like, [*parts[:3], *captured]))

    def row(carry: Any, i: Tensor) -> Any:
        by_k, by_v, by_captured = carry
        g_row = rows.given(g, i)
        scores, plain, keep = rows.scores(i)
        kept = scores if keep is None else where(keep, scores, -math.inf)
        weights = exp(kept - expand_dims(_finite(rows.row_of(sums, i)), -1))
        moved = rows.by_heads(_dot(rows.by_keys(g_row), rows.v, 3, 3))
        by_score = weights * (moved - rows.given(delta, i))
        by_plain, *more = _pulled(op.score, scores, plain, captured, by_score)
        # Where a weight is 0 the score function's slope may be infinite.
        by_plain = rows.by_keys(where(equal(weights, 0), 0, by_plain * rows.scale))
        by_q = rows.by_heads(_dot(by_plain, rows.k, 3, 2))
        by_k += _dot(by_plain, rows.by_keys(rows.row_of(rows.q, i)), 2, 2)
        by_v += _dot(rows.by_keys(weights), rows.by_keys(g_row), 2, 2)
        pairs = zip(by_captured, more, strict=True)
        return (by_k, by_v, [a if b is None else a + b for a, b in pairs]), by_q

    begin = (zeros_like(rows.k), zeros_like(rows.v), [zeros_like(x) for x in captured])
    (by_k, by_v, by_captured), by_q = loop(row, begin, rows.numbers)
    pairs = zip((rows.joined(by_q), by_k, by_v), parts[:3], strict=True)
    return Node.make(MakeTuple(), *[cast(g, x.dtype) for g, x in pairs], *by_captured)


def _finite(x: Tensor) -> Tensor:
    """The array with 0 in place of minus infinity."""
    found: Tensor = where(equal(x, -math.inf), 0, x)
    return found


def _dot(a: Tensor, b: Tensor, i: int, j: int) -> Tensor:
    """Products of matrices for each batch and head, summed over axis i of a and j of b."""
    return Tensor.make(DotGeneral(((i,), (j,)), ((0, 1), (0, 1))), a, b)


def _pulled(
    score: Graph | None,
    scores: Tensor,
    plain: Tensor,
    captured: Sequence[Tensor],
    g: Tensor,
) -> list[Any]:
    """The cotangents of scores before the score function, and of the arrays that it captures."""
    if score is None:
        return [g]
    wrt = [plain, *captured]
    first, *others = cotangents({scores: g}, wrt, wrt)
    return [zeros_like(plain) if first is None else first, *others]


class _ScoreRows:
    """Rows of blocks of the scores.

    Attributes:
        numbers: The numbers of the rows.
        dtype: The scores' dtype.
        scale: The factor of products of queries and keys.
        q: The queries in that dtype.
        k: The keys in that dtype.
        v: The values in that dtype.
        sharing: The number of heads of queries for each head of keys.
    """

    def __init__(self, op: Flex | FlexGradient, parts: Parts[Tensor]) -> None:
        self.op = op
        self.parts = parts
        self.dtype = compute_dtype(parts.q.dtype)
        self.q, self.k, self.v = (cast(x, self.dtype) for x in (parts.q, parts.k, parts.v))
        self.batch, self.heads, self.queries = (length(self.q, i) for i in range(3))
        self.groups, self.keys = length(self.k, 1), length(self.k, 2)
        self.sharing = self.heads // maximum(self.groups, 1) if op.grouped else 1
        elements = length(self.q, 3)
        if isinstance(elements, int):
            self.scale: Any = scale_of(op, elements)
        else:
            root = sqrt(cast(maximum(elements, 1), self.dtype))
            self.scale = 1 / root if op.scale is None else op.scale
        self.count = (self.queries + op.block[0] - 1) // op.block[0]
        self.numbers = arange(self.count)

    def places(self, i: Tensor) -> Tensor:
        """The numbers of the queries in a row; beyond the last one, that one again."""
        places = i * self.op.block[0] + arange(self.op.block[0])
        return minimum(places, self.queries - 1)

    def row_of(self, x: Tensor, i: Tensor) -> Tensor:
        """A row of an array with an axis of queries."""
        found: Tensor = take(x, self.places(i), 2)
        return found

    def given(self, g: Tensor, i: Tensor) -> Tensor:
        """A row of cotangents (B, Hq, Q, any): zero beyond the last query."""
        inside = i * self.op.block[0] + arange(self.op.block[0]) < self.queries
        found: Tensor = where(expand_dims(inside, -1), self.row_of(g, i), 0)
        return found

    def by_keys(self, x: Tensor) -> Tensor:
        """Heads that share keys, concatenated: (B, Hkv, heads each * rows, any)."""
        rows = self.sharing * self.op.block[0]
        return reshape(x, (self.batch, self.groups, rows, length(x, 3)))

    def by_heads(self, x: Tensor) -> Tensor:
        """The inverse of ``by_keys``."""
        return reshape(x, (self.batch, self.heads, self.op.block[0], length(x, 3)))

    def joined(self, rows: Tensor) -> Tensor:
        """Rows concatenated, up to the last query."""
        x = moveaxis(rows, 0, 2)
        shape = [*lengths(x)[:2], self.count * self.op.block[0], *lengths(x)[4:]]
        return reshape(x, shape)[:, :, : self.queries]

    def scores(self, i: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The scores of a row of blocks, the same before the score function, and the mask."""
        op, parts = self.op, self.parts
        plain = self.by_heads(_dot(self.by_keys(self.row_of(self.q, i)), self.k, 3, 3)) * self.scale
        scores = plain
        if op.score is not None:
            scores = tiled(op.score, parts.score_captured, self.indices(i), plain)
        return scores, plain, self.keep(i)

    def indices(self, i: Tensor) -> list[Tensor]:
        """The numbers of batches, heads, queries and keys."""
        ranges = [arange(self.batch), arange(self.heads), self.places(i), arange(self.keys)]
        return [cast(x, "int32") for x in ranges]

    def keep(self, i: Tensor) -> Tensor | None:
        """The mask of a row, (B or 1, Hq or 1, rows or 1, K); None where all is kept."""
        op, parts = self.op, self.parts
        kept = None
        if op.mask is not None:
            kept = tiled(op.mask, parts.mask_captured, self.indices(i))
        if not op.sparse:
            return kept
        partial, full = (self.listed(n, places, i) for n, places in paired(parts.tables))
        return logical_or(full, partial if kept is None else logical_and(partial, kept))

    def listed(self, n: Tensor, places: Tensor, i: Tensor) -> Tensor:
        """Whether each key is in a block that is listed, (B or 1, Hq or 1, 1, K)."""
        n, places = n[:, :, i], places[:, :, i]
        count = length(places, 2)
        valid = arange(count) < expand_dims(n, -1)
        hits = logical_and(equal(expand_dims(places, -1), arange(count)), expand_dims(valid, -1))
        blocks = any(hits, -2)
        return expand_dims(take(blocks, arange(self.keys) // self.op.block[1], 2), 2)
