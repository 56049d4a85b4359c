"""Values of shared variables on the devices of a mesh; nothing here imports JAX."""

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
"""The mode with arrays on meshes."""


def is_sharded(value: Any) -> bool:
    """Return whether a JAX array is on several devices."""
    return len(getattr(getattr(value, "sharding", None), "device_set", ())) > 1


def is_on_mesh(value: Any) -> bool:
    """Return whether a JAX array is on a mesh, of one device or several."""
    return hasattr(getattr(value, "sharding", None), "mesh")


class DeclaredSharding(NamedTuple):
    """The sharding of a shared variable's values.

    Attributes:
        sharding: The partition spec, or None if none is declared.
        mesh: The mesh, or None if it is not known.
        role: For a field of an implicit array, text for messages: the array and its sharding.
    """

    sharding: Sharding | None
    mesh: Any
    role: str = ""


def declared_sharding(sharding: Any, value: Any, subject: str) -> DeclaredSharding:
    """Return the sharding of a shared variable, and its mesh if that is known.

    Args:
        sharding: The user's sharding: entries for the axes, or a ``NamedSharding``; None for the
            value's sharding.
        value: An array.
        subject: The variable, in messages.

    Raises:
        ShardingError: The sharding does not fit the value, or has no names of axes.
    """
    sharding = value.sharding if sharding is None and is_sharded(value) else sharding
    if sharding is None:
        return DeclaredSharding(None, None)
    if not hasattr(sharding, "device_set"):
        return DeclaredSharding(value_sharding(sharding, value.shape, subject), None)
    spec = _spec_of(sharding, value.ndim, subject)
    MeshAxes(dict(sharding.mesh.shape)).of(spec, value.shape, subject)
    return DeclaredSharding(spec, sharding.mesh)


def declared_fields(sharding: Any, value: ImplicitArray, subject: str) -> list[DeclaredSharding]:
    """Return the shardings of an implicit array's fields, given the sharding of the array.

    Raises:
        ShardingError: If the sharding does not fit the array, or the class does not support it.
    """
    mesh, spec = None, sharding
    if hasattr(sharding, "device_set"):
        spec = _spec_of(sharding, value.ndim, subject)
        mesh = sharding.mesh
    shardings, role = value_shardings(value, spec, subject), role_of(value, spec)
    if mesh is not None:
        treedef, leaves = Treedef.of(value)
        for name, x, field_sharding in zip(treedef.paths(subject), leaves, shardings, strict=True):
            axes = MeshAxes(dict(mesh.shape))
            axes.of(field_sharding, lengths_of(x), f"{name}, {role}")
    return [DeclaredSharding(field_sharding, mesh, role) for field_sharding in shardings]


def _spec_of(sharding: Any, ndim: int, subject: str) -> Sharding:
    """Return the partition spec of a JAX sharding."""
    if not hasattr(sharding, "spec") or not hasattr(sharding, "mesh"):
        raise ShardingError(
            f"{subject}: {sharding!r} does not name the axes that it divides.",
            "Put the array on a mesh: jax.device_put(x, jax.sharding.NamedSharding(mesh, spec)).",
        )
    return as_sharding(sharding.spec, ndim, subject)


def on_mesh(value: Any, subject: str, sharding: Sharding | None, mesh: Any) -> Any:
    """Return a variable's value on its mesh; the value itself if there is no mesh."""
    if mesh is None:
        return value
    backend = load(JAX)
    home = backend.home(sharding, {"mesh": mesh})
    return value if home is None else home.keep(value, subject)


def portable_mesh(mesh: Any) -> Any:
    """Return a mesh, or None, in a form that can be pickled."""
    return None if mesh is None else load(JAX).portable_options({"mesh": mesh})["mesh"]


def mesh_here(mesh: Any, subject: str) -> Any:
    """Rebuild a mesh of ``portable_mesh`` from local devices; warn and return None without them."""
    try:
        return load(JAX).restore_options({"mesh": mesh})["mesh"]
    except ModeError as error:
        warnings.warn(
            f"{subject} is loaded without its mesh. {error.problem} Functions run over the mesh of "
            "their mode.",
            ShardingWarning,
            stacklevel=frames_up(),
        )
        return None


def require_fit(value: Any, type: TensorType) -> Any:
    """Return an array on several devices itself, if it fits a variable of this type.

    Raises:
        DTypeError: If the array has another dtype.
        ArgumentError: If its rank or a static length differs from the variable's.
    """
    if value.dtype != type.numpy_dtype:
        raise DTypeError(
            f"An array of {value.dtype} does not fit a shared variable of {type!r}.",
            f"Convert it: value.astype({type.dtype!r}).",
        )
    refuse_shape(value.shape, type)
    return value


def refuse_shape(shape: tuple[int, ...], type: TensorType) -> None:
    """Raise if a value does not have the rank and the static lengths of a variable.

    Raises:
        ArgumentError: If the rank or a static length differs.
    """
    if len(shape) != type.ndim or any(
        n is not None and n != m for n, m in zip(type.shape, shape, strict=True)
    ):
        raise ArgumentError(
            f"A value of shape {shape} does not fit a shared variable of {type!r}.",
            "Give it that rank and those lengths.",
        )
