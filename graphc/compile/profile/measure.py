"""Measurement of a function: its graph is rewritten, compiled and called with the clock running."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from graphc.compile.guard import raising
from graphc.compile.pipeline import LoweredProgram, Signature, lower_program
from graphc.compile.profile.result import Frame, Profile, Row, RuleTime
from graphc.context import setting
from graphc.errors import ArgumentError
from graphc.ir import Node
from graphc.link.profile import Measurement, ProgramPart, profiler
from graphc.rewrite.engine import APPLY, apply_rule
from graphc.rewrite.rule import Rule

NAMED = 4
"""The number of operations of a fusion that are named."""

ELSEWHERE = "elsewhere"
"""The row of the time that no operation took."""


def profile_program(
    title: str,
    signature: Signature,
    leaves: Sequence[Any],
    values: Sequence[Any],
    repeat: int,
    *,
    fused: bool,
) -> Profile:
    """Rewrite, compile and call a program, and measure all of it.

    Args:
        title: The function's name in the profile.
        signature: The program's signature.
        leaves: The arrays that its graph captures.
        values: NumPy arrays of the arguments, then of the shared variables, which do not change.
        repeat: The number of calls.
        fused: Whether operations that are compiled together are measured together.

    Raises:
        ArgumentError: ``repeat`` is no positive integer.
        CheckError: A condition of the graph does not hold.
    """
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise ArgumentError(f"profile(repeat={repeat!r}): use a positive integer.")
    mode = signature.mode
    rules: dict[str, RuleTime] = {}
    start = perf_counter()
    with _timed_rules(rules):
        lowered = lower_program(signature)
    rewriting = perf_counter() - start
    arguments = [*values, *[leaves[i] for i in lowered.slots]]
    measurement = profiler(mode.backend.name)(
        lowered.program, mode.options, arguments, repeat, fused=fused
    )
    if lowered.failures:
        raising(lambda: measurement.results, lowered.failures, mode.backend, single=False)()
    return Profile(
        title=title,
        backend=f"{mode.name}: {mode.backend.describe(mode.options)}",
        method=measurement.method,
        repeat=repeat,
        seconds=measurement.seconds / repeat,
        alone=measurement.alone / repeat,
        rows=_rows(measurement, repeat),
        phases={**_phases(lowered, rewriting), **measurement.phases},
        rules=tuple(sorted(rules.values(), key=lambda rule: -rule.seconds)),
    )


@contextmanager
def _timed_rules(times: dict[str, RuleTime]) -> Iterator[None]:
    """Add up the time of each rule in the block."""

    def apply_and_time(rule: Rule, node: Node) -> Node | None:
        start = perf_counter()
        new = apply_rule(rule, node)
        seconds = perf_counter() - start
        before = times.get(rule.name) or RuleTime(rule.name, 0.0, 0, 0)
        changes = before.changes + (new is not None and new is not node)
        times[rule.name] = RuleTime(
            rule.name, before.seconds + seconds, before.attempts + 1, changes
        )
        return new

    with setting(APPLY, apply_and_time):
        yield


def _phases(lowered: LoweredProgram, rewriting: float) -> dict[str, float]:
    """Return the seconds of each pass, and of the rest of lowering."""
    seconds: dict[str, float] = {}
    for report in lowered.passes:
        name = f"rewriting: {report.name}"
        seconds[name] = seconds.get(name, 0.0) + report.seconds
    return {**seconds, "rewriting: the rest": max(0.0, rewriting - sum(seconds.values()))}


def _rows(measurement: Measurement, repeat: int) -> tuple[Row, ...]:
    """Return the rows of a profile, the slowest first, then the remaining time."""
    by_frames: dict[tuple[Frame, ...], Row] = {}
    for part in measurement.parts:
        frames = (*((node.where, _name([node])) for node in part.inside), _frame(part))
        before = by_frames.get(frames) or Row(frames, 0.0, 0.0, 0.0)
        by_frames[frames] = Row(
            frames,
            before.seconds + part.seconds / repeat,
            before.calls + part.calls / repeat,
            before.bytes + part.bytes / repeat,
        )
    rows = sorted(by_frames.values(), key=lambda row: -row.seconds)
    rest = measurement.seconds / repeat - sum(row.seconds for row in rows)
    return (*rows, Row(((None, ELSEWHERE),), rest, 0.0, 0.0))


def _frame(part: ProgramPart) -> Frame:
    if not part.nodes:
        return None, part.label
    lines = dict.fromkeys(node.where for node in part.nodes if node.where)
    return _merge_lines(list(lines)) or None, _name(part.nodes)


def _merge_lines(lines: Sequence[str]) -> str:
    """Return the text of lines of code, by file: ``model.py:3,5``."""
    files: dict[str, list[int]] = {}
    for line in lines:
        file, _, number = line.rpartition(":")
        files.setdefault(file, []).append(int(number))
    return " ".join(
        f"{file}:{','.join(map(str, sorted(numbers)))}" for file, numbers in files.items()
    )


def _name(nodes: Sequence[Node]) -> str:
    names = list(dict.fromkeys(str(getattr(x.op, "title", x.op.name)) for x in nodes))
    suffix = f" +{len(names) - NAMED}" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{suffix}"
