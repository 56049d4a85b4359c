"""XLA's fusions and the operations in them, from a compiled program's text and a profiler's trace.

A program that is traced with a scope for each operation has the scopes' numbers in the metadata of
XLA's instructions. A trace has an event for each time that an instruction ran.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SCOPE = "graphc_node_"
"""How the name of a scope begins; its number follows."""

MODULE = "graphc_profile"
"""The name of the profiled function, by which XLA's events are known to be of it."""

MOST_EVENTS = 1_000_000
"""The number of events that JAX writes into a trace; it leaves out further ones."""

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (.*)$")
_HELD = re.compile(r"\b(?:calls|to_apply)=%?([\w.-]+)")
_NAME = re.compile(r'op_name="([^"]*)"')
_NUMBER = re.compile(rf"{SCOPE}(\d+)")
_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.-]+)")

HOLDERS = frozenset({"while", "conditional", "call"})
"""Instructions in which others run; these move the bytes."""

FREE = frozenset({"bitcast", "constant", "get-tuple-element", "parameter", "tuple"})
"""Instructions that compute nothing."""

Scopes = tuple[int, ...]
"""Numbers of scopes, from the outermost to that of an operation."""


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
    lines: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if found := _INSTRUCTION.match(line):
            lines[found[1]] = found[2]
            current.append(found[1])
        elif opened := _COMPUTATION.match(line):
            current = members.setdefault(opened[1], [])
    reader = _Reader(lines, members)
    return {name: reader.instruction(name) for name in lines}


class _Reader:
    """The lines of a program's text: of instructions, and which of them each computation has."""

    def __init__(self, lines: Mapping[str, str], members: Mapping[str, Sequence[str]]) -> None:
        self.lines = lines
        self.members = members

    def instruction(self, name: str) -> Instruction:
        """The instruction of that name."""
        line = self.lines[name]
        kind, operands = _call(line)
        own = [self._size(x) for x in operands if x in self.lines]
        size = 0 if kind in HOLDERS else self._size(name) + sum(own)
        found = self._scopes(name)
        outer = {path[:i] for path in found for i in range(len(path))}
        scopes = tuple(path for path in dict.fromkeys(found) if path not in outer)
        return Instruction(kind, scopes, size)

    def _scopes(self, name: str) -> list[Scopes]:
        """The scopes of an instruction; of one that applies computations, of what is in them."""
        line = self.lines[name]
        inner = [x for held in _HELD.findall(line) for x in self.members.get(held, ())]
        computed = [x for x in inner if _call(self.lines[x])[0] not in FREE]
        found = [path for x in computed for path in self._scopes(x)]
        if found:
            return found
        named = _NAME.search(line)
        numbers = tuple(map(int, _NUMBER.findall(named[1]))) if named else ()
        return [numbers] if numbers else []

    def _size(self, name: str) -> int:
        line = self.lines[name]
        return _bytes(line[: _type_end(line)])


def _type_end(line: str) -> int:
    """Where the type ends with which an instruction's line begins: tuples have spaces in them."""
    return _closing(line, 0) + 1 if line.startswith("(") else line.index(" ")


def _closing(line: str, start: int) -> int:
    """The place of the bracket that closes the one at a place."""
    depth = 0
    for i in range(start, len(line)):
        depth += (line[i] == "(") - (line[i] == ")")
        if not depth:
            return i
    return len(line)


def _call(line: str) -> tuple[str, list[str]]:
    """The kind of an instruction and the names of its operands."""
    rest = line[_type_end(line) :].strip()
    kind, _, _ = rest.partition("(")
    start = len(kind)
    return kind, _OPERAND.findall(rest[start : _closing(rest, start)])


def _bytes(type: str) -> int:
    """The size of an array, or of all in a tuple, given the text of the type."""
    total = 0
    for name, bits, lengths in _ARRAY.findall(type):
        count = math.prod(int(n) for n in lengths.split(",") if n)
        total += count if name == "pred" else count * int(bits) // 8
    return total


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
