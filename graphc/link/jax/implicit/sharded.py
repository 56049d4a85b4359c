"""``shard_map`` and constraints of shardings with implicit operands, whose fields are sharded.

A function of shards gets implicit shards where shards of the fields are those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import JaxprEqn
from jax.sharding import NamedSharding, PartitionSpec

from graphc.link.jax.implicit.avals import ImplicitAvals, flatten, unflatten
from graphc.link.jax.implicit.calls import placed
from graphc.link.jax.implicit.interpreter import inline, materialized_for, rule, used_results
from graphc.link.jax.implicit.partition import (
    Partition,
    Sizes,
    can_shard,
    field_shardings,
    joined,
)
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
    parts = [
        _divided(eqn, x, spec, sizes)
        for x, spec in zip(operands, eqn.params["in_specs"], strict=True)
    ]
    leaves, kinds = flatten([x for x, _ in parts])
    given = tuple(spec for _, specs in parts for spec in specs)
    used = used_results(eqn)
    program = closed(eqn.params["jaxpr"])

    def results(values: Sequence[Any]) -> list[Any]:
        found = inline(program, unflatten(kinds, values), used)
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
    whole = [kind and joined(kind, spec, sizes) for kind, spec in pairs]

    def run(*values: Any) -> tuple[Any, ...]:
        pairs = zip(whole, results(values), strict=True)
        return tuple(flatten([y if part else materialized_for(y, eqn) for part, y in pairs])[0])

    found_specs = tuple(
        said
        for part, spec in zip(whole, out_specs, strict=True)
        for said in ([spec] if part is None else part.partition_specs())
    )
    found = _sharded(eqn, run, given, found_specs)(*leaves)
    return placed(used, unflatten(tuple(part and part.kind for part in whole), found))


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


def _divided(eqn: JaxprEqn, x: Any, spec: Any, sizes: Sizes) -> tuple[Any, list[Any]]:
    """An operand, whole if its arrays do not shard as it does, and the specs of its arrays."""
    (kind,) = flatten([x])[1]
    if kind is None:
        return x, [spec]
    found = Partition.of(kind, spec, sizes)
    return (x, found.partition_specs()) if found.is_exact() else (materialized_for(x, eqn), [spec])
