"""Sums over processes: a JAX array over a mesh is the full array already."""

from __future__ import annotations

from typing import Any

import jax

from graphc.errors import ArgumentError, DistributedError
from graphc.link.jax.backend import backend
from graphc.link.jax.mesh import current
from graphc.tensor.core.all_sum import AllMean, AllReduce, AllSum, process_group


@backend.lower(AllSum)
@backend.lower(AllMean)
def all_sum(op: AllReduce, x: Any) -> Any:
    """Return the array; raise if it is a part: in ``jax.shard_map``, or without a mesh."""
    if getattr(jax.sharding.get_abstract_mesh(), "manual_axes", ()):
        raise ArgumentError(
            f"{op.name} within jax.shard_map, where each device has its own shard.",
            "Leave it out of the graph, and apply jax.lax.psum to what f.pure returns; or leave "
            "shard_map out, and give the mode the mesh.",
        )
    group = process_group()
    if group is not None and group.backend != "JAX":
        op.refuse_others("JAX")
    if current() is None and jax.process_count() > 1:
        raise DistributedError(
            f"{op.name} without a mesh, in process {jax.process_index()} of "
            f"{jax.process_count()}: each process would have the sum of its own arrays only.",
            "Compile it for Mode('JAX', mesh=...), a mesh over the devices of all processes.",
        )
    return x
