"""A program in segments that MLX compiles, and what is driven from Python between them.

Loops, branches, and whatever needs a value to know a shape stand between segments; each segment is
one function for ``mx.compile``. All it computes with is passed to it: constants too.
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
from graphc.link.mlx.arrays import LIMIT, Trace, bounded, device_array, key_of, own, tracing
from graphc.link.mlx.distributed import agree, noting
from graphc.link.mlx.host import analyse, needed
from graphc.link.mlx.replay import Replayed
from graphc.link.mlx.tiers import Tier
from graphc.link.mlx.watch import Watch, watching
from graphc.link.program import Program, Step
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph
from graphc.random.threefry import Threefry
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import Recurrence
from graphc.tensor.core.elementwise import Elementwise

SHORT = 8
"""A loop of no more steps is written out where it stands."""

FEW = 4
"""The operations that become one kernel or two: a thread to tell of them would cost 1 % of the time
that MLX takes where it has the kernels already."""

LARGE = 512
"""A loop of more operations than that, all its steps together, is not."""

APART = (CoupledRecurrence, Switch, FlexOp, Subgraph)
"""Operations that are always run between segments: values decide what they do, or the user set them
apart."""

Driver = Callable[..., Any]

DRIVERS: dict[type, Callable[[Any, Mapping[str, Any]], Driver]] = {}
"""For operations that hold graphs: a class or function that, given one and the mode's options,
returns what runs it from Python."""

SIZES: dict[Op, Callable[[], int]] = {}
"""The number of MLX operations in a lowering, where it is large."""


def constants_of(nodes: Iterable[Node]) -> dict[Any, np.ndarray[Any, Any]]:
    """The constants that operations, and those in them, compute with, by key."""
    found: dict[Any, np.ndarray[Any, Any]] = {}
    for node in nodes:
        deciding = needed(node) if node.inputs else ()
        for i, x in enumerate(node.inputs):
            if isinstance(x.op, Constant) and i not in deciding:
                found.setdefault(key_of(x.op.value), x.op.value)
        for held in node.op.graphs():
            found |= constants_of(held.nodes)
    return found


class CompiledFunction:
    """A function of arrays as MLX runs it, with constants as further arguments.

    Attributes:
        function: Takes arrays, and gives a list of them.
        constants: The values, by key.
        shapes: Those of the arrays that it was traced for.
        run: Takes arrays and constants: fused by ``mx.compile``, or an operation at a time.
        exchanges: For shapes for which it has sums over processes, what these are of.
        watch: Of the executable that it is all of, which opens a call only when MLX compiles.
        fused: What runs it, once that is fused.
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
            self.run = partial(self._unfused, self.tier, replayed)

    def fuse(self) -> None:
        """Run fused from now on."""
        self.run = self.fused = mx.compile(self.fusible)

    def fusible(self, *arrays: Any) -> Any:
        """The results, for MLX to trace and fuse."""
        return self.trace(*arrays)

    def outputs(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The results as they are fused, traced by MLX and not evaluated."""
        return mx.compile(partial(self.trace))(*arrays)

    def trace(self, *arrays: Any, fuses: bool = True) -> list[Any]:
        """The results, while MLX traces."""
        constants = dict(zip(self.keys, arrays[len(arrays) - len(self.keys) :], strict=True))
        return self._results(arrays, Trace(constants, fuses=fuses))

    def plain(self, *arrays: Any) -> list[Any]:
        """The results, by Python's calls of MLX."""
        return own(self._results(arrays, None), arrays)

    def _results(self, arrays: Sequence[Any], trace: Trace | None) -> list[Any]:
        # Without a trace, it is called for known shapes too.
        shapes = tuple([x.shape for x in arrays])
        given = arrays[: len(arrays) - len(self.keys)]
        if shapes not in self.shapes:
            call = watching() if self.watch is None else self.watch.open(given)
            if call is not None:
                call.compiles()
        with tracing(trace), noting() as exchanges:
            found = [device_array(y) for y in self.function(*given)]
        if exchanges:
            self.exchanges[shapes] = "; ".join(exchanges)
        self.shapes.add(shapes)
        return found

    def _unfused(self, tier: Tier, replayed: Callable[..., Any], *arrays: Any) -> Any:
        tier.note(self, arrays)
        return replayed(*arrays)

    def __call__(self, *arrays: Any) -> Any:
        arrays = (*arrays, *self.constants)
        found = self.run(*arrays)
        # Of a function that the user's code transforms, nothing is known to be called.
        if self.exchanges and watching() is not None:
            agree(self.exchanges[tuple([x.shape for x in arrays])])
        return found


class UntracedError(Exception):
    """MLX would have to trace a whole program for a call that does not let it."""


class WholeProgram(CompiledFunction):
    """A program as one function, which MLX traces only in calls that say so.

    Other calls have nothing to check: MLX refuses them where they have other shapes than calls
    before, and where it traces the code around them.

    Attributes:
        may_trace: Whether MLX may trace it.
        when_fused: Called when it has run fused.
    """

    may_trace = False
    when_fused: Callable[[Callable[..., Any]], None] | None = None

    def fusible(self, *arrays: Any) -> Any:
        """The results, for MLX to trace and fuse.

        Raises:
            UntracedError: It may not.
        """
        if not self.may_trace:
            raise UntracedError
        # A call within the program, by the user's code, is another one.
        self.may_trace = False
        try:
            return self.trace(*arrays)
        finally:
            self.may_trace = True

    def traceable(self, *arrays: Any) -> Any:
        """The results; MLX may trace."""
        self.may_trace = True
        try:
            found = self(*arrays)
        finally:
            self.may_trace = False
        if self.fused is not None and self.when_fused is not None:
            self.when_fused(self.fused)
            self.when_fused = None
        return found


@dataclass
class Segment:
    """Steps of a program that are compiled as one.

    Attributes:
        steps: In order.
        arrays: The places of what it takes as arrays.
        known: The places of what it needs to know; there is a function for each set of values.
        results: The places of what is needed of it.
    """

    program: Program
    options: Mapping[str, Any]
    steps: list[Step] = field(default_factory=list)
    arrays: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    functions: OrderedDict[Any, CompiledFunction] = field(default_factory=OrderedDict)

    @cached_property
    def is_large(self) -> bool:
        """Whether what follows would make too deep a graph of it."""
        return 2 * sum(size_of(step.node) for step in self.steps) > LIMIT

    def run(self, values: list[Any]) -> None:
        """Put its results among the values."""
        known = [values[i] for i in self.known]
        key = tuple([key_of(x) for x in known])
        # Taken out and put at the end: another thread may do the same.
        function = self.functions.pop(key, None) or self.made(known)
        bounded(self.functions, key, function)
        arrays = [device_array(values[i]) for i in self.arrays]
        for i, y in zip(self.results, function(*arrays), strict=True):
            values[i] = y

    def made(self, known: Sequence[Any]) -> CompiledFunction:
        constants = {key_of(x): x for x in known}
        constants |= constants_of([step.node for step in self.steps])
        fixed = [*zip(self.known, known, strict=True), *self.program.constants]
        size = len(self.program.places)

        def traced(*arrays: Any) -> list[Any]:
            values: list[Any] = [None] * size
            for i, x in (*fixed, *zip(self.arrays, arrays, strict=True)):
                values[i] = x
            self.program.advance(self.steps, values)
            return [values[i] for i in self.results]

        return CompiledFunction(traced, constants, self.options)


class Segments:
    """A program that runs segment by segment.

    Attributes:
        stages: For each segment what is run before it, and the segment, which may be empty.
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        self.program = program
        self.options = options
        self.places = _Placement(program)
        self.stages: list[tuple[list[Step], Segment]] = []
        self._cut()

    def run(self, *arguments: Any) -> list[Any]:
        """The outputs: MLX arrays, or NumPy's where they are known on the host."""
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
        """Whether MLX may make more than a kernel or two of it."""
        return bool(self.places.driven) or sum(self.places.sizes.values()) > FEW

    @property
    def direct(self) -> WholeProgram | None:
        """The whole program as one function of MLX's, where one segment is all and knows nothing.

        What it checks of its arguments it does while MLX traces, for each combination of shapes.
        """
        if len(self.stages) != 1 or self.options["compile"] is False:
            return None
        ((before, segment),) = self.stages
        if before or segment.known:
            return None
        nodes = [step.node for step in self.program.steps]
        return WholeProgram(self.program.trace, constants_of(nodes), self.options)

    def _cut(self) -> None:
        places = self.places
        count = 1 + max((places.stage[s.place] for s in self.program.steps), default=0)
        segments = [Segment(self.program, self.options) for _ in range(count + 1)]
        before: list[list[Step]] = [[] for _ in segments]
        for step in self.program.steps:
            place = step.place
            if place in places.driven:
                before[places.stage[place]].append(_driven(step, self.options))
            elif place in places.hosted:
                if place in places.results:
                    before[places.after[place]].append(step)
                for k in places.inner.get(place, ()):
                    segments[k].steps.append(step)
            else:
                segment = segments[places.stage[place]]
                segment.steps.append(step)
                if place in places.results:
                    segment.results.append(place)
        for k, segment in enumerate(segments):
            segment.arrays, segment.known = map(sorted, places.taken(k))
        self.stages = [
            stage for stage in zip(before, segments, strict=True) if stage[0] or stage[1].results
        ]


class _Placement:
    """Where each step of a program is run.

    Attributes:
        hosted: The places of what NumPy computes.
        driven: The places of what is run between segments.
        stage: For each place the segment that it belongs to, or that it is run before.
        after: For what NumPy computes, the segment before which it can be known.
        results: The places of values that are needed outside of the segment that makes them.
        inner: For what NumPy computes, the segments in which it is computed while MLX traces.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        host = program.host.nodes if program.host else frozenset()
        self.constants = {i for i, _ in program.constants}
        self.steps = {step.place: step for step in program.steps}
        self.hosted = {s.place for s in program.steps if s.node in host}
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
            self._want(step)

    def _place(self, step: Step) -> None:
        if self._is_driven(step):
            self.driven.add(step.place)
        outside = max((self._known(i) for i in step.operands), default=0)
        if step.place in self.driven:
            self.stage[step.place] = outside
            return
        stage = max((self.stage.get(i, 0) for i in step.operands), default=0)
        self.after[step.place] = outside
        if step.place not in self.hosted:
            size = size_of(step.node)
            while self.sizes[stage] + size > LIMIT and self.sizes[stage]:
                stage += 1
            self.sizes[stage] += size
        self.stage[step.place] = stage

    def _known(self, place: int) -> int:
        """The first segment before which a value is there."""
        if place not in self.steps or place in self.driven:
            return self.stage.get(place, 0)
        return self.after[place] if place in self.hosted else self.stage[place] + 1

    def _is_driven(self, step: Step) -> bool:
        node = step.node
        if isinstance(node.op, Pick):
            return step.operands[0] in self.driven
        if step.place not in self.hosted and not is_plain(node, self.program.backend):
            return True
        known = self.hosted | self.constants
        return any(step.operands[i] not in known for i in needed(node))

    def _want(self, step: Step) -> None:
        """Note the values that a step needs, if it is needed itself."""
        place = step.place
        if place in self.driven:
            self.results.update(step.operands)
        elif place not in self.hosted:
            deciding = needed(step.node)
            for i, x in enumerate(step.operands):
                self._use(self.stage[place], x, i in deciding)
        else:
            if place in self.results:
                self.results.update(step.operands)
            for k in self.inner.get(place, ()):
                for x in step.operands:
                    self._use(k, x, known=True)

    def _use(self, segment: int, place: int, known: bool) -> None:
        """A segment computes with it, or needs to know it."""
        if place in self.constants:
            return
        step = self.steps.get(place)
        if step is not None and place not in self.driven:
            if place not in self.hosted and self.stage[place] == segment:
                return
            if place in self.hosted and self.after[place] > segment:
                self.inner.setdefault(place, set()).add(segment)
                return
        self.results.add(place)
        arrays, values = self.uses.setdefault(segment, (set(), set()))
        (values if known and place in self.hosted else arrays).add(place)

    def taken(self, segment: int) -> tuple[set[int], set[int]]:
        """The places of a segment's array arguments, and of the values that it must know."""
        arrays, known = self.uses.get(segment, (set(), set()))
        return arrays - known, known


def driven_steps(program: Program) -> list[Step]:
    """The steps of a program that are run between segments."""
    places = _Placement(program)
    return [step for step in program.steps if step.place in places.driven]


def is_plain(node: Node, backend: Backend) -> bool:
    """Whether it can be a part of what MLX compiles, given what it needs to know."""
    op = node.op
    if isinstance(op, APART) or backend.calls_back(node):
        return False
    if isinstance(op, Recurrence):
        return bool(node.type.is_static and math.prod(node.type.shape) <= LARGE)
    if not isinstance(op, Loop):
        return True
    if op.steps is None or op.steps > SHORT or op.stops or op.counted or size_of(node) > LARGE:
        return False
    (step,), (passed,) = op.graphs(), op.passes()
    deciding = needed(node)
    host = analyse(step, [i for i, place in enumerate(passed) if place in deciding])
    return all(
        isinstance(inner.op, Input | Constant)
        or (is_plain(inner, backend) and all(inner.inputs[i] in host.nodes for i in needed(inner)))
        for inner in step.nodes
    )


def size_of(node: Node) -> int:
    """The number of operations in MLX's program, where loops are written out."""
    op = node.op
    if isinstance(op, Elementwise | Threefry) and op in SIZES:
        return SIZES[op]()
    times = op.steps or 1 if isinstance(op, Loop) else 1
    return max(1, times * sum(size_of(inner) for held in op.graphs() for inner in held.nodes))


def _driven(step: Step, options: Mapping[str, Any]) -> Step:
    """A step that is run from Python."""
    make = DRIVERS.get(type(step.node.op))
    if make is None:
        return step
    return Step(step.node, step.checks, make(step.node.op, options), step.operands, step.place)
