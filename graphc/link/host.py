"""The host part of a program: integers that decide shapes, known while a backend compiles.

Lengths are Python integers while a backend traces; so is what is computed from them, from
constants and from integer inputs whose value decides a shape, which are read on the host. How
many steps a loop does until it stops is not known then: what follows from it has a bound in place
of a length.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphc.errors import DynamicShapeError
from graphc.ir import TINY, Constant, Graph, Leaf, Node, Op, Pick, TensorType, is_inexact, reached
from graphc.ir.law import deciding_inputs
from graphc.loop.loop import Loop
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.create import Arange
from graphc.tensor.arrays.index import Index, IndexUpdate, Nonzero
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.arrays.sets import Unique
from graphc.tensor.core.shape import Length, Reshape, Shape
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.signal.pad import Pad

BOUNDED = (Arange, BroadcastTo, Index, IndexUpdate, Pad, Reshape, SpecifyShape)
"""Operations whose results, like those of loops, may have a length that is not known while a
backend compiles, if it has a bound."""


@dataclass(frozen=True, slots=True)
class SliceLength(Op):
    """The length of ``x[start:stop]`` for an axis of n elements, an int64 scalar.

    The host computes it, and a program is compiled for each value of it, whatever the bounds are.

    Attributes:
        number: The position among such lengths of the program.
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
        nodes: Computed there, by the operations' NumPy references.
        inputs: The graph's inputs whose values decide shapes, by position.
        leaves: The graph's leaves whose values decide shapes, by position.
        counts: The inputs, among those, that decide no more than numbers of steps, and lengths
            that follow from these.
        follows: Whether a shape follows from how many steps a loop does.
        sliced: The inputs, among those, that decide nothing but the lengths of slices.
        lengths: These lengths, each a node with a ``SliceLength``, in the order of their numbers.
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
    """Find the part of a graph that is computed on the host.

    Args:
        graph: A whole program, or a graph that an operation holds.
        known: Of the latter, the inputs that are on the host, by position. All inputs of a program
            can be read there.
        varying: The inputs that differ from one step of a loop to the next.

    Raises:
        DynamicShapeError: A shape depends on values that are not there while it compiles.
    """
    inputs = range(len(graph.inputs))
    readable = inputs if known is None else known
    found = _Analysis(
        graph, [i in readable for i in inputs], None if known is None else frozenset(varying)
    )
    lengths = lengths_of_slices(graph)
    sliced = reached(lengths, lambda x: inputs_on_host(x, found.given)).keys()
    read = found.demanded | sliced
    return Host(
        frozenset(computed(graph, read, () if known is None else known)),
        tuple(i for i, x in enumerate(graph.inputs) if x in read),
        tuple(i for i, x in enumerate(graph.leaves) if x in read),
        tuple(
            i
            for i, x in enumerate(graph.inputs)
            if x in found.demanded and x not in found.fixed and not x.type.ndim
        ),
        found.follows,
        tuple(i for i, x in enumerate(graph.inputs) if x in sliced and x not in found.demanded),
        lengths,
    )


def lengths_of_slices(graph: Graph) -> tuple[Node, ...]:
    """Return the nodes with a ``SliceLength``, in the order of their numbers."""
    by_number = {node.op.number: node for node in graph.nodes if isinstance(node.op, SliceLength)}
    return tuple([by_number[number] for number in sorted(by_number)])


def inputs_on_host(x: Node, given: Collection[Node]) -> Sequence[Node]:
    """Return the inputs of a node that the host needs to compute it: of a length, none."""
    return () if x in given or isinstance(x.op, Length | Shape) else x.inputs


def computed(graph: Graph, demanded: Collection[Node], known: Collection[int]) -> set[Node]:
    """The nodes that are computed on the host."""
    given = set(graph.inputs)
    nodes = set(demanded) | {graph.inputs[i] for i in known}
    for node in graph.nodes:
        if node in given or node in nodes or isinstance(node.op, Leaf):
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


Demand = tuple[Node, Node, bool]
"""A node whose value must be known, the operation that needs it, and whether a bound would do."""


