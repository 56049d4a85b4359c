"""The plan of a compiled function: its steps and loops as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from graphc.compile.mode import Mode
from graphc.implicit.node import Implicit
from graphc.ir import Constant, Graph, Node, Pick, TensorType, reachable_nodes
from graphc.ir.print import label
from graphc.link import Program
from graphc.link.placement import Placement
from graphc.loop import ENDLESS, Loop
from graphc.rewrite.engine import TOLD

Names = Callable[[Node], str]


VALUE = "decides a shape: one executable for each value"
LENGTH = "decides the length of a slice: one executable for each length"
"""The notes of arguments that the host reads."""


def operand_text(node: Node, name: str) -> str:
    """Return a constant's value, or the name of a computed array."""
    return label(node) if isinstance(node.op, Constant) else name


def steps_of(
    graph: Graph, name: Names, note: Callable[[Node], str], indent: str = "  "
) -> Iterator[str]:
    """Yield a line for each operation of a graph, and below it the lines of nested graphs."""
    passed = {*graph.inputs, *graph.leaves}
    users = graph.users() if any(node.op.graphs() for node in graph.nodes) else {}
    for node in graph.nodes:
        if node in passed or isinstance(node.op, Constant):
            continue
        operands = ", ".join(name(x) for x in node.inputs)
        line = f"   {node.where}" if node.where else ""
        assignment = f"{name(node)} = {node.op.name}({operands}): {node.type_text()}"
        yield f"{indent}{assignment}{note(node)}{line}"
        if isinstance(node.op, Loop):
            yield from (f"{indent}  {text}" for text in _about_loop(node, node.op, name, users))
        for nested in node.op.graphs():
            yield from _nested_steps(nested, note, f"{indent}  ")


def _nested_steps(graph: Graph, note: Callable[[Node], str], indent: str) -> Iterator[str]:
    indices = {node: i for i, node in enumerate(graph.nodes)}
    inputs = set(graph.inputs)

    def name(node: Node) -> str:
        return operand_text(node, f"{'#' if node in inputs else 's'}{indices[node]}")

    takes = ", ".join(f"{name(x)}: {x.type_text()}" for x in graph.inputs)
    yield f"{indent}each takes {takes or 'nothing'}"
    yield from steps_of(graph, name, note, f"{indent}  ")
    yield f"{indent}  gives {', '.join(name(y) for y in graph.outputs)}"


def _about_loop(node: Node, op: Loop, name: Names, users: Any) -> Iterator[str]:
    """Yield a loop's number of steps and direction, its carries, and the arrays it stores."""
    yield f"{op.title}: {_trips(node, op, name)}{_unrolling(op)}"
    carried = [y.type for y in op.step.outputs[: op.carries]]
    if carried:
        yield f"carries {', '.join(map(repr, carried))}"
    picks = {x.op.index: x for x in users.get(node, ()) if isinstance(x.op, Pick)}
    for i in range(op.carries, op.carries + op.stacked):
        if i in picks:
            why = " for its gradient" if _is_residual(picks[i], op, users) else ""
            yield f"stores {name(picks[i])}{why}: {_size(picks[i].type)}"


def _trips(node: Node, op: Loop, name: Names) -> str:
    inputs = op.parts(node.inputs)
    steps = str(op.steps) if inputs.steps is None else name(inputs.steps)
    count = "" if inputs.count is None else f"{name(inputs.count)} of "
    ends = "until it stops, at most " if op.stops else ""
    number = "until it stops" if op.steps == ENDLESS else f"{ends}{count}{steps} steps"
    return f"{number}, {'from the end' if op.reverse else 'from the start'}"


def _unrolling(op: Loop) -> str:
    return f", {op.unroll} steps written out at a time" if op.unroll > 1 else ""


def _is_residual(row: Node, op: Loop, users: Any) -> bool:
    """Return whether an array reaches a loop in the other direction: the gradient's loop."""
    reached = reachable_nodes([row], lambda x: () if isinstance(x.op, Loop) else users.get(x, ()))
    return any(isinstance(x.op, Loop) and x.op.reverse != op.reverse for x in reached)


def _size(type: Any) -> str:
    """Return a type and its size; the size of a step if the number of steps is not known."""
    size = type.numpy_dtype.itemsize
    if type.is_static:
        return f"{type!r}, {prod(type.shape) * size:,} bytes"
    if None not in type.shape[1:]:
        return f"{type!r}, {prod(type.shape[1:]) * size:,} bytes a step"
    return repr(type)


def placement_of(
    program: Program, mode: Mode, values: Sequence[Any], passed: int, donated: Sequence[int]
) -> Placement | None:
    """Return the placement of a compiled program on the mode's mesh; None if a length is unknown.

    Args:
        program: The program.
        mode: A mode with a mesh.
        values: Anything with a shape for each argument; its value if that decides a shape.
        passed: Number of the arguments of a call among the program's arguments.
        donated: The arguments whose buffers may be reused.
    """
    static = program.host.inputs if program.host else ()
    arguments: list[Any] = []
    for i, (x, node) in enumerate(zip(values, program.arguments, strict=True)):
        shape = tuple(x.shape) if hasattr(x, "shape") else np.shape(x)
        if None in shape or (i in static and isinstance(x, TensorType)):
            return None
        arguments.append(x if i in static else node.type.with_shape(shape))
    return mode.backend.placement(program, mode.options, arguments, passed, donated)


