"""Programs in which some operations have to know how XLA divides their arrays over a mesh.

That is XLA's choice, and no array says so while JAX traces. So such a program is lowered twice: the
first time these operations are calls that XLA asks about, and when it has told how it divides each
of them, it is left; the second time they are written for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.sharding import NamedSharding

from graphc.link.jax.explicit import automatic_mesh


class KnownError(Exception):
    """All that XLA is asked about is known, and it need not go on."""


@dataclass
class Choices:
    """How each of the operations is divided, in the order in which JAX traces them.

    Attributes:
        found: For each what it made of XLA's choice; None where XLA does not have it.
        are_known: Whether the program is being lowered for good.
        place: The number of the next one.
    """

    found: list[Any] = field(default_factory=list)
    are_known: bool = False
    place: int = 0

    def next(self) -> int:
        """The place of an operation that is being traced."""
        place, self.place = self.place, self.place + 1
        if not self.are_known:
            self.found.append(None)
        return place

    def enter(self, place: int, choice: Any) -> None:
        """Enter what XLA has told.

        Raises:
            KnownError: That was all.
        """
        self.found[place] = choice
        if None not in self.found:
            raise KnownError

    def settled(self, lowered: jax.stages.Lowered) -> None:
        """Ask XLA, which compiles a lowered program as far as needed."""
        try:
            lowered.compile()
        except jax.errors.JaxRuntimeError:
            if None in self.found:
                raise
        self.are_known, self.place = True, 0


_choices: ContextVar[Choices | None] = ContextVar("choices", default=None)


def choices() -> Choices | None:
    """The choices of the program that is being lowered; None where nothing asks for them."""
    return _choices.get()


def is_asking() -> bool:
    """Whether a program is being traced to ask XLA."""
    found = choices()
    return found is not None and not found.are_known


@contextmanager
def _among(found: Choices) -> Iterator[None]:
    token = _choices.set(found)
    try:
        yield
    finally:
        _choices.reset(token)


def lowered_for_choices(
    make: Callable[[], Any],
    trace: Callable[[Any, Sequence[Any]], jax.stages.Traced],
    arguments: Sequence[Any],
) -> tuple[Any, jax.stages.Lowered]:
    """Lower a program, with what XLA chooses known to it.

    Args:
        make: Makes ``jax.jit`` of the program, which has not been traced.
        trace: Traces it for arguments.
        arguments: The arguments, or their types.

    Returns:
        ``jax.jit`` of the program, and what it was lowered to.
    """
    found = Choices()
    with _among(found):
        jitted = make()
        traced = trace(jitted, arguments)
        if found.found:
            automatic = [*map(_automatic, arguments)]
            if any(a is not b for a, b in zip(automatic, arguments, strict=True)):
                # XLA can be asked in programs over one mesh.
                found.found.clear()
                found.place = 0
                traced = trace(make(), automatic)
            found.settled(traced.lower())
            jitted = make()
            traced = trace(jitted, arguments)
    return jitted, traced.lower()


def _automatic(x: Any) -> Any:
    """An argument, or its type over automatic axes where it is sharded over explicit ones."""
    where = getattr(x, "sharding", None)
    if not isinstance(where, NamedSharding):
        return x
    mesh: Any = where.mesh
    if automatic_mesh(mesh) is mesh:
        return x
    place = NamedSharding(automatic_mesh(mesh), where.spec)
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)  # type: ignore[no-untyped-call]
