"""Shardings: partition specs that map axes of an array to axes of a mesh of devices.

A sharding is a tuple with an entry for each axis of the array: the name of an axis of the mesh, a
tuple of names, None for a replicated axis, or ``"*"`` for an axis that the compiler may shard. A
sharding is no part of a type: arrays of one type may have different shardings.
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
    """Return a user's partition spec as a sharding of ``ndim`` axes.

    Args:
        given: A tuple or list, or a ``jax.sharding.PartitionSpec``; missing axes at the end are
            replicated.
        ndim: The number of the array's axes.
        subject: The array, in messages.

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
    spec = tuple([_entry(x, subject) for x in given])
    if len(spec) > ndim:
        raise ShardingError(
            f"{subject}: sharding={shown(spec)} has {len(spec)} entries, and the array {ndim} "
            f"{'axis' if ndim == 1 else 'axes'}.",
            "Give at most one for each axis.",
        )
    refuse_repetition(spec, subject)
    return (*spec, *(None,) * (ndim - len(spec)))


def value_sharding(given: Any, shape: Shape, subject: object) -> Sharding:
    """Return the sharding of values from outside, which has no open entry."""
    sharding = declared_sharding(given, shape, subject)
    if OPEN in sharding:
        raise ShardingError(
            f"{subject}: sharding={shown(sharding)} leaves an axis to the compiler, which does not "
            "choose where values come from.",
            "Write None for it, or an axis of the mesh; graphc.tensor.shard and graphc.Out take "
            f"{OPEN!r}.",
        )
    return sharding


def declared_sharding(given: Any, shape: Shape, subject: object) -> Sharding:
    """Return a user's partition spec as a graph stores it.

    If the default mode has a mesh, the sharding has to fit it.

    Raises:
        ShardingError: As for ``as_sharding`` and ``MeshAxes.of``.
    """
    sharding = as_sharding(given, len(shape), subject)
    check_default(sharding, shape, subject)
    return sharding


def check_default(sharding: Sharding, shape: Shape, subject: object) -> None:
    """Raise if a sharding does not fit the mesh of the default mode."""
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
    """Return the names in an entry; none if the entry is open."""
    if entry is None or entry == OPEN:
        return ()
    return (entry,) if isinstance(entry, str) else entry


def refuse_repetition(sharding: Sharding, subject: object) -> None:
    """Raise if an axis of the mesh shards two axes of an array."""
    names = Counter(name for entry in sharding for name in names_in(entry))
    for name, times in names.items():
        if times > 1:
            raise ShardingError(
                f"{subject}: sharding={shown(sharding)} has the axis {name!r} of the mesh {times} "
                "times.",
                "An axis of the mesh divides one axis of the array: leave it out of the others.",
            )


def with_role(subject: object, op: object) -> str:
    """Return the name of an array in messages, with the role that the operation ``op`` has."""
    role = getattr(op, "role", "")
    return f"{subject}, {role}" if role else f"{subject}"


def shown(sharding: Sharding) -> str:
    """Return a sharding as users write it."""
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
            sharding: Entries with the mesh's axes and logical names.
            shape: The array's lengths; None where unknown.
            subject: The array, in messages.
        """
        entries = tuple([self._entry(entry, sharding, subject) for entry in sharding])
        if self.logical:
            refuse_repetition(entries, subject)
        for axis, (n, entry) in enumerate(zip(shape, entries, strict=True)):
            count = prod(self.lengths[name] for name in names_in(entry))
            if n is not None and n % count:
                raise ShardingError(
                    f"{subject}: axis {axis} of length {n} cannot be divided into {count} equal "
                    f"parts, as sharding={shown(sharding)} over {self} asks.",
                    f"Make the length a multiple of {count}, or the entry None: every device then "
                    "has the whole axis.",
                )
        return entries

    def _entry(self, entry: Entry, sharding: Sharding, subject: object) -> Entry:
        if entry == OPEN:
            return entry
        axes = tuple([axis for name in names_in(entry) for axis in self._axes(name)])
        unknown = [name for name in axes if name not in self.lengths]
        if unknown:
            others = f"; logical names are {', '.join(self.logical)}" if self.logical else ""
            raise ShardingError(
                f"{subject}: sharding={shown(sharding)}: the mesh has no axis {unknown[0]!r}.",
                f"It has {self}{others}. Mode('JAX', mesh=..., logical_axes="
                f"{{{unknown[0]!r}: {next(iter(self.lengths))!r}}}) gives an axis another name.",
            )
        return axes[0] if len(axes) == 1 else axes or None

    def _axes(self, name: str) -> Iterator[str]:
        # An axis of the mesh may have its own name as a logical one.
        yield from names_in(self.logical[name]) if name in self.logical else (name,)

    def __str__(self) -> str:
        return f"mesh({', '.join(f'{name}={n}' for name, n in self.lengths.items())})"
