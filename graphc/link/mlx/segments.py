"""A program in segments that MLX compiles, and the steps between them that Python runs.

Loops, branches, and operations that need a value to know a shape stand between segments. Each
segment is one function for ``mx.compile``, which takes all of its operands as arguments, also
constants.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.attention.flex import FlexOp
from graphc.ir import Constant, Input, Node, Op, Pick
from graphc.link.backend import Backend
from graphc.link.mlx.arrays import (
    MAX_OPERATIONS,
    Trace,
    device_array,
    key_of,
    put_bounded,
    separate_results,
    tracing,
)
from graphc.link.mlx.distributed import agree, record_exchanges
from graphc.link.mlx.host import analyse, value_inputs
from graphc.link.mlx.tiers import Replayed, Tier
from graphc.link.mlx.watch import Watch, watching
from graphc.link.program import Program, Step
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph
from graphc.random.threefry import Threefry
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import Recurrence
from graphc.tensor.core.elementwise import Elementwise

MAX_UNROLLED_STEPS = 8
"""Loops of at most this many steps are unrolled in their segment."""

FEW_OPERATIONS = 4
"""Operations that become at most two kernels: a thread that reports progress would take 1 % of the
time of a call whose kernels are cached."""

MAX_UNROLLED_SIZE = 512
"""Unrolled loops have at most this many operations in all steps together."""

BETWEEN_SEGMENTS = (CoupledRecurrence, Switch, FlexOp, Subgraph)
"""Operations that always run between segments: values decide their work, or the user separates
them."""

Driver = Callable[..., Any]

DRIVERS: dict[type, Callable[[Any, Mapping[str, Any]], Driver]] = {}
"""By type of operation, functions that take an operation and a mode's options, and return a driver:
a function that runs the operation from Python."""

SIZES: dict[Op, Callable[[], int]] = {}
"""Numbers of MLX operations in large lowerings."""


def constants_of(nodes: Iterable[Node]) -> dict[Any, np.ndarray[Any, Any]]:
    """Return the constants that operations and their graphs compute with, by key."""
    constants: dict[Any, np.ndarray[Any, Any]] = {}
    for node in nodes:
        deciding = value_inputs(node) if node.inputs else ()
        for i, x in enumerate(node.inputs):
            if isinstance(x.op, Constant) and i not in deciding:
                constants.setdefault(key_of(x.op.value), x.op.value)
        for held in node.op.graphs():
            constants |= constants_of(held.nodes)
    return constants


class CompiledFunction:
    """A function of arrays as MLX runs it, with constants as further arguments.

    Attributes:
        function: Function of arrays that returns a list of arrays.
        constants: The constants, by key.
        shapes: Shapes of arguments for which the function was traced.
        run: Function of arrays and constants: fused by ``mx.compile``, or one operation at a time.
        exchanges: Sums over processes for each combination of shapes that has any.
        watch: Watch of the executable that the function is all of; it opens a call to compile.
        fused: The function fused by MLX; None before.
    """

    watch: Watch | None = None
    fused: Callable[..., Any] | None = None

    def __init__(
        self,
        function: Callable[..., Sequence[Any]],
        constants: Mapping[Any, np.ndarray[Any, Any]],
        options: Mapping[str, Any],
    ) -> None:
        self.function = function
        self.shapes: set[Any] = set()
        self.exchanges: dict[Any, str] = {}
        self.keys = tuple(constants)
        self.tier: bool | Tier = options["compile"]
        with tracing(None):
            self.constants = [device_array(x) for x in constants.values()]
        self.run: Callable[..., Any] = self.plain
        if self.tier is True:
            self.fuse()
        elif self.tier:
            replayed = Replayed(partial(self.trace, fuses=False), self.plain)
            self.run = partial(self._run_unfused, self.tier, replayed)

    def fuse(self) -> None:
        """Run fused from now on."""
        self.run = self.fused = mx.compile(self.fusible)

    def fusible(self, *arrays: Any) -> Any:
        """Return the results, for MLX to trace and fuse."""
        return self.trace(*arrays)

    def outputs(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Return the results as they are fused, traced by MLX and not evaluated."""
        return mx.compile(partial(self.trace))(*arrays)

    def trace(self, *arrays: Any, fuses: bool = True) -> list[Any]:
        """Return the results while MLX traces."""
        constants = dict(zip(self.keys, arrays[len(arrays) - len(self.keys) :], strict=True))
        return self._results(arrays, Trace(constants, fuses=fuses))

    def plain(self, *arrays: Any) -> list[Any]:
        """Return the results of Python's calls of MLX."""
        return separate_results(self._results(arrays, None), arrays)

    def _results(self, arrays: Sequence[Any], trace: Trace | None) -> list[Any]:
        # Unless MLX traces, Python calls the function for known shapes too.
        shapes = tuple([x.shape for x in arrays])
        operands = arrays[: len(arrays) - len(self.keys)]
        if shapes not in self.shapes:
            call = watching() if self.watch is None else self.watch.open(operands)
            if call is not None:
                call.compiles()
        with tracing(trace), record_exchanges() as exchanges:
            results = [device_array(y) for y in self.function(*operands)]
        if exchanges:
            self.exchanges[shapes] = "; ".join(exchanges)
        self.shapes.add(shapes)
        return results

    def _run_unfused(self, tier: Tier, replayed: Callable[..., Any], *arrays: Any) -> Any:
        tier.note(self, arrays)
        return replayed(*arrays)

    def __call__(self, *arrays: Any) -> Any:
        arrays = (*arrays, *self.constants)
        results = self.run(*arrays)
        # A function that the user's code transforms need not be called by all processes.
        if self.exchanges and watching() is not None:
            agree(self.exchanges[tuple([x.shape for x in arrays])])
        return results


