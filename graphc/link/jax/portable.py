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
        axes: The names of the axes, and the number of devices along each.
        types: The names of the axes' types, such as ``"Auto"``.
        platform: The platform of the devices, such as ``"cpu"``.
        kind: The vendor's name of the kind of devices.
        indices: The index of each device among all devices of the platform.
    """

    axes: tuple[tuple[str, int], ...]
    types: tuple[str, ...]
    platform: str
    kind: str
    indices: tuple[int, ...]

    @classmethod
    def of(cls, mesh: Mesh) -> PortableMesh:
        first = mesh.devices.flat[0]
        index = {device: i for i, device in enumerate(jax.devices(first.platform))}
        return cls(
            tuple(mesh.shape.items()),
            tuple(type.name for type in mesh.axis_types),
            first.platform,
            first.device_kind,
            tuple(index[device] for device in mesh.devices.flat),
        )

    def mesh(self) -> Mesh:
        """Return the mesh with devices of this process, the same devices if it has them.

        Raises:
            ModeError: If this process has too few devices of the kind.
        """
        present = _devices(self.platform)
        alike = [device for device in present if device.device_kind == self.kind]
        if len(alike) < len(self.indices):
            raise ModeError(
                f"A pickle has {MeshAxes(dict(self.axes))} of {len(self.indices)} devices of the "
                f"kind {self.kind!r}, and there are {len(alike)} here. {_present()}",
                "Load it where there are as many, or build the function here over another mesh. A "
                "processor shows as several devices if "
                "jax.config.update('jax_num_cpu_devices', 8) comes before JAX is first used.",
            )
        chosen = [present[i] for i in self.indices if i < len(present)]
        if len(chosen) < len(self.indices) or any(x.device_kind != self.kind for x in chosen):
            order = np.argsort(np.argsort(self.indices))
            chosen = [alike[i] for i in order]
        names, lengths = zip(*self.axes, strict=True)
        types = tuple(AxisType[name] for name in self.types)
        return Mesh(np.array(chosen).reshape(lengths), names, axis_types=types)


@dataclass(frozen=True)
class PortableDevice:
    """A device by its platform and its index among all devices of the platform."""

    platform: str
    index: int

    def device(self) -> jax.Device:
        present = _devices(self.platform)
        if self.index >= len(present):
            raise ModeError(
                f"A pickle has the device {self.platform}:{self.index}, and there is none here. "
                f"{_present()}",
                "Load it where there is one.",
            )
        return present[self.index]


def portable(value: Any) -> Any:
    """Describe a mesh or a device for another process; return other values unchanged."""
    if isinstance(value, Mesh):
        return PortableMesh.of(value)
    if isinstance(value, jax.Device):
        return PortableDevice(value.platform, jax.devices(value.platform).index(value))
    return value


def restore(value: Any) -> Any:
    """Return a mesh or a device of this process, given its description; else the value."""
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
