"""Arrays whose types are sharded over explicit axes of a mesh."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from graphc.link.jax.varying import type_of

Entry = Any
"""The sharding of an axis of an array: None, the name of a mesh axis, or several names."""


def axes_of(entry: Entry) -> tuple[Any, ...]:
    if entry is None:
        return ()
    return tuple(entry) if isinstance(entry, tuple | list) else (entry,)


def entry_of(axes: Sequence[Any]) -> Entry:
    """Return the entry of a spec with these mesh axes."""
    return None if not axes else axes[0] if len(axes) == 1 else tuple(axes)


def spec_of(x: Any) -> tuple[Entry, ...]:
    """Return the entry of each axis of an array or a type; None for axes without explicit axes."""
    aval = type_of(x)
    spec = tuple(aval.sharding.spec)
    return (*spec, *[None] * (aval.ndim - len(spec)))


def explicit_mesh(arrays: Iterable[Any]) -> Any:
    """Return the mesh whose explicit axes shard one of the arrays; None if there is none."""
    for x in arrays:
        if any(axes_of(entry) for entry in spec_of(x)):
            return type_of(x).sharding.mesh
    return None


def explicit_axes(mesh: Any) -> set[Any]:
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return {name for name, kind in pairs if kind == AxisType.Explicit}


def automatic_mesh(mesh: Mesh) -> Mesh:
    automatic = (AxisType.Auto,) * len(mesh.axis_names)
    if mesh.axis_types == automatic:
        return mesh
    return Mesh(mesh.devices, mesh.axis_names, axis_types=automatic)


def reshard(x: Any, mesh: Any, spec: Sequence[Entry]) -> Any:
    """Shard an array over a mesh's explicit axes."""
    if spec_of(x) == tuple(spec):
        return x
    make_spec: Any = PartitionSpec
    jax_reshard: Any = jax.sharding.reshard
    return jax_reshard(x, NamedSharding(mesh, make_spec(*spec)))


class Claims:
    """The axes of a mesh, each of which can shard one axis of a result."""

    def __init__(self, mesh: Any) -> None:
        self.sizes = dict(mesh.shape)
        self.taken: set[Any] = set()

    def claim(self, length: int, *entries: Entry) -> Entry:
        """Claim the free axes of the first entry whose free axes divide a length; else None."""
        for entry in entries:
            axes = [axis for axis in axes_of(entry) if axis not in self.taken]
            if axes and length % math.prod(self.sizes[axis] for axis in axes) == 0:
                self.taken.update(axes)
                return entry_of(axes)
        return None
