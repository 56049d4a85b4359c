"""Random draws in a step: which shared keys it draws from, so that the loop carries them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from graphc.ir import Node
from graphc.loop.step import LoopStep, stand_in
from graphc.tensor.core.tensor import Tensor

T = TypeVar("T", bound=LoopStep)
Draws = dict[Any, Any]
"""Shared keys that a step draws from, and their values after it."""


@dataclass
class _Tape:
    """The keys that a step's draws begin with, by the stream they are of, in order."""

    made: dict[Hashable, list[Any]] = field(default_factory=dict)
    reached: dict[Hashable, int] = field(default_factory=dict)

    def updates(self) -> Draws:
        """The keys that the step read when it was traced last, and what it makes of them."""
        keys = [x for stream, n in self.reached.items() for x in self.made[stream][:n]]
        return {x: x.op.default_update for x in keys}


class _Tapes(threading.local):
    def __init__(self) -> None:
        self.open: list[_Tape] = []


_tapes = _Tapes()


@contextmanager
def taped() -> Iterator[Callable[[Callable[[], Any]], tuple[Any, Draws]]]:
    """A context that gives a function to trace a step with, which may do so again and again.

    It returns what the step returns, and the shared keys that it draws from. A step that is traced
    again draws from the same keys.
    """
    tape = _Tape()

    def traced(trace: Callable[[], Any]) -> tuple[Any, Draws]:
        tape.reached.clear()
        return trace(), tape.updates()

    _tapes.open.append(tape)
    try:
        yield traced
    finally:
        _tapes.open.pop()


def is_in_step() -> bool:
    """Whether a step of a loop is being traced."""
    return bool(_tapes.open)


def key_of_draw(stream: Hashable, make: Callable[[], Any]) -> Any:
    """The shared key of a stream's next draw: a new one, or the same as in an earlier trace."""
    return _key_of_draw(_tapes.open, stream, make)


def _key_of_draw(tapes: Sequence[_Tape], stream: Hashable, make: Callable[[], Any]) -> Any:
    if not tapes:
        return make()
    *outer, tape = tapes
    place = tape.reached.get(stream, 0)
    tape.reached[stream] = place + 1
    made = tape.made.setdefault(stream, [])
    if place == len(made):
        made.append(_key_of_draw(outer, stream, make))
    return made[place]


def carrying(
    init: Sequence[Tensor], step: T, updates: Mapping[Any, Any], kept: Sequence[Any] = ()
) -> tuple[list[Tensor], T]:
    """First carries and a step, with shared variables as further carries.

    Args:
        init: The carries before the first step.
        step: The step.
        updates: Shared variables, and their values after a step.
        kept: Arrays computed before the loop, which stay as they are.
    """
    if not updates:
        return list(init), step
    carries = {x: stand_in(x, x.name) for x in updates}
    swaps: dict[Node, Node] = {x: x for x in kept if isinstance(x, Node)}
    swaps.update(carries)
    wider = replace(
        step,
        carries=[*step.carries, *carries.values()],
        nexts=[*step.nexts, *updates.values()],
    )
    return [*init, *updates], wider.replaced(swaps)


def advanced(draws: Draws, finals: Mapping[Any, Any]) -> None:
    """Let functions that read these keys leave them as the loop does."""
    for x in draws:
        x.op.default_update = finals[x]
