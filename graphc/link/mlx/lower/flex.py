"""Attention by block tables on MLX: driven from Python, one row of blocks after the other.

The tables are read, and each row takes slices of the keys that it sees, and of no others. A row's
scores are there all at once, so nothing is rescaled; it is evaluated while the next one is put
together, so that memory is that of a few rows. Nothing is compiled, for any layout of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.attention.flex import Flex, FlexGradient
from graphc.attention.inputs import compute_dtype, scale_of
from graphc.errors import ShapeError
from graphc.link.mlx.arrays import (
    NotTraceableError,
    device_array,
    device_of,
    dtype_of,
    host_array,
    name_of,
)
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.arrays.reduce import in_wide_floats
from graphc.link.mlx.lower.core.exponential import exp
from graphc.link.mlx.lower.grids import HeadGroup, Piece, Row, Sizes, groups, joined
from graphc.link.mlx.lower.mods import Mods
from graphc.link.mlx.segments import DRIVERS

Pair = tuple[Any, Any]


@backend.lower(Flex, FlexGradient)
def attention(op: Flex | FlexGradient, *values: Any) -> Any:
    """No part of what MLX traces: what holds it is run step by step."""
    raise NotTraceableError


def driven(op: Flex, options: Mapping[str, Any]) -> Callable[..., Pair]:
    """Attention, row by row."""
    mods = Mods(op, options)

    def run(*values: Any) -> Pair:
        call = _AttentionCall(op, mods, values)
        if 0 in call.sizes[:-1]:
            return call.blank()
        # On the CPU it is no kernel, and would do everything again for the sums.
        is_kernel = op.score is None and device_of(options).type == mx.gpu
        return call.forward(_fused if is_kernel else _weighted)

    return run


def driven_gradient(op: FlexGradient, options: Mapping[str, Any]) -> Callable[..., tuple[Any, ...]]:
    """The gradient of attention, row by row."""
    mods = Mods(op, options)

    def run(*values: Any) -> tuple[Any, ...]:
        return tuple(_Back(_AttentionCall(op, mods, values)).results())

    return run


DRIVERS[Flex] = driven
DRIVERS[FlexGradient] = driven_gradient


class _AttentionCall:
    """A call of attention, or of its gradient.

    Attributes:
        sizes: How many batches, heads, queries and keys there are.
        dtype: The scores'.
        scale: What they are multiplied by.
        q: The queries as they are given, with heads that share keys on an axis of their own.
        k: The keys as they are given.
        v: The values as they are given.
        wide: Queries, scaled, keys and values, in the scores' dtype.
        columns: The keys as columns, which MLX multiplies faster on the CPU.
        of_score: What the score function captures.
        wanted: By which of that there are gradients.
        of_mask: What the mask function captures.
        rest: What the gradient takes beside that.
    """

    def __init__(self, op: Flex | FlexGradient, mods: Mods, values: Sequence[Any]) -> None:
        self.op = op
        self.mods = mods
        given = op.split_inputs(values)
        self.tables = [np.asarray(host_array(x)) for x in given.tables]
        q, k, v = map(device_array, given[:3])
        self.of_score, self.of_mask, self.rest = ([*map(device_array, part)] for part in given[4:])
        batches, heads, queries, _ = q.shape
        shared = k.shape[1]
        if heads % max(shared, 1):
            raise ShapeError(
                f"flex_attention: {heads} heads of queries cannot share {shared} heads of keys.",
                "Give a multiple of as many.",
            )
        self.wanted = op.wanted_of(self.of_score) if isinstance(op, FlexGradient) else []
        self.sizes = Sizes(batches, shared, heads // max(shared, 1), queries, k.shape[2])
        self.dtype = dtype_of(compute_dtype(name_of(q)))
        self.q, self.k, self.v = self.shared(q), k, v
        self.wide = [x.astype(self.dtype) for x in (self.q, k, v)]
        self.scale = scale_of(op, q.shape[3])
        self.wide[0] = self.wide[0] * self.scale
        self.columns = mx.contiguous(_turned(self.wide[1]))

    def shared(self, x: Any) -> Any:
        """(batches, heads, ...) as (batches, heads of keys, sharing heads, ...)."""
        return mx.reshape(x, (*self.sizes[:3], *x.shape[2:]))

    def groups(self) -> list[list[HeadGroup]]:
        """The batches and heads that see the same blocks."""
        op = self.op
        return groups(self.tables, self.sizes, op.block, masked=op.mask is not None)

    def blank(self) -> Pair:
        """Results of no element."""
        batches, heads, sharing, queries, _ = self.sizes
        shape = (batches, heads * sharing, queries)
        return mx.zeros((*shape, self.v.shape[-1]), self.q.dtype), mx.zeros(shape, self.dtype)

    def forward(self, way: Callable[[_GroupArrays, Row], Pair]) -> Pair:
        """The results, and the logarithms of sums."""
        found = []
        for alike in self.groups():
            parts = [_GroupArrays(self, group) for group in alike]
            of_heads = [[way(part, row) for row in part.group.rows] for part in parts]
            # Rows behind each other, then heads.
            whole = [[joined(x, 2) for x in zip(*rows, strict=True)] for rows in of_heads]
            found.append([joined(x, 1) for x in zip(*whole, strict=True)])
        out, sums = (joined(x, 0) for x in zip(*found, strict=True))
        return out, sums


class _GroupArrays:
    """The arrays of batches and heads that see the same blocks.

    Attributes:
        q: Their queries, scaled.
        k: Their keys.
        v: Their values.
        columns: The keys as columns.
        numbers: Those of the batches, and of the heads.
    """

    def __init__(self, call: _AttentionCall, group: HeadGroup) -> None:
        self.call = call
        self.group = group
        q, *others = call.wide
        self.q = group.of(q)
        self.k, self.v, self.columns = (group.of_keys(x) for x in (*others, call.columns))
        self.numbers = group.numbers(call.sizes)

    def by_heads(self, row: Row, x: Any) -> Any:
        """(batches, heads of keys, sharing heads and queries, any) as (batches, heads, ...)."""
        return mx.reshape(x, (x.shape[0], -1, row.count, x.shape[-1]))

    def by_keys(self, x: Any) -> Any:
        """The same the other way."""
        return mx.reshape(x, (*self.k.shape[:2], -1, x.shape[-1]))

    def indices(self, row: Row, piece: Piece) -> list[Any]:
        """The index arguments of mask and score functions."""
        queries = mx.arange(row.queries.start, row.queries.stop, dtype=mx.int32)
        return [*self.numbers, queries, piece.numbers()]

    def plain(self, row: Row, piece: Piece) -> Any:
        """The scores, (batches, heads, queries, keys)."""
        return self.by_heads(row, row.of(self.q) @ piece.columns(self.columns))

    def scores(self, row: Row, piece: Piece, plain: Any) -> Any:
        """The scores after the score function; minus infinity where the mask leaves them out."""
        call, scores = self.call, plain
        indices = self.indices(row, piece)
        if call.mods.scored is not None:
            (scores,) = call.mods.scored(plain, *indices, *call.of_score)
        keep = self.kept(indices, piece)
        return scores if keep is None else mx.where(keep, scores, -math.inf)

    def kept(self, indices: Sequence[Any], piece: Piece) -> Any:
        """Which scores are kept, 1 along axes that do not matter; None for all."""
        if not piece.partial or self.call.mods.kept is None:
            return None
        (keep,) = self.call.mods.kept(*indices, *self.call.of_mask)
        return keep

    def weights(self, row: Row) -> tuple[list[Any], Any, Any]:
        """Those of each piece, their sum, and what was taken out of the exponents."""
        found = [self.scores(row, piece, self.plain(row, piece)) for piece in row.pieces]
        peak = reduce(mx.maximum, [mx.max(x, -1, keepdims=True) for x in found])
        peak = mx.where(peak == -math.inf, 0, peak)
        weights = [exp(x - peak) for x in found]
        return weights, reduce(mx.add, [mx.sum(x, -1, keepdims=True) for x in weights]), peak

    def nothing(self, row: Row) -> Pair:
        """The results of queries that see no key."""
        shape = (self.q.shape[0], self.q.shape[1] * self.q.shape[2], row.count)
        out = mx.zeros((*shape, self.v.shape[-1]), self.call.q.dtype)
        return out, mx.full(shape, -math.inf, self.call.dtype)


def _weighted(part: _GroupArrays, row: Row) -> Pair:
    """A row's results, and the logarithms of its sums."""
    if not row.pieces:
        return part.nothing(row)
    weights, total, peak = part.weights(row)
    pairs = zip(weights, row.pieces, strict=True)
    y = reduce(mx.add, [part.by_keys(x) @ piece.rows(part.v) for x, piece in pairs])
    y = part.by_heads(row, y) / mx.where(total == 0, 1, total)
    found = y.astype(part.call.q.dtype), _log(total, peak)
    mx.async_eval(*found)  # type: ignore[no-untyped-call]
    return found


