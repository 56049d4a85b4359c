"""Meshes of devices, and arrays on them.

A program over a mesh is one for all of its devices, which XLA divides by the shardings of arguments
and of arrays within. It is traced for a mesh whose axes JAX calls automatic: lowerings say nothing
of shardings. Where the user's mesh has explicit axes, as ``jax.make_mesh`` gives them, arguments
lose their shardings' types when they enter a program, and results get them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from graphc.errors import ArgumentError, ModeError, ShardingError
from graphc.ir import OPEN, Sharding
from graphc.ir.sharding import MeshAxes, names_in
from graphc.ir.types import Entry
from graphc.link.jax.call_key import listed
from graphc.link.jax.divided import is_asking
from graphc.link.jax.explicit import automatic_mesh

MOST_KNOWN = 64
"""The number of shardings of one argument that are remembered as good."""


def mesh(*, devices: Sequence[jax.Device] | None = None, **axes: int) -> Mesh:
    """Make a mesh of devices, over which ``Mode("JAX", mesh=mesh)`` runs a function.

    Inputs, shared variables, outputs and arrays within a graph say by ``sharding=`` over which axes
    of the mesh theirs are divided; see the page on shardings. A ``jax.sharding.Mesh`` that was made
    otherwise serves as well.

    Args:
        devices: The devices, by default the first ones of ``jax.devices()``.
        axes: The number of devices along each axis; at most one is -1, for all that are left.

    Returns:
        A ``jax.sharding.Mesh`` with automatic axes.

    Raises:
        ArgumentError: There are not so many devices, or a number is none.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.matrix("x", sharding=("data", None))
        >>> f = graphc.function([x], x.sum(), mode=graphc.Mode("JAX", mesh=graphc.mesh(data=1)))
        >>> float(f([[1.0, 2.0], [3.0, 4.0]]))
        10.0
    """
    found = list(jax.devices() if devices is None else devices)
    names, lengths = tuple(axes), [*axes.values()]
    asked = f"mesh({', '.join(f'{name}={n}' for name, n in axes.items())})"
    is_count = all(isinstance(n, int) and (n > 0 or n == -1) for n in lengths)
    if not axes or not is_count or lengths.count(-1) > 1:
        raise ArgumentError(
            f"{asked}: expected a positive number of devices for each axis.",
            "Write graphc.mesh(data=4, model=2); one number may be -1, for all devices left.",
        )
    if -1 in lengths:
        others = -prod(lengths)
        lengths[lengths.index(-1)] = max(1, len(found) // others)
    count = prod(lengths)
    takes_all = devices is not None or -1 in axes.values()
    if count > len(found) or (takes_all and count != len(found)):
        raise ArgumentError(
            f"{asked} has {count} devices, and there are {len(found)}.",
            "Give numbers whose product is that. A processor shows as several devices if "
            "jax.config.update('jax_num_cpu_devices', 8) comes before JAX is first used.",
        )
    types = (AxisType.Auto,) * len(names)
    return jax.make_mesh(tuple(lengths), names, axis_types=types, devices=found[:count])


class Home:
    """Where arrays of one sharding are to be.

    Attributes:
        sharding: Theirs; every device has the whole where none is declared.
        known: Shardings that are as good; what has one of them is taken as it is.
    """

    def __init__(self, layout: Layout, sharding: Sharding | None) -> None:
        self._layout = layout
        self._declared = sharding
        entries = () if sharding is None else layout.axes.of(sharding, (None,) * len(sharding), "")
        self.sharding = NamedSharding(layout.given, _spec(entries))
        self.known: set[Any] = {self.sharding}

    def put(self, x: Any, subject: object) -> Any:
        """Bring an array here, from wherever it is.

        Args:
            x: An array of NumPy or JAX; what JAX traces is returned as it is.
            subject: What it is, in messages.

        Raises:
            ShardingError: A length cannot be divided.
        """
        layout, declared = self._layout, self._declared
        is_array = isinstance(x, jax.Array)
        if isinstance(x, jax.core.Tracer) or (is_array and self._is_here(x)):
            return x
        if declared is not None and len(declared) != x.ndim:
            return x  # the program says what it expected
        self.check(x, subject)
        # An array that is kept is made at once, also where the user's code is being traced.
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            if self.sharding.is_fully_addressable or (is_array and not x.is_fully_addressable):
                # Memory of NumPy's may be written to while the program still runs.
                found = jax.device_put(x, self.sharding, may_alias=None if is_array else False)
                return found.block_until_ready() if is_array and layout.waits else found
            # Every process has the whole, of which it takes its part.
            whole = np.asarray(x)
            return jax.make_array_from_callback(whole.shape, self.sharding, whole.__getitem__)

    def check(self, x: Any, subject: object) -> None:
        """Raise where an array cannot lie here.

        Raises:
            ShardingError: A length cannot be divided.
        """
        declared = self._declared
        # If it has other axes, the program says what it expected.
        if declared is not None and len(declared) == x.ndim:
            self._layout.axes.of(declared, x.shape, subject)

    def keep(self, x: Any, subject: object) -> Any:
        """Bring a value here that every process has to give: the same one.

        Raises:
            ShardingError: A length cannot be divided, or processes give different values.
        """
        is_remote = isinstance(x, jax.Array) and not x.is_fully_addressable
        if not (self.sharding.is_fully_addressable or is_remote):
            _refuse_different(np.asarray(x), subject)
        return self.put(x, subject)

    def put_or_constrain(self, x: Any, subject: object) -> Any:
        """Bring an array here; where JAX traces it, tell JAX that it is here."""
        if not isinstance(x, jax.core.Tracer):
            return self.put(x, subject)
        # Where the user's code has set a mesh, JAX knows of one.
        return self.constrained(x) if jax.sharding.get_abstract_mesh().empty else x

    def constrained(self, x: Any) -> Any:
        """Return what JAX traces as an array that lies here."""
        layout, declared = self._layout, self._declared
        x = layout.entered(x)
        return layout.anyhow(x) if declared is None else layout.constrained(x, declared)

    def refuse(self, x: Any, subject: object) -> None:
        """Raise where the user put an array on other devices than those of the mesh.

        Raises:
            ShardingError: It lies elsewhere.
        """
        is_array = isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)
        if is_array and x.committed and not self._layout.has(x.sharding):
            raise ShardingError(
                f"{subject} lies on {listed(x.sharding.device_set)}, and the function runs over "
                f"{self._layout.axes}, on {listed(self._layout.mesh.devices.flat)}.",
                "Pass np.asarray(x), or put it on the mesh: jax.device_put(x, "
                "jax.sharding.NamedSharding(mesh, spec)).",
            )

    def _is_here(self, x: jax.Array) -> bool:
        """Whether an array lies as declared; where nothing is declared, anyhow over the mesh."""
        found = x.sharding
        if found in self.known:
            return True
        if not (isinstance(found, NamedSharding) and self._layout.is_over(found.mesh)):
            return False
        declared = self._declared
        if declared is None or found.is_equivalent_to(self.sharding, x.ndim):
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            self.known.add(found)
            return True
        return False


def _refuse_different(value: np.ndarray[Any, Any], subject: object) -> None:
    """Raise where processes have different values; all of them have to call it."""
    content = value.tobytes() + repr((value.dtype.str, value.shape)).encode()
    digest = blake2b(content, digest_size=8).digest()
    found = process_allgather(np.frombuffer(digest, np.uint8))
    if (found != found[:1]).any():
        raise ShardingError(
            f"{subject} is not the same in all processes, and each would take its part of its own.",
            "Give every process the whole array: seed random streams, and make one array of local "
            "batches by graphc.distributed.global_array(batch, x, mode).",
        )


class Layout:
    """A mesh and the names of its axes.

    Attributes:
        given: The user's mesh.
        mesh: The same with automatic axes.
        axes: The lengths of its axes, and their logical names.
        waits: Whether a call returns when its results are there.
    """

    def __init__(self, given: Mesh, logical: Mapping[str, Any]) -> None:
        self.given = given
        self.mesh = automatic_mesh(given)
        self.axes = MeshAxes(dict(given.shape), dict(logical))
        # On one processor, programs that wait for each other's threads never end.
        self.waits = given.size > 1 and given.devices.flat[0].platform == "cpu"
        self._homes: dict[Sharding | None, Home] = {}
        self._devices = frozenset(given.devices.flat)

    def home(self, sharding: Sharding | None) -> Home:
        """Where arrays that are declared so are to be; one object for each declaration."""
        found = self._homes.get(sharding)
        if found is None:
            found = self._homes.setdefault(sharding, Home(self, sharding))
        return found

    @property
    def takes_hosted(self) -> bool:
        """Whether programs take NumPy arrays, which they put in their places themselves.

        Where a call does not wait, memory of NumPy's may be written to while the program runs.
        """
        is_own = self.mesh is self.given and self.home(None).sharding.is_fully_addressable
        return is_own and self.waits

    def places(self, declared: Sequence[Sharding | None]) -> list[NamedSharding]:
        """Where a program puts NumPy arrays; nothing if it takes none."""
        return [self.home(x).sharding for x in declared] if self.takes_hosted else []

    def named(
        self, sharding: Sharding, *, shape: Any = None, subject: object = ""
    ) -> NamedSharding:
        """A declared sharding as JAX's; an entry of the compiler's choice is open."""
        lengths = (None,) * len(sharding) if shape is None else shape
        found = self.axes.of(sharding, lengths, subject)
        return NamedSharding(self.mesh, _spec(found))

    def has(self, sharding: Any) -> bool:
        """Whether arrays of a sharding lie on the devices of the mesh."""
        return bool(self._devices == sharding.device_set)

    def is_over(self, other: Any) -> bool:
        """Whether another mesh has the same devices in the same order."""
        return other is self.mesh or (
            isinstance(other, Mesh) and [*other.devices.flat] == [*self.mesh.devices.flat]
        )

    # While JAX traces.

    def entered(self, x: Any) -> Any:
        """Return an argument without the explicit sharding that its type may have."""
        own = getattr(jax.typeof(x), "sharding", None) if isinstance(x, jax.Array) else None
        if own is not None and AxisType.Explicit in own.mesh.axis_types:
            return _constrained(x, NamedSharding(self.mesh, own.spec))
        return x

    def constrained(self, x: Any, sharding: Sharding, subject: str = "shard") -> Any:
        """An array that the compiled program divides so."""
        if len(sharding) != x.ndim:
            return x  # the program says what it expected
        named = self.named(sharding, shape=x.shape, subject=subject)
        return _constrained(x, named)

    def anyhow(self, x: Any) -> Any:
        """An array on the mesh, divided as the compiler likes."""
        return self.constrained(x, (OPEN,) * x.ndim) if isinstance(x, jax.Array) else x

    def left(self, y: Any, sharding: Sharding | None) -> Any:
        """A result over the user's own mesh, where its sharding is declared."""
        if self.mesh is self.given or sharding is None or OPEN in sharding or is_asking():
            return y
        entries = self.axes.of(sharding, (None,) * len(sharding), "")
        spec = _spec(tuple(map(self._explicit, entries)))
        return jax.sharding.reshard(y, NamedSharding(self.given, spec))  # type: ignore[no-untyped-call]

    def _explicit(self, entry: Entry) -> Entry:
        """An entry without axes that are automatic in the user's own mesh, too."""
        given = self.given
        types = dict(zip(given.axis_names, given.axis_types, strict=True))
        return tuple(x for x in names_in(entry) if types[x] is AxisType.Explicit) or None

    # After a call.

    def returned(self, results: Any) -> Any:
        """The results of a call over the user's own mesh."""
        if isinstance(results, list | tuple):
            return [self.returned(y) for y in results]
        found = getattr(results, "sharding", None)
        if isinstance(found, NamedSharding) and found.mesh == self.mesh:
            return jax.device_put(results, NamedSharding(self.given, found.spec))
        return results


