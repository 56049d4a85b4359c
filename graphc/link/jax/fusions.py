"""XLA's fusions and the operations in them, from a compiled program's text and a profiler's trace.

A program that is traced with a scope for each operation has the scopes' numbers in the metadata of
XLA's instructions. A trace has an event for each time that an instruction ran.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphc.link.jax.hlo import ProgramText, Scopes

MODULE = "graphc_profile"
"""The name of the profiled function, by which XLA's events are known to be of it."""

MOST_EVENTS = 1_000_000
"""The number of events that JAX writes into a trace; it leaves out further ones."""

HOLDERS = frozenset({"while", "conditional", "call"})
"""Instructions in which others run; these move the bytes."""

FREE = frozenset({"bitcast", "constant", "get-tuple-element", "parameter", "tuple"})
"""Instructions that compute nothing."""


@dataclass(frozen=True)
class Instruction:
    """An instruction of XLA's.

    Attributes:
        kind: What it does, such as ``"fusion"``.
        scopes: The scopes of all that it computes; none that another one is in.
        bytes: The sizes of its operands and its result.
    """

    kind: str
    scopes: tuple[Scopes, ...]
    bytes: int

    @property
    def inside(self) -> Scopes:
        """The scopes around all of its operations."""
        shared, *others = [path[:-1] for path in self.scopes] or [()]
        while any(path[: len(shared)] != shared for path in others):
            shared = shared[:-1]
        return shared

    @property
    def operations(self) -> Scopes:
        """The numbers of the operations that it computes."""
        place = len(self.inside)
        return tuple(dict.fromkeys(path[place] for path in self.scopes))


def instructions(text: str) -> dict[str, Instruction]:
    """The instructions of a compiled program, given its text, by their names."""
    program = ProgramText(text)
    return {name: _instruction(program, name) for name in program.lines}


def _instruction(program: ProgramText, name: str) -> Instruction:
    kind, operands = program.call(name)
    own = [program.size(x) for x in operands if x in program.lines]
    size = 0 if kind in HOLDERS else program.size(name) + sum(own)
    found = _scopes(program, name)
    outer = {path[:i] for path in found for i in range(len(path))}
    scopes = tuple(path for path in dict.fromkeys(found) if path not in outer)
    return Instruction(kind, scopes, size)


def _scopes(program: ProgramText, name: str) -> list[Scopes]:
    """The scopes of an instruction; of one that applies computations, of what is in them."""
    computed = [x for x in program.held(name) if program.call(x)[0] not in FREE]
    found = [path for x in computed for path in _scopes(program, x)]
    return found or program.scopes(name)


@dataclass(frozen=True)
class TraceEvent:
    """One run of an instruction.

    Attributes:
        name: The instruction's.
        thread: Where it ran.
        start: In microseconds.
        end: In microseconds.
    """

    name: str
    thread: tuple[int, int]
    start: float
    end: float


def events(directory: Path) -> tuple[list[TraceEvent], bool]:
    """The events of the profiled function in a trace, and whether JAX wrote all there were.

    Args:
        directory: Where the trace was written.
    """
    found, is_whole = [], True
    for path in sorted(directory.glob("**/*.trace.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            told = json.load(file)["traceEvents"]
        is_whole = is_whole and len(told) < MOST_EVENTS
        for event in told:
            about = event.get("args", {})
            if "hlo_op" in about and MODULE in str(about.get("hlo_module")):
                start, thread = event["ts"], (event["pid"], event["tid"])
                end = start + event.get("dur", 0.0)
                found.append(TraceEvent(about["hlo_op"], thread, start, end))
    return found, is_whole


@dataclass
class Run:
    """An event and its own time.

    Attributes:
        event: What ran.
        around: The event within which it ran; None where there is none.
        microseconds: The time without that of events within it; where several threads work at the
            same time, each has its share of it.
    """

    event: TraceEvent
    around: Run | None
    microseconds: float = 0.0


def runs(found: Iterable[TraceEvent]) -> list[Run]:
    """The events with the time that each took by itself; times add up to that of their union."""
    made: list[Run] = []
    pieces: list[tuple[float, float, int]] = []
    stack: list[int] = []
    reached = 0.0

    def until(time: float) -> None:
        """Close the events that end before, and give the innermost one the time until then."""
        nonlocal reached
        while stack:
            end = min(made[stack[-1]].event.end, time)
            if end > reached:
                pieces.append((reached, end, stack[-1]))
                reached = end
            if made[stack[-1]].event.end > time:
                break
            stack.pop()
        reached = time

    thread = None
    for event in sorted(found, key=lambda e: (e.thread, e.start, -e.end)):
        if event.thread != thread:
            until(math.inf)
            thread, reached = event.thread, event.start
        until(event.start)
        around = made[stack[-1]] if stack else None
        stack.append(len(made))
        made.append(Run(event, around))
    until(math.inf)
    _share(made, pieces)
    return made


def _share(made: Sequence[Run], pieces: Iterable[tuple[float, float, int]]) -> None:
    """Add pieces of time to runs; one that several threads spend is divided between them."""
    ends = [(start, True, i) for start, _, i in pieces] + [(end, False, i) for _, end, i in pieces]
    active: set[int] = set()
    last = 0.0
    for time, begins, i in sorted(ends):
        for k in active:
            made[k].microseconds += (time - last) / len(active)
        last = time
        (active.add if begins else active.discard)(i)
