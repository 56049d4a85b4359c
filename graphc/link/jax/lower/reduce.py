"""Reductions in ``jax.lax``, and sums over processes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax

from graphc.errors import ArgumentError, DistributedError
from graphc.link.jax.backend import backend
from graphc.link.jax.mesh import current
from graphc.tensor.arrays import reduce as reductions
from graphc.tensor.core.all_sum import AllMean, AllReduce, AllSum, process_group
from graphc.tensor.core.elementwise import wide_dtype


@backend.lower(reductions.Sum, reductions.Prod)
def sum_or_product(op: reductions.Reduction, x: Any) -> Any:
    """Sum or multiply along axes; half-width floats in float32."""
    dtype = x.dtype
    wide = np.dtype(wide_dtype(dtype))
    reduce = lax.reduce_sum if isinstance(op, reductions.Sum) else lax.reduce_prod
    y = reduce(lax.convert_element_type(x, wide), op.axes)
    return lax.convert_element_type(y, dtype)


@backend.lower(reductions.Extreme)
def extreme(op: reductions.Extreme, x: Any) -> Any:
    """Reduce by max or min; an empty slice raises as in NumPy."""
    op.refuse_empty(x.shape)
    return (lax.reduce_max if isinstance(op, reductions.Max) else lax.reduce_min)(x, op.axes)


backend.lower(reductions.All)(lambda op, x: lax.reduce_and(x, op.axes))
backend.lower(reductions.Any_)(lambda op, x: lax.reduce_or(x, op.axes))


@backend.lower(reductions.ArgExtreme)
def arg_extreme(op: reductions.ArgExtreme, x: Any) -> Any:
    """Return the index of the first extreme value, or of the first NaN."""
    reductions.Max((op.axis,)).refuse_empty(x.shape)
    find = lax.argmax if isinstance(op, reductions.ArgMax) else lax.argmin
    return find(x, op.axis, np.int64)


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
