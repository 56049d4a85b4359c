"""The result of a profile: rows, as text and as a trace of Chrome's format."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphc.errors import ArgumentError

MOST_ROWS = 40
"""The number of rows that a text shows."""

MOST_RULES = 5
"""The number of rules that a text shows."""

Frame = tuple[str | None, str]
"""A line of the user's code, and the operation there."""


@dataclass(frozen=True)
class Row:
    """A row of a profile: operations of one line, in one call of the function.

    Attributes:
        frames: Line and operation of each enclosing loop and branch, outermost first, and of the
            row itself.
        seconds: The time, without the rows inside this one.
        calls: The number of runs; a fraction where calls differ.
        bytes: The sizes of operands and results, in all runs.
    """

    frames: tuple[Frame, ...]
    seconds: float
    calls: float
    bytes: float

    @property
    def where(self) -> str | None:
        """The user's ``file:line``; of a fusion of several, all of them."""
        return self.frames[-1][0]

    @property
    def operation(self) -> str:
        """The operation's name; of a fusion, the operations' names."""
        return self.frames[-1][1]

    @property
    def name(self) -> str:
        """The operation's name after the names of enclosing loops and branches: ``scan > exp``."""
        return " > ".join(operation for _, operation in self.frames)


@dataclass(frozen=True)
class RuleTime:
    """The time that a rule of the rewriting took.

    Attributes:
        name: The rule's name.
        seconds: The time of all attempts.
        attempts: The number of attempts.
        changes: The number of attempts that changed the graph.
    """

    name: str
    seconds: float
    attempts: int
    changes: int


@dataclass(frozen=True)
class Profile:
    """The profile of a compiled function; ``str()`` returns a table.

    Attributes:
        title: The function.
        backend: The backend, its version and the device.
        method: The method of measurement.
        repeat: The number of measured calls; all times are for one call.
        seconds: The time of a call while it is measured.
        alone: The time of a call while nothing within it is measured.
        rows: The slowest first; the last one is the remaining time. Rows add up to ``seconds``.
        phases: The seconds of each phase of compiling.
        rules: The rules of the rewriting, the slowest first; their time is part of its passes'.
    """

    title: str
    backend: str
    method: str
    repeat: int
    seconds: float
    alone: float
    rows: tuple[Row, ...]
    phases: Mapping[str, float]
    rules: tuple[RuleTime, ...]

    @property
    def lines(self) -> dict[str | None, float]:
        """The seconds of each line of the user's code, the slowest first; None for the rest."""
        seconds: dict[str | None, float] = {}
        for row in self.rows:
            seconds[row.where] = seconds.get(row.where, 0.0) + row.seconds
        return dict(sorted(seconds.items(), key=lambda pair: -pair[1]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile as a trace, which Perfetto, speedscope and Chrome draw.

        The call is at the top, then the user's lines, then their operations, and below a loop the
        operations of its steps. The width of a box is its time.

        Args:
            path: The file; its name ends in ``.json``.

        Raises:
            ArgumentError: If the name ends in something else.

        Source: "Trace Event Format", Google, 2016.
        """
        file = Path(path)
        if file.suffix.lower() != ".json":
            raise ArgumentError(
                f"save({str(path)!r}): there is no {file.suffix or 'file without a suffix'}.",
                "Use a name that ends in .json, and open the file in https://ui.perfetto.dev or "
                "https://www.speedscope.app.",
            )
        span = Span(self.title)
        for row in self.rows:
            span.add(_labels(row), max(0.0, row.seconds))
        file.write_text(json.dumps({"traceEvents": [*span.events(0.0)]}), encoding="utf-8")

    def __str__(self) -> str:
        return "\n".join(self._text())

    __repr__ = __str__

    def _text(self) -> Iterator[str]:
        s = "" if self.repeat == 1 else "s"
        yield f"{self.title} in mode {self.backend}"
        yield (
            f"{self.repeat} call{s} of {time_as_text(self.seconds)} "
            f"({time_as_text(self.alone)} without measurement): {self.method}"
        )
        width = max(len(row.where or "") for row in self.rows)
        yield f"{'time':>10} {'%':>6} {'calls':>7} {'bytes':>9}  {'line':{width}}  operation"
        *rows, elsewhere = self.rows
        hidden = rows[MOST_ROWS:]
        for row in [*rows[:MOST_ROWS], *_rest_of_rows(hidden)]:
            yield self._line(row, width)
        yield f"{self._line(elsewhere, width)}: the call, its arguments and results"
        yield f"{time_as_text(self.seconds):>10} {100:6.1f} {'':18} {'':{width}}  total"
        yield from self._compiling()

    def _line(self, row: Row, width: int) -> str:
        share = 100 * row.seconds / self.seconds
        calls = f"{row.calls:,.6g}" if row.calls else ""
        size = bytes_as_text(row.bytes) if row.bytes else ""
        numbers = f"{time_as_text(row.seconds):>10} {share:6.1f} {calls:>7} {size:>9}"
        return f"{numbers}  {row.where or '':{width}}  {row.name}"

    def _compiling(self) -> Iterator[str]:
        yield f"compiled in {time_as_text(sum(self.phases.values()))}:"
        for name, seconds in self.phases.items():
            yield f"{time_as_text(seconds):>10}  {name}"
        for rule in self.rules[:MOST_RULES]:
            tried = f"{rule.attempts:,} attempts, {rule.changes:,} changes"
            yield f"{time_as_text(rule.seconds):>10}  of it by the rule {rule.name}: {tried}"


@dataclass
class Span:
    """A box of a trace.

    Attributes:
        label: The text in the box.
        seconds: The time of the box, including the boxes below it.
        below: The boxes below it, by their labels.
    """

    label: str
    seconds: float = 0.0
    below: dict[str, Span] = field(default_factory=dict)

    def add(self, labels: list[str], seconds: float) -> None:
        """Add the time of a row whose boxes have these labels."""
        self.seconds += seconds
        if labels:
            label, *rest = labels
            self.below.setdefault(label, Span(label)).add(rest, seconds)

    def events(self, start: float) -> Iterator[dict[str, Any]]:
        """Yield the events of the box and of those below it, the slowest first."""
        times = {"ts": start * 1e6, "dur": self.seconds * 1e6}
        yield {"name": self.label, "ph": "X", "pid": 0, "tid": 0, **times}
        for span in sorted(self.below.values(), key=lambda span: -span.seconds):
            yield from span.events(start)
            start += span.seconds


def _labels(row: Row) -> list[str]:
    """Return the labels of a row's boxes, outermost first: a line, and the operation there."""
    labels: list[str] = []
    last: str | None = None
    for where, operation in row.frames:
        if where is not None and where != last:
            labels.append(where)
        last = where or last
        labels.append(operation)
    return labels


def _rest_of_rows(rows: list[Row]) -> Iterator[Row]:
    if rows:
        seconds = sum(row.seconds for row in rows)
        yield Row(((None, f"{len(rows)} further rows"),), seconds, 0.0, 0.0)


def time_as_text(seconds: float) -> str:
    """Return a time with its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e6:.1f} µs"


def bytes_as_text(count: float) -> str:
    """Return a number of bytes with its unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"
