"""Plans: a program as functions that MLX saves, and the steps that call them.

A planner walks a program as ``Segments.run`` does, with plan values in place of arrays, which have
only a shape and a dtype. Operations between segments become steps for ``graphc/export/runtime.py``:
a call of a saved function, a loop in chunks, or a branch.
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
from graphc.link.mlx.host import value_inputs
from graphc.link.mlx.lower.loop import FIRST_CHUNK, LoopDriver, loop as unrolled_loop
from graphc.link.mlx.saved import Function, SavedFunction, SavedFunctions
from graphc.link.mlx.segments import (
    MAX_UNROLLED_SIZE,
    MAX_UNROLLED_STEPS,
    Segment,
    Segments,
    size_of,
)
from graphc.link.program import Step
from graphc.loop.branch import Switch
from graphc.loop.build import ENDLESS
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph
from graphc.tensor.core.shape import Length, Shape

Plan = dict[str, Any]
"""Steps, and the indices of the results among the values."""

UNFUSED: Mapping[str, Any] = {"compile": False}


@dataclass(frozen=True)
class PlanValue:
    """An array in a plan, at an index among the values of a call; its own values are unknown."""

    position: int
    shape: tuple[int, ...]
    dtype: Any


class Planner:
    """A maker of plans; values are plan values, or NumPy arrays if they are known."""

    def __init__(self, functions: SavedFunctions, count: int) -> None:
        self.functions = functions
        self.count = count
        self.steps: list[Any] = []

    def plan(self, segments: Segments, values: Sequence[Any]) -> tuple[Plan, list[PlanValue]]:
        """Return a separate plan of these segments, and its results."""
        outer_steps, self.steps = self.steps, []
        results = [self.as_value(x) for x in self.run(segments, values)]
        plan = {"steps": self.steps, "results": [y.position for y in results]}
        self.steps = outer_steps
        return plan, results

    def run(self, segments: Segments, arguments: Sequence[Any]) -> list[Any]:
        """Add the steps of a program, and return its results."""
        program = segments.program
        values = program.initial_values(arguments)
        for before, segment in segments.stages:
            for step in before:
                self.add_step(segments, step, values)
            if segment.results:
                self.add_segment(segments, segment, values)
        return [values[i] for i in program.outputs]

    def add_segment(self, segments: Segments, segment: Segment, values: list[Any]) -> None:
        """Add a segment's functions: one, or several if lengths are dynamic."""
        for step in segment.steps:
            if any(i in segment.static and _is_unknown(values[i]) for i in step.operands):
                raise value_decides(step.node)
        hosted = segments.placement.hosted
        pieces = [segment] if self.functions.lengths is None else [*_split(segment, hosted)]
        for piece in pieces:
            steps = [step for step in piece.steps if step.position not in hosted]
            self.add_function(piece, steps, values)

    def add_function(self, segment: Segment, steps: Sequence[Step], values: list[Any]) -> None:
        """Add a segment as one function."""
        static_values = [values[i] for i in segment.static]

        def function_of(piece: Segment) -> Function:
            function = piece.build(static_values).function
            return lambda *arrays: _flatten(function(*map(device_array, arrays)))

        def prefix(k: int) -> Function:
            return function_of(replace(segment, results=[step.position for step in steps[: k + 1]]))

        operands = [values[i] for i in segment.arrays]
        nodes = [step.node for step in steps]
        try:
            results = iter(self.add_call(function_of(segment), operands, nodes, prefix))
        except NotTraceableError:
            raise value_decides(nodes[-1]) from None
        types = {step.position: step.node.type for step in steps}
        for i in segment.results:
            type = types[i]
            is_tuple = isinstance(type, TupleType)
            values[i] = tuple([next(results) for _ in type.items]) if is_tuple else next(results)

    def add_step(self, segments: Segments, step: Step, values: list[Any]) -> None:
        """Add a step that runs between segments."""
        node, operands = step.node, [values[i] for i in step.operands]
        if isinstance(node.op, Pick):
            values[step.position] = operands[0][node.op.index]
            return
        segments.program.compare_lengths(node, step.checks, operands)
        if step.position in segments.placement.hosted:
            if not isinstance(node.op, Length | Shape) and any(map(_is_unknown, operands)):
                raise value_decides(node)
            segments.program.advance([step], values)
            return
        add = PLANNERS.get(type(node.op))
        if add is None and any(isinstance(operands[i], PlanValue) for i in value_inputs(node)):
            raise value_decides(node)
        try:
            results = add(self, node, operands) if add else self.add_operation(step, operands)
        except NotTraceableError:
            raise value_decides(node) from None
        values[step.position] = results

    def add_operation(self, step: Step, operands: Sequence[Any]) -> Any:
        node = step.node
        if backend.calls_back(node):
            raise ExportError(
                f"MLX cannot save {node!r}, which runs in NumPy.",
                "Compute it before the function is called, and pass the result as an argument.",
                node.where,
            )
        single = not isinstance(node.type, TupleType)
        compute = backend.around(node, backend.bind(node), on_host=False)

        def compute_list(*values: Any) -> Sequence[Any]:
            results = compute(*values)
            return [results] if single else results

        results = self.add_call(compute_list, operands, [node])
        return results[0] if single else results

    def add_call(
        self,
        function: Function,
        values: Sequence[Any],
        nodes: Sequence[Node],
        prefix: Callable[[int], Function] | None = None,
    ) -> list[PlanValue]:
        """Add a call of a saved function, in which known values are constants."""
        plan_values = [x for x in values if isinstance(x, PlanValue)]

        def of_plan_values(function: Function) -> Function:
            def with_constants(*arrays: Any) -> list[Any]:
                remaining = iter(arrays)
                operands = [next(remaining) if _is_unknown(x) else x for x in values]
                return [device_array(y) for y in function(*operands)]

            return with_constants

        shapes = [(x.shape, x.dtype) for x in plan_values]
        traced_prefix = (lambda k: of_plan_values(prefix(k))) if prefix else None
        saved = self.functions.add(of_plan_values(function), shapes, nodes, traced_prefix)
        results = [self.new_value(shape, dtype) for shape, dtype in saved.traced.results]
        self.steps.append(_call_step(saved, plan_values, results))
        return results

    def new_value(self, shape: Sequence[int], dtype: Any) -> PlanValue:
        """Return a plan value with a new index."""
        self.count += 1
        return PlanValue(self.count - 1, tuple(shape), dtype)

    def as_value(self, value: Any) -> PlanValue:
        """Return a value as a plan value."""
        return value if isinstance(value, PlanValue) else self.add_call(lambda: [value], [], [])[0]


