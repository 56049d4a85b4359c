"""Padding with a number, and convolutions, of padded arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphc.ir import Node
from graphc.link.padding.counts import Count, bound
from graphc.link.padding.graph import by_declaration, rule
from graphc.link.padding.padded import (
    PaddedArray,
    as_node,
    at_least,
    make_padded,
    shape_of,
    unequal,
)
from graphc.link.padding.rules.shape import requested_lengths
from graphc.link.padding.slices import shift
from graphc.tensor.core.elementwise import where
from graphc.tensor.core.shape import entries
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.signal.convolve import Convolution
from graphc.tensor.signal.pad import Pad


@rule(Pad)
def pad(op: Pad, node: Node, values: Sequence[Any]) -> Any:
    """Pad by the upper bounds of the widths, and drop the surplus in front."""
    x, value, *symbolic = values
    widths = requested_lengths(node, op.widths, symbolic)
    buffer, number = as_node(x), as_node(value, node.inputs[1])
    if isinstance(x, PaddedArray):
        buffer = where(x.inside(), buffer, number)
    static, lengths = entries("pad", list(map(bound, widths)))
    buffer = Tensor.make(Pad(static), buffer, number, *lengths)
    shape = []
    for axis, n in enumerate(shape_of(x)):
        before, after = widths[2 * axis : 2 * axis + 2]
        shape.append(before + n + after)
        if isinstance(before, Count) and not before.is_exact:
            buffer = shift(buffer, bound(before) - before, shape[axis], axis)
    return make_padded(buffer, shape)


@rule(Convolution)
def convolve(op: Convolution, node: Node, values: Sequence[Any]) -> Any:
    """Convolve arrays with zeros as padding along spatial and summed axes."""
    a, b = map(shape_of, values)
    pairs = list(zip(a[op.first(0) :], b[op.first(1) :], strict=True))
    for n, k in pairs:
        at_least(k, 1, unequal(node))
        at_least(n, 1 if op.full else k, unequal(node))
    if op.full or not any(isinstance(k, Count) for _, k in pairs):
        return by_declaration(node, values)
    # A valid convolution is the full one from the last element of b on.
    y = by_declaration(Tensor.make(replace(op, full=True), *node.inputs), values)
    buffer, shape = as_node(y), list(shape_of(y))
    for axis, (n, k) in enumerate(pairs, len(shape) - len(pairs)):
        shape[axis] = n - k + 1
        buffer = shift(buffer, k - 1, shape[axis], axis)
    return make_padded(buffer, shape)
