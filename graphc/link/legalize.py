"""The last rewrites before a backend compiles: inlining, and dtypes that the backend lacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from graphc import ir
from graphc.errors import InvalidGraphError, ShardingError
from graphc.ir.sharding import MeshAxes, with_role
from graphc.loop.step import Formal
from graphc.site import derived_from
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.core.elementwise import Cast, Elementwise
from graphc.tensor.core.specify import specify_shape


class HasLowerings(Protocol):
    """A set of lowerings, such as a backend."""

    def lowering(self, op: ir.Op) -> Callable[..., Any] | None:
        """Return the function that computes an operation, or None."""

    def has(self, node: ir.Node) -> bool:
        """Return whether a named function has a lowering; others are expanded."""


def inline(graph: ir.Graph, backend: HasLowerings) -> ir.Graph:
    """Return the graph with named functions without a lowering expanded to their definitions.

    Named functions in the graphs of operations are expanded too.
    """
    if not _has_definitions(graph, backend):
        return graph
    done: dict[ir.Node, ir.Node] = {x: x for x in graph.inputs}

    def rebuild(node: ir.Node) -> ir.Node:
        return _with_inlined_graphs(node, backend).with_inputs([done[x] for x in node.inputs])

    # Definitions may contain other named functions.
    outputs = ir.unfold(
        graph.outputs, done, rebuild, lambda x: _expansion(x, backend), _recursion_error
    )
    return ir.Graph(graph.inputs, outputs)


def _has_definitions(graph: ir.Graph, backend: HasLowerings) -> bool:
    """Return whether a node is a named function without a lowering, or contains a graph."""
    if graph.holders():
        return True
    kinds = {kind for kind in graph.kinds if issubclass(kind, Elementwise | Composite | ir.Pick)}
    rows: set[ir.Op] = set()
    for node in graph.nodes:
        op = node.op
        if type(op) in kinds and op not in rows:
            if _definition(node, backend):
                return True
            if isinstance(op, Elementwise):
                rows.add(op)
    return False


def _recursion_error(node: ir.Node) -> InvalidGraphError:
    return InvalidGraphError(
        f"The definition of {node.op.name} computes {node!r} from itself.",
        "Define it by other operations.",
        node.where,
    )


def _with_inlined_graphs(node: ir.Node, backend: HasLowerings) -> ir.Node:
    graphs = [inline(graph, backend) for graph in node.op.graphs()]
    if graphs == [*node.op.graphs()]:
        return node
    with derived_from(node.site):
        return ir.Node.make(node.op.with_graphs(graphs), *node.inputs)


def _definition(node: ir.Node, backend: HasLowerings) -> Callable[..., ir.Node] | None:
    """Return the function that expands a named function without a lowering; else None."""
    match node.op:
        case Elementwise(expand=expand) as op:
            return None if expand is None or backend.lowering(op) is not None else expand
        case Composite() as op:
            return None if backend.has(node) else op.expand
        case ir.Pick(index) if isinstance(node.inputs[0].op, ir.MakeTuple):
            return lambda items: items.inputs[index]
    return None


def _expansion(node: ir.Node, backend: HasLowerings) -> ir.Node | None:
    """Return the expansion of a named function without a lowering; else None."""
    expand = _definition(node, backend)
    if expand is None:
        return None
    with derived_from(node.site):
        return _with_known_lengths(expand(*node.inputs), node.type)


def _with_known_lengths(expansion: ir.Node, type: ir.Type) -> ir.Node:
    """Return an expansion with the static lengths of the named function's type."""
    if isinstance(type, ir.TupleType) and isinstance(expansion.op, ir.MakeTuple):
        return ir.Node.make(expansion.op, *map(_with_known_lengths, expansion.inputs, type.items))
    return specify_shape(expansion, type.shape) if isinstance(type, ir.TensorType) else expansion


def bypass(graph: ir.Graph, cls: type[ir.Op]) -> ir.Graph:
    """Return the graph with each operation of a class replaced by its first input.

    Operations in the graphs of operations are replaced too.
    """
    return replace_kind(graph, cls, lambda op, inputs: inputs[0])


