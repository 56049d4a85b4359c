"""Block-diagonal matrices, stored as their blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.stacked import (
    Stacked,
    are_square,
    block_slice,
    joint_spec,
    keeps_zero,
    length_sum,
    materialize_unchecked,
    product,
    reduce_in_dtype,
    refuse,
)
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name


@dataclass(frozen=True, repr=False)
class BlockDiagonal(Stacked):
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
            raise refuse(
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
            raise refuse(
                f"BlockDiagonal: blocks of shapes {shapes}.",
                "Give one array (…, b, p, q), or a tuple of at least one matrix.",
            )
        if len({shape[:-2] for shape in shapes}) > 1 or len({*map(dtype_of, blocks)}) > 1:
            types = [f"{dtype_of(x)}{list(lengths_of(x))}" for x in blocks]
            raise refuse(
                f"BlockDiagonal: blocks {', '.join(types)}.",
                "All blocks have one dtype and equal leading axes.",
            )

    @property
    def stacked(self) -> bool:
        """Whether the blocks are one array."""
        return not isinstance(self.blocks, tuple)

    def own_axes(self) -> Mapping[str, int]:
        return {"blocks": 3 if self.stacked else 2}

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        # A shard of blocks is a smaller matrix than a shard of rows.
        return {"blocks": (joint_spec(rows, columns), None, None)} if self.stacked else {}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        if self.stacked:
            b, p, q = lengths_of(self.blocks)[-3:]
            return product(b, p), product(b, q)
        rows, columns = zip(*[lengths_of(x)[-2:] for x in self.blocks], strict=True)
        return length_sum(rows), length_sum(columns)

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        return dtype_of(self.blocks if self.stacked else self.blocks[0])

    def materialize(self) -> Any:
        if self.stacked:
            return _dense_of_equal_blocks(self.xp, materialize_unchecked(self.blocks))
        blocks = [materialize_unchecked(x) for x in self.blocks]
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

    def times(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        if isinstance(x, BlockDiagonal):
            return self._multiply_blocks(xp, x)
        if not self.stacked:
            return self._multiply_each(xp, x)
        *batch, k, _ = xp.shape_of(x)
        b, p, _ = xp.shape_of(self.blocks)[-3:]
        y = xp.swapaxes(xp.reshape(x, (*batch, k, b, p)), -2, -3)
        y = xp.swapaxes(xp.matmul(y, self.blocks), -2, -3)
        return xp.reshape(y, (*batch, k, b * xp.shape_of(y)[-1]))

    def _multiply_each(self, xp: Any, x: Any) -> Any:
        products, start = [], 0
        for block in self.blocks:
            stop = start + xp.shape_of(block)[-2]
            products.append(xp.matmul(xp.getitem(x, (..., slice(start, stop))), block))
            start = stop
        return xp.concatenate(products, -1)

    def _multiply_blocks(self, xp: Any, x: BlockDiagonal) -> Any:
        """Multiply block by block, if each block of ``x`` fits the block of this array."""
        if self.stacked and x.stacked:
            (b, _, n), (c, m, _) = lengths_of(x.blocks)[-3:], lengths_of(self.blocks)[-3:]
            fits = b == c and m == n and None not in {b, m}
            return BlockDiagonal(xp.matmul(x.blocks, self.blocks)) if fits else NotImplemented
        if self.stacked or x.stacked or len(self.blocks) != len(x.blocks):
            return NotImplemented
        pairs = [*zip(x.blocks, self.blocks, strict=True)]
        inner = [(lengths_of(a)[-1], lengths_of(b)[-2]) for a, b in pairs]
        if any(m != n or m is None for m, n in inner):
            return NotImplemented
        return BlockDiagonal(tuple([xp.matmul(a, b) for a, b in pairs]))

    # Linear systems, where all blocks are square.

    @property
    def square_blocks(self) -> bool:
        """Whether each block is known to have as many columns as rows."""
        blocks = (self.blocks,) if self.stacked else self.blocks
        return are_square(*blocks)

    def solved(self, b: Any) -> Any:
        if not self.square_blocks:
            return NotImplemented
        xp = numpy_like(self, b)
        if not self.stacked:
            solutions, start = [], 0
            for block in self.blocks:
                length: Any = lengths_of(block)[-1]
                stop = start + length
                solutions.append(
                    xp.solve(block, xp.getitem(b, (..., slice(start, stop), slice(None))))
                )
                start = stop
            return xp.concatenate(solutions, -2)
        *batch, n, k = xp.shape_of(b)
        count, p = xp.shape_of(self.blocks)[-3:-1]
        x = xp.solve(self.blocks, xp.reshape(b, (*batch, count, p, k)))
        return xp.reshape(x, (*batch, n, k))

    def inverted(self) -> Any:
        if not self.square_blocks:
            return NotImplemented
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.inv(part))

    def slogdet(self) -> Any:
        if not self.square_blocks:
            return NotImplemented
        xp = self.xp
        if self.stacked:
            signs, logs = xp.slogdet(self.blocks)
        else:
            pairs = [xp.slogdet(block) for block in self.blocks]
            signs, logs = [xp.stack(list(values), -1) for values in zip(*pairs, strict=True)]
        return xp.prod(signs, -1), xp.sum(logs, -1)

    def det(self) -> Any:
        if not self.square_blocks:
            return NotImplemented
        xp = self.xp
        if self.stacked:
            return xp.prod(xp.det(self.blocks), -1)
        return xp.prod(xp.stack([xp.det(block) for block in self.blocks], -1), -1)

    # The same elements in another order.

    def swapped(self) -> Any:
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.swapaxes(part, -1, -2))

    def window(self, rows: range, columns: range) -> Any:
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
        xp, blocks = self.xp, block_slice(rows, p)
        if blocks is not None and blocks == block_slice(columns, q):
            return BlockDiagonal(xp.getitem(self.blocks, (..., blocks, slice(None), slice(None))))
        if len(columns) < b * q and len(rows) == b * p:
            return xp.swapaxes(self.swapped()._stacked_window(columns, rows), -1, -2)
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

    def cast(self, dtype: Any) -> Any:
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.cast(part, dtype))

    def scale_with(self, xp: Any, function: Callable[[Any], Any]) -> Any:
        return self.fieldwise(lambda part, own: function(part))

    def weighted(self, vector: Any, axis: int) -> Any:
        if axis < self.ndim - 2 or not self.stacked:
            return NotImplemented
        xp = numpy_like(self, vector)
        b, p, q = xp.shape_of(self.blocks)[-3:]
        by_row = axis == self.ndim - 2
        weights = xp.reshape(vector, (b, p, 1) if by_row else (b, 1, q))
        return BlockDiagonal(xp.multiply(self.blocks, weights))

    def added(self, other: Any) -> Any:
        if not self.fits(other):
            return NotImplemented
        return self._combine_blocks(other.blocks, numpy_like(self, other).add)

    def multiplied(self, other: Any) -> Any:
        return self.against(numpy_like(self, other).multiply, other)

    def has_shapes_of(self, other: Any) -> bool:
        """Return whether another array has blocks of the same shapes, of any dtype."""
        if not isinstance(other, BlockDiagonal) or self.stacked is not other.stacked:
            return False
        pairs: Any = (self.blocks, other.blocks)
        mine, theirs = [[x] if self.stacked else x for x in pairs]
        return [*map(lengths_of, mine)] == [*map(lengths_of, theirs)]

    def _combine_blocks(self, other: Any, function: Any) -> Any:
        if self.stacked:
            return BlockDiagonal(function(self.blocks, other))
        return BlockDiagonal(
            tuple([function(a, b) for a, b in zip(self.blocks, other, strict=True)])
        )

    def _blocks_of_dense(self, xp: Any, x: Any) -> Any:
        """Return the parts of a dense array at the positions of the blocks."""
        if self.stacked:
            b, p, q = xp.shape_of(self.blocks)[-3:]
            batch = xp.shape_of(x)[:-2]
            y = xp.swapaxes(xp.reshape(x, (*batch, b, p, b, q)), -2, -3)
            y = xp.reshape(y, (*batch, b * b, p, q))
            return y[..., :: b + 1, :, :]
        shapes = [xp.shape_of(block)[-2:] for block in self.blocks]
        i = [0, *accumulate(p for p, _ in shapes)]
        j = [0, *accumulate(q for _, q in shapes)]
        return tuple([x[..., i[n] : i[n + 1], j[n] : j[n + 1]] for n, _ in enumerate(shapes)])

    def mapped(self, name: str) -> Any:
        if not keeps_zero(name):
            return NotImplemented
        return self.transformed(getattr(self.xp, name), True)

    def transformed(self, function: Callable[[Any], Any], keeps_zero: bool) -> Any:
        if not keeps_zero:
            return NotImplemented
        return self.fieldwise(lambda part, own: function(part))

    def zipped(self, function: Callable[[Any, Any], Any], other: Any, keeps_zero: bool) -> Any:
        if not keeps_zero or not self.fits(other):
            return NotImplemented
        return self._combine_blocks(other.blocks, function)

    def against(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        if self.has_shapes_of(other):
            return self._combine_blocks(other.blocks, function)
        if isinstance(other, ImplicitArray):
            return NotImplemented
        return self._combine_blocks(self._blocks_of_dense(numpy_like(self, other), other), function)

    def chosen(self, mask: Any, other: Any, first: bool) -> Any:
        if not self.fits(other):
            return NotImplemented
        if not getattr(mask, "ndim", 0) or isinstance(mask, ImplicitArray):
            return super().chosen(mask, other, first)
        xp = numpy_like(self, mask, other)
        masks = self._blocks_of_dense(xp, mask)
        selected = self if first else other
        rejected = other if first else self
        if self.stacked:
            return BlockDiagonal(xp.where(masks, selected.blocks, rejected.blocks))
        triples = zip(masks, selected.blocks, rejected.blocks, strict=True)
        return BlockDiagonal(tuple([xp.where(*triple) for triple in triples]))

    def on_diagonal(self) -> Any:
        """Return the elements at (i, i) of each matrix, if the blocks are square."""
        if not self.square_blocks:
            return NotImplemented
        xp = self.xp
        if not self.stacked:
            return xp.concatenate([xp.diagonal(x, 0, -2, -1) for x in self.blocks], -1)
        *batch, b, p, _ = xp.shape_of(self.blocks)
        return xp.reshape(xp.diagonal(self.blocks, 0, -2, -1), (*batch, b * p))

    # Over axes.

    def sum_batch(self, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        return self.fieldwise(lambda part, own: reduce_in_dtype(xp, "sum", part, axes))

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        if name not in WITH_ZEROS:
            return NotImplemented
        return (self._reduce_stacked if self.stacked else self._reduce_each)(name, axes)

    def _reduce_stacked(self, name: str, axes: tuple[int, ...]) -> Any:
        xp, b = self.xp, lengths_of(self.blocks)[-3]
        if b is None:
            return NotImplemented
        y = reduce_in_dtype(xp, name, self.blocks, axes)
        if len(axes) == 2:
            y = reduce_in_dtype(xp, name, y, (-1,))
        else:
            *batch, _, n = xp.shape_of(y)
            y = xp.reshape(y, (*batch, b * n))
        return WITH_ZEROS[name](xp, y) if b > 1 else y

    def _reduce_each(self, name: str, axes: tuple[int, ...]) -> Any:
        shapes = [lengths_of(x)[-2:] for x in self.blocks]
        if None in {n for shape in shapes for n in shape}:
            return NotImplemented
        xp, results = self.xp, []
        for block, (p, q) in zip(self.blocks, shapes, strict=True):
            lengths = dict(zip((-2, -1), zip((p, q), self.matrix, strict=True), strict=True))
            if any(lengths[axis][0] == 0 for axis in axes):
                results.append(xp.sum(block, axes))  # no element: zeros
                continue
            y = reduce_in_dtype(xp, name, block, axes)
            missing = any(own != n for own, n in [lengths[axis] for axis in axes])
            results.append(WITH_ZEROS[name](xp, y) if missing else y)
        if len(axes) == 1:
            return xp.concatenate([xp.cast(y, self.dtype) for y in results], -1)
        return reduce_in_dtype(
            xp, name, xp.stack([xp.cast(y, self.dtype) for y in results], -1), (-1,)
        )


WITH_ZEROS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda xp, y: y,
    "any": lambda xp, y: y,
    "all": lambda xp, y: xp.zeros_like(y),
    "max": lambda xp, y: xp.maximum(y, 0),
    "min": lambda xp, y: xp.minimum(y, 0),
}
"""The correction of each reduction for the zeros outside of a block."""


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
