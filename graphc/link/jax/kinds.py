"""What decides which executable a call needs: its arguments, the device, JAX's settings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from graphc.link.ledger import plain

__all__ = ["DECIDING", "PRECISION", "Kind", "Known", "settings"]

settings: Any = jax.config

DECIDING = (
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
"""The settings of JAX that decide what a program is compiled to."""

PRECISION = DECIDING.index("jax_default_matmul_precision")
"""Where that of products stands among them."""


@dataclass(frozen=True)
class Known:
    """What is known of arguments before they are there.

    Attributes:
        values: The values of some, by position, which are not passed.
        bounds: The most that others can be, by position.
    """

    values: Mapping[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    bounds: Mapping[int, int] = field(default_factory=dict)

    def shapes(self, passed: Sequence[Any]) -> list[tuple[int, ...]]:
        """The shape of each argument, given those that are passed."""
        left, values = iter(passed), self.values
        places = range(len(passed) + len(values))
        return [values[i].shape if i in values else next(left).shape for i in places]

    def items(self) -> dict[int, Any]:
        """The values as Python's integers, and tuples of them."""
        return {i: plain(x) for i, x in self.values.items()}

    def __repr__(self) -> str:
        values = [(i, x.dtype.str, x.shape, x.tobytes().hex()) for i, x in self.values.items()]
        return f"{values}, {[*self.bounds.items()]}"


@dataclass(frozen=True)
class Kind:
    """What calls have in common that one executable serves.

    Attributes:
        arguments: The shape and dtype of each argument, whether the dtype is weak, and where the
            argument has to stay.
        device: The default device.
        mesh: Where there is one, over which arrays are to be spread.
        settings: The values of those that decide.
    """

    arguments: tuple[tuple[Any, ...], ...]
    device: Any
    mesh: Hashable
    settings: tuple[Any, ...]

    @classmethod
    def of(cls, arguments: Sequence[Any]) -> Kind:
        """That of a call which is about to be made."""
        found = tuple(
            (x.shape, x.dtype, x.weak_type, x.sharding if x.committed else None)
            if isinstance(x, jax.Array)
            else (x.shape, x.dtype, False, None)
            for x in arguments
        )
        values = tuple(getattr(settings, name, None) for name in DECIDING)
        return cls(found, settings.jax_default_device, jax.sharding.get_abstract_mesh(), values)

    @property
    def place(self) -> Any:
        """The one device that all of it is on; None where there are several, or a mesh."""
        committed = [x for *_, x in self.arguments if x is not None]
        places = {device for x in committed for device in x.device_set}
        if not places:
            default = self.device
            places = {
                default
                if default is not None and not isinstance(default, str)
                else jax.local_devices(backend=default)[0]
            }
        return places.pop() if len(places) == 1 and self.mesh.empty else None  # type: ignore[attr-defined]

    def text(self) -> str:
        """Text that says all of it, the same in every process, where it has a place."""
        at = self.place
        arguments = [
            (shape, str(dtype), weak, sharding and sharding.memory_kind)
            for shape, dtype, weak, sharding in self.arguments
        ]
        return f"{arguments}, {at.platform}:{at.id}, {self.settings}"
