"""``shard_map`` and constraints of shardings with implicit operands, whose fields are sharded.

A function of shards gets implicit shards where shards of the fields are those.
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
from graphc.link.jax.implicit.calls import placed
from graphc.link.jax.implicit.interpreter import inline, materialized_for, rule, used_results
from graphc.link.jax.implicit.partition import (
    Partition,
    Sizes,
    can_shard,
    field_shardings,
    joined,
)
from graphc.link.jax.implicit.trace import called
from graphc.link.jax.implicit.transform import closed


@rule("sharding_constraint", "reshard")
def constrained(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Shard the arrays of an implicit array as the whole is to be."""
    is_reshard = eqn.primitive.name == "reshard"
    wanted = _unconstrained(eqn.params["dst_sharding" if is_reshard else "sharding"], eqn)
    if not can_shard(wanted):
        operands = [materialized_for(x, eqn) for x in operands]
    leaves, kinds = flatten(operands)
    (kind,) = kinds
    place: Any = jax.sharding.reshard if is_reshard else jax.lax.with_sharding_constraint
    each = [wanted] if kind is None else field_shardings(kind, wanted)
    return unflatten(kinds, [place(x, sharding) for x, sharding in zip(leaves, each, strict=True)])


def _unconstrained(sharding: Any, eqn: JaxprEqn) -> Any:
    """A sharding that says which axes may be sharded in any way."""
    free = eqn.params.get("unconstrained_dims", frozenset())
    if not free:
        return sharding
    named: Any = PartitionSpec
    entries = [*sharding.spec, *[None] * (max(free) + 1 - len(sharding.spec))]
    spec = [named.UNCONSTRAINED if i in free else entry for i, entry in enumerate(entries)]
    return NamedSharding(sharding.mesh, named(*spec))


@rule("shard_map")
def shard_map(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function of shards on each device of a mesh."""
    sizes = dict(eqn.params["mesh"].shape)
    leaves, kinds = flatten(operands)
    parts = [
        _Operand.of(kind, spec, sizes)
        for kind, spec in zip(kinds, eqn.params["in_specs"], strict=True)
    ]
    given = tuple(spec for part in parts for spec in part.specs)
    leaves = [_placed(x, eqn, spec) for x, spec in zip(leaves, given, strict=True)]
    used = used_results(eqn)
    program = closed(eqn.params["jaxpr"])

    def results(values: Sequence[Any]) -> list[Any]:
        pairs = zip(parts, unflatten(kinds, values), strict=True)
        found = inline(program, [part.shard(x) for part, x in pairs], used)
        return [y for y, is_used in zip(found, used, strict=True) if is_used]

    out_specs = [
        spec for spec, is_used in zip(eqn.params["out_specs"], used, strict=True) if is_used
    ]
    tried: list[ImplicitAvals] = []

    def attempt(*values: Any) -> tuple[()]:
        tried.append(flatten(results(values))[1])
        return ()

    jax.eval_shape(_sharded(eqn, attempt, given, ()), *leaves)
    pairs = zip(tried[-1], out_specs, strict=True)
    whole = [None if kind is None else joined(kind, spec, sizes) for kind, spec in pairs]

    def run(*values: Any) -> tuple[Any, ...]:
        pairs = zip(whole, results(values), strict=True)
        return tuple(flatten([y if part else materialized_for(y, eqn) for part, y in pairs])[0])

    found_specs = tuple(
        said
        for part, spec in zip(whole, out_specs, strict=True)
        for said in ([spec] if part is None else part.partition_specs())
    )
    found = _sharded(eqn, run, given, found_specs)(*leaves)
    made = tuple(None if part is None else part.kind for part in whole)
    return placed(used, unflatten(made, found))


def _sharded(
    eqn: JaxprEqn, function: Callable[..., Any], given: Any, found: Any
) -> Callable[..., Any]:
    params: dict[str, Any] = eqn.params
    # The axes have had two names.
    axes: Any = params.get("newly_manual_axes", params.get("manual_axes"))
    sharded: Callable[..., Any] = jax.shard_map(
        function,
        mesh=params["mesh"],
        in_specs=given,
        out_specs=found,
        axis_names=axes,
        check_vma=params["check_vma"],
    )
    return sharded


def _placed(x: Any, eqn: JaxprEqn, spec: Any) -> Any:
    """An array, sharded over explicit axes of a mesh as the function of shards takes it."""
    if explicit_mesh([x]) is None:
        return x
    entries = (*spec, *[None] * (x.ndim - len(spec)))
    return reshard(x, eqn.params["mesh"], entries)


@dataclass(frozen=True)
class _Operand:
    """How an operand comes to a device.

    Attributes:
        specs: Of its arrays.
        cut: The spec by which its shard is cut out of the whole there; None where it is there.
        sizes: Of the mesh.
    """

    specs: Sequence[Any]
    cut: Any
    sizes: Sizes

    @classmethod
    def of(cls, kind: ImplicitAval | None, spec: Any, sizes: Sizes) -> _Operand:
        """An operand that is to be sharded; as its arrays, if these shard as it does."""
        if kind is None:
            return cls([spec], None, sizes)
        found = Partition.of(kind, spec, sizes)
        if found.is_exact():
            return cls(found.partition_specs(), None, sizes)
        whole: Any = PartitionSpec
        return cls([whole()] * kind.count, found.spec, sizes)

    def shard(self, x: Any) -> Any:
        """This device's shard: a slice, for which an implicit array may have a handler."""
        if self.cut is None:
            return x
        lengths, starts = list(x.shape), [jnp.int32(0)] * x.ndim
        for axis, entry in enumerate(self.cut):
            if axes := axes_of(entry):
                lengths[axis] //= math.prod(self.sizes[name] for name in axes)
                starts[axis] = lax.axis_index(axes).astype("int32") * np.int32(lengths[axis])

        def cut(x: Any, *starts: Any) -> Any:
            return lax.dynamic_slice(x, starts, lengths)

        return called(cut, (x, *starts), {})
