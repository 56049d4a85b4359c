"""Graphs as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.compile.function import Function
from graphc.compile.shared import Shared, SharedInput
from graphc.compile.streams import GeneratorStore
from graphc.errors import ExportError
from graphc.export.literals import array_text
from graphc.export.names import name_of, parameters_of
from graphc.export.values import quote, type_text, value_text
from graphc.ir import (
    TINY,
    Constant,
    Graph,
    Input,
    Leaf,
    Node,
    Op,
    Parameter,
    Slot,
    flatten,
    reachable_nodes,
    toposort,
    unwrap,
)
from graphc.link import as_numpy
from graphc.loop.step import Formal
from graphc.loop.subgraph import Subgraph
from graphc.random.generator import GeneratorInput, GeneratorParameter
from graphc.xtensor.type import NamedInput

VERSION = 1
"""The version of the format; every later release reads earlier versions."""

HEADER = "graphc-graph"

KINDS: dict[type[Input], str] = {
    GeneratorInput: "generator ",
    GeneratorParameter: "generator parameter ",
    GeneratorStore: "generator ",
    Input: "",
    Parameter: "parameter ",
    SharedInput: "",
}
"""The words before the types of inputs, by class."""

PLAIN = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
"""Names that are written without quotes."""


class GraphText(NamedTuple):
    """A graph as text, and the arrays that the text refers to.

    Attributes:
        text: The text.
        arrays: The values of shared variables, and the captured arrays and constants of ten or
            more elements, by their names in the text.
    """

    text: str
    arrays: dict[str, np.ndarray[Any, Any]]


def serialize(graph: Any, *, lines: bool = False) -> GraphText:
    """Return a graph as text, from which ``deserialize`` restores it.

    The text is the same in every process: graphs of equal keys differ in names and arrays only.
    It has operations by name, with their parameters, and no code. It is readable, with a line for
    each operation, so that two graphs can be compared line by line.

    Args:
        graph: A ``graphc.Graph``; a function, for its requested graph; or symbolic arrays, for the
            graph of these and all inputs they depend on.
        lines: Also write the user's line that made each node, ``at "model.py:41"``.

    Returns:
        A pair of the text and a dict of the arrays that the text refers to, by name.

    Raises:
        ExportError: If an operation has a Python function, or its class is the user's.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> text, arrays = graphc.serialize((gt.exp(x) * 2).sum())
        >>> print(text, end="")
        graphc-graph 1
        <BLANKLINE>
        graph @main(%x: float64[?]) {
          %0 = exp(%x) : float64[?]
          %1 = multiply(float64(2.0), %0) : float64[?]
          %2 = Sum(%1, axes=(0,)) : float64[]
          return %2
        }
        >>> graphc.deserialize(text, arrays)
        Graph(float64[?]) -> (float64[]), 5 nodes
    """
    return GraphWriter(lines=lines).write(as_graph(graph))


def as_graph(value: Any) -> Graph:
    """Return a graph, the requested graph of a function, or the graph of symbolic arrays."""
    if isinstance(value, Graph):
        return value
    if isinstance(value, Function):
        return value.requested
    outputs = [unwrap(y) for y in flatten(value)]
    if not outputs or not all(isinstance(y, Node) for y in outputs):
        raise ExportError(
            f"serialize: {value!r} is no graph.",
            "Give a graphc.Graph, a compiled function, or symbolic arrays.",
        )
    inputs = [x for x in toposort(outputs) if isinstance(x.op, Input)]
    return Graph(sorted(inputs, key=lambda x: isinstance(x, Shared)), outputs)


class GraphWriter:
    """A writer of a graph and of the graphs nested in it.

    Attributes:
        lines: Whether the user's lines are written.
        arrays: The arrays that the text refers to, by name.
        keys: The name of each node that has an array.
        graphs: The names of nested graphs.
        globals: The names that all graphs share, of shared variables and arrays.
        parts: The pieces of text written so far.
    """

    def __init__(self, *, lines: bool) -> None:
        self.lines = lines
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.keys: dict[Node, str] = {}
        self.graphs: dict[Graph, str] = {}
        self.globals = _Names()
        self.parts = [f"{HEADER} {VERSION}\n"]

    def write(self, graph: Graph) -> GraphText:
        """Return the text of a graph and its nested graphs, with their arrays."""
        updates = _default_updates(graph)
        full = Graph(dict.fromkeys([*graph.inputs, *updates]), _ends(graph, updates))
        nested: dict[Graph, Op | None] = {}
        _collect_nested_graphs(full, nested)
        declarations = _declarations(full, nested)
        self.parts.append("\n" if declarations else "")
        for x in declarations:
            self._declare(x)
        for number, (each, op) in enumerate(nested.items()):
            self.graphs[each] = f"@{type(op).__qualname__.lower()}{number}"
            self._block(self.graphs[each], each, each)
        self._block("@main", full, graph, updates)
        return GraphText("".join(self.parts), self.arrays)

    def _declare(self, x: Node) -> None:
        """Write a shared variable or array, and store its value."""
        kind = "shared" if isinstance(x, Shared) else type(x.op).__name__.lower()
        name, ref = self.globals.enter(x, x.name, kind)
        self.keys[x] = name
        if isinstance(x, Shared):
            self.arrays[name] = x.get_value()
        else:
            self.arrays[name] = _array_of(x)
        text = self._input(x, ref) if isinstance(x.op, Input) else f"{ref}: {type_text(x.type)}"
        self.parts.append(f"{kind} {text}{self._name_and_line(x, name)}\n")

    def _block(self, title: str, full: Graph, graph: Graph, updates: Iterable[Node] = ()) -> None:
        """Write a graph: its inputs, a line for each operation, its outputs.

        Args:
            title: The graph's name.
            full: The graph, with the default updates of shared variables as further outputs.
            graph: The graph itself.
            updates: The shared variables with default updates.
        """
        names = _Names(self.globals)
        inputs = [self._parameter(x, names) for x in graph.inputs]
        self.parts.append(f"\ngraph {title}({', '.join(inputs)}) {{\n")
        numbers = {x: i for i, x in enumerate(full.canonical())}
        for node in [*numbers][len(set(full.inputs)) :]:
            self._node(node, numbers, names)
        ends = [names.of(y) for y in full.outputs]
        n = len(graph.outputs)
        self.parts.append(f"  return {', '.join(ends[:n])}".rstrip() + "\n")
        for x, new in zip(updates, ends[n:], strict=True):
            self.parts.append(f"  update {names.of(x)} = {new}\n")
        self.parts.append("}\n")

    def _parameter(self, x: Node, names: _Names) -> str:
        """Return the text of a graph's input; a shared variable is declared, and only named."""
        if x in names:
            return names.of(x)
        if isinstance(x.op, Formal):
            ref = names.refs[x] = f"#{x.op.position}"
            return f"{ref}: {type_text(x.type)}"
        name, ref = names.enter(x, x.name)
        return f"{self._input(x, ref)}{self._name_and_line(x, name)}"

    def _input(self, x: Node, ref: str) -> str:
        """Return an input with its kind and type; a computed node is written as a plain input."""
        op = x.op
        if not isinstance(op, Input):
            return f"{ref}: {type_text(x.type)}"
        if isinstance(op, NamedInput):
            pairs = zip(op.axes, op.named_type.shape, strict=True)
            named = ", ".join(f"{plain(dim)}={'?' if n is None else n}" for dim, n in pairs)
            kind = f"{op.named_type.dtype}[{named}]"
        elif type(op) in KINDS:
            kind = f"{KINDS[type(op)]}{type_text(x.type)}"
        else:
            raise ExportError(f"{x!r} is an input of a kind that has no text.")
        sharding = "" if op.sharding is None else f" sharding={value_text(op.sharding, str)}"
        buckets = "" if op.buckets is None else f" bucket={value_text(op.buckets, str)}"
        dims = "" if op.dims is None else f" dims={value_text(op.dims, str)}"
        return f"{ref}: {kind}{sharding}{buckets}{dims}"

    def _node(self, node: Node, numbers: dict[Node, int], names: _Names) -> None:
        """Write an operation; a small constant without a name is inlined where it is used."""
        if node in names:
            return
        if isinstance(node.op, Constant):
            text = array_text(node.op.value)
            if node.name is None:
                names.refs[node] = text
                return
        else:
            commutes = node.op.is_commutative()
            xs = sorted(node.inputs, key=numbers.__getitem__) if commutes else node.inputs
            text = self._operation(node, [names.of(x) for x in xs])
        name, ref = names.enter(node, node.name)
        beside = self._name_and_line(node, name)
        self.parts.append(f"  {ref} = {text} : {type_text(node.type)}{beside}\n")

    def _operation(self, node: Node, operands: Sequence[str]) -> str:
        op = node.op
        name = name_of(op)
        if name is None:
            raise ExportError(
                f"{op.name} is an operation of a Python function or class of yours, whose code is "
                "in no text.",
                "Write it with functions of graphc.tensor, or cut the graph there: make its result "
                "an input.",
                node.where or "",
            )
        if isinstance(op, Subgraph) and op.own is not None:
            raise ExportError(
                f"{op.name} has derivatives of its own, which are Python functions and in no text.",
                "Differentiate first, and serialize the compiled function: its graph has none.",
                node.where or "",
            )
        try:
            parameters = [
                f"{field}={value_text(value, self.graphs.__getitem__)}"
                for field, value in parameters_of(op)
            ]
        except ExportError as error:
            raise ExportError(
                f"{op.name}: {error.problem}", error.remedy, node.where or ""
            ) from None
        return f"{name}({', '.join([*operands, *parameters])})"

    def _name_and_line(self, node: Node, name: str) -> str:
        """Return a node's name, if it differs in the text, and its line."""
        node_name = node.name
        text = "" if node_name in {None, name} else f" {quote(node_name)}"
        if node_name is None and not name.isdecimal():
            text = " unnamed"
        line = node.where if self.lines else None
        return text if line is None else f"{text} at {quote(line)}"


