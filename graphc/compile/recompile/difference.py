"""Differences between a graph and one that was compiled before, of which a summary remains.

A summary refers to no nodes, arrays or variables of the user's, so that it keeps nothing alive.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from graphc.ir import TINY, Constant, Graph, Input, Leaf, Node, Op, encode

MAX_NODES = 20_000
"""Graphs of more nodes have a summary without nodes; one takes some 300 bytes a node."""

NUMBERS = frozenset({"entries", "offset", "shape", "start", "step", "steps", "stop"})
"""Parameters of operations that an input can replace: indices, lengths, counts. With another value
of any other parameter, such as an axis, an operation counts as another one."""

Cause = Literal[
    "captured value",
    "Python scalar",
    "static parameter",
    "dtype",
    "shape",
    "structure",
    "mode",
]


@dataclass(frozen=True)
class SourceName:
    """The name of a value in the user's source code.

    Attributes:
        text: A variable, an attribute, or the expression that reads it; empty if not known.
        scope: The scope of the variable, with the line that reads it.
        is_sure: Whether the name is the value's, not one of a value that it is computed from.
        is_variable: Whether the text is a variable, not an expression.
    """

    text: str
    scope: str
    is_sure: bool = True
    is_variable: bool = True

    def __str__(self) -> str:
        return f"`{self.text}` ({self.scope})" if self.text else f"({self.scope})"


REPLACEABLE = frozenset({"captured value", "Python scalar", "static parameter"})
"""The causes that are removed by making the value an input."""


# Summaries.


class OpSummary(NamedTuple):
    """An operation of a summary, which nodes share.

    Attributes:
        kind: The operation without its parameters; ``"data"`` for constants and leaves.
        parameters: Values of the operation's parameters, by name.
        token: A text that equal operations share.
        commutes: Whether the operation is commutative.
        held: Summaries of the operation's graphs.
    """

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()
    token: str = ""
    commutes: bool = False
    held: tuple[GraphSummary, ...] = ()


class NodeSummary(NamedTuple):
    """A node of a summary.

    Attributes:
        op: The operation's summary.
        operands: Indices of the operands in the summary.
        type: The type of an input or array; other types follow from the operands'.
        value: The value of a small constant.
    """

    op: OpSummary
    operands: tuple[int, ...] = ()
    type: Any = None
    value: Any = None

    @property
    def kind(self) -> str:
        """The operation without its parameters."""
        return self.op.kind


class GraphSummary:
    """The types of a graph's inputs, its nodes (none where there are too many) and its outputs."""

    def __init__(self, graph: Graph) -> None:
        self.inputs = tuple(x.type for x in graph.inputs)
        self.nodes: list[NodeSummary] = []
        self.outputs: tuple[int, ...] = ()
        if len(graph.nodes) <= MAX_NODES:
            indices = {node: i for i, node in enumerate(graph.nodes)}
            inputs = {x: i for i, x in enumerate(graph.inputs)}
            cache: dict[int, OpSummary] = {}
            for node in graph.nodes:
                if node in inputs:
                    summary = _input(inputs[node], node)
                elif (shared := cache.get(id(node.op))) is not None:
                    summary = NodeSummary(shared, tuple([indices[x] for x in node.inputs]))
                else:
                    summary = _summary_of(node, indices, cache)
                self.nodes.append(summary)
            self.outputs = tuple(indices[y] for y in graph.outputs)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The operations without their parameters."""
        return frozenset(_kinds(self))

    @cached_property
    def hashes(self) -> list[int]:
        """For each node a hash that equal nodes share."""
        hashes: list[int] = []
        for node in self.nodes:
            below = [hashes[i] for i in node.operands]
            hashes.append(hash((node.op.token, *(sorted(below) if node.op.commutes else below))))
        return hashes

    @cached_property
    def skeletons(self) -> list[int]:
        """For each node a hash that nodes share which differ in data and parameters only."""
        hashes: list[int] = []
        for node in self.nodes:
            below = [hashes[i] for i in node.operands]
            nested = [summary.skeleton for summary in node.op.held]
            hashes.append(
                hash((node.kind, *(sorted(below) if node.op.commutes else below), *nested))
            )
        return hashes

    @property
    def output_hashes(self) -> list[int]:
        """A hash of each output that equal outputs share."""
        return [self.hashes[i] for i in self.outputs]

    @property
    def skeleton(self) -> int:
        """A hash that graphs share which differ in data and parameters only."""
        return hash(tuple([self.skeletons[i] for i in self.outputs]))


def _input(index: int, node: Node) -> NodeSummary:
    kind = f"input {index}"
    return NodeSummary(OpSummary(kind, token=f"{kind} {node.type!r}"), type=node.type)


def _summary_of(node: Node, indices: dict[Node, int], cache: dict[int, OpSummary]) -> NodeSummary:
    op = node.op
    if isinstance(op, Constant | Leaf):
        return _data(node)
    summary = _op_summary(op)
    if isinstance(op, Input):
        return NodeSummary(summary, (), node.type)
    cache[id(op)] = summary
    return NodeSummary(summary, tuple([indices[x] for x in node.inputs]))


def _op_summary(op: Op) -> OpSummary:
    graphs = tuple(map(GraphSummary, op.graphs()))
    return OpSummary(*_parameters_of(op), op.token(), op.is_commutative(), graphs)


def _data(node: Node) -> NodeSummary:
    """Return the summary of an array or a number: its size makes it a constant or a leaf."""
    value: Any = None
    if isinstance(node.op, Constant) and math.prod(node.op.shape) < TINY:
        value = node.op.value.copy()
    return NodeSummary(OpSummary("data", token=node.op.token()), type=node.type, value=value)


def _parameters_of(op: Op) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """Return an operation's kind and its parameters, or the variables that its function reads."""
    if hasattr(op, "key_and_numbers"):
        kind, read = op.key_and_numbers()
        return kind, tuple(read)
    # If a class overrides token(), its parameters cannot be compared one by one.
    if type(op).token is not Op.token or not dataclasses.is_dataclass(op):
        return op.token(), ()
    named = [(field.name, getattr(op, field.name)) for field in dataclasses.fields(op)]
    plain = tuple((name, value) for name, value in named if not isinstance(value, Graph | Op))
    inner = [value.token() for _, value in named if isinstance(value, Op)]
    return " ".join([type(op).__qualname__, *inner]), plain


