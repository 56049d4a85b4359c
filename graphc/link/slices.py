"""Slices between bounds that a call knows, such as the batch ``x[i * 20 : i * 20 + 20]``.

A backend that compiles for known shapes needs the length of a slice, but not the bounds. So the
slice becomes a window (``ReadWindow``) at a variable start. The host computes the length from the
bounds and the array's length, as NumPy clips them, and each length has a program: for batches of
data one for full batches, and one for the last batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from graphc.context import setting
from graphc.ir import Constant, Graph, Leaf, Node, reachable_nodes, replace_nodes
from graphc.link.host import SliceLength, computable_on_host
from graphc.loop.step import stand_in
from graphc.rewrite.facts.lengths import Known, length_of
from graphc.rewrite.loops.windows import Window, axis_of, by_windows, moving_slices
from graphc.site import derived_from
from graphc.tensor.arrays.index import Index, IndexUpdate
from graphc.tensor.core.elementwise import cast, maximum, minimum, where
from graphc.tensor.core.shape import Length, Shape
from graphc.tensor.core.tensor import Tensor, as_tensor


def with_slice_lengths(graph: Graph) -> Graph:
    """Return an equal program in which slices between bounds of a call are windows.

    A slice changes only if its bounds and its axis's length can be computed before the program
    runs, and if the start depends on the value of an input.
    """
    moving = {
        node: slices
        for node in graph.nodes
        if isinstance(node.op, Index | IndexUpdate) and (slices := [*moving_slices(node.op)])
    }
    if not moving:
        return graph
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    sizes: dict[tuple[Node, ...], Tensor] = {}
    for node in graph.nodes:
        if node in done:
            continue
        inputs: list[Any] = [done[x] for x in node.inputs]
        windows = []
        with derived_from(node.site):
            for at, position in moving.get(node, ()):
                start, stop = node.inputs[position : position + 2]
                axis = axis_of(node.op, at)  # type: ignore[arg-type]
                if not _are_known_before(graph, start, stop, length_of(node.inputs[0], axis)):
                    continue
                n = as_tensor(length_of(inputs[0], axis), dtype="int64")
                start, stop = inputs[position : position + 2]
                size = Tensor.make(SliceLength(len(sizes)), start, stop, n)
                size = sizes.setdefault((start, stop, n), size)
                windows.append(Window(at, position, _from_start(start, n), size, True))
            done[node] = (
                by_windows(node.op, inputs, windows)  # type: ignore[arg-type]
                if windows
                else node.with_inputs(inputs)
            )
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def _from_start(start: Any, n: Tensor) -> Tensor:
    """Return the index of a slice's first element, from the start of an axis of n elements.

    JAX has no 64-bit integers by default, so a narrower bound stays narrow. (With 32 bits, JAX can
    not index further along a longer axis either.)
    """
    if np.can_cast(start.type.numpy_dtype, "int32"):
        start, n = cast(start, "int32"), cast(minimum(n, np.iinfo("int32").max), "int32")
    else:
        start = cast(start, "int64")
    return maximum(where(start < 0, start + n, start), 0)


def _are_known_before(graph: Graph, start: Node, stop: Node, n: Known) -> bool:
    """Return whether a call knows a slice's bounds and axis length, and decides the start.

    Bounds are computed from a call's arguments, and from the shapes of all arrays.
    """
    bounds = [x for x in (start, stop, n) if isinstance(x, Node)]
    on_host = computable_on_host(Graph(graph.inputs, bounds), [True] * len(graph.inputs))
    decides = any(not x.inputs and not isinstance(x.op, Constant) for x in _sources([start]))
    # Lengths of arrays that the program computes are unknown before.
    return decides and all(
        x in on_host
        and not isinstance(x.op, Leaf)
        and not (isinstance(x.op, Length | Shape) and x.inputs[0].inputs)
        for x in _sources(bounds)
    )


def _sources(nodes: Iterable[Node]) -> Collection[Node]:
    """Return the nodes that others are computed from, where shapes are known."""
    return reachable_nodes(
        nodes, lambda x: () if isinstance(x.op, Length | Shape) else x.inputs
    ).keys()


def length_graph(graph: Graph, lengths: Iterable[Node]) -> Graph:
    """Return the graph that computes lengths of slices from all arguments of a program."""
    arguments = tuple(dict.fromkeys((*graph.inputs, *graph.leaves)))
    swaps: dict[Node, Node] = {x: stand_in(x) for x in arguments}
    return Graph([*swaps.values()], replace_nodes([*lengths], swaps))


_lengths: ContextVar[Sequence[int]] = ContextVar("lengths", default=())


def with_lengths_of_slices(lengths: Sequence[int]) -> setting[Sequence[int]]:
    """Compile programs, in this context, for these lengths of slices."""
    return setting(_lengths, lengths)


def length_of_slice(op: SliceLength) -> np.ndarray[Any, Any]:
    """Return the length of a slice that a program is compiled for."""
    return np.asarray(_lengths.get()[op.number], np.int64)
