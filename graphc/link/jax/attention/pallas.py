"""Attention as GPU kernels in Pallas: the algorithm of ``kernel.py``, with tiles in registers.

An instance of a kernel has a tile of queries, and walks the blocks that the table lists for them.
The gradient with respect to keys and values walks the transposed table, so that no two instances
write to the same keys. Captured arrays stay in the device's memory, where the functions read
elements.

Source: Dao, arXiv:2307.08691, 2023, algorithms 1 and 2; Dong et al., arXiv:2412.05496, 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from graphc.attention.grids import compact, grid_of
from graphc.attention.inputs import AttentionInputs
from graphc.link.jax.attention.backward import QueryArrays, RowArrays
from graphc.link.jax.attention.elements import MIN_LENGTH, ElementFunction
from graphc.link.jax.attention.forward import SoftmaxState
from graphc.link.jax.attention.layout import GroupLengths, Tables, all_blocks, score_dtype
from graphc.link.jax.releases import pallas_triton

State = TypeVar("State")

MAX_TILE = 64
"""The most rows, and columns, of a tile: as in JAX's own kernel for GPUs, not measured."""

OPTIONS = {"num_warps": 4, "num_stages": 2}
"""Warps of an instance, and loads in flight: as in JAX's own kernel for GPUs, not measured."""


@dataclass(frozen=True)
class KernelSpec:
    """The specification of attention for kernels, without arrays.

    Attributes:
        score: The score function, or None.
        mask: The mask function, or None.
        block: The numbers of queries and keys of a block.
        scale: The factor of products of queries and keys.
        interpret: Whether Pallas interprets the kernels, on any device.
    """

    score: ElementFunction | None
    mask: ElementFunction | None
    block: tuple[int, int]
    scale: float
    interpret: bool

    @property
    def options(self) -> dict[str, Any]:
        """The options of a call of Pallas."""
        if self.interpret:
            return {"interpret": True}
        return {"compiler_params": pallas_triton().CompilerParams(**OPTIONS)}

    @property
    def tile(self) -> tuple[int, int]:
        """The numbers of queries and keys of a tile."""
        return min(self.block[0], MAX_TILE), min(self.block[1], MAX_TILE)


