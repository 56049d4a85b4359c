"""Programs padded to buckets in MLX: a program for each set of buffers' shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mlx.core as mx

from graphc.ir import Graph
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.mlx.arrays import device_array, is_traced
from graphc.link.padding.buckets import Axis, BucketCache, Bucketed, bounds_of
from graphc.link.padding.program import PaddedResults, pad_program
from graphc.link.program import Program

Compile = Callable[[Graph], Executable]
"""Returns an executable of a graph."""


class MLXBuckets(Bucketed):
    """A program with padded arguments, compiled by MLX.

    Args:
        exact, spec, options: See ``Bucketed``.
        program: Returns the program.
        compile: Returns an executable of a graph.
    """

    is_for_shapes = True

    def __init__(
        self,
        exact: Executable,
        program: Callable[[], Program],
        spec: CallSpec,
        options: Mapping[str, Any],
        compile: Compile,
    ) -> None:
        super().__init__(exact, spec, options)
        self._program = program
        self._compile = compile

    def may_be_padded(self, arguments: Sequence[Any]) -> bool:
        """Return whether MLX does not trace the call."""
        return not is_traced(arguments)

    def pad(self, x: Any, shape: Sequence[int]) -> Any:
        """Pad an array with zeros at the end."""
        widths = [(0, n - m) for n, m in zip(shape, x.shape, strict=True)]
        return mx.pad(device_array(x), widths)

    def compile(
        self, axes: Sequence[Axis], shapes: Sequence[Any], numbers: Mapping[int, int]
    ) -> Executable:
        """Return a function of buffers of these shapes and of lengths."""
        program = self._program()
        types = [x.type.with_shape(n) for x, n in zip(program.arguments, shapes, strict=True)]
        bounds = bounds_of(axes, shapes, numbers)
        padded = pad_program(program, types, bounds, passes_lengths=True)
        execute = self._compile(padded.graph)
        return lambda *operands: PaddedResults.of(execute(*operands), padded)

    def trim(
        self,
        current: BucketCache,
        execute: Executable,
        lengths: Sequence[int],
        arguments: Sequence[Any],
        results: PaddedResults,
    ) -> list[Any]:
        """Return results that hold for these lengths, cut to them."""
        results.verify(lengths)
        pairs = zip(results.buffers, results.shapes(lengths), strict=True)
        return [
            y if tuple(y.shape) == shape else y[tuple([slice(n) for n in shape])]
            for y, shape in pairs
        ]
