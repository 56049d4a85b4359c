"""The last rewriting before a backend compiles, and its dtypes where it lacks some."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from graphc.errors import InvalidGraphError, ShardingError
from graphc.ir import (
    Constant,
    Graph,
    Leaf,
    MakeTuple,
    Node,
    Op,
    Pick,
    Sharding,
    Slot,
    TensorType,
    TupleType,
    Type,
    is_inexact,
    numpy_dtype,
    unfold,
)
from graphc.ir.sharding import MeshAxes, with_role
from graphc.loop.step import Formal
from graphc.site import derived_from
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.core.elementwise import Cast, Elementwise
from graphc.tensor.core.specify import specify_shape


class Lowerings(Protocol):
    """What has lowerings of operations, as a backend does."""

    def lowering(self, op: Op) -> Callable[..., Any] | None:
        """The function that computes an operation; None where there is none."""

    def has(self, node: Node) -> bool:
        """Whether a named function is one operation here; what it is made of is taken otherwise."""


def inline(graph: Graph, backend: Lowerings) -> Graph:
    """Named functions taken apart, but for those the backend has a lowering of its own for.

    So too in the graphs that operations hold.
    """
    if not _has_definitions(graph, backend):
        return graph
    done: dict[Node, Node] = {x: x for x in graph.inputs}

    def again(node: Node) -> Node:
        return _inside(node, backend).with_inputs([done[x] for x in node.inputs])

    # A definition may hold other named functions in turn.
    outputs = unfold(graph.outputs, done, again, lambda x: _meaning(x, backend), _endless)
    return Graph(graph.inputs, outputs)


def _has_definitions(graph: Graph, backend: Lowerings) -> bool:
    """Whether there is any named function to take apart, or an operation that holds a graph."""
    if graph.holders():
        return True
    kinds = {kind for kind in graph.kinds if issubclass(kind, Elementwise | Composite | Pick)}
    rows: set[Op] = set()
    for node in graph.nodes:
        op = node.op
        if type(op) in kinds and op not in rows:
            if _definition(node, backend):
                return True
            if isinstance(op, Elementwise):
                rows.add(op)
    return False


def _endless(node: Node) -> InvalidGraphError:
    return InvalidGraphError(
        f"The definition of {node.op.name} gives {node!r} in terms of itself.",
        "Define it by other operations.",
        node.where,
    )


def _inside(node: Node, backend: Lowerings) -> Node:
    graphs = node.op.graphs()
    taken_apart = [inline(graph, backend) for graph in graphs]
    if taken_apart == [*graphs]:
        return node
    with derived_from(node.site):
        return Node.make(node.op.with_graphs(taken_apart), *node.inputs)


def _definition(node: Node, backend: Lowerings) -> Callable[..., Node] | None:
    """What gives the meaning of a named function without a lowering here; None for other nodes."""
    match node.op:
        case Elementwise(expand=made) as op:
            return None if made is None or backend.lowering(op) is not None else made
        case Composite() as op:
            return None if backend.has(node) else op.expand
        case Pick(index) if isinstance(node.inputs[0].op, MakeTuple):
            return lambda items: items.inputs[index]
    return None


def _meaning(node: Node, backend: Lowerings) -> Node | None:
    """The definition of a named function without a lowering here; None for all other nodes."""
    expand = _definition(node, backend)
    if expand is None:
        return None
    with derived_from(node.site):
        return _as_known(expand(*node.inputs), node.type)


def _as_known(made: Node, type: Type) -> Node:
    """A definition, with what the function's own type rule knows of its lengths."""
    if isinstance(type, TupleType) and isinstance(made.op, MakeTuple):
        return Node.make(made.op, *map(_as_known, made.inputs, type.items))
    return specify_shape(made, type.shape) if isinstance(type, TensorType) else made


def without(graph: Graph, kind: type[Op]) -> Graph:
    """The graph with the first input of each operation of a kind in its place.

    So too in the graphs that operations hold.
    """
    if not has_kind(graph, (kind,)):
        return graph
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node in done:
            continue
        inputs = [done[x] for x in node.inputs]
        if isinstance(node.op, kind):
            done[node] = inputs[0]
            continue
        held = node.op.graphs()
        op = node.op.with_graphs([without(part, kind) for part in held]) if held else node.op
        with derived_from(node.site):
            done[node] = Node.make(op, *inputs) if held else node.with_inputs(inputs)
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def has_kind(graph: Graph, kinds: tuple[type[Op], ...]) -> bool:
    """Whether there is an operation of these classes, also in a graph that an operation holds."""
    return any(issubclass(kind, kinds) for kind in graph.kinds) or any(
        has_kind(part, kinds) for node in graph.holders() for part in node.op.graphs()
    )


def check_shardings(graph: Graph, axes: MeshAxes | None) -> None:
    """Raise where a declared sharding does not fit the mesh, with the line that declares it.

    Args:
        graph: Declares shardings.
        axes: The mesh's; None where there is none, and shardings say nothing.

    Raises:
        ShardingError: The mesh has no such axis, or a length cannot be divided.
    """
    if axes is None:
        return
    for node in graph.nodes:
        sharding = _sharding(node)
        if sharding is not None:
            try:
                axes.of(sharding, node.type.shape, with_role(repr(node), node.op))
            except ShardingError as error:
                raise ShardingError(error.problem, error.remedy, node.where) from None
        for held in node.op.graphs():
            check_shardings(held, axes)


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
            Formal(x.op.place, type) if isinstance(x.op, Formal) else x.op.of_type(type)  # type: ignore[attr-defined]
        )


def _sharding(x: Node) -> Sharding | None:
    found: Sharding | None = getattr(x.op, "sharding", None)
    return found


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
