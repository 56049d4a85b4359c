"""Implicit arrays over a mesh: the shardings of their fields, and the arrays of the fields' shards.

A class defines how its fields are sharded when the dense array is (``field_specs``). A mesh axis
that does not divide all fields that it would shard, shards no field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import is_implicit
from graphc.implicit.partition import Spec, leaf_specs, stack_specs
from graphc.implicit.policy import densify
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.link.jax.explicit import axes_of, entry_of, spec_of
from graphc.link.jax.implicit.avals import ImplicitAval, element
from graphc.link.jax.varying import vary, varying_axes

Sizes = Mapping[Any, int]
"""The number of devices along each axis of a mesh."""


@dataclass(frozen=True)
class Partition:
    """The sharding of an implicit array.

    Attributes:
        kind: The abstract value of the array.
        spec: The partition spec of the dense array, with an entry for each axis.
        leaves: The specs of the fields.
        sizes: The number of devices along each axis of the mesh.
    """

    kind: ImplicitAval
    spec: Spec
    leaves: tuple[Spec, ...]
    sizes: Sizes

    @classmethod
    def of(cls, kind: ImplicitAval, spec: Sequence[Any], sizes: Sizes) -> Partition:
        """Return the partition of an array with a spec, as far as mesh axes divide lengths."""
        dense = kind.like()
        full_spec = _pad_spec(spec, dense.ndim)
        even_spec = full_spec
        while True:
            leaves = _leaf_specs(kind, dense, even_spec)
            uneven = {axis for axes in _uneven_axes(kind, leaves, sizes) for axis in axes}
            if not uneven:
                return cls(kind, full_spec, tuple(leaves), sizes)
            even_spec = tuple(_remove_axes(entry, uneven) for entry in even_spec)

    def shard(self) -> ImplicitAval:
        """Return the abstract value of the fields' shards."""
        pairs = zip(self.kind.avals, self.leaves, strict=True)
        avals = tuple(
            jax.core.ShapedArray(_shard_shape(aval.shape, spec, self.sizes), aval.dtype)
            for aval, spec in pairs
        )
        return ImplicitAval(self.kind.treedef, avals)

    def is_exact(self) -> bool:
        """Return whether the fields' shards are the fields of the dense array's shard."""
        shape: Any = lengths_of(self.kind.like())
        if any(n % _count(entry, self.sizes) for n, entry in zip(shape, self.spec, strict=True)):
            return False
        return bool(_shape_of(self.shard()) == _shard_shape(shape, self.spec, self.sizes))

    def partition_specs(self) -> list[Any]:
        """Return JAX's specs of the fields."""
        pspec: Any = PartitionSpec
        return [pspec(*spec) for spec in self.leaves]


def _pad_spec(spec: Sequence[Any], ndim: int) -> Spec:
    entries = tuple(spec)
    return (*entries, *[None] * (ndim - len(entries)))


def _leaf_specs(kind: ImplicitAval, dense: Any, spec: Spec) -> list[Spec]:
    """Return the specs of the fields: of a stack along its leading axis if the class has none."""

    def is_stack() -> bool:
        (length, *others) = {aval.shape[:1] for aval in kind.avals} or {()}
        return bool(length and not others and element(kind, *length))

    return stack_specs(spec, leaf_specs(dense, spec), is_stack)


def _uneven_axes(
    kind: ImplicitAval, leaves: Sequence[Spec], sizes: Sizes
) -> Iterator[tuple[Any, ...]]:
    """Yield the mesh axes of each entry that does not divide the length of its axis."""
    for aval, spec in zip(kind.avals, leaves, strict=True):
        for n, entry in zip(aval.shape, spec, strict=True):
            if n % _count(entry, sizes):
                yield axes_of(entry)


def _remove_axes(entry: Any, axes: set[Any]) -> Any:
    own = axes_of(entry)
    return entry if axes.isdisjoint(own) else entry_of([x for x in own if x not in axes])


