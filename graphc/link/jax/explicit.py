"""Arrays that are sharded over explicit axes of a mesh, as their types say while JAX traces."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from graphc.link.jax.varying import type_of

Entry = Any
"""What an axis of an array is sharded over: None, the name of an axis of the mesh, or several."""


def axes_of(entry: Entry) -> tuple[Any, ...]:
    """The mesh axes that an entry of a spec names."""
    if entry is None:
        return ()
    return tuple(entry) if isinstance(entry, tuple | list) else (entry,)


def entry_of(axes: Sequence[Any]) -> Entry:
    """The entry of a spec that names these mesh axes."""
    return None if not axes else axes[0] if len(axes) == 1 else tuple(axes)


def spec_of(x: Any) -> tuple[Entry, ...]:
    """An entry for each axis of an array or a type, None where no explicit axis shards it."""
    aval = type_of(x)
    spec = tuple(aval.sharding.spec)
    return (*spec, *[None] * (aval.ndim - len(spec)))


def explicit_mesh(arrays: Iterable[Any]) -> Any:
    """The mesh over whose explicit axes one of the arrays is sharded; None where there is none."""
    for x in arrays:
        if any(axes_of(entry) for entry in spec_of(x)):
            return type_of(x).sharding.mesh
    return None


def explicit_axes(mesh: Any) -> set[Any]:
    """The names of a mesh's explicit axes."""
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return {name for name, kind in pairs if kind == AxisType.Explicit}


def automatic_mesh(mesh: Mesh) -> Mesh:
    """The mesh with automatic axes."""
    automatic = (AxisType.Auto,) * len(mesh.axis_names)
    if mesh.axis_types == automatic:
        return mesh
    return Mesh(mesh.devices, mesh.axis_names, axis_types=automatic)


def resharded(x: Any, mesh: Any, spec: Sequence[Entry]) -> Any:
    """The array, sharded over a mesh's explicit axes as a spec says."""
    if spec_of(x) == tuple(spec):
        return x
    named: Any = PartitionSpec
    place: Any = jax.sharding.reshard
    return place(x, NamedSharding(mesh, named(*spec)))


class Claims:
    """The axes of a mesh, each for one axis of a result.

    Args:
        mesh: The mesh.
    """

    def __init__(self, mesh: Any) -> None:
        self.sizes = dict(mesh.shape)
        self.taken: set[Any] = set()

    def claim(self, length: int, *entries: Entry) -> Entry:
        """The first of the entries' axes that are free and divide a length; now taken."""
        for entry in entries:
            axes = [axis for axis in axes_of(entry) if axis not in self.taken]
            if axes and length % math.prod(self.sizes[axis] for axis in axes) == 0:
                self.taken.update(axes)
                return entry_of(axes)
        return None
