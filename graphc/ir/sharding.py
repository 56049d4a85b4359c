"""Shardings: which axes of an array are divided over which axes of a mesh of devices.

A sharding is a tuple with an entry for each axis of the array: the name of an axis of the mesh, a
tuple of names, None for an axis that every device has whole, or ``"*"`` for one that the compiler
may divide as it likes. It is no part of a type: arrays of one type may lie on devices in any way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from graphc.config import config
from graphc.errors import ShardingError
from graphc.ir.types import OPEN, Entry, Shape, Sharding

FORM = (
    'Give an entry for each axis: the name of an axis of the mesh, a tuple of names, None, or "*" '
    'where the compiler may choose; sharding=("data", None).'
)


def as_sharding(given: Any, ndim: int, subject: object) -> Sharding:
    """Return what a user gave as a sharding of so many axes.

    Args:
        given: A tuple or list, or a ``jax.sharding.PartitionSpec``; axes at the end may be missing,
            and every device has them whole.
        ndim: The number of the array's axes.
        subject: What is sharded, in messages.

    Raises:
        ShardingError: It is none, has more entries than axes, or names an axis of the mesh twice.

    Example:
        >>> as_sharding(["data"], 2, "x")
        ('data', None)
    """
    if hasattr(given, "mesh") and hasattr(given, "spec"):
        raise ShardingError(
            f"{subject}: {given!r} has devices, and a graph has none.",
            "Give its axes, sharding=s.spec, and its mesh to the mode, Mode('JAX', mesh=s.mesh).",
        )
    is_spec = hasattr(given, "UNCONSTRAINED")  # a PartitionSpec, which is no tuple
    if not (is_spec or isinstance(given, tuple | list)):
        raise ShardingError(f"{subject}: sharding={given!r} is no tuple.", FORM)
    found = tuple([_entry(x, subject) for x in given])
    if len(found) > ndim:
        raise ShardingError(
            f"{subject}: sharding={shown(found)} has {len(found)} entries, and the array {ndim} "
            f"{'axis' if ndim == 1 else 'axes'}.",
            "Give at most one for each axis.",
        )
    refuse_repeated(found, subject)
    return (*found, *(None,) * (ndim - len(found)))


def value_sharding(given: Any, shape: Shape, subject: object) -> Sharding:
    """Return the sharding of values from outside, which leaves nothing open.

    Raises:
        ShardingError: As for ``declared_sharding``, or an entry is open.
    """
    found = declared_sharding(given, shape, subject)
    if OPEN in found:
        raise ShardingError(
            f"{subject}: sharding={shown(found)} leaves an axis to the compiler, which does not "
            "choose where values come from.",
            "Write None for it, or an axis of the mesh; graphc.tensor.shard and graphc.Out take "
            f"{OPEN!r}.",
        )
    return found


def declared_sharding(given: Any, shape: Shape, subject: object) -> Sharding:
    """Return a sharding as a graph keeps it.

    Where the default mode has a mesh, the sharding has to fit it.

    Raises:
        ShardingError: As for ``as_sharding`` and ``MeshAxes.of``.
    """
    found = as_sharding(given, len(shape), subject)
    check_default(found, shape, subject)
    return found


def check_default(sharding: Sharding, shape: Shape, subject: object) -> None:
    """Raise where a sharding does not fit the mesh of the default mode, if that has one."""
    axes: MeshAxes | None = getattr(config.mode, "mesh_axes", None)
    if axes is not None:
        axes.of(sharding, shape, subject)


def _entry(given: Any, subject: object) -> Entry:
    if given is None or (isinstance(given, str) and given):
        return given
    if isinstance(given, tuple | list) and all(isinstance(x, str) for x in given):
        return given[0] if len(given) == 1 else tuple(given) or None
    if repr(given).endswith("UNCONSTRAINED"):
        return OPEN
    raise ShardingError(f"{subject}: {given!r} is no entry of a sharding.", FORM)


def names_in(entry: Entry) -> tuple[str, ...]:
    """Return the names in an entry; none where it is open."""
    if entry is None or entry == OPEN:
        return ()
    return (entry,) if isinstance(entry, str) else entry


def refuse_repeated(sharding: Sharding, subject: object) -> None:
    """Raise where an axis of the mesh divides two axes of an array."""
    names = Counter(name for entry in sharding for name in names_in(entry))
    for name, times in names.items():
        if times > 1:
            raise ShardingError(
                f"{subject}: sharding={shown(sharding)} has the axis {name!r} of the mesh {times} "
                "times.",
                "An axis of the mesh divides one axis of the array: leave it out of the others.",
            )


def named(subject: object, op: object) -> str:
    """Return what messages call an array: with its role, which the operation that gives it has."""
    role = getattr(op, "role", "")
    return f"{subject}, {role}" if role else f"{subject}"


def shown(sharding: Sharding) -> str:
    """Return a sharding as a user writes it."""
    return repr(tuple(sharding))


@dataclass(frozen=True)
class MeshAxes:
    """The axes of a mesh, and other names for them.

    Attributes:
        lengths: The number of devices along each axis.
        logical: For a logical name, an axis, a tuple of axes, or None.
    """

    lengths: Mapping[str, int]
    logical: Mapping[str, Entry] = field(default_factory=dict)

    def of(self, sharding: Sharding, shape: Shape, subject: object) -> Sharding:
        """Return a sharding in terms of the mesh's own axes.

        Args:
            sharding: In terms of the mesh's axes and of logical names.
            shape: The array's lengths; None where unknown.
            subject: What is sharded, in messages.

        Raises:
            ShardingError: There is no such axis, it occurs twice, or a length cannot be divided.
        """
        found = tuple([self._entry(entry, sharding, subject) for entry in sharding])
        if self.logical:
            refuse_repeated(found, subject)
        for axis, (n, entry) in enumerate(zip(shape, found, strict=True)):
            parts = prod(self.lengths[name] for name in names_in(entry))
            if n is not None and n % parts:
                raise ShardingError(
                    f"{subject}: axis {axis} of length {n} cannot be divided into {parts} equal "
                    f"parts, as sharding={shown(sharding)} over {self} asks.",
                    f"Make the length a multiple of {parts}, or the entry None: every device then "
                    "has the whole axis.",
                )
        return found

    def _entry(self, entry: Entry, sharding: Sharding, subject: object) -> Entry:
        if entry == OPEN:
            return entry
        found = tuple([axis for name in names_in(entry) for axis in self._axes(name)])
        unknown = [name for name in found if name not in self.lengths]
        if unknown:
            others = f"; logical names are {', '.join(self.logical)}" if self.logical else ""
            raise ShardingError(
                f"{subject}: sharding={shown(sharding)}: the mesh has no axis {unknown[0]!r}.",
                f"It has {self}{others}. Mode('JAX', mesh=..., logical_axes="
                f"{{{unknown[0]!r}: {next(iter(self.lengths))!r}}}) gives an axis another name.",
            )
        return found[0] if len(found) == 1 else found or None

    def _axes(self, name: str) -> Iterator[str]:
        # An axis of the mesh may have its own name as a logical one.
        yield from names_in(self.logical[name]) if name in self.logical else (name,)

    def __str__(self) -> str:
        return f"mesh({', '.join(f'{name}={n}' for name, n in self.lengths.items())})"