def _count(entry: Any, sizes: Sizes) -> int:
    """Return the number of shards along an axis."""
    return math.prod(sizes.get(axis, 1) for axis in axes_of(entry))


def _shard_shape(shape: Sequence[Any], spec: Spec, sizes: Sizes) -> tuple[int, ...]:
    return tuple(n // _count(entry, sizes) for n, entry in zip(shape, spec, strict=True))


def _full_shape(shape: Sequence[Any], spec: Spec, sizes: Sizes) -> tuple[int, ...]:
    return tuple(n * _count(entry, sizes) for n, entry in zip(shape, spec, strict=True))


def _shape_of(kind: ImplicitAval) -> Any:
    """Return the shape of the dense array; None if the fields do not fit together."""
    try:
        return lengths_of(kind.like())
    except ImplicitArrayError:
        return None


def unshard(kind: ImplicitAval, spec: Sequence[Any], sizes: Sizes) -> Partition | None:
    """Return the partition that has given shards; None if they are not shards of one array.

    Args:
        kind: The abstract value of each device's shard.
        spec: The partition spec of the dense array.
        sizes: The number of devices along each axis of the mesh.
    """
    shard = kind.like()
    full_spec = _pad_spec(spec, shard.ndim)
    leaves = tuple(_leaf_specs(kind, shard, full_spec))
    for aval, leaf in zip(kind.avals, leaves, strict=True):
        # Devices that share a field must have equal arrays.
        axes = {axis for entry in full_spec for axis in axes_of(entry)}
        if varying_axes(aval) & axes - {axis for entry in leaf for axis in axes_of(entry)}:
            return None
    avals = tuple(
        jax.core.ShapedArray(_full_shape(aval.shape, leaf, sizes), aval.dtype)
        for aval, leaf in zip(kind.avals, leaves, strict=True)
    )
    partition = Partition(ImplicitAval(kind.treedef, avals), full_spec, leaves, sizes)
    lengths: Any = lengths_of(shard)
    is_one_array = _shape_of(partition.kind) == _full_shape(lengths, full_spec, sizes)
    return partition if is_one_array else None


def aval_of(x: Any) -> Any:
    """Return the type of an array, or of the dense array that an implicit array represents.

    The sharding over explicit axes of a mesh, and the axes that the array varies over within
    ``jax.shard_map``, follow from the fields.
    """
    if not is_implicit(x):
        return jax.typeof(x)
    treedef, leaves = Treedef.of(x)
    avals = [jax.typeof(leaf) for leaf in leaves]
    on_mesh = [leaf for leaf, aval in zip(leaves, avals, strict=True) if not _is_plain(aval)]
    if not on_mesh:
        return jax.core.ShapedArray(x.shape, x.dtype)
    spec = explicit_spec(ImplicitAval(treedef, tuple(avals)), x.ndim)
    if spec is None:
        # The sharding of the dense array is found by tracing its computation.
        (aval,) = jax.make_jaxpr(partial(densify))(x).out_avals
        return aval
    kind = jax.typeof(vary(on_mesh[0], varying_axes(*leaves)))
    pspec: Any = PartitionSpec
    sharding = NamedSharding(kind.sharding.mesh, pspec(*spec))
    return kind.update(shape=x.shape, dtype=x.dtype, weak_type=False, sharding=sharding)


def _is_plain(aval: Any) -> bool:
    return bool(jax.core.ShapedArray(aval.shape, aval.dtype, aval.weak_type) == aval)


def explicit_spec(kind: ImplicitAval, ndim: int) -> Spec | None:
    """Return the spec of the dense array over explicit axes of a mesh, given its fields' specs.

    The spec is None if fields are sharded and the class defines no corresponding axis of the array.
    """
    specs = [spec_of(aval) for aval in kind.avals]
    entries = list(dict.fromkeys(entry for spec in specs for entry in spec if axes_of(entry)))
    dense, dense_spec, used = kind.like(), [None] * ndim, set[Any]()
    for axis in range(ndim):
        for entry in entries:
            single = tuple(entry if i == axis else None for i in range(ndim))
            if used.isdisjoint(axes_of(entry)) and _agree(leaf_specs(dense, single), specs):
                dense_spec[axis] = entry
                used.update(axes_of(entry))
                break
    return tuple(dense_spec) if used or not entries else None


def _agree(expected: Sequence[Spec], specs: Sequence[Spec]) -> bool:
    """Return whether the specs have all sharded entries of the expected specs, and these exist."""
    pairs = [
        (a, b)
        for expected_spec, spec in zip(expected, specs, strict=True)
        for a, b in zip(expected_spec, spec, strict=True)
        if axes_of(a)
    ]
    return bool(pairs) and all(a == b for a, b in pairs)


# For users: trees of shardings and specs.


def shardings(tree: Any, sharding: Any) -> Any:
    """Return the shardings of a tree's arrays: see ``graphc.implicit.shardings``."""
    return _map_arrays(tree, sharding, lambda x, entry: field_shardings(_kind(x), entry))


def device_put(tree: Any, sharding: Any) -> Any:
    """Move a tree to devices: see ``graphc.implicit.device_put``."""
    return jax.device_put(tree, shardings(tree, sharding))


def partition_specs(tree: Any, spec: Any, mesh: Any = None) -> Any:
    """Return the specs of a tree's arrays: see ``graphc.implicit.partition_specs``."""
    sizes = dict((jax.sharding.get_abstract_mesh() if mesh is None else mesh).shape)

    def field_specs(x: Any, spec: Any) -> list[Any]:
        partition = Partition.of(_kind(x), spec, sizes)
        if not partition.is_exact():
            raise ImplicitArrayError(
                f"partition_specs: {x!r} sharded as {spec} over {sizes}.",
                "Shards of its fields are not the fields of its shard. Shard other axes, or "
                "replicate the array, with PartitionSpec().",
            )
        return partition.partition_specs()

    return _map_arrays(tree, spec, field_specs)


def _kind(x: Any) -> ImplicitAval:
    treedef, leaves = Treedef.of(x)
    avals = tuple(jax.core.ShapedArray(lengths_of(leaf), dtype_of(leaf)) for leaf in leaves)
    return ImplicitAval(treedef, avals)


def can_shard(device: Any) -> bool:
    """Return whether a device or sharding determines the shardings of implicit arrays' fields."""
    is_sharding = isinstance(device, jax.sharding.Sharding)
    return not is_sharding or device.is_fully_replicated or isinstance(device, NamedSharding)


def field_shardings(kind: ImplicitAval, sharding: Any) -> list[Any]:
    """Return the shardings of the fields of an implicit array."""
    if not isinstance(sharding, NamedSharding):
        return [sharding] * kind.count
    partition = Partition.of(kind, tuple(sharding.spec), dict(sharding.mesh.shape))
    memory = sharding.memory_kind
    return [
        NamedSharding(sharding.mesh, spec, memory_kind=memory)
        for spec in partition.partition_specs()
    ]


def _map_arrays(tree: Any, prefix: Any, field_entries: Any) -> Any:
    """Return a tree with the prefix's entry for each dense array, and ``field_entries`` else."""

    def map_subtree(entry: Any, subtree: Any) -> Any:
        def of_array(x: Any) -> Any:
            if not is_implicit(x):
                return entry
            return jax.tree.unflatten(jax.tree.structure(x), field_entries(x, entry))

        return jax.tree.map(of_array, subtree, is_leaf=is_implicit)

    entries = PartitionSpec | jax.sharding.Sharding | jax.Device
    return jax.tree.map(map_subtree, prefix, tree, is_leaf=lambda x: isinstance(x, entries))
