"""Rewrites of PyTensor graphs with graphc operations; importing this module registers them."""

from __future__ import annotations

import copyreg
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pytensor.compile.mode import optdb
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.basic import copy_stack_trace, graph_rewriter, node_rewriter
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.rewriting.basic import register_canonicalize

from graphc.compile.mode import Mode
from graphc.interop.pytensor.convert import Conversion
from graphc.interop.pytensor.operation import GraphcOp, apply_graph, operation
from graphc.interop.pytensor.variables import input_of
from graphc.ir import Graph, Node, replace_nodes


def graphc_without_unused(fgraph: Any, node: Any) -> dict[Any, Any] | None:
    """Drop unused results, such as gradients with respect to data."""
    used = [i for i, y in enumerate(node.outputs) if fgraph.clients[y]]
    if not used or len(used) == len(node.outputs):
        return None
    graph = node.op.graph
    applied = apply_graph(graph.inputs, [graph.outputs[i] for i in used], node.inputs, node.op.mode)
    old = [node.outputs[i] for i in used]
    copy_stack_trace(old, applied)
    return dict(zip(old, applied, strict=True))


def graphc_batch(fgraph: Any, node: Any) -> list[Any] | None:
    """Turn a batch into one operation by graphc's batching rules; PyTensor would loop over it."""
    op = node.op.core_op
    if not isinstance(op, GraphcOp):
        return None
    ins = [input_of(x) for x in node.inputs]
    outs = Conversion(closed=True).outputs(node.outputs, dict(zip(node.inputs, ins, strict=True)))
    applied = apply_graph(ins, outs, node.inputs, op.mode)
    copy_stack_trace(node.outputs, applied)
    return applied


def graphc_fusion(fgraph: Any) -> None:
    """Fuse operations on the same variables, such as a value and its gradient, to share work."""
    nodes = fgraph.toposort()
    if any("IfElse" in type(node.op).__name__ for node in nodes):
        return  # operands of one branch would always be computed
    levels: dict[Any, int] = {}
    at_level = defaultdict[Any, list[Any]](list)
    for node in nodes:
        below = [levels[x.owner] for x in node.inputs if x.owner is not None]
        is_graphc = isinstance(node.op, GraphcOp)
        # Operations of one level do not depend on each other, so they can be fused.
        levels[node] = max(below, default=0) + is_graphc
        if is_graphc:
            at_level[levels[node], node.op.written].append(node)
    for group in at_level.values():
        for related in _connected_groups(group):
            _fuse(fgraph, related)


def _connected_groups(nodes: Iterable[Any]) -> list[list[Any]]:
    groups: list[tuple[set[Any], list[Any]]] = []
    for node in nodes:
        read = {x for x in node.inputs if not isinstance(x, Constant)}
        near = [group for group in groups if not group[0].isdisjoint(read)]
        groups = [group for group in groups if group not in near]
        members = [x for _, group in near for x in group]
        groups.append((read.union(*[xs for xs, _ in near]), [*members, node]))
    return [group for _, group in groups if len(group) > 1]


def _fuse(fgraph: Any, nodes: Sequence[Any]) -> None:
    ins: dict[Any, Node] = {}
    outs: list[Any] = []
    for node in nodes:
        graph = node.op.graph
        pairs = [*zip(node.inputs, graph.inputs, strict=True)]
        swaps = {x: ins.setdefault((v, x.type), x.type(x.name)) for v, x in pairs}
        outs += replace_nodes(graph.outputs, swaps)
    old = [y for node in nodes for y in node.outputs]
    applied = apply_graph([*ins.values()], outs, [v for v, _ in ins], nodes[0].op.mode)
    copy_stack_trace(old, applied)
    fgraph.replace_all_validate([*zip(old, applied, strict=True)], reason="graphc_fusion")


def restore(graph: Graph, mode: Mode, name: str) -> GraphcOp:
    """Return a pickled operation; unpickling imports this module, which registers the rewrites."""
    return operation(graph.inputs, graph.outputs, mode, name)


def _reduce(op: GraphcOp) -> tuple[Any, ...]:
    return restore, (op.graph, op.mode, op.name)


copyreg.pickle(GraphcOp, _reduce)
register_canonicalize(node_rewriter([GraphcOp])(graphc_without_unused), "fast_compile")
register_canonicalize(node_rewriter([Blockwise])(graphc_batch), "fast_compile")
# After PyTensor's other rewrites of operations, and before its rewrites of memory.
optdb.register("graphc_fusion", graph_rewriter(graphc_fusion), "fast_run", position=47)
