"""Implicit arrays over JAX meshes: how fields are sharded if the array is sharded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
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
"""The sharding of one axis: None, the name of an axis of the mesh, or a tuple of names."""

Spec = tuple[Entry, ...]
"""An entry for each axis of an array."""

Revise = Callable[[ImplicitArray, Spec, list[Spec]], list[Spec]]
"""A function from an implicit array, its spec and its arrays' specs to revised arrays' specs."""


def leaf_specs(x: ImplicitArray, spec: Spec, revise: Revise | None = None) -> list[Spec]:
    """Return the spec of each array in the fields of an implicit array, in order.

    Args:
        x: An implicit array, of arrays or types.
        spec: The spec of the implicit array; missing entries at the end are None.
        revise: Called for the array and for the implicit arrays nested in it.

    Raises:
        ImplicitArrayError: If the spec has more entries than the array has axes, or the class
            returns specs of fields that do not exist or that have fewer axes.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LowRank
        >>> leaf_specs(LowRank(np.ones((4, 1)), np.ones((1, 5))), ("data",))
        [('data', None), (None, None)]
    """
    padded = _pad(x, spec)
    field_specs = x.field_specs(padded)
    fields = fields_of(x)
    if not field_specs.keys() <= fields.keys():
        raise ImplicitArrayError(
            f"{type(x).__name__}.field_specs gave specs of {', '.join(field_specs)}; its fields "
            f"with arrays are {', '.join(fields)}.",
            "Name fields that hold arrays.",
        )
    specs = [
        leaf
        for name, field in fields.items()
        for leaf in _specs_of_field(field, tuple(field_specs.get(name, ())), revise)
    ]
    return specs if revise is None else revise(x, padded, specs)


def _specs_of_field(field: Any, spec: Spec, revise: Revise | None) -> Iterator[Spec]:
    if isinstance(field, Node) and declares_implicit(nested := getattr(field, "array", None)):
        field = nested
    if isinstance(field, tuple | list):
        for item in field:
            yield from _specs_of_field(item, spec, revise)
    elif isinstance(field, ImplicitArray):
        yield from leaf_specs(field, spec, revise)
    elif field is not None:
        yield _pad(field, spec)


def _pad(x: Any, spec: Spec) -> Spec:
    ndim = len(lengths_of(x))
    if len(spec) > ndim:
        raise ImplicitArrayError(
            f"The spec {spec} of {x!r} has {len(spec)} entries, and the array {ndim} axes.",
            "Give an entry for each axis.",
        )
    return (*spec, *[None] * (ndim - len(spec)))


# In graphs, where every declared sharding is kept or is an error.


def value_shardings(x: ImplicitArray, given: Any, subject: str) -> list[Sharding]:
    """Return the sharding of each array of an implicit input or shared variable.

    Args:
        x: An implicit array, of arrays or types.
        given: The user's sharding of the implicit array.
        subject: The name of the array in messages.

    Raises:
        ShardingError: If ``value_sharding`` raises it, or the class cannot be sharded so.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Kronecker
        >>> value_shardings(Kronecker(np.ones((4, 2)), np.ones((3, 3))), ("data",), "w")
        [('data', None), (None, None)]
    """
    return _field_shardings(x, value_sharding(given, lengths_of(x), subject), subject)


def constrain_fields(x: ImplicitArray, given: Any, subject: str) -> Any:
    """Return an implicit array whose arrays have the shardings that follow from its own.

    Raises:
        ShardingError: If ``declared_sharding`` raises it, or the class cannot be sharded so.
    """
    spec = declared_sharding(given, lengths_of(x), subject)
    treedef, fields = Treedef.of(x)
    role = role_of(x, spec)
    pairs = zip(fields, _field_shardings(x, spec, subject), strict=True)
    return treedef.build([Tensor.make(Shard(own, role), field) for field, own in pairs])


def role_of(x: ImplicitArray, spec: Sharding) -> str:
    """Return the description of an array's fields in messages about their shardings."""
    return f"a field of {type(x).__name__} with sharding={shown(spec)}"


def _field_shardings(x: ImplicitArray, spec: Sharding, subject: str) -> list[Sharding]:
    # If two axes of the array shard one axis of a field, the entry with a name wins.
    named = tuple(None if entry == OPEN else entry for entry in spec)
    specs = leaf_specs(x, named, lambda part, own, leaves: _complete(part, own, leaves, subject))
    if OPEN in spec:
        open_specs = leaf_specs(x, tuple(OPEN if entry == OPEN else None for entry in spec))
        specs = [
            tuple(own if own is not None else other for own, other in zip(*pair, strict=True))
            for pair in zip(specs, open_specs, strict=True)
        ]
    treedef, leaves = Treedef.of(x)
    for name, leaf, own in zip(treedef.paths("its field "), leaves, specs, strict=True):
        check_default(own, lengths_of(leaf), f"{subject}, {name.replace(' .', ' ')}")
    return specs


