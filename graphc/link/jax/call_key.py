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
"""The place of the precision of matrix products among them."""


def listed(devices: Iterable[jax.Device]) -> str:
    """Return the names of devices in messages."""
    names = [f"{d.platform}:{d.id}" for d in sorted(devices, key=lambda d: d.id)]
    few = names if len(names) <= 4 else [*names[:3], f"... ({len(names)} devices)"]
    return ", ".join(few)


@dataclass(frozen=True)
class KnownArguments:
    """Arguments that are known when a function is specialized.

    Attributes:
        values: Values that are part of the program, by position; these arguments are not passed.
        bounds: Upper bounds of arguments that are passed, by position.
        padded: The axes of arguments that are padded; one more argument has their true lengths.
        lengths: Lengths of slices that are part of the program.
        bounds_of_slices: Values, in the first call, of arguments that decide nothing else.
    """

    values: Mapping[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    bounds: Mapping[int, int] = field(default_factory=dict)
    padded: tuple[tuple[int, int, float], ...] = ()
    lengths: tuple[int, ...] = ()
    bounds_of_slices: Mapping[int, np.ndarray[Any, Any]] = field(default_factory=dict)

    def shapes(self, passed: Sequence[Any]) -> list[tuple[int, ...]]:
        """The shapes of all arguments, given the ones that are passed."""
        left, values = iter(passed), self.values
        places = range(len(passed) + len(values) - bool(self.padded))
        return [values[i].shape if i in values else next(left).shape for i in places]

    def places(self, passed: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        """The places, among all arguments, and shapes of those that are passed."""
        left = [i for i in range(len(passed) + len(self.values)) if i not in self.values]
        return {i: x.shape for i, x in zip(left, passed, strict=True)}

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
    def of(cls, arguments: Sequence[Any], places: Sequence[Any] = ()) -> CallKey:
        """The key of a call.

        Args:
            arguments: Its arguments.
            places: Over a mesh, the shardings that those of NumPy get.
        """
        hosted = places or (None,) * len(arguments)
        found = tuple(
            (x.shape, x.dtype, x.weak_type, x.sharding if x.committed else None)
            if isinstance(x, jax.Array)
            else (x.shape, x.dtype, False, place)
            for x, place in zip(arguments, hosted, strict=True)
        )
        values = tuple(getattr(settings, name, None) for name in SETTINGS)
        return cls(found, settings.jax_default_device, jax.sharding.get_abstract_mesh(), values)

    @property
    def devices(self) -> tuple[jax.Device, ...] | None:
        """The device of all arguments, or the devices of their mesh; None where these are several.

        Executables of such calls can be kept.
        """
        if not self.mesh.empty:  # type: ignore[attr-defined]
            return None
        places = {_devices(x) for *_, x in self.arguments if x is not None}
        if not places:
            default = self.device
            is_device = default is not None and not isinstance(default, str)
            places = {(default if is_device else jax.local_devices(backend=default)[0],)}
        return places.pop() if len(places) == 1 else None

    @property
    def shardings(self) -> tuple[Any, ...] | None:
        """The sharding of each argument; None unless all are over automatic axes, and fit."""
        fit = all(
            isinstance(x, NamedSharding)
            and AxisType.Explicit not in x.mesh.axis_types
            and len(x.spec) <= len(shape)
            for shape, _, _, x in self.arguments
        )
        return tuple([x for *_, x in self.arguments]) if fit else None

    @property
    def is_placed(self) -> bool:
        """Whether an argument was put where it lies."""
        return any(sharding is not None for *_, sharding in self.arguments)

    def refuse_scattered(self) -> None:
        """Raise where arguments are committed to other devices than each other.

        Raises:
            ShardingError: They are.
        """
        committed = [(i, x) for i, (*_, x) in enumerate(self.arguments) if x is not None]
        for i, x in committed[1:]:
            first, other = committed[0]
            if x.device_set != other.device_set:
                raise ShardingError(
                    f"The array {first} of a call lies on {listed(other.device_set)}, and the "
                    f"array {i} on {listed(x.device_set)}; arguments, shared variables and "
                    "captured arrays are counted.",
                    "Put both on one device by jax.device_put, pass NumPy arrays, or have the "
                    "function run in one place: Mode('JAX', mesh=...) or Mode('JAX', device=...).",
                )

    def text(self) -> str:
        """The key as text that is the same in every process; only of a key with ``devices``.

        It has the numbers of the devices, as what JAX serializes has.
        """
        devices = self.devices
        assert devices is not None
        arguments = [
            (shape, str(dtype), weak, _text(sharding))
            for shape, dtype, weak, sharding in self.arguments
        ]
        where = f"{devices[0].platform}:{','.join(str(d.id) for d in devices)}"
        # Each process has its own part of a program of several.
        part = (
            f", {jax.process_index()} of {jax.process_count()}" if jax.process_count() > 1 else ""
        )
        return f"{arguments}, {where}{part}, {self.settings}"


def _devices(sharding: Any) -> tuple[jax.Device, ...] | None:
    """The devices of a sharding in its mesh's order; None where it has several and no mesh."""
    if isinstance(sharding, NamedSharding):
        return tuple(sharding.mesh.devices.flat)
    found = tuple(sharding.device_set)
    return found if len(found) == 1 else None


def _text(sharding: Any) -> Any:
    """A sharding without its devices."""
    if sharding is None or len(sharding.device_set) == 1:
        return sharding and sharding.memory_kind
    mesh = sharding.mesh
    types = [str(kind) for kind in mesh.axis_types]
    return [*mesh.shape.items()], types, str(sharding.spec), sharding.memory_kind
