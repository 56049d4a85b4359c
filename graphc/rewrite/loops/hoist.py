"""Loop-invariant code motion: work on sequences alone is done for all steps before the loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from graphc.ir import Node, Op, TensorType, reached, toposort
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

MUCH = 4
"""How many times larger than what a step reads anyway an array may be that is stored for it."""

FEW = 1024
"""Arrays of no more elements take no longer to compute than an operation takes to be started."""

MOST_BYTES = 2**30
"""Arrays that are known to be larger are not made out of those of single steps."""


def early_rows(loop: Node) -> Results | None:
    """Return the results of a loop without rows that do not depend on carries."""
    body = AnalysedLoop.at(loop)
    if body.op.stops or body.op.recompute:
        return None
    early = {j: y for j, y in enumerate(body.rows) if y not in body.on_carries}
    made = {j: rows for j, y in early.items() if (rows := tried(body, y)) is not None}
    if not made:
        return None
    return body.results({}, {j: body.of_steps_done(rows) for j, rows in made.items()})


def hoisted(loop: Node) -> Results | None:
    """Return the results of a loop with expensive work on sequences done before it."""
    body = AnalysedLoop.at(loop)
    return _without(body, _expensive(body))


def hoisted_if_little(loop: Node) -> Results | None:
    """Return the results of a loop with all work on few elements of sequences done before it.

    All lengths are known to fit: those of no step are not compared, and the loop names sequences.
    """
    body = AnalysedLoop.at(loop)
    xs = [(x, rows) for x, rows in body.known.items() if x.type.is_static]
    known = {x for x, rows in xs if equal_lengths(rows, 0, xs[0][1], 0)}
    varying = body.varying
    for y in body.order:
        has_lengths = isinstance(y.type, TensorType) and y.type.is_static
        is_made = y.inputs and has_lengths and body.is_early(y)
        if is_made and known.issuperset(varying & {*y.inputs}):
            known.add(y)
    few = {y for y in known.difference(body.xs) if (number_of_elements(y) or 0) <= FEW}
    return _without(body, few)


def _without(body: AnalysedLoop, work: set[Node]) -> Results | None:
    """The results of a loop with these nodes of its step computed before it, where they can be."""
    if not body.is_plain or body.op.recompute:
        return None
    made: dict[Node, Tensor] = {}
    read = [x for node in body.order if node in body.on_carries for x in node.inputs]

    def following(y: Node) -> list[Node]:
        rows = tried(body, y) if is_small(body, y) else None
        if rows is None:
            return [x for x in y.inputs if x in work]
        made[y] = rows
        return []

    reached([x for x in (*read, *body.nexts, *body.rows) if x in work], following)
    if not made:
        return None
    swaps = {y: stand_in(y) for y in made}
    return body.results({}, {}, swaps=swaps, known={swaps[y]: made[y] for y in made})


def _expensive(body: AnalysedLoop) -> set[Node]:
    """Return expensive nodes of a step, and those made of them, known before the loop."""
    found: set[Node] = set()
    for node in body.order:
        if body.is_early(node) and (is_expensive(node) or not found.isdisjoint(node.inputs)):
            found.add(node)
    return found


def is_small(body: AnalysedLoop, y: Node) -> bool:
    """Whether an array is not much larger than what a step reads and carries.

    Where lengths are unknown, it has no more axes.
    """
    if not isinstance(y.type, TensorType):
        return False
    below = set(toposort([y]))
    read = [x for x in body.xs if x in below]
    size = number_of_elements(y)
    for group in (read, body.carries):
        sizes = [number_of_elements(x) for x in group]
        known = [n for n in sizes if n is not None]
        if size is not None and len(known) == len(sizes) and size <= MUCH * sum(known):
            return True
        if (size is None or len(known) < len(sizes)) and any(y.type.ndim <= x.ndim for x in group):
            return True
    return False


def tried(body: AnalysedLoop, y: Node, known: dict[Node, Tensor] | None = None) -> Tensor | None:
    """A part of the step for all steps at once, where that is possible and fits into memory."""
    rows = body.known | (known or {})
    order = [node for node in toposort([y], rows) if node in body.varying]
    if any(_is_lazy(node.op) or _is_large(body, node) for node in order):
        return None
    try:
        (made,) = body.at_once([y], rows)
    except NOT_VECTORIZABLE:
        return None
    return made


def _is_lazy(op: Op) -> bool:
    """Whether it leaves out work that it would do for a batch: other branches, further steps."""
    graphs = op.graphs()
    if graphs and (not isinstance(op, Loop) or op.stops or op.counted):
        return True
    return any(_is_lazy(node.op) for graph in graphs for node in graph.nodes)


def _is_large(body: AnalysedLoop, node: Node) -> bool:
    items: Iterable[TensorType] = getattr(node.type, "items", (node.type,))
    return any(n > MOST_BYTES for n in _bytes(body, items))


def _bytes(body: AnalysedLoop, items: Iterable[TensorType]) -> Iterator[int]:
    """How large arrays are for all steps at once, where that is known."""
    for x in items:
        if body.op.steps is not None and isinstance(x, TensorType) and x.is_static:
            yield body.op.steps * prod(x.shape) * x.numpy_dtype.itemsize  # type: ignore[arg-type]
