"""Captured arrays of which a function reads the elements of its own batch, head or query.

Where these are divided over a mesh, such arrays can be too, as ``ids[b, q_idx]`` over batches: a
device needs the elements of its own ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.attention.mods import INDICES
from graphc.ir import Graph, Node, TensorType, replaced, toposort
from graphc.link.jax.attention.partitioned import Roles
from graphc.loop.step import stand_in
from graphc.tensor.arrays.index import Hole, Index, Range

PLACES = 3
"""Of the indices, those of batch, head and query, which are divided."""


def roles_of(graph: Graph, lengths: Sequence[int], shapes: Sequence[Sequence[int]]) -> list[Roles]:
    """For each array that a function captures, the axes that are read at its own indices alone.

    Args:
        graph: A score or mask function.
        lengths: The numbers of batches, heads and queries.
        shapes: The shapes of the arrays.
    """
    captured = graph.inputs[len(graph.inputs) - len(shapes) :]
    places = _places(graph.inputs, len(shapes))
    pairs = zip(captured, shapes, strict=True)
    return [_roles(graph, x, shape, lengths, places) for x, shape in pairs]


def _places(inputs: Sequence[Node], captured: int) -> Sequence[Node]:
    first = len(inputs) - captured - len(INDICES)
    return inputs[first : first + PLACES]


def _roles(
    graph: Graph, x: Node, shape: Sequence[int], lengths: Sequence[int], places: Sequence[Node]
) -> Roles:
    nothing = [None] * len(shape)
    readers = [_read(node, x) or nothing for node in graph.nodes if x in node.inputs]
    roles: list[int | None] = []
    for own, n in zip(zip(*readers, strict=True), shape, strict=bool(readers)):
        role = places.index(own[0]) if len({*own}) == 1 and own[0] in places else None
        fits = role is not None and n == lengths[role] and role not in roles
        roles.append(role if fits else None)
    return tuple(roles or nothing)


def _read(node: Node, x: Node) -> Sequence[Node | None] | None:
    """The index at which a node reads each axis of an array; None of other nodes."""
    entries = [entry for entry in getattr(node.op, "entries", ()) if entry is not None]
    if not isinstance(node.op, Index) or any(isinstance(entry, Range) for entry in entries):
        return None
    if node.inputs[0] is not x or node.inputs.count(x) > 1:
        return None
    values = iter(node.inputs[1:])
    return [next(values) if isinstance(entry, Hole) else None for entry in entries]


def divided(graph: Graph, roles: Sequence[Roles]) -> Graph:
    """The function for parts of arrays.

    Args:
        graph: A score or mask function, of indices in the whole.
        roles: The axes of its arrays that are read at its own indices.

    Returns:
        The function with three more inputs: the indices of batch, head and query in the part.
    """
    first = len(graph.inputs) - len(roles)
    fresh: list[Node] = [stand_in(x) for x in graph.inputs[:first]]
    captured: dict[Node, Roles] = {}
    for x, own_roles in zip(graph.inputs[first:], roles, strict=True):
        pairs = zip(x.type.shape, own_roles, strict=True)
        shape = tuple([n if role is None else None for n, role in pairs])
        captured[x.type.with_shape(shape)()] = own_roles
    fresh += captured
    outputs = replaced(graph.outputs, dict(zip(graph.inputs, fresh, strict=True)))
    own = [TensorType("int32", ())() for _ in range(PLACES)]
    swaps: dict[Node, Node] = {}
    for node in toposort(outputs):
        known = captured.get(node.inputs[0], ()) if node.inputs else ()
        if any(role is not None for role in known):
            read = zip(_read(node, node.inputs[0]) or (), known, strict=True)
            made = [i if role is None else own[role] for i, role in read if i is not None]
            swaps[node] = node.with_inputs([node.inputs[0], *replaced(made, swaps)])
    return Graph([*fresh, *own], replaced(outputs, swaps))