class UntracedError(Exception):
    """Signal that MLX would have to trace a program in a call that forbids it."""


class WholeProgram(CompiledFunction):
    """A program as one function, which MLX traces only in calls that allow it.

    Other calls need no checks: MLX calls the Python function for new shapes, or if it traces the
    code around the call, and the Python function then refuses.

    Attributes:
        may_trace: Whether MLX may trace.
        when_fused: Function to call with the fused function once it has run.
    """

    may_trace = False
    when_fused: Callable[[Callable[..., Any]], None] | None = None

    def fusible(self, *arrays: Any) -> Any:
        """Return the results, for MLX to trace and fuse.

        Raises:
            UntracedError: If MLX may not trace in this call.
        """
        if not self.may_trace:
            raise UntracedError
        # User code in the program may call the function again: a call without permission.
        self.may_trace = False
        try:
            return self.trace(*arrays)
        finally:
            self.may_trace = True

    def trace_and_run(self, *arrays: Any) -> Any:
        """Return the results; MLX may trace."""
        self.may_trace = True
        try:
            results = self(*arrays)
        finally:
            self.may_trace = False
        if self.fused is not None and self.when_fused is not None:
            self.when_fused(self.fused)
            self.when_fused = None
        return results


@dataclass
class Segment:
    """Steps of a program that are compiled as one function.

    Attributes:
        steps: The steps in order.
        arrays: Indices of the values that are array arguments.
        static: Indices of the values that must be known; each set of values has its own function.
        results: Indices of the values that are used outside of the segment.
    """

    program: Program
    options: Mapping[str, Any]
    steps: list[Step] = field(default_factory=list)
    arrays: list[int] = field(default_factory=list)
    static: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    functions: OrderedDict[Any, CompiledFunction] = field(default_factory=OrderedDict)

    @cached_property
    def is_large(self) -> bool:
        """Whether MLX's graph of this segment and the next ones would be too deep."""
        return 2 * sum(size_of(step.node) for step in self.steps) > MAX_OPERATIONS

    def run(self, values: list[Any]) -> None:
        """Put the results among the values."""
        static_values = [values[i] for i in self.static]
        key = tuple([key_of(x) for x in static_values])
        # Remove and append, to mark as used last: another thread may do the same.
        function = self.functions.pop(key, None) or self.build(static_values)
        put_bounded(self.functions, key, function)
        arrays = [device_array(values[i]) for i in self.arrays]
        for i, y in zip(self.results, function(*arrays), strict=True):
            values[i] = y

    def build(self, static_values: Sequence[Any]) -> CompiledFunction:
        constants = {key_of(x): x for x in static_values}
        constants |= constants_of([step.node for step in self.steps])
        fixed = [*zip(self.static, static_values, strict=True), *self.program.constants]
        size = len(self.program.positions)

        def run_steps(*arrays: Any) -> list[Any]:
            values: list[Any] = [None] * size
            for i, x in (*fixed, *zip(self.arrays, arrays, strict=True)):
                values[i] = x
            self.program.advance(self.steps, values)
            return [values[i] for i in self.results]

        return CompiledFunction(run_steps, constants, self.options)


