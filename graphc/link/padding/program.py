"""Programs for arguments of known shapes, some of which are padded, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import TensorType
from graphc.ir.lengths import AnyLength
from graphc.link.checks import admit
from graphc.link.padding.counts import Count, LengthComparison, is_known, passed_length, value_of
from graphc.link.padding.graph import PaddedGraph, pad
from graphc.link.padding.padded import PaddedArray
from graphc.link.program import Program
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.tensor import Tensor

PaddedAxes = Mapping[tuple[int, int], tuple[int, int]]
"""The bounds of each padded length, by the position of the argument and the axis.

The axis is -1 for an argument that is a number of bounded size.
"""


def pad_program(
    program: Program, arguments: Sequence[Any], axes: PaddedAxes, *, passes_lengths: bool
) -> PaddedGraph:
    """Return the padded graph of a program.

    Args:
        program: The program.
        arguments: For each argument its value if it is a NumPy array, which becomes part of the
            graph, or else anything with its shape. A length that is no integer is an unknown one
            that the backend knows when it compiles.
        axes: The padded axes and numbers.
        passes_lengths: Whether the graph has the lengths and numbers as a further input, a vector.

    Raises:
        DynamicShapeError: If an operation cannot be padded.
    """
    # Most programs are for exact lengths.
    from graphc.link.padding import rules  # noqa: F401, PLC0415

    vector = TensorType("int64", (len(axes),))()
    passed = [vector[i] for i in range(len(axes))] if passes_lengths else []
    inputs: list[Tensor] = []
    values: list[Any] = []
    for position, (argument, node) in enumerate(zip(arguments, program.arguments, strict=True)):
        if position < len(program.graph.inputs):
            admit(position, node, argument)
        if is_known(argument):
            values.append(argument)
            continue
        shape = tuple([n if isinstance(n, int) else None for n in argument.shape])
        inputs.append(TensorType(node.type.dtype, shape)())
        counts = {
            axis: Count(None, low, high, passed_length(i))
            if passes_lengths
            else Count(cast(inputs[-1], "int64"), low, high)
            for i, ((at, axis), (low, high)) in enumerate(axes.items())
            if at == position
        }
        lengths = tuple([counts.get(axis) for axis in range(len(shape))])
        padded = PaddedArray(inputs[-1], lengths, np.zeros((), node.type.numpy_dtype))
        values.append(counts.get(-1, padded if counts else inputs[-1]))
    inputs += [vector] * passes_lengths
    host = program.host.nodes if program.host else ()
    return pad(program.graph, host, inputs, values, passed, has_exact=bool(axes))


@dataclass(frozen=True, eq=False, slots=True)
class PaddedResults:
    """The results of a program for padded arrays.

    Attributes:
        buffers: The results, some followed by padding along some axes.
        numbers: The integers that only the run decides.
        lengths: The lengths of each result: see ``PaddedGraph``.
        comparisons: The comparisons of lengths.
    """

    buffers: list[Any]
    numbers: list[Any]
    lengths: tuple[tuple[AnyLength | None, ...], ...]
    comparisons: tuple[LengthComparison, ...] = ()

    @classmethod
    def of(cls, outputs: Sequence[Any], padded: PaddedGraph) -> PaddedResults:
        """Return the outputs of a padded graph as results."""
        n = len(padded.lengths)
        return cls([*outputs[:n]], [*outputs[n:]], *padded[1:])

    def hold_for(self, lengths: Sequence[int]) -> bool:
        """Return whether the results are right for these passed lengths."""
        return not any(c.error is None and c.difference(lengths) for c in self.comparisons)

    def verify(self, lengths: Sequence[int] = ()) -> None:
        """Raise the error of a comparison that fails for these passed lengths."""
        for comparison in self.comparisons:
            if comparison.error is not None:
                different = comparison.difference([*lengths, *self.numbers])
                if different is not None:
                    raise comparison.error(*different)

    def shapes(self, lengths: Sequence[int] = ()) -> list[tuple[int, ...]]:
        """Return the shape of each result for these passed lengths."""
        values = [*lengths, *self.numbers]
        return [
            tuple(
                [m if n is None else value_of(n, values) for n, m in zip(own, y.shape, strict=True)]
            )
            for own, y in zip(self.lengths, self.buffers, strict=True)
        ]
