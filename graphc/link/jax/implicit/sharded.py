"""``shard_map`` and sharding constraints with implicit operands, whose fields are sharded.

A function of shards gets an implicit shard if the shards of the fields are its fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn
from jax.sharding import NamedSharding, PartitionSpec

from graphc.link.jax.explicit import axes_of, explicit_mesh, reshard
from graphc.link.jax.implicit.avals import ImplicitAval, ImplicitAvals, flatten, unflatten
from graphc.link.jax.implicit.calls import fill_unused
from graphc.link.jax.implicit.interpreter import inline, materialize_for, rule
from graphc.link.jax.implicit.partition import (
    Partition,
    Sizes,
    can_shard,
    field_shardings,
    unshard,
)
from graphc.link.jax.implicit.trace import trace_and_run
from graphc.link.jax.jaxprs import used_results
from graphc.link.jax.releases import as_closed, manual_axes


@rule("sharding_constraint", "reshard")
def constrain_sharding(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Shard the fields of an implicit array as the dense array is to be sharded."""
    is_reshard = eqn.primitive.name == "reshard"
    sharding = _with_unconstrained_axes(
        eqn.params["dst_sharding" if is_reshard else "sharding"], eqn
    )
    if not can_shard(sharding):
        operands = [materialize_for(x, eqn) for x in operands]
    leaves, kinds = flatten(operands)
    (kind,) = kinds
    constrain: Any = jax.sharding.reshard if is_reshard else jax.lax.with_sharding_constraint
    each = [sharding] if kind is None else field_shardings(kind, sharding)
    return unflatten(kinds, [constrain(x, s) for x, s in zip(leaves, each, strict=True)])


def _with_unconstrained_axes(sharding: Any, eqn: JaxprEqn) -> Any:
    """Return a sharding in which the equation's unconstrained axes are marked."""
    free = eqn.params.get("unconstrained_dims", frozenset())
    if not free:
        return sharding
    pspec: Any = PartitionSpec
    entries = [*sharding.spec, *[None] * (max(free) + 1 - len(sharding.spec))]
    spec = [pspec.UNCONSTRAINED if i in free else entry for i, entry in enumerate(entries)]
    return NamedSharding(sharding.mesh, pspec(*spec))


@rule("shard_map")
def shard_map(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function of shards on each device of a mesh."""
    sizes = dict(eqn.params["mesh"].shape)
    leaves, kinds = flatten(operands)
    shardings = [
        _OperandSharding.of(kind, spec, sizes)
        for kind, spec in zip(kinds, eqn.params["in_specs"], strict=True)
    ]
    in_specs = tuple(spec for sharding in shardings for spec in sharding.specs)
    leaves = [_reshard(x, eqn, spec) for x, spec in zip(leaves, in_specs, strict=True)]
    used = used_results(eqn)
    program = as_closed(eqn.params["jaxpr"])

    def results(values: Sequence[Any]) -> list[Any]:
        pairs = zip(shardings, unflatten(kinds, values), strict=True)
        ys = inline(program, [sharding.shard(x) for sharding, x in pairs], used)
        return [y for y, is_used in zip(ys, used, strict=True) if is_used]

    result_specs = [
        spec for spec, is_used in zip(eqn.params["out_specs"], used, strict=True) if is_used
    ]
    traced: list[ImplicitAvals] = []

    def find_kinds(*values: Any) -> tuple[()]:
        traced.append(flatten(results(values))[1])
        return ()

    jax.eval_shape(_shard_map(eqn, find_kinds, in_specs, ()), *leaves)
    pairs = zip(traced[-1], result_specs, strict=True)
    partitions = [None if kind is None else unshard(kind, spec, sizes) for kind, spec in pairs]

    def run(*values: Any) -> tuple[Any, ...]:
        pairs = zip(partitions, results(values), strict=True)
        return tuple(flatten([y if part else materialize_for(y, eqn) for part, y in pairs])[0])

    out_specs = tuple(
        leaf_spec
        for part, spec in zip(partitions, result_specs, strict=True)
        for leaf_spec in ([spec] if part is None else part.partition_specs())
    )
    arrays = _shard_map(eqn, run, in_specs, out_specs)(*leaves)
    result_kinds = tuple(None if part is None else part.kind for part in partitions)
    return fill_unused(used, unflatten(result_kinds, arrays))


def _shard_map(
    eqn: JaxprEqn, function: Callable[..., Any], in_specs: Any, out_specs: Any
) -> Callable[..., Any]:
    params: dict[str, Any] = eqn.params
    mapped: Callable[..., Any] = jax.shard_map(
        function,
        mesh=params["mesh"],
        in_specs=in_specs,
        out_specs=out_specs,
        axis_names=manual_axes(params),
        check_vma=params["check_vma"],
    )
    return mapped


def _reshard(x: Any, eqn: JaxprEqn, spec: Any) -> Any:
    """Shard an array over explicit axes of a mesh as the function of shards takes it."""
    if explicit_mesh([x]) is None:
        return x
    entries = (*spec, *[None] * (x.ndim - len(spec)))
    return reshard(x, eqn.params["mesh"], entries)


@dataclass(frozen=True)
class _OperandSharding:
    """The sharding of an operand.

    Attributes:
        specs: The specs of the operand's arrays.
        slice_spec: The spec by which each device slices its shard from the replicated operand; None
            if the device has the shard.
        sizes: The number of devices along each axis of the mesh.
    """

    specs: Sequence[Any]
    slice_spec: Any
    sizes: Sizes

    @classmethod
    def of(cls, kind: ImplicitAval | None, spec: Any, sizes: Sizes) -> _OperandSharding:
        """Shard an operand by its arrays, if their shards are the fields of its shard."""
        if kind is None:
            return cls([spec], None, sizes)
        partition = Partition.of(kind, spec, sizes)
        if partition.is_exact():
            return cls(partition.partition_specs(), None, sizes)
        pspec: Any = PartitionSpec
        return cls([pspec()] * kind.count, partition.spec, sizes)

    def shard(self, x: Any) -> Any:
        """Return this device's shard: a slice, for which an implicit array may have a handler."""
        if self.slice_spec is None:
            return x
        lengths, starts = list(x.shape), [jnp.int32(0)] * x.ndim
        for axis, entry in enumerate(self.slice_spec):
            if axes := axes_of(entry):
                lengths[axis] //= math.prod(self.sizes[name] for name in axes)
                starts[axis] = lax.axis_index(axes).astype("int32") * np.int32(lengths[axis])

        def dynamic_slice(x: Any, *starts: Any) -> Any:
            return lax.dynamic_slice(x, starts, lengths)

        return trace_and_run(dynamic_slice, (x, *starts), {})
