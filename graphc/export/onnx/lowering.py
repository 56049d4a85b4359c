"""The table of lowerings to ONNX: functions of an operation and its operands, as in a backend.

Every file of the folder ``lower`` enters its lowerings here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from graphc.errors import ExportError
from graphc.export.onnx.builder import Complex, Value
from graphc.export.onnx.gaps import gap_of
from graphc.ir import Constant, Graph, Input, Leaf, Node, Op, Pick, TupleType
from graphc.link.legalize import inline
from graphc.rewrite import optimize
from graphc.tensor.core.elementwise import Elementwise

F = TypeVar("F", bound=Callable[..., Any])
Lowering = Callable[..., Any]


class Lowerings:
    """A table of lowerings by operation."""

    def __init__(self) -> None:
        self.lowerings: dict[Any, Lowering] = {Pick: Pick.perform}
        self.conditions: dict[Any, Callable[[Node], bool]] = {}

    def lower(
        self, *ops: type[Op] | Elementwise, when: Callable[[Node], bool] | None = None
    ) -> Callable[[F], F]:
        """Enter the decorated function as the lowering of these operations.

        Args:
            ops: Classes of operations, or rows of elementwise functions.
            when: Whether a node of a named function has this lowering; otherwise it is inlined.
        """

        def enter(f: F) -> F:
            self.lowerings.update(dict.fromkeys(ops, f))
            self.conditions.update(dict.fromkeys(ops, when) if when else {})
            return f

        return enter

    def lowering(self, op: Op) -> Lowering | None:
        """Return the function that emits an operation, or None."""
        if isinstance(op, Elementwise) and op in self.lowerings:
            return self.lowerings[op]
        return next((self.lowerings[c] for c in type(op).__mro__ if c in self.lowerings), None)

    def has(self, node: Node) -> bool:
        """Return whether a named function has a lowering; otherwise its definition is inlined."""
        condition = self.conditions.get(type(node.op))
        return type(node.op) in self.lowerings and (condition is None or condition(node))


onnx = Lowerings()


def load() -> Lowerings:
    """Import all files of lowerings and return their table."""
    folder = Path(__file__).with_name("lower")
    for module in pkgutil.iter_modules([str(folder)]):
        importlib.import_module(f"{__package__}.lower.{module.name}")
    return onnx


def emit_graph(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """Emit a graph's nodes into the innermost scope and return its outputs, given its inputs."""
    emitted: dict[Node, Any] = dict(zip(graph.inputs, values, strict=True))
    for node in graph.nodes:
        if node not in emitted:
            lowering = onnx.lowering(node.op)
            assert lowering is not None, node
            result = lowering(node.op, *[emitted[x] for x in node.inputs])
            emitted[node] = _with_node_type(result, node)
    return [emitted[y] for y in graph.outputs]


def _with_node_type(result: Any, node: Node) -> Any:
    if isinstance(node.type, TupleType):
        return tuple(x.with_type(t) for x, t in zip(result, node.type.items, strict=True))
    array = result.with_type(node.type)
    dtype = array.dtype if isinstance(array, Value) else node.type.dtype
    assert dtype == node.type.dtype, (node, dtype)
    return array


def missing(graph: Graph) -> list[Node]:
    """Return the nodes without a lowering, in the graph and its nested graphs."""
    nodes = [
        node
        for node in graph.nodes
        if node not in graph.inputs
        and not isinstance(node.op, Constant | Input | Leaf)
        and onnx.lowering(node.op) is None
    ]
    return nodes + [x for node in graph.nodes for g in node.op.graphs() for x in missing(g)]


def check(graph: Graph) -> None:
    """Check that every operation has a lowering.

    Raises:
        ExportError: If operations have none; the message has all of them, with the user's lines.
    """
    nodes = missing(graph)
    if nodes:
        lines = (f"{x.op.name}: {gap_of(x.op).reason}   {x.where or ''}" for x in nodes)
        remedies = dict.fromkeys(gap_of(x.op).remedy for x in nodes)
        raise ExportError(
            "\n  ".join(["ONNX has nothing for:", *dict.fromkeys(map(str.rstrip, lines))]),
            "\n".join(remedies),
            where="",
        )


def by_graph(build: Callable[..., Any]) -> Lowering:
    """Return a lowering that emits an operation's definition in terms of other operations.

    Args:
        build: Function of the operation and symbolic arrays that returns one array or a tuple.
    """

    @lru_cache(maxsize=256)
    def definition(op: Op, types: tuple[Any, ...]) -> tuple[Graph, bool]:
        inputs = [Node.input(t) for t in types]
        outputs = build(op, *inputs)
        is_tuple = isinstance(outputs, tuple | list)
        graph = Graph(inputs, list(outputs) if is_tuple else [outputs])
        # Optimized, so that a loop's last carry is read rather than the last of all of them.
        graph = inline(optimize(inline(graph, onnx)).graph, onnx)
        check(graph)
        return graph, is_tuple

    @wraps(build)
    def lowering(op: Op, *values: Any) -> Any:
        graph, is_tuple = definition(op, tuple(x.type for x in values))
        results = emit_graph(graph, values)
        return tuple(results) if is_tuple else results[0]

    return lowering


def by_parts(lowering: F) -> F:
    """Return a lowering that applies another one to each part of complex arrays."""

    @wraps(lowering)
    def lowering_of_parts(op: Op, *values: Any) -> Any:
        if not any(isinstance(x, Complex) for x in values):
            return lowering(op, *values)
        re_im = [
            lowering(op, *[getattr(x, part) if isinstance(x, Complex) else x for x in values])
            for part in ("re", "im")
        ]
        if isinstance(re_im[0], tuple):
            return tuple(map(Complex, *re_im))
        return Complex(*re_im)

    return lowering_of_parts  # type: ignore[return-value]