class Segments:
    """A program that runs segment by segment.

    Attributes:
        stages: For each segment, the steps that run before it, and the segment, which may be empty.
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        self.program = program
        self.options = options
        self.placement = _SegmentPlacement(program)
        self.stages: list[tuple[list[Step], Segment]] = []
        self._cut()

    def run(self, *arguments: Any) -> list[Any]:
        """Return the outputs: MLX arrays, or NumPy arrays of values known on the host."""
        program = self.program
        values = program.initial_values(arguments)
        for before, segment in self.stages:
            program.advance(before, values)
            if segment.results:
                segment.run(values)
                if segment.is_large:
                    mx.async_eval([values[i] for i in segment.results])  # type: ignore[no-untyped-call]
        return [values[i] for i in program.outputs]

    @property
    def is_large(self) -> bool:
        """Whether MLX may make more than two kernels of the program."""
        return bool(self.placement.driven) or sum(self.placement.sizes.values()) > FEW_OPERATIONS

    @property
    def direct(self) -> WholeProgram | None:
        """The program as one MLX function; None if it is not one plain segment.

        The function checks its arguments while MLX traces, for each combination of shapes.
        """
        if len(self.stages) != 1 or self.options["compile"] is False:
            return None
        ((before, segment),) = self.stages
        if before or segment.static:
            return None
        nodes = [step.node for step in self.program.steps]
        return WholeProgram(self.program.trace, constants_of(nodes), self.options)

    def _cut(self) -> None:
        placement = self.placement
        count = 1 + max((placement.stage[s.position] for s in self.program.steps), default=0)
        segments = [Segment(self.program, self.options) for _ in range(count + 1)]
        before: list[list[Step]] = [[] for _ in segments]
        for step in self.program.steps:
            index = step.position
            if index in placement.driven:
                make = DRIVERS.get(type(step.node.op))
                driven = step._replace(compute=make(step.node.op, self.options)) if make else step
                before[placement.stage[index]].append(driven)
            elif index in placement.hosted:
                if index in placement.results:
                    before[placement.after[index]].append(step)
                for k in placement.inner.get(index, ()):
                    segments[k].steps.append(step)
            else:
                segment = segments[placement.stage[index]]
                segment.steps.append(step)
                if index in placement.results:
                    segment.results.append(index)
        for k, segment in enumerate(segments):
            segment.arrays, segment.static = map(sorted, placement.arguments_of(k))
        self.stages = [
            stage for stage in zip(before, segments, strict=True) if stage[0] or stage[1].results
        ]


class _SegmentPlacement:
    """The segment or the step between segments for each value, by the value's index.

    Attributes:
        hosted: Values that NumPy computes.
        driven: Values that are computed between segments.
        stage: For each value, the segment that computes it, or that follows its computation.
        after: For values of NumPy, the first segment before which they can be computed.
        results: Values that are used outside of the segment that computes them.
        inner: For values of NumPy, the segments that compute them while MLX traces.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        host = program.host.nodes if program.host else frozenset()
        self.constants = {i for i, _ in program.constants}
        self.steps = {step.position: step for step in program.steps}
        self.hosted = {s.position for s in program.steps if s.node in host}
        self.hosted |= {i for i, x in enumerate(program.arguments) if x in host}
        self.driven: set[int] = set()
        self.stage: dict[int, int] = {}
        self.after: dict[int, int] = {}
        self.results = set(program.outputs)
        self.inner: dict[int, set[int]] = {}
        self.uses: dict[int, tuple[set[int], set[int]]] = {}
        self.sizes: Counter[int] = Counter()
        for step in program.steps:
            self._place(step)
        for step in reversed(program.steps):
            self._mark_operands(step)

    def _place(self, step: Step) -> None:
        if self._is_driven(step):
            self.driven.add(step.position)
        outside = max((self._available_at(i) for i in step.operands), default=0)
        if step.position in self.driven:
            self.stage[step.position] = outside
            return
        stage = max((self.stage.get(i, 0) for i in step.operands), default=0)
        self.after[step.position] = outside
        if step.position not in self.hosted:
            size = size_of(step.node)
            while self.sizes[stage] + size > MAX_OPERATIONS and self.sizes[stage]:
                stage += 1
            self.sizes[stage] += size
        self.stage[step.position] = stage

    def _available_at(self, index: int) -> int:
        """Return the first segment before which a value is available."""
        if index not in self.steps or index in self.driven:
            return self.stage.get(index, 0)
        return self.after[index] if index in self.hosted else self.stage[index] + 1

    def _is_driven(self, step: Step) -> bool:
        node = step.node
        if isinstance(node.op, Pick):
            return step.operands[0] in self.driven
        if step.position not in self.hosted and not is_plain(node, self.program.backend):
            return True
        host_values = self.hosted | self.constants
        return any(step.operands[i] not in host_values for i in value_inputs(node))

    def _mark_operands(self, step: Step) -> None:
        """Mark the operands of a step as used, if its result is used."""
        index = step.position
        if index in self.driven:
            self.results.update(step.operands)
        elif index not in self.hosted:
            deciding = value_inputs(step.node)
            for i, x in enumerate(step.operands):
                self._mark_use(self.stage[index], x, must_know=i in deciding)
        else:
            if index in self.results:
                self.results.update(step.operands)
            for k in self.inner.get(index, ()):
                for x in step.operands:
                    self._mark_use(k, x, must_know=True)

    def _mark_use(self, segment: int, index: int, *, must_know: bool) -> None:
        """Mark a value as an array argument of a segment, or as a value it must know."""
        if index in self.constants:
            return
        step = self.steps.get(index)
        if step is not None and index not in self.driven:
            if index not in self.hosted and self.stage[index] == segment:
                return
            if index in self.hosted and self.after[index] > segment:
                self.inner.setdefault(index, set()).add(segment)
                return
        self.results.add(index)
        arrays, values = self.uses.setdefault(segment, (set(), set()))
        (values if must_know and index in self.hosted else arrays).add(index)

    def arguments_of(self, segment: int) -> tuple[set[int], set[int]]:
        """Return the indices of a segment's array arguments, and of its static values."""
        arrays, static = self.uses.get(segment, (set(), set()))
        return arrays - static, static


