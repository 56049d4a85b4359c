"""Patterns that a backend has one operation for, put in their place.

Rules see no users, so this is none: a gradient that needs the parts of a pattern keeps them, and
nothing is computed twice. It is done last, on the graph in its normal form.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from time import perf_counter

from graphc.ir import Constant, Graph, Node, reached
from graphc.link.backend import Backend
from graphc.link.patterns import PATTERNS, Pattern
from graphc.rewrite.engine import Change
from graphc.rewrite.passes import PassReport, Rewritten
from graphc.rewrite.rule import FUSE, Rule
from graphc.site import derived_from
from graphc.tensor.core.axes import Transpose
from graphc.tensor.core.shape import Length


def fuse(graph: Graph, backend: Backend, rules: Container[Rule]) -> Rewritten:
    """The graph, in normal form, with an operation for each pattern that the backend has.

    So too in the graphs that operations hold.

    Args:
        graph: Any graph.
        backend: Where it is to run.
        rules: Those selected; a pattern whose rule is not among them is left.
    """
    patterns = [p for p in PATTERNS if p.op in backend.lowerings and p.rule in rules]
    if not patterns:
        return Rewritten(graph, ())
    start = perf_counter()
    changes: list[Change] = []
    new = _fused(graph, backend, patterns, changes)
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


def _fused(
    graph: Graph, backend: Backend, patterns: Sequence[Pattern], changes: list[Change]
) -> Graph:
    chosen: dict[Node, Node] = {}
    inside: set[Node] = set()
    users = _users(graph)
    given = set(graph.inputs)
    for node in reversed(graph.nodes):
        if node.op.graphs():
            held = [_fused(held, backend, patterns, changes) for held in node.op.graphs()]
            if held != [*node.op.graphs()]:
                with derived_from(node.site):
                    chosen[node] = Node.make(node.op.with_graphs(held), *node.inputs)
        elif node not in inside and node not in given:
            found = _found(node, graph, backend, patterns, users)
            if found:
                chosen[node] = found.after
                inside |= _parts(node, found.after)
                changes.append(found)
    return _with(graph, chosen) if chosen else graph


def _found(
    node: Node,
    graph: Graph,
    backend: Backend,
    patterns: Sequence[Pattern],
    users: dict[Node, set[Node]],
) -> Change | None:
    """A fused operation equal to a node, which the backend has; None for none."""
    for pattern in patterns:
        with derived_from(node.site):
            options = [*pattern.find(node)]
        for made in options:
            # A weight that made the shape larger is none that the operation has.
            fits = made.type == node.type and backend.has(made)
            if fits and _is_own(node, made, users, graph.outputs):
                return Change(pattern.rule, node, made)
    return None


def _users(graph: Graph) -> dict[Node, set[Node]]:
    users: dict[Node, set[Node]] = {}
    for node in graph.nodes:
        for x in node.inputs:
            users.setdefault(x, set()).add(node)
    return users


def _parts(node: Node, made: Node) -> set[Node]:
    """The nodes between a node and the inputs of the one that may take its place."""
    ends = {*made.inputs, *(x.inputs[0] for x in made.inputs if isinstance(x.op, Transpose))}

    def inner(nodes: Iterable[Node]) -> list[Node]:
        return [x for x in nodes if x not in ends and not isinstance(x.op, Constant)]

    return {
        *reached(inner(node.inputs), lambda x: [] if isinstance(x.op, Length) else inner(x.inputs))
    }


def _is_own(node: Node, made: Node, users: dict[Node, set[Node]], outputs: Sequence[Node]) -> bool:
    """Whether nothing else needs what is made of the first input.

    Lengths, and what is made of them, cost nothing; so does a table that several patterns read.
    """
    parts = _parts(node, made)
    first = made.inputs[0]
    made_of_it = {first, *(first.inputs if isinstance(first.op, Transpose) else ())}
    for x in sorted(parts, key=lambda x: x.height):
        if x.type.ndim and made_of_it.intersection(x.inputs) and not isinstance(x.op, Length):
            made_of_it.add(x)
    arrays = made_of_it & parts
    return all(users[x] <= {node, *parts} and x not in outputs for x in arrays)


def _with(graph: Graph, chosen: dict[Node, Node]) -> Graph:
    done: dict[Node, Node] = {x: x for x in graph.inputs}

    def placed(x: Node) -> Node:
        # Operands of what was chosen may be new: other orders of axes.
        return done[x] if x in done else x.with_inputs([placed(y) for y in x.inputs])

    for node in graph.nodes:
        if node not in done:
            new = chosen.get(node, node)
            done[node] = new.with_inputs([placed(x) for x in new.inputs])
    return Graph(graph.inputs, [done[y] for y in graph.outputs])
