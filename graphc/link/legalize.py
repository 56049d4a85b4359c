"""The last rewriting before a backend compiles, and its dtypes where it lacks some."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.ir import (
    Constant,
    Graph,
    Input,
    Leaf,
    Node,
    Op,
    Pick,
    Slot,
    TensorType,
    Together,
    derived_from,
    is_inexact,
    numpy_dtype,
)
from graphc.link.backend import Backend
from graphc.loop.step import Formal
from graphc.tensor.elementwise import Cast, Elementwise
from graphc.tensor.reduce import Named

__all__ = ["bake", "inline", "narrowed"]


def inline(graph: Graph, backend: Backend) -> Graph:
    """Named functions taken apart, but for those the backend has a lowering of its own for.

    So too in the graphs that operations hold.
    """
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    meanings: dict[Node, Node] = {}
    waiting = list(reversed(graph.nodes))
    while waiting:
        node = waiting[-1]
        if node in done:
            waiting.pop()
            continue
        missing = [x for x in node.inputs if x not in done]
        if missing:
            waiting += missing
            continue
        made = _inside(node, backend).with_inputs([done[x] for x in node.inputs])
        if isinstance(made.op, Pick) and isinstance(made.inputs[0].op, Together):
            done[node] = made.inputs[0].inputs[made.op.index]
            continue
        meaning = meanings[made] if made in meanings else _meaning(made, backend)
        if meaning is not None and meaning not in done:
            # It may hold other names in turn.
            meanings[made] = meaning
            waiting.append(meaning)
            continue
        final = made if meaning is None else done[meaning]
        done[node] = done[final] = final
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def _inside(node: Node, backend: Backend) -> Node:
    graphs = node.op.graphs()
    taken_apart = [inline(graph, backend) for graph in graphs]
    if taken_apart == [*graphs]:
        return node
    with derived_from(node.site):
        return Node.make(node.op.with_graphs(taken_apart), *node.inputs)


def _meaning(node: Node, backend: Backend) -> Node | None:
    """What a name stands for that the backend does not know."""
    match node.op:
        case Named() as op if not backend.has(node):
            expand: Callable[..., Node] = op.expand
        case Elementwise(expand=made) as op if made is not None and backend.lowering(op) is None:
            expand = made
        case _:
            return None
    with derived_from(node.site):
        return expand(*node.inputs)


def bake(graph: Graph, arrays: Mapping[Node, np.ndarray[Any, Any]]) -> Graph:
    """Leaves whose values decide shapes made part of the graph, with these arrays."""
    baked = {
        leaf: Node.make(Constant.of(_cast(array, leaf.type.dtype)))
        for leaf, array in arrays.items()
    }
    return graph.substitute(baked) if baked else graph


def narrowed(graph: Graph, dtypes: Mapping[str, str]) -> Graph:
    """The same computed in other dtypes: inputs, places of leaves, constants, casts, held graphs.

    Operations that give a floating number for integers are given these as such numbers. What still
    has a dtype that was to go is left as it is.
    """
    if not dtypes:
        return graph
    done = {x: _other_input(x, dtypes) for x in graph.inputs}
    for node in graph.nodes:
        if node not in done:
            with derived_from(node.site):
                done[node] = _other(node, [done[x] for x in node.inputs], dtypes)
    return Graph([done[x] for x in graph.inputs], [done[y] for y in graph.outputs])


def _other_input(x: Node, dtypes: Mapping[str, str]) -> Node:
    if not isinstance(x.type, TensorType) or x.type.dtype not in dtypes:
        return x
    type = TensorType(dtypes[x.type.dtype], x.type.shape)
    with derived_from(x.site):
        # Equal steps of loops are one, and so they stay.
        return Node.make(
            Formal(x.op.place, type) if isinstance(x.op, Formal) else Input(type, x.name)
        )


def _other(node: Node, inputs: Sequence[Node], dtypes: Mapping[str, str]) -> Node:
    op = _other_op(node.op, dtypes)
    made = Node.make(op, *op.arranged(inputs))
    dtype = dtypes.get(getattr(made.type, "dtype", ""))
    if dtype is None or not isinstance(op, Elementwise):
        return made
    floats = [x if is_inexact(x.type.dtype) else Node.make(Cast(dtype), x) for x in inputs]
    return Node.make(op, *op.arranged(floats))


def _other_op(op: Any, dtypes: Mapping[str, str]) -> Op:
    match op:
        case Constant(dtype=dtype) if dtype in dtypes:
            return Constant.of(_cast(op.value, dtypes[dtype]))
        case Slot(given_type=TensorType(dtype=dtype, shape=shape)) if dtype in dtypes:
            return Slot(op.place, TensorType(dtypes[dtype], shape), op.given_name)
        case Constant() | Leaf():
            return op
    if "dtype" in {field.name for field in dataclasses.fields(op)} and op.dtype in dtypes:
        op = dataclasses.replace(op, dtype=dtypes[op.dtype])
    held = [narrowed(graph, dtypes) for graph in op.graphs()]
    return op.with_graphs(held) if held else op  # type: ignore[no-any-return]


def _cast(value: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return value.astype(numpy_dtype(dtype))