def padding_of(program: Program, mode: Mode, values: Sequence[Any], passed: int) -> Sequence[str]:
    """Return which lengths of arguments are padded, or why none is.

    Args:
        program: The program.
        mode: The program's mode.
        values: Anything with a shape for each argument.
        passed: Number of the arguments of a call among the program's arguments.
    """
    if "lengths" not in mode.backend.options:
        return ()
    # Most programs are for exact lengths.
    from graphc.link.padding.buckets import plan_of_padding  # noqa: PLC0415

    types = []
    for x, node in zip(values, program.arguments, strict=True):
        shape = x.shape if hasattr(x, "shape") else np.shape(x)
        types.append(node.type.with_shape(tuple(shape)))
    lines = plan_of_padding(program, mode.options, types, passed)
    if lines and mode.backend.mesh_axes(mode.options) is not None:
        return ["lengths: exact, as the mode has a mesh of devices"]
    return lines


def dense_arrays(program: Program, mode: Mode, values: Sequence[Any]) -> Sequence[str]:
    """Return which implicit arrays become dense while the backend traces a program, and what for.

    Args:
        program: The program.
        mode: The program's mode.
        values: Anything with a shape for each argument; its value if that decides a shape.
    """
    static = program.host.inputs if program.host else ()
    if not any(isinstance(node.op, Implicit) for node in program.graph.nodes):
        return ()
    if any(None in np.shape(x) if i in static else None in x.shape for i, x in enumerate(values)):
        return ["call plan(*args) to see which implicit arrays become dense at those lengths"]
    return [str(x) for x in mode.backend.dense_arrays(program, values)]


@dataclass(frozen=True)
class Plan:
    """The plan of a compiled function; ``str()`` returns the text.

    Attributes:
        title: The function.
        mode: The mode it was compiled for.
        program: The steps.
        passes: A report of each pass of the rewriting.
        shared: The shared variables it reads and updates.
        outputs: The number of results it returns; further ones are new values of shared variables.
        checks: The number of checks, whose outcomes are the last result, if there are any.
        placement: The sharding of the compiled program on the mode's mesh of devices; None without
            a mesh, or if lengths are not static.
        padding: The lengths of arguments that are padded to buckets, or why none is; empty without
            buckets.
        dense: The implicit arrays that become dense.
    """

    title: str
    mode: Mode
    program: Program
    passes: Sequence[Any]
    shared: tuple[Any, ...]
    outputs: int
    checks: int
    placement: Placement | None
    padding: Sequence[str] = ()
    dense: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def lines(self) -> Iterator[str]:
        """Yield the text, line by line."""
        graph, host = self.program.graph, self.program.host
        yield f"{self.title} in mode {self.mode.name}: {self._device()}"
        passed = dict.fromkeys((*graph.inputs, *graph.leaves))
        deciding = {graph.inputs[i]: VALUE for i in host.inputs} if host else {}
        deciding |= {graph.inputs[i]: LENGTH for i in host.sliced} if host else {}
        for node in passed:
            notes = ["shared"] if node in self.shared else []
            notes += self._sharding_note(node)
            notes += ["array"] if node in graph.leaves else []
            notes += [deciding[node]] if node in deciding else []
            yield f"  {self._name(node)} = {node!r}" + (f"   ({'; '.join(notes)})" if notes else "")
        yield from steps_of(graph, self._name, self._note)
        yield f"  return {', '.join(self._name(y) for y in graph.outputs[: self.outputs])}".rstrip()
        updates = list(graph.outputs[self.outputs :])
        last = [updates.pop()] if self.checks else []
        yield from (f"  keep {self._name(y)}" for y in updates)
        yield from (f"  check {self._name(y)}: {self.checks} conditions" for y in last)
        yield from (f"  {line}" for line in (*self.padding, *self.dense))
        yield from self._placement_lines()
        yield from self._loop_changes()
        facts = self.mode.backend.summary(self.program, self.mode.options)
        yield from (f"  {about}: {text}" for about, text in facts.items())
        changes = [f"{p.name} {p.changes} ({p.seconds * 1e3:.1f} ms)" for p in self.passes]
        yield f"rewritten: {', '.join(changes)}"

    def _sharding_note(self, node: Node) -> list[str]:
        sharding = getattr(node.op, "sharding", None)
        return [] if sharding is None or self.mode.mesh_axes is None else [f"sharding={sharding}"]

    def _placement_lines(self) -> Iterator[str]:
        axes, placement = self.mode.mesh_axes, self.placement
        if axes is not None and placement is None:
            yield f"  over {axes}: call plan(*args) for shardings and collectives at those lengths"
        if placement is None:
            return
        yield f"  over {placement.mesh}:"
        graph = self.program.graph
        for y, sharding in zip(graph.outputs, placement.results, strict=False):
            yield f"    {self._name(y)}: {sharding}"
        yield from (f"    {collective}" for collective in placement.collectives)
        if not placement.collectives:
            yield "    no collectives"
        if placement.memory is not None:
            yield f"    {placement.memory}"
        yield from (f"    warning: {warning}" for warning in placement.gathered)

    def _loop_changes(self) -> Iterator[str]:
        """Yield the operations that were moved out of loops, and the loops that were removed."""
        lines: dict[str, None] = {}
        for change in (c for p in self.passes for c in p.records if c.rule.subject == TOLD):
            line = f"   {change.before.where}" if change.before.where else ""
            lines[f"  {change.rule.name}: {change.rule.meaning}{line}"] = None
        yield from lines

    def _device(self) -> str:
        return self.mode.backend.describe(self.mode.options)

    def _name(self, node: Node) -> str:
        index = self.program.positions[node]
        return operand_text(node, f"{'a' if index < len(self.program.arguments) else 'v'}{index}")

    def _note(self, node: Node) -> str:
        host = self.program.host
        notes = [self._notes[node]] if node in self._notes else []
        notes += ["on the host"] if host and node in host.nodes and not notes else []
        return "".join(f"   ({note})" for note in notes)

    @cached_property
    def _notes(self) -> Mapping[Node, str]:
        return self.mode.backend.notes(self.program, self.mode.options)
