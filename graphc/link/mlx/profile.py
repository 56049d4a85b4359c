"""Profiles of programs that MLX runs: by compiled segment, or by operation.

MLX computes lazily. So each segment or operation is evaluated when it ends, and work that MLX may
do concurrently is done in sequence.
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
UNFUSED = "each operation timed by itself, nothing fused"


def measure(
    program: Program,
    options: Mapping[str, Any],
    arguments: Sequence[Any],
    repeat: int,
    *,
    fused: bool,
) -> Measurement:
    """Measure the program's segments and the steps between them, or each operation."""
    watch = Stopwatch(_evaluate)
    with mx.stream(device_of(options)) if options.get("device") else nullcontext():
        values = _arguments(program, options, arguments)
        options = {**options, "compile": options.get("compile", True) is not False}
        plain = partial(_run_segments, Segments(program, options), values)
        start = perf_counter()
        results = plain()
        first = perf_counter() - start
        alone = time_calls(plain, repeat)
        # The steps of loops become programs when these run.
        with nullcontext() if fused else observing(watch.observe):
            call = partial(
                _run_segments,
                (_by_segment if fused else _by_operation)(program, options, watch),
                values,
            )
            call()
            watch.reset()
            seconds = time_calls(call, repeat)
    phases = {"tracing and compiling kernels": max(0.0, first - alone / repeat)}
    method = FUSED if fused else UNFUSED
    return Measurement(method, seconds, alone, watch.parts.all(), phases, results)


def _arguments(program: Program, options: Mapping[str, Any], arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments as MLX arrays, except those that the program reads on the host."""
    static = program.host.inputs if program.host else ()
    values = [
        x if i in static else array(x, node.type, options)
        for i, (x, node) in enumerate(zip(arguments, program.arguments, strict=True))
    ]
    return _evaluate(values)  # type: ignore[no-any-return]


def _run_segments(segments: Segments, values: Sequence[Any]) -> Any:
    return _evaluate([device_array(y) for y in segments.run(*values)])


def _evaluate(values: Any) -> Any:
    arrays = values if isinstance(values, tuple | list) else [values]
    mx.eval([x for x in arrays if isinstance(x, mx.array)])
    return values


def _by_operation(program: Program, options: Mapping[str, Any], watch: Stopwatch) -> Segments:
    """Return the program without compiled segments; an observer times each operation."""
    unfused = Program(program.graph, backend, program.host)
    segments = Segments(unfused, {**options, "compile": False})
    # The driver of a loop has replaced the observed function.
    segments.stages = [
        ([_with_stopwatch(x, watch) if type(x.node.op) in DRIVERS else x for x in before], segment)
        for before, segment in segments.stages
    ]
    return segments


def _by_segment(program: Program, options: Mapping[str, Any], watch: Stopwatch) -> Segments:
    """Return the program with a stopwatch on segments and on the steps between them."""
    segments = Segments(program, options)
    segments.stages = [
        ([_with_stopwatch(step, watch) for step in before], _TimedSegment.of(segment, watch))
        for before, segment in segments.stages
    ]
    return segments


def _with_stopwatch(step: Step, watch: Stopwatch) -> Step:
    return step._replace(compute=watch.observe(step.node, step.compute))


@dataclass
class _TimedSegment(Segment):
    """A segment with a stopwatch."""

    watch: Stopwatch = field(default_factory=Stopwatch)

    @classmethod
    def of(cls, segment: Segment, watch: Stopwatch) -> _TimedSegment:
        fields = segment.steps, segment.arrays, segment.static, segment.results
        return cls(segment.program, segment.options, *fields, watch=watch)

    def run(self, values: list[Any]) -> None:
        def compute(*arrays: Any) -> list[Any]:
            Segment.run(self, values)
            return [values[i] for i in self.results]

        nodes = tuple(step.node for step in self.steps if not isinstance(step.node.op, Pick))
        self.watch.run(nodes, compute, *[values[i] for i in self.arrays])
