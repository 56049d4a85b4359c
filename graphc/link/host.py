"""The host part of a program: integers that decide shapes, known while a backend compiles.

While a backend traces, lengths are Python integers, and so are numbers computed from lengths, from
constants and from integer inputs that decide a shape, which are read on the host. The number of
steps until a loop stops is unknown then: lengths that depend on this number have an upper bound
only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphc.errors import DynamicShapeError
from graphc.ir import (
    TINY,
    Constant,
    Graph,
    Leaf,
    Node,
    Op,
    Pick,
    TensorType,
    is_inexact,
    reachable_nodes,
)
from graphc.ir.law import deciding_inputs
from graphc.loop.loop import Loop
from graphc.tensor.arrays.index import Nonzero
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.arrays.sets import Unique
from graphc.tensor.core.shape import Length, Shape


@dataclass(frozen=True, slots=True)
class SliceLength(Op):
    """The length of ``x[start:stop]`` for an axis of n elements, an int64 scalar.

    The host computes the length, and each length has a program, whatever the bounds are.

    Attributes:
        number: The position among the slice lengths of the program.
    """

    number: int
    name = "slice_length"

    def infer(self, start: TensorType, stop: TensorType, n: TensorType) -> TensorType:
        return TensorType("int64", ())

    def perform(self, start: Any, stop: Any, n: Any) -> np.ndarray[Any, Any]:
        return np.array(len(range(int(n))[int(start) : int(stop)]), np.int64)


@dataclass(frozen=True)
class Host:
    """The part of a program that is computed on the host while a backend traces.

    Attributes:
        nodes: The nodes on the host, which NumPy references compute.
        inputs: The positions of graph inputs whose values decide shapes.
        leaves: The positions of graph leaves whose values decide shapes.
        counts: The positions of integer scalars among these inputs that decide more than lengths of
            slices; an upper bound may suffice.
        follows: Whether a shape depends on the number of steps that a loop does.
        sliced: The positions of inputs that decide only lengths of slices.
        lengths: The nodes with a ``SliceLength``, in the order of their numbers.
    """

    nodes: frozenset[Node]
    inputs: tuple[int, ...]
    leaves: tuple[int, ...]
    counts: tuple[int, ...] = ()
    follows: bool = False
    sliced: tuple[int, ...] = ()
    lengths: tuple[Node, ...] = ()


def analyse(
    graph: Graph, known: Collection[int] | None = None, varying: Collection[int] = ()
) -> Host:
    """Return the part of a graph that is computed on the host.

    Args:
        graph: A program, or the graph of an operation.
        known: For the graph of an operation, the positions of inputs on the host; None for a
            program, whose inputs can all be read.
        varying: The positions of inputs that differ from one step of a loop to the next.

    Raises:
        DynamicShapeError: If a shape depends on values that are unknown while the backend compiles.
    """
    inputs = range(len(graph.inputs))
    readable = inputs if known is None else known
    analysis = _Analysis(
        graph, [i in readable for i in inputs], None if known is None else frozenset(varying)
    )
    demanded = analysis.demanded
    counts = tuple(i for i, x in enumerate(graph.inputs) if x in demanded and not x.type.ndim)
    return replace(host_part(graph, demanded, known), counts=counts, follows=analysis.follows)


def host_part(
    graph: Graph,
    deciding: Collection[Node],
    known: Collection[int] | None,
    others: Collection[Node] = (),
) -> Host:
    """Return the part of a graph that is computed on the host.

    Args:
        graph: The graph.
        deciding: The nodes on the host that decide more than lengths of slices.
        known: The positions of inputs on the host, beside those that are read; None for none.
        others: Further nodes that the host computes.
    """
    by_number = {node.op.number: node for node in graph.nodes if isinstance(node.op, SliceLength)}
    lengths = tuple([by_number[number] for number in sorted(by_number)])
    inputs = set(graph.inputs)
    sliced = reachable_nodes(lengths, lambda x: inputs_on_host(x, inputs)).keys()
    read = {*deciding, *sliced}
    return Host(
        frozenset(_host_nodes(graph, read.union(others), known or ())),
        tuple(i for i, x in enumerate(graph.inputs) if x in read),
        tuple(i for i, x in enumerate(graph.leaves) if x in read),
        sliced=tuple(i for i, x in enumerate(graph.inputs) if x in read and x not in deciding),
        lengths=lengths,
    )


def inputs_on_host(x: Node, arguments: Collection[Node]) -> Sequence[Node]:
    """Return the inputs that the host needs to compute a node: none for a length."""
    return () if x in arguments or isinstance(x.op, Length | Shape) else x.inputs


def _host_nodes(graph: Graph, demanded: Collection[Node], known: Collection[int]) -> set[Node]:
    """Return the nodes that are computed on the host."""
    inputs = set(graph.inputs)
    nodes = set(demanded) | {graph.inputs[i] for i in known}
    for node in graph.nodes:
        if node in inputs or node in nodes or isinstance(node.op, Leaf):
            continue
        if isinstance(node.op, Length | Shape | Constant) or (
            node.inputs
            and (isinstance(node.op, Nonzero | Unique | Pick) or _is_small(node.type))
            and node.op.folds
            and not isinstance(node.op, Composite)
            and all(x in nodes for x in node.inputs)
        ):
            nodes.add(node)
    return nodes


def _is_small(type: Any) -> bool:
    if not isinstance(type, TensorType) or not type.is_static:
        return False
    return math.prod(n or 0 for n in type.shape) < TINY


Demand = tuple[Node, Node]
"""A node whose value must be known, and the node that needs it."""


@dataclass
class _Analysis:
    """The nodes that decide shapes in a graph.

    Attributes:
        graph: The graph.
        readable: For each input whether the host may read it.
        varying: For the graph of an operation, the positions of inputs that differ from step to
            step.
        demanded: The nodes whose values the host needs.
        sources: Unknown numbers of steps; lengths that depend on them have bounds.
        outside: Demands on inputs whose values only the enclosing graph knows.
        follows: Whether a shape depends on the number of steps that a loop does.
    """

    graph: Graph
    readable: Sequence[bool]
    varying: frozenset[int] | None
    demanded: set[Node] = field(default_factory=set)
    sources: set[Node] = field(default_factory=set)
    outside: list[Demand] = field(default_factory=list)
    follows: bool = False

    def __post_init__(self) -> None:
        self.positions = {x: i for i, x in enumerate(self.graph.inputs)}
        self.on_host = computable_on_host(self.graph, self.readable)
        demands = [
            demand
            for node in self.graph.nodes
            if node not in self.positions
            for demand in self._demands(node)
        ]
        self.sources = {
            x for x, user in demands if isinstance(user.op, Loop) and x not in self.on_host
        }
        for x, user in demands:
            self._demand(x, user)

    def _demands(self, node: Node) -> Iterator[Demand]:
        op = node.op
        inside = {i for passed in op.passes() for i in passed}
        for i in deciding_inputs(node):
            if i not in inside:
                yield node.inputs[i], node
        for graph, passed in zip(op.graphs(), op.passes(), strict=True):
            readable = [i is not None and node.inputs[i] in self.on_host for i in passed]
            varying = frozenset(k for k, i in enumerate(passed) if i is None)
            inner = _Analysis(graph, readable, varying)
            self.follows |= inner.follows
            # Demands on inputs that the node passes on are demands on the node's own inputs.
            outer = {
                x: node.inputs[i]
                for x, i in zip(graph.inputs, passed, strict=True)
                if i is not None
            }
            for x in inner.demanded & outer.keys():
                yield outer[x], node
            for x, user in inner.outside:
                yield outer[x], user

    def _demand(self, node: Node, user: Node) -> None:
        is_on_host = node in self.on_host

        def following(x: Node) -> Iterable[Node]:
            if not is_on_host:
                return () if self._ends_search(x, user) else x.inputs
            return () if isinstance(x.op, SliceLength) else inputs_on_host(x, self.positions)

        seen = reachable_nodes([node], following).keys()
        if is_on_host:
            self.demanded |= seen

    def _ends_search(self, x: Node, user: Node) -> bool:
        """Return whether the node's inputs do not matter; raise if its value cannot be known."""
        if x in self.on_host:
            return True
        position = self.positions.get(x)
        if position is not None and self.varying is not None and position not in self.varying:
            self.outside.append((x, user))
            return True
        if x in self.sources or is_step_count(x):
            self.follows = True
            return True
        if position is not None or isinstance(x.op, Loop):
            raise _unknown_value(x, user) if self.varying is None else _varying(x, user)
        return False


