"""Programs padded to buckets in MLX: a program for each set of buffers' shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import mlx.core as mx
import numpy as np

from graphc.ir import Graph
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.mlx.arrays import device_array, is_traced
from graphc.link.padding.arguments import pad_program
from graphc.link.padding.buckets import (
    Axis,
    Bucketed,
    PaddedAxes,
    pad_arguments,
    padded_axes,
)
from graphc.link.padding.results import PaddedResults
from graphc.link.program import Program

Compile = Callable[[Graph], Executable]
"""Returns an executable of a graph."""


class MLXBuckets(Bucketed):
    """A program with padded arguments, compiled by MLX.

    Args:
        exact, spec, axes: See ``Bucketed``.
        program: Returns the program.
        compile: Returns an executable of a graph.
    """

    def __init__(
        self,
        exact: Executable,
        program: Callable[[], Program],
        spec: CallSpec,
        axes: tuple[Sequence[Axis], Sequence[Axis]],
        compile: Compile,
    ) -> None:
        super().__init__(exact, spec, axes)
        self._program = program
        self._compile = compile

    def may_be_padded(self, arguments: Sequence[Any]) -> bool:
        """Return whether MLX does not trace the call."""
        return not is_traced(arguments)

    def run(
        self, current: PaddedAxes, lengths: Sequence[int], arguments: Sequence[Any]
    ) -> list[Any] | None:
        """Return the results for padded arguments; None if the lengths do not fit each other."""
        bounds = self.bounds(current.axes, lengths)
        buffers = pad_arguments(arguments, current.axes, lengths, _pad)
        shapes = tuple([tuple(x.shape) for x in buffers])
        key = (shapes, *bounds.values())
        execute = self.executable(
            key, current, lambda: self._padded_program(current.axes, shapes, bounds)
        )
        results: PaddedResults = execute(*buffers, np.array(lengths, np.int64))
        if not results.hold_for(lengths):
            return None
        results.verify(lengths)
        pairs = zip(results.buffers, results.shapes(lengths), strict=True)
        return [
            y if tuple(y.shape) == shape else y[tuple([slice(n) for n in shape])]
            for y, shape in pairs
        ]

    def _padded_program(
        self, axes: Sequence[Axis], shapes: Sequence[Any], bounds: Mapping[int, int]
    ) -> Executable:
        program = self._program()
        arguments = [
            x.type.with_shape(shape) for x, shape in zip(program.arguments, shapes, strict=True)
        ]
        padded = pad_program(
            program, arguments, padded_axes(axes, shapes, bounds), passes_lengths=True
        )
        execute = self._compile(padded.graph)
        return lambda *operands: PaddedResults.of(execute(*operands), padded)


class PaddedContext(CompileContext):
    """The context of a padded program, whose last argument, the lengths, no call of a user has."""

    def __init__(self, context: CompileContext) -> None:
        self._context = context

    def before_compile(self, shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        self._context.before_compile(*_without_lengths(shapes, values))

    def record(
        self,
        kind: Literal["compile", "load"],
        shapes: Sequence[tuple[int, ...]],
        values: Mapping[int, Any],
        seconds: float,
    ) -> None:
        self._context.record(kind, *_without_lengths(shapes, values), seconds)


def _without_lengths(
    shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]
) -> tuple[Sequence[tuple[int, ...]], dict[int, Any]]:
    *others, _ = shapes
    return others, {i: value for i, value in values.items() if i < len(others)}


def _pad(x: Any, shape: Sequence[int]) -> Any:
    """Pad an array with zeros at the end."""
    widths = [(0, n - m) for n, m in zip(shape, x.shape, strict=True)]
    return mx.pad(device_array(x), widths)
