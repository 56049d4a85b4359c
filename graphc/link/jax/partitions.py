"""Programs with operations whose lowering depends on how XLA partitions them over a mesh.

XLA chooses the partition after JAX has traced, so a program with these operations is lowered twice.
In the first lowering, each of them is a custom call whose partition rule records XLA's choice; when
all choices are recorded, compilation is aborted. The second lowering uses the recorded choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.sharding import NamedSharding

from graphc.context import setting
from graphc.link.jax.explicit import automatic_mesh


class KnownError(Exception):
    """All choices of XLA are recorded, and its compilation can be aborted."""


@dataclass
class Choices:
    """XLA's partitions of the operations, in the order in which JAX traces them.

    Attributes:
        choices: The choice for each operation; None for operations that XLA removed.
        are_known: Whether all choices are recorded, so that this is the second lowering.
        index: The index of the next operation.
    """

    choices: list[Any] = field(default_factory=list)
    are_known: bool = False
    index: int = 0

    def next(self) -> int:
        """Return the index of an operation that is being traced."""
        index, self.index = self.index, self.index + 1
        if not self.are_known:
            self.choices.append(None)
        return index

    def enter(self, index: int, choice: Any) -> None:
        """Record a choice of XLA.

        Raises:
            KnownError: If this was the last choice.
        """
        self.choices[index] = choice
        if None not in self.choices:
            raise KnownError

    def ask(self, lowered: jax.stages.Lowered) -> None:
        """Record XLA's choices for a lowered program, compiled as far as needed."""
        try:
            lowered.compile()
        except jax.errors.JaxRuntimeError:
            if None in self.choices:
                raise
        self.are_known, self.index = True, 0


_choices: ContextVar[Choices | None] = ContextVar("choices", default=None)


def choices() -> Choices | None:
    """Return the choices of the program that is being lowered; None if no operation needs them."""
    return _choices.get()


def is_asking() -> bool:
    """Return whether a program is being traced to record XLA's choices."""
    current = choices()
    return current is not None and not current.are_known


def lower_for_partitions(
    make: Callable[[], Any],
    trace: Callable[[Any, Sequence[Any]], jax.stages.Traced],
    arguments: Sequence[Any],
) -> tuple[Any, jax.stages.Lowered]:
    """Lower a program whose operations may depend on XLA's partitions.

    Args:
        make: Returns a new ``jax.jit`` function of the program, which has not been traced.
        trace: Traces a ``jax.jit`` function for arguments.
        arguments: The arguments, or their types.

    Returns:
        The ``jax.jit`` function of the program, and the lowered program.
    """
    recorded = Choices()
    with setting(_choices, recorded):
        jitted = make()
        traced = trace(jitted, arguments)
        if recorded.choices:
            automatic = [*map(_with_automatic_axes, arguments)]
            if any(a is not b for a, b in zip(automatic, arguments, strict=True)):
                # A custom partition rule needs a program over one mesh alone.
                recorded.choices.clear()
                recorded.index = 0
                traced = trace(make(), automatic)
            recorded.ask(traced.lower())
            jitted = make()
            traced = trace(jitted, arguments)
    return jitted, traced.lower()


def _with_automatic_axes(x: Any) -> Any:
    """Return an argument, or its type over automatic axes if it is sharded over explicit axes."""
    sharding = getattr(x, "sharding", None)
    if not isinstance(sharding, NamedSharding):
        return x
    mesh: Any = sharding.mesh
    if automatic_mesh(mesh) is mesh:
        return x
    automatic = NamedSharding(automatic_mesh(mesh), sharding.spec)
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=automatic)  # type: ignore[no-untyped-call]
