"""The benchmarks by name, and the lines they print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from benchmarks.timing import Ratio, megabytes, milliseconds

__all__ = ["BENCHMARKS", "Benchmark", "Line", "benchmark", "show", "write"]


@dataclass(frozen=True)
class Line:
    """One line of the table: a ratio of seconds, or of bytes, and what it should be."""

    name: str
    ratio: Ratio
    target: float
    unit: Literal["ms", "MB"] = "ms"


Run = Callable[[], Iterator[Line]]
F = TypeVar("F", bound=Run)


@dataclass(frozen=True)
class Benchmark:
    """A function that yields lines, and whether it is left out unless ``--long``."""

    run: Run
    long: bool


BENCHMARKS: dict[str, Benchmark] = {}
"""Every benchmark by its name, in the order entered."""


def benchmark(name: str, *, long: bool = False) -> Callable[[F], F]:
    """Enter the decorated function."""

    def enter(run: F) -> F:
        BENCHMARKS[name] = Benchmark(run, long)
        return run

    return enter


def write(line: str = "") -> None:
    """A line of output, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def show(line: Line | None = None) -> None:
    """A line of the table, or its head."""
    if line is None:
        write(
            f"{'':<44} {'graphc':>9} {'by hand':>9} {'':2} {'ratio':>7} {'best':>6} {'target':>7}"
        )
        return
    r = line.ratio
    shown = milliseconds if line.unit == "ms" else megabytes
    mark = " " if min(r.ratio, r.best) <= line.target else "*"
    write(
        f"{line.name:<44} {shown(r.graphc):>9} {shown(r.hand):>9} {line.unit} "
        f"{r.ratio:>7.2f} {r.best:>6.2f} {line.target:>6.2f}{mark}"
    )
