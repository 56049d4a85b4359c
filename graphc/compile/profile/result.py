"""The result of a profile: rows, as text, as a page, and as a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphc.compile.profile.page import flame, page
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
        """Write the profile to a file that needs no others and no network.

        Args:
            path: The file; ``.html`` for a page with the picture and the table, ``.svg`` for the
                picture alone.

        Raises:
            ArgumentError: The name ends in something else.
        """
        file = Path(path)
        match file.suffix.lower():
            case ".html" | ".htm":
                text = page(self, str(self))
            case ".svg":
                text = flame(self)
            case other:
                raise ArgumentError(
                    f"save({str(path)!r}): there is no {other or 'file without a suffix'}.",
                    "Use a name that ends in .html or .svg.",
                )
        file.write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str:
        return page(self, str(self), standalone=False)

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