class _Names:
    """Unique names of nodes in a text; a graph's names differ from the shared ones.

    Attributes:
        refs: The reference to each node in the text.
    """

    def __init__(self, outer: _Names | None = None) -> None:
        self.refs: dict[Node, str] = {} if outer is None else {**outer.refs}
        self._used: set[str] = set() if outer is None else {*outer._used}
        self._counts = Counter[str]()

    def __contains__(self, node: Node) -> bool:
        return node in self.refs

    def of(self, node: Node) -> str:
        return self.refs[node]

    def enter(self, node: Node, wanted: str | None, kind: str = "") -> tuple[str, str]:
        """Return a new name and its reference: the node's name if it is free, or a number.

        Args:
            node: The node to name.
            wanted: The node's name in the graph.
            kind: A prefix of numbers, for nodes in a dict of arrays.
        """
        if wanted is not None and wanted not in self._used:
            name, ref = wanted, plain(wanted)
        else:
            while (name := f"{kind}{self._counts[kind]}") in self._used:
                self._counts[kind] += 1
            ref = name
        self._used.add(name)
        self.refs[node] = f"%{ref}"
        return name, f"%{ref}"


def plain(name: str) -> str:
    """Return a name, in quotes if it has other characters than letters and digits."""
    return name if PLAIN.fullmatch(name) else quote(name)


