"""Slices whose place differs from step to step and whose length does not, read by indices instead.

A backend that compiles for known shapes takes no slice whose bounds a step computes, as it could
have any length. Where the bounds differ by a known number, as in ``x[t : t + 3]``, the elements
``t + arange(3)`` are the same, as long as they are all there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from graphc.ir import Constant, Graph, Node, dependent
from graphc.loop.loop import Loop
from graphc.site import derived_from
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.index import EVERYTHING, HOLE, Index, IndexUpdate, Range
from graphc.tensor.core.elementwise import Cast, add, multiply, negative, subtract
from graphc.tensor.core.tensor import Tensor

WINDOW = Range(HOLE, HOLE, None)

SIGNED = frozenset({"int8", "int16", "int32", "int64"})

Polynomial = dict[tuple[Node, ...], int]
"""An integer as a sum of products of others: how often each product is in it; () is a number."""

MOST_TERMS = 16
"""An integer that is a longer sum is taken as it is."""


def windowed(graph: Graph, varying: Collection[Node] = ()) -> Graph:
    """Return an equal graph whose loops read and write slices of known length by indices.

    Args:
        graph: A whole program, or a graph that an operation holds.
        varying: Of the latter, the inputs that differ from step to step.
    """
    if not varying and not any(node.op.graphs() for node in graph.nodes):
        return graph
    moving = dependent(graph.nodes, varying)
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node not in done:
            with derived_from(node.site):
                done[node] = _again(node, [done[x] for x in node.inputs], moving, done)
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def _again(
    node: Node, inputs: Sequence[Any], moving: Collection[Node], done: Mapping[Node, Node]
) -> Node:
    """A node on other inputs, its windows read by indices, and so in graphs that it holds."""
    op = node.op
    if isinstance(op, Index | IndexUpdate):
        windows = [*_windows(node, op, moving)]
        return _by_indices(op, inputs, windows, done) if windows else node.with_inputs(inputs)
    graphs = [*op.graphs()]
    found = [
        windowed(held, _varying(node, held, passed, moving))
        for held, passed in zip(graphs, op.passes(), strict=True)
    ]
    if found == graphs:
        return node.with_inputs(inputs)
    return Node.make(op.with_graphs(found), *inputs)


def _varying(
    node: Node, held: Graph, passed: Sequence[int | None], moving: Collection[Node]
) -> list[Node]:
    """The inputs of a held graph that differ from step to step, of its loop or one around it."""
    steps = isinstance(node.op, Loop)
    return [
        x
        for x, i in zip(held.inputs, passed, strict=True)
        if (steps if i is None else node.inputs[i] in moving)
    ]


class _Window(NamedTuple):
    """A slice of known length in an index.

    Attributes:
        at: Where among the index's entries the slice stands.
        place: Where among the inputs its start does.
        size: Its length, a sum of what does not move.
    """

    at: int
    place: int
    size: Polynomial


def _windows(node: Node, op: Index | IndexUpdate, moving: Collection[Node]) -> Iterator[_Window]:
    """The slices of an index that move and are known to have one length."""
    place = 2 if isinstance(op, IndexUpdate) else 1
    for at, entry in enumerate(op.entries):
        if entry == WINDOW and node.inputs[place] in moving:
            size = _difference(node.inputs[place + 1], node.inputs[place], moving)
            if size is not None:
                yield _Window(at, place, size)
        if isinstance(entry, Range):
            place += entry.parts.count(HOLE)
        elif entry == HOLE:
            place += 1


def _by_indices(
    op: Index | IndexUpdate,
    inputs: Sequence[Any],
    windows: Sequence[_Window],
    done: Mapping[Node, Node],
) -> Node:
    """The part that is read, or the array updated: along each window first, then the rest."""
    parts: list[Tensor] = [inputs[0]]
    along: list[tuple[Index, Tensor]] = []
    entries, bounds = [*op.entries], set[int]()
    for window in windows:
        x, axis = parts[-1], sum(entry is not None for entry in op.entries[: window.at])
        places = inputs[window.place] + arange(_value(window.size, done))
        index = Index((*[EVERYTHING] * axis, HOLE, *[EVERYTHING] * (x.ndim - axis - 1)))
        parts.append(Tensor.make(index, x, places))
        along.append((index, places))
        entries[window.at] = EVERYTHING
        bounds |= {window.place, window.place + 1}
    rest = [x for i, x in enumerate(inputs) if i and i not in bounds]
    made = parts.pop()
    if isinstance(op, IndexUpdate) or any(entry != EVERYTHING for entry in entries):
        made = Tensor.make(replace(op, entries=tuple(entries)), made, *rest)
    if isinstance(op, Index):
        return made
    for x, (index, places) in zip(parts[::-1], along[::-1], strict=True):
        made = Tensor.make(IndexUpdate(index.entries, False), x, made, places)
    return made


def _difference(a: Node, b: Node, moving: Collection[Node]) -> Polynomial | None:
    """How much more one integer is than another, if that does not move; else None."""
    terms = _added(_polynomial(a), _polynomial(b), -1)
    left = {product: k for product, k in terms.items() if k}
    return None if any(x in moving for product in left for x in product) else left


def _polynomial(x: Node) -> Polynomial:
    """An integer scalar as a sum of products of others."""
    op = x.op
    made: Polynomial = {}
    if isinstance(op, Constant):
        return {(): int(op.value)}
    if isinstance(op, Cast) and x.inputs[0].type.dtype in SIGNED:
        return _polynomial(x.inputs[0])
    if op is add or op is subtract:
        first, second = map(_polynomial, x.inputs)
        made = _added(first, second, 1 if op is add else -1)
    elif op is negative:
        made = _added({}, _polynomial(x.inputs[0]), -1)
    elif op is multiply:
        first, second = map(_polynomial, x.inputs)
        for one, k in first.items():
            product = {tuple(sorted(one + other, key=id)): n for other, n in second.items()}
            made = _added(made, product, k)
    return made if made and len(made) <= MOST_TERMS else {(x,): 1}


def _added(a: Polynomial, b: Polynomial, k: int) -> Polynomial:
    """One sum and a multiple of another."""
    total = dict(a)
    for product, n in b.items():
        total[product] = total.get(product, 0) + k * n
    return total


def _value(size: Polynomial, done: Mapping[Node, Any]) -> Any:
    """A sum as a Python integer, or as a node of what stands for the nodes in it."""
    total: Any = size.get((), 0)
    for product, k in size.items():
        if product:
            total = total + math.prod([done[x] for x in product], start=k)
    return total
