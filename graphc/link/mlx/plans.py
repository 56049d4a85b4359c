"""Plans: a program as functions that MLX saves, and the steps that call them.

A plan is made by walking a program as ``Segments.run`` does, with slots in the place of arrays:
they have a shape and a dtype and nothing else. What stands between segments becomes a step, which
``graphc/export/runtime.py`` follows: a call of a saved function, a loop in chunks, or a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mlx.core as mx

from graphc.errors import ExportError
from graphc.ir import Node, Pick, TupleType
from graphc.link.mlx.arrays import NotTraceableError, device_array, name_of
from graphc.link.mlx.backend import backend, held_program
from graphc.link.mlx.host import needed
from graphc.link.mlx.lower.loop import FIRST, Driven, loop as written_out
from graphc.link.mlx.saved import Function, Saved, SavedFunctions
from graphc.link.mlx.segments import LARGE, SHORT, Segment, Segments, size_of
from graphc.link.program import Step
from graphc.loop.branch import Switch
from graphc.loop.build import ENDLESS
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph
from graphc.tensor.core.shape import Length, Shape

Plan = dict[str, Any]
"""Steps, and the places of the results among the values that they make."""

UNFUSED: Mapping[str, Any] = {"compile": False}


@dataclass(frozen=True)
class Slot:
    """An array in a plan: of its values nothing is known.

    Attributes:
        place: Where it stands among the values of a call.
        shape: Its shape, for the lengths that the plan is made for.
        dtype: MLX's.
    """

    place: int
    shape: tuple[int, ...]
    dtype: Any


class Planner:
    """Makes a plan; values are slots, and NumPy's arrays where they are known.

    Attributes:
        steps: The steps so far.
        count: The number of values so far, which all have places of their own.
    """

    def __init__(self, functions: SavedFunctions, count: int) -> None:
        self.functions = functions
        self.count = count
        self.steps: list[Any] = []

    def plan(self, segments: Segments, values: Sequence[Any]) -> Plan:
        """The plan of these segments by themselves, with steps of its own."""
        outside, self.steps = self.steps, []
        results = [self.slot(x).place for x in self.run(segments, values)]
        made, self.steps = {"steps": self.steps, "results": results}, outside
        return made

    def run(self, segments: Segments, given: Sequence[Any]) -> list[Any]:
        """Add the steps of a program, and return its results."""
        program = segments.program
        values = program.initial_values(given)
        for before, segment in segments.stages:
            for step in before:
                self.between(segments, step, values)
            if segment.results:
                self.segment(segments, segment, values)
        return [values[i] for i in program.outputs]

    def segment(self, segments: Segments, segment: Segment, values: list[Any]) -> None:
        """What a segment computes: one function, or some where lengths are open."""
        for step in segment.steps:
            if any(i in segment.known and _is_slot(values[i]) for i in step.operands):
                raise value_decides(step.node)
        hosted = segments.places.hosted
        parts = [segment] if self.functions.lengths is None else [*_parts(segment, hosted)]
        for part in parts:
            self.part(part, [step for step in part.steps if step.place not in hosted], values)

    def part(self, segment: Segment, steps: Sequence[Step], values: list[Any]) -> None:
        """What a segment computes, as one function."""
        known = [values[i] for i in segment.known]

        def of(part: Segment) -> Function:
            function = part.made(known).function
            return lambda *arrays: _flat(function(*map(device_array, arrays)))

        def prefix(k: int) -> Function:
            return of(replace(segment, results=[step.place for step in steps[: k + 1]]))

        given = [values[i] for i in segment.arrays]
        nodes = [step.node for step in steps]
        try:
            left = iter(self.call(of(segment), given, nodes, prefix))
        except NotTraceableError:
            raise value_decides(nodes[-1]) from None
        types = {step.place: step.node.type for step in steps}
        for i in segment.results:
            type = types[i]
            several = isinstance(type, TupleType)
            values[i] = tuple([next(left) for _ in type.items]) if several else next(left)

    def between(self, segments: Segments, step: Step, values: list[Any]) -> None:
        """What is run between segments."""
        node, operands = step.node, [values[i] for i in step.operands]
        if isinstance(node.op, Pick):
            values[step.place] = operands[0][node.op.index]
            return
        segments.program.compare_lengths(node, step.checks, operands)
        if step.place in segments.places.hosted:
            if not isinstance(node.op, Length | Shape) and any(map(_is_slot, operands)):
                raise value_decides(node)
            segments.program.advance([step], values)
            return
        make = PLANNERS.get(type(node.op))
        if make is None and any(isinstance(operands[i], Slot) for i in needed(node)):
            raise value_decides(node)
        try:
            values[step.place] = make(self, node, operands) if make else self.alone(step, operands)
        except NotTraceableError:
            raise value_decides(node) from None

    def alone(self, step: Step, operands: Sequence[Any]) -> Any:
        """An operation as a function of its own."""
        node = step.node
        if backend.calls_back(node):
            raise ExportError(
                f"MLX cannot save {node!r}, which runs in NumPy.",
                "Compute it before the function is called, and pass the result as an argument.",
                node.where,
            )
        single = not isinstance(node.type, TupleType)
        compute = backend.around(node, backend.bind(node), on_host=False)

        def listed(*values: Any) -> Sequence[Any]:
            found = compute(*values)
            return [found] if single else found

        found = self.call(listed, operands, [node])
        return found[0] if single else found

    def call(
        self,
        function: Function,
        values: Sequence[Any],
        nodes: Sequence[Node],
        prefix: Callable[[int], Function] | None = None,
    ) -> list[Slot]:
        """A call of a function that is saved; values that are known are part of it."""
        slots = [x for x in values if isinstance(x, Slot)]

        def of_slots(function: Function) -> Function:
            def traced(*arrays: Any) -> list[Any]:
                left = iter(arrays)
                given = [next(left) if _is_slot(x) else x for x in values]
                return [device_array(y) for y in function(*given)]

            return traced

        shapes = [(x.shape, x.dtype) for x in slots]
        first = (lambda k: of_slots(prefix(k))) if prefix else None
        saved = self.functions.add(of_slots(function), shapes, nodes, first)
        found = [self.new(shape, dtype) for shape, dtype in saved.traced.results]
        self.steps.append(_called(saved, slots, found))
        return found

    def new(self, shape: Sequence[int], dtype: Any) -> Slot:
        """A slot for a value of its own."""
        self.count += 1
        return Slot(self.count - 1, tuple(shape), dtype)

    def slot(self, value: Any) -> Slot:
        """A value as an array of the plan."""
        return value if isinstance(value, Slot) else self.call(lambda: [value], [], [])[0]


def _is_slot(value: Any) -> bool:
    return isinstance(value, Slot)


def _called(saved: Saved, slots: Sequence[Slot], found: Sequence[Slot]) -> list[Any]:
    """A step that calls a saved function: its number, the places, and the lengths it takes."""
    return [saved.number, [x.place for x in slots], [y.place for y in found], [*saved.traced.names]]


def _parts(segment: Segment, hosted: Collection[int]) -> Iterator[Segment]:
    """A segment in parts, in order: what has open lengths, and what has not.

    MLX saves more operations where no length is open.
    """
    part_of: dict[int, int] = {}
    for step in segment.steps:
        first = max((part_of.get(i, 0) for i in step.operands), default=0)
        if step.place not in hosted:
            first += first % 2 != _is_open(step.node)
        part_of[step.place] = first
    mine = {step.place for step in segment.steps if step.place not in hosted}
    for k in sorted({part_of[i] for i in mine}):
        steps = [
            step
            for step in segment.steps
            if part_of[step.place] == k or (step.place in hosted and part_of[step.place] < k)
        ]
        own = {step.place for step in steps}
        others = {i for s in segment.steps if s.place not in own for i in s.operands}
        results = sorted(own & mine & {*segment.results, *others})
        taken = {i for step in steps for i in step.operands} - own
        arrays = [i for i in sorted(taken) if i in mine or i in segment.arrays]
        yield replace(segment, steps=steps, arrays=arrays, results=results)


def _is_open(node: Node) -> bool:
    """Whether it takes or gives an array of a length that is not known."""
    types: list[Any] = [node.type, *(x.type for x in node.inputs)]
    parts = [part for type in types for part in getattr(type, "items", (type,))]
    return not all(part.is_static for part in parts)


def _flat(values: Sequence[Any]) -> list[Any]:
    """Arrays, some of them in tuples."""
    nested = [x if isinstance(x, tuple) else (x,) for x in values]
    return [x for part in nested for x in part if isinstance(x, mx.array)]


def value_decides(node: Node) -> ExportError:
    return ExportError(
        f"The values of an array decide a shape in {node!r}, so that MLX cannot save the program.",
        "Make it a Python number before the function is compiled, or leave 'MLX' out of programs=.",
        node.where,
    )


# What is run between segments.


def _subgraph(planner: Planner, node: Node, values: Sequence[Any]) -> list[Any]:
    """Its own segments, among the others."""
    op: Any = node.op
    known = tuple(i for i, x in enumerate(values) if not isinstance(x, Slot))
    return planner.run(Segments(held_program(op.graph, known), UNFUSED), values)


def _switch(planner: Planner, node: Node, values: Sequence[Any]) -> list[Any]:
    """The chosen branch; a plan for each where a value of the call chooses."""
    op: Any = node.op
    index, *given = values
    known = tuple(i for i, x in enumerate(given) if not isinstance(x, Slot))
    options = UNFUSED
    if not isinstance(index, Slot):
        return planner.run(Segments(held_program(op.chosen(index), known), options), given)
    plans, kinds = [], []
    for branch in op.branches:
        outside, planner.steps = planner.steps, []
        found = planner.run(Segments(held_program(branch, known), options), given)
        found = [planner.slot(x) for x in found]
        plans.append({"steps": planner.steps, "results": [x.place for x in found]})
        kinds.append([(x.shape, x.dtype) for x in found])
        planner.steps = outside
    if any(kind != kinds[0] for kind in kinds):
        raise ExportError(
            f"The branches of {node!r} have results of several shapes, so that MLX cannot save it.",
            "Give the branches results of one shape.",
            node.where,
        )
    results = [planner.new(*kind) for kind in kinds[0]]
    places = [y.place for y in results]
    planner.steps.append({"switch": index.place, "branches": plans, "results": places})
    return results


def _loop(planner: Planner, node: Node, values: Sequence[Any]) -> list[Any]:
    """A loop, written out where it is short, and else in chunks, or step by step."""
    return _LoopPlan(planner, node, values).made()


class _LoopPlan:
    """A loop in a plan.

    Attributes:
        steps: How long its rows are.
        given: Its inputs.
        is_fixed: Whether it is known how many steps are done.
    """

    def __init__(self, planner: Planner, node: Node, values: Sequence[Any]) -> None:
        op: Any = node.op
        self.planner = planner
        self.node = node
        self.op: Loop = op
        self.values = values
        self.given = op.parts(values)
        if isinstance(self.given.steps, Slot):
            raise value_decides(node)
        self.steps = op.number_of_steps(self.given)
        any_length = planner.functions.lengths is not None and op.steps is None
        self.is_fixed = self.given.count is None and not op.stops and not any_length
        self.driven = Driven(op, UNFUSED)

    def made(self) -> list[Any]:
        """The results."""
        op, planner = self.op, self.planner
        size = sum(map(size_of, op.step.nodes))
        if self.is_fixed and self.steps <= SHORT and self.steps * size <= LARGE:
            with suppress(NotTraceableError):
                return self._written_out()
        self.init = [planner.slot(x) for x in self.given.init]
        self.xs = [planner.slot(x) for x in self.given.xs]
        longest = min(FIRST, self.driven.most) if op.stops else self.driven.most
        while longest:
            try:
                return self._in_chunks(list(self._sizes(longest)))
            except NotTraceableError:
                longest //= 4
        return self._in_steps()

    def _written_out(self) -> list[Any]:
        return self.planner.call(partial(written_out, self.op), self.values, [self.node])

    def _sizes(self, longest: int) -> Iterator[int]:
        """The chunks of which any number of steps that may be done is put together."""
        if self.is_fixed:
            yield from dict.fromkeys([min(longest, self.steps), self.steps % longest or longest])
            return
        yield longest
        size = 1 << (longest.bit_length() - 1)
        while size:
            if size < longest:
                yield size
            size //= 2

    def _in_chunks(self, sizes: Sequence[int]) -> list[Any]:
        functions = {}
        consts = [x for x in self.given.consts if isinstance(x, Slot)]
        fixed = [None if isinstance(x, Slot) else x for x in self.given.consts]
        kinds = []
        for size in sizes:
            xs = [((size, *x.shape[1:]), x.dtype) for x in self.xs]
            given = [(x.shape, x.dtype) for x in self.init]
            given += [*xs, *((x.shape, x.dtype) for x in consts)]
            chunk = partial(self.driven.steps_of, size, fixed)
            saved = self.planner.functions.add(chunk, given, [self.node])
            functions[str(size)] = [saved.number, [*saved.traced.names]]
            kinds.append(saved.traced.results)
        rows = self.op.rows_of(kinds[0])
        return self._added({"chunks": functions}, consts, [(s[1:], d) for s, d in rows])

    def _in_steps(self) -> list[Any]:
        planner, op = self.planner, self.op
        carry = [planner.new(x.shape, x.dtype) for x in self.init]
        elements = [planner.new(x.shape[1:], x.dtype) for x in self.xs]
        known = [i for i, x in enumerate(self.given.consts) if not isinstance(x, Slot)]
        places = tuple(i + op.carries + op.sequences for i in known)
        body = Segments(held_program(op.step, places), UNFUSED)
        outside, planner.steps = planner.steps, []
        found = planner.run(body, [*carry, *elements, *self.given.consts])
        found = [planner.slot(x) for x in found]
        op.check_carry(carry, found)
        plan = {"steps": planner.steps, "results": [x.place for x in found]}
        planner.steps = outside
        plan["inputs"] = [x.place for x in (*carry, *elements)]
        return self._added({"body": plan}, [], [(x.shape, x.dtype) for x in op.rows_of(found)])

    def _added(self, how: Plan, consts: Sequence[Slot], rows: Sequence[Any]) -> list[Any]:
        """The step of the plan, and its results."""
        op, planner = self.op, self.planner
        count = self.given.count
        results = [planner.new(x.shape, x.dtype) for x in self.init]
        results += [planner.new((self.steps, *shape), dtype) for shape, dtype in rows]
        results += [planner.new((), mx.int64)] if op.stops else []
        kinds = [{"dtype": _named(dtype), "shape": [*shape]} for shape, dtype in rows]
        step = {
            **how,
            "steps": None if self.steps == ENDLESS else self.steps,
            "count": None if count is None else planner.slot(count).place,
            "reverse": op.reverse,
            "stops": op.stops,
            "carries": [x.place for x in self.init],
            "sequences": [x.place for x in self.xs],
            "constants": [x.place for x in consts],
            "rows": kinds,
            "results": [y.place for y in results],
        }
        planner.steps.append(step)
        return results


def _named(dtype: Any) -> str:
    return name_of(mx.zeros((), dtype))


PLANNERS: Mapping[type, Callable[..., Any]] = {Loop: _loop, Switch: _switch, Subgraph: _subgraph}
"""What adds an operation that holds graphs to a plan."""