def _log(total: Any, peak: Any) -> Any:
    """The logarithms of sums, from which so much was taken out."""
    return (mx.log(total) + peak)[..., 0]


def _fused(part: _GroupArrays, row: Row) -> Pair:
    """The same by one kernel; the sums are computed if anything needs them."""
    if not row.pieces:
        return part.nothing(row)
    call, group = part.call, part.group
    q = part.by_heads(row, row.of(group.of(call.q)))
    k, v = (
        joined([piece.rows(group.of_keys(x)) for piece in row.pieces], -2) for x in (call.k, call.v)
    )
    keep = _mask(part, row)
    y = mx.fast.scaled_dot_product_attention(q, k, v, scale=call.scale, mask=keep)
    if keep is not None:
        y = mx.where(mx.any(keep, -1, keepdims=True), y, 0)
    mx.async_eval(y)  # type: ignore[no-untyped-call]
    _, total, peak = part.weights(row)
    return y, _log(total, peak)


def _mask(part: _GroupArrays, row: Row) -> Any:
    """Which scores of all pieces are kept; None for all."""
    found = [part.kept(part.indices(row, piece), piece) for piece in row.pieces]
    shown = [x for x in found if x is not None]
    if not shown:
        return None
    (leading,) = {x.shape[:2] for x in shown}
    counts = [sum(run.stop - run.start for run in piece.runs) for piece in row.pieces]
    shapes = [(*leading, row.count, n) for n in counts]
    pairs = zip(found, shapes, strict=True)
    return joined([mx.broadcast_to(True if x is None else x, shape) for x, shape in pairs], -1)


