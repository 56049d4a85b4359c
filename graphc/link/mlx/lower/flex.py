"""Attention by block tables on MLX, run from Python one row of blocks after the other.

Each row reads slices of the keys that its tables list, and no others. All scores of a row are in
memory at once, so no result is rescaled. MLX evaluates a row while Python prepares the next one, so
memory holds a few rows. Nothing is compiled, for any layout of blocks.
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
    dtype_of,
    host_array,
    name_of,
)
from graphc.link.mlx.backend import backend
from graphc.link.mlx.devices import device_choice
from graphc.link.mlx.lower.exponential import exp
from graphc.link.mlx.lower.grids import (
    FlexSizes,
    HeadGroup,
    KeyRuns,
    QueryRow,
    concatenate,
    groups,
)
from graphc.link.mlx.lower.mods import Mods
from graphc.link.mlx.lower.reduce import widen_halves
from graphc.link.mlx.segments import DRIVERS

Pair = tuple[Any, Any]


@backend.lower(Flex, FlexGradient)
def attention(op: Flex | FlexGradient, *values: Any) -> Any:
    """Refuse to be traced: the caller runs step by step."""
    raise NotTraceableError


def attention_driver(op: Flex, options: Mapping[str, Any]) -> Callable[..., Pair]:
    """Return the function that computes attention from Python, row by row."""
    mods = Mods(op, options)

    def run(*values: Any) -> Pair:
        call = _AttentionCall(op, mods, values)
        if 0 in call.sizes[:-1]:
            return call.blank()
        # The sums would repeat the work of a fused function that is no kernel.
        is_kernel = op.score is None and device_choice("fast functions", options)
        return call.forward(_attend_fused if is_kernel else _attend)

    return run


def gradient_driver(op: FlexGradient, options: Mapping[str, Any]) -> Callable[..., tuple[Any, ...]]:
    """Return the function that computes attention's gradient from Python, row by row."""
    mods = Mods(op, options)

    def run(*values: Any) -> tuple[Any, ...]:
        return tuple(_GradientCall(_AttentionCall(op, mods, values)).results())

    return run


DRIVERS[Flex] = attention_driver
DRIVERS[FlexGradient] = gradient_driver


