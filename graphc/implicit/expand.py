"""Graphs in which handlers have replaced the operations on implicit arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from graphc.errors import GraphcError, HandlerError
from graphc.implicit.array import ImplicitArray, opening
from graphc.implicit.dispatch import dispatch
from graphc.implicit.namespace import expand_graph
from graphc.implicit.node import Implicit, as_implicit
from graphc.implicit.policy import enforce_policy
from graphc.implicit.registry import described, parameters_of
from graphc.ir import (
    GATHERED,
    GATHERERS,
    Graph,
    Node,
    Pick,
    TensorType,
    TupleType,
    toposort,
    unfold,
)
from graphc.loop.subgraph import expand_subgraphs
from graphc.site import derived_from
from graphc.tensor import as_tensor

INSIDE: list[Callable[[Node, Collection[Node]], Sequence[Node] | None]] = []
"""For each operation that holds graphs, the function that handles implicit arrays in them.

Called with the operation's node and nodes that stay as they are; from ``loops.py``."""

Several = dict[Node, Any]
"""The replacements of nodes with several results: one for each result, or None."""


def expanded(outputs: Sequence[Node], known: Collection[Node] = ()) -> list[Node]:
    """Return outputs of equal value in which handlers have replaced all that they handle.

    Args:
        outputs: Arrays.
        known: Nodes that stay as they are, such as those to differentiate by.

    Returns:
        As many arrays, in which nothing is implicit; those given where none was.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.implicit import Diagonal, expanded
        >>> w = gt.implicit(Diagonal, (3, 3), "float64", name="w")
        >>> (y,) = expanded([gt.tanh(w) @ gt.vector("x")])
        >>> y.type
        float64[3]
    """
    if not (Implicit.used and any(map(_gives_implicit, toposort(outputs, known)))):
        return [*outputs]
    done: dict[Node, Node] = {x: x for x in known}
    several: Several = {}

    def again(node: Node) -> Node:
        return node.with_inputs([done[x] for x in node.inputs]) if node.inputs else node

    # What a handler makes may hold implicit arrays in turn.
    return unfold(outputs, done, again, lambda node: _meaning(node, known, several), _endless)


def _endless(node: Node) -> HandlerError:
    return HandlerError(
        f"The handlers of {described(node.op)} give {node!r} in terms of itself.",
        "Return NotImplemented for what a handler does not handle.",
        node.where,
    )


def _is_implicit(x: Node) -> bool:
    return isinstance(x.op, Implicit)


def _meaning(node: Node, known: Collection[Node], several: Several) -> Node | None:
    """Return a node's replacement by handlers; None where nothing handles it."""
    if isinstance(node.op, Pick):
        (whole,) = node.inputs
        if whole not in several:
            several[whole] = _inside(whole, known) or _handled(whole, known)
        results = several[whole]
        return None if results is None else _checked(node, results[node.op.index])
    if isinstance(node.type, TupleType):
        # Each of its results is handled where it is picked.
        return None
    with derived_from(node.site):
        if isinstance(node.op, Implicit) and any(map(_is_implicit, node.inputs)):
            return as_implicit(node.array)  # type: ignore[attr-defined]
        found = _handled(node, known)
        return None if found is None else _checked(node, found)


def _needs(node: Node, known: Collection[Node]) -> bool:
    """Whether a node takes an implicit array."""
    return any(_is_implicit(x) and x not in known for x in node.inputs)


def _inside(node: Node, known: Collection[Node]) -> Sequence[Node] | None:
    for inside in INSIDE:
        with derived_from(node.site):
            found = inside(node, known)
        if found is not None:
            return found
    return None


def _handled(node: Node, known: Collection[Node]) -> Any:
    """Return the best handler's result; None where there is no handler."""
    if not _needs(node, known):
        return None
    operands = [x.array if _is_implicit(x) and x not in known else x for x in node.inputs]  # type: ignore[attr-defined]
    with derived_from(node.site):
        try:
            found = dispatch(node.op, operands, parameters_of(node.op))
        except GraphcError:
            raise
        except Exception as error:
            error.add_note(f"In the handler of {node!r}   {node.where or ''}")
            raise
    return None if found is NotImplemented else found


def _checked(node: Node, found: Any) -> Node:
    """Check a handler's result against the operation's type, and return it as a node."""
    made = as_implicit(found) if isinstance(found, ImplicitArray) else as_tensor(found)
    wanted, given = node.type, made.type
    if not isinstance(wanted, TensorType) or not _agree(wanted, given):
        raise HandlerError(
            f"The handler of {described(node.op)} gave {given!r} for {node!r}, of type {wanted!r}.",
            "Return an array of the result's shape and dtype.",
            node.where,
        )
    return made


def _agree(a: TensorType, b: TensorType) -> bool:
    pairs = zip(a.shape, b.shape, strict=False)
    same = all(n is None or m is None or n == m for n, m in pairs)
    return (a.dtype, a.ndim) == (b.dtype, b.ndim) and same


def densified(graph: Graph, user: Node | None = None) -> Graph:
    """Return a graph without implicit arrays, as the policy allows.

    Args:
        graph: Any.
        user: What holds the graph and needs its outputs.

    Raises:
        MaterializeError: The policy forbids it.
    """
    if not (Implicit.used and _holds_implicit(graph)):
        return graph
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node not in done:
            with derived_from(node.site):
                done[node] = _dense(node, done)
    for y in graph.outputs:
        if _is_implicit(y):
            what = "the output" if user is None else described(user.op)
            enforce_policy(y.array, what, (user or y).where)  # type: ignore[attr-defined]
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def _holds_implicit(graph: Graph) -> bool:
    """Whether a graph, or one nested in it, has an implicit array."""
    held = (inner for node in graph.nodes for inner in node.op.graphs())
    return any(map(_is_implicit, graph.nodes)) or any(map(_holds_implicit, held))


def _dense(node: Node, done: dict[Node, Node]) -> Node:
    for x in node.inputs:
        if _is_implicit(x):
            enforce_policy(x.array, described(node.op), node.where)  # type: ignore[attr-defined]
    inputs = [done[x] for x in node.inputs]
    if isinstance(node.op, Implicit):
        return _whole(node.op, inputs)
    held = node.op.graphs()
    dense = [densified(graph, node) for graph in held]
    op = node.op if dense == [*held] else node.op.with_graphs(dense)
    return Node.make(op, *inputs) if op is not node.op else node.with_inputs(inputs)


def _whole(op: Implicit, fields: Sequence[Node]) -> Node:
    """Return the whole array; arrays nested in it become whole without further reports."""
    with opening():
        (made,) = expanded([op.expand(*fields)], fields)  # type: ignore[arg-type]
        return densified(Graph(dict.fromkeys(fields), [made])).outputs[0]


def performable(outputs: Sequence[Node]) -> list[Node]:
    """Return outputs of equal value, to be computed at once, after the policy allowed them.

    Raises:
        MaterializeError: The policy forbids it.
    """
    made = expanded(outputs)
    for node in toposort(made):
        for x in () if _is_implicit(node) else node.inputs:
            if _is_implicit(x):
                enforce_policy(x.array, described(node.op))  # type: ignore[attr-defined]
    return made


def _gives_implicit(node: Node) -> bool:
    """Whether a node is an implicit array, or holds graphs with implicit results."""
    return _is_implicit(node) or any(_is_implicit(y) for g in node.op.graphs() for y in g.outputs)


GATHERED.add(Implicit)
# Before loops are: what is implicit goes into them. A sub-graph is written out first.
GATHERERS.insert(GATHERERS.index(expand_subgraphs) + 1, expanded)
expand_graph.provide(performable)
