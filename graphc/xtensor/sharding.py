"""Declared shardings, over a mesh of devices, of arrays with named dimensions."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.xtensor.type import XTensor, as_xtensor


def shard(x: Any, sharding: Any) -> XTensor:
    """Return the array with a declared sharding, for a mode with a mesh of devices.

    Without a mesh it is the array itself: see ``graphc.tensor.shard``.

    Args:
        x: An array with named dimensions.
        sharding: A dict of dimensions and the axes of the mesh that shard them: each a name, a
            tuple of names, None, or ``"*"`` where the compiler may choose. Other dimensions are
            replicated. A tuple goes by position.

    Raises:
        ShardingError: There is no such dimension, or an axis of the mesh occurs twice; when a
            function is compiled: the mesh has no such axis, or a length cannot be sharded.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("city", "year"))
        >>> shard(x, {"year": "data"})
        shard(x, sharding=(None, 'data')): float64[city=?, year=?]
    """
    named = as_xtensor(x)
    return named.alike(gt.shard(named.values, named.positional(sharding)))
