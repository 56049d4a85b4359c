"""Walks over graphs, none of them recursive: memory alone bounds the depth of a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from typing import TypeVar

from graphc.ir.node import Constant, Input, Leaf, Node, toposort
from graphc.ir.op import Op

T = TypeVar("T")


def dependent(order: Iterable[Node], on: Iterable[Node]) -> set[Node]:
    """Return the nodes that depend on some nodes, which are included.

    Args:
        order: Nodes, each after its inputs.
        on: The nodes that are depended on.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.ir import toposort
        >>> x, y = gt.scalar("x"), gt.scalar("y")
        >>> sorted(node.op.name for node in dependent(toposort([gt.exp(x) + gt.sin(y)]), [x]))
        ['add', 'exp', 'x']
    """
    result = set(on)
    for node in order:
        if not result.isdisjoint(node.inputs):
            result.add(node)
    return result


def reachable_nodes(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """Return all nodes that a depth-first walk reaches, in the order of the walk.

    Args:
        starts: The first nodes.
        following: Returns the successors of a node; called once for each.
    """
    visited: dict[T, None] = {}
    stack = [*starts][::-1]
    while stack:
        node = stack.pop()
        if node not in visited:
            visited[node] = None
            stack += [x for x in following(node) if x not in visited][::-1]
    return visited


def nodes_within(nodes: Iterable[Node]) -> Iterable[Node]:
    """Return nodes and the nodes of the graphs that operations hold, such as steps of loops."""
    return reachable_nodes(
        nodes, lambda node: [x for graph in node.op.graphs() for x in graph.nodes]
    )


def ancestors(graphs: Iterable[Node], blockers: Iterable[Node] = ()) -> Iterator[Node]:
    """Yield some nodes and all nodes that they are computed from, each once.

    Args:
        graphs: The nodes.
        blockers: Nodes whose inputs are not followed; they are yielded too.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> [node.op.name for node in ancestors([gt.exp(-x)])]
        ['exp', 'negative', 'x']
    """
    ends = set(blockers)
    yield from reachable_nodes(graphs, lambda node: () if node in ends else node.inputs)


def graph_inputs(graphs: Iterable[Node], blockers: Iterable[Node] = ()) -> Iterator[Node]:
    """Yield the inputs, shared variables and constants that some nodes are computed from.

    Args:
        graphs: The nodes.
        blockers: Nodes whose inputs are not followed.
    """
    nodes = ancestors(graphs, blockers)
    yield from (node for node in nodes if isinstance(node.op, Input | Leaf | Constant))


def explicit_graph_inputs(graphs: Iterable[Node] | Node) -> Iterator[Node]:
    """Yield the inputs that are no shared variables: the arguments that a function needs.

    Args:
        graphs: The nodes that depend on the inputs, one or several.
    """
    nodes = [graphs] if isinstance(graphs, Node) else graphs
    yield from (
        node for node in graph_inputs(nodes) if isinstance(node.op, Input) and not node.op.is_shared
    )


def dependencies_first(
    ends: Iterable[T], needs: Callable[[T], Iterable[T]], done: Container[T]
) -> Iterator[T]:
    """Yield nodes and their dependencies that are not done, dependencies first.

    Args:
        ends: The last nodes, of any class.
        needs: Returns the dependencies of a node.
        done: The nodes that are done. The caller must add each node before it takes the next one.
    """
    stack = [*ends][::-1]
    while stack:
        node = stack[-1]
        waiting = [] if node in done else [x for x in needs(node) if x not in done]
        if waiting:
            stack += waiting[::-1]
            continue
        stack.pop()
        if node not in done:
            yield node


def unfold(
    outputs: Iterable[Node],
    done: dict[Node, Node],
    again: Callable[[Node], Node],
    meaning: Callable[[Node], Node | None],
    endless: Callable[[Node], Exception],
) -> list[Node]:
    """Return the outputs with each node replaced by its meaning, repeatedly.

    Args:
        outputs: Nodes.
        done: Replacements of nodes; nodes in it are not expanded, and all others are added.
        again: Rebuilds a node from the replacements of its inputs, which are in ``done`` then.
        meaning: Returns a node of equal value, whose nodes may have meanings in turn, or None.
        endless: Returns the error for a node whose meaning contains that node.
    """
    rebuilt: dict[Node, Node] = {}
    meanings: dict[Node, Node | None] = {}

    def needs(node: Node) -> Iterable[Node]:
        if any(x not in done for x in node.inputs):
            return node.inputs
        new = rebuilt[node] if node in rebuilt else rebuilt.setdefault(node, again(node))
        asked = new in meanings
        expansion = meanings[new] if asked else meanings.setdefault(new, meaning(new))
        if expansion is None or expansion in done:
            return ()
        if asked or expansion is new:
            raise endless(new)
        return (expansion,)

    for node in dependencies_first(outputs, needs, done):
        new = rebuilt[node]
        expanded = meanings[new]
        final = new if expanded is None else done[expanded]
        done[node] = done[new] = done[final] = final
    return [done[y] for y in outputs]


# The gathered form, in which graphs are differentiated, batched and compiled.

GATHERED: set[type[Op]] = set()
"""Operations with another gathered form, beside those that hold graphs."""

GATHERERS: list[Callable[[Sequence[Node], Collection[Node]], Sequence[Node]]] = []
"""Functions of higher layers that gather outputs, given nodes that do not change.

They change only operations that hold graphs and those in ``GATHERED``."""


def to_gathered_form(outputs: Sequence[Node], known: Collection[Node] = ()) -> Sequence[Node]:
    """Return equal outputs in gathered form.

    Args:
        outputs: Arrays.
        known: Nodes of their graph that are not changed.
    """
    if is_gathered({type(node.op) for node in toposort(outputs, known)}):
        return outputs
    for gather in GATHERERS:
        outputs = gather(outputs, known)
    return outputs


def is_gathered(kinds: Collection[type[Op]]) -> bool:
    """Return whether any graph of operations of these classes is in gathered form."""
    return not any(kind.graphs is not Op.graphs or kind in GATHERED for kind in kinds)