def computable_on_host(graph: Graph, readable: Sequence[bool]) -> set[Node]:
    """Return the nodes that the host can compute, given which inputs it may read."""
    inputs = set(graph.inputs)
    pairs = zip(graph.inputs, readable, strict=True)
    nodes = {x for x, is_readable in pairs if is_readable and _can_be_read(x)}
    for node in graph.nodes:
        if node in inputs:
            continue
        if isinstance(node.op, Length | Shape | Constant | Leaf) or (
            not _has_no_reference(node.op) and all(x in nodes for x in node.inputs)
        ):
            nodes.add(node)
    return nodes


def _has_no_reference(op: Op) -> bool:
    """Return whether NumPy cannot compute an operation."""
    return isinstance(op, Composite) or (isinstance(op, Loop) and op.stops)


def _can_be_read(x: Node) -> bool:
    return not (is_inexact(x.type.dtype) or x.type.ndim > 2 or x.type.dtype == "bool")


def is_step_count(node: Node) -> bool:
    """Return whether a node is the number of steps that a loop did until it stopped."""
    if not isinstance(node.op, Pick):
        return False
    (loop,) = node.inputs
    op = loop.op
    return isinstance(op, Loop) and op.stops and node.op.index == len(loop.type.items) - 1


KNOWN_STEPS = (
    "Use the last step's value alone ([-1]); or a fixed number of steps, n_steps, with gt.where in "
    "place of until; or mode='NUMPY'."
)
"""What to do where a length depends on the number of steps of a loop."""