# Differences.


@dataclass(frozen=True)
class Change:
    """A difference between two graphs, from an old value to a new one.

    Attributes:
        node: The node of the new graph that is the value, the input or the operation.
        user: The first node that takes it.
        parameter: The name of an operation's parameter.
        position: The position of an input.
    """

    cause: Cause
    old: Any = None
    new: Any = None
    node: Node | None = None
    user: Node | None = None
    parameter: str = ""
    position: int = -1


def changes(old: GraphSummary, graph: Graph, new: GraphSummary) -> list[Change]:
    """Return the differences between an older graph and this one, whose summary is ``new``.

    A change of an input's type explains all other changes, and a change of structure explains
    changes of values. Changes of a number that is used twice are reported once.
    """
    outside = [*_of_inputs(old, graph)]
    if outside:
        return outside
    inside = [*_inside(old, new, graph)]
    structure = [change for change in inside if change.cause == "structure"]
    if structure or not new.nodes or not old.nodes or (not inside and old.outputs != new.outputs):
        return [_structure(old, new, structure)]
    return _distinct(inside)


def _of_inputs(old: GraphSummary, graph: Graph) -> Iterator[Change]:
    if len(old.inputs) != len(graph.inputs):
        count = len(old.inputs)
        before = f"{count} input{'' if count == 1 else 's'}"
        yield Change("structure", before, str(len(graph.inputs)), position=0)
        return
    for i, (before, x) in enumerate(zip(old.inputs, graph.inputs, strict=True)):
        if before == x.type:
            continue
        if before.dtype != x.type.dtype:
            yield Change("dtype", before.dtype, x.type.dtype, x, position=i)
        elif before.ndim != x.type.ndim:
            yield Change("structure", repr(before), repr(x.type), x, position=i)
        else:
            yield Change("shape", before.shape, x.type.shape, x, position=i)


def _structure(old: GraphSummary, new: GraphSummary, inner: Sequence[Change]) -> Change:
    """Return the added and removed operations, and the first node that differs."""
    before, after = (Counter(_kinds(summary)) for summary in (old, new))
    if before == after and inner and inner[0].old is not None:
        return inner[0]
    node = next((change.node for change in inner if change.node is not None), None)
    return Change("structure", _count_kinds(before - after), _count_kinds(after - before), node)


def _kinds(summary: GraphSummary) -> Iterator[str]:
    for node in summary.nodes:
        if node.kind != "data" and not node.kind.startswith("input "):
            yield node.kind.rpartition(".")[2].partition("(")[0]
        for nested in node.op.held:
            yield from _kinds(nested)


