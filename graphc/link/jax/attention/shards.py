"""Attention of arrays that are sharded over a mesh: each device attends with its own queries.

Functions and block masks are those of the whole arrays: a shard has the places of its first batch,
head and query, which are added to the indices, and its rows of the tables. Keys are whole on every
device, or sharded as the queries are, and then rotate (``ring.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec

from graphc.errors import ArgumentError, ShapeError
from graphc.link.jax.attention.kernel import Spec
from graphc.link.jax.explicit import Claims, Entry, axes_of, explicit_axes, resharded, spec_of

Arrays = tuple[Any, ...]
"""Queries, keys, values, tables, and the arrays that the score and the mask function capture."""

Attend = Callable[..., tuple[Any, Any]]
"""The function of a spec and arrays that returns the result and the log-sum-exps."""


@dataclass(frozen=True)
class Shifted:
    """A score or mask function, of indices that count from the first ones of a shard.

    Attributes:
        function: The function of indices in the whole arrays.
        scores: How many scores it takes before the indices.
    """

    function: Callable[..., Any]
    scores: int

    def __call__(self, *given: Any) -> Any:
        """Call it; the last captured array is the shard's origin, int32 (4,)."""
        *given_here, origin = given
        first, rest = given_here[: self.scores], given_here[self.scores :]
        places = [x + origin[i] for i, x in enumerate(rest[:4])]
        return self.function(*first, *places, *rest[4:])


@dataclass(frozen=True)
class Sharding:
    """How attention is sharded over the axes of a mesh.

    Attributes:
        batch: The axes over which batches are.
        heads: The axes over which heads are, those of the keys too where there are several.
        queries: The axes over which queries are.
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


class Shard(NamedTuple):
    """One device's part of attention, within ``jax.shard_map``.

    Attributes:
        spec: The functions, of indices within the shard.
        arrays: Its arrays, with its origin among those that the functions capture.
    """

    spec: Spec
    arrays: Arrays

    @classmethod
    def of(cls, spec: Spec, how: Sharding, arrays: Arrays) -> Shard:
        """The part of this device, given its arrays and its rows of the tables."""
        q, k, v, tables, of_score, of_mask = arrays
        start = origin(how, q.shape)
        score = spec.score and Shifted(spec.score, 1)
        mask = spec.mask and Shifted(spec.mask, 0)
        of_score = (*of_score, start) if score else of_score
        of_mask = (*of_mask, start) if mask else of_mask
        ring = axes_of(how.queries) if how.ring else ()
        made = replace(spec, score=score, mask=mask, ring=ring)
        return cls(made, (q, k, v, tables, of_score, of_mask))


def origin(how: Sharding, shape: Sequence[int]) -> Any:
    """The places of the first batch, head, query and key of this device, int32 (4,).

    Args:
        how: How attention is sharded.
        shape: That of this device's queries.
    """
    places = [_index(x) * np.int32(n) for x, n in zip(how.entries, shape, strict=False)]
    return jnp.stack([*places, jnp.int32(0)])


def _index(entry: Entry) -> Any:
    """The place of this device along mesh axes; 0 along none."""
    axes = axes_of(entry)
    return lax.axis_index(axes).astype(jnp.int32) if axes else jnp.int32(0)


# Within a function of ``jax.shard_map``.


def axis_size(axis: Any) -> int:
    """The number of devices along an axis of the mesh.

    Raises:
        ArgumentError: No ``jax.shard_map`` has that axis here.
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
    """Raise where keys are to rotate and it is not known along which axis.

    Raises:
        ArgumentError: Within ``jax.shard_map``.
    """
    if ring and AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types:
        raise ArgumentError(
            "flex_attention(ring=True) within jax.shard_map: along which axis do keys rotate?",
            "Give sequence_axis, the mesh axis over which sequences are sharded.",
        )


def own_rows(tables: Sequence[Any], axes: Entry) -> tuple[Any, ...]:
    """The rows of tables of this device, of which every device has all."""
    count = lax.axis_size(axes)

    def own(x: Any) -> Any:
        n = x.shape[2] // count
        return lax.dynamic_slice_in_dim(x, _index(axes) * np.int32(n), n, 2)

    return tuple(map(own, map(jnp.asarray, tables)))


def check_blocks(length: int, count: int, block: int, what: str) -> None:
    """Raise where a shard does not hold whole blocks of a mask.

    Raises:
        ShapeError: It does not.
    """
    if length % (count * block):
        raise ShapeError(
            f"flex_attention: {length} {what} on {count} devices, and blocks of {block}.",
            f"Create the block mask with a BLOCK_SIZE that divides {length // count}.",
        )


# Under a mesh with explicit axes.


def sharding_of(mesh: Any, spec: Spec, arrays: Arrays, ring: bool) -> Sharding:
    """How attention of arrays is sharded that are sharded over explicit axes of a mesh."""
    q, k, _, tables, *_ = arrays
    own, of_keys = spec_of(q), spec_of(k)
    claims = Claims(mesh)
    batch = claims.claim(q.shape[0], own[0], of_keys[0])
    heads = claims.claim(q.shape[1] if k.shape[1] == 1 else k.shape[1], own[1], of_keys[1])
    blocks = q.shape[2] // spec.block[0] if q.shape[2] % spec.block[0] == 0 else 1
    queries = claims.claim(blocks if tables else q.shape[2], own[2])
    if not ring or queries is None:
        return Sharding(batch, heads, queries)
    count = int(np.prod([claims.sizes[axis] for axis in axes_of(queries)]))
    if tables:
        check_blocks(k.shape[2], count, spec.block[1], "keys")
    return Sharding(batch, heads, queries, k.shape[2] % count == 0)


def over_mesh(attend: Attend, spec: Spec, mesh: Any, how: Sharding, arrays: Arrays) -> Any:
    """Attention of whole arrays, each device with its shards: the result and log-sum-exps."""
    k, tables, captured = arrays[1], arrays[3], arrays[4:]
    batch, heads, queries = how.batch, how.heads, how.queries
    of_keys = (batch, heads if k.shape[1] > 1 else None, queries if how.ring else None, None)

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
    given = jax.tree.map(lambda x, spec: resharded(jnp.asarray(x), mesh, spec), arrays, specs)
    named: Any = PartitionSpec

    def local(*shards: Any) -> Any:
        shard = Shard.of(spec, how, shards)
        return attend(shard.spec, *shard.arrays)

    run: Any = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=jax.tree.map(lambda _, spec: named(*spec), arrays, specs),
        out_specs=(named(batch, heads, queries, None), named(batch, heads, queries)),
        axis_names=explicit_axes(mesh),
    )
    return run(*given)
