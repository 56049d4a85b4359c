"""The host part of a program: what NumPy computes, and not MLX's device.

Everything else can be read between two compiled segments, so that no shape is refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from graphc.ir import Constant, Graph, Leaf, Node, Pick, reached
from graphc.ir.law import deciding_inputs
from graphc.link.host import (
    Host,
    SliceLength,
    computable_on_host,
    host_nodes,
    inputs_on_host,
    is_step_count,
    lengths_of_slices,
)
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.tensor.arrays.index import Nonzero
from graphc.tensor.arrays.sets import Unique


def needed(node: Node) -> tuple[int, ...]:
    """The inputs by whose values an operation knows a shape, how often it runs or which branch."""
    op = node.op
    found = deciding_inputs(node)
    if isinstance(op, Switch):
        return 0, *(i for i in found if i)
    if isinstance(op, Loop) and op.counted:
        place = int(op.steps is None)
        return place, *(i for i in found if i != place)
    return found


def analyse(graph: Graph, known: Collection[int] | None = None) -> Host:
    """Find the part of a graph that is computed on the host.

    Args:
        graph: A whole program, or a graph that an operation holds.
        known: Of the latter, the inputs that are on the host, by position. Integer inputs of a
            program are read there where something needs their values.
    """
    given = set(graph.inputs)
    readable = [known is None or i in known for i in range(len(graph.inputs))]
    there = computable_on_host(graph, readable)
    ends = [x for x in _demands(graph) if x in there]
    lengths = lengths_of_slices(graph)
    deciding = reached(
        ends, lambda x: () if isinstance(x.op, SliceLength) else inputs_on_host(x, given)
    ).keys()
    demanded = deciding | reached(lengths, lambda x: inputs_on_host(x, given)).keys()
    found = {node for node in graph.nodes if is_step_count(node) or _is_read(node, demanded)}
    nodes = host_nodes(graph, demanded | found, () if known is None else known)
    return Host(
        frozenset(nodes),
        tuple(i for i, x in enumerate(graph.inputs) if x in demanded),
        tuple(i for i, x in enumerate(graph.leaves) if x in demanded),
        sliced=tuple(i for i, x in enumerate(graph.inputs) if x in demanded - deciding),
    )


def _demands(graph: Graph) -> Iterator[Node]:
    given = set(graph.inputs)
    for node in graph.nodes:
        if node not in given and not isinstance(node.op, Constant | Leaf):
            yield from (node.inputs[i] for i in needed(node))


def _is_read(node: Node, demanded: Collection[Node]) -> bool:
    """Whether NumPy computes it from what the device has."""
    source = node.inputs[0] if isinstance(node.op, Pick) else node
    return isinstance(source.op, Nonzero | Unique) and node not in demanded
