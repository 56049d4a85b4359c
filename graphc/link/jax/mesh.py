"""Meshes of devices, and arrays on them.

XLA partitions one program over all devices of a mesh, by the shardings of arguments and of arrays
within the program. The program is traced for a mesh with axes that JAX calls automatic, so that
lowerings ignore shardings. If the user's mesh has explicit axes, like a mesh of ``jax.make_mesh``,
arguments lose the shardings of their types when they enter a program, and results get them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from graphc.context import setting
from graphc.errors import ArgumentError, ModeError, ShardingError
from graphc.ir import OPEN, Sharding
from graphc.ir.sharding import MeshAxes, names_in
from graphc.link.jax.call_key import device_names
from graphc.link.jax.explicit import automatic_mesh, explicit_axes
from graphc.link.jax.partitions import is_asking

MAX_ACCEPTED = 64
"""The number of shardings, or shapes, of one argument that are remembered as accepted."""


def mesh(*, devices: Sequence[jax.Device] | None = None, **axes: int) -> Mesh:
    """Make a mesh of devices, over which ``Mode("JAX", mesh=mesh)`` runs a function.

    The ``sharding=`` of inputs, shared variables, outputs and arrays within a graph names the axes
    of the mesh that shard them; see the page on shardings. Any other ``jax.sharding.Mesh`` serves
    as well.

    Args:
        devices: The devices, by default the first ones of ``jax.devices()``.
        axes: The number of devices along each axis; at most one is -1, for all remaining devices.

    Returns:
        A ``jax.sharding.Mesh`` with automatic axes.

    Raises:
        ArgumentError: If JAX has too few devices, or a number of devices is invalid.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.matrix("x", sharding=("data", None))
        >>> f = graphc.function([x], x.sum(), mode=graphc.Mode("JAX", mesh=graphc.mesh(data=1)))
        >>> float(f([[1.0, 2.0], [3.0, 4.0]]))
        10.0
    """
    present = list(jax.devices() if devices is None else devices)
    names, lengths = tuple(axes), [*axes.values()]
    call = f"mesh({', '.join(f'{name}={n}' for name, n in axes.items())})"
    is_count = all(isinstance(n, int) and (n > 0 or n == -1) for n in lengths)
    if not axes or not is_count or lengths.count(-1) > 1:
        raise ArgumentError(
            f"{call}: expected a positive number of devices for each axis.",
            "Write graphc.mesh(data=4, model=2); one number may be -1, for all devices left.",
        )
    if -1 in lengths:
        others = -prod(lengths)
        lengths[lengths.index(-1)] = max(1, len(present) // others)
    count = prod(lengths)
    takes_all = devices is not None or -1 in axes.values()
    if count > len(present) or (takes_all and count != len(present)):
        raise ArgumentError(
            f"{call} has {count} devices, and there are {len(present)}.",
            f"Give numbers whose product is {len(present)}. A processor shows as several devices "
            "if jax.config.update('jax_num_cpu_devices', 8) comes before JAX is first used.",
        )
    types = (AxisType.Auto,) * len(names)
    return jax.make_mesh(tuple(lengths), names, axis_types=types, devices=present[:count])


class MeshHome:
    """The sharding that arrays with one declaration must have.

    Attributes:
        sharding: The sharding of the arrays; replicated if none is declared.
        known: Equivalent shardings; an array with one of them is not moved.
    """

    def __init__(self, layout: MeshLayout, sharding: Sharding | None) -> None:
        self._layout = layout
        self._declared = sharding
        entries = () if sharding is None else layout.axes.of(sharding, (None,) * len(sharding), "")
        self.sharding = NamedSharding(layout.user_mesh, _spec(entries))
        self.known: set[Any] = {self.sharding}

    def put(self, x: Any, subject: object) -> Any:
        """Transfer an array to this sharding, from any devices.

        Args:
            x: A NumPy or JAX array; a tracer is returned unchanged.
            subject: The name of the array in messages.

        Raises:
            ShardingError: If the axes of the mesh do not divide a length.
        """
        layout, declared = self._layout, self._declared
        is_array = isinstance(x, jax.Array)
        if isinstance(x, jax.core.Tracer) or (is_array and self._is_here(x)):
            return x
        if declared is not None and len(declared) != x.ndim:
            return x  # the program has the error
        self.check(x, subject)
        # The array outlives a trace of the user's code, so it must not be a tracer.
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            if self.sharding.is_fully_addressable or (is_array and not x.is_fully_addressable):
                # The user may write to a NumPy array while the program still runs.
                y = jax.device_put(x, self.sharding, may_alias=None if is_array else False)
                return y.block_until_ready() if is_array and layout.waits else y
            # Every process has the full array, and takes its shards from it.
            full = np.asarray(x)
            return jax.make_array_from_callback(full.shape, self.sharding, full.__getitem__)

    def check(self, x: Any, subject: object) -> None:
        """Check that an array can have this sharding.

        Raises:
            ShardingError: If the axes of the mesh do not divide a length.
        """
        declared = self._declared
        # For another number of axes, the program has the error.
        if declared is not None and len(declared) == x.ndim:
            self._layout.axes.of(declared, x.shape, subject)

    def keep(self, x: Any, subject: object) -> Any:
        """Transfer a value to this sharding; every process must give the same value.

        Raises:
            ShardingError: If the axes of the mesh do not divide a length, or if processes give
                different values.
        """
        is_remote = isinstance(x, jax.Array) and not x.is_fully_addressable
        if not (self.sharding.is_fully_addressable or is_remote):
            _check_equal_in_processes(np.asarray(x), subject)
        return self.put(x, subject)

    def put_or_constrain(self, x: Any, subject: object) -> Any:
        """Transfer an array to this sharding; constrain a tracer to it."""
        if not isinstance(x, jax.core.Tracer):
            return self.put(x, subject)
        # If the user's code has set a mesh, JAX knows the devices.
        return self.constrain(x) if jax.sharding.get_abstract_mesh().empty else x

    def constrain(self, x: Any) -> Any:
        layout, declared = self._layout, self._declared
        x = layout.drop_explicit(x)
        return layout.constrain_to_mesh(x) if declared is None else layout.constrain(x, declared)

    def check_devices(self, x: Any, subject: object) -> None:
        """Check that an array that the user put on devices is on the devices of the mesh.

        Raises:
            ShardingError: If the array is on other devices.
        """
        is_array = isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)
        if is_array and x.committed and not self._layout.has(x.sharding):
            raise ShardingError(
                f"{subject} lies on {device_names(x.sharding.device_set)}, and the function runs "
                f"over {self._layout.axes}, on {device_names(self._layout.mesh.devices.flat)}.",
                "Pass np.asarray(x), or put it on the mesh: jax.device_put(x, "
                "jax.sharding.NamedSharding(mesh, spec)).",
            )

    def _is_here(self, x: jax.Array) -> bool:
        """Return whether an array has the declared sharding; without one, any over the mesh."""
        sharding = x.sharding
        if sharding in self.known:
            return True
        if not (isinstance(sharding, NamedSharding) and self._layout.is_over(sharding.mesh)):
            return False
        declared = self._declared
        if declared is None or sharding.is_equivalent_to(self.sharding, x.ndim):
            if len(self.known) >= MAX_ACCEPTED:
                self.known.clear()
            self.known.add(sharding)
            return True
        return False


def _check_equal_in_processes(value: np.ndarray[Any, Any], subject: object) -> None:
    """Raise if processes have different values; every process must call this function."""
    content = value.tobytes() + repr((value.dtype.str, value.shape)).encode()
    digest = blake2b(content, digest_size=8).digest()
    digests = process_allgather(np.frombuffer(digest, np.uint8))
    if (digests != digests[:1]).any():
        raise ShardingError(
            f"{subject} is not the same in all processes, which would shard different arrays.",
            "Give every process the full array: seed random streams, and make one array of local "
            "batches by graphc.distributed.global_array(batch, x, mode).",
        )


class MeshLayout:
    """A mesh and the names of its axes.

    Attributes:
        user_mesh: The user's mesh.
        mesh: The user's mesh with automatic axes.
        axes: The lengths of the mesh axes, and their logical names.
        waits: Whether a call returns only after its results have been computed.
    """

    def __init__(self, user_mesh: Mesh, logical: Mapping[str, Any]) -> None:
        self.user_mesh = user_mesh
        self.mesh = automatic_mesh(user_mesh)
        self.axes = MeshAxes(dict(user_mesh.shape), dict(logical))
        # On one CPU, programs that wait for each other's threads never end.
        self.waits = user_mesh.size > 1 and user_mesh.devices.flat[0].platform == "cpu"
        self._homes: dict[Sharding | None, MeshHome] = {}
        self._devices = frozenset(user_mesh.devices.flat)

    def home(self, sharding: Sharding | None) -> MeshHome:
        """Return the home of arrays with a declaration; one object for each declaration."""
        home = self._homes.get(sharding)
        if home is None:
            home = self._homes.setdefault(sharding, MeshHome(self, sharding))
        return home

    @property
    def takes_numpy(self) -> bool:
        """Whether programs take NumPy arrays and shard them themselves.

        If a call does not wait, the user may write to a NumPy array while the program runs.
        """
        is_own = self.mesh is self.user_mesh and self.home(None).sharding.is_fully_addressable
        return is_own and self.waits

    def argument_shardings(self, declared: Sequence[Sharding | None]) -> list[NamedSharding]:
        """Return the shardings of NumPy arguments; an empty list if a program takes none."""
        return [self.home(x).sharding for x in declared] if self.takes_numpy else []

    def has(self, sharding: Any) -> bool:
        """Return whether arrays with a sharding are on the devices of the mesh."""
        return bool(self._devices == sharding.device_set)

    def is_over(self, other: Any) -> bool:
        """Return whether another mesh has the same devices in the same order."""
        return other is self.mesh or (
            isinstance(other, Mesh) and [*other.devices.flat] == [*self.mesh.devices.flat]
        )

    # While JAX traces.

    def drop_explicit(self, x: Any) -> Any:
        """Remove the explicit sharding that the type of an argument may have."""
        own = getattr(jax.typeof(x), "sharding", None) if isinstance(x, jax.Array) else None
        if own is not None and AxisType.Explicit in own.mesh.axis_types:
            return _constrain(x, NamedSharding(self.mesh, own.spec))
        return x

    def constrain(self, x: Any, sharding: Sharding, subject: str = "shard") -> Any:
        if len(sharding) != x.ndim:
            return x  # the program has the error
        entries = self.axes.of(sharding, x.shape, subject)
        return _constrain(x, NamedSharding(self.mesh, _spec(entries)))

    def constrain_to_mesh(self, x: Any) -> Any:
        """Constrain an array to the mesh; the compiler chooses how it is sharded."""
        return self.constrain(x, (OPEN,) * x.ndim) if isinstance(x, jax.Array) else x

    def reshard_result(self, y: Any, sharding: Sharding | None) -> Any:
        """Reshard a result over the user's mesh if its sharding is declared."""
        if self.mesh is self.user_mesh or sharding is None or OPEN in sharding or is_asking():
            return y
        entries = self.axes.of(sharding, (None,) * len(sharding), "")
        explicit = explicit_axes(self.user_mesh)
        parts = [tuple(x for x in names_in(entry) if x in explicit) or None for entry in entries]
        return jax.sharding.reshard(y, NamedSharding(self.user_mesh, _spec(tuple(parts))))  # type: ignore[no-untyped-call]

    # After a call.

    def to_user_mesh(self, results: Any) -> Any:
        """Return the results of a call with shardings over the user's mesh."""
        if isinstance(results, list | tuple):
            return [self.to_user_mesh(y) for y in results]
        sharding = getattr(results, "sharding", None)
        if isinstance(sharding, NamedSharding) and sharding.mesh == self.mesh:
            return jax.device_put(results, NamedSharding(self.user_mesh, sharding.spec))
        return results


