"""Mask and score functions of a shard, and captured arrays that can be sharded as attention is.

A function may read an array only at its own batch, head or query index. If batches, heads or
queries are sharded over a mesh, such an array can be sharded too, as ``ids[b, q_idx]`` over
batches: a device needs only the elements of the batches that it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.attention.mods import INDICES
from graphc.ir import Graph, Node, TensorType, replace_nodes, toposort
from graphc.loop.step import stand_in, with_formals
from graphc.tensor.arrays.index import Hole, Index, Range

Roles = tuple[int | None, ...]
"""The role of each axis of an array: batches (0), heads (1), queries (2), or None."""

SHARDED_INDICES = 3
"""The number of indices that may be sharded: batch, head and query."""


def roles_of(graph: Graph, lengths: Sequence[int], shapes: Sequence[Sequence[int]]) -> list[Roles]:
    """Return the roles of captured arrays' axes that a function reads only at its own indices.

    Args:
        graph: A score or mask function.
        lengths: The numbers of batches, heads and queries.
        shapes: The shapes of the arrays.
    """
    end = len(graph.inputs) - len(shapes)
    first = end - len(INDICES)
    indices = graph.inputs[first : first + SHARDED_INDICES]
    pairs = zip(graph.inputs[end:], shapes, strict=True)
    return [_roles(graph, x, shape, lengths, indices) for x, shape in pairs]


def _roles(
    graph: Graph, x: Node, shape: Sequence[int], lengths: Sequence[int], indices: Sequence[Node]
) -> Roles:
    no_roles = [None] * len(shape)
    readers = [_read(node, x) or no_roles for node in graph.nodes if x in node.inputs]
    roles: list[int | None] = []
    for axis_indices, n in zip(zip(*readers, strict=True), shape, strict=bool(readers)):
        index = axis_indices[0] if len({*axis_indices}) == 1 else None
        role = indices.index(index) if index in indices else None
        fits = role is not None and n == lengths[role] and role not in roles
        roles.append(role if fits else None)
    return tuple(roles or no_roles)


def _read(node: Node, x: Node) -> Sequence[Node | None] | None:
    """Return the index at which a node reads each axis of an array; None for other nodes."""
    entries = [entry for entry in getattr(node.op, "entries", ()) if entry is not None]
    if not isinstance(node.op, Index) or any(isinstance(entry, Range) for entry in entries):
        return None
    if node.inputs[0] is not x or node.inputs.count(x) > 1:
        return None
    values = iter(node.inputs[1:])
    return [next(values) if isinstance(entry, Hole) else None for entry in entries]


def localize(graph: Graph, roles: Sequence[Roles]) -> Graph:
    """Return the function of a shard's indices and of shards of its captured arrays.

    Args:
        graph: A score or mask function, of global indices.
        roles: The roles of its arrays' axes, which are read only at the function's own indices.

    Returns:
        The function with one more array: the origin of the shard, int32 (4,), which has the global
        indices of its first batch, head, query and key.
    """
    first = len(graph.inputs) - len(roles)
    fresh: list[Node] = [stand_in(x) for x in graph.inputs[:first]]
    captured: dict[Node, Roles] = {}
    for x, own_roles in zip(graph.inputs[first:], roles, strict=True):
        pairs = zip(x.type.shape, own_roles, strict=True)
        shape = tuple([n if role is None else None for n, role in pairs])
        captured[x.type.with_shape(shape)()] = own_roles
    fresh += captured
    outputs = replace_nodes(graph.outputs, dict(zip(graph.inputs, fresh, strict=True)))
    start, origin = first - len(INDICES), TensorType("int32", (4,))()
    indices, local = fresh[start:first], [stand_in(x) for x in fresh[start:first]]
    swaps: dict[Node, Node] = {
        x: y + origin[i] for i, (x, y) in enumerate(zip(indices, local, strict=True))
    }
    for node in toposort(outputs):
        own_roles = captured.get(node.inputs[0], ()) if node.inputs else ()
        if any(role is not None for role in own_roles):
            reads = zip(_read(node, node.inputs[0]) or (), own_roles, strict=True)
            own = [i if r is None else local[r] for i, r in reads if i is not None]
            swaps[node] = node.with_inputs([node.inputs[0], *replace_nodes(own, swaps)])
    inputs = [*fresh[:start], *local, *captured, origin]
    return with_formals(inputs, replace_nodes(outputs, swaps))