def forward(spec: KernelSpec, x: AttentionInputs[Any]) -> tuple[Any, Any]:
    """Return attention and the log-sum-exps, as ``kernel.forward`` does.

    Args:
        spec: The functions, the block and the scale.
        x: The arrays; captured ones are those that the functions read.
    """
    lengths, arrays = _prepare(spec, x)
    (rows, _), dtype = spec.tile, score_dtype(x.q.dtype)
    queries, value_elements = arrays.q.shape[2], arrays.v.shape[3]
    heads = x.q.shape[:2]
    results = [
        _shape((*heads, queries, value_elements), x.q.dtype),
        _shape((*heads, queries), dtype),
    ]
    out, sums = pl.pallas_call(
        partial(_forward, spec, lengths),
        grid=(*heads, queries // rows),
        in_specs=[_specs(lengths, arrays, q=rows)],
        out_specs=[_tiles(y, rows) for y in results],
        out_shape=results,
        **spec.options,
    )(arrays)
    n = lengths.queries
    return out[:, :, :n, : x.v.shape[3]], sums[:, :, :n]


def backward(spec: KernelSpec, x: AttentionInputs[Any], wanted: Sequence[bool]) -> tuple[Any, ...]:
    """Return the gradients with respect to q, k, v and wanted arrays of the score function.

    Args:
        spec: The functions, the block and the scale.
        x: The arrays; ``rest`` are the results of ``forward`` and their cotangents.
        wanted: Whether each array that the score function reads has a gradient.
    """
    out, sums, g_out, g_sums = x.rest
    dtype = score_dtype(x.q.dtype)
    rows = RowArrays.of(
        QueryArrays(x.q, out, sums, g_out.astype(x.q.dtype), g_sums.astype(dtype)), 1.0
    )
    lengths, arrays = _prepare(spec, x._replace(rest=[rows.g, rows.sums, rows.common]))
    by_queries, *by_arrays = _gradient_of_queries(spec, lengths, arrays, wanted)
    by_keys, by_values = _gradient_of_keys(spec, lengths, arrays)
    gradients = (by_queries, by_keys, by_values)
    pairs = zip(gradients, (x.q, x.k, x.v), strict=True)
    unpadded = [g[:, :, : y.shape[2], : y.shape[3]].astype(y.dtype) for g, y in pairs]
    return (*unpadded, *by_arrays)


def _gradient_of_queries(
    spec: KernelSpec, lengths: GroupLengths, arrays: _Arrays, wanted: Sequence[bool]
) -> list[Any]:
    """Return the gradients with respect to queries, and to wanted arrays of the score function."""
    rows, dtype = spec.tile[0], score_dtype(arrays.q.dtype)
    zeros = [
        jnp.zeros(y.shape, jnp.promote_types(y.dtype, np.float32))
        for y, flag in zip(arrays.score, wanted, strict=True)
        if flag
    ]
    by_queries = _shape(arrays.q.shape, dtype)
    first = len(jax.tree.leaves(arrays))
    return pl.pallas_call(  # type: ignore[no-any-return]
        partial(_backward_of_queries, spec, lengths, wanted),
        grid=(*arrays.q.shape[:2], arrays.q.shape[2] // rows),
        in_specs=[_specs(lengths, arrays, q=rows), [pl.no_block_spec for _ in zeros]],
        out_specs=[_tiles(by_queries, rows), *[pl.no_block_spec for _ in zeros]],
        out_shape=[by_queries, *[_shape(y.shape, y.dtype) for y in zeros]],
        # Instances add to these arrays, which start as zeros.
        input_output_aliases={first + i: 1 + i for i in range(len(zeros))},
        **spec.options,
    )(arrays, zeros)


def _gradient_of_keys(spec: KernelSpec, lengths: GroupLengths, arrays: _Arrays) -> list[Any]:
    """Return the gradients with respect to keys and values."""
    columns, dtype = spec.tile[1], score_dtype(arrays.q.dtype)
    heads, n = arrays.q.shape[:2], arrays.k.shape[2]
    results = [_shape((*heads, n, y.shape[3]), dtype) for y in (arrays.k, arrays.v)]
    arrays = arrays._replace(tables=_transpose(arrays.tables))
    by_heads = pl.pallas_call(
        partial(_backward_of_keys, spec, lengths),
        grid=(*heads, n // columns),
        in_specs=[_specs(lengths, arrays, k=columns)],
        out_specs=[_tiles(y, columns) for y in results],
        out_shape=results,
        **spec.options,
    )(arrays)
    shape = (lengths.batch, lengths.keyed, lengths.shared, n)
    return [y.reshape(*shape, -1).sum(2) for y in by_heads]


# Arrays and their blocks.


def _shape(shape: Sequence[int], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


class _Arrays(NamedTuple):
    """The arrays that a kernel reads, or its references to them.

    Attributes:
        q: Queries (B, Hq, Q, E), padded to full blocks.
        k: Keys (B, Hkv, K, E), padded to full blocks.
        v: Values (B, Hkv, K, Ev), padded to full blocks.
        tables: The tables of blocks; transposed for a gradient with respect to keys.
        score: The arrays that the score function reads.
        mask: The arrays that the mask function reads.
        rest: For the gradient, arrays of the queries, as in ``RowArrays``: the cotangents of the
            results, the log-sum-exps, and the term that the scores' gradients share.
    """

    q: Any
    k: Any
    v: Any
    tables: Tables
    score: Sequence[Any]
    mask: Sequence[Any]
    rest: Sequence[Any]


def _prepare(spec: KernelSpec, x: AttentionInputs[Any]) -> tuple[GroupLengths, _Arrays]:
    """Return the lengths of attention, and its arrays, padded to full blocks."""
    batch, heads, queries, _ = x.q.shape
    keyed, keys = x.k.shape[1:3]
    lengths = GroupLengths(batch, keyed, heads // keyed, queries, keys, spec.block)
    tables = Tables(*(x.tables or all_blocks(lengths, spec.mask is not None)))
    rows, columns = lengths.rows * spec.block[0], lengths.columns * spec.block[1]
    q, k, v = _pad(x.q, rows), _pad(x.k, columns), _pad(x.v, columns)
    # Log-sum-exps of padding are inf, so that weights are 0.
    rest = [_pad(y, rows, value) for y, value in zip(x.rest, (0, np.inf, 0), strict=False)]
    return lengths, _Arrays(q, k, v, tables, list(x.score_captured), list(x.mask_captured), rest)


def _pad(x: Any, length: int, value: float = 0) -> Any:
    """Return (B, H, n, ...) padded to a length, and to numbers of elements Triton multiplies."""
    elements = [max(MIN_LENGTH, 1 << (n - 1).bit_length()) for n in x.shape[3:]]
    shape = (*x.shape[:2], length, *elements)
    widths = [(0, n - m) for n, m in zip(shape, x.shape, strict=True)]
    return jnp.pad(x, widths, constant_values=value)


def _specs(
    lengths: GroupLengths, arrays: _Arrays, q: int | None = None, k: int | None = None
) -> _Arrays:
    """Return the blocks that an instance reads: tiles of queries or of keys, else all of a head.

    Args:
        lengths: The lengths of attention.
        arrays: The arrays.
        q: The number of queries of a tile.
        k: The number of keys of a tile.
    """
    return _Arrays(
        _tiles(arrays.q, q),
        _tiles(arrays.k, k, lengths.shared),
        _tiles(arrays.v, k, lengths.shared),
        Tables(*map(_table, arrays.tables)),
        [pl.no_block_spec for _ in arrays.score],
        [pl.no_block_spec for _ in arrays.mask],
        [_tiles(x, q) for x in arrays.rest],
    )


def _tiles(x: Any, size: int | None, shared: int = 1) -> pl.BlockSpec:
    """Return blocks of a size along the axis 2 of (B, H, n, ...), or all of it."""
    tail = x.shape[3:]

    def index(b: Any, h: Any, i: Any) -> tuple[Any, ...]:
        return (b, h // shared, i if size else 0, *[0] * len(tail))

    return pl.BlockSpec((None, None, size or x.shape[2], *tail), index)


def _table(x: Any) -> pl.BlockSpec:
    """Return the part of a table for a batch and a head, which may share it with others."""

    def index(b: Any, h: Any, i: Any) -> tuple[Any, ...]:
        return (b if x.shape[0] > 1 else 0, h if x.shape[1] > 1 else 0, *[0] * (x.ndim - 2))

    return pl.BlockSpec((None, None, *x.shape[2:]), index)


def _transpose(tables: Tables) -> Tables:
    """Return the tables that list the rows of each column."""
    pairs = (tables.partial, tables.partial_columns), (tables.full, tables.full_columns)
    partial_rows, full_rows = [compact(grid_of(*pair).swapaxes(2, 3)) for pair in pairs]
    return Tables(*partial_rows, *full_rows)


# Kernels.


class _Instance(NamedTuple):
    """An instance of a kernel.

    Attributes:
        spec: The specification of attention.
        lengths: The lengths of attention.
        refs: References to the arrays.
        position: The indices of the batch, the head of queries, and the tile of queries or keys.
    """

    spec: KernelSpec
    lengths: GroupLengths
    refs: _Arrays
    position: tuple[Any, Any, Any]

    @classmethod
    def of(cls, spec: KernelSpec, lengths: GroupLengths, refs: _Arrays) -> _Instance:
        """Return the instance that a kernel runs as."""
        b, h, i = (pl.program_id(axis) for axis in range(3))
        return cls(spec, lengths, refs, (b, h, i))


def _forward(
    spec: KernelSpec, lengths: GroupLengths, refs: _Arrays, out_ref: Any, sums_ref: Any
) -> None:
    """Write the results and the log-sum-exps of a tile of queries."""
    instance = _Instance.of(spec, lengths, refs)
    rows, columns = spec.tile
    dtype = sums_ref.dtype
    row = instance.position[2] * np.int32(rows)
    q = refs.q[...]

    def step(column: Any, is_partial: bool, state: SoftmaxState) -> SoftmaxState:
        k, v = (x[pl.ds(column, columns), :] for x in (refs.k, refs.v))
        score = _Scores(instance, (row, column), is_partial).of(q, k)
        largest = jnp.maximum(state.largest, score.max(1))
        weights = jnp.exp(score - largest[:, None])
        correction = jnp.exp(state.largest - largest)
        return SoftmaxState(
            largest,
            state.total * correction + weights.sum(1),
            state.values * correction[:, None] + _product(weights.astype(v.dtype), v, dtype),
        )

    start = SoftmaxState(
        # Below all scores but -inf, so that differences of two are never NaN.
        jnp.full((rows,), np.finfo(dtype).min, dtype),
        jnp.zeros((rows,), dtype),
        jnp.zeros((rows, refs.v.shape[1]), dtype),
    )
    state = _fold(refs.tables, row // np.int32(spec.block[0]), spec.block[1], columns, step, start)
    is_empty = state.total == 0
    total = jnp.where(is_empty, 1, state.total)
    out_ref[...] = (state.values / total[:, None]).astype(out_ref.dtype)
    sums_ref[...] = jnp.where(is_empty, -np.inf, state.largest + jnp.log(total))


def _backward_of_queries(
    spec: KernelSpec,
    lengths: GroupLengths,
    wanted: Sequence[bool],
    refs: _Arrays,
    zeros: Sequence[Any],
    by_queries_ref: Any,
    *by_arrays: Any,
) -> None:
    """Write the gradient of a tile of queries, and add that of arrays of the score function."""
    instance = _Instance.of(spec, lengths, refs)
    rows, columns = spec.tile
    row = instance.position[2] * np.int32(rows)
    q, (g, sums, common) = refs.q[...], (x[...] for x in refs.rest)

    def step(column: Any, is_partial: bool, state: Any) -> Any:
        k, v = (x[pl.ds(column, columns), :] for x in (refs.k, refs.v))
        scores = _Scores(instance, (row, column), is_partial, wanted)
        by_score, _ = scores.gradient(q, k, v, g, sums, common, by_arrays)
        return state + _product(by_score.astype(k.dtype), k, state.dtype)

    start = jnp.zeros(q.shape, by_queries_ref.dtype)
    state = _fold(refs.tables, row // np.int32(spec.block[0]), spec.block[1], columns, step, start)
    by_queries_ref[...] = state * spec.scale


def _backward_of_keys(
    spec: KernelSpec, lengths: GroupLengths, refs: _Arrays, by_keys_ref: Any, by_values_ref: Any
) -> None:
    """Write the gradients of a tile of keys and values for a head of queries."""
    instance = _Instance.of(spec, lengths, refs)
    rows, columns = spec.tile
    column = instance.position[2] * np.int32(columns)
    k, v = refs.k[...], refs.v[...]

    def step(row: Any, is_partial: bool, state: Any) -> Any:
        by_keys, by_values = state
        q, g, sums, common = (x[pl.ds(row, rows)] for x in (refs.q, *refs.rest))
        scores = _Scores(instance, (row, column), is_partial)
        by_score, weights = scores.gradient(q, k, v, g, sums, common)
        return (
            by_keys + _product(by_score.astype(q.dtype).T, q, by_keys.dtype),
            by_values + _product(weights.astype(g.dtype).T, g, by_values.dtype),
        )

    start = tuple(jnp.zeros(x.shape, by_keys_ref.dtype) for x in (k, v))
    block = column // np.int32(spec.block[1])
    by_keys, by_values = _fold(refs.tables, block, spec.block[0], rows, step, start)
    by_keys_ref[...] = by_keys * spec.scale
    by_values_ref[...] = by_values


def _fold(
    tables: Tables,
    index: Any,
    size: int,
    tile: int,
    step: Callable[[Any, bool, State], State],
    start: State,
) -> State:
    """Return the state after all tiles of a row's blocks.

    Args:
        tables: References to the tables of blocks.
        index: The row.
        size: The length of a block along the row.
        tile: The length of a tile along the row.
        step: Takes the first index of a tile, whether its block is partial, and the state.
        start: The first state.
    """
    state = start
    for counts, columns, is_partial in (
        (tables.partial, tables.partial_columns, True),
        (tables.full, tables.full_columns, False),
    ):

        def visit(
            i: Any, state: State, columns: Any = columns, is_partial: bool = is_partial
        ) -> Any:
            first = columns[index, i] * np.int32(size)
            return lax.fori_loop(
                np.int32(0),
                np.int32(size // tile),
                lambda t, state: step(first + t * np.int32(tile), is_partial, state),
                state,
            )

        state = lax.fori_loop(np.int32(0), counts[index], visit, state)
    return state


def _product(a: Any, b: Any, dtype: Any) -> Any:
    return jnp.dot(a, b, preferred_element_type=dtype)


class _Scores:
    """The scores of a tile in a kernel, and their gradient."""

    def __init__(
        self,
        instance: _Instance,
        first: tuple[Any, Any],
        is_partial: bool,
        wanted: Sequence[bool] = (),
    ) -> None:
        self.is_partial, self.wanted = is_partial, wanted
        self.spec, self.lengths, self.refs, (batch, head, _) = instance
        spec, lengths = self.spec, self.lengths
        # Padding repeats the last index.
        q, k = (
            jnp.minimum(start + lax.iota(np.int32, size), np.int32(n - 1))
            for start, size, n in zip(
                first, spec.tile, (lengths.queries, lengths.keys), strict=True
            )
        )
        self.indices = batch, head, q[:, None], k[None]
        self.is_key = (first[1] + lax.iota(np.int32, spec.tile[1]) < np.int32(lengths.keys))[None]

    def of(self, q: Any, k: Any) -> Any:
        """Return the scores, -inf where they are masked."""
        scaled = self._scores(q, k)
        score = self.spec.score
        if score is None:
            return self._mask(scaled)
        values = score.read(self.indices, self.refs.score)
        return self._mask(self._fill(score.apply(values, {}, scaled)))

    def gradient(  # noqa: PLR0913, PLR0917 (arrays of attention)
        self, q: Any, k: Any, v: Any, g: Any, sums: Any, common: Any, by_arrays: Sequence[Any] = ()
    ) -> tuple[Any, Any]:
        """Return the gradient with respect to products of queries and keys, and the weights.

        Gradients with respect to wanted arrays of the score function are added to ``by_arrays``.
        """
        scaled, score = self._scores(q, k), self.spec.score
        final, back = scaled, None
        reads = []
        if score is not None:
            values = score.read(self.indices, self.refs.score)
            reads = score.reads_of(self.wanted) if by_arrays else []

            def apply_score(scaled: Any, *elements: Any) -> Any:
                known = dict(zip([x.node for x in reads], elements, strict=True))
                return self._fill(score.apply(values, known, scaled))

            final, back = jax.vjp(apply_score, scaled, *[values[x.node] for x in reads])
        masked = self._mask(final)
        weights = jnp.exp(masked - sums[:, None])
        by_score = weights * (_product(g, v.T, final.dtype) - common[:, None])
        # The derivative of a masked score may be NaN.
        by_score = jnp.where(masked == -np.inf, 0, by_score)
        if back is not None:
            by_score, *by_elements = back(by_score)
            by_score = jnp.where(masked == -np.inf, 0, by_score)
            positions = np.cumsum(self.wanted) - 1
            for x, by_element in zip(reads, by_elements, strict=True):
                target = by_arrays[positions[x.array]]
                index = x.index_of(values, target.shape)
                self._add_at(target, index, by_element.astype(target.dtype))
        return by_score, weights

    def _add_at(self, target: Any, index: tuple[Any, ...], value: Any) -> None:
        if self.spec.interpret:
            # The interpreter's atomic addition loses terms of equal index.
            target[...] = target[...].at[index].add(value)
        else:
            pallas_triton().atomic_add(target, index, value)

    def _scores(self, q: Any, k: Any) -> Any:
        return _product(q, k.T, score_dtype(q.dtype)) * self.spec.scale

    def _fill(self, score: Any) -> Any:
        return jnp.broadcast_to(score, self.spec.tile).astype(score_dtype(self.refs.q.dtype))

    def _mask(self, score: Any) -> Any:
        mask = self.spec.mask
        if not self.is_partial or (mask is None and not self.lengths.ragged):
            return score
        keep = self.is_key
        if mask is not None:
            keep &= mask.apply(mask.read(self.indices, self.refs.mask), {}).astype(bool)
        return jnp.where(keep, score, -np.inf)
