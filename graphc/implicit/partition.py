"""Implicit arrays over meshes of JAX's: how their fields are sharded where the whole is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from graphc.errors import ImplicitArrayError, ShardingError
from graphc.implicit.array import ImplicitArray, fields_of
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.stacks import element
from graphc.implicit.treedef import Treedef, declares_implicit, dtype_of, lengths_of
from graphc.ir import OPEN, Node, Sharding, TensorType, dtype_name
from graphc.ir.sharding import (
    check_default,
    declared_sharding,
    names_in,
    shown,
    value_sharding,
)
from graphc.tensor.core.sharding import Shard
from graphc.tensor.core.tensor import Tensor

Entry = Any
"""What an axis is sharded over: None, the name of an axis of the mesh, or a tuple of names."""

Spec = tuple[Entry, ...]
"""An entry for each axis of an array."""

Revise = Callable[[ImplicitArray, Spec, list[Spec]], list[Spec]]
"""A function of an implicit array, its spec and those of its arrays to better ones of these."""


def leaf_specs(x: ImplicitArray, spec: Spec, revise: Revise | None = None) -> list[Spec]:
    """The spec of each array in the fields of an implicit array, in order.

    Args:
        x: An implicit array, of arrays or types.
        spec: That of the whole; entries that are left out at its end are None.
        revise: Called for it, and for those nested in it.

    Raises:
        ImplicitArrayError: It has more entries than the array has axes, or the class gives specs
            of fields that do not exist, or that have fewer axes.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LowRank
        >>> leaf_specs(LowRank(np.ones((4, 1)), np.ones((1, 5))), ("data",))
        [('data', None), (None, None)]
    """
    padded = _padded(x, spec)
    given = x.field_specs(padded)
    fields = fields_of(x)
    if not given.keys() <= fields.keys():
        raise ImplicitArrayError(
            f"{type(x).__name__}.field_specs gave specs of {', '.join(given)}; its fields with "
            f"arrays are {', '.join(fields)}.",
            "Name fields that hold arrays.",
        )
    found = [
        leaf
        for name, part in fields.items()
        for leaf in _of_part(part, tuple(given.get(name, ())), revise)
    ]
    return found if revise is None else revise(x, padded, found)


def _of_part(part: Any, spec: Spec, revise: Revise | None) -> Iterator[Spec]:
    """The specs of the arrays in a field."""
    if isinstance(part, Node) and declares_implicit(nested := getattr(part, "array", None)):
        part = nested
    if isinstance(part, tuple | list):
        for each in part:
            yield from _of_part(each, spec, revise)
    elif isinstance(part, ImplicitArray):
        yield from leaf_specs(part, spec, revise)
    elif part is not None:
        yield _padded(part, spec)


def _padded(x: Any, spec: Spec) -> Spec:
    ndim = len(lengths_of(x))
    if len(spec) > ndim:
        raise ImplicitArrayError(
            f"The spec {spec} of {x!r} has {len(spec)} entries, and the array {ndim} axes.",
            "Give an entry for each axis.",
        )
    return (*spec, *[None] * (ndim - len(spec)))


# In graphs, where all that is declared is kept, or is an error.


def value_shardings(x: ImplicitArray, given: Any, subject: str) -> list[Sharding]:
    """The sharding of each array of an implicit array whose values come from outside.

    Args:
        x: An implicit array, of arrays or types.
        given: What the user gave as the sharding of the whole.
        subject: The array, in messages.

    Raises:
        ShardingError: As of ``value_sharding``; or its class cannot be divided so.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Kronecker
        >>> value_shardings(Kronecker(np.ones((4, 2)), np.ones((3, 3))), ("data",), "w")
        [('data', None), (None, None)]
    """
    return _of_fields(x, value_sharding(given, lengths_of(x), subject), subject)


def constrained(x: ImplicitArray, given: Any, subject: str) -> Any:
    """An implicit array of a graph, whose arrays are sharded as declared of the whole.

    Raises:
        ShardingError: As of ``declared_sharding``; or its class cannot be divided so.
    """
    spec = declared_sharding(given, lengths_of(x), subject)
    treedef, fields = Treedef.of(x)
    role = role_of(x, spec)
    pairs = zip(fields, _of_fields(x, spec, subject), strict=True)
    return treedef.build([Tensor.make(Shard(own, role), field) for field, own in pairs])


def role_of(x: ImplicitArray, spec: Sharding) -> str:
    """What the fields of an implicit array are, in messages about their shardings."""
    return f"a field of {type(x).__name__} with sharding={shown(spec)}"


def _of_fields(x: ImplicitArray, spec: Sharding, subject: str) -> list[Sharding]:
    # Of two axes that divide one field the one with a name counts.
    named = tuple(None if entry == OPEN else entry for entry in spec)
    found = leaf_specs(x, named, lambda part, own, leaves: _divided(part, own, leaves, subject))
    if OPEN in spec:
        left = leaf_specs(x, tuple(OPEN if entry == OPEN else None for entry in spec))
        found = [
            tuple(own if own is not None else other for own, other in zip(*pair, strict=True))
            for pair in zip(found, left, strict=True)
        ]
    treedef, leaves = Treedef.of(x)
    for name, leaf, own in zip(treedef.paths("its field "), leaves, found, strict=True):
        check_default(own, lengths_of(leaf), f"{subject}, {name.replace(' .', ' ')}")
    return found


def _divided(x: ImplicitArray, spec: Spec, found: list[Spec], subject: str) -> list[Spec]:
    """The specs of its arrays, in which all that divides the array divides one of them.

    Raises:
        ShardingError: Something divides none.
    """
    if not any(found):
        return found  # of numbers alone, which every device has
    leaves = _of_stack(x, spec, found)
    present = {name for leaf in leaves for entry in leaf for name in names_in(entry)}
    for axis, entry in enumerate(spec):
        if not present.issuperset(names_in(entry)):
            raise ShardingError(
                f"{subject}: sharding={shown(spec)} divides axis {axis} of {x!r} over {entry!r}, "
                f"and no field of a {type(x).__name__} can be divided so.",
                "Make that entry None, so that every device has the axis whole, or shard what is "
                "computed with the array.",
            )
    return leaves


def _of_stack(x: ImplicitArray, spec: Spec, found: list[Spec]) -> list[Spec]:
    """The specs of a stack's arrays along its leading axis, where its class does not say them."""
    named = [axis for axis, entry in enumerate(spec) if names_in(entry)]
    if named != [0] or any(names_in(entry) for leaf in found for entry in leaf):
        return found
    treedef, leaves = Treedef.of(x)
    types = tuple([TensorType(dtype_name(dtype_of(y)), lengths_of(y)) for y in leaves])
    if element(treedef, types) is None:
        return found
    return [(spec[0], *leaf[1:]) for leaf in found]


