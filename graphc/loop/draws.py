"""Random draws in a step: the shared keys that it draws from, which the loop carries."""

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
    """The first keys of a step's draws, by stream, in order."""

    keys: dict[Hashable, list[Any]] = field(default_factory=dict)
    counts: dict[Hashable, int] = field(default_factory=dict)

    def updates(self) -> Draws:
        """Return the keys that the latest trace read, with their values after the step."""
        read = [x for stream, n in self.counts.items() for x in self.keys[stream][:n]]
        return {x: x.op.default_update for x in read}


class _Tapes(threading.local):
    def __init__(self) -> None:
        self.open: list[_Tape] = []


_tapes = _Tapes()


@contextmanager
def draws_tape() -> Iterator[Callable[[Callable[[], Any]], tuple[Any, Draws]]]:
    """Provide a function that traces a step, and may do so repeatedly.

    The function returns the step's result and the shared keys that the step draws from. Every trace
    draws from the same keys.
    """
    tape = _Tape()

    def trace_step(trace: Callable[[], Any]) -> tuple[Any, Draws]:
        tape.counts.clear()
        return trace(), tape.updates()

    _tapes.open.append(tape)
    try:
        yield trace_step
    finally:
        _tapes.open.pop()


def is_in_step() -> bool:
    """Return whether a step of a loop is being traced."""
    return bool(_tapes.open)


def key_of_draw(stream: Hashable, make: Callable[[], Any]) -> Any:
    """Return the shared key of a stream's next draw; retraced steps reuse their keys."""
    return _key_of_draw(_tapes.open, stream, make)


def _key_of_draw(tapes: Sequence[_Tape], stream: Hashable, make: Callable[[], Any]) -> Any:
    if not tapes:
        return make()
    *outer, tape = tapes
    i = tape.counts.get(stream, 0)
    tape.counts[stream] = i + 1
    keys = tape.keys.setdefault(stream, [])
    if i == len(keys):
        keys.append(_key_of_draw(outer, stream, make))
    return keys[i]


def carry_variables(
    init: Sequence[Tensor], step: T, updates: Mapping[Any, Any], constants: Sequence[Any] = ()
) -> tuple[list[Tensor], T]:
    """Add shared variables as carries; ``constants`` are arrays that the step reads unchanged."""
    if not updates:
        return list(init), step
    carries = {x: stand_in(x, x.name) for x in updates}
    swaps: dict[Node, Node] = {x: x for x in constants if isinstance(x, Node)}
    swaps.update(carries)
    wider = replace(
        step,
        carries=[*step.carries, *carries.values()],
        nexts=[*step.nexts, *updates.values()],
    )
    return [*init, *updates], wider.replace_nodes(swaps)


def advance_keys(draws: Draws, finals: Mapping[Any, Any]) -> None:
    """Make functions that read these keys update them as the loop does."""
    for x in draws:
        x.op.default_update = finals[x]
