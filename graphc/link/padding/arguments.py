"""Programs padded for arguments of known shapes, of which some axes are padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.ir import TensorType
from graphc.link.checks import admit
from graphc.link.padding.counts import Count, is_known, passed_length
from graphc.link.padding.graph import PaddedGraph, pad
from graphc.link.padding.padded import PaddedArray
from graphc.link.program import Program
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.tensor import Tensor


class PaddedAxis(NamedTuple):
    """An axis of an argument that is padded, or an argument that is a number of bounded size.

    Attributes:
        argument: The position of the argument.
        axis: The axis; -1 for an argument that is a number.
        low: The lower bound of the length or number.
        high: The upper bound.
    """

    argument: int
    axis: int
    low: int
    high: int


def pad_program(
    program: Program, arguments: Sequence[Any], axes: Sequence[PaddedAxis], *, passes_lengths: bool
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
            x.axis: Count(None, x.low, x.high, passed_length(i))
            if passes_lengths
            else Count(cast(inputs[-1], "int64"), x.low, x.high)
            for i, x in enumerate(axes)
            if x.argument == position
        }
        lengths = tuple([counts.get(axis) for axis in range(len(shape))])
        padded = PaddedArray(inputs[-1], lengths, np.zeros((), node.type.numpy_dtype))
        values.append(counts.get(-1, padded if counts else inputs[-1]))
    inputs += [vector] * passes_lengths
    return pad(program.graph, inputs, values, passed, has_exact=bool(axes))
