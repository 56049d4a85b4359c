"""Block masks: which blocks of an attention are full, partial and empty, and the mask function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from graphc.attention.blocks import Tables, block_tables
from graphc.attention.combine import name_of, noop_mask
from graphc.attention.grids import EMPTY, FULL, PARTIAL, grid_of
from graphc.attention.mods import dense_mask, lift_mod
from graphc.attention.picture import picture
from graphc.attention.slices import SlicedMask, axis_indices, query_selection, selection
from graphc.attention.tables import (
    check_block_size,
    check_length,
    check_lengths,
    check_tables,
    is_known,
)
from graphc.attention.trees import TABLES, register
from graphc.capture import Lifted, Stripped, rebuild
from graphc.errors import ArgumentError, ShapeError, SymbolicValueError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import lengths_of
from graphc.ir import STATIC, Node, TensorType
from graphc.tensor.core.runtime import Runtime

MAX_DENSE = 2**26  # a dense mask of more elements takes more than 64 MiB


@dataclass(frozen=True, eq=False, repr=False)
class BlockMask:
    """A mask of attention, block by block, with the mask function that decides within blocks.

    ``create_block_mask`` makes a block mask from a mask function. In a *full* block every query
    sees every key, in an *empty* block no query sees a key, in a *partial* block the mask function
    decides. A mask holds the tables of full and partial blocks and the arrays that the function
    captures. Programs take all of these arrays as values: masks that differ in nothing else share
    one program. The other fields (the function without its arrays, the size of a block and the
    lengths) are compared without reading any array. To graphc.function, loops and JAX a mask is a
    container (a tree) of its arrays.

    A mask is immutable: NumPy arrays that can be written to are copied.

    Attributes:
        kv_num_blocks: int32 (B, H, rows): the number of partial blocks of each row.
        kv_indices: int32 (B, H, rows, columns): the indices of the partial blocks, ascending, then
            all others.
        full_kv_num_blocks: int32 (B, H, rows): the number of full blocks of each row.
        full_kv_indices: int32 (B, H, rows, columns): the indices of the full blocks, ascending,
            then all others. The last column is never full if it has fewer keys than a block.
        leaves: The arrays that the mask function captures.
        stripped: The mask function without its arrays.
        block_size: The numbers of queries and keys of a block.
        seq_lengths: The numbers of queries and keys.

    Example:
        >>> from graphc.attention import causal, create_block_mask
        >>> mask = create_block_mask(causal, None, None, 512, 512)
        >>> mask
        BlockMask(causal, shape=(1, 1, 512, 512), block_size=(128, 128))
        >>> mask.sparsity()
        37.5
        >>> print(mask)
        BlockMask(causal, shape=(1, 1, 512, 512), block_size=(128, 128)), 37.5% empty
        ░░······
        ██░░····
        ████░░··
        ██████░░
        ██ full  ░░ partial  ·· empty
    """

    kv_num_blocks: Any
    kv_indices: Any
    full_kv_num_blocks: Any
    full_kv_indices: Any
    leaves: tuple[Any, ...]
    stripped: Stripped = field(metadata={STATIC: True})
    block_size: tuple[int, int] = field(metadata={STATIC: True})
    seq_lengths: tuple[int, int] = field(metadata={STATIC: True})

    def __post_init__(self) -> None:
        """Copy arrays that can be written to."""
        for name in TABLES:
            object.__setattr__(self, name, _freeze(getattr(self, name)))
        object.__setattr__(self, "leaves", tuple([_freeze(x) for x in self.leaves]))

    @staticmethod
    def from_blocks(  # noqa: PLR0913, PLR0917 (PyTorch's arguments)
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        mask_mod: Callable[..., Any] = noop_mask,
        BLOCK_SIZE: int | tuple[int, int] = 128,  # noqa: N803
        seq_lengths: tuple[int, int] | None = None,
    ) -> BlockMask:
        """Return the mask of tables of blocks.

        Args:
            kv_num_blocks: Integers (B, H, rows): the number of partial blocks of each row.
            kv_indices: Integers (B, H, rows, columns): the indices of the partial blocks, first in
                their row, in any order; later entries are ignored.
            full_kv_num_blocks: The number of full blocks of each row; None if no block is full.
            full_kv_indices: The indices of the full blocks; None if no block is full.
            mask_mod: The mask function of partial blocks; by default every query sees every key.
            BLOCK_SIZE: The numbers of queries and keys of a block: one number, or one for each.
            seq_lengths: The numbers of queries and keys; by default the blocks have no padding.

        Raises:
            ShapeError: If the tables' shapes differ from each other or do not fit the lengths, or
                if a length or the size of a block is not an integer.
            DTypeError: If the tables are not integers.
            BoundsError: If a number of blocks, or the index of a block, is out of range.
            ArgumentError: If a block is listed twice, or if only one table of full blocks is given.

        Example:
            >>> import numpy as np
            >>> from graphc.attention import BlockMask
            >>> counts, indices = np.array([[[1, 2]]]), np.array([[[[0, 0], [0, 1]]]])
            >>> print(BlockMask.from_blocks(counts, indices, BLOCK_SIZE=64).blocks()[0, 0])
            [[1 0]
             [1 1]]
        """
        partial_tables, full_tables = check_tables(
            kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices
        )
        block = check_block_size(BLOCK_SIZE)
        lengths = check_lengths(lengths_of(partial_tables[1]), block, seq_lengths)
        possible, certain = grid_of(*partial_tables), grid_of(*full_tables)
        xp = numpy_like(possible, certain)
        certain = xp.logical_and(certain, xp.logical_not(possible))
        possible = xp.logical_or(possible, certain)
        stripped, leaves = lift_mod(mask_mod, "mask_mod")
        tables = block_tables(certain, possible, lengths[1], block[1])
        return BlockMask(*tables, leaves, stripped, block, lengths)

    # Properties.

    @property
    def lifted(self) -> Lifted:
        """The mask function without its arrays, and the arrays."""
        return Lifted(self.stripped, self.leaves)

    @property
    def mask_mod(self) -> Callable[..., Any]:
        """The mask function, with the arrays that the mask holds."""
        return rebuild(self.stripped, self.leaves)

    @property
    def tables(self) -> Tables:
        """Counts and indices of the partial blocks, then of the full ones."""
        counts, full_counts = self.kv_num_blocks, self.full_kv_num_blocks
        return counts, self.kv_indices, full_counts, self.full_kv_indices

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The numbers of batches and heads (1 if one mask serves for all), queries and keys."""
        batch, heads = lengths_of(self.kv_num_blocks)[:2]
        return (batch, heads, *self.seq_lengths)  # type: ignore[return-value]

    @property
    def numel(self) -> int:
        """The number of elements of the dense mask.

        Example:
            >>> from graphc.attention import causal, create_block_mask
            >>> create_block_mask(causal, 2, None, 512, 256).numel
            262144
        """
        return int(np.prod(self.shape))

    def blocks(self) -> np.ndarray[Any, Any]:
        """Return the kind of each block: 0 for empty, 1 for partial, 2 for full.

        Returns:
            int8 (B, H, rows, columns).

        Raises:
            SymbolicValueError: If the mask is symbolic, or traced by JAX.

        Example:
            >>> from graphc.attention import causal, create_block_mask
            >>> create_block_mask(causal, None, None, 256, 384).blocks()[0, 0].tolist()
            [[1, 0, 0], [2, 1, 0]]
        """
        counts, indices, full_counts, full_indices = self._values("blocks()")
        kinds = np.where(grid_of(counts, indices), PARTIAL, EMPTY)
        return np.where(grid_of(full_counts, full_indices), FULL, kinds).astype(np.int8)

    def sparsity(self) -> float:
        """Return the percentage of blocks that are empty.

        Raises:
            SymbolicValueError: If the mask is symbolic, or traced by JAX.

        Example:
            >>> from graphc.attention import create_block_mask, sliding_window
            >>> create_block_mask(sliding_window(128), None, None, 1024, 1024).sparsity()
            76.5625
        """
        kinds = self.blocks()
        return 100.0 * float(np.sum(kinds == EMPTY)) / max(kinds.size, 1)

    def to_dense(self) -> np.ndarray[Any, Any]:
        """Return the dense mask: whether each query sees each key.

        Returns:
            bool (B, H, queries, keys).

        Raises:
            ArgumentError: If the dense mask has more than 2**26 elements.
            SymbolicValueError: If the mask is symbolic, or traced by JAX.

        Example:
            >>> from graphc.attention import create_block_mask, sliding_window
            >>> mask = create_block_mask(sliding_window(2), None, None, 4, 4, BLOCK_SIZE=2)
            >>> mask.to_dense()[0, 0].astype(int)
            array([[1, 0, 0, 0],
                   [1, 1, 0, 0],
                   [0, 1, 1, 0],
                   [0, 0, 1, 1]])
        """
        if self.numel > MAX_DENSE:
            raise ArgumentError(
                f"{self!r}.to_dense(): {self.numel} elements, more than {MAX_DENSE}.",
                "Use mask.sparsity(), print(mask) or mask.blocks(); or take a part, "
                "mask[batch, head, query_blocks].to_dense().",
            )
        kinds = self.blocks()
        self._require_values("to_dense()", self.leaves)
        rows, columns = [
            np.arange(n) // block
            for n, block in zip(self.seq_lengths, self.block_size, strict=True)
        ]
        kinds = kinds[:, :, rows[:, None], columns]
        if not np.any(kinds == PARTIAL):
            return np.asarray(kinds == FULL)
        values = dense_mask(self.lifted, self.shape)
        return np.asarray((kinds == FULL) | ((kinds == PARTIAL) & values))

    def _values(self, what: str) -> list[np.ndarray[Any, Any]]:
        self._require_values(what, self.tables)
        return [np.asarray(x) for x in self.tables]

    def _require_values(self, what: str, arrays: Sequence[Any]) -> None:
        if not all(is_known(x) for x in arrays):
            raise SymbolicValueError(
                f"{self!r}.{what}: its values are known only when the program runs.",
                "Call it on a mask of NumPy or JAX arrays, outside of traced functions.",
            )

    # Derived masks.

    def __getitem__(self, index: Any) -> BlockMask:
        """Return the mask of some batches, some heads, and consecutive blocks of queries.

        The result has all keys. An integer is a slice of length one, so the result has four axes
        too; a single batch or head then serves for all. The index is a value of the result, not
        of its program: ``mask[:, :, i]`` is one program for every ``i``.

        Args:
            index: ``mask[batch, head, query_blocks]``; each axis is indexed by itself.
                Batches and heads: an integer, a slice, or a vector of integers. Blocks of queries:
                an integer or a slice of step one. Integers may be symbolic, or traced by JAX.

        Raises:
            BoundsError: If there is no such batch, head or block, or if a slice is empty.
            ArgumentError: If there are more than three indices, if one is neither an integer nor a
                slice, or if query blocks are not consecutive.

        Example:
            >>> from graphc.attention import causal, create_block_mask
            >>> mask = create_block_mask(causal, None, None, 512, 512)
            >>> mask[:, :, 1:3].shape
            (1, 1, 256, 512)
            >>> print(mask[..., 1:3].blocks()[0, 0])
            [[2 1 0 0]
             [2 2 1 0]]
        """
        batch, heads, queries = axis_indices(index)
        n, m, length, _ = self.shape
        b, h = selection(batch, n, "batch"), selection(heads, m, "head")
        q, length = query_selection(queries, self.block_size[0], length)
        if b.offsets is None and h.offsets is None and q.offsets is None:
            return self
        tables = [_take(_take(_take(x, 0, b.index), 1, h.index), 2, q.index) for x in self.tables]
        sliced = SlicedMask(self.mask_mod, b.offsets, h.offsets, q.offsets)
        stripped, leaves = lift_mod(sliced, "mask_mod")
        return replace(
            self,
            **dict(zip(TABLES, tables, strict=True)),
            leaves=leaves,
            stripped=stripped,
            seq_lengths=(length, self.seq_lengths[1]),
        )

    def for_lengths(self, q_len: int, kv_len: int) -> BlockMask:
        """Return the mask of the first queries and keys.

        Args:
            q_len: The number of queries; at most the mask's.
            kv_len: The number of keys; at most the mask's.

        Returns:
            A mask for these lengths, of the same function. Partial blocks stay partial.

        Raises:
            ShapeError: If a length is longer than the mask's, or not an integer.

        Example:
            >>> from graphc.attention import causal, create_block_mask
            >>> mask = create_block_mask(causal, None, None, 512, 512)
            >>> print(mask.for_lengths(512, 200).blocks()[0, 0])
            [[1 0]
             [2 1]
             [2 1]
             [2 1]]
        """
        lengths = (check_length(q_len, 0), check_length(kv_len, 0))
        if lengths == self.seq_lengths:
            return self
        if any(new > old for new, old in zip(lengths, self.seq_lengths, strict=True)):
            raise ShapeError(
                f"{self!r}.for_lengths{lengths}: the mask has no blocks for longer sequences.",
                "Create it for the longest: create_block_mask(mask_mod, B, H, q_len, kv_len).",
            )
        rows, columns = [-(-n // b) for n, b in zip(lengths, self.block_size, strict=True)]
        possible, certain = [
            grid_of(*self.tables[i : i + 2])[:, :, :rows, :columns] for i in (0, 2)
        ]
        possible = numpy_like(possible, certain).logical_or(possible, certain)
        tables = block_tables(certain, possible, lengths[1], self.block_size[1])
        return BlockMask(*tables, self.leaves, self.stripped, self.block_size, lengths)

    def variables(self, name: str | None = None) -> BlockMask:
        """Return a mask of symbolic inputs, with which ``graphc.function`` takes masks like this.

        Args:
            name: The prefix of the inputs' names.

        Returns:
            A mask in which each array is a symbolic array of the same dtype and shape.

        Example:
            >>> import graphc
            >>> from graphc.attention import create_block_mask, sliding_window
            >>> mask = create_block_mask(sliding_window(100), None, None, 512, 512)
            >>> m = mask.variables("mask")
            >>> blocks = graphc.function([m], m.kv_num_blocks.sum(), on_unused_input="ignore")
            >>> other = create_block_mask(sliding_window(200), None, None, 512, 512)
            >>> int(blocks(mask)), int(blocks(other))
            (7, 9)
        """

        def variable(x: Any, part: str) -> Any:
            return _variable(x, None if name is None else f"{name}.{part}")

        tables = {part: variable(x, part) for part, x in zip(TABLES, self.tables, strict=True)}
        leaves = map(variable, self.leaves, self.stripped.names)
        return replace(self, **tables, leaves=tuple(leaves))

    # Printing and copies.

    def picture(self, limit: int = 32, masks: int = 4) -> str:
        """Return full, partial and empty blocks as text.

        Args:
            limit: The largest number of rows and columns. In a larger mask one mark stands for
                several blocks: partial unless all of them are full, or all are empty.
            masks: The largest number of batches and heads that are shown.

        Raises:
            SymbolicValueError: If the mask is symbolic, or traced by JAX.

        Example:
            >>> from graphc.attention import create_block_mask, sliding_window
            >>> mask = create_block_mask(sliding_window(3000), None, None, 8192, 8192)
            >>> print(mask.picture(limit=8))
            ░░··············
            ██░░············
            ░░██░░··········
            ░░░░██░░········
            ··░░░░██░░······
            ····░░░░██░░····
            ······░░░░██░░··
            ········░░░░██░░
            ██ full  ░░ partial  ·· empty  each 8 x 8 blocks
        """
        return picture(self.blocks(), limit, masks)

    def __repr__(self) -> str:
        name = name_of(self.mask_mod)
        return f"BlockMask({name}, shape={self.shape}, block_size={self.block_size})"

    def __str__(self) -> str:
        if not all(is_known(x) for x in self.tables):
            return repr(self)
        return f"{self!r}, {self.sparsity():.4g}% empty\n{self.picture()}"

    def __copy__(self) -> BlockMask:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if any(part.kind == "function" for part in self.stripped.parts):
            raise ArgumentError(
                f"{self!r} cannot be pickled, because its mask_mod is a function of yours.",
                "Pickle its arguments and create it again from these; or use graphc's mask "
                "functions, such as and_masks(causal, document(ids)).",
            )
        return BlockMask, tuple([getattr(self, x.name) for x in fields(self)])

    def __deepcopy__(self, memo: dict[int, Any]) -> BlockMask:
        values = {name: deepcopy(getattr(self, name), memo) for name in (*TABLES, "leaves")}
        return replace(self, **values)


register(BlockMask)


def _freeze(x: Any) -> Any:
    """Return an array that cannot be written to."""
    if isinstance(x, np.ndarray) and (x.flags.writeable or not x.flags.owndata):
        x = np.array(x)
        x.setflags(write=False)
    elif type(x).__module__ == "mlx.core":
        x = numpy_like(x).array(x)
    return x


def _take(x: Any, axis: int, index: Any) -> Any:
    if isinstance(index, slice):
        return x if index == slice(None) else x[(slice(None),) * axis + (index,)]
    return numpy_like(x, index).take(x, index, axis=axis)


def _variable(x: Any, name: str | None) -> Any:
    """Return a symbolic input of an array's dtype and shape."""
    if isinstance(x, Node):
        return x.type(name)
    if isinstance(x, Runtime):
        x = x.array()
    dtype = str(x.dtype).rpartition(".")[2]  # without a library's name
    return TensorType(dtype, x.shape)(name)