def _is_unknown(value: Any) -> bool:
    return isinstance(value, PlanValue)


def _known_positions(values: Sequence[Any], first: int = 0) -> tuple[int, ...]:
    return tuple([i for i, x in enumerate(values, first) if not isinstance(x, PlanValue)])


def _call_step(
    saved: SavedFunction, operands: Sequence[PlanValue], results: Sequence[PlanValue]
) -> list[Any]:
    """Return a step that calls a saved function: its number, the indices, and its lengths."""
    return [
        saved.number,
        [x.position for x in operands],
        [y.position for y in results],
        [*saved.traced.names],
    ]


def _split(segment: Segment, hosted: Collection[int]) -> Iterator[Segment]:
    """Split a segment, in order, into steps with dynamic lengths and steps without.

    MLX can save more operations without dynamic lengths.
    """
    part_of: dict[int, int] = {}
    for step in segment.steps:
        part = max((part_of.get(i, 0) for i in step.operands), default=0)
        if step.position not in hosted:
            part += part % 2 != _has_dynamic_lengths(step.node)
        part_of[step.position] = part
    computed = {step.position for step in segment.steps if step.position not in hosted}
    for k in sorted({part_of[i] for i in computed}):
        steps = [
            step
            for step in segment.steps
            if part_of[step.position] == k
            or (step.position in hosted and part_of[step.position] < k)
        ]
        inside = {step.position for step in steps}
        used_outside = {i for s in segment.steps if s.position not in inside for i in s.operands}
        results = sorted(inside & computed & {*segment.results, *used_outside})
        used = {i for step in steps for i in step.operands} - inside
        arrays = [i for i in sorted(used) if i in computed or i in segment.arrays]
        yield replace(segment, steps=steps, arrays=arrays, results=results)


def _has_dynamic_lengths(node: Node) -> bool:
    types: list[Any] = [node.type, *(x.type for x in node.inputs)]
    arrays = [array for type in types for array in getattr(type, "items", (type,))]
    return not all(array.is_static for array in arrays)


def _flatten(values: Sequence[Any]) -> list[Any]:
    """Return the MLX arrays in values and in tuples of values."""
    nested = [x if isinstance(x, tuple) else (x,) for x in values]
    return [x for xs in nested for x in xs if isinstance(x, mx.array)]


def value_decides(node: Node) -> ExportError:
    return ExportError(
        f"The values of an array decide a shape in {node!r}, so that MLX cannot save the program.",
        "Make it a Python number before the function is compiled, or leave 'MLX' out of programs=.",
        node.where,
    )


# Operations between segments.


def _plan_subgraph(planner: Planner, node: Node, values: Sequence[Any]) -> list[Any]:
    op: Any = node.op
    program = held_program(op.graph, _known_positions(values))
    return planner.run(Segments(program, UNFUSED), values)


def _plan_switch(planner: Planner, node: Node, values: Sequence[Any]) -> list[Any]:
    """Add the chosen branch, or a plan for each branch if a value of the call chooses."""
    op: Any = node.op
    index, *operands = values
    positions = _known_positions(operands)
    if not isinstance(index, PlanValue):
        return planner.run(Segments(held_program(op.chosen(index), positions), UNFUSED), operands)
    plans, kinds = [], []
    for branch in op.branches:
        plan, results = planner.plan(Segments(held_program(branch, positions), UNFUSED), operands)
        plans.append(plan)
        kinds.append([(y.shape, y.dtype) for y in results])
    if any(kind != kinds[0] for kind in kinds):
        raise ExportError(
            f"The branches of {node!r} have results of several shapes, so that MLX cannot save it.",
            "Give the branches results of one shape.",
            node.where,
        )
    results = [planner.new_value(*kind) for kind in kinds[0]]
    indices = [y.position for y in results]
    planner.steps.append({"switch": index.position, "branches": plans, "results": indices})
    return results


