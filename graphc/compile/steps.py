"""The steps of graphs as text, and of loops in them what they carry, store and do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from graphc.ir import Constant, Graph, Node, Pick
from graphc.ir.print import label
from graphc.loop import ENDLESS, Loop

__all__ = ["called", "steps_of"]

Names = Callable[[Node], str]


def called(node: Node, name: str) -> str:
    """A constant's value, or the name of what is computed."""
    return label(node) if isinstance(node.op, Constant) else name


def steps_of(
    graph: Graph, name: Names, note: Callable[[Node], str], indent: str = "  "
) -> Iterator[str]:
    """A line for each operation of a graph, and below it what it holds."""
    passed = {*graph.inputs, *graph.leaves}
    users = graph.users() if any(node.op.graphs() for node in graph.nodes) else {}
    for node in graph.nodes:
        if node in passed or isinstance(node.op, Constant):
            continue
        operands = ", ".join(name(x) for x in node.inputs)
        line = f"   {node.where}" if node.where else ""
        made = f"{name(node)} = {node.op.name}({operands}): {node.type!r}"
        yield f"{indent}{made}{note(node)}{line}"
        if isinstance(node.op, Loop):
            yield from (f"{indent}  {text}" for text in _about_loop(node, node.op, name, users))
        for held in node.op.graphs():
            yield from _held(held, f"{indent}  ")


def _held(graph: Graph, indent: str) -> Iterator[str]:
    """What a graph inside an operation does, by names of its own."""
    places = {node: i for i, node in enumerate(graph.nodes)}
    given = set(graph.inputs)

    def name(node: Node) -> str:
        return called(node, f"{'#' if node in given else 's'}{places[node]}")

    takes = ", ".join(f"{name(x)}: {x.type!r}" for x in graph.inputs)
    yield f"{indent}each takes {takes or 'nothing'}"
    yield from steps_of(graph, name, lambda node: "", f"{indent}  ")
    yield f"{indent}  gives {', '.join(name(y) for y in graph.outputs)}"


def _about_loop(node: Node, op: Loop, name: Names, users: Any) -> Iterator[str]:
    """How often it goes round and where to, what it carries, and what it stores."""
    yield f"{op.title}: {_trips(node, op, name)}{_unrolled(op)}"
    carried = [y.type for y in op.step.outputs[: op.carries]]
    if carried:
        yield f"carries {', '.join(map(repr, carried))}"
    picks = {x.op.index: x for x in users.get(node, ()) if isinstance(x.op, Pick)}
    for i in range(op.carries, op.carries + op.stacked):
        if i in picks:
            why = " for its gradient" if _is_residual(picks[i], op, users) else ""
            yield f"stores {name(picks[i])}{why}: {_size(picks[i].type)}"


def _trips(node: Node, op: Loop, name: Names) -> str:
    given = op.parts(node.inputs)
    steps = str(op.steps) if given.steps is None else name(given.steps)
    count = "" if given.count is None else f"{name(given.count)} of "
    ends = "until it stops, at most " if op.stops else ""
    number = "until it stops" if op.steps == ENDLESS else f"{ends}{count}{steps} steps"
    return f"{number}, {'from the end' if op.reverse else 'from the start'}"


def _unrolled(op: Loop) -> str:
    return f", {op.unroll} steps written out at a time" if op.unroll > 1 else ""


def _is_residual(row: Node, op: Loop, users: Any) -> bool:
    """Whether a loop in the other direction reads it."""
    return any(isinstance(x.op, Loop) and x.op.reverse != op.reverse for x in users.get(row, ()))


def _size(type: Any) -> str:
    """A type and its bytes, those of a step where the number of steps is not known."""
    size = type.numpy_dtype.itemsize
    if type.is_static:
        return f"{type!r}, {prod(type.shape) * size:,} bytes"
    if None not in type.shape[1:]:
        return f"{type!r}, {prod(type.shape[1:]) * size:,} bytes a step"
    return repr(type)
