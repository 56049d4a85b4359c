"""Handlers of arrays that are sharded over explicit axes of a mesh.

JAX asks for the sharding of a result where it is ambiguous, as of a reshape or a gather. Functions
of the fields of an implicit array run with automatic axes instead: XLA chooses how to compute them,
and the results are sharded as the fields of the sharded dense array.
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


def call_handler(call: Callable[..., Any], operands: Sequence[Any], avals: Sequence[Any]) -> Any:
    """Return a handler's results; explicit axes are automatic unless the classes keep shardings.

    Args:
        call: The handler, a function of operands that returns a sequence or NotImplemented.
        operands: Arrays, some implicit.
        avals: The types of the dense results.
    """
    classes = [type(x) for x in operands if isinstance(x, ImplicitArray)]
    if all(cls.keeps_shardings or cls.stands_aside for cls in classes):
        return call(*operands)
    mesh = explicit_mesh(flatten(operands)[0])
    if mesh is None:
        return call(*operands)
    return _automatic(call, mesh, operands, [spec_of(aval) for aval in avals])


def densify_layer(materialize: Callable[[Any], Any], x: ImplicitArray) -> Any:
    """Densify the outermost layer of an array, with explicit axes automatic."""
    treedef, leaves = Treedef.of(x)
    mesh = explicit_mesh([leaf for leaf in leaves if isinstance(leaf, jax.Array)])
    if mesh is None:
        return materialize(x)
    kind = ImplicitAval(treedef, tuple(map(jax.typeof, leaves)))
    spec = explicit_spec(kind, x.ndim) or (None,) * x.ndim
    (y,) = _automatic(lambda x: [materialize(x)], mesh, [x], [spec])
    return y


def _automatic(
    call: Callable[..., Any], mesh: Any, operands: Sequence[Any], specs: Sequence[Any]
) -> Any:
    leaves, kinds = flatten(operands)
    axes = tuple(explicit_axes(mesh))
    pspec: Any = PartitionSpec
    traced: list[ImplicitAvals | None] = []

    def find_kinds(*values: Any) -> Any:
        results = call(*unflatten(kinds, values))
        traced.append(None if results is NotImplemented else flatten(results)[1])
        return jnp.int32(0)

    def run(*values: Any) -> list[Any]:
        return flatten(call(*unflatten(kinds, values)))[0]

    def automatic(function: Callable[..., Any], sharding: Any) -> Any:
        return jax.sharding.auto_axes(function, axes=axes, out_sharding=sharding)

    with deferred_reports():
        jax.eval_shape(automatic(find_kinds, NamedSharding(mesh, pspec())), *leaves)
    result_kinds = traced[-1]
    if result_kinds is None:
        return NotImplemented
    shardings = []
    for kind, spec in zip(result_kinds, specs, strict=True):
        each = [spec] if kind is None else Partition.of(kind, spec, dict(mesh.shape)).leaves
        shardings += [NamedSharding(mesh, pspec(*entries)) for entries in each]
    return unflatten(result_kinds, automatic(run, shardings)(*leaves))
