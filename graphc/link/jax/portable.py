"""Meshes and devices in a form that another process can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from graphc.errors import ModeError
from graphc.ir.sharding import MeshAxes


@dataclass(frozen=True)
class PortableMesh:
    """A mesh without its devices.

    Attributes:
        axes: The names of its axes, and the number of devices along each.
        types: The names of their types, such as ``"Auto"``.
        platform: That of its devices, such as ``"cpu"``.
        kind: The kind of its devices, as their maker calls it.
        places: The place of each among all devices of the platform.
    """

    axes: tuple[tuple[str, int], ...]
    types: tuple[str, ...]
    platform: str
    kind: str
    places: tuple[int, ...]

    @classmethod
    def of(cls, mesh: Mesh) -> PortableMesh:
        """A mesh as another process can have it."""
        first = mesh.devices.flat[0]
        place = {device: i for i, device in enumerate(jax.devices(first.platform))}
        return cls(
            tuple(mesh.shape.items()),
            tuple(type.name for type in mesh.axis_types),
            first.platform,
            first.device_kind,
            tuple(place[device] for device in mesh.devices.flat),
        )

    def mesh(self) -> Mesh:
        """The mesh of the devices of this process: the same ones where it has them, else others.

        Raises:
            ModeError: It has too few of that kind.
        """
        found = _devices(self.platform)
        alike = [device for device in found if device.device_kind == self.kind]
        if len(alike) < len(self.places):
            raise ModeError(
                f"A pickle has {MeshAxes(dict(self.axes))} of {len(self.places)} devices of the "
                f"kind {self.kind!r}, and there are {len(alike)} here. {_present()}",
                "Load it where there are as many, or build the function here over another mesh. A "
                "processor shows as several devices if "
                "jax.config.update('jax_num_cpu_devices', 8) comes before JAX is first used.",
            )
        chosen = [found[i] for i in self.places if i < len(found)]
        if len(chosen) < len(self.places) or any(x.device_kind != self.kind for x in chosen):
            order = np.argsort(np.argsort(self.places))
            chosen = [alike[i] for i in order]
        names, lengths = zip(*self.axes, strict=True)
        types = tuple(AxisType[name] for name in self.types)
        return Mesh(np.array(chosen).reshape(lengths), names, axis_types=types)


@dataclass(frozen=True)
class PortableDevice:
    """A device by its platform and its place among all devices of that."""

    platform: str
    place: int

    def device(self) -> jax.Device:
        """The device of this process.

        Raises:
            ModeError: It has none.
        """
        found = _devices(self.platform)
        if self.place >= len(found):
            raise ModeError(
                f"A pickle has the device {self.platform}:{self.place}, and there is none here. "
                f"{_present()}",
                "Load it where there is one.",
            )
        return found[self.place]


def portable(value: Any) -> Any:
    """A mesh or a device as another process can have it, and anything else as it is."""
    if isinstance(value, Mesh):
        return PortableMesh.of(value)
    if isinstance(value, jax.Device):
        return PortableDevice(value.platform, jax.devices(value.platform).index(value))
    return value


def restored(value: Any) -> Any:
    """What ``portable`` gave, of the devices of this process.

    Raises:
        ModeError: It lacks devices.
    """
    if isinstance(value, PortableMesh):
        return value.mesh()
    return value.device() if isinstance(value, PortableDevice) else value


def _devices(platform: str) -> Sequence[jax.Device]:
    try:
        return jax.devices(platform)
    except RuntimeError:  # there is no such platform
        return []


def _present() -> str:
    kinds = [device.device_kind for device in jax.devices()]
    listed = ", ".join(f"{kinds.count(kind)} of {kind!r}" for kind in dict.fromkeys(kinds))
    return f"JAX has {listed}."
