"""Profiles of programs that MLX runs: by compiled segment, or by operation.

MLX computes nothing before a value is asked for. So each part is evaluated when it ends, and what
MLX may do at the same time is done in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import mlx.core as mx

from graphc.ir import Pick
from graphc.link.mlx.arrays import array, device_array, device_of
from graphc.link.mlx.backend import backend
from graphc.link.mlx.segments import DRIVERS, Segment, Segments
from graphc.link.profile import Measurement, Stopwatch, time_calls
from graphc.link.program import Program, Step, observing

FUSED = "each compiled segment timed (fused=False times each operation)"
APART = "each operation timed by itself, nothing fused"


def measure(
    program: Program,
    options: Mapping[str, Any],
    arguments: Sequence[Any],
    repeat: int,
    *,
    fused: bool,
) -> Measurement:
    """Measure the program's segments and what is run between them, or each operation."""
    watch = Stopwatch(_evaluated)
    with mx.stream(device_of(options)) if options.get("device") else nullcontext():
        values = _arguments(program, options, arguments)
        options = {**options, "compile": options.get("compile", True) is not False}
        plain = partial(_called, Segments(program, options), values)
        start = perf_counter()
        results = plain()
        first = perf_counter() - start
        alone = time_calls(plain, repeat)
        # The steps of loops become programs when these run.
        with nullcontext() if fused else observing(watch.observe):
            call = partial(
                _called, (_by_segment if fused else _apart)(program, options, watch), values
            )
            call()
            watch.reset()
            seconds = time_calls(call, repeat)
    phases = {"tracing and compiling kernels": max(0.0, first - alone / repeat)}
    method = FUSED if fused else APART
    return Measurement(method, seconds, alone, watch.parts.all(), phases, results)


def _arguments(program: Program, options: Mapping[str, Any], arguments: Sequence[Any]) -> list[Any]:
    """The arguments as MLX's arrays, but for those that the program reads on the host."""
    static = program.host.inputs if program.host else ()
    values = [
        x if i in static else array(x, node.type, options)
        for i, (x, node) in enumerate(zip(arguments, program.arguments, strict=True))
    ]
    return _evaluated(values)  # type: ignore[no-any-return]


def _called(segments: Segments, values: Sequence[Any]) -> Any:
    """The outputs of a program, evaluated."""
    return _evaluated([device_array(y) for y in segments.run(*values)])


def _evaluated(found: Any) -> Any:
    several = found if isinstance(found, tuple | list) else [found]
    mx.eval([x for x in several if isinstance(x, mx.array)])
    return found


def _apart(program: Program, options: Mapping[str, Any], watch: Stopwatch) -> Segments:
    """The program without compiled segments; an observer has each operation timed."""
    made = Program(program.graph, backend, program.host)
    found = Segments(made, {**options, "compile": False})
    # What drives a loop has taken the place of what was observed.
    found.stages = [
        ([_timed(x, watch) if type(x.node.op) in DRIVERS else x for x in before], segment)
        for before, segment in found.stages
    ]
    return found


def _by_segment(program: Program, options: Mapping[str, Any], watch: Stopwatch) -> Segments:
    """The program with segments, and steps between them, that are timed."""
    made = Segments(program, options)
    made.stages = [
        ([_timed(step, watch) for step in before], _TimedSegment.of(segment, watch))
        for before, segment in made.stages
    ]
    return made


def _timed(step: Step, watch: Stopwatch) -> Step:
    return step._replace(compute=watch.observe(step.node, step.compute))


@dataclass
class _TimedSegment(Segment):
    """A segment that is timed."""

    watch: Stopwatch = field(default_factory=Stopwatch)

    @classmethod
    def of(cls, segment: Segment, watch: Stopwatch) -> _TimedSegment:
        """A segment with a stopwatch."""
        parts = segment.steps, segment.arrays, segment.known, segment.results
        return cls(segment.program, segment.options, *parts, watch=watch)

    def run(self, values: list[Any]) -> None:
        """Put its results among the values."""

        def compute(*arrays: Any) -> list[Any]:
            Segment.run(self, values)
            return [values[i] for i in self.results]

        nodes = tuple(step.node for step in self.steps if not isinstance(step.node.op, Pick))
        self.watch.run(nodes, compute, *[values[i] for i in self.arrays])
