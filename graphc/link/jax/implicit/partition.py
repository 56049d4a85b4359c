"""Implicit arrays over a mesh: the shardings of their fields, and what shards of these stand for.

A class says how its fields are sharded where the whole is (``field_specs``). Of mesh axes that do
not divide all fields that they would shard, none is.
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
from graphc.implicit.partition import Spec, leaf_specs
from graphc.implicit.policy import densify
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.link.jax.explicit import axes_of, entry_of, spec_of
from graphc.link.jax.implicit.avals import ImplicitAval
from graphc.link.jax.implicit.stacks import element
from graphc.link.jax.varying import vary, varying_axes

Sizes = Mapping[Any, int]
"""How many devices there are along each axis of a mesh."""


@dataclass(frozen=True)
class Partition:
    """How an implicit array is sharded.

    Attributes:
        kind: The whole.
        spec: How it is to be sharded; an entry for each axis.
        leaves: The specs of its arrays.
        sizes: Of the mesh.
    """

    kind: ImplicitAval
    spec: Spec
    leaves: tuple[Spec, ...]
    sizes: Sizes

    @classmethod
    def of(cls, kind: ImplicitAval, spec: Sequence[Any], sizes: Sizes) -> Partition:
        """The partition of an array by a spec of the whole, as far as lengths divide."""
        whole = kind.like()
        entries = tuple(spec)
        wanted = (*entries, *[None] * (whole.ndim - len(entries)))
        kept = wanted
        while True:
            leaves = _leaves(kind, whole, kept, sizes)
            uneven = {axis for axes in _uneven(kind, leaves, sizes) for axis in axes}
            if not uneven:
                return cls(kind, wanted, tuple(leaves), sizes)
            kept = tuple(_without(entry, uneven) for entry in kept)

    def shard(self) -> ImplicitAval:
        """What the shards of the arrays are together."""
        pairs = zip(self.kind.avals, self.leaves, strict=True)
        avals = tuple(
            jax.core.ShapedArray(_divided(aval.shape, spec, self.sizes), aval.dtype)
            for aval, spec in pairs
        )
        return ImplicitAval(self.kind.treedef, avals)

    def is_exact(self) -> bool:
        """Whether shards of the arrays are the fields of the shard of the whole."""
        shape: Any = lengths_of(self.kind.like())
        if any(n % _count(entry, self.sizes) for n, entry in zip(shape, self.spec, strict=True)):
            return False
        divided = _divided(shape, self.spec, self.sizes)
        return bool(_shape(self.shard()) == divided)

    def partition_specs(self) -> list[Any]:
        """The specs of the arrays."""
        named: Any = PartitionSpec
        return [named(*spec) for spec in self.leaves]


def _leaves(kind: ImplicitAval, whole: Any, spec: Spec, sizes: Sizes) -> list[Spec]:
    """The specs of arrays: as the class says, else of a stack along its leading axis."""
    found = leaf_specs(whole, spec)
    named = [axis for axis, entry in enumerate(spec) if axes_of(entry)]
    if named != [0] or any(axes_of(entry) for leaf in found for entry in leaf):
        return found
    (length, *others) = {aval.shape[:1] for aval in kind.avals} or {()}
    if others or not length or element(kind, *length) is None:
        return found
    return [(spec[0], *leaf[1:]) for leaf in found]


def _uneven(kind: ImplicitAval, leaves: Sequence[Spec], sizes: Sizes) -> Iterator[tuple[Any, ...]]:
    """The mesh axes of entries that do not divide the length of their axis."""
    for aval, spec in zip(kind.avals, leaves, strict=True):
        for n, entry in zip(aval.shape, spec, strict=True):
            if n % _count(entry, sizes):
                yield axes_of(entry)


def _without(entry: Any, axes: set[Any]) -> Any:
    """An entry without some mesh axes."""
    own = axes_of(entry)
    return entry if axes.isdisjoint(own) else entry_of([x for x in own if x not in axes])


def _count(entry: Any, sizes: Sizes) -> int:
    return math.prod(sizes.get(axis, 1) for axis in axes_of(entry))


def _divided(shape: Sequence[Any], spec: Spec, sizes: Sizes) -> tuple[int, ...]:
    return tuple(n // _count(entry, sizes) for n, entry in zip(shape, spec, strict=True))


def _shape(kind: ImplicitAval) -> Any:
    """The shape of what arrays of these types are together; None where they do not fit."""
    try:
        return lengths_of(kind.like())
    except ImplicitArrayError:
        return None


def joined(kind: ImplicitAval, spec: Sequence[Any], sizes: Sizes) -> Partition | None:
    """The partition whose shards are of a kind, with a spec of the whole; None where there is none.

    Args:
        kind: What each device has.
        spec: How it is a shard of the whole.
        sizes: Of the mesh.
    """
    shard = kind.like()
    wanted = (*spec, *[None] * (shard.ndim - len(tuple(spec))))
    leaves = tuple(_leaves(kind, shard, wanted, sizes))
    for aval, leaf in zip(kind.avals, leaves, strict=True):
        # What differs between devices that share a field cannot be that field.
        over = {axis for entry in wanted for axis in axes_of(entry)}
        if varying_axes(aval) & over - {axis for entry in leaf for axis in axes_of(entry)}:
            return None
    avals = tuple(
        jax.core.ShapedArray(
            tuple(n * _count(entry, sizes) for n, entry in zip(aval.shape, leaf, strict=True)),
            aval.dtype,
        )
        for aval, leaf in zip(kind.avals, leaves, strict=True)
    )
    made = Partition(ImplicitAval(kind.treedef, avals), wanted, leaves, sizes)
    lengths: Any = lengths_of(shard)
    shape = tuple(n * _count(entry, sizes) for n, entry in zip(lengths, wanted, strict=True))
    return made if _shape(made.kind) == shape else None


def aval_of(x: Any) -> Any:
    """Return the type of an array, or of the one that an implicit array represents.

    Its sharding over explicit axes of a mesh, and the axes that it varies over within
    ``jax.shard_map``, follow from those of its arrays.
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
        # As the whole array has it where it is made.
        (aval,) = jax.make_jaxpr(partial(densify))(x).out_avals
        return aval
    kind = jax.typeof(vary(on_mesh[0], varying_axes(*leaves)))
    named: Any = PartitionSpec
    sharding = NamedSharding(kind.sharding.mesh, named(*spec))
    return kind.update(shape=x.shape, dtype=x.dtype, weak_type=False, sharding=sharding)