def _varying(node: Node, user: Node) -> DynamicShapeError:
    return DynamicShapeError(
        f"In a step of a loop, the shape of {user!r} depends on {node!r}, which is computed while "
        "it runs, and may differ from step to step.",
        "Use the full array with gt.where, as in gt.where(gt.arange(n) < i, x, 0); or use "
        "mode='NUMPY'.",
        user.where,
    )


def _unknown_value(node: Node, user: Node) -> DynamicShapeError:
    if isinstance(user.op, Nonzero):
        return DynamicShapeError(
            f"How many elements a mask made of {node!r} selects is not known while the backend "
            "compiles.",
            "Write gt.where(mask, a, b) in place of x[mask], with an a that adds nothing where "
            "the mask is false; give the number of elements, gt.nonzero(mask, size=..., "
            "fill_value=...); or use mode='NUMPY'. A constant mask works, and so does "
            "x[mask].set(scalar).",
            user.where,
        )
    if isinstance(user.op, Unique):
        return DynamicShapeError(
            f"How many distinct elements {node!r} has is not known while the backend compiles.",
            "Give the number of elements, gt.unique(x, size=..., fill_value=...), or use "
            "mode='NUMPY'; constants and integer inputs work.",
            user.where,
        )
    return DynamicShapeError(
        f"The shape of {user!r} depends on the values of {node!r}, which are not known while "
        "the backend compiles.",
        "Shapes may depend on constants, on lengths (x.shape) and on integer inputs of up "
        "to two axes; give the length of the result to functions that take it, such as "
        "gt.bincount(x, length=...); or use mode='NUMPY'.",
        user.where,
    )