class _AttentionCall:
    """A call of attention, or of its gradient.

    Attributes:
        sizes: Numbers of batches, heads, queries and keys.
        dtype: Dtype of the scores.
        scale: Factor of the scores.
        q: Queries, with a separate axis for heads that share keys.
        k: Keys.
        v: Values.
        wide: Scaled queries, keys and values in the dtype of the scores.
        columns: Keys as columns, which MLX multiplies faster on the CPU.
        of_score: Captured arrays of the score function.
        wanted: Arrays of ``of_score`` that have gradients.
        of_mask: Captured arrays of the mask function.
        rest: Further operands of the gradient.
    """

    def __init__(self, op: Flex | FlexGradient, mods: Mods, values: Sequence[Any]) -> None:
        self.op = op
        self.mods = mods
        inputs = op.split_inputs(values)
        self.tables = [np.asarray(host_array(x)) for x in inputs.tables]
        q, k, v = map(device_array, inputs[:3])
        self.of_score, self.of_mask, self.rest = (
            [*map(device_array, arrays)] for arrays in inputs[4:]
        )
        batches, heads, queries, _ = q.shape
        key_heads = k.shape[1]
        if heads % max(key_heads, 1):
            raise ShapeError(
                f"flex_attention: {heads} heads of queries cannot share {key_heads} heads of keys.",
                f"Give a multiple of {key_heads} heads of queries.",
            )
        self.wanted = op.wanted_of(self.of_score) if isinstance(op, FlexGradient) else []
        self.sizes = FlexSizes(batches, key_heads, heads // max(key_heads, 1), queries, k.shape[2])
        self.dtype = dtype_of(compute_dtype(name_of(q)))
        self.q, self.k, self.v = self.group_heads(q), k, v
        self.wide = [x.astype(self.dtype) for x in (self.q, k, v)]
        self.scale = scale_of(op, q.shape[3])
        self.wide[0] = self.wide[0] * self.scale
        self.columns = mx.contiguous(_transpose(self.wide[1]))

    def group_heads(self, x: Any) -> Any:
        """Reshape (batches, heads, ...) to (batches, heads of keys, sharing heads, ...)."""
        return mx.reshape(x, (*self.sizes[:3], *x.shape[2:]))

    def groups(self) -> list[list[HeadGroup]]:
        op = self.op
        return groups(self.tables, self.sizes, op.block, masked=op.mask is not None)

    def blank(self) -> Pair:
        batches, heads, sharing, queries, _ = self.sizes
        shape = (batches, heads * sharing, queries)
        return mx.zeros((*shape, self.v.shape[-1]), self.q.dtype), mx.zeros(shape, self.dtype)

    def forward(self, compute_row: Callable[[_GroupArrays, QueryRow], Pair]) -> Pair:
        """Return the results, and the logarithms of sums."""
        results = []
        for head_groups in self.groups():
            all_arrays = [_GroupArrays(self, group) for group in head_groups]
            of_heads = [
                [compute_row(arrays, row) for row in arrays.group.rows] for arrays in all_arrays
            ]
            # Concatenate rows, then heads.
            by_head = [[concatenate(x, 2) for x in zip(*rows, strict=True)] for rows in of_heads]
            results.append([concatenate(x, 1) for x in zip(*by_head, strict=True)])
        out, sums = (concatenate(x, 0) for x in zip(*results, strict=True))
        return out, sums


class _GroupArrays:
    """The arrays, and numbers, of batches and heads that see the same blocks."""

    def __init__(self, call: _AttentionCall, group: HeadGroup) -> None:
        self.call = call
        self.group = group
        q, *others = call.wide
        self.q = group.of(q)
        self.k, self.v, self.columns = (group.of_keys(x) for x in (*others, call.columns))
        self.numbers = group.numbers(call.sizes)

    def by_heads(self, row: QueryRow, x: Any) -> Any:
        """Reshape (batches, heads of keys, heads and queries, any) to (batches, heads, ...)."""
        return mx.reshape(x, (x.shape[0], -1, row.count, x.shape[-1]))

    def by_keys(self, x: Any) -> Any:
        """Invert ``by_heads``."""
        return mx.reshape(x, (*self.k.shape[:2], -1, x.shape[-1]))

    def indices(self, row: QueryRow, piece: KeyRuns) -> list[Any]:
        queries = mx.arange(row.queries.start, row.queries.stop, dtype=mx.int32)
        return [*self.numbers, queries, piece.numbers()]

    def plain_scores(self, row: QueryRow, piece: KeyRuns) -> Any:
        """Return the scores before the score function, (batches, heads, queries, keys)."""
        return self.by_heads(row, row.of(self.q) @ piece.columns(self.columns))

    def scores(self, row: QueryRow, piece: KeyRuns, plain: Any) -> Any:
        """Return the scores after the score function; minus infinity for masked ones."""
        call, scores = self.call, plain
        indices = self.indices(row, piece)
        if call.mods.score_function is not None:
            (scores,) = call.mods.score_function(plain, *indices, *call.of_score)
        keep = self.mask(indices, piece)
        return scores if keep is None else mx.where(keep, scores, -math.inf)

    def mask(self, indices: Sequence[Any], piece: KeyRuns) -> Any:
        """Return the mask, of length 1 along axes that it ignores; None if all are kept."""
        if not piece.partial or self.call.mods.mask_function is None:
            return None
        (keep,) = self.call.mods.mask_function(*indices, *self.call.of_mask)
        return keep

    def weights(self, row: QueryRow) -> tuple[list[Any], Any, Any]:
        """Return each piece's weights, their sum, and the maximum subtracted before exp."""
        scores = [self.scores(row, piece, self.plain_scores(row, piece)) for piece in row.pieces]
        peak = reduce(mx.maximum, [mx.max(x, -1, keepdims=True) for x in scores])
        peak = mx.where(peak == -math.inf, 0, peak)
        weights = [exp(x - peak) for x in scores]
        return weights, reduce(mx.add, [mx.sum(x, -1, keepdims=True) for x in weights]), peak

    def empty_result(self, row: QueryRow) -> Pair:
        shape = (self.q.shape[0], self.q.shape[1] * self.q.shape[2], row.count)
        out = mx.zeros((*shape, self.v.shape[-1]), self.call.q.dtype)
        return out, mx.full(shape, -math.inf, self.call.dtype)


def _attend(arrays: _GroupArrays, row: QueryRow) -> Pair:
    """Return a row's results, and the logarithms of its sums."""
    if not row.pieces:
        return arrays.empty_result(row)
    weights, total, peak = arrays.weights(row)
    pairs = zip(weights, row.pieces, strict=True)
    y = reduce(mx.add, [arrays.by_keys(x) @ piece.rows(arrays.v) for x, piece in pairs])
    y = arrays.by_heads(row, y) / mx.where(total == 0, 1, total)
    results = y.astype(arrays.call.q.dtype), _log_sums(total, peak)
    mx.async_eval(*results)  # type: ignore[no-untyped-call]
    return results


def _log_sums(total: Any, peak: Any) -> Any:
    return (mx.log(total) + peak)[..., 0]


def _attend_fused(arrays: _GroupArrays, row: QueryRow) -> Pair:
    """Return the same by one kernel; MLX computes the sums only if something needs them."""
    if not row.pieces:
        return arrays.empty_result(row)
    call, group = arrays.call, arrays.group
    q = arrays.by_heads(row, row.of(group.of(call.q)))
    k, v = (
        concatenate([piece.rows(group.of_keys(x)) for piece in row.pieces], -2)
        for x in (call.k, call.v)
    )
    keep = _row_mask(arrays, row)
    y = mx.fast.scaled_dot_product_attention(q, k, v, scale=call.scale, mask=keep)
    if keep is not None:
        y = mx.where(mx.any(keep, -1, keepdims=True), y, 0)
    mx.async_eval(y)  # type: ignore[no-untyped-call]
    _, total, peak = arrays.weights(row)
    return y, _log_sums(total, peak)


def _row_mask(arrays: _GroupArrays, row: QueryRow) -> Any:
    """Return the mask of all pieces' scores; None if all are kept."""
    masks = [arrays.mask(arrays.indices(row, piece), piece) for piece in row.pieces]
    partial_masks = [x for x in masks if x is not None]
    if not partial_masks:
        return None
    (leading,) = {x.shape[:2] for x in partial_masks}
    counts = [sum(run.stop - run.start for run in piece.runs) for piece in row.pieces]
    shapes = [(*leading, row.count, n) for n in counts]
    pairs = zip(masks, shapes, strict=True)
    return concatenate([mx.broadcast_to(True if x is None else x, shape) for x, shape in pairs], -1)


class _GradientCall:
    """A call of the gradient.

    Attributes:
        sums: Logarithms of sums.
        g: Cotangents of the results.
        delta: Term subtracted from the cotangents of each query's weights.
        columns: Values as columns.
        by_blocks: Gradients with respect to keys and values, by first batch, first head and block.
        by_captured: Gradients with respect to captured arrays of the score function.
    """

    def __init__(self, call: _AttentionCall) -> None:
        self.call = call
        out, sums, self.g, g_sums = (call.group_heads(x.astype(call.dtype)) for x in call.rest)
        # A query without keys has weights 0, whatever its cotangents are.
        sees_nothing = sums == -math.inf
        delta = mx.sum(out * self.g, -1) - g_sums
        self.sums = mx.where(sees_nothing, math.inf, sums)[..., None]
        self.delta = mx.where(sees_nothing, 0, delta)[..., None]
        self.columns = mx.contiguous(_transpose(call.wide[2]))
        self.by_blocks: dict[tuple[int, int, int], list[Any]] = {}
        self.by_captured: list[Any] = []

    def results(self) -> list[Any]:
        """Return the gradients with respect to queries, keys, values and captured arrays."""
        call = self.call
        wanted = call.wanted
        query_heads = call.k.shape[1] * call.sizes.sharing
        by_q = mx.zeros((call.sizes.batches, query_heads, *call.q.shape[3:]), call.q.dtype)
        if 0 in call.sizes:
            return [by_q, *map(mx.zeros_like, (call.k, call.v, *wanted))]
        groups = call.groups()
        by_q = concatenate([self._queries(alike) for alike in groups], 0).astype(call.q.dtype)
        by_keys = [self._keys(groups, i).astype(x.dtype) for i, x in enumerate((call.k, call.v))]
        sums = zip(self.by_captured or map(mx.zeros_like, wanted), wanted, strict=True)
        return [by_q, *by_keys, *[total.astype(x.dtype) for total, x in sums]]

    def _queries(self, head_groups: Sequence[HeadGroup]) -> Any:
        all_arrays = [_GroupArrays(self.call, group) for group in head_groups]
        gradients = [[self._row(arrays, row) for row in arrays.group.rows] for arrays in all_arrays]
        return concatenate([concatenate(rows, 2) for rows in gradients], 1)

    def _row(self, arrays: _GroupArrays, row: QueryRow) -> Any:
        """Return a row's gradient with respect to queries, and add those with respect to keys."""
        group = arrays.group
        q, g = row.of(arrays.q), row.of(group.of(self.g))
        sums, delta = (row.of(group.of(x)) for x in (self.sums, self.delta))
        by_q: Any = mx.zeros_like(q)
        totals: list[Any] = []
        for piece in row.pieces:
            plain = arrays.plain_scores(row, piece)
            weights = exp(arrays.by_keys(arrays.scores(row, piece, plain)) - sums)
            by_weights = g @ piece.columns(group.of_keys(self.columns))
            by_plain = self._pull_scores(arrays, row, piece, plain, weights * (by_weights - delta))
            # Where a weight is 0, the score function's derivative may be infinite.
            by_plain = mx.where(weights == 0, 0, by_plain) if self.call.op.score else by_plain
            by_q = by_q + by_plain @ piece.rows(arrays.k)
            totals += self._add(group, piece, _transpose(by_plain) @ q, _transpose(weights) @ g)
        by_q = arrays.by_heads(row, by_q * self.call.scale)
        mx.async_eval(by_q, totals, self.by_captured)  # type: ignore[no-untyped-call]
        return by_q

    def _pull_scores(
        self, arrays: _GroupArrays, row: QueryRow, piece: KeyRuns, plain: Any, by_score: Any
    ) -> Any:
        call = self.call
        if call.mods.score_pullback is None:
            return by_score
        operands = (
            arrays.by_heads(row, by_score),
            plain,
            *arrays.indices(row, piece),
            *call.of_score,
        )
        by_plain, *by_captured = map(widen_halves, call.mods.score_pullback(*operands))
        previous = self.by_captured or [0] * len(by_captured)
        self.by_captured = [a + b for a, b in zip(previous, by_captured, strict=True)]
        return arrays.by_keys(by_plain)

    def _add(self, group: HeadGroup, piece: KeyRuns, by_k: Any, by_v: Any) -> list[Any]:
        """Add gradients to the sums of a piece's blocks, and return these sums."""
        ends = [*accumulate(piece.lengths(self.call.op.block[1], self.call.sizes.keys))]
        pairs = zip(*[mx.split(x, ends[:-1], 2) for x in (by_k, by_v)], strict=True)
        totals: list[Any] = []
        for block, pair in zip(piece.blocks, pairs, strict=True):
            key = group.batches.start, group.heads.start, block
            previous = self.by_blocks.get(key)
            # A view would keep the gradients with respect to all keys of the row in memory.
            total = (
                [*map(mx.contiguous, pair)] if previous is None else [*map(mx.add, previous, pair)]
            )
            self.by_blocks[key] = total
            totals += total
        return totals

    def _keys(self, groups: Sequence[Sequence[HeadGroup]], which: int) -> Any:
        """Return the gradient with respect to keys (0) or values (1)."""
        gradients = []
        for alike in groups:
            # Heads that share keys share the sums.
            heads = {group.heads.start: group for group in alike}.values()
            gradients.append(concatenate([self._blocks(group, which) for group in heads], 1))
        return concatenate(gradients, 0)

    def _blocks(self, group: HeadGroup, which: int) -> Any:
        size, keys = self.call.op.block[1], self.call.sizes.keys
        like = group.of_keys((self.call.k, self.call.v)[which])
        gradients = []
        for block in range(-(-keys // size)):
            key = group.batches.start, group.heads.start, block
            sums = self.by_blocks.get(key)
            block_input = like[:, :, block * size : (block + 1) * size]
            gradients.append(
                mx.zeros(block_input.shape, self.call.dtype) if sums is None else sums[which]
            )
        return concatenate(gradients, 2)


def _transpose(x: Any) -> Any:
    return mx.swapaxes(x, -1, -2)