def _ends(graph: Graph, updates: Iterable[Any]) -> list[Node]:
    return [*graph.outputs, *[x.default_update for x in updates]]


def _default_updates(graph: Graph) -> list[Any]:
    """Return the shared variables with default updates that a graph or these updates read."""
    variables = reachable_nodes(
        [x for x in graph.inputs if isinstance(x, Shared)],
        lambda x: [] if x.default_update is None else _read_by(x.default_update),
    )
    return [x for x in variables if x.default_update is not None]


def _read_by(y: Node) -> list[Any]:
    return [x for x in toposort([y]) if isinstance(x, Shared)]


def _collect_nested_graphs(graph: Graph, nested: dict[Graph, Op | None]) -> None:
    """Collect all graphs nested in operations, inner ones first."""
    for node in graph.canonical():
        for inner in node.op.graphs():
            if inner not in nested:
                _collect_nested_graphs(inner, nested)
                nested[inner] = node.op


def _declarations(graph: Graph, nested: Iterable[Graph]) -> list[Node]:
    nodes = dict.fromkeys(x for each in [graph, *nested] for x in each.canonical())
    shared = [x for x in nodes if isinstance(x, Shared)]
    leaves = [x for x in nodes if isinstance(x.op, Leaf)]
    large = [x for x in nodes if isinstance(x.op, Constant) and x.op.value.size >= TINY]
    return [*shared, *leaves, *large]


def _array_of(x: Node) -> Any:
    if isinstance(x.op, Slot):
        raise ExportError(
            f"{x!r} is the place of an array in a compiled program.",
            "Serialize the function, or f.requested.",
        )
    return as_numpy(x.op.array) if isinstance(x.op, Leaf) else x.op.value  # type: ignore[attr-defined]
