"""Windows: slices that move but keep their length.

A backend that compiles for known shapes cannot take a slice whose bounds a step computes, as its
length is unknown. Where the bounds differ by a known number, as in ``x[t : t + 3]``, the elements
are ``x[t + arange(3)]``, if all of them exist. Where they are known to exist, ``ReadWindow`` reads
them, which backends do faster.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from graphc.ir import Constant, Graph, Node, Op, TensorType, dependent, precedence
from graphc.loop.loop import Loop
from graphc.site import derived_from
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.index import EVERYTHING, HOLE, Index, IndexUpdate, Range
from graphc.tensor.core.elementwise import Cast, add, multiply, negative, subtract
from graphc.tensor.core.shape import fill_shape, target_shape
from graphc.tensor.core.tensor import Tensor

WINDOW = Range(HOLE, HOLE, None)

SIGNED = frozenset({"int8", "int16", "int32", "int64"})

Polynomial = dict[tuple[Node, ...], int]
"""An integer as a polynomial: coefficients by products of nodes; () is the constant term."""

MAX_TERMS = 16
"""Largest number of terms of a polynomial."""


@dataclass(frozen=True, slots=True)
class ReadWindow(Op):
    """A window of an array along one axis.

    Inputs are the array, the start, int64, and the size unless it is static. The window lies within
    the array, unless a check of lengths fails, whose results are dropped.
    """

    axis: int
    size: int | None = None
    name = "read_window"

    def infer(self, x: TensorType, start: TensorType, *size: TensorType) -> TensorType:
        shape = list(x.shape)
        (shape[self.axis],) = fill_shape((self.size,), size)
        return x.with_shape(tuple(shape))

    def perform(self, x: np.ndarray[Any, Any], start: Any, *size: Any) -> Any:
        (n,) = target_shape((self.size,), size)
        return x[_window(x.ndim, self.axis, int(start), n)]

    def padding_for(self, i: int, axis: int, type: Any) -> str:
        return "any"


@dataclass(frozen=True, slots=True)
class WriteWindow(Op):
    """An array with a window along one axis replaced. Inputs: array, window, start."""

    axis: int
    name = "write_window"

    def infer(self, x: TensorType, window: TensorType, start: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray[Any, Any], window: Any, start: Any) -> Any:
        y = np.array(x)
        y[_window(x.ndim, self.axis, int(start), window.shape[self.axis])] = window
        return y


def _window(ndim: int, axis: int, start: int, size: int) -> tuple[slice, ...]:
    return tuple([slice(start, start + size) if i == axis else slice(None) for i in range(ndim)])


def index_windows(graph: Graph, varying: Collection[Node] = ()) -> Graph:
    """Return an equal graph whose loops read and write slices of known length by indices.

    Args:
        graph: The graph of a program, or a graph nested in an operation.
        varying: The inputs of a nested graph that differ between steps.
    """
    if not varying and not any(node.op.graphs() for node in graph.nodes):
        return graph
    moving = dependent(graph.nodes, varying)
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node not in done:
            with derived_from(node.site):
                done[node] = _rebuild(node, [done[x] for x in node.inputs], moving, done)
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def _rebuild(
    node: Node, inputs: Sequence[Any], moving: Collection[Node], done: Mapping[Node, Node]
) -> Node:
    """Return a node on other inputs, its windows read by indices, also in nested graphs."""
    op = node.op
    if isinstance(op, Index | IndexUpdate):
        windows = [
            Window(at, first, inputs[first], _value(size, done), False)
            for at, first in moving_slices(op)
            if node.inputs[first] in moving
            and (size := _difference(node.inputs[first + 1], node.inputs[first], moving))
            is not None
        ]
        return by_windows(op, inputs, windows) if windows else node.with_inputs(inputs)
    graphs = [*op.graphs()]
    new_graphs = [
        index_windows(inner, _varying(node, inner, passed, moving))
        for inner, passed in zip(graphs, op.passes(), strict=True)
    ]
    if new_graphs == graphs:
        return node.with_inputs(inputs)
    return Node.make(op.with_graphs(new_graphs), *inputs)


def _varying(
    node: Node, inner: Graph, passed: Sequence[int | None], moving: Collection[Node]
) -> list[Node]:
    """Return the inputs of a nested graph that differ between steps of any loop around it."""
    steps = isinstance(node.op, Loop)
    return [
        x
        for x, i in zip(inner.inputs, passed, strict=True)
        if (steps if i is None else node.inputs[i] in moving)
    ]


class Window(NamedTuple):
    """A slice of an index as its first element and its length.

    Attributes:
        at: The position of the slice among the entries of the index.
        bounds: The position of its start among the inputs of the operation; its stop follows.
        start: The index of the first element, from the start of the axis.
        size: The number of elements.
        exists: Whether all elements are known to exist.
    """

    at: int
    bounds: int
    start: Tensor
    size: Any
    exists: bool

    def read(self, x: Tensor, axis: int) -> Tensor:
        """Return the elements of an array."""
        if self.exists:
            return Tensor.make(ReadWindow(axis), x, self.start, self.size)
        return Tensor.make(Index(_along(x, axis)), x, self.indices())

    def write(self, x: Tensor, y: Tensor, axis: int) -> Tensor:
        """Return an array with these elements replaced."""
        if self.exists:
            return Tensor.make(WriteWindow(axis), x, y, self.start)
        return Tensor.make(IndexUpdate(_along(x, axis), False), x, y, self.indices())

    def indices(self) -> Tensor:
        """Return the indices of the elements."""
        return self.start + arange(self.size)


def _along(x: Tensor, axis: int) -> tuple[Any, ...]:
    """Return the entries of an index by an array along one axis."""
    return (*[EVERYTHING] * axis, HOLE, *[EVERYTHING] * (x.ndim - axis - 1))


def moving_slices(op: Index | IndexUpdate) -> Iterator[tuple[int, int]]:
    """Yield the slices with two symbolic bounds and step 1.

    Yields:
        Their position among the entries, and the position of their start among the inputs.
    """
    position = 2 if isinstance(op, IndexUpdate) else 1
    for at, entry in enumerate(op.entries):
        if entry == WINDOW:
            yield at, position
        if isinstance(entry, Range):
            position += entry.parts.count(HOLE)
        elif entry == HOLE:
            position += 1


def by_windows(op: Index | IndexUpdate, inputs: Sequence[Any], windows: Sequence[Window]) -> Node:
    """Return the part that is read, or the array updated; windows first."""
    arrays: list[Tensor] = [inputs[0]]
    entries, bounds = [*op.entries], set[int]()
    for window in windows:
        arrays.append(window.read(arrays[-1], axis_of(op, window.at)))
        entries[window.at] = EVERYTHING
        bounds |= {window.bounds, window.bounds + 1}
    rest = [x for i, x in enumerate(inputs) if i and i not in bounds]
    y = arrays.pop()
    if isinstance(op, IndexUpdate) or any(entry != EVERYTHING for entry in entries):
        y = Tensor.make(replace(op, entries=tuple(entries)), y, *rest)
    if isinstance(op, Index):
        return y
    for x, window in zip(arrays[::-1], windows[::-1], strict=True):
        y = window.write(x, y, axis_of(op, window.at))
    return y


def axis_of(op: Index | IndexUpdate, at: int) -> int:
    """Return the axis of the array that an entry of an index selects from."""
    return sum(entry is not None for entry in op.entries[:at])


def _difference(a: Node, b: Node, moving: Collection[Node]) -> Polynomial | None:
    """Return a - b as a polynomial; None if it moves."""
    terms = _add_multiple(_polynomial(a), _polynomial(b), -1)
    nonzero = {product: k for product, k in terms.items() if k}
    return None if any(x in moving for product in nonzero for x in product) else nonzero


def _polynomial(x: Node) -> Polynomial:
    op = x.op
    result: Polynomial = {}
    if isinstance(op, Constant):
        return {(): int(op.value)}
    if isinstance(op, Cast) and x.inputs[0].type.dtype in SIGNED:
        return _polynomial(x.inputs[0])
    if op is add or op is subtract:
        first, second = map(_polynomial, x.inputs)
        result = _add_multiple(first, second, 1 if op is add else -1)
    elif op is negative:
        result = _add_multiple({}, _polynomial(x.inputs[0]), -1)
    elif op is multiply:
        first, second = map(_polynomial, x.inputs)
        for one, k in first.items():
            product = {tuple(sorted(one + other, key=precedence)): n for other, n in second.items()}
            result = _add_multiple(result, product, k)
    return result if result and len(result) <= MAX_TERMS else {(x,): 1}


def _add_multiple(a: Polynomial, b: Polynomial, k: int) -> Polynomial:
    total = dict(a)
    for product, n in b.items():
        total[product] = total.get(product, 0) + k * n
    return total


def _value(size: Polynomial, done: Mapping[Node, Any]) -> Any:
    """Return a polynomial as a Python integer, or as a node of the replaced nodes."""
    total: Any = size.get((), 0)
    for product, k in size.items():
        if product:
            total = total + math.prod([done[x] for x in product], start=k)
    return total
