"""Graphs as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc import ir
from graphc.compile.function import Function
from graphc.compile.shared import Shared, SharedInput
from graphc.compile.streams import GeneratorStore
from graphc.errors import ExportError
from graphc.export.names import name_of, parameters_of
from graphc.export.values import array_json, type_json, value_json
from graphc.link import as_numpy
from graphc.loop.step import Formal
from graphc.loop.subgraph import Subgraph
from graphc.random.generator import GeneratorInput, GeneratorParameter
from graphc.xtensor.type import NamedInput

VERSION = 1
"""The version of the format; every later release reads earlier versions."""

HEADER = "graphc-graph"

MAIN = "main"
"""The name of the last graph; the graphs nested in it come first."""

INPUTS = {cls.__name__: cls for cls in (ir.Input, ir.Parameter, GeneratorInput, GeneratorParameter)}
STORES = {cls.__name__: cls for cls in (SharedInput, GeneratorStore)}
"""The classes of inputs and of shared variables, by name; the first one is not written."""

Id = int | str
"""The identifier of a node in a text: its name, or a number."""


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
    It has operations by name, with their parameters, and no code. Each line is a JSON object for
    one input, operation or graph, so that two graphs can be compared line by line.

    Args:
        graph: A ``graphc.Graph``; a function, for its requested graph; or symbolic arrays, for the
            graph of these and all inputs they depend on.
        lines: Also write the user's line that made each node, ``"at": "model.py:41"``.

    Returns:
        A pair of the text and a dict of the arrays that the text refers to, by name.

    Raises:
        ExportError: If an operation has a Python function, or its class is the user's.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> text, arrays = graphc.serialize((gt.exp(x) * 2).sum())
        >>> print(text, end="")
        {"graphc-graph": 1}
        {"graph": "main"}
        {"input": "x", "type": "float64[?]"}
        {"node": 0, "op": "exp", "of": ["x"], "type": "float64[?]"}
        {"node": 1, "op": "multiply", "of": [{"float64": 2.0}, 0], "type": "float64[?]"}
        {"node": 2, "op": "Sum", "of": [1], "parameters": {"axes": [0]}, "type": "float64[]"}
        {"return": [2]}
        >>> graphc.deserialize(text, arrays)
        Graph(float64[?]) -> (float64[]), 5 nodes
    """
    return GraphWriter(lines=lines).write(as_graph(graph))


def as_graph(value: Any) -> ir.Graph:
    """Return a graph, the requested graph of a function, or the graph of symbolic arrays."""
    if isinstance(value, ir.Graph):
        return value
    if isinstance(value, Function):
        return value.requested
    outputs = [ir.unwrap(y) for y in ir.flatten(value)]
    if not outputs or not all(isinstance(y, ir.Node) for y in outputs):
        raise ExportError(
            f"serialize: {value!r} is no graph.",
            "Give a graphc.Graph, a compiled function, or symbolic arrays.",
        )
    inputs = [x for x in ir.toposort(outputs) if isinstance(x.op, ir.Input)]
    return ir.Graph(sorted(inputs, key=lambda x: isinstance(x, Shared)), outputs)


