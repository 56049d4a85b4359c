"""Graphs in which handlers replace the operations on implicit arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from graphc import ir
from graphc.errors import GraphcError, HandlerError
from graphc.implicit.array import ImplicitArray, opening
from graphc.implicit.dispatch import dispatch
from graphc.implicit.namespace import expand_graph
from graphc.implicit.node import Implicit, as_implicit
from graphc.implicit.policy import enforce_policy
from graphc.implicit.registry import describe, parameters_of
from graphc.implicit.stacks import may_equal
from graphc.loop.subgraph import expand_subgraphs
from graphc.site import derived_from
from graphc.tensor import as_tensor

INSIDE: list[Callable[[ir.Node, Collection[ir.Node]], Sequence[ir.Node] | None]] = []
"""Functions that handle the implicit arrays of operations with nested graphs; from ``loops.py``.

Each is called with the operation's node and the nodes that are not replaced."""

Several = dict[ir.Node, Any]
"""The replacements of nodes with several results: a sequence of nodes, or None."""


def expanded(outputs: Sequence[ir.Node], known: Collection[ir.Node] = ()) -> list[ir.Node]:
    """Return outputs of equal value in which handlers have replaced operations.

    Args:
        outputs: Arrays.
        known: Nodes that are not replaced, such as those to differentiate with respect to.

    Returns:
        As many arrays, in which no operation that a handler accepts is left; the outputs themselves
        if the graph has no implicit array.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.implicit import Diagonal, expanded
        >>> w = gt.implicit(Diagonal, (3, 3), "float64", name="w")
        >>> (y,) = expanded([gt.tanh(w) @ gt.vector("x")])
        >>> y.type
        float64[3]
    """
    if not (Implicit.used and any(map(_gives_implicit, ir.toposort(outputs, known)))):
        return [*outputs]
    done: dict[ir.Node, ir.Node] = {x: x for x in known}
    several: Several = {}

    def again(node: ir.Node) -> ir.Node:
        return node.with_inputs([done[x] for x in node.inputs]) if node.inputs else node

    # The result of a handler may contain implicit arrays in turn.
    replace = partial(_replacement, known=known, several=several)
    return ir.unfold(outputs, done, again, replace, _endless)


def _endless(node: ir.Node) -> HandlerError:
    return HandlerError(
        f"The handlers of {describe(node.op)} give {node!r} in terms of itself.",
        "Return NotImplemented for what a handler does not handle.",
        node.where,
    )


def _is_implicit(x: ir.Node) -> bool:
    return isinstance(x.op, Implicit)


def _replacement(node: ir.Node, known: Collection[ir.Node], several: Several) -> ir.Node | None:
    """Return a node's replacement by handlers; None if no handler applies."""
    if isinstance(node.op, ir.Pick):
        (source,) = node.inputs
        if source not in several:
            several[source] = _handle_inside(source, known) or _handle(source, known)
        results = several[source]
        return None if results is None else _as_node(node, results[node.op.index])
    if isinstance(node.type, ir.TupleType):
        # Each of the results is handled where it is picked.
        return None
    with derived_from(node.site):
        if isinstance(node.op, Implicit) and any(map(_is_implicit, node.inputs)):
            return as_implicit(node.array)  # type: ignore[attr-defined]
        result = _handle(node, known)
        return None if result is None else _as_node(node, result)


def _handle_inside(node: ir.Node, known: Collection[ir.Node]) -> Sequence[ir.Node] | None:
    for handle in INSIDE:
        with derived_from(node.site):
            results = handle(node, known)
        if results is not None:
            return results
    return None


def _handle(node: ir.Node, known: Collection[ir.Node]) -> Any:
    if not any(_is_implicit(x) and x not in known for x in node.inputs):
        return None
    operands = [x.array if _is_implicit(x) and x not in known else x for x in node.inputs]  # type: ignore[attr-defined]
    with derived_from(node.site):
        try:
            result = dispatch(node.op, operands, parameters_of(node.op))
        except GraphcError:
            raise
        except Exception as error:
            error.add_note(f"In the handler of {node!r}   {node.where or ''}")
            raise
    return None if result is NotImplemented else result


def _as_node(node: ir.Node, result: Any) -> ir.Node:
    """Check a handler's result against the operation's type, and return it as a node."""
    y = as_implicit(result) if isinstance(result, ImplicitArray) else as_tensor(result)
    expected, actual = node.type, y.type
    if not isinstance(expected, ir.TensorType) or not may_equal(expected, actual):
        raise HandlerError(
            f"The handler of {describe(node.op)} gave {actual!r} for {node!r}, of type "
            f"{expected!r}.",
            "Return an array of the result's shape and dtype.",
            node.where,
        )
    return y


def densify_graph(graph: ir.Graph, user: ir.Node | None = None) -> ir.Graph:
    """Return a graph without implicit arrays, as the policy allows.

    Args:
        graph: A graph.
        user: The node that contains the graph and needs its outputs.

    Raises:
        MaterializeError: If the policy forbids it.
    """
    if not (Implicit.used and _has_implicit(graph)):
        return graph
    done: dict[ir.Node, ir.Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node not in done:
            with derived_from(node.site):
                done[node] = _dense(node, done)
    for y in graph.outputs:
        if _is_implicit(y):
            name = "the output" if user is None else describe(user.op)
            enforce_policy(y.array, name, (user or y).where)  # type: ignore[attr-defined]
    return ir.Graph(graph.inputs, [done[y] for y in graph.outputs])


def _has_implicit(graph: ir.Graph) -> bool:
    nested = (child for node in graph.nodes for child in node.op.graphs())
    return any(map(_is_implicit, graph.nodes)) or any(map(_has_implicit, nested))


def _dense(node: ir.Node, done: dict[ir.Node, ir.Node]) -> ir.Node:
    for x in node.inputs:
        if _is_implicit(x):
            enforce_policy(x.array, describe(node.op), node.where)  # type: ignore[attr-defined]
    inputs = [done[x] for x in node.inputs]
    if isinstance(node.op, Implicit):
        return _densify(node.op, inputs)
    nested = node.op.graphs()
    dense = [densify_graph(graph, node) for graph in nested]
    op = node.op if dense == [*nested] else node.op.with_graphs(dense)
    return ir.Node.make(op, *inputs) if op is not node.op else node.with_inputs(inputs)


def _densify(op: Implicit, fields: Sequence[ir.Node]) -> ir.Node:
    """Return the dense array; arrays nested in it become dense without further reports."""
    with opening():
        (dense,) = expanded([op.expand(*fields)], fields)  # type: ignore[arg-type]
        return densify_graph(ir.Graph(dict.fromkeys(fields), [dense])).outputs[0]


def performable(outputs: Sequence[ir.Node]) -> list[ir.Node]:
    """Return outputs of equal value to evaluate at once, after the policy allowed them.

    Raises:
        MaterializeError: If the policy forbids it.
    """
    nodes = expanded(outputs)
    for node in ir.toposort(nodes):
        for x in () if _is_implicit(node) else node.inputs:
            if _is_implicit(x):
                enforce_policy(x.array, describe(node.op))  # type: ignore[attr-defined]
    return nodes


def _gives_implicit(node: ir.Node) -> bool:
    """Return whether a node is an implicit array, or has graphs with implicit results."""
    return _is_implicit(node) or any(_is_implicit(y) for g in node.op.graphs() for y in g.outputs)


ir.GATHERED.add(Implicit)
# After sub-graphs are expanded and before loops are, which get the fields of implicit arrays.
ir.GATHERERS.insert(ir.GATHERERS.index(expand_subgraphs) + 1, expanded)
expand_graph.provide(performable)
