"""Attention as a graph of basic operations: a loop over rows of blocks, each dense.

Backends without a kernel, such as NumPy, run these graphs, and higher derivatives differentiate
them. Memory grows with the lengths, time with their product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphc.attention.inputs import AttentionInputs, compute_dtype, scale_of, table_pairs
from graphc.attention.mods import map_over_grid
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
    """Return a node of the result and the log-sum-exps."""
    rows = _ScoreRows(op, op.split_inputs(inputs))
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
    return Node.make(MakeTuple(), cast(rows.join_rows(out), inputs[0].dtype), rows.join_rows(sums))


def gradient(op: FlexGradient, inputs: Sequence[Tensor]) -> Node:
    """Return a node of the gradients with respect to q, k, v and the wanted captured arrays."""
    operands = op.split_inputs(inputs)
    rows = _ScoreRows(op, operands)
    out, sums, g, g_sums = (cast(x, rows.dtype) for x in operands.rest)
    delta = sum(g * out, -1, keepdims=True) - expand_dims(g_sums, -1)
    captured = op.wanted_of(operands.score_captured)
    if rows.queries == 0:
        return Node.make(MakeTuple(), *map(zeros_like, [*operands[:3], *captured]))

    def row(carry: Any, i: Tensor) -> Any:
        by_k, by_v, by_captured = carry
        g_row = rows.cotangent_row(g, i)
        scores, plain, keep = rows.scores(i)
        masked = scores if keep is None else where(keep, scores, -math.inf)
        weights = exp(masked - expand_dims(_finite(rows.row_of(sums, i)), -1))
        by_weights = rows.by_heads(_dot(rows.by_keys(g_row), rows.v, 3, 3))
        by_score = weights * (by_weights - rows.cotangent_row(delta, i))
        by_plain, *captured_terms = _score_cotangents(op.score, scores, plain, captured, by_score)
        # Where a weight is 0 the score function's derivative may be infinite.
        by_plain = rows.by_keys(where(equal(weights, 0), 0, by_plain * rows.scale))
        by_q = rows.by_heads(_dot(by_plain, rows.k, 3, 2))
        by_k += _dot(by_plain, rows.by_keys(rows.row_of(rows.q, i)), 2, 2)
        by_v += _dot(rows.by_keys(weights), rows.by_keys(g_row), 2, 2)
        pairs = zip(by_captured, captured_terms, strict=True)
        return (by_k, by_v, [a if b is None else a + b for a, b in pairs]), by_q

    begin = (zeros_like(rows.k), zeros_like(rows.v), [zeros_like(x) for x in captured])
    (by_k, by_v, by_captured), by_q = loop(row, begin, rows.numbers)
    pairs = zip((rows.join_rows(by_q), by_k, by_v), operands[:3], strict=True)
    return Node.make(MakeTuple(), *[cast(g, x.dtype) for g, x in pairs], *by_captured)


def _finite(x: Tensor) -> Tensor:
    """Replace minus infinity by 0."""
    y: Tensor = where(equal(x, -math.inf), 0, x)
    return y


def _dot(a: Tensor, b: Tensor, i: int, j: int) -> Tensor:
    """Return products of matrices for each batch and head, summed over axis i of a and j of b."""
    return Tensor.make(DotGeneral(((i,), (j,)), ((0, 1), (0, 1))), a, b)


def _score_cotangents(
    score: Graph | None,
    scores: Tensor,
    plain: Tensor,
    captured: Sequence[Tensor],
    g: Tensor,
) -> list[Any]:
    """Return the cotangents of scores before the score function, and of its captured arrays."""
    if score is None:
        return [g]
    wrt = [plain, *captured]
    first, *others = cotangents({scores: g}, wrt, wrt)
    return [zeros_like(plain) if first is None else first, *others]


class _ScoreRows:
    """Rows of blocks of the scores.

    Attributes:
        numbers: The indices of the rows.
        dtype: The scores' dtype.
        scale: The factor of products of queries and keys.
        q: The queries in the scores' dtype.
        k: The keys in the scores' dtype.
        v: The values in the scores' dtype.
        sharing: The number of heads of queries for each head of keys.
    """

    def __init__(self, op: Flex | FlexGradient, inputs: AttentionInputs[Tensor]) -> None:
        self.op = op
        self.inputs = inputs
        self.dtype = compute_dtype(inputs.q.dtype)
        self.q, self.k, self.v = (cast(x, self.dtype) for x in (inputs.q, inputs.k, inputs.v))
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

    def queries_of(self, i: Tensor) -> Tensor:
        """Return the indices of the queries in a row; beyond the end, the last is repeated."""
        indices = i * self.op.block[0] + arange(self.op.block[0])
        return minimum(indices, self.queries - 1)

    def row_of(self, x: Tensor, i: Tensor) -> Tensor:
        """Return a row of an array with an axis of queries."""
        row: Tensor = take(x, self.queries_of(i), 2)
        return row

    def cotangent_row(self, g: Tensor, i: Tensor) -> Tensor:
        """Return a row of cotangents (B, Hq, Q, any), zero beyond the last query."""
        inside = i * self.op.block[0] + arange(self.op.block[0]) < self.queries
        row: Tensor = where(expand_dims(inside, -1), self.row_of(g, i), 0)
        return row

    def by_keys(self, x: Tensor) -> Tensor:
        """Concatenate the rows of heads that share keys: (B, Hkv, heads each * rows, any)."""
        rows = self.sharing * self.op.block[0]
        return reshape(x, (self.batch, self.groups, rows, length(x, 3)))

    def by_heads(self, x: Tensor) -> Tensor:
        """Return the inverse of ``by_keys``."""
        return reshape(x, (self.batch, self.heads, self.op.block[0], length(x, 3)))

    def join_rows(self, rows: Tensor) -> Tensor:
        """Concatenate rows, up to the last query."""
        x = moveaxis(rows, 0, 2)
        shape = [*lengths(x)[:2], self.count * self.op.block[0], *lengths(x)[4:]]
        return reshape(x, shape)[:, :, : self.queries]

    def scores(self, i: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the scores of a row, the scores before the score function, and the mask."""
        op, inputs = self.op, self.inputs
        plain = self.by_heads(_dot(self.by_keys(self.row_of(self.q, i)), self.k, 3, 3)) * self.scale
        scores = plain
        if op.score is not None:
            scores = map_over_grid(op.score, inputs.score_captured, self.indices(i), plain)
        return scores, plain, self.keep(i)

    def indices(self, i: Tensor) -> list[Tensor]:
        """Return the indices of batches, heads, queries and keys."""
        ranges = [arange(self.batch), arange(self.heads), self.queries_of(i), arange(self.keys)]
        return [cast(x, "int32") for x in ranges]

    def keep(self, i: Tensor) -> Tensor | None:
        """Return the mask of a row, (B or 1, Hq or 1, rows or 1, K); None without a mask."""
        op, inputs = self.op, self.inputs
        mask = None
        if op.mask is not None:
            mask = map_over_grid(op.mask, inputs.mask_captured, self.indices(i))
        if not op.sparse:
            return mask
        partial, full = (
            self.in_listed_blocks(counts, columns, i)
            for counts, columns in table_pairs(inputs.tables)
        )
        return logical_or(full, partial if mask is None else logical_and(partial, mask))

    def in_listed_blocks(self, counts: Tensor, columns: Tensor, i: Tensor) -> Tensor:
        """Return whether each key is in a block that the table lists, (B or 1, Hq or 1, 1, K)."""
        counts, columns = counts[:, :, i], columns[:, :, i]
        count = length(columns, 2)
        valid = arange(count) < expand_dims(counts, -1)
        is_hit = logical_and(equal(expand_dims(columns, -1), arange(count)), expand_dims(valid, -1))
        blocks = any(is_hit, -2)
        return expand_dims(take(blocks, arange(self.keys) // self.op.block[1], 2), 2)
