"""Handlers of arrays that are sharded over explicit axes of a mesh.

JAX asks what the sharding of a result is where it is ambiguous, as of a reshape or a gather. What
is computed of the fields of an implicit array is run as if the axes were automatic: XLA finds how
to compute it, and the results are sharded as those of the whole array would be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from graphc.implicit.array import ImplicitArray
from graphc.implicit.policy import deferred_reports
from graphc.implicit.treedef import Treedef
from graphc.link.jax.explicit import explicit_axes, explicit_mesh, spec_of
from graphc.link.jax.implicit.avals import ImplicitAval, ImplicitAvals, flatten, unflatten
from graphc.link.jax.implicit.partition import Partition, explicit_spec

Results = Sequence[Any]


def handled(call: Callable[..., Any], operands: Sequence[Any], avals: Sequence[Any]) -> Any:
    """A handler's results, with explicit axes automatic unless classes of operands know better.

    Args:
        call: The handler as a function of operands, to a sequence or NotImplemented.
        operands: Arrays, some implicit.
        avals: The types of the results of the whole arrays.
    """
    if all(_knows(x) for x in operands if isinstance(x, ImplicitArray)):
        return call(*operands)
    mesh = explicit_mesh(flatten(operands)[0])
    if mesh is None:
        return call(*operands)
    return _automatic(call, mesh, operands, [spec_of(aval) for aval in avals])


def _knows(x: ImplicitArray) -> bool:
    cls = type(x)
    return cls.keeps_shardings or cls.stands_aside


def opened(materialize: Callable[[Any], Any], x: ImplicitArray) -> Any:
    """An array with one layer less, made with explicit axes automatic."""
    treedef, leaves = Treedef.of(x)
    leaves = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    mesh = explicit_mesh(leaves)
    if mesh is None:
        return materialize(x)
    kind = ImplicitAval(treedef, tuple(map(jax.typeof, Treedef.of(x)[1])))
    spec = explicit_spec(kind, x.ndim) or (None,) * x.ndim
    (y,) = _automatic(lambda x: [materialize(x)], mesh, [x], [spec])
    return y


def _automatic(
    call: Callable[..., Any], mesh: Any, operands: Sequence[Any], specs: Sequence[Any]
) -> Any:
    leaves, kinds = flatten(operands)
    axes = tuple(explicit_axes(mesh))
    named: Any = PartitionSpec
    tried: list[ImplicitAvals | None] = []

    def attempt(*values: Any) -> Any:
        found = call(*unflatten(kinds, values))
        tried.append(None if found is NotImplemented else flatten(found)[1])
        return jnp.int32(0)

    def run(*values: Any) -> list[Any]:
        return flatten(call(*unflatten(kinds, values)))[0]

    def automatic(function: Callable[..., Any], sharding: Any) -> Callable[..., Any]:
        made: Callable[..., Any] = jax.sharding.auto_axes(
            function, axes=axes, out_sharding=sharding
        )
        return made

    with deferred_reports():
        jax.eval_shape(automatic(attempt, NamedSharding(mesh, named())), *leaves)
    made = tried[-1]
    if made is None:
        return NotImplemented
    shardings = []
    for kind, spec in zip(made, specs, strict=True):
        each = [spec] if kind is None else Partition.of(kind, spec, dict(mesh.shape)).leaves
        shardings += [NamedSharding(mesh, named(*entries)) for entries in each]
    return unflatten(made, automatic(run, shardings)(*leaves))
