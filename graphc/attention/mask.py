"""Block masks: which blocks of an attention are full, partial and empty, and the mask function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from graphc.attention.blocks import tables as tables_of
from graphc.attention.combine import name_of, noop_mask
from graphc.attention.dense import dense
from graphc.attention.grids import EMPTY, FULL, PARTIAL, grid_of
from graphc.attention.mods import lifted
from graphc.attention.picture import picture
from graphc.attention.slices import SlicedMask, axis_indices, query_selection, selection
from graphc.attention.tables import checked_lengths, checked_tables, is_known
from graphc.attention.trees import register
from graphc.capture import Lifted, Stripped, rebuild
from graphc.errors import ArgumentError, ShapeError, SymbolicValueError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import lengths_of
from graphc.ir import STATIC, Node, TensorType
from graphc.tensor.core.runtime import Runtime

LARGE = 2**26
"""From more elements on, a mask is not made dense: 64 MiB."""

Tables = tuple[Any, Any, Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class BlockMask:
    """A mask of attention, block by block, with the mask function that decides within blocks.

    ``create_block_mask`` makes one of a mask function. In a *full* block every query sees every
    key, in an *empty* one none does, in a *partial* one the mask function decides. A mask holds
    the tables of full and partial blocks and the arrays that the function captures. Programs
    take all of these as values: masks that differ in nothing else share one program. The rest, the
    function without its arrays, the size of a block and the lengths, is compared without reading
    any array. To graphc.function, loops and JAX a mask is a container (a tree) of its arrays.

    A mask is immutable: NumPy arrays that can be written to are copied.

    Attributes:
        kv_num_blocks: int32 (B, H, rows): how many blocks of a row are partial.
        kv_indices: int32 (B, H, rows, columns): the numbers of these, ascending, then all others.
        full_kv_num_blocks: int32 (B, H, rows): how many blocks of a row are full.
        full_kv_indices: int32 (B, H, rows, columns): the numbers of these, ascending, then others.
            The last column is never full if it has fewer keys than a block.
        leaves: The arrays that the mask function captures.
        stripped: The mask function without them.
        block_size: How many queries and how many keys a block has.
        seq_lengths: How many queries and how many keys there are.

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
            object.__setattr__(self, name, _kept(getattr(self, name)))
        object.__setattr__(self, "leaves", tuple([_kept(x) for x in self.leaves]))

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
        """A mask of given tables of blocks.

        Args:
            kv_num_blocks: Integers (B, H, rows): how many blocks of a row are partial.
            kv_indices: Integers (B, H, rows, columns): the numbers of these, first in their row,
                in any order; what follows them is ignored.
            full_kv_num_blocks: The same for full blocks; None where there are none.
            full_kv_indices: Given together with that.
            mask_mod: The mask function of partial blocks, which sees everything by default.
            BLOCK_SIZE: How many queries and keys a block has.
            seq_lengths: How many queries and keys there are; as many as the blocks have by default.

        Raises:
            ShapeError: Shapes do not fit each other or the lengths.
            DTypeError: Tables are not integers.
            BoundsError: A number of blocks, or of a block, is out of range.
            ArgumentError: A block is listed twice; one table of full blocks is given alone.

        Example:
            >>> import numpy as np
            >>> from graphc.attention import BlockMask
            >>> counts, indices = np.array([[[1, 2]]]), np.array([[[[0, 0], [0, 1]]]])
            >>> print(BlockMask.from_blocks(counts, indices, BLOCK_SIZE=64).blocks()[0, 0])
            [[1 0]
             [1 1]]
        """
        given = checked_tables(kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        block = _pair(BLOCK_SIZE)
        lengths = checked_lengths(lengths_of(given[1]), block, seq_lengths)
        possible, certain = grid_of(*given[:2]), grid_of(*given[2:])
        xp = numpy_like(possible, certain)
        certain = xp.logical_and(certain, xp.logical_not(possible))
        possible = xp.logical_or(possible, certain)
        tables = tables_of(certain, possible, lengths[1], block[1])
        stripped, leaves = lifted(mask_mod, "mask_mod")
        return BlockMask(
            **dict(zip(TABLES, tables, strict=True)),
            leaves=leaves,
            stripped=stripped,
            block_size=block,
            seq_lengths=lengths,
        )

    # Properties.

    @property
    def lifted(self) -> Lifted:
        """The mask function without its arrays, and these."""
        return Lifted(self.stripped, self.leaves)

    @property
    def mask_mod(self) -> Callable[..., Any]:
        """The mask function, with the arrays that the mask holds."""
        return rebuild(self.stripped, self.leaves)

    @property
    def tables(self) -> Tables:
        """Counts and numbers of the partial blocks, then of the full ones."""
        counts, full_counts = self.kv_num_blocks, self.full_kv_num_blocks
        return counts, self.kv_indices, full_counts, self.full_kv_indices

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, heads (each 1 where the mask is the same for all), queries and keys."""
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
        """The kind of each block: 0 for empty, 1 for partial, 2 for full.

        Returns:
            int8 (B, H, rows, columns).

        Raises:
            SymbolicValueError: The mask is symbolic, or traced by JAX.

        Example:
            >>> from graphc.attention import causal, create_block_mask
            >>> create_block_mask(causal, None, None, 256, 384).blocks()[0, 0].tolist()
            [[1, 0, 0], [2, 1, 0]]
        """
        counts, indices, full_counts, full_indices = self._values("blocks()")
        kinds = np.where(grid_of(counts, indices), PARTIAL, EMPTY)
        return np.where(grid_of(full_counts, full_indices), FULL, kinds).astype(np.int8)

    def sparsity(self) -> float:
        """The percentage of blocks that are empty.

        Raises:
            SymbolicValueError: The mask is symbolic, or traced by JAX.

        Example:
            >>> from graphc.attention import create_block_mask, sliding_window
            >>> create_block_mask(sliding_window(128), None, None, 1024, 1024).sparsity()
            76.5625
        """
        kinds = self.blocks()
        return 100.0 * float(np.sum(kinds == EMPTY)) / max(kinds.size, 1)

    def to_dense(self) -> np.ndarray[Any, Any]:
        """The dense mask, whether each query sees each key; for small masks.

        Returns:
            bool (B, H, queries, keys).

        Raises:
            ArgumentError: It would have more than 2**26 elements.
            SymbolicValueError: The mask is symbolic, or traced by JAX.

        Example:
            >>> from graphc.attention import create_block_mask, sliding_window
            >>> mask = create_block_mask(sliding_window(2), None, None, 4, 4, BLOCK_SIZE=2)
            >>> mask.to_dense()[0, 0].astype(int)
            array([[1, 0, 0, 0],
                   [1, 1, 0, 0],
                   [0, 1, 1, 0],
                   [0, 0, 1, 1]])
        """
        if self.numel > LARGE:
            raise ArgumentError(
                f"{self!r}.to_dense(): {self.numel} elements, more than {LARGE}.",
                "Use mask.sparsity(), print(mask) or mask.blocks(); or take a part, "
                "mask[batch, head, query_blocks].to_dense().",
            )
        kinds = self.blocks()
        self._check_known("to_dense()", self.leaves)
        rows, columns = [
            np.arange(n) // block
            for n, block in zip(self.seq_lengths, self.block_size, strict=True)
        ]
        kinds = kinds[:, :, rows[:, None], columns]
        if not np.any(kinds == PARTIAL):
            return np.asarray(kinds == FULL)
        return np.asarray((kinds == FULL) | ((kinds == PARTIAL) & dense(self.lifted, self.shape)))

    def _values(self, what: str) -> list[np.ndarray[Any, Any]]:
        """The tables as NumPy arrays."""
        self._check_known(what, self.tables)
        return [np.asarray(x) for x in self.tables]

    def _check_known(self, what: str, arrays: Sequence[Any]) -> None:
        if not all(is_known(x) for x in arrays):
            raise SymbolicValueError(
                f"{self!r}.{what}: its values are known only when the program runs.",
                "Call it on a mask of NumPy or JAX arrays, outside of traced functions.",
            )

    # Derived masks.

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, some heads, and consecutive blocks of queries.

        Keys stay as they are. An integer is a slice of length one, so that the part has four axes
        too; where one batch or head is left, the mask is the same for all. The index is a value
        of the part, not of its program: ``mask[:, :, i]`` is one program for every ``i``.

        Args:
            index: ``mask[batch, head, query_blocks]``; each axis is indexed by itself.
                Batches and heads: an integer, a slice, or a vector of integers. Blocks of queries:
                an integer or a slice of step one. Integers may be symbolic, or traced by JAX.

        Raises:
            BoundsError: There is no such batch, head or block, or nothing is left.
            ArgumentError: There are more axes, or something else than integers and slices; or query
                blocks are not consecutive.

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
        if b.places is None and h.places is None and q.places is None:
            return self
        cut = [_cut(_cut(_cut(x, 0, b.index), 1, h.index), 2, q.index) for x in self.tables]
        stripped, leaves = lifted(
            SlicedMask(self.mask_mod, b.places, h.places, q.places), "mask_mod"
        )
        tables = dict(zip(TABLES, cut, strict=True))
        return replace(
            self,
            **tables,
            leaves=leaves,
            stripped=stripped,
            seq_lengths=(length, self.seq_lengths[1]),
        )

    def for_lengths(self, q_len: int, kv_len: int) -> BlockMask:
        """The mask of the first queries and keys.

        Args:
            q_len: How many queries; at most as many as the mask has.
            kv_len: How many keys; at most as many as the mask has.

        Returns:
            A mask for these lengths, of the same function. Blocks that were partial stay so.

        Raises:
            ShapeError: A length is longer than the mask's, or not an integer.

        Example:
            >>> from graphc.attention import causal, create_block_mask
            >>> mask = create_block_mask(causal, None, None, 512, 512)
            >>> print(mask.for_lengths(512, 200).blocks()[0, 0])
            [[1 0]
             [2 1]
             [2 1]
             [2 1]]
        """
        lengths = (_length(q_len, 0), _length(kv_len, 0))
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
        tables = tables_of(certain, possible, lengths[1], self.block_size[1])
        return BlockMask(*tables, self.leaves, self.stripped, self.block_size, lengths)

    def variables(self, name: str | None = None) -> BlockMask:
        """A mask of symbolic inputs, by which ``graphc.function`` takes masks like this one.

        Args:
            name: The prefix of its inputs' names.

        Returns:
            The same with a symbolic array of the same dtype and shape for each array.

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
        named = partial(_name, name)
        tables = [_variable(x, named(part)) for part, x in zip(TABLES, self.tables, strict=True)]
        names = zip(self.leaves, self.stripped.names, strict=True)
        leaves = tuple([_variable(x, named(part)) for x, part in names])
        return replace(self, **dict(zip(TABLES, tables, strict=True)), leaves=leaves)

    # Printing and copies.

    def picture(self, limit: int = 32, masks: int = 4) -> str:
        """Full, partial and empty blocks as text.

        Args:
            limit: The most rows and columns; of more, one mark stands for several blocks: partial
                unless all of them are full, or all are empty.
            masks: The most batches and heads that are shown.

        Raises:
            SymbolicValueError: The mask is symbolic, or traced by JAX.

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
        """A mask with copies of the arrays; the function without them is immutable."""
        values = {x.name: deepcopy(getattr(self, x.name), memo) for x in VALUES}
        return replace(self, **values)


register(BlockMask)

VALUES = tuple(x for x in fields(BlockMask) if STATIC not in x.metadata)
TABLES = tuple(x.name for x in VALUES[:4])


def _kept(x: Any) -> Any:
    """An array that cannot be written to."""
    if isinstance(x, np.ndarray) and (x.flags.writeable or not x.flags.owndata):
        x = np.array(x)
        x.setflags(write=False)
    elif type(x).__module__ == "mlx.core":
        x = numpy_like(x).array(x)
    return x


def _cut(x: Any, axis: int, index: Any) -> Any:
    if isinstance(index, slice):
        return x if index == slice(None) else x[(slice(None),) * axis + (index,)]
    return numpy_like(x, index).take(x, index, axis=axis)


def _name(name: str | None, part: str) -> str | None:
    return None if name is None else f"{name}.{part}"


def _variable(x: Any, name: str | None) -> Any:
    """A symbolic input of an array's dtype and shape."""
    if isinstance(x, Node):
        return x.type(name)
    if isinstance(x, Runtime):
        x = x.array()
    dtype = str(x.dtype).rpartition(".")[2]  # without a library's name
    return TensorType(dtype, x.shape)(name)


def _length(n: Any, least: int = 1) -> int:
    known = n.__index__() if hasattr(n, "__index__") and not isinstance(n, bool) else -1
    if known < least:
        raise ShapeError(f"{n!r} is not a length.", f"Give an integer of {least} or more.")
    return int(known)


def _pair(block: Any) -> tuple[int, int]:
    """The size of a block: of queries and of keys."""
    both = block if isinstance(block, list | tuple) else (block, block)
    if len(both) != 2:
        raise ShapeError(f"BLOCK_SIZE={block!r} is not a size.", "Give one integer, or two.")
    return _length(both[0]), _length(both[1])