def steps_between_segments(program: Program) -> list[Step]:
    """Return the steps of a program that run between segments."""
    placement = _SegmentPlacement(program)
    return [step for step in program.steps if step.position in placement.driven]


def is_plain(node: Node, backend: Backend) -> bool:
    """Return whether MLX can compile a node as part of a segment, given its known values."""
    op = node.op
    if isinstance(op, BETWEEN_SEGMENTS) or backend.calls_back(node):
        return False
    if isinstance(op, Recurrence):
        return bool(node.type.is_static and math.prod(node.type.shape) <= MAX_UNROLLED_SIZE)
    if not isinstance(op, Loop):
        return True
    if (
        op.steps is None
        or op.steps > MAX_UNROLLED_STEPS
        or op.stops
        or op.counted
        or size_of(node) > MAX_UNROLLED_SIZE
    ):
        return False
    (step,), (passed,) = op.graphs(), op.passes()
    deciding = value_inputs(node)
    host = analyse(step, [i for i, position in enumerate(passed) if position in deciding])
    return all(
        isinstance(inner.op, Input | Constant)
        or (
            is_plain(inner, backend)
            and all(inner.inputs[i] in host.nodes for i in value_inputs(inner))
        )
        for inner in step.nodes
    )


def size_of(node: Node) -> int:
    """Return the number of MLX operations of a node, with loops unrolled."""
    op = node.op
    if isinstance(op, Elementwise | Threefry) and op in SIZES:
        return SIZES[op]()
    times = op.steps or 1 if isinstance(op, Loop) else 1
    return max(1, times * sum(size_of(inner) for held in op.graphs() for inner in held.nodes))