def replace_kind(
    graph: ir.Graph, cls: type[ir.Op], new: Callable[[Any, Sequence[ir.Node]], ir.Node]
) -> ir.Graph:
    """Return the graph with each operation of a class replaced, also in graphs of operations.

    Args:
        graph: The graph.
        cls: The class.
        new: Returns the new node, given an operation and its inputs.
    """
    if not has_kind(graph, (cls,)):
        return graph
    done: dict[ir.Node, ir.Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node in done:
            continue
        inputs = [done[x] for x in node.inputs]
        with derived_from(node.site):
            if isinstance(node.op, cls):
                done[node] = new(node.op, inputs)
                continue
            graphs = [replace_kind(inner, cls, new) for inner in node.op.graphs()]
            op = node.op.with_graphs(graphs) if graphs else node.op
            done[node] = ir.Node.make(op, *inputs) if graphs else node.with_inputs(inputs)
    return ir.Graph(graph.inputs, [done[y] for y in graph.outputs])


def has_kind(graph: ir.Graph, kinds: tuple[type[ir.Op], ...]) -> bool:
    """Return whether a graph, or the graph of an operation, has operations of these classes."""
    return any(issubclass(kind, kinds) for kind in graph.kinds) or any(
        has_kind(inner, kinds) for node in graph.holders() for inner in node.op.graphs()
    )


def check_shardings(graph: ir.Graph, axes: MeshAxes | None) -> None:
    """Raise if a declared sharding does not fit the mesh's axes; the error names the line.

    Without a mesh, shardings have no effect.

    Raises:
        ShardingError: If the mesh lacks an axis, or a length is not divisible.
    """
    if axes is None:
        return
    for node in graph.nodes:
        sharding: ir.Sharding | None = getattr(node.op, "sharding", None)
        if sharding is not None:
            try:
                axes.of(sharding, node.type.shape, with_role(repr(node), node.op))
            except ShardingError as error:
                raise ShardingError(error.problem, error.remedy, node.where) from None
        for inner in node.op.graphs():
            check_shardings(inner, axes)


def bake(graph: ir.Graph, arrays: Mapping[ir.Node, np.ndarray[Any, Any]]) -> ir.Graph:
    """Replace leaves whose values decide shapes by constants."""
    baked = {
        leaf: ir.Node.make(ir.Constant.of(_cast(array, leaf.type.dtype)))
        for leaf, array in arrays.items()
    }
    return graph.substitute(baked) if baked else graph


def narrow_dtypes(graph: ir.Graph, dtypes: Mapping[str, str]) -> ir.Graph:
    """Return the graph computed in other dtypes.

    The dtypes of inputs, leaves, constants and casts change, also in the graphs of operations.
    Where an operation converts integers to a replaced floating dtype, its operands are cast to the
    new dtype. Results that still have a replaced dtype stay.
    """
    if not dtypes:
        return graph
    done = {x: _narrow_input(x, dtypes) for x in graph.inputs}
    for node in graph.nodes:
        if node not in done:
            with derived_from(node.site):
                done[node] = _narrow_node(node, [done[x] for x in node.inputs], dtypes)
    return ir.Graph([done[x] for x in graph.inputs], [done[y] for y in graph.outputs])


def _narrow_input(x: ir.Node, dtypes: Mapping[str, str]) -> ir.Node:
    if not isinstance(x.type, ir.TensorType) or x.type.dtype not in dtypes:
        return x
    type = ir.TensorType(dtypes[x.type.dtype], x.type.shape)
    with derived_from(x.site):
        # Equal steps of loops share one graph, and stay equal.
        return ir.Node.make(
            Formal(x.op.position, type) if isinstance(x.op, Formal) else x.op.of_type(type)  # type: ignore[attr-defined]
        )


def _narrow_node(node: ir.Node, inputs: Sequence[ir.Node], dtypes: Mapping[str, str]) -> ir.Node:
    op = _narrow_op(node.op, dtypes)
    narrowed = ir.Node.make(op, *op.arranged(inputs))
    dtype = dtypes.get(getattr(narrowed.type, "dtype", ""))
    if dtype is None or not isinstance(op, Elementwise):
        return narrowed
    floats = [x if ir.is_inexact(x.type.dtype) else ir.Node.make(Cast(dtype), x) for x in inputs]
    return ir.Node.make(op, *op.arranged(floats))


def _narrow_op(op: Any, dtypes: Mapping[str, str]) -> ir.Op:
    match op:
        case ir.Constant(dtype=dtype) if dtype in dtypes:
            return ir.Constant.of(_cast(op.value, dtypes[dtype]))
        case ir.Slot(given_type=ir.TensorType(dtype=dtype, shape=shape)) if dtype in dtypes:
            return ir.Slot(op.position, ir.TensorType(dtypes[dtype], shape), op.given_name)
        case ir.Constant() | ir.Leaf():
            return op
    if "dtype" in {field.name for field in dataclasses.fields(op)} and op.dtype in dtypes:
        op = dataclasses.replace(op, dtype=dtypes[op.dtype])
    graphs = [narrow_dtypes(graph, dtypes) for graph in op.graphs()]
    return op.with_graphs(graphs) if graphs else op  # type: ignore[no-any-return]


def _cast(value: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return value.astype(ir.numpy_dtype(dtype))