def _is_plain(aval: Any) -> bool:
    return bool(jax.core.ShapedArray(aval.shape, aval.dtype, aval.weak_type) == aval)


def explicit_spec(kind: ImplicitAval, ndim: int) -> Spec | None:
    """How the whole is sharded over explicit axes of a mesh, as its arrays are.

    None where they are sharded and the class does not say of which axes of the whole.
    """
    own = [spec_of(aval) for aval in kind.avals]
    entries = list(dict.fromkeys(entry for spec in own for entry in spec if axes_of(entry)))
    whole, found, taken = kind.like(), [None] * ndim, set[Any]()
    for axis in range(ndim):
        for entry in entries:
            alone = tuple(entry if i == axis else None for i in range(ndim))
            if taken.isdisjoint(axes_of(entry)) and _agree(leaf_specs(whole, alone), own):
                found[axis] = entry
                taken.update(axes_of(entry))
                break
    return tuple(found) if taken or not entries else None


def _agree(said: Sequence[Spec], own: Sequence[Spec]) -> bool:
    """Whether arrays are sharded wherever the specs of an axis say so, and one is."""
    pairs = [
        (a, b)
        for spec, other in zip(said, own, strict=True)
        for a, b in zip(spec, other, strict=True)
        if axes_of(a)
    ]
    return bool(pairs) and all(a == b for a, b in pairs)


# For users: trees of shardings and specs.


def shardings(tree: Any, sharding: Any) -> Any:
    """The shardings of a tree's arrays: see ``graphc.implicit.shardings``."""
    return _spread(tree, sharding, lambda x, said: field_shardings(_kind(x), said))


def device_put(tree: Any, sharding: Any) -> Any:
    """A tree moved to devices: see ``graphc.implicit.device_put``."""
    return jax.device_put(tree, shardings(tree, sharding))


def partition_specs(tree: Any, spec: Any, mesh: Any = None) -> Any:
    """The specs of a tree's arrays: see ``graphc.implicit.partition_specs``."""
    sizes = dict((jax.sharding.get_abstract_mesh() if mesh is None else mesh).shape)

    def of_fields(x: Any, spec: Any) -> list[Any]:
        found = Partition.of(_kind(x), spec, sizes)
        if not found.is_exact():
            raise ImplicitArrayError(
                f"partition_specs: {x!r} sharded as {spec} over {sizes}.",
                "Shards of its fields are not the fields of its shard. Shard other axes, or pass "
                "it whole, with PartitionSpec().",
            )
        return found.partition_specs()

    return _spread(tree, spec, of_fields)


def _kind(x: Any) -> ImplicitAval:
    treedef, leaves = Treedef.of(x)
    avals = tuple(jax.core.ShapedArray(lengths_of(leaf), dtype_of(leaf)) for leaf in leaves)
    return ImplicitAval(treedef, avals)


def can_shard(device: Any) -> bool:
    """Whether it is known how the fields of an implicit array are on devices where the whole is."""
    is_sharding = isinstance(device, jax.sharding.Sharding)
    return not is_sharding or device.is_fully_replicated or isinstance(device, NamedSharding)


def field_shardings(kind: ImplicitAval, sharding: Any) -> list[Any]:
    """The shardings of the arrays of an implicit array."""
    if not isinstance(sharding, NamedSharding):
        return [sharding] * kind.count
    found = Partition.of(kind, tuple(sharding.spec), dict(sharding.mesh.shape))
    memory = sharding.memory_kind
    return [
        NamedSharding(sharding.mesh, spec, memory_kind=memory) for spec in found.partition_specs()
    ]


def _spread(tree: Any, prefix: Any, of_fields: Any) -> Any:
    """A tree with what a prefix says of each array, of implicit ones as a function says."""

    def below(said: Any, part: Any) -> Any:
        def one(x: Any) -> Any:
            if not is_implicit(x):
                return said
            return jax.tree.unflatten(jax.tree.structure(x), of_fields(x, said))

        return jax.tree.map(one, part, is_leaf=is_implicit)

    return jax.tree.map(below, prefix, tree, is_leaf=_is_said)


def _is_said(x: Any) -> bool:
    return isinstance(x, PartitionSpec | jax.sharding.Sharding | jax.Device)
