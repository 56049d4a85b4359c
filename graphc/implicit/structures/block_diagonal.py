"""Block-diagonal matrices, stored as their blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction
from graphc.implicit.structures import stacked
from graphc.implicit.structures.zeros import BESIDE_ZEROS
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name


@dataclass(frozen=True, repr=False)
class BlockDiagonal(stacked.Stacked):
    """Blocks along the diagonal, zero elsewhere.

    A product multiplies by the blocks alone: for b equal blocks, with 1/b of the numbers and of the
    multiplications of the dense matrix. Zeros that are not stored stay zero in every product, also
    with infinities and NaN.

    Args:
        blocks: Blocks of one shape as one array (..., b, p, q); or a tuple of arrays
            (..., p_i, q_i) of one dtype, which may be implicit. A block may have no rows or no
            columns.

    Raises:
        ImplicitArrayError: If there is no block, if a block has too few axes, or if batch axes or
            dtypes differ.

    Example:
        >>> import numpy as np
        >>> w = BlockDiagonal(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]))
        >>> np.asarray(w).tolist()
        [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 4.0]]
        >>> (w @ np.ones((4, 1))).tolist()
        [[3.0], [7.0]]
        >>> BlockDiagonal((np.ones((1, 1)), np.ones((2, 3)))).shape
        (3, 4)
    """

    blocks: Any

    @classmethod
    def spec(cls, shape: Any, dtype: Any, count: int | None = None, **options: Any) -> Any:
        """Return a block-diagonal type with ``count`` blocks of one shape.

        Raises:
            ImplicitArrayError: If ``count`` is missing, or does not divide both lengths.

        Example:
            >>> BlockDiagonal.spec((6, 4), "float32", count=2)
            BlockDiagonal(float32[2, 3, 2])
        """
        *batch, m, n = shape
        if not count or m % count or n % count:
            raise ImplicitArrayError(
                f"BlockDiagonal of shape {tuple(shape)} with count={count}.",
                "Give count=, how many equal blocks there are; for others, pass an example.",
            )
        blocks = TensorType(dtype_name(dtype), (*batch, count, m // count, n // count))
        return cls(blocks, **options)

    def check(self) -> None:
        blocks = self.blocks if isinstance(self.blocks, tuple) else (self.blocks,)
        min_axes = 2 if isinstance(self.blocks, tuple) else 3
        shapes = [lengths_of(x) for x in blocks]
        if not blocks or any(len(shape) < min_axes for shape in shapes):
            raise ImplicitArrayError(
                f"BlockDiagonal: blocks of shapes {shapes}.",
                "Give one array (…, b, p, q), or a tuple of at least one matrix.",
            )
        if len({shape[:-2] for shape in shapes}) > 1 or len({*map(dtype_of, blocks)}) > 1:
            types = [f"{dtype_of(x)}{list(lengths_of(x))}" for x in blocks]
            raise ImplicitArrayError(
                f"BlockDiagonal: blocks {', '.join(types)}.",
                "All blocks have one dtype and equal leading axes.",
            )

    # Whether the blocks are one array or a tuple of arrays.

    @property
    def stacked(self) -> bool:
        """Whether the blocks are one array."""
        return not isinstance(self.blocks, tuple)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The blocks as a tuple of arrays."""
        return (self.blocks,) if self.stacked else self.blocks

    def map_blocks(self, function: Callable[..., Any], *others: Any) -> Any:
        """Apply a function to all blocks and to the parts of other arrays that belong to them."""
        if self.stacked:
            return function(self.blocks, *others)
        return tuple([function(*xs) for xs in zip(self.blocks, *others, strict=True)])

    def _split(self, xp: Any, x: Any, axis: int, own: int) -> Any:
        """Split axis -2 or -1 of a dense array into parts as long as the own axis of blocks."""
        if not self.stacked:
            stops = [*accumulate(xp.shape_of(block)[own] for block in self.blocks)]
            rest = (slice(None),) * (-1 - axis)
            pairs = pairwise([0, *stops])
            return tuple([xp.getitem(x, (..., slice(i, j), *rest)) for i, j in pairs])
        lengths = [*xp.shape_of(x)]
        count, n = xp.shape_of(self.blocks)[-3], xp.shape_of(self.blocks)[own]
        if axis == -2:
            return xp.reshape(x, (*lengths[:-2], count, n, lengths[-1]))
        return xp.swapaxes(xp.reshape(x, (*lengths[:-1], count, n)), -2, -3)

    def _join(self, xp: Any, parts: Any, axis: int) -> Any:
        """Join the parts that belong to blocks along axis -2 or -1."""
        if not self.stacked:
            return xp.concatenate(list(parts), axis)
        y = xp.swapaxes(parts, -2, -3) if axis == -1 else parts
        *lead, b, n, k = xp.shape_of(y)
        return xp.reshape(y, (*lead, b * n, k) if axis == -2 else (*lead, b, n * k))

    def _join_vectors(self, xp: Any, parts: Any) -> Any:
        if not self.stacked:
            return xp.concatenate(list(parts), -1)
        *lead, b, n = xp.shape_of(parts)
        return xp.reshape(parts, (*lead, b * n))

    def _stack(self, xp: Any, numbers: Any) -> Any:
        """Return the numbers that belong to blocks along a last axis."""
        return numbers if self.stacked else xp.stack(list(numbers), -1)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        # A shard of blocks is a smaller matrix than a shard of rows.
        count = (stacked.joint_spec(rows, columns),) if self.stacked else ()
        return {"blocks": (*count, None, None)}

    def _lengths(self) -> list[tuple[int | None, ...]]:
        """Return the lengths of the own axes of each array of blocks."""
        own = 3 if self.stacked else 2
        return [lengths_of(x)[-own:] for x in self.arrays]

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        if self.stacked:
            b, p, q = lengths_of(self.blocks)[-3:]
            return stacked.product(b, p), stacked.product(b, q)
        rows, columns = zip(*self._lengths(), strict=True)
        return stacked.length_sum(rows), stacked.length_sum(columns)

    def materialize(self) -> Any:
        if self.stacked:
            return _dense_of_equal_blocks(self.xp, stacked.materialize_unchecked(self.blocks))
        blocks = [stacked.materialize_unchecked(x) for x in self.blocks]
        xp = numpy_like(*blocks)
        *batch, _, n = xp.shape_of(blocks[0])
        n, before, rows = sum(xp.shape_of(x)[-1] for x in blocks), 0, []
        for x in blocks:
            *_, p, q = xp.shape_of(x)
            zeros_left = xp.zeros((*batch, p, before), self.dtype)
            zeros_right = xp.zeros((*batch, p, n - before - q), self.dtype)
            rows.append(xp.concatenate([zeros_left, x, zeros_right], -1))
            before = before + q
        return xp.concatenate(rows, -2)

    # Products.

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)

        def multiply(block: Any, part: Any) -> Any:
            return xp.matmul(part, block)

        if not isinstance(x, BlockDiagonal):
            return self._join(xp, self.map_blocks(multiply, self._split(xp, x, -1, -2)), -1)
        mine, theirs = self._lengths(), x._lengths()
        fits = [(*a[:-2], a[-1]) for a in theirs] == [b[:-1] for b in mine]
        is_known = all(None not in b[:-1] for b in mine)
        return (
            BlockDiagonal(self.map_blocks(multiply, x.blocks))
            if fits and is_known
            else NotImplemented
        )

    # Linear systems, where all blocks are square.

    @property
    def is_solvable(self) -> bool:
        return stacked.are_square(*self.arrays)

    def solve(self, b: Any) -> Any:
        xp = numpy_like(self, b)
        return self._join(xp, self.map_blocks(xp.solve, self._split(xp, b, -2, -1)), -2)

    def inverse(self) -> Any:
        return BlockDiagonal(self.map_blocks(self.xp.inv))

    def slogdet(self) -> Any:
        xp = self.xp
        pairs = self.map_blocks(xp.slogdet)
        signs, logs = [
            self._stack(xp, x) for x in (pairs if self.stacked else zip(*pairs, strict=True))
        ]
        return xp.prod(signs, -1), xp.sum(logs, -1)

    def det(self) -> Any:
        xp = self.xp
        return xp.prod(self._stack(xp, self.map_blocks(xp.det)), -1)

    # The same elements in another order.

    def matrix_transpose(self) -> Any:
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.swapaxes(part, -1, -2))

    def matrix_window(self, rows: range, columns: range) -> Any:
        if self.stacked:
            return self._stacked_window(rows, columns)
        xp, blocks = self.xp, []
        i = j = 0
        for block in self.blocks:
            p, q = lengths_of(block)[-2:]
            if p is None or q is None:
                return NotImplemented
            index = (..., _slice_within(rows, i, p), _slice_within(columns, j, q))
            blocks.append(xp.getitem(block, index))
            i, j = i + p, j + q
        return BlockDiagonal(tuple(blocks))

    def _stacked_window(self, rows: range, columns: range) -> Any:
        """Return a block-diagonal array of full blocks; other rows or columns become dense."""
        b, p, q = lengths_of(self.blocks)[-3:]
        if b is None or p is None or q is None:
            return NotImplemented
        xp, blocks = self.xp, stacked.block_slice(rows, p)
        if blocks is not None and blocks == stacked.block_slice(columns, q):
            return BlockDiagonal(xp.getitem(self.blocks, (..., blocks, slice(None), slice(None))))
        if len(columns) < b * q and len(rows) == b * p:
            return xp.swapaxes(self.matrix_transpose()._stacked_window(columns, rows), -1, -2)
        y = self._rows_of_stacked(xp, xp.arange(rows.start, rows.stop, rows.step))
        return xp.getitem(y, (..., slice(columns.start, columns.stop, columns.step)))

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        return self._rows_of_stacked(xp, index) if self.stacked else self._rows_of_each(xp, index)

    def _rows_of_each(self, xp: Any, index: Any) -> Any:
        pieces, start = [], 0
        for block in self.blocks:
            p, q = lengths_of(block)[-2:]
            if p is None:
                return NotImplemented
            piece = xp.zeros((*xp.shape_of(index), q), self.dtype)
            if p:
                inside = (index >= start) & (index < start + p)
                rows = xp.getitem(block, xp.clip(index - start, 0, p - 1))
                piece = xp.where(inside[..., None], rows, piece)
            pieces.append(piece)
            start += p
        return xp.concatenate(pieces, -1)

    def _rows_of_stacked(self, xp: Any, index: Any) -> Any:
        b, p, q = xp.shape_of(self.blocks)[-3:]
        if isinstance(p, int):
            p = max(p, 1)  # of blocks without rows, the index is empty
        block = index // p
        part = xp.getitem(self.blocks, (..., block, index % p, slice(None)))
        inside = xp.equal(block[..., None], xp.arange(b))
        y = xp.where(inside[..., None], part[..., None, :], xp.zeros((), self.dtype))
        return xp.reshape(y, (*xp.shape_of(y)[:-2], b * q))

    # Element by element.

    def scale_along(self, vector: Any, axis: int) -> Any:
        if axis < self.ndim - 2:
            return NotImplemented
        xp, own = numpy_like(self, vector), axis - self.ndim
        weights = self._split(xp, xp.expand_dims(vector, -3 - own), own, own)
        return BlockDiagonal(self.map_blocks(xp.multiply, weights))

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if not f.keeps_zero or not all(map(self.has_shapes_of, f.partners(others))):
            return NotImplemented
        xp = numpy_like(self, *others) if others else None
        blocks = [self._blocks_of(xp, x) for x in others]
        is_lost = any(x is NotImplemented for x in blocks)
        return NotImplemented if is_lost else BlockDiagonal(self.map_blocks(f, *blocks))

    def has_shapes_of(self, other: Any) -> bool:
        """Return whether another array has blocks of the same shapes, of any dtype."""
        if not isinstance(other, BlockDiagonal) or self.stacked is not other.stacked:
            return False
        return [*map(lengths_of, self.arrays)] == [*map(lengths_of, other.arrays)]

    def _blocks_of(self, xp: Any, x: Any) -> Any:
        """Return the parts of an array of this shape at the positions of the blocks."""
        if self.has_shapes_of(x):
            return x.blocks
        if isinstance(x, ImplicitArray):
            return NotImplemented
        if self.stacked:
            b, p, q = xp.shape_of(self.blocks)[-3:]
            batch = xp.shape_of(x)[:-2]
            y = xp.swapaxes(xp.reshape(x, (*batch, b, p, b, q)), -2, -3)
            y = xp.reshape(y, (*batch, b * b, p, q))
            return y[..., :: b + 1, :, :]
        shapes = [xp.shape_of(block)[-2:] for block in self.blocks]
        rows, columns = [[0, *accumulate(each)] for each in zip(*shapes, strict=True)]
        pairs = zip(pairwise(rows), pairwise(columns), strict=True)
        return tuple([xp.getitem(x, (..., slice(*i), slice(*j))) for i, j in pairs])

    def on_diagonal(self) -> Any:
        if not self.is_solvable:
            return NotImplemented
        xp = self.xp
        diagonals = self.map_blocks(lambda block: xp.diagonal(block, 0, -2, -1))
        return self._join_vectors(xp, diagonals)

    # Over axes.

    def sum_batch(self, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        return self.fieldwise(lambda part, own: stacked.reduce_in_dtype(xp, "sum", part, axes))

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        shapes = self._lengths()
        # Of equal blocks, only their number needs to be known.
        static = shapes[0][:1] if self.stacked else [n for shape in shapes for n in shape]
        if name == "prod" or None in static:  # a partial product may overflow, times zero is NaN
            return NotImplemented
        xp, is_one = self.xp, shapes[0][:-2] == (1,) or (not self.stacked and len(shapes) == 1)

        def reduce_block(block: Any) -> Any:
            lengths = [(lengths_of(block)[axis], self.matrix[axis]) for axis in axes]
            if any(own == 0 for own, _ in lengths):
                return xp.cast(xp.sum(block, axes), self.dtype)  # no element: zeros
            y = stacked.reduce_in_dtype(xp, name, block, axes)
            is_full = is_one or all(own == n is not None for own, n in lengths)
            return xp.cast(y if is_full else BESIDE_ZEROS[name](xp, y), self.dtype)

        parts = self.map_blocks(reduce_block)
        if len(axes) == 1:
            return self._join_vectors(xp, parts)
        return stacked.reduce_in_dtype(xp, name, self._stack(xp, parts), (-1,))


def _dense_of_equal_blocks(xp: Any, blocks: Any) -> Any:
    """Return blocks (..., b, p, q) as a dense block-diagonal matrix."""
    *batch, b, p, q = xp.shape_of(blocks)
    # (b, p, b, q), zero where the two indices of blocks differ.
    is_diagonal = xp.reshape(xp.equal(xp.arange(b)[:, None], xp.arange(b)), (b, 1, b, 1))
    y = xp.where(is_diagonal, blocks[..., :, :, None, :], xp.zeros((), dtype_of(blocks)))
    return xp.reshape(y, (*batch, b * p, b * q))


def _slice_within(indices: range, start: int, n: int) -> slice:
    """Return the slice of ``start : start + n`` at the indices of a range, relative to start."""
    step = indices.step
    first = indices.start + max(0, -(-(start - indices.start) // step)) * step
    stop = min(indices.stop, start + n)
    return slice(first - start, stop - start, step) if first < stop else slice(0, 0)