def _spec(sharding: Sharding) -> PartitionSpec:
    entries = [PartitionSpec.UNCONSTRAINED if entry == OPEN else entry for entry in sharding]
    return PartitionSpec(*entries)  # type: ignore[no-untyped-call]


def _constrain(x: Any, sharding: NamedSharding) -> Any:
    return jax.lax.with_sharding_constraint(x, sharding)  # type: ignore[no-untyped-call]


def layout_of(options: Mapping[str, Any]) -> MeshLayout | None:
    """Return the layout of a mode's options; None if they have no mesh."""
    mesh = options.get("mesh")
    if mesh is None:
        return None
    return _layout(mesh, tuple((options.get("logical_axes") or {}).items()))


@lru_cache(64)
def _layout(mesh: Mesh, logical: tuple[tuple[str, Any], ...]) -> MeshLayout:
    return MeshLayout(mesh, dict(logical))


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of a mode that name a mesh, and bring logical axes to one form.

    Raises:
        ModeError: If ``mesh`` is no mesh of devices, if logical axes are given without a mesh or
            name no axis of the mesh, or if the options have both a mesh and a device.
    """
    checked = dict(options)
    mesh, logical = checked.get("mesh"), checked.get("logical_axes")
    if mesh is None and logical is not None:
        raise ModeError("logical_axes names axes of a mesh, and the mode has none.", "Add mesh=.")
    if mesh is None:
        return checked
    if not isinstance(mesh, Mesh) or mesh.empty:
        raise ModeError(
            f"mesh={mesh!r} is no mesh of devices.",
            "Make one: graphc.mesh(data=4, model=2), or a jax.sharding.Mesh.",
        )
    if AxisType.Manual in mesh.axis_types:
        raise ModeError(
            f"mesh={mesh!r} has manual axes, along which every device runs a separate program.",
            "Make one with automatic axes, graphc.mesh(data=4, model=2), or explicit ones; within "
            "jax.shard_map, call a function whose mode has no mesh.",
        )
    if "device" in checked:
        raise ModeError("Mode has both mesh= and device=.", "Leave out device=.")
    if logical is not None:
        checked["logical_axes"] = _check_logical_axes(logical, mesh)
    return checked


def _check_logical_axes(logical: Any, mesh: Mesh) -> dict[str, Any]:
    remedy = 'Write logical_axes={"batch": "data", "hidden": "model", "embedding": None}.'
    if not isinstance(logical, Mapping):
        raise ModeError(f"logical_axes={logical!r} is no dict.", remedy)
    entries = {}
    for name, axes in sorted(logical.items()):
        entry = tuple(axes) if isinstance(axes, list | tuple) else axes
        names = entry if isinstance(entry, tuple) else () if entry is None else (entry,)
        if not isinstance(name, str) or not set(names) <= set(mesh.axis_names):
            raise ModeError(
                f"logical_axes: {name!r}: {axes!r}, and the mesh has the axes "
                f"{', '.join(mesh.axis_names)}.",
                remedy,
            )
        entries[name] = entry
    return entries


_layouts: ContextVar[MeshLayout | None] = ContextVar("layout", default=None)


def trace_over(layout: MeshLayout | None) -> setting[MeshLayout | None]:
    """Trace programs for a mesh in this context."""
    return setting(_layouts, layout)


def current() -> MeshLayout | None:
    """Return the layout that a program is being traced for."""
    return _layouts.get()
