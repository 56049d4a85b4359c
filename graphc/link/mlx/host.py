"""The host part of a program: operations that NumPy computes, and not MLX's device.

Other values can be read between two compiled segments, so no shape is refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from graphc.ir import Constant, Graph, Leaf, Node, Pick, reachable_nodes
from graphc.ir.law import deciding_inputs
from graphc.link.host import (
    Host,
    SliceLength,
    computable_on_host,
    host_part,
    inputs_on_host,
    is_step_count,
)
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.tensor.arrays.index import Nonzero
from graphc.tensor.arrays.sets import Unique


def value_inputs(node: Node) -> tuple[int, ...]:
    """Return the inputs whose values decide a shape, a number of steps or a branch."""
    op = node.op
    deciding = deciding_inputs(node)
    if isinstance(op, Switch):
        return 0, *(i for i in deciding if i)
    if isinstance(op, Loop) and op.counted:
        position = int(op.steps is None)
        return position, *(i for i in deciding if i != position)
    return deciding


def analyse(graph: Graph, known: Collection[int] | None = None) -> Host:
    """Return the part of a graph that is computed on the host.

    Args:
        graph: A whole program, or a graph that an operation holds.
        known: For the graph of an operation, the positions of inputs on the host. The integer
            inputs of a program are read on the host if something needs their values.
    """
    inputs = set(graph.inputs)
    is_readable = [known is None or i in known for i in range(len(graph.inputs))]
    candidates = computable_on_host(graph, is_readable)
    ends = [x for x in _value_nodes(graph) if x in candidates]
    deciding = reachable_nodes(
        ends, lambda x: () if isinstance(x.op, SliceLength) else inputs_on_host(x, inputs)
    ).keys()
    others = {x for x in graph.nodes if is_step_count(x) or _finds_elements(x)}
    return host_part(graph, deciding, known, others)


def _value_nodes(graph: Graph) -> Iterator[Node]:
    inputs = set(graph.inputs)
    for node in graph.nodes:
        if node not in inputs and not isinstance(node.op, Constant | Leaf):
            yield from (node.inputs[i] for i in value_inputs(node))


def _finds_elements(node: Node) -> bool:
    source = node.inputs[0] if isinstance(node.op, Pick) else node
    return isinstance(source.op, Nonzero | Unique)
