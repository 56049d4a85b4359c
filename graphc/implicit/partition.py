"""Implicit arrays over meshes of JAX's: how their fields are sharded where the whole is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphc.errors import ImplicitArrayError
from graphc.implicit import jax_arrays
from graphc.implicit.array import ImplicitArray, fields_of
from graphc.implicit.treedef import declares_implicit, lengths_of
from graphc.ir import Node

Entry = Any
"""What an axis is sharded over: None, the name of an axis of the mesh, or a tuple of names."""

Spec = tuple[Entry, ...]
"""An entry for each axis of an array."""


def leaf_specs(x: ImplicitArray, spec: Spec) -> list[Spec]:
    """The spec of each array in the fields of an implicit array, in order.

    Args:
        x: An implicit array, of arrays or types.
        spec: That of the whole; entries that are left out at its end are None.

    Raises:
        ImplicitArrayError: It has more entries than the array has axes, or the class gives specs
            of fields that do not exist, or that have fewer axes.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LowRank
        >>> leaf_specs(LowRank(np.ones((4, 1)), np.ones((1, 5))), ("data",))
        [('data', None), (None, None)]
    """
    given = x.field_specs(_padded(x, spec))
    fields = fields_of(x)
    if not given.keys() <= fields.keys():
        raise ImplicitArrayError(
            f"{type(x).__name__}.field_specs gave specs of {', '.join(given)}; its fields with "
            f"arrays are {', '.join(fields)}.",
            "Name fields that hold arrays.",
        )
    return [
        leaf for name, part in fields.items() for leaf in _of_part(part, tuple(given.get(name, ())))
    ]


def _of_part(part: Any, spec: Spec) -> Iterator[Spec]:
    """The specs of the arrays in a field."""
    if isinstance(part, Node) and declares_implicit(nested := getattr(part, "array", None)):
        part = nested
    if isinstance(part, tuple | list):
        for each in part:
            yield from _of_part(each, spec)
    elif isinstance(part, ImplicitArray):
        yield from leaf_specs(part, spec)
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
    return jax_arrays.shardings(tree, sharding)


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
    return jax_arrays.device_put(tree, sharding)


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
    return jax_arrays.partition_specs(tree, spec, mesh)