def _spec(sharding: Sharding) -> PartitionSpec:
    entries = [PartitionSpec.UNCONSTRAINED if entry == OPEN else entry for entry in sharding]
    return PartitionSpec(*entries)  # type: ignore[no-untyped-call]


def _constrained(x: Any, sharding: NamedSharding) -> Any:
    return jax.lax.with_sharding_constraint(x, sharding)  # type: ignore[no-untyped-call]


def layout_of(options: Mapping[str, Any]) -> Layout | None:
    """The layout that a mode's options name; None where they have no mesh."""
    given = options.get("mesh")
    if given is None:
        return None
    return _layout(given, tuple((options.get("logical_axes") or {}).items()))


@lru_cache(64)
def _layout(given: Mesh, logical: tuple[tuple[str, Any], ...]) -> Layout:
    return Layout(given, dict(logical))


def admitted(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a mode with those of meshes in one form.

    Raises:
        ModeError: No mesh, or logical names without one or of no axis; a mesh beside a device.
    """
    found = dict(options)
    given, logical = found.get("mesh"), found.get("logical_axes")
    if given is None and logical is not None:
        raise ModeError("logical_axes names axes of a mesh, and the mode has none.", "Add mesh=.")
    if given is None:
        return found
    if not isinstance(given, Mesh) or given.empty:
        raise ModeError(
            f"mesh={given!r} is no mesh of devices.",
            "Make one: graphc.mesh(data=4, model=2), or a jax.sharding.Mesh.",
        )
    if AxisType.Manual in given.axis_types:
        raise ModeError(
            f"mesh={given!r} has manual axes, along which every device runs a program of its own.",
            "Make one with automatic axes, graphc.mesh(data=4, model=2), or explicit ones; within "
            "jax.shard_map, call a function whose mode has no mesh.",
        )
    if "device" in found:
        raise ModeError("Mode has both mesh= and device=.", "Leave out device=.")
    if logical is not None:
        found["logical_axes"] = _logical(logical, given)
    return found


def _logical(given: Any, mesh: Mesh) -> dict[str, Any]:
    remedy = 'Write logical_axes={"batch": "data", "hidden": "model", "embedding": None}.'
    if not isinstance(given, Mapping):
        raise ModeError(f"logical_axes={given!r} is no dict.", remedy)
    found = {}
    for name, axes in sorted(given.items()):
        entry = tuple(axes) if isinstance(axes, list | tuple) else axes
        names = entry if isinstance(entry, tuple) else () if entry is None else (entry,)
        if not isinstance(name, str) or not set(names) <= set(mesh.axis_names):
            raise ModeError(
                f"logical_axes: {name!r}: {axes!r}, and the mesh has the axes "
                f"{', '.join(mesh.axis_names)}.",
                remedy,
            )
        found[name] = entry
    return found


_layouts: ContextVar[Layout | None] = ContextVar("layout", default=None)


@contextmanager
def over(layout: Layout | None) -> Iterator[None]:
    """A context in which programs are traced for a mesh."""
    token = _layouts.set(layout)
    try:
        yield
    finally:
        _layouts.reset(token)


def current() -> Layout | None:
    """The layout that a program is being traced for."""
    return _layouts.get()
