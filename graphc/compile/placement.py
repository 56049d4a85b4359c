"""Values of shared variables that lie on the devices of a mesh; nothing here imports JAX."""

from __future__ import annotations

from typing import Any

from graphc.errors import ArgumentError, DTypeError, ShardingError
from graphc.ir import Sharding, TensorType
from graphc.ir.sharding import MeshAxes, as_sharding, value_sharding
from graphc.link import load

JAX = "JAX"
"""The mode whose arrays lie on meshes."""


def is_divided(value: Any) -> bool:
    """Whether an array of JAX's lies on several devices."""
    return len(getattr(getattr(value, "sharding", None), "device_set", ())) > 1


def is_on_mesh(value: Any) -> bool:
    """Whether an array of JAX's lies on a mesh, if only on one of a single device."""
    return hasattr(getattr(value, "sharding", None), "mesh")


def declared(given: Any, value: Any, subject: str) -> tuple[Sharding | None, Any]:
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
        return None, None
    if not hasattr(given, "device_set"):
        return value_sharding(given, value.shape, subject), None
    if not hasattr(given, "spec") or not hasattr(given, "mesh"):
        raise ShardingError(
            f"{subject}: {given!r} does not name the axes that it divides.",
            "Put the array on a mesh: jax.device_put(x, jax.sharding.NamedSharding(mesh, spec)).",
        )
    found = as_sharding(given.spec, value.ndim, subject)
    MeshAxes(dict(given.mesh.shape)).of(found, value.shape, subject)
    return found, given.mesh


def on_mesh(value: Any, type: TensorType, sharding: Sharding | None, mesh: Any) -> Any:
    """A variable's value on its mesh; where that is not known, as it is."""
    if mesh is None:
        return value
    backend = load(JAX)
    home = backend.home(sharding, {"mesh": mesh})
    return value if home is None else home.keep(value, f"A value of {type!r}")


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
