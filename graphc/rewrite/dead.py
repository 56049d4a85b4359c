"""Which results of loops anything needs, and which parts of the loops these need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphc.ir import Graph, Node, Pick
from graphc.loop.loop import Loop

__all__ = ["Live", "inputs_of", "is_whole", "live_parts", "liveness"]


@dataclass(frozen=True, slots=True)
class Live:
    """What is needed of a loop: the numbers of results, carries, sequences and constants."""

    results: tuple[int, ...]
    carries: tuple[int, ...]
    xs: tuple[int, ...]
    consts: tuple[int, ...]


def _all_live(op: Loop) -> Live:
    # The number of steps done is the last result, as the condition is the step's.
    counts = (len(op.step.outputs), op.carries, op.sequences)
    consts = len(op.step.inputs) - op.carries - op.sequences
    return Live(*(tuple(range(n)) for n in (*counts, consts)))


def is_whole(op: Loop, live: Live) -> bool:
    """Whether nothing can go: a carry is needed even where its last value is not."""
    every = _all_live(op)
    rows = op.carries + op.stacked
    return (live.carries, live.xs, live.consts) == (every.carries, every.xs, every.consts) and {
        *live.results
    } >= {*range(op.carries, rows)}


def live_parts(op: Loop, results: Iterable[int]) -> Live:
    """What these results need: a carry that is read needs what it becomes, and so on."""
    step = op.step
    wanted = sorted(results)
    place = {x: i for i, x in enumerate(step.inputs)}
    stack = [step.outputs[i] for i in wanted]  # the condition stands where the steps done do
    stack += step.outputs[-1:] if op.stops else ()
    carries = {i for i in wanted if i < op.carries}
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        at = place.get(node)
        if at is None:
            stack += node.inputs
        elif at < op.carries:
            carries.add(at)
            stack.append(step.outputs[at])
    read = [place[x] for x in step.inputs if x in seen]
    first, second = op.carries, op.carries + op.sequences
    return Live(
        tuple(wanted),
        tuple(sorted(carries)),
        tuple(i - first for i in read if first <= i < second),
        tuple(i - second for i in read if second <= i),
    )


def inputs_of(node: Node, live: Live) -> list[Node]:
    """Those of a loop's inputs that its live parts take."""
    op: Loop = node.op  # type: ignore[assignment]
    given = op.parts(node.inputs)
    found = [x for x in (given.steps, given.count) if x is not None]
    found += [given.init[i] for i in live.carries]
    found += [given.xs[i] for i in live.xs]
    return found + [given.consts[i] for i in live.consts]


def liveness(graph: Graph, *, everything: bool = False) -> dict[Node, Live]:
    """For each loop that the outputs need, what they need of it.

    Args:
        graph: Any graph.
        everything: Take all parts of a loop for needed where one is.
    """
    needed = set(graph.outputs)
    wanted: dict[Node, set[int]] = {}
    found: dict[Node, Live] = {}
    for node in reversed(graph.nodes):
        if node not in needed:
            continue
        op = node.op
        if isinstance(op, Loop):
            found[node] = _all_live(op) if everything else live_parts(op, wanted[node])
            needed.update(inputs_of(node, found[node]))
            continue
        if isinstance(op, Pick):
            wanted.setdefault(node.inputs[0], set()).add(op.index)
        needed.update(node.inputs)
    return found