class GraphWriter:
    """A writer of a graph and of the graphs nested in it.

    Attributes:
        lines: Whether the user's lines are written.
        arrays: The arrays that the text refers to, by name.
        keys: The name of each node that has an array.
        graphs: The names of nested graphs.
        globals: The identifiers that all graphs share, of shared variables and arrays.
        records: The lines written so far.
    """

    def __init__(self, *, lines: bool) -> None:
        self.lines = lines
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.keys: dict[ir.Node, str] = {}
        self.graphs: dict[ir.Graph, str] = {}
        self.globals = _Ids()
        self.records: list[dict[str, Any]] = [{HEADER: VERSION}]

    def write(self, graph: ir.Graph) -> GraphText:
        """Return the text of a graph and its nested graphs, with their arrays."""
        updates = _default_updates(graph)
        full = ir.Graph(dict.fromkeys([*graph.inputs, *updates]), _ends(graph, updates))
        nested: dict[ir.Graph, ir.Op | None] = {}
        _collect_nested_graphs(full, nested)
        for x in _declarations(full, nested):
            self._declare(x)
        for number, (each, op) in enumerate(nested.items()):
            self.graphs[each] = f"{type(op).__qualname__.lower()}{number}"
            self._graph(self.graphs[each], each, each)
        self._graph(MAIN, full, graph, updates)
        return GraphText("".join(f"{json.dumps(x)}\n" for x in self.records), self.arrays)

    def _declare(self, x: ir.Node) -> None:
        """Write a shared variable or array, and store its value."""
        kind = "shared" if isinstance(x, Shared) else type(x.op).__name__.lower()
        name = str(self.globals.add(x, x.name, kind))
        self.keys[x] = name
        self.arrays[name] = x.get_value() if isinstance(x, Shared) else _array_of(x)
        self._record({kind: name, **self._input(x)}, x)

    def _graph(
        self, name: str, full: ir.Graph, graph: ir.Graph, updates: Iterable[ir.Node] = ()
    ) -> None:
        """Write a graph: its inputs, a line for each operation, its outputs.

        Args:
            name: The graph's name.
            full: The graph, with the default updates of shared variables as further outputs.
            graph: The graph itself.
            updates: The shared variables with default updates.
        """
        ids = _Ids(self.globals)
        self.records.append({"graph": name})
        for x in graph.inputs:
            if x in ids.refs:
                self.records.append({"input": ids.refs[x]})
            else:
                self._record({"input": ids.add(x, x.name), **self._input(x)}, x)
        for node in full.canonical()[len(set(full.inputs)) :]:
            if node not in ids.refs:
                self._node(node, ids)
        ends = [ids.refs[y] for y in full.outputs]
        n = len(graph.outputs)
        record: dict[str, Any] = {"return": ends[:n]}
        if ends[n:]:
            pairs = zip(updates, ends[n:], strict=True)
            record["updates"] = {ids.refs[x]: new for x, new in pairs}
        self.records.append(record)

    def _input(self, x: ir.Node) -> dict[str, Any]:
        """Return an input's class and type; a computed node is written as a plain input."""
        op = x.op
        fields: dict[str, Any] = {"type": type_json(x.type)}
        if not isinstance(op, ir.Input):
            return fields
        if isinstance(op, Formal):
            return {"kind": "Formal", "position": op.position, **fields}
        if isinstance(op, NamedInput):
            fields["axes"] = [*op.axes]
        elif type(op) not in {*INPUTS.values(), *STORES.values()}:
            raise ExportError(f"{x!r} is an input of a kind that has no text.")
        elif type(op) not in {ir.Input, SharedInput}:
            fields = {"kind": type(op).__name__, **fields}
        for name in ("sharding", "buckets", "dims"):
            value = getattr(op, name)
            if value is not None:
                fields[name] = value_json(value, str)
        return fields

    def _node(self, node: ir.Node, ids: _Ids) -> None:
        """Write an operation; a small constant without a name is inlined where it is used."""
        fields: dict[str, Any]
        if isinstance(node.op, ir.Constant):
            array = array_json(node.op.value)
            if node.name is None:
                ids.refs[node] = array
                return
            fields = {"value": array}
        else:
            fields = self._operation(node, [ids.refs[x] for x in node.inputs])
        self._record({"node": ids.add(node, node.name), **fields}, node)

    def _operation(self, node: ir.Node, operands: Sequence[Any]) -> dict[str, Any]:
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
            parameters = {
                field: value_json(value, self.graphs.__getitem__)
                for field, value in parameters_of(op)
            }
        except ExportError as error:
            raise ExportError(
                f"{op.name}: {error.problem}", error.remedy, node.where or ""
            ) from None
        fields: dict[str, Any] = {"op": name, "of": operands}
        if parameters:
            fields["parameters"] = parameters
        return {**fields, "type": type_json(node.type)}

    def _record(self, record: dict[str, Any], node: ir.Node) -> None:
        """Write a node, with its name, if its identifier is another one, and its line."""
        id = next(iter(record.values()))
        name = node.name
        if name != (None if isinstance(id, int) else id):
            record["name"] = name
        if self.lines and node.where is not None:
            record["at"] = node.where
        self.records.append(record)


class _Ids:
    """Unique identifiers of nodes in a text; a graph's differ from the shared ones.

    Attributes:
        refs: The identifier of each node, or the value of an inlined constant.
    """

    def __init__(self, outer: _Ids | None = None) -> None:
        self.refs: dict[ir.Node, Any] = {} if outer is None else {**outer.refs}
        self._used: set[Id] = set() if outer is None else {*outer._used}
        self._counts = Counter[str]()

    def add(self, node: ir.Node, name: str | None, prefix: str = "") -> Id:
        """Return a new identifier: the node's name if it is free, or a number after a prefix."""
        id: Id | None = name
        while id is None or id in self._used:
            n = self._counts[prefix]
            self._counts[prefix] += 1
            id = f"{prefix}{n}" if prefix else n
        self._used.add(id)
        self.refs[node] = id
        return id


def _ends(graph: ir.Graph, updates: Iterable[Any]) -> list[ir.Node]:
    return [*graph.outputs, *[x.default_update for x in updates]]


def _default_updates(graph: ir.Graph) -> list[Any]:
    """Return the shared variables with default updates that a graph or these updates read."""
    variables = ir.reachable_nodes(
        [x for x in graph.inputs if isinstance(x, Shared)],
        lambda x: [] if x.default_update is None else _read_by(x.default_update),
    )
    return [x for x in variables if x.default_update is not None]


def _read_by(y: ir.Node) -> list[Any]:
    return [x for x in ir.toposort([y]) if isinstance(x, Shared)]


def _collect_nested_graphs(graph: ir.Graph, nested: dict[ir.Graph, ir.Op | None]) -> None:
    """Collect all graphs nested in operations, inner ones first."""
    for node in graph.canonical():
        for inner in node.op.graphs():
            if inner not in nested:
                _collect_nested_graphs(inner, nested)
                nested[inner] = node.op


def _declarations(graph: ir.Graph, nested: Iterable[ir.Graph]) -> list[ir.Node]:
    nodes = dict.fromkeys(x for each in [graph, *nested] for x in each.canonical())
    shared = [x for x in nodes if isinstance(x, Shared)]
    leaves = [x for x in nodes if isinstance(x.op, ir.Leaf)]
    large = [x for x in nodes if isinstance(x.op, ir.Constant) and x.op.value.size >= ir.TINY]
    return [*shared, *leaves, *large]


def _array_of(x: ir.Node) -> Any:
    if isinstance(x.op, ir.Slot):
        raise ExportError(
            f"{x!r} is the place of an array in a compiled program.",
            "Serialize the function, or f.requested.",
        )
    return as_numpy(x.op.array) if isinstance(x.op, ir.Leaf) else x.op.value  # type: ignore[attr-defined]