@dataclass
class _Analysis:
    """The nodes that decide shapes in a graph, some of whose inputs may be read on the host.

    Attributes:
        readable: Whether each input may be.
        varying: Of a graph that an operation holds, its inputs that differ from step to step.
        demanded: What is needed there.
        fixed: What of that no bound can stand for.
        sources: Numbers of steps that are not known before; what follows from them has a bound.
        outside: Demands on inputs of this graph that are not known in it.
        follows: Whether a shape follows from how many steps a loop does.
    """

    graph: Graph
    readable: Sequence[bool]
    varying: frozenset[int] | None
    demanded: set[Node] = field(default_factory=set)
    fixed: set[Node] = field(default_factory=set)
    sources: set[Node] = field(default_factory=set)
    outside: list[Demand] = field(default_factory=list)
    follows: bool = False

    def __post_init__(self) -> None:
        self.given = {x: i for i, x in enumerate(self.graph.inputs)}
        self.on_host = possible(self.graph, self.readable)
        demands = [
            need for node in self.graph.nodes if node not in self.given for need in self._of(node)
        ]
        self.sources = {x for x, _, bounded in demands if bounded and x not in self.on_host}
        for x, user, bounded in demands:
            self._demand(x, user, bounded or isinstance(user.op, BOUNDED))

    def _of(self, node: Node) -> Iterator[Demand]:
        op = node.op
        inside = {i for passed in op.passes() for i in passed}
        for i in deciding_inputs(node):
            if i not in inside:
                yield node.inputs[i], node, isinstance(op, Loop)
        for graph, passed in zip(op.graphs(), op.passes(), strict=True):
            readable = [i is not None and node.inputs[i] in self.on_host for i in passed]
            varying = frozenset(k for k, i in enumerate(passed) if i is None)
            inner = _Analysis(graph, readable, varying)
            # What is needed of what is passed from outside is needed here.
            outer = {
                x: node.inputs[i]
                for x, i in zip(graph.inputs, passed, strict=True)
                if i is not None
            }
            for x in inner.demanded & outer.keys():
                yield outer[x], node, x not in inner.fixed
            for x, user, bounded in inner.outside:
                yield outer[x], user, bounded

    def _demand(self, node: Node, user: Node, bounded: bool) -> None:
        known = node in self.on_host

        def following(x: Node) -> Iterable[Node]:
            if not known:
                return () if self._is_settled(x, user, bounded) else x.inputs
            return () if isinstance(x.op, SliceLength) else inputs_on_host(x, self.given)

        seen = reached([node], following).keys()
        if known:
            self.demanded |= seen
            self.fixed |= set() if bounded else seen

    def _is_settled(self, x: Node, user: Node, bounded: bool) -> bool:
        """Whether what is behind a node does not matter; raises where it cannot be known."""
        if x in self.on_host:
            return True
        place = self.given.get(x)
        if place is not None and self.varying is not None and place not in self.varying:
            self.outside.append((x, user, bounded))
            return True
        if x in self.sources or is_taken(x):
            self.follows = True
            if not bounded:
                raise _unknown_steps(x, user)
            return True
        if place is not None or isinstance(x.op, Loop):
            raise _unknown_value(x, user) if self.varying is None else _varying(x, user)
        return False


def possible(graph: Graph, readable: Sequence[bool]) -> set[Node]:
    """The nodes that could be computed on the host, given which inputs may be read there."""
    given = set(graph.inputs)
    pairs = zip(graph.inputs, readable, strict=True)
    found = {x for x, can in pairs if can and _can_be_read(x)}
    for node in graph.nodes:
        if node in given:
            continue
        if isinstance(node.op, Length | Shape | Constant | Leaf) or (
            node.inputs and not _has_no_reference(node.op) and all(x in found for x in node.inputs)
        ):
            found.add(node)
    return found


def _has_no_reference(op: Op) -> bool:
    """Whether NumPy cannot compute it: names that a backend has, and loops that stop."""
    return isinstance(op, Composite) or (isinstance(op, Loop) and op.stops)


def _can_be_read(x: Node) -> bool:
    return not (is_inexact(x.type.dtype) or x.type.ndim > 2 or x.type.dtype == "bool")


def is_taken(node: Node) -> bool:
    """Whether it is how many steps a loop did until it stopped."""
    if not isinstance(node.op, Pick):
        return False
    (loop,) = node.inputs
    op = loop.op
    return isinstance(op, Loop) and op.stops and node.op.index == len(loop.type.items) - 1


def _unknown_steps(node: Node, user: Node) -> DynamicShapeError:
    return DynamicShapeError(
        f"The shape of {user!r} depends on how many steps a loop does, which is not known while "
        "the backend compiles.",
        "Use the last step's value alone ([-1]); or a fixed number of steps, n_steps, with "
        "gt.where in place of until; or mode='NUMPY'.",
        user.where or node.where,
    )


def _varying(node: Node, user: Node) -> DynamicShapeError:
    return DynamicShapeError(
        f"In a step of a loop, the shape of {user!r} depends on {node!r}, which is computed while "
        "it runs, and may differ from step to step.",
        "Take the whole and choose by gt.where, as in gt.where(gt.arange(n) < i, x, 0); or use "
        "mode='NUMPY'.",
        user.where,
    )


def _unknown_value(node: Node, user: Node) -> DynamicShapeError:
    if isinstance(user.op, Nonzero):
        return DynamicShapeError(
            f"How many elements a mask made of {node!r} selects is not known while the backend "
            "compiles.",
            "Write gt.where(mask, a, b) in place of x[mask], with an a that adds nothing where "
            "the mask is false; say how many there are, gt.nonzero(mask, size=..., "
            "fill_value=...); or use mode='NUMPY'. A constant mask works, and so does "
            "x[mask].set(scalar).",
            user.where,
        )
    if isinstance(user.op, Unique):
        return DynamicShapeError(
            f"How many distinct elements {node!r} has is not known while the backend compiles.",
            "Say how many to give, gt.unique(x, size=..., fill_value=...), or use "
            "mode='NUMPY'; constants and integer inputs work.",
            user.where,
        )
    return DynamicShapeError(
        f"The shape of {user!r} depends on the values of {node!r}, which are not known while "
        "the backend compiles.",
        "Shapes may depend on constants, on lengths (x.shape) and on integer inputs of up "
        "to two axes; where a function takes the length of its result, as gt.bincount(x, "
        "length=...) does, give that; or use mode='NUMPY'.",
        user.where,
    )
