"""Block masks as pytrees of JAX, registered as soon as JAX is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.attention.jax_arrays import jax_arrays
from graphc.lazy import call_when_imported

MODULE = "jax.tree_util"

TABLES = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
"""The first leaves of a mask, which the arrays of its function follow."""

STATIC = ("stripped", "block_size", "seq_lengths")
"""The fields in which masks of one tree structure agree."""

_registered: set[type] = set()


def register(cls: type) -> None:
    """Register block masks as pytrees, now or when JAX is imported; graphc does not import it.

    The leaves are the tables and the arrays that the mask function captures. The structure is the
    function without its arrays, the block and the lengths, compared without reading any leaf.

    Args:
        cls: The class of block masks.

    Example:
        >>> import jax
        >>> from graphc.attention.mask import BlockMask
        >>> register(BlockMask)
        >>> jax.tree.map(lambda x: None, BlockMask(*range(4), (5,), None, (8, 8), (20, 20))).leaves
        (None,)
    """
    if cls not in _registered:
        _registered.add(cls)
        call_when_imported(MODULE, lambda tree_util: _register(tree_util, cls))


def _register(tree_util: Any, cls: Any) -> None:
    def flatten(mask: Any) -> tuple[list[Any], tuple[Any, ...]]:
        for i, x in enumerate(mask.leaves):
            if isinstance(x, np.ndarray) and x.dtype.itemsize >= 8:
                jax_arrays().check_lossless("mask_mod", mask.stripped.names[i], x)
        static = tuple(getattr(mask, name) for name in STATIC)
        return [*(getattr(mask, name) for name in TABLES), *mask.leaves], static

    def flatten_with_keys(mask: Any) -> tuple[list[Any], tuple[Any, ...]]:
        children, static = flatten(mask)
        keys = [
            *map(tree_util.GetAttrKey, TABLES),
            *map(tree_util.DictKey, mask.stripped.names),
        ]
        return [*zip(keys, children, strict=True)], static

    def unflatten(static: tuple[Any, ...], children: Any) -> Any:
        arrays = tuple(children)
        tables, leaves = arrays[: len(TABLES)], arrays[len(TABLES) :]
        # Nothing is checked, because JAX unflattens leaves of any kind.
        mask = object.__new__(cls)
        names, values = (*TABLES, "leaves", *STATIC), (*tables, leaves, *static)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(mask, name, value)
        return mask

    tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