# Outside of graphs, where axes that do not divide fields are left out.


def shardings(tree: Any, sharding: Any) -> Any:
    """The shardings of a tree's arrays, where the implicit arrays in it are sharded as whole ones.

    JAX takes an implicit array for a container of its fields. What this returns is nested like
    that: for ``jax.device_put``, ``in_shardings`` of ``jax.jit``, and libraries that restore
    checkpoints.

    Args:
        tree: A nested container of arrays or of their types.
        sharding: A ``jax.sharding.NamedSharding``, for every array; or a tree of such, nested like
            the first part of the other, in which an implicit array is one leaf. Another sharding
            of JAX's, or a device, is for each field as it is.

    Returns:
        The tree, with a sharding in place of each array. Axes of the mesh that do not divide all
        fields that they would shard are left out: these are whole along them.

    Raises:
        ImplicitArrayError: A spec has more entries than an implicit array has axes.

    Example:
        >>> import jax, numpy as np
        >>> from jax.sharding import NamedSharding, PartitionSpec
        >>> from graphc.implicit import LoRA
        >>> mesh = jax.make_mesh((1, 1), ("data", "model"))
        >>> w = LoRA.of(np.ones((4, 6), "float32"), rank=2)
        >>> found = shardings(w, NamedSharding(mesh, PartitionSpec("data", "model")))
        >>> tuple(found.a.spec), tuple(found.b.spec)
        (('data', None), (None, 'model'))
    """
    return jax_arrays().shardings(tree, sharding)


def device_put(tree: Any, sharding: Any) -> Any:
    """Move arrays to devices, implicit ones among them as whole arrays are sharded.

    ``jax.device_put`` would give each field the sharding of the whole.

    Args:
        tree: A nested container of arrays.
        sharding: As of ``shardings``.

    Returns:
        The tree, of arrays of JAX's.

    Raises:
        ImplicitArrayError: As of ``shardings``.

    Example:
        >>> import jax, numpy as np
        >>> from jax.sharding import NamedSharding, PartitionSpec
        >>> from graphc.implicit import LoRA
        >>> mesh = jax.make_mesh((1, 1), ("data", "model"))
        >>> w = LoRA.of(np.ones((4, 6), "float32"), rank=2)
        >>> moved = device_put(w, NamedSharding(mesh, PartitionSpec(None, "model")))
        >>> tuple(moved.b.sharding.spec)
        (None, 'model')
    """
    return jax_arrays().device_put(tree, sharding)


def partition_specs(tree: Any, spec: Any, mesh: Any = None) -> Any:
    """The specs of a tree's arrays for ``jax.shard_map``, whose function gets implicit arrays.

    Within ``implicit`` this is not needed: there ``jax.shard_map`` takes the spec of the whole.

    Args:
        tree: A nested container of arrays or of their types.
        spec: A ``PartitionSpec`` for every array, or a tree of such as of ``shardings``.
        mesh: By default the one that ``jax.set_mesh`` set.

    Returns:
        The tree, with a ``PartitionSpec`` in place of each array.

    Raises:
        ImplicitArrayError: Shards of the fields of an implicit array are not the fields of its
            shard, as with the rows of a diagonal matrix; or as of ``shardings``.

    Example:
        >>> import jax, numpy as np
        >>> from jax.sharding import PartitionSpec
        >>> from graphc.implicit import Kronecker
        >>> mesh = jax.make_mesh((1,), ("data",))
        >>> w = Kronecker(np.ones((4, 2)), np.ones((3, 3)))
        >>> tuple(partition_specs(w, PartitionSpec("data"), mesh).left)
        ('data', None)
    """
    return jax_arrays().partition_specs(tree, spec, mesh)