def _complete(x: ImplicitArray, spec: Spec, specs: list[Spec], subject: str) -> list[Spec]:
    """Return the specs of the arrays, which contain every mesh axis of the array's spec.

    Raises:
        ShardingError: If a mesh axis shards no field.
    """
    if not any(specs):
        return specs  # all fields are 0-d, and every device has them
    leaves = stack_specs(spec, specs, partial(_is_stack, x))
    present = {name for leaf in leaves for entry in leaf for name in names_in(entry)}
    for axis, entry in enumerate(spec):
        if not present.issuperset(names_in(entry)):
            raise ShardingError(
                f"{subject}: sharding={shown(spec)} divides axis {axis} of {x!r} over {entry!r}, "
                f"and no field of a {type(x).__name__} can be divided so.",
                "Make that entry None, so that the axis is replicated, or shard the results of "
                "operations on the array.",
            )
    return leaves


def _is_stack(x: ImplicitArray) -> bool:
    treedef, leaves = Treedef.of(x)
    types = tuple([TensorType(dtype_name(dtype_of(y)), lengths_of(y)) for y in leaves])
    return element(treedef, types) is not None


def stack_specs(spec: Spec, specs: list[Spec], is_stack: Callable[[], bool]) -> list[Spec]:
    """Shard a stack's arrays along the leading axis if its class does not define their specs."""
    replicated = (None, (), OPEN)
    sharded = [axis for axis, entry in enumerate(spec) if entry not in replicated]
    has_own = any(entry not in replicated for leaf in specs for entry in leaf)
    if sharded != [0] or has_own or not is_stack():
        return specs
    return [(spec[0], *leaf[1:]) for leaf in specs]


# Outside of graphs, where fields that cannot be divided are replicated.


def shardings(tree: Any, sharding: Any) -> Any:
    """Return the shardings of a tree's arrays, with implicit arrays sharded as dense ones.

    To JAX an implicit array is a container of its fields. The result is nested like that container:
    for ``jax.device_put``, ``in_shardings`` of ``jax.jit``, and libraries that restore checkpoints.

    Args:
        tree: A nested container of arrays or of their types.
        sharding: A ``jax.sharding.NamedSharding`` for every array; or a tree of these, nested like
            the first part of the other tree, in which an implicit array is one leaf. A JAX sharding
            of another class, or a device, applies to each field unchanged.

    Returns:
        The tree, with a sharding instead of each array. A field is replicated along an axis of the
        mesh that does not divide all fields which it would shard.

    Raises:
        ImplicitArrayError: If a spec has more entries than an implicit array has axes.

    Example:
        >>> import jax, numpy as np
        >>> from jax.sharding import NamedSharding, PartitionSpec
        >>> from graphc.implicit import LoRA
        >>> mesh = jax.make_mesh((1, 1), ("data", "model"))
        >>> w = LoRA.of(np.ones((4, 6), "float32"), rank=2)
        >>> fields = shardings(w, NamedSharding(mesh, PartitionSpec("data", "model")))
        >>> tuple(fields.a.spec), tuple(fields.b.spec)
        (('data', None), (None, 'model'))
    """
    return jax_arrays().shardings(tree, sharding)


def device_put(tree: Any, sharding: Any) -> Any:
    """Move arrays to devices; implicit arrays are sharded as dense ones.

    ``jax.device_put`` would give each field the sharding of the implicit array.

    Args:
        tree: A nested container of arrays.
        sharding: As for ``shardings``.

    Returns:
        The tree, of JAX arrays.

    Raises:
        ImplicitArrayError: As for ``shardings``.

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
    """Return the specs of a tree's arrays for ``jax.shard_map`` of implicit arrays.

    Within ``implicit`` these are not needed: there ``jax.shard_map`` accepts the spec of the
    implicit array.

    Args:
        tree: A nested container of arrays or of their types.
        spec: A ``PartitionSpec`` for every array, or a tree of these as for ``shardings``.
        mesh: The mesh; by default the mesh of ``jax.set_mesh``.

    Returns:
        The tree, with a ``PartitionSpec`` instead of each array.

    Raises:
        ImplicitArrayError: If the shards of an implicit array's fields are not the fields of its
            shard, as with the rows of a diagonal matrix; or as for ``shardings``.

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