class _Back:
    """A call of the gradient.

    Attributes:
        sums: The logarithms of sums.
        g: The cotangents of the results.
        delta: What is subtracted from the cotangents of each query's weights.
        by_blocks: The gradients by keys and by values, by the first batch, the first head and the
            block.
        by_captured: Those by what the score function captures.
    """

    def __init__(self, call: _AttentionCall) -> None:
        self.call = call
        out, sums, self.g, g_sums = (call.shared(x.astype(call.dtype)) for x in call.rest)
        # Where nothing is seen no weight is left, whatever the cotangents are.
        nothing = sums == -math.inf
        delta = mx.sum(out * self.g, -1) - g_sums
        self.sums = mx.where(nothing, math.inf, sums)[..., None]
        self.delta = mx.where(nothing, 0, delta)[..., None]
        self.columns = mx.contiguous(_turned(call.wide[2]))
        self.by_blocks: dict[tuple[int, int, int], list[Any]] = {}
        self.by_captured: list[Any] = []

    def results(self) -> list[Any]:
        """The gradients by queries, keys, values, and what is wanted of what is captured."""
        call = self.call
        wanted = call.wanted
        shared = call.k.shape[1] * call.sizes.sharing
        by_q = mx.zeros((call.sizes.batches, shared, *call.q.shape[3:]), call.q.dtype)
        if 0 in call.sizes:
            return [by_q, *map(mx.zeros_like, (call.k, call.v, *wanted))]
        found = call.groups()
        by_q = joined([self._queries(alike) for alike in found], 0).astype(call.q.dtype)
        by_keys = [self._keys(found, i).astype(x.dtype) for i, x in enumerate((call.k, call.v))]
        sums = zip(self.by_captured or map(mx.zeros_like, wanted), wanted, strict=True)
        return [by_q, *by_keys, *[total.astype(x.dtype) for total, x in sums]]

    def _queries(self, alike: Sequence[HeadGroup]) -> Any:
        parts = [_GroupArrays(self.call, group) for group in alike]
        found = [[self._row(part, row) for row in part.group.rows] for part in parts]
        return joined([joined(rows, 2) for rows in found], 1)

    def _row(self, part: _GroupArrays, row: Row) -> Any:
        """The gradient by a row's queries; those by its keys are added to what there is."""
        group = part.group
        q, g = row.of(part.q), row.of(group.of(self.g))
        sums, delta = (row.of(group.of(x)) for x in (self.sums, self.delta))
        by_q: Any = mx.zeros_like(q)
        changed: list[Any] = []
        for piece in row.pieces:
            plain = part.plain(row, piece)
            weights = exp(part.by_keys(part.scores(row, piece, plain)) - sums)
            moved = g @ piece.columns(group.of_keys(self.columns))
            by_plain = self._pulled(part, row, piece, plain, weights * (moved - delta))
            # Where a weight is 0 the score function's slope may be infinite.
            by_plain = mx.where(weights == 0, 0, by_plain) if self.call.op.score else by_plain
            by_q = by_q + by_plain @ piece.rows(part.k)
            changed += self._add(group, piece, _turned(by_plain) @ q, _turned(weights) @ g)
        by_q = part.by_heads(row, by_q * self.call.scale)
        mx.async_eval(by_q, changed, self.by_captured)  # type: ignore[no-untyped-call]
        return by_q

    def _pulled(self, part: _GroupArrays, row: Row, piece: Piece, plain: Any, by_score: Any) -> Any:
        """The cotangents of scores before the score function."""
        call = self.call
        if call.mods.pulled is None:
            return by_score
        given = part.by_heads(row, by_score), plain, *part.indices(row, piece), *call.of_score
        by_plain, *more = map(in_wide_floats, call.mods.pulled(*given))
        before = self.by_captured or [0] * len(more)
        self.by_captured = [a + b for a, b in zip(before, more, strict=True)]
        return part.by_keys(by_plain)

    def _add(self, group: HeadGroup, piece: Piece, by_k: Any, by_v: Any) -> list[Any]:
        """Sums for the piece's blocks, with these gradients."""
        ends = [*accumulate(piece.lengths(self.call.op.block[1], self.call.sizes.keys))]
        parts = zip(*[mx.split(x, ends[:-1], 2) for x in (by_k, by_v)], strict=True)
        changed: list[Any] = []
        for block, pair in zip(piece.blocks, parts, strict=True):
            key = group.batches.start, group.heads.start, block
            before = self.by_blocks.get(key)
            # A view would keep the gradients by all keys of the row.
            total = [*map(mx.contiguous, pair)] if before is None else [*map(mx.add, before, pair)]
            self.by_blocks[key] = total
            changed += total
        return changed

    def _keys(self, found: Sequence[Sequence[HeadGroup]], which: int) -> Any:
        """The gradient by keys, or by values."""
        rows = []
        for alike in found:
            # Heads that share keys have added to the same sums.
            heads = {group.heads.start: group for group in alike}.values()
            rows.append(joined([self._blocks(group, which) for group in heads], 1))
        return joined(rows, 0)

    def _blocks(self, group: HeadGroup, which: int) -> Any:
        size, keys = self.call.op.block[1], self.call.sizes.keys
        like = group.of_keys((self.call.k, self.call.v)[which])
        found = []
        for block in range(-(-keys // size)):
            key = group.batches.start, group.heads.start, block
            part = self.by_blocks.get(key)
            rest = like[:, :, block * size : (block + 1) * size]
            found.append(mx.zeros(rest.shape, self.call.dtype) if part is None else part[which])
        return joined(found, 2)


def _turned(x: Any) -> Any:
    return mx.swapaxes(x, -1, -2)
