"""Replacement of patterns of nodes by the backend's fused operations.

Rules do not see the users of a node, so this pass is no rule: a pattern whose inner values are also
needed elsewhere, as by a gradient, stays, and nothing is computed twice. The pass is the last one,
on the graph in normal form.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from time import perf_counter

from graphc.ir import Constant, Graph, Node, reachable_nodes
from graphc.link.backend import Backend
from graphc.link.patterns import PATTERNS, FusionPattern
from graphc.rewrite.engine import RuleApplication
from graphc.rewrite.passes import PassReport, Rewritten
from graphc.rewrite.rule import FUSE, Rule
from graphc.site import derived_from
from graphc.tensor.core.axes import Transpose
from graphc.tensor.core.shape import Length


def fuse(graph: Graph, backend: Backend, rules: Container[Rule]) -> Rewritten:
    """Return a graph in normal form with the backend's fused operations, also in nested graphs.

    Patterns of rules that are not selected stay.
    """
    patterns = [p for p in PATTERNS if p.op in backend.lowerings and p.rule in rules]
    if not patterns:
        return Rewritten(graph, ())
    start = perf_counter()
    changes: list[RuleApplication] = []
    new = _fuse_graph(graph, backend, patterns, changes)
    report = PassReport(
        name=FUSE,
        seconds=perf_counter() - start,
        before=len(graph),
        after=len(new),
        attempts=len(patterns) * len(graph),
        changes=len(changes),
        records=tuple(changes),
    )
    return Rewritten(new, (report,))


def _fuse_graph(
    graph: Graph,
    backend: Backend,
    patterns: Sequence[FusionPattern],
    changes: list[RuleApplication],
) -> Graph:
    replacements: dict[Node, Node] = {}
    fused: set[Node] = set()
    users = graph.users()
    arguments = set(graph.inputs)
    for node in reversed(graph.nodes):
        if node.op.graphs():
            graphs = [_fuse_graph(inner, backend, patterns, changes) for inner in node.op.graphs()]
            if graphs != [*node.op.graphs()]:
                with derived_from(node.site):
                    replacements[node] = Node.make(node.op.with_graphs(graphs), *node.inputs)
        elif node not in fused and node not in arguments:
            change = _match(node, graph, backend, patterns, users)
            if change:
                replacements[node] = change.after
                fused |= _inner_nodes(node, change.after)
                changes.append(change)
    return _with_replacements(graph, replacements) if replacements else graph


def _match(
    node: Node,
    graph: Graph,
    backend: Backend,
    patterns: Sequence[FusionPattern],
    users: dict[Node, list[Node]],
) -> RuleApplication | None:
    """Return the change of a node to an equal fused operation that the backend has, or None."""
    for pattern in patterns:
        with derived_from(node.site):
            candidates = [*pattern.find(node)]
        for fused in candidates:
            # The fused operation does not broadcast to the shape of a larger weight.
            fits = fused.type == node.type and backend.has(fused)
            if fits and _is_unused_elsewhere(node, fused, users, graph.outputs):
                return RuleApplication(pattern.rule, node, fused)
    return None


def _inner_nodes(node: Node, replacement: Node) -> set[Node]:
    """Return the nodes between a node and the inputs of its replacement."""
    boundary = {
        *replacement.inputs,
        *(x.inputs[0] for x in replacement.inputs if isinstance(x.op, Transpose)),
    }

    def inner(nodes: Iterable[Node]) -> list[Node]:
        return [x for x in nodes if x not in boundary and not isinstance(x.op, Constant)]

    return {
        *reachable_nodes(
            inner(node.inputs), lambda x: [] if isinstance(x.op, Length) else inner(x.inputs)
        )
    }


def _is_unused_elsewhere(
    node: Node, replacement: Node, users: dict[Node, list[Node]], outputs: Sequence[Node]
) -> bool:
    """Return whether only the pattern needs the values computed from its first input.

    Lengths, and values that follow from lengths, cost no time. Tables may serve several patterns.
    """
    inner_nodes = _inner_nodes(node, replacement)
    first = replacement.inputs[0]
    derived = {first, *(first.inputs if isinstance(first.op, Transpose) else ())}
    for x in sorted(inner_nodes, key=lambda x: x.height):
        if x.type.ndim and derived.intersection(x.inputs) and not isinstance(x.op, Length):
            derived.add(x)
    arrays = derived & inner_nodes
    inside = {node, *inner_nodes}
    return all(inside.issuperset(users[x]) and x not in outputs for x in arrays)


def _with_replacements(graph: Graph, replacements: dict[Node, Node]) -> Graph:
    done: dict[Node, Node] = {x: x for x in graph.inputs}

    def substitute(x: Node) -> Node:
        # Operands of a replacement may be new nodes: transposes.
        return done[x] if x in done else x.with_inputs([substitute(y) for y in x.inputs])

    for node in graph.nodes:
        if node not in done:
            new = replacements.get(node, node)
            done[node] = new.with_inputs([substitute(x) for x in new.inputs])
    return Graph(graph.inputs, [done[y] for y in graph.outputs])
