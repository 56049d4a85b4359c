"""``shard_map`` with implicit operands, sharded as their arrays where that is known.

It is where every device has all of it, and where it is a stack, sharded along the leading axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import JaxprEqn
from jax.sharding import PartitionSpec

from graphc.link.jax.implicit.avals import ImplicitAval, ImplicitAvals, flatten, unflatten
from graphc.link.jax.implicit.calls import placed
from graphc.link.jax.implicit.interpreter import inline, materialized_for, rule, used_results
from graphc.link.jax.implicit.stacks import element
from graphc.link.jax.implicit.transform import closed


@rule("shard_map")
def shard_map(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function of shards on each device of a mesh."""
    specs = eqn.params["in_specs"]
    pairs = zip(operands, specs, strict=True)
    leaves, kinds = flatten([_divisible(eqn, x, spec) for x, spec in pairs])
    given = _spread(kinds, specs)
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
    kept = tuple(kind if kind and _is_divisible(kind, spec) else None for kind, spec in pairs)

    def run(*values: Any) -> tuple[Any, ...]:
        pairs = zip(kept, results(values), strict=True)
        return tuple(flatten([y if kind else materialized_for(y, eqn) for kind, y in pairs])[0])

    found = _sharded(eqn, run, given, _spread(kept, out_specs))(*leaves)
    return placed(used, unflatten(kept, found))


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


def _divisible(eqn: JaxprEqn, x: Any, spec: Any) -> Any:
    """Keep an operand implicit if its arrays shard as the whole does, else make it whole."""
    (kind,) = flatten([x])[1]
    return x if kind is None or _is_divisible(kind, spec) else materialized_for(x, eqn)


def _is_divisible(kind: ImplicitAval, spec: Any) -> bool:
    named = [axis for axis, name in enumerate(spec) if name is not None]
    return not named or (named == [0] and _is_stack(kind))


def _is_stack(kind: ImplicitAval) -> bool:
    lengths = {aval.shape[:1] for aval in kind.avals}
    (length, *others) = lengths or {()}
    return bool(length) and not others and element(kind, *length) is not None


def _spread(kinds: ImplicitAvals, specs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the specs of the values' arrays; implicit ones shard along the leading axis."""
    said: list[Any] = []
    spec_of: Any = PartitionSpec
    for kind, spec in zip(kinds, specs, strict=True):
        said += [spec] if kind is None else [spec_of(*spec[:1])] * kind.count
    return tuple(said)
