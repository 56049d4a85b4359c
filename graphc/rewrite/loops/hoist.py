"""Loop-invariant code motion: work on sequences alone is done for all steps before the loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from graphc.ir import Node, Op, TensorType, dependent, is_integer, reachable_nodes, toposort
from graphc.loop.loop import Loop
from graphc.loop.step import stand_in
from graphc.rewrite.facts.lengths import equal_lengths
from graphc.rewrite.loops.dependence import (
    NOT_VECTORIZABLE,
    AnalysedLoop,
    Results,
    is_expensive,
    number_of_elements,
)
from graphc.tensor.core.tensor import Tensor

MAX_SIZE_RATIO = 4
"""How many times larger than the other inputs of a step a stored array may be."""

SMALL_SIZE = 1024
"""Number of elements up to which starting an operation dominates its time."""

MAX_BYTES = 2**30
"""Largest array of all steps together."""


def early_rows(loop: Node) -> Results | None:
    """Return the results of a loop without rows that do not depend on carries."""
    body = AnalysedLoop.at(loop)
    if body.op.stops or body.op.recompute:
        return None
    early = {j: y for j, y in enumerate(body.rows) if y not in body.on_carries}
    rows_of = {j: rows for j, y in early.items() if (rows := as_batch(body, y)) is not None}
    if not rows_of:
        return None
    return body.results({}, {j: body.of_steps_done(rows) for j, rows in rows_of.items()})


def hoist_expensive(loop: Node) -> Results | None:
    """Return the results of a loop with expensive work on sequences done before it."""
    body = AnalysedLoop.at(loop)
    return _hoist(body, _expensive(filter(body.is_early, body.order)))


def hoist_small(loop: Node) -> Results | None:
    """Return the results of a loop with all work on few elements of sequences done before it.

    Only nodes whose lengths provably fit, as errors must still name the loop's sequences.
    """
    body = AnalysedLoop.at(loop)
    xs = [(x, rows) for x, rows in body.sequences.items() if x.type.is_static]
    early = {x for x, rows in xs if equal_lengths(rows, 0, xs[0][1], 0)}
    varying = body.varying
    for y in body.order:
        has_lengths = isinstance(y.type, TensorType) and y.type.is_static
        is_made = y.inputs and has_lengths and body.is_early(y)
        if is_made and early.issuperset(varying & {*y.inputs}):
            early.add(y)
    few = {y for y in early.difference(body.xs) if (number_of_elements(y) or 0) <= SMALL_SIZE}
    return _hoist(body, few)


def hoist_draws(loop: Node) -> Results | None:
    """Return the results of a loop with draws from its keys done before it.

    A loop of the keys alone comes first: integers whose next values depend on no other carry.
    Draws of an unknown number of steps may be few times larger than the sequences and rows, so that
    a loop that returns its last state alone needs no memory that grows with the steps.
    """
    body = AnalysedLoop.at(loop)
    pairs = zip(body.carries, body.nexts, strict=True)
    inputs = {*body.carries, *body.xs}
    chain = {
        i: y
        for i, (carry, y) in enumerate(pairs)
        if is_integer(carry.dtype) and y is not carry and inputs & {*toposort([y])} == {carry}
    }
    others = [x for i, x in enumerate(body.carries) if i not in chain]
    if not chain or not others:
        return None
    keys = [body.carries[i] for i in chain]
    late, drawn = dependent(body.order, others), dependent(body.order, keys)
    early = [x for x in body.order if x in drawn and x not in late]
    finals_and_rows = body.rebuild(chain, keys)
    rows = dict(zip(keys, finals_and_rows[len(chain) :], strict=True))
    arrays = (y for y in _expensive(early) if isinstance(y.type, TensorType))
    size = SMALL_SIZE
    if body.op.steps is None:
        size = MAX_SIZE_RATIO * sum(number_of_elements(x) or 1 for x in (*body.xs, *body.rows))
    few = {y for y in arrays if (number_of_elements(y) or math.inf) <= min(size, SMALL_SIZE)}
    return _hoist(body, few, rows, dict(zip(chain, finals_and_rows, strict=False)))


def _hoist(
    body: AnalysedLoop,
    work: set[Node],
    extra: Mapping[Node, Tensor] = MappingProxyType({}),
    finals: Mapping[int, Node] = MappingProxyType({}),
) -> Results | None:
    """Return the results of a loop with these nodes of its step computed before it, if possible.

    Args:
        body: The loop.
        work: The nodes.
        extra: Rows of carries that are computed before the loop, too.
        finals: The last values of these carries, by index.
    """
    if not body.is_plain or body.op.recompute:
        return None
    rows_of: dict[Node, Tensor] = {}
    late = dependent(body.order, [x for x in body.carries if x not in extra])
    read = [x for node in body.order if node in late for x in node.inputs]
    nexts = [y for i, y in enumerate(body.nexts) if i not in finals]

    def following(y: Node) -> list[Node]:
        rows = as_batch(body, y, extra) if is_small(body, y) else None
        if rows is None:
            return [x for x in y.inputs if x in work]
        rows_of[y] = rows
        return []

    reachable_nodes([x for x in (*read, *nexts, *body.rows) if x in work], following)
    if not rows_of:
        return None
    rows_of |= extra
    swaps = {y: stand_in(y) for y in rows_of}
    return body.results(finals, {}, swaps=swaps, sequences={swaps[y]: rows_of[y] for y in rows_of})


def _expensive(early: Iterable[Node]) -> set[Node]:
    """Return the nodes that are expensive, or are computed from such nodes."""
    result: set[Node] = set()
    for node in early:
        if is_expensive(node) or not result.isdisjoint(node.inputs):
            result.add(node)
    return result


def is_small(body: AnalysedLoop, y: Node) -> bool:
    """Return whether an array is not much larger than the step's sequences or carries.

    If lengths are unknown, whether it has no more axes.
    """
    if not isinstance(y.type, TensorType):
        return False
    below = set(toposort([y]))
    read = [x for x in body.xs if x in below]
    size = number_of_elements(y)
    for group in (read, body.carries):
        sizes = [number_of_elements(x) for x in group]
        static = [n for n in sizes if n is not None]
        if size is not None and len(static) == len(sizes) and size <= MAX_SIZE_RATIO * sum(static):
            return True
        if (size is None or len(static) < len(sizes)) and any(y.type.ndim <= x.ndim for x in group):
            return True
    return False


def as_batch(
    body: AnalysedLoop, y: Node, extra: Mapping[Node, Tensor] = MappingProxyType({})
) -> Tensor | None:
    """Return a node of the step for all steps at once, None if impossible or too large."""
    rows = {**body.sequences, **extra}
    order = [node for node in toposort([y], rows) if node in body.varying]
    if any(_is_lazy(node.op) or _is_large(body, node) for node in order):
        return None
    try:
        return body.at_once([y], rows)[0]
    except NOT_VECTORIZABLE:
        return None


def _is_lazy(op: Op) -> bool:
    """Return whether batching an operation adds work: other branches, or further steps."""
    graphs = op.graphs()
    if graphs and (not isinstance(op, Loop) or op.stops or op.counted):
        return True
    return any(_is_lazy(node.op) for graph in graphs for node in graph.nodes)


def _is_large(body: AnalysedLoop, node: Node) -> bool:
    items: Iterable[TensorType] = getattr(node.type, "items", (node.type,))
    return any(n > MAX_BYTES for n in _bytes(body, items))


def _bytes(body: AnalysedLoop, items: Iterable[TensorType]) -> Iterator[int]:
    """Yield the sizes in bytes of arrays for all steps at once, where known."""
    for x in items:
        if body.op.steps is not None and isinstance(x, TensorType) and x.is_static:
            yield body.op.steps * math.prod(x.shape) * x.numpy_dtype.itemsize  # type: ignore[arg-type]
