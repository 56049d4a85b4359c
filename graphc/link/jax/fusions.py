"""XLA's fusions and the operations in them, from a compiled program's text and a profiler's trace.

A program that is traced with a scope for each operation has the scopes' numbers in the metadata of
XLA's instructions. A trace has an event for each run of an instruction.
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
"""The name of the profiled function, which XLA's events have."""

MOST_EVENTS = 1_000_000
"""The number of events that JAX writes into a trace; JAX drops further events."""

HOLDERS = frozenset({"while", "conditional", "call"})
"""Instructions that run other instructions, which move the bytes."""

FREE = frozenset({"bitcast", "constant", "get-tuple-element", "parameter", "tuple"})
"""Instructions that compute nothing."""


@dataclass(frozen=True)
class Instruction:
    """An instruction of a compiled program.

    Attributes:
        kind: The opcode, such as ``"fusion"``.
        scopes: The innermost scopes of all operations that the instruction computes.
        bytes: The sizes of its operands and its result.
    """

    kind: str
    scopes: tuple[Scopes, ...]
    bytes: int

    @property
    def inside(self) -> Scopes:
        """The scopes around all operations of the instruction."""
        prefix, *others = [path[:-1] for path in self.scopes] or [()]
        while any(path[: len(prefix)] != prefix for path in others):
            prefix = prefix[:-1]
        return prefix

    @property
    def operations(self) -> Scopes:
        """The numbers of the operations that the instruction computes."""
        depth = len(self.inside)
        return tuple(dict.fromkeys(path[depth] for path in self.scopes))


def instructions(text: str) -> dict[str, Instruction]:
    """Return the instructions of a compiled program, given its text, by their names."""
    program = ProgramText(text)
    return {name: _instruction(program, name) for name in program.lines}


def _instruction(program: ProgramText, name: str) -> Instruction:
    kind, operands = program.call(name)
    sizes = [program.size(x) for x in operands if x in program.lines]
    size = 0 if kind in HOLDERS else program.size(name) + sum(sizes)
    paths = _scopes(program, name)
    outer = {path[:i] for path in paths for i in range(len(path))}
    scopes = tuple(path for path in dict.fromkeys(paths) if path not in outer)
    return Instruction(kind, scopes, size)


def _scopes(program: ProgramText, name: str) -> list[Scopes]:
    """Return the scopes of an instruction, or of the instructions in its computations."""
    inner = [x for x in program.inner_instructions(name) if program.call(x)[0] not in FREE]
    paths = [path for x in inner for path in _scopes(program, x)]
    return paths or program.scopes(name)


@dataclass(frozen=True)
class TraceEvent:
    """One run of an instruction by a thread of a process; times are in microseconds."""

    name: str
    thread: tuple[int, int]
    start: float
    end: float


def events(directory: Path) -> tuple[list[TraceEvent], bool]:
    """Return the profiled function's events in a trace's directory, and whether JAX wrote all."""
    profiled, is_complete = [], True
    for path in sorted(directory.glob("**/*.trace.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            recorded = json.load(file)["traceEvents"]
        is_complete = is_complete and len(recorded) < MOST_EVENTS
        for event in recorded:
            details = event.get("args", {})
            if "hlo_op" in details and MODULE in str(details.get("hlo_module")):
                start, thread = event["ts"], (event["pid"], event["tid"])
                end = start + event.get("dur", 0.0)
                profiled.append(TraceEvent(details["hlo_op"], thread, start, end))
    return profiled, is_complete


@dataclass
class Run:
    """An event and its time without nested events.

    Attributes:
        event: The event.
        around: The event that this event is nested in; None if there is none.
        microseconds: The time without nested events; threads that work at the same time share it
            equally.
    """

    event: TraceEvent
    around: Run | None
    microseconds: float = 0.0


def runs(recorded: Iterable[TraceEvent]) -> list[Run]:
    """Return the events with their times; the sum of times is the time of the events' union."""
    timed: list[Run] = []
    pieces: list[tuple[float, float, int]] = []
    stack: list[int] = []
    reached = 0.0

    def until(time: float) -> None:
        """Close the events that end before a time, and assign the time to the innermost event."""
        nonlocal reached
        while stack:
            end = min(timed[stack[-1]].event.end, time)
            if end > reached:
                pieces.append((reached, end, stack[-1]))
                reached = end
            if timed[stack[-1]].event.end > time:
                break
            stack.pop()
        reached = time

    thread = None
    for event in sorted(recorded, key=lambda e: (e.thread, e.start, -e.end)):
        if event.thread != thread:
            until(math.inf)
            thread, reached = event.thread, event.start
        until(event.start)
        around = timed[stack[-1]] if stack else None
        stack.append(len(timed))
        timed.append(Run(event, around))
    until(math.inf)
    _share(timed, pieces)
    return timed


def _share(timed: Sequence[Run], pieces: Iterable[tuple[float, float, int]]) -> None:
    """Add pieces of time to runs; threads share a piece of time that they spend together."""
    ends = [(start, True, i) for start, _, i in pieces] + [(end, False, i) for _, end, i in pieces]
    active: set[int] = set()
    last = 0.0
    for time, begins, i in sorted(ends):
        for k in active:
            timed[k].microseconds += (time - last) / len(active)
        last = time
        (active.add if begins else active.discard)(i)