class _LoopPlan:
    """A loop in a plan; its number of steps ``is_fixed`` if the plan knows it."""

    def __init__(self, planner: Planner, node: Node, values: Sequence[Any]) -> None:
        op: Any = node.op
        self.planner = planner
        self.node = node
        self.op: Loop = op
        self.values = values
        self.inputs = op.parts(values)
        if isinstance(self.inputs.steps, PlanValue):
            raise value_decides(node)
        self.steps = op.number_of_steps(self.inputs)
        any_length = planner.functions.lengths is not None and op.steps is None
        self.is_fixed = self.inputs.count is None and not op.stops and not any_length
        self.driver = LoopDriver(op, UNFUSED)

    def build(self) -> list[Any]:
        """Add the loop: unrolled if it is short, else in chunks or step by step."""
        op, planner = self.op, self.planner
        size = sum(map(size_of, op.step.nodes))
        if (
            self.is_fixed
            and self.steps <= MAX_UNROLLED_STEPS
            and self.steps * size <= MAX_UNROLLED_SIZE
        ):
            with suppress(NotTraceableError):
                return planner.add_call(partial(unrolled_loop, op), self.values, [self.node])
        self.init = [planner.as_value(x) for x in self.inputs.init]
        self.xs = [planner.as_value(x) for x in self.inputs.xs]
        longest = min(FIRST_CHUNK, self.driver.max_chunk) if op.stops else self.driver.max_chunk
        while longest:
            try:
                return self._in_chunks(list(self._sizes(longest)))
            except NotTraceableError:
                longest //= 4
        return self._in_steps()

    def _sizes(self, longest: int) -> Iterator[int]:
        """Return sizes of chunks that add up to any number of steps that may run."""
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
        consts = [x for x in self.inputs.consts if isinstance(x, PlanValue)]
        fixed = [None if isinstance(x, PlanValue) else x for x in self.inputs.consts]
        kinds = []
        for size in sizes:
            xs = [((size, *x.shape[1:]), x.dtype) for x in self.xs]
            arguments = [(x.shape, x.dtype) for x in self.init]
            arguments += [*xs, *((x.shape, x.dtype) for x in consts)]
            chunk = partial(self.driver.steps_of, size, fixed)
            saved = self.planner.functions.add(chunk, arguments, [self.node])
            functions[str(size)] = [saved.number, [*saved.traced.names]]
            kinds.append(saved.traced.results)
        rows = self.op.rows_of(kinds[0])
        return self._add_step({"chunks": functions}, consts, [(s[1:], d) for s, d in rows])

    def _in_steps(self) -> list[Any]:
        planner, op = self.planner, self.op
        carry = [planner.new_value(x.shape, x.dtype) for x in self.init]
        elements = [planner.new_value(x.shape[1:], x.dtype) for x in self.xs]
        positions = _known_positions(self.inputs.consts, op.carries + op.sequences)
        body = Segments(held_program(op.step, positions), UNFUSED)
        plan, results = planner.plan(body, [*carry, *elements, *self.inputs.consts])
        op.check_carry(carry, results)
        plan["inputs"] = [x.position for x in (*carry, *elements)]
        return self._add_step({"body": plan}, [], [(y.shape, y.dtype) for y in op.rows_of(results)])

    def _add_step(self, body: Plan, consts: Sequence[PlanValue], rows: Sequence[Any]) -> list[Any]:
        op, planner = self.op, self.planner
        count = self.inputs.count
        results = [planner.new_value(x.shape, x.dtype) for x in self.init]
        results += [planner.new_value((self.steps, *shape), dtype) for shape, dtype in rows]
        results += [planner.new_value((), mx.int64)] if op.stops else []
        kinds = [{"dtype": _dtype_name(dtype), "shape": [*shape]} for shape, dtype in rows]
        step = {
            **body,
            "steps": None if self.steps == ENDLESS else self.steps,
            "count": None if count is None else planner.as_value(count).position,
            "reverse": op.reverse,
            "stops": op.stops,
            "carries": [x.position for x in self.init],
            "sequences": [x.position for x in self.xs],
            "constants": [x.position for x in consts],
            "rows": kinds,
            "results": [y.position for y in results],
        }
        planner.steps.append(step)
        return results


def _dtype_name(dtype: Any) -> str:
    return name_of(mx.zeros((), dtype))


PLANNERS: Mapping[type, Callable[..., Any]] = {
    Loop: lambda *arguments: _LoopPlan(*arguments).build(),
    Switch: _plan_switch,
    Subgraph: _plan_subgraph,
}
"""Functions that add an operation with graphs to a plan."""
