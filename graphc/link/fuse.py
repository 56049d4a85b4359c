"""Patterns that a backend has one operation for, found where nothing else needs what is inside.

Rules see no users, so this is none: a gradient that needs the parts of a pattern keeps them, and
nothing is computed twice. It is done last, on the graph in its normal form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from graphc.ir import Constant, Graph, Node
from graphc.link.backend import Backend
from graphc.rewrite import optimize
from graphc.rewrite.rule import number_of
from graphc.tensor.attention import Attention, LayerNorm, Normalization, RMSNorm
from graphc.tensor.axes import ExpandDims
from graphc.tensor.dot import DotGeneral
from graphc.tensor.elementwise import Elementwise, add, divide, multiply, sqrt, subtract
from graphc.tensor.shape import Length
from graphc.tensor.special import Softmax

__all__ = ["fused"]


def fused(graph: Graph, backend: Backend) -> Graph:
    """The graph, in normal form, with an operation for each pattern that the backend has."""
    finders = [find for op, find in PATTERNS.items() if op in backend.lowerings]
    if not finders:
        return graph
    chosen: dict[Node, Node] = {}
    inside: set[Node] = set()
    users = _users(graph)
    for node in reversed(graph.nodes):
        if node in inside:
            continue
        for made in (made for find in finders for made in find(node, graph.inputs)):
            parts = _parts(node, made)
            # A weight or mask that made the shape larger is none that the operation has.
            fits = made.type == node.type and backend.has(made)
            if fits and _is_own(node, parts, users, graph.outputs):
                chosen[node] = made
                inside |= parts
                break
    return _with(graph, chosen) if chosen else graph


def _users(graph: Graph) -> dict[Node, set[Node]]:
    users: dict[Node, set[Node]] = {}
    for node in graph.nodes:
        for x in node.inputs:
            users.setdefault(x, set()).add(node)
    return users


def _parts(node: Node, made: Node) -> set[Node]:
    """What stands between a node and the inputs of what may take its place."""
    found: set[Node] = set()
    waiting = [*node.inputs]
    while waiting:
        x = waiting.pop()
        if x not in found and x not in made.inputs and not isinstance(x.op, Constant):
            found.add(x)
            waiting += () if isinstance(x.op, Length) else x.inputs
    return found


def _is_own(
    node: Node, parts: set[Node], users: dict[Node, set[Node]], outputs: Sequence[Node]
) -> bool:
    """Whether nothing else needs these; lengths, and what is made of them, cost nothing."""
    arrays = [x for x in parts if x.type.ndim]
    return all(users[x] <= {node, *parts} and x not in outputs for x in arrays)


def _with(graph: Graph, chosen: dict[Node, Node]) -> Graph:
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node not in done:
            new = chosen.get(node, node)
            done[node] = new.with_inputs([done[x] for x in new.inputs])
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def _either(node: Node) -> tuple[tuple[Node, Node], ...]:
    a, b = node.inputs
    return (a, b), (b, a)


def _normal(op: type[Normalization], node: Node, inputs: Sequence[Node]) -> Iterator[Node]:
    """Of a quotient by the root of a mean square and a small number."""
    for y, under in _by_root(node):
        centred = y.op is subtract and isinstance(y.inputs[1].op, ExpandDims)
        eps = number_of(under.inputs[0]) if under.op is add else None
        if not isinstance(eps, float) or (op is LayerNorm) != centred:
            continue
        x: Any = y.inputs[0] if centred else y
        made = op((node.type.ndim - 1,), eps)
        wanted = Graph(inputs, [made.centred(x), made.spread(made.centred(x))])
        if optimize(wanted).graph.outputs == (y, under):
            yield Node.make(made, x)


def _by_root(node: Node) -> Iterator[tuple[Node, Node]]:
    """What is divided by a root of slices along the last axis, and what that is the root of."""
    if node.op not in {divide, multiply}:
        return
    for x, size in _either(node) if node.op is multiply else (node.inputs,):
        if not isinstance(size.op, ExpandDims) or size.op.axes != (node.type.ndim - 1,):
            continue
        (root,) = size.inputs
        if node.op is multiply and root.op is divide and number_of(root.inputs[0]) == 1:
            root = root.inputs[1]
        elif node.op is multiply:
            continue
        if root.op is sqrt:
            yield x, root.inputs[0]


def _beside(combine: Elementwise, node: Node) -> Iterator[tuple[Node, Node]]:
    """A vector that is multiplied by or added, and what with."""
    if node.op is combine:
        for vector, x in _either(node):
            if vector.type.ndim == 1 and vector.type.shape != (1,):
                yield vector, x


def rms_norm(node: Node, inputs: Sequence[Node]) -> Iterator[Node]:
    """With a weight or without."""
    yield from _normal(RMSNorm, node, inputs)
    yield from _weighted(RMSNorm, node, inputs)


def layer_norm(node: Node, inputs: Sequence[Node]) -> Iterator[Node]:
    """With a weight and a bias, or a weight, or neither."""
    yield from _normal(LayerNorm, node, inputs)
    yield from _weighted(LayerNorm, node, inputs)
    for bias, x in _beside(add, node):
        for made in _weighted(LayerNorm, x, inputs):
            yield Node.make(made.op, *made.inputs, bias)


def _weighted(op: type[Normalization], node: Node, inputs: Sequence[Node]) -> Iterator[Node]:
    for weight, x in _beside(multiply, node):
        for made in _normal(op, x, inputs):
            yield Node.make(made.op, *made.inputs, weight)


def attention(node: Node, inputs: Sequence[Node]) -> Iterator[Node]:
    """Of a product with a softmax of scores."""
    if not isinstance(node.op, DotGeneral):
        return
    weights, v = node.inputs
    last = weights.type.ndim - 1
    if not isinstance(weights.op, Softmax) or weights.op.axes != (last,) or last < 1:
        return
    (scores,) = weights.inputs
    for mask, y in ((None, scores), *(_either(scores) if scores.op is add else ())):
        masks = () if mask is None else (mask,)
        options: list[tuple[str, tuple[Node, ...], Node]] = [("", (), y)]
        if y.op is multiply:
            options += [("*", (scale,), z) for scale, z in _either(y) if not scale.type.ndim]
        if y.op is divide and not y.inputs[1].type.ndim:
            options.append(("/", (y.inputs[1],), y.inputs[0]))
        for scaled, scale, product in options:
            op = Attention((last,), scaled, bool(masks))
            if (product.op, node.op) == op.products and product.type.ndim == last + 1:
                yield Node.make(op, *product.inputs, v, *scale, *masks)


PATTERNS: dict[type, Callable[[Node, Sequence[Node]], Iterator[Node]]] = {
    LayerNorm: layer_norm,
    RMSNorm: rms_norm,
    Attention: attention,
}
"""What finds the nodes that may stand for a node of a graph with such inputs."""
