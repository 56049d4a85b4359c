"""Walks over graphs, none of them recursive: memory alone bounds the depth of a graph."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeVar

from graphc.ir.node import Constant, Input, Leaf, Node

T = TypeVar("T")


def dependent(order: Iterable[Node], on: Iterable[Node]) -> set[Node]:
    """The nodes that depend on others, these included.

    Args:
        order: Nodes, each after its inputs.
        on: The others.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.ir import toposort
        >>> x, y = gt.scalar("x"), gt.scalar("y")
        >>> sorted(node.op.name for node in dependent(toposort([gt.exp(x) + gt.sin(y)]), [x]))
        ['add', 'exp', 'x']
    """
    found = set(on)
    for node in order:
        if not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def reached(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """All that a walk meets, each once and in the order in which it is met.

    Args:
        starts: Where it begins.
        following: Where it goes on from a node (or whatever is walked over); called once for each.
    """
    found: dict[T, None] = {}
    stack = [*starts][::-1]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += [x for x in following(node) if x not in found][::-1]
    return found


def nodes_within(nodes: Iterable[Node]) -> Iterable[Node]:
    """Return nodes and those of the graphs that operations hold, such as steps of loops."""
    return reached(nodes, lambda node: [x for held in node.op.graphs() for x in held.nodes])


def ancestors(graphs: Iterable[Node], blockers: Iterable[Node] = ()) -> Iterator[Node]:
    """Yield all nodes that some nodes are computed from, and these, each once.

    Args:
        graphs: The nodes.
        blockers: Where the walk ends; these are yielded too.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> [node.op.name for node in ancestors([gt.exp(-x)])]
        ['exp', 'negative', 'x']
    """
    ends = set(blockers)
    yield from reached(graphs, lambda node: () if node in ends else node.inputs)


def graph_inputs(graphs: Iterable[Node], blockers: Iterable[Node] = ()) -> Iterator[Node]:
    """Yield those that nothing computes: inputs, shared variables and constants.

    Args:
        graphs: What they are inputs of.
        blockers: Where the walk ends.
    """
    found = ancestors(graphs, blockers)
    yield from (node for node in found if isinstance(node.op, Input | Leaf | Constant))


def explicit_graph_inputs(graphs: Iterable[Node] | Node) -> Iterator[Node]:
    """Yield the inputs without a value of their own, which a function must be given.

    Args:
        graphs: What they are inputs of, one node or several.
    """
    given = [graphs] if isinstance(graphs, Node) else graphs
    yield from (
        node for node in graph_inputs(given) if isinstance(node.op, Input) and not node.op.is_shared
    )


def ordered(
    ends: Iterable[T], needs: Callable[[T], Iterable[T]], done: Container[T]
) -> Iterator[T]:
    """All that the ends need and themselves, each after what it needs; without what is done.

    Args:
        ends: Nodes, or whatever is walked over.
        needs: What must be done before a node is.
        done: Has all that is done. A node must be entered there before the next one is taken.
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


def unfolded(
    outputs: Iterable[Node],
    done: dict[Node, Node],
    again: Callable[[Node], Node],
    meaning: Callable[[Node], Node | None],
    endless: Callable[[Node], Exception],
) -> list[Node]:
    """The outputs in which each node is replaced by its meaning, as long as it has one.

    Args:
        outputs: Nodes.
        done: What stands for nodes; those in it stay as they are, and all others are entered.
        again: Makes a node again of what stands for its inputs, which is in ``done`` then.
        meaning: A node of equal value, whose own nodes may have meanings in turn; None for none.
        endless: The error for a node whose meaning is made of that node.
    """
    made: dict[Node, Node] = {}
    meanings: dict[Node, Node | None] = {}

    def needs(node: Node) -> Iterable[Node]:
        if any(x not in done for x in node.inputs):
            return node.inputs
        new = made[node] if node in made else made.setdefault(node, again(node))
        asked = new in meanings
        found = meanings[new] if asked else meanings.setdefault(new, meaning(new))
        if found is None or found in done:
            return ()
        if asked or found is new:
            raise endless(new)
        return (found,)

    for node in ordered(outputs, needs, done):
        new = made[node]
        found = meanings[new]
        final = new if found is None else done[found]
        done[node] = done[new] = done[final] = final
    return [done[y] for y in outputs]
