"""Liveness: the results of loops that are needed, and the parts of loops that these need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphc.ir import Graph, Node, Pick, reachable_nodes
from graphc.loop.loop import Loop


@dataclass(frozen=True, slots=True)
class Live:
    """The live parts of a loop: indices of results, carries, sequences and constants."""

    results: tuple[int, ...]
    carries: tuple[int, ...]
    xs: tuple[int, ...]
    consts: tuple[int, ...]


def _all_live(op: Loop) -> Live:
    # The number of steps done is the last result, and the condition the last output of the step.
    counts = (len(op.step.outputs), op.carries, op.sequences)
    consts = len(op.step.inputs) - op.carries - op.sequences
    return Live(*(tuple(range(n)) for n in (*counts, consts)))


def is_all_live(op: Loop, live: Live) -> bool:
    """Return whether every part is live; a carry may be without its final value."""
    every = _all_live(op)
    rows = op.carries + op.stacked
    return (live.carries, live.xs, live.consts) == (every.carries, every.xs, every.consts) and {
        *live.results
    } >= {*range(op.carries, rows)}


def live_parts(op: Loop, results: Iterable[int]) -> Live:
    """Return the parts that these results need; a carry that is read needs its next value."""
    step, outputs = op.formal, op.step.outputs
    indices = tuple(sorted(results))
    nexts = dict(zip(step.carries, step.nexts, strict=True))
    ends = [outputs[i] for i in indices]  # the condition's index is that of the steps done
    ends += outputs[-1:] if op.stops else ()
    seen = reachable_nodes(ends, lambda node: (nexts[node],) if node in nexts else node.inputs)
    carries = [i for i, p in enumerate(step.carries) if p in seen or i in indices]
    xs, consts = ([i for i, p in enumerate(part) if p in seen] for part in (step.xs, step.consts))
    return Live(indices, tuple(carries), tuple(xs), tuple(consts))


def inputs_of(node: Node, live: Live) -> list[Node]:
    """Return the inputs of a loop that its live parts read."""
    op: Loop = node.op  # type: ignore[assignment]
    operands = op.parts(node.inputs)
    inputs = [x for x in (operands.steps, operands.count) if x is not None]
    inputs += [operands.init[i] for i in live.carries]
    inputs += [operands.xs[i] for i in live.xs]
    return inputs + [operands.consts[i] for i in live.consts]


def liveness(graph: Graph, *, everything: bool = False) -> dict[Node, Live]:
    """Return the live parts of each loop that the outputs need.

    Args:
        graph: Any graph.
        everything: Count all parts of a loop as live if one is.
    """
    needed = set(graph.outputs)
    results_of: dict[Node, set[int]] = {}
    lives: dict[Node, Live] = {}
    for node in reversed(graph.nodes):
        if node not in needed:
            continue
        op = node.op
        if isinstance(op, Loop):
            lives[node] = _all_live(op) if everything else live_parts(op, results_of[node])
            needed.update(inputs_of(node, lives[node]))
            continue
        if isinstance(op, Pick):
            results_of.setdefault(node.inputs[0], set()).add(op.index)
        needed.update(node.inputs)
    return lives
