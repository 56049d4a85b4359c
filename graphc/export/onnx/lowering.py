"""What each operation is in ONNX: a function of the operation and its operands, as in a backend.

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
    """What ONNX has an operation for, or what it can be made of."""

    def __init__(self) -> None:
        self.lowerings: dict[Any, Lowering] = {Pick: Pick.perform}
        self.conditions: dict[Any, Callable[[Node], bool]] = {}

    def lower(
        self, *ops: type[Op] | Elementwise, when: Callable[[Node], bool] | None = None
    ) -> Callable[[F], F]:
        """Enter the decorated function as the lowering of these operations.

        Args:
            ops: Their classes, or rows.
            when: Of named functions, whether one has it; others are taken apart.
        """

        def enter(f: F) -> F:
            self.lowerings.update(dict.fromkeys(ops, f))
            self.conditions.update(dict.fromkeys(ops, when) if when else {})
            return f

        return enter

    def lowering(self, op: Op) -> Lowering | None:
        """What emits an operation, given it and its operands."""
        if isinstance(op, Elementwise) and op in self.lowerings:
            return self.lowerings[op]
        return next((self.lowerings[c] for c in type(op).__mro__ if c in self.lowerings), None)

    def has(self, node: Node) -> bool:
        """Whether a named function has a lowering; what it is made of is taken otherwise."""
        condition = self.conditions.get(type(node.op))
        return type(node.op) in self.lowerings and (condition is None or condition(node))


onnx = Lowerings()


def load() -> Lowerings:
    """Every lowering."""
    folder = Path(__file__).with_name("lower")
    for found in pkgutil.iter_modules([str(folder)]):
        importlib.import_module(f"{__package__}.lower.{found.name}")
    return onnx


def evaluated(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """What the outputs of a graph are, given its inputs; emitted into the innermost scope."""
    done: dict[Node, Any] = dict(zip(graph.inputs, values, strict=True))
    for node in graph.nodes:
        if node not in done:
            lowering = onnx.lowering(node.op)
            assert lowering is not None, node
            made = lowering(node.op, *[done[x] for x in node.inputs])
            done[node] = _typed(made, node)
    return [done[y] for y in graph.outputs]


def _typed(made: Any, node: Node) -> Any:
    if isinstance(node.type, TupleType):
        return tuple(x.typed(t) for x, t in zip(made, node.type.items, strict=True))
    found = made.typed(node.type)
    dtype = found.dtype if isinstance(found, Value) else node.type.dtype
    assert dtype == node.type.dtype, (node, dtype)
    return found


def missing(graph: Graph) -> list[Node]:
    """The nodes without a lowering, also of graphs that operations hold."""
    found = [
        node
        for node in graph.nodes
        if node not in graph.inputs
        and not isinstance(node.op, Constant | Input | Leaf)
        and onnx.lowering(node.op) is None
    ]
    return found + [x for node in graph.nodes for g in node.op.graphs() for x in missing(g)]


def check(graph: Graph) -> None:
    """Raise where operations have no lowering: all of them, with the user's lines.

    Raises:
        ExportError: Names them.
    """
    found = missing(graph)
    if found:
        lines = (f"{x.op.name}: {gap_of(x.op).reason}   {x.where or ''}" for x in found)
        remedies = dict.fromkeys(gap_of(x.op).remedy for x in found)
        raise ExportError(
            "\n  ".join(["ONNX has nothing for:", *dict.fromkeys(map(str.rstrip, lines))]),
            "\n".join(remedies),
            where="",
        )


def by_graph(build: Callable[..., Any]) -> Lowering:
    """The lowering that emits what an operation is in terms of others.

    Args:
        build: Takes the operation and symbolic arrays; gives one, or a tuple.
    """

    @lru_cache(maxsize=256)
    def definition(op: Op, types: tuple[Any, ...]) -> tuple[Graph, bool]:
        inputs = [Node.input(t) for t in types]
        made = build(op, *inputs)
        is_tuple = isinstance(made, tuple | list)
        graph = Graph(inputs, list(made) if is_tuple else [made])
        # So is a loop's last carry read, and not the last of all of them.
        graph = inline(optimize(inline(graph, onnx)).graph, onnx)
        check(graph)
        return graph, is_tuple

    @wraps(build)
    def lowered(op: Op, *values: Any) -> Any:
        graph, is_tuple = definition(op, tuple(x.type for x in values))
        found = evaluated(graph, values)
        return tuple(found) if is_tuple else found[0]

    return lowered


def by_parts(lowering: F) -> F:
    """A lowering that moves elements, which it does to each part of complex numbers."""

    @wraps(lowering)
    def lowered(op: Op, *values: Any) -> Any:
        if not any(isinstance(x, Complex) for x in values):
            return lowering(op, *values)
        parts = [
            lowering(op, *[getattr(x, part) if isinstance(x, Complex) else x for x in values])
            for part in ("re", "im")
        ]
        if isinstance(parts[0], tuple):
            return tuple(map(Complex, *parts))
        return Complex(*parts)

    return lowered  # type: ignore[return-value]
