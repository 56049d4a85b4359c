"""The key of a call's executable: its arguments, the device and JAX's settings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding

from graphc.errors import ShardingError
from graphc.link.compile_context import as_python

settings: Any = jax.config

SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_numpy_dtype_promotion",
    "jax_explicit_x64_dtypes",
    "jax_allow_f16_reductions",
    "jax_softmax_custom_jvp",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_random_seed_offset",
    "jax_disable_most_optimizations",
    "jax_optimization_level",
    "jax_exec_time_optimization_effort",
    "jax_memory_fitting_effort",
    "jax_memory_fitting_level",
)
"""The settings of JAX that a compiled program depends on."""

PRECISION = SETTINGS.index("jax_default_matmul_precision")
"""The position of the precision of matrix products in ``SETTINGS``."""


def device_names(devices: Iterable[jax.Device]) -> str:
    names = [f"{d.platform}:{d.id}" for d in sorted(devices, key=lambda d: d.id)]
    shown = names if len(names) <= 4 else [*names[:3], f"... ({len(names)} devices)"]
    return ", ".join(shown)


@dataclass(frozen=True)
class KnownArguments:
    """Arguments that are known when a function is specialized.

    Attributes:
        values: Values that are part of the program, by position; these arguments are not passed.
        bounds: Upper bounds of arguments that are passed, by position.
        padded: The padded axes of arguments; one more argument has the valid lengths.
        lengths: Lengths of slices that are part of the program.
        bounds_of_slices: Values, in the first call, of arguments that decide bounds of slices
            alone.
    """

    values: Mapping[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    bounds: Mapping[int, int] = field(default_factory=dict)
    padded: tuple[tuple[int, int, float], ...] = ()
    lengths: tuple[int, ...] = ()
    bounds_of_slices: Mapping[int, np.ndarray[Any, Any]] = field(default_factory=dict)

    def shapes(self, passed: Sequence[Any]) -> list[tuple[int, ...]]:
        """Return the shapes of all arguments, given the passed ones."""
        rest, values = iter(passed), self.values
        positions = range(len(passed) + len(values) - bool(self.padded))
        return [values[i].shape if i in values else next(rest).shape for i in positions]

    def shapes_by_position(self, passed: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        """Return the shapes of the passed arguments, by their positions among all arguments."""
        positions = [i for i in range(len(passed) + len(self.values)) if i not in self.values]
        return {i: x.shape for i, x in zip(positions, passed, strict=True)}

    def items(self) -> dict[int, Any]:
        """Return the values that decide lengths, as Python integers and tuples of them."""
        return {i: as_python(x) for i, x in {**self.values, **self.bounds_of_slices}.items()}

    def __repr__(self) -> str:
        values = [(i, x.dtype.str, x.shape, x.tobytes().hex()) for i, x in self.values.items()]
        padded = [tuple(x) for x in self.padded]
        return f"{values}, {[*self.bounds.items()]}, {padded}, {self.lengths}"


@dataclass(frozen=True)
class CallKey:
    """The key of calls that share an executable.

    Attributes:
        arguments: The shape and dtype of each argument, whether the dtype is weak, and the sharding
            that the argument is committed to.
        device: The default device.
        mesh: The abstract mesh over which arrays are sharded; it may be empty.
        settings: The values of ``SETTINGS``.
    """

    arguments: tuple[tuple[Any, ...], ...]
    device: Any
    mesh: Hashable
    settings: tuple[Any, ...]

    @classmethod
    def of(cls, arguments: Sequence[Any], shardings: Sequence[Any] = ()) -> CallKey:
        """Return the key of a call.

        Args:
            arguments: The arguments of the call.
            shardings: Over a mesh, the sharding of each argument if that is a NumPy array.
        """
        of_numpy = shardings or (None,) * len(arguments)
        described = tuple(
            (x.shape, x.dtype, x.weak_type, x.sharding if x.committed else None)
            if isinstance(x, jax.Array)
            else (x.shape, x.dtype, False, sharding)
            for x, sharding in zip(arguments, of_numpy, strict=True)
        )
        values = tuple(getattr(settings, name, None) for name in SETTINGS)
        return cls(described, settings.jax_default_device, jax.sharding.get_abstract_mesh(), values)

    @property
    def devices(self) -> tuple[jax.Device, ...] | None:
        """The device of all arguments, or the devices of their mesh; None if these differ.

        Executables of calls with devices can be stored.
        """
        if not self.mesh.empty:  # type: ignore[attr-defined]
            return None
        groups = {_devices(x) for *_, x in self.arguments if x is not None}
        if not groups:
            default = self.device
            is_device = default is not None and not isinstance(default, str)
            groups = {(default if is_device else jax.local_devices(backend=default)[0],)}
        return groups.pop() if len(groups) == 1 else None

    @property
    def shardings(self) -> tuple[Any, ...] | None:
        """The sharding of each argument; None unless all are over automatic axes and fit."""
        fit = all(
            isinstance(x, NamedSharding)
            and AxisType.Explicit not in x.mesh.axis_types
            and len(x.spec) <= len(shape)
            for shape, _, _, x in self.arguments
        )
        return tuple([x for *_, x in self.arguments]) if fit else None

    @property
    def is_committed(self) -> bool:
        return any(sharding is not None for *_, sharding in self.arguments)

    def check_devices(self) -> None:
        """Check that all committed arguments are on the same devices.

        Raises:
            ShardingError: If two arguments are committed to different devices.
        """
        committed = [(i, x) for i, (*_, x) in enumerate(self.arguments) if x is not None]
        for i, x in committed[1:]:
            first, other = committed[0]
            if x.device_set != other.device_set:
                raise ShardingError(
                    f"The array {first} of a call lies on {device_names(other.device_set)}, and "
                    f"the array {i} on {device_names(x.device_set)}; arguments, shared variables "
                    "and captured arrays are counted.",
                    "Put both on one device by jax.device_put, pass NumPy arrays, or have the "
                    "function run in one place: Mode('JAX', mesh=...) or Mode('JAX', device=...).",
                )

    def text(self) -> str:
        """Return the key as text that is the same in every process.

        The key must have ``devices``. The text has their numbers, because an executable that
        JAX serialized has them too.
        """
        devices = self.devices
        assert devices is not None
        arguments = [
            (shape, str(dtype), weak, _text(sharding))
            for shape, dtype, weak, sharding in self.arguments
        ]
        where = f"{devices[0].platform}:{','.join(str(d.id) for d in devices)}"
        # Each process of a program of several processes has its own executable.
        process = (
            f", {jax.process_index()} of {jax.process_count()}" if jax.process_count() > 1 else ""
        )
        return f"{arguments}, {where}{process}, {self.settings}"


def _devices(sharding: Any) -> tuple[jax.Device, ...] | None:
    """Return the devices of a sharding in its mesh's order; None for several without a mesh."""
    if isinstance(sharding, NamedSharding):
        return tuple(sharding.mesh.devices.flat)
    devices = tuple(sharding.device_set)
    return devices if len(devices) == 1 else None


def _text(sharding: Any) -> Any:
    """Describe a sharding without its devices."""
    if sharding is None or len(sharding.device_set) == 1:
        return sharding and sharding.memory_kind
    mesh = sharding.mesh
    types = [str(kind) for kind in mesh.axis_types]
    return [*mesh.shape.items()], types, str(sharding.spec), sharding.memory_kind
