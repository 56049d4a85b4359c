"""Joins and splits of padded arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphc.ir import Node
from graphc.link.padding.counts import Count, is_known, is_known_to_backend
from graphc.link.padding.graph import apply, by_declaration, rule
from graphc.link.padding.padded import agree, align, as_node, make_padded, shape_of, unequal
from graphc.link.padding.rules.shape import requested_lengths
from graphc.link.padding.slices import shift
from graphc.rewrite.loops.windows import WriteWindow
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.tensor import Tensor


@rule(Concatenate)
def concatenate(op: Concatenate, node: Node, values: Sequence[Any]) -> Any:
    """Join the buffers; then each array overwrites the padding of those before it."""
    arrays = align(node, values)
    y = apply(node, arrays)
    offset: Any = 0
    for x in arrays:
        if not is_known(offset) and not offset.is_exact:
            y = Tensor.make(WriteWindow(op.axis), y, as_node(x), offset.node)
        offset = offset + shape_of(x)[op.axis]
    shape = [offset if axis == op.axis else n for axis, n in enumerate(shape_of(arrays[0]))]
    return make_padded(y, shape)


@rule(Split)
def split(op: Split, node: Node, values: Sequence[Any]) -> tuple[Any, ...]:
    """Split along an axis of unknown length, or into sections of unknown lengths."""
    x, *symbolic = values
    sizes, n = requested_lengths(node, op.sizes, symbolic), shape_of(x)[op.axis]
    if all(map(is_known_to_backend, [*sizes, n])):
        return by_declaration(node, values)  # type: ignore[no-any-return]
    start: Any = 0
    sections = []
    for size in sizes:
        # The section lies in a longer buffer.
        size = replace(size, is_exact=False) if isinstance(size, Count) else size
        shape = [size if axis == op.axis else n for axis, n in enumerate(shape_of(x))]
        sections.append(make_padded(shift(as_node(x), start, size, op.axis), shape))
        start = start + size
    agree(start, n, unequal(node))
    return tuple(sections)
