"""Values of shared variables that lie on the devices of a mesh; nothing here imports JAX."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from graphc.errors import ArgumentError, DTypeError, ModeError, ShardingError, ShardingWarning
from graphc.implicit.array import ImplicitArray
from graphc.implicit.partition import role_of, value_shardings
from graphc.implicit.treedef import Treedef, lengths_of
from graphc.ir import Sharding, TensorType
from graphc.ir.sharding import MeshAxes, as_sharding, value_sharding
from graphc.link import load
from graphc.site import frames_up

JAX = "JAX"
"""The mode whose arrays lie on meshes."""


def is_divided(value: Any) -> bool:
    """Whether an array of JAX's lies on several devices."""
    return len(getattr(getattr(value, "sharding", None), "device_set", ())) > 1


def is_on_mesh(value: Any) -> bool:
    """Whether an array of JAX's lies on a mesh, if only on one of a single device."""
    return hasattr(getattr(value, "sharding", None), "mesh")


class Where(NamedTuple):
    """Where the values of a shared variable are to be.

    Attributes:
        sharding: Their sharding, where one is declared.
        mesh: The mesh that it is over, where that is known.
        role: Of a field of an implicit array, what that is and how it is sharded, in messages.
    """

    sharding: Sharding | None
    mesh: Any
    role: str = ""


def declared(given: Any, value: Any, subject: str) -> Where:
    """The sharding of a shared variable, and the mesh that it is over where that is known.

    Args:
        given: What the user gave: entries for the axes, or a ``NamedSharding``; None for that of
            the value.
        value: An array.
        subject: The variable, in messages.

    Raises:
        ShardingError: The sharding does not fit the value, or has no names of axes.
    """
    given = value.sharding if given is None and is_divided(value) else given
    if given is None:
        return Where(None, None)
    if not hasattr(given, "device_set"):
        return Where(value_sharding(given, value.shape, subject), None)
    found = _spec_of(given, value.ndim, subject)
    MeshAxes(dict(given.mesh.shape)).of(found, value.shape, subject)
    return Where(found, given.mesh)


def declared_fields(given: Any, value: ImplicitArray, subject: str) -> list[Where]:
    """Where the fields of an implicit array are to be, given the sharding of the whole.

    Raises:
        ShardingError: It does not fit the array, or the class cannot be divided so.
    """
    mesh, spec = None, given
    if hasattr(given, "device_set"):
        spec = _spec_of(given, value.ndim, subject)
        mesh = given.mesh
    found, role = value_shardings(value, spec, subject), role_of(value, spec)
    if mesh is not None:
        treedef, leaves = Treedef.of(value)
        for name, x, own in zip(treedef.paths(subject), leaves, found, strict=True):
            axes = MeshAxes(dict(mesh.shape))
            axes.of(own, lengths_of(x), f"{name}, {role}")
    return [Where(own, mesh, role) for own in found]


def _spec_of(given: Any, ndim: int, subject: str) -> Sharding:
    """The entries of a sharding of JAX's.

    Raises:
        ShardingError: It has no names of axes.
    """
    if not hasattr(given, "spec") or not hasattr(given, "mesh"):
        raise ShardingError(
            f"{subject}: {given!r} does not name the axes that it divides.",
            "Put the array on a mesh: jax.device_put(x, jax.sharding.NamedSharding(mesh, spec)).",
        )
    return as_sharding(given.spec, ndim, subject)


def on_mesh(value: Any, subject: str, sharding: Sharding | None, mesh: Any) -> Any:
    """A variable's value on its mesh; where that is not known, as it is."""
    if mesh is None:
        return value
    backend = load(JAX)
    home = backend.home(sharding, {"mesh": mesh})
    return value if home is None else home.keep(value, subject)


def portable_mesh(mesh: Any) -> Any:
    """A mesh, or None, as another process can have it."""
    return None if mesh is None else load(JAX).portable({"mesh": mesh})["mesh"]


def mesh_here(mesh: Any, subject: str) -> Any:
    """What ``portable_mesh`` gave, of this process's devices; None, and a warning, without them."""
    try:
        return load(JAX).restored({"mesh": mesh})["mesh"]
    except ModeError as error:
        warnings.warn(
            f"{subject} is loaded without its mesh. {error.problem} Functions run over the mesh of "
            "their mode.",
            ShardingWarning,
            stacklevel=frames_up(),
        )
        return None


def divided(value: Any, type: TensorType) -> Any:
    """An array on several devices as a variable of a type stores it: that very array.

    Raises:
        DTypeError: It has another dtype.
        ArgumentError: Its rank or a static length differs from the variable's.
    """
    if value.dtype != type.numpy_dtype:
        raise DTypeError(
            f"An array of {value.dtype} does not fit a shared variable of {type!r}.",
            f"Convert it: value.astype({type.dtype!r}).",
        )
    refuse_shape(value.shape, type)
    return value


def refuse_shape(shape: tuple[int, ...], type: TensorType) -> None:
    """Raise where a value does not have the rank and the static lengths of a variable.

    Raises:
        ArgumentError: It does not.
    """
    if len(shape) != type.ndim or any(
        n is not None and n != m for n, m in zip(type.shape, shape, strict=True)
    ):
        raise ArgumentError(
            f"A value of shape {shape} does not fit a shared variable of {type!r}.",
            "Give it that rank and those lengths.",
        )
