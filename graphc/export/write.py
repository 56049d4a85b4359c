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
from graphc.export.literals import written
from graphc.export.names import name_of, parameters_of
from graphc.export.values import quoted, type_text, value_text
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
    reached,
    toposort,
    unwrapped,
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
"""How inputs of each class are written before their types."""

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
    """Return a graph as text, from which ``deserialize`` makes it again.

    The text is the same in every process: graphs of equal keys differ in names and arrays alone.
    It holds operations by name, with their parameters, and no code. A person can read it, and a
    line of it is an operation, so that two graphs can be compared line by line.

    Args:
        graph: A ``graphc.Graph``; a function, for the graph that was asked for; or symbolic arrays,
            for the graph of these and all inputs they depend on.
        lines: Also write the user's line that made each node, ``at "model.py:41"``.

    Returns:
        A pair of the text and a dict of the arrays that it refers to by name.

    Raises:
        ExportError: An operation holds a Python function, or is of a class of the user's.

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
    return GraphWriter(lines=lines).written(as_graph(graph))


def as_graph(given: Any) -> Graph:
    """Return a graph, that of a function, or that of symbolic arrays."""
    if isinstance(given, Graph):
        return given
    if isinstance(given, Function):
        return given.requested
    outputs = [unwrapped(y) for y in flatten(given)]
    if not outputs or not all(isinstance(y, Node) for y in outputs):
        raise ExportError(
            f"serialize: {given!r} is no graph.",
            "Give a graphc.Graph, a compiled function, or symbolic arrays.",
        )
    inputs = [x for x in toposort(outputs) if isinstance(x.op, Input)]
    return Graph(sorted(inputs, key=lambda x: isinstance(x, Shared)), outputs)


class GraphWriter:
    """What is written so far.

    Attributes:
        lines: Whether the user's lines are written.
        arrays: What the text refers to by name.
        keys: The name of each node that has an array.
        graphs: The names of held graphs.
        globals: The names of what belongs to no single graph: shared variables and arrays.
        parts: The text.
    """

    def __init__(self, *, lines: bool) -> None:
        self.lines = lines
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.keys: dict[Node, str] = {}
        self.graphs: dict[Graph, str] = {}
        self.globals = _Names()
        self.parts = [f"{HEADER} {VERSION}\n"]

    def written(self, graph: Graph) -> GraphText:
        """Return a graph, the graphs that it holds and what these refer to."""
        updates = _default_updates(graph)
        whole = Graph(dict.fromkeys([*graph.inputs, *updates]), _ends(graph, updates))
        held: dict[Graph, Op | None] = {}
        _find_held(whole, held)
        declared = _declared(whole, held)
        self.parts.append("\n" if declared else "")
        for x in declared:
            self._declare(x)
        for number, (each, op) in enumerate(held.items()):
            self.graphs[each] = f"@{type(op).__qualname__.lower()}{number}"
            self._block(self.graphs[each], each, each)
        self._block("@main", whole, graph, updates)
        return GraphText("".join(self.parts), self.arrays)

    def _declare(self, x: Node) -> None:
        """Write what belongs to no single graph, and keep its array."""
        kind = "shared" if isinstance(x, Shared) else type(x.op).__name__.lower()
        name, ref = self.globals.enter(x, x.name, kind)
        self.keys[x] = name
        if isinstance(x, Shared):
            self.arrays[name] = x.get_value()
        else:
            self.arrays[name] = _array_of(x)
        given = self._input(x, ref) if isinstance(x.op, Input) else f"{ref}: {type_text(x.type)}"
        self.parts.append(f"{kind} {given}{self._beside(x, name)}\n")

    def _block(self, title: str, whole: Graph, graph: Graph, updates: Iterable[Node] = ()) -> None:
        """Write a graph: its inputs, a line for each operation, its outputs.

        Args:
            title: Its name.
            whole: The graph, with what shared variables become by default.
            graph: The graph itself.
            updates: These variables.
        """
        names = _Names(self.globals)
        inputs = [self._parameter(x, names) for x in graph.inputs]
        self.parts.append(f"\ngraph {title}({', '.join(inputs)}) {{\n")
        place = {x: i for i, x in enumerate(whole.canonical())}
        for node in [*place][len(set(whole.inputs)) :]:
            self._node(node, place, names)
        ends = [names.of(y) for y in whole.outputs]
        n = len(graph.outputs)
        self.parts.append(f"  return {', '.join(ends[:n])}".rstrip() + "\n")
        for x, new in zip(updates, ends[n:], strict=True):
            self.parts.append(f"  update {names.of(x)} = {new}\n")
        self.parts.append("}\n")

    def _parameter(self, x: Node, names: _Names) -> str:
        """An input of a graph; a shared variable is declared before, and only named."""
        if x in names:
            return names.of(x)
        if isinstance(x.op, Formal):
            ref = names.known[x] = f"#{x.op.place}"
            return f"{ref}: {type_text(x.type)}"
        name, ref = names.enter(x, x.name)
        return f"{self._input(x, ref)}{self._beside(x, name)}"

    def _input(self, x: Node, ref: str) -> str:
        """An input with its kind and type; a computed node stands for a plain input."""
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
        return f"{ref}: {kind}{sharding}{buckets}"

    def _node(self, node: Node, place: dict[Node, int], names: _Names) -> None:
        """Write an operation; a small constant without a name stands where it is used."""
        if node in names:
            return
        if isinstance(node.op, Constant):
            text = written(node.op.value)
            if node.name is None:
                names.known[node] = text
                return
        else:
            commutes = node.op.is_commutative()
            xs = sorted(node.inputs, key=place.__getitem__) if commutes else node.inputs
            text = self._operation(node, [names.of(x) for x in xs])
        name, ref = names.enter(node, node.name)
        beside = self._beside(node, name)
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

    def _beside(self, node: Node, name: str) -> str:
        """The name, if that is another one in the text, and the line of a node."""
        given = node.name
        own = "" if given in {None, name} else f" {quoted(given)}"
        if given is None and not name.isdecimal():
            own = " unnamed"
        line = node.where if self.lines else None
        return own if line is None else f"{own} at {quoted(line)}"


class _Names:
    """Names of nodes in a text, each once; those of a graph are none that all graphs share.

    Attributes:
        known: What each node is written as.
    """

    def __init__(self, outer: _Names | None = None) -> None:
        self.known: dict[Node, str] = {} if outer is None else {**outer.known}
        self._used: set[str] = set() if outer is None else {*outer._used}
        self._counts = Counter[str]()

    def __contains__(self, node: Node) -> bool:
        return node in self.known

    def of(self, node: Node) -> str:
        """What a node is written as."""
        return self.known[node]

    def enter(self, node: Node, given: str | None, kind: str = "") -> tuple[str, str]:
        """Return a new name and how it is written: the given one if it is free, or a number.

        Args:
            node: What has the name.
            given: Its name in the graph.
            kind: What a number follows, of what has a name in a dict of arrays.
        """
        if given is not None and given not in self._used:
            name, ref = given, plain(given)
        else:
            while (name := f"{kind}{self._counts[kind]}") in self._used:
                self._counts[kind] += 1
            ref = name
        self._used.add(name)
        self.known[node] = f"%{ref}"
        return name, f"%{ref}"


def plain(name: str) -> str:
    """Return a name as it is, or in quotes if it has other characters than letters and digits."""
    return name if PLAIN.fullmatch(name) else quoted(name)


def _ends(graph: Graph, updates: Iterable[Any]) -> list[Node]:
    return [*graph.outputs, *[x.default_update for x in updates]]


def _default_updates(graph: Graph) -> list[Any]:
    """The shared variables with default updates that a graph reads, or such updates read."""
    found = reached(
        [x for x in graph.inputs if isinstance(x, Shared)],
        lambda x: [] if x.default_update is None else _read_by(x.default_update),
    )
    return sorted((x for x in found if x.default_update is not None), key=lambda x: x.serial)


def _read_by(y: Node) -> list[Any]:
    return [x for x in toposort([y]) if isinstance(x, Shared)]


def _find_held(graph: Graph, found: dict[Graph, Op | None]) -> None:
    """Find all graphs that operations hold, each after those that it holds itself."""
    for node in graph.canonical():
        for held in node.op.graphs():
            if held not in found:
                _find_held(held, found)
                found[held] = node.op


def _declared(whole: Graph, held: Iterable[Graph]) -> list[Node]:
    """The shared variables and arrays that graphs refer to; leaves by age, which keys see."""
    nodes = dict.fromkeys(x for each in [whole, *held] for x in each.canonical())
    shared = [x for x in nodes if isinstance(x, Shared)]
    leaves = sorted((x for x in nodes if isinstance(x.op, Leaf)), key=lambda x: x.serial)
    large = [x for x in nodes if isinstance(x.op, Constant) and x.op.value.size >= TINY]
    return [*shared, *leaves, *large]


def _array_of(x: Node) -> Any:
    if isinstance(x.op, Slot):
        raise ExportError(
            f"{x!r} is the place of an array in a compiled program.",
            "Serialize the function, or f.requested.",
        )
    return as_numpy(x.op.array) if isinstance(x.op, Leaf) else x.op.value  # type: ignore[attr-defined]
