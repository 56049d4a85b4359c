"""Attention of arrays that are sharded over a mesh: each device attends with its own queries.

Functions and block masks refer to the global arrays: a shard has its rows of the tables, and an
origin, the indices of its first batch, head and query, which is added to local indices. Keys are
replicated, or sharded as the queries are, and then rotate (``ring.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec

from graphc.attention.flex import Flex
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Graph
from graphc.link.jax.attention.aligned import localize
from graphc.link.jax.attention.programs import Arrays
from graphc.link.jax.explicit import Claims, Entry, axes_of, explicit_axes, reshard, spec_of

Attend = Callable[..., tuple[Any, Any]]
"""The function of ``of_device``'s results that returns the result and the log-sum-exps."""


@dataclass(frozen=True)
class Sharding:
    """The mesh axes over which attention is sharded.

    Attributes:
        batch: The axes over which batches are sharded.
        heads: The axes over which heads are sharded, and the heads of keys if there are several.
        queries: The axes over which queries are sharded.
        ring: Whether keys and values are sharded over the queries' axes, and rotate.
    """

    batch: Entry = None
    heads: Entry = None
    queries: Entry = None
    ring: bool = False

    @property
    def entries(self) -> tuple[Entry, Entry, Entry]:
        """The axes of batches, heads and queries."""
        return self.batch, self.heads, self.queries


def of_device(op: Flex, sharding: Sharding, arrays: Arrays) -> tuple[Any, ...]:
    """Return the part of attention of this device, within ``jax.shard_map``.

    Args:
        op: The operation of the global arrays.
        sharding: The sharding of attention.
        arrays: The device's arrays, and its rows of the tables.

    Returns:
        The operation, whose functions capture the shard's origin as their last array; the axes
        along which keys rotate; and the arrays.
    """
    *others, score_captured, mask_captured = arrays
    start = origin(sharding, arrays[0].shape)

    def function(graph: Graph | None, captured: Sequence[Any]) -> tuple[Graph | None, Any]:
        if graph is None:
            return None, captured
        return localize(graph, [(None,) * x.ndim for x in captured]), (*captured, start)

    score, score_captured = function(op.score, score_captured)
    mask, mask_captured = function(op.mask, mask_captured)
    axes = axes_of(sharding.queries) if sharding.ring else ()
    return op.with_functions(score, mask), axes, *others, score_captured, mask_captured


def origin(sharding: Sharding, shape: Sequence[int]) -> Any:
    """Return the global indices of this device's first batch, head, query and key, int32 (4,).

    Args:
        sharding: The sharding of attention.
        shape: The shape of this device's queries.
    """
    starts = [_index(x) * np.int32(n) for x, n in zip(sharding.entries, shape, strict=False)]
    return jnp.stack([*starts, jnp.int32(0)])


def _index(entry: Entry) -> Any:
    """Return the index of this device along mesh axes; 0 without axes."""
    axes = axes_of(entry)
    return lax.axis_index(axes).astype(jnp.int32) if axes else jnp.int32(0)


# Within a function of ``jax.shard_map``.


def axis_size(axis: Any) -> int:
    """Return the number of devices along an axis of the mesh.

    Raises:
        ArgumentError: If no surrounding ``jax.shard_map`` has that axis.
    """
    try:
        return int(lax.axis_size(axis))
    except NameError as error:
        raise ArgumentError(
            f"flex_attention(sequence_axis={axis!r}): there is no such axis here.",
            "Call it within jax.shard_map, over a mesh with that axis. Arrays that are sharded "
            "over an explicit mesh need none.",
        ) from error


def check_ring(ring: bool) -> None:
    """Raise an error if keys are to rotate along an unknown axis.

    Raises:
        ArgumentError: If ``ring`` is true within ``jax.shard_map``.
    """
    if ring and AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types:
        raise ArgumentError(
            "flex_attention(ring=True) within jax.shard_map: along which axis do keys rotate?",
            "Give sequence_axis, the mesh axis over which sequences are sharded.",
        )


def own_rows(tables: Sequence[Any], axes: Entry) -> tuple[Any, ...]:
    """Return this device's rows of the tables, which are replicated."""
    count = lax.axis_size(axes)

    def slice_rows(x: Any) -> Any:
        n = x.shape[2] // count
        return lax.dynamic_slice_in_dim(x, _index(axes) * np.int32(n), n, 2)

    return tuple(map(slice_rows, map(jnp.asarray, tables)))


def check_blocks(length: int, count: int, block: int, what: str) -> None:
    """Raise an error unless each shard consists of complete blocks of a mask.

    Raises:
        ShapeError: If the block size does not divide the length of a shard.
    """
    if length % (count * block):
        raise ShapeError(
            f"flex_attention: {length} {what} on {count} devices, and blocks of {block}.",
            f"Create the block mask with a BLOCK_SIZE that divides {length // count}.",
        )


# Under a mesh with explicit axes.


def sharding_of(mesh: Any, op: Flex, arrays: Arrays, ring: bool) -> Sharding:
    """Return the sharding of attention for arrays that are sharded over explicit mesh axes."""
    q, k, _, tables, *_ = arrays
    of_queries, of_keys = spec_of(q), spec_of(k)
    claims = Claims(mesh)
    batch = claims.claim(q.shape[0], of_queries[0], of_keys[0])
    heads = claims.claim(q.shape[1] if k.shape[1] == 1 else k.shape[1], of_queries[1], of_keys[1])
    blocks = q.shape[2] // op.block[0] if q.shape[2] % op.block[0] == 0 else 1
    queries = claims.claim(blocks if tables else q.shape[2], of_queries[2])
    if not ring or queries is None:
        return Sharding(batch, heads, queries)
    count = int(np.prod([claims.sizes[axis] for axis in axes_of(queries)]))
    if tables:
        check_blocks(k.shape[2], count, op.block[1], "keys")
    return Sharding(batch, heads, queries, k.shape[2] % count == 0)


def over_mesh(attend: Attend, op: Flex, mesh: Any, sharding: Sharding, arrays: Arrays) -> Any:
    """Return attention of global arrays, computed in shards: the result and log-sum-exps."""
    k, tables, captured = arrays[1], arrays[3], arrays[4:]
    batch, heads, queries = sharding.batch, sharding.heads, sharding.queries
    of_keys = (batch, heads if k.shape[1] > 1 else None, queries if sharding.ring else None, None)

    def of_table(x: Any) -> tuple[Entry, ...]:
        several = [n > 1 for n in x.shape[:2]]
        entries = (batch if several[0] else None, heads if several[1] else None, queries)
        return (*entries, *[None] * (x.ndim - 3))

    specs = (
        (batch, heads, queries, None),
        of_keys,
        of_keys,
        tuple(map(of_table, tables)),
        *[tuple((None,) * jnp.ndim(x) for x in group) for group in captured],
    )
    operands = jax.tree.map(lambda x, spec: reshard(jnp.asarray(x), mesh, spec), arrays, specs)
    named: Any = PartitionSpec

    def local(*shards: Any) -> Any:
        return attend(*of_device(op, sharding, shards))

    run: Any = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=jax.tree.map(lambda _, spec: named(*spec), arrays, specs),
        out_specs=(named(batch, heads, queries, None), named(batch, heads, queries)),
        axis_names=explicit_axes(mesh),
    )
    return run(*operands)
