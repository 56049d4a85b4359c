"""Rewrites of PyTensor's graphs that hold graphc's operations; importing it registers them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pytensor.compile.mode import optdb
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.basic import copy_stack_trace, graph_rewriter, node_rewriter
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.rewriting.basic import register_canonicalize

from graphc.interop.pytensor.convert import Conversion
from graphc.interop.pytensor.operation import GraphcOp, applied
from graphc.interop.pytensor.variables import input_of
from graphc.ir import Node, replaced


def graphc_without_unused(fgraph: Any, node: Any) -> dict[Any, Any] | None:
    """Compute no results that nothing needs, such as gradients with respect to data."""
    used = [i for i, y in enumerate(node.outputs) if fgraph.clients[y]]
    if not used or len(used) == len(node.outputs):
        return None
    graph = node.op.graph
    made = applied(graph.inputs, [graph.outputs[i] for i in used], node.inputs, node.op.mode)
    old = [node.outputs[i] for i in used]
    copy_stack_trace(old, made)
    return dict(zip(old, made, strict=True))


def graphc_batch(fgraph: Any, node: Any) -> list[Any] | None:
    """A batch is one operation by graphc's rules of batches, where PyTensor would loop over it."""
    op = node.op.core_op
    if not isinstance(op, GraphcOp):
        return None
    ins = [input_of(x) for x in node.inputs]
    outs = Conversion(closed=True).outputs(node.outputs, dict(zip(node.inputs, ins, strict=True)))
    made = applied(ins, outs, node.inputs, op.mode)
    copy_stack_trace(node.outputs, made)
    return made


def graphc_fusion(fgraph: Any) -> None:
    """Operations on the same variables are one, as a value and its gradient, which share work."""
    nodes = fgraph.toposort()
    if any("IfElse" in type(node.op).__name__ for node in nodes):
        return  # what a branch alone needs would be computed always
    levels: dict[Any, int] = {}
    at_level = defaultdict[Any, list[Any]](list)
    for node in nodes:
        below = [levels[x.owner] for x in node.inputs if x.owner is not None]
        is_graphcs = isinstance(node.op, GraphcOp)
        # None of a level needs another one of it, so they can be one.
        levels[node] = max(below, default=0) + is_graphcs
        if is_graphcs:
            at_level[levels[node], node.op.written].append(node)
    for group in at_level.values():
        for related in _related(group):
            _fuse(fgraph, related)


def _related(nodes: Iterable[Any]) -> list[list[Any]]:
    """The nodes by which of them share variables, directly or by others."""
    found: list[tuple[set[Any], list[Any]]] = []
    for node in nodes:
        read = {x for x in node.inputs if not isinstance(x, Constant)}
        near = [part for part in found if not part[0].isdisjoint(read)]
        found = [part for part in found if part not in near]
        members = [x for _, part in near for x in part]
        found.append((read.union(*[xs for xs, _ in near]), [*members, node]))
    return [part for _, part in found if len(part) > 1]


def _fuse(fgraph: Any, nodes: Sequence[Any]) -> None:
    ins: dict[Any, Node] = {}
    outs: list[Any] = []
    for node in nodes:
        graph = node.op.graph
        places = [*zip(node.inputs, graph.inputs, strict=True)]
        swaps = {x: ins.setdefault((v, x.type), x.type(x.name)) for v, x in places}
        outs += replaced(graph.outputs, swaps)
    old = [y for node in nodes for y in node.outputs]
    made = applied([*ins.values()], outs, [v for v, _ in ins], nodes[0].op.mode)
    copy_stack_trace(old, made)
    fgraph.replace_all_validate([*zip(old, made, strict=True)], reason="graphc_fusion")


register_canonicalize(node_rewriter([GraphcOp])(graphc_without_unused), "fast_compile")
register_canonicalize(node_rewriter([Blockwise])(graphc_batch), "fast_compile")
# After PyTensor's other rewrites of what is computed, and before those of memory.
optdb.register("graphc_fusion", graph_rewriter(graphc_fusion), "fast_run", position=47)