def _count_kinds(kinds: Counter[str]) -> str:
    most = sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    texts = [f"{n} {kind}" if n > 1 else kind for kind, n in most]
    return ", ".join(texts) + (", ..." if len(kinds) > 3 else "")


def _inside(old: GraphSummary, new: GraphSummary, graph: Graph) -> Iterator[Change]:
    """Yield the outermost differences, from the outputs on, with the nodes of the new graph."""
    if len(old.outputs) != len(new.outputs):
        yield Change("structure", node=graph.outputs[-1] if graph.outputs else None)
        return
    seen: set[int] = set()
    ends = zip(old.outputs, new.outputs, strict=True)
    stack: list[tuple[int, int, Node | None]] = [(i, j, None) for i, j in ends]
    stack.reverse()
    while stack:
        i, j, user = stack.pop()
        if old.hashes[i] == new.hashes[j] or j in seen:
            continue
        a, b = old.nodes[i], new.nodes[j]
        seen.add(j)
        node = graph.nodes[j]
        yield from _of_node(a, b, node, user)
        if a.kind == b.kind and len(a.operands) == len(b.operands):
            stack += [(k, m, node) for k, m in _pair_operands(a, b, old, new)][::-1]


def _pair_operands(
    a: NodeSummary, b: NodeSummary, old: GraphSummary, new: GraphSummary
) -> Sequence[tuple[int, int]]:
    """Return corresponding operands; of a commutative operation, the most similar ones."""

    def similarity(pairs: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
        return (
            sum(old.skeletons[i] == new.skeletons[j] for i, j in pairs),
            sum(old.hashes[i] == new.hashes[j] for i, j in pairs),
            sum(old.nodes[i].kind == new.nodes[j].kind for i, j in pairs),
        )

    straight = [*zip(a.operands, b.operands, strict=True)]
    crossed = [*zip(a.operands, b.operands[::-1], strict=True)]
    return max(straight, crossed, key=similarity) if a.op.commutes else straight


def _of_node(a: NodeSummary, b: NodeSummary, node: Node, user: Node | None) -> Iterator[Change]:
    """Yield the differences between two nodes, except for their operands."""
    if a.kind != b.kind or len(a.operands) != len(b.operands) or len(a.op.held) != len(b.op.held):
        yield Change("structure", node=node)
    elif a.kind == "data":
        yield _of_data(a, b, node, user)
    else:
        for (name, old), (_, new) in zip(a.op.parameters, b.op.parameters, strict=True):
            if encode(old) != encode(new) and not _holds_graphs(new):
                yield _of_parameter(name, old, new, node)
        for old, new, graph in zip(a.op.held, b.op.held, node.op.graphs(), strict=True):
            if old.output_hashes != new.output_hashes or not new.nodes:
                yield from changes(old, graph, new)


def _of_parameter(name: str, old: Any, new: Any, node: Node) -> Change:
    if hasattr(node.op, "key_and_numbers") and isinstance(new, int | float | complex):
        return Change("Python scalar", old, new, node, parameter=name)
    if name in NUMBERS:
        return Change("static parameter", old, new, node, parameter=name)
    return Change("structure", f"{name}={old!r}", f"{name}={new!r}", node)


def _holds_graphs(value: Any) -> bool:
    return isinstance(value, Graph) or (isinstance(value, tuple) and any(map(_holds_graphs, value)))


def _of_data(a: NodeSummary, b: NodeSummary, node: Node, user: Node | None) -> Change:
    numbers = a.value is not None and b.value is not None and a.type == b.type
    if numbers and not a.type.ndim:
        return Change("Python scalar", a.value[()], b.value[()], node, user)
    old, new = (a.value, b.value) if numbers else (a.type, b.type)
    return Change("captured value", old, new, node, user)


def _distinct(all_changes: Sequence[Change]) -> list[Change]:
    """Return the changes that differ to the user, by the age of their nodes."""

    def age(change: Change) -> int:
        nodes = [node.serial for node in (change.user, change.node) if node is not None]
        return max(nodes, default=0)

    def text(value: Any) -> str:
        return repr(value.tolist()) if isinstance(value, np.ndarray | np.generic) else repr(value)

    once: dict[Any, Change] = {}
    for change in sorted(all_changes, key=age):
        key = change.cause, change.parameter, text(change.old), text(change.new)
        once.setdefault(key, change)
    return [*once.values()]
