"""What a function will run, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphc.compile.mode import Mode
from graphc.compile.steps import called, steps_of
from graphc.ir import Node
from graphc.link import Program
from graphc.rewrite.engine import TOLD

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """The steps of a compiled function; ``str()`` of it is the text.

    Attributes:
        title: The function.
        mode: Where it runs.
        program: The steps.
        passes: What each pass of the rewriting did.
        shared: The shared variables it reads and updates.
        outputs: How many results it returns; the further ones are new shared values.
        checks: How many conditions the last one holds, if there are any.
    """

    title: str
    mode: Mode
    program: Program
    passes: Sequence[Any]
    shared: tuple[Any, ...]
    outputs: int
    checks: int

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def lines(self) -> Iterator[str]:
        """The text, line by line."""
        graph, host = self.program.graph, self.program.host
        yield f"{self.title} in mode {self.mode.name}: {self._device()}"
        passed = dict.fromkeys((*graph.inputs, *graph.leaves))
        static = {graph.inputs[i] for i in host.inputs} if host else set()
        for node in passed:
            notes = ["shared"] if node in self.shared else []
            notes += ["array"] if node in graph.leaves else []
            notes += ["decides a shape: one executable for each value"] if node in static else []
            yield f"  {self._name(node)} = {node!r}" + (f"   ({'; '.join(notes)})" if notes else "")
        yield from steps_of(graph, self._name, self._note)
        yield f"  return {', '.join(self._name(y) for y in graph.outputs[: self.outputs])}".rstrip()
        kept = list(graph.outputs[self.outputs :])
        last = [kept.pop()] if self.checks else []
        yield from (f"  keep {self._name(y)}" for y in kept)
        yield from (f"  check {self._name(y)}: {self.checks} conditions" for y in last)
        yield from self._done_to_loops()
        changes = [f"{p.name} {p.changes} ({p.seconds * 1e3:.1f} ms)" for p in self.passes]
        yield f"rewritten: {', '.join(changes)}"

    def _done_to_loops(self) -> Iterator[str]:
        """What was moved out of loops, or done without one."""
        told: dict[str, None] = {}
        for change in (c for p in self.passes for c in p.records if c.rule.subject == TOLD):
            line = f"   {change.before.where}" if change.before.where else ""
            told[f"  {change.rule.name}: {change.rule.meaning}{line}"] = None
        yield from told

    def _device(self) -> str:
        return self.mode.backend.describe(self.mode.options)

    def _name(self, node: Node) -> str:
        place = self.program.places[node]
        return called(node, f"{'a' if place < len(self.program.arguments) else 'v'}{place}")

    def _note(self, node: Node) -> str:
        host = self.program.host
        notes = [self._notes[node]] if node in self._notes else []
        notes += ["on the host"] if host and node in host.nodes and not notes else []
        return "".join(f"   ({note})" for note in notes)

    @cached_property
    def _notes(self) -> Mapping[Node, str]:
        return self.mode.backend.notes(self.program)
