"""Profiles of programs that JAX runs: by compiled fusion, or by operation.

The program is compiled again with a scope for each operation, so that JAX's profiler reports the
operations of each fusion. Ordinary calls have no scopes, and the executable is not stored.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import numpy as np

from graphc.ir import Node
from graphc.link.call_spec import CallSpec
from graphc.link.jax.backend import array, backend, device_of, wide
from graphc.link.jax.executables import fix_arguments
from graphc.link.jax.fusions import (
    HOLDERS,
    MODULE,
    Instruction,
    Run,
    TraceEvent,
    events,
    instructions,
    runs,
)
from graphc.link.jax.hlo import Scoped
from graphc.link.jax.mesh import layout_of
from graphc.link.jax.traced import TracedProgram
from graphc.link.profile import Measurement, ProgramPart, ProgramParts, Stopwatch, time_calls
from graphc.link.program import Program, observing
from graphc.progress import stage
from graphc.tensor.linalg.dot import DotGeneral

BY_FUSION = "each compiled fusion timed by jax.profiler"
INCOMPLETE = f"{BY_FUSION}, which left out some events (a smaller repeat= has fewer)"
BY_OPERATION = "each operation timed by itself, nothing fused"


def measure(
    program: Program,
    options: Mapping[str, Any],
    arguments: Sequence[Any],
    repeat: int,
    *,
    fused: bool,
) -> Measurement:
    """Measure the fusions of the compiled program, or each operation."""
    with _settings(program, options):
        run = _Profiled(program, options, arguments)
        run.compile()
        results = run()
        alone = time_calls(run, repeat)
        method, seconds, times = _by_fusion(run, repeat) if fused else (BY_OPERATION, 0.0, [])
        if not times:
            seconds, times = _by_operation(run, repeat)
    return Measurement(method, seconds, alone, times, run.phases, results)


@contextmanager
def _settings(program: Program, options: Mapping[str, Any]) -> Iterator[None]:
    device = device_of(options)
    with ExitStack() as stack:
        if wide(program):
            stack.enter_context(jax.enable_x64(True))
        if device is not None:
            stack.enter_context(jax.default_device(device))
        yield


class _Profiled:
    """A program that JAX compiles with a scope for each operation.

    Attributes:
        program: The profiled program.
        spec: The call specification of the program.
        layout: The mesh that the program runs over, or None.
        arguments: NumPy arrays if their values decide shapes, else JAX arrays.
        nodes: The nodes with scopes; the index of a node is the number of its scope.
        phases: The seconds that each phase of compilation took.
        text: The text of the compiled program.
    """

    def __init__(
        self, program: Program, options: Mapping[str, Any], arguments: Sequence[Any]
    ) -> None:
        self.program = program
        self.spec = CallSpec.of(
            program.graph, program.host, single=False, facts=backend.facts(program)
        )
        self.layout = layout_of(options)
        self.arguments = [
            np.asarray(x) if i in self.spec.static else self._put(i, x, options)
            for i, x in enumerate(arguments)
        ]
        self._scoped = Scoped()
        self.nodes = self._scoped.nodes
        self.phases: dict[str, float] = {}
        self.text = ""

    def _put(self, position: int, value: Any, options: Mapping[str, Any]) -> Any:
        """Transfer an argument to the device, or to its declared sharding over the mesh."""
        node = self.program.arguments[position]
        if self.layout is None:
            return array(value, node.type, options)
        x = np.asarray(value, node.type.numpy_dtype)
        return self.layout.home(self.spec.shardings[position]).put(x, repr(node))

    def rebuild(self) -> Program:
        """Build the program again, with an observer's functions."""
        return Program(self.program.graph, backend, self.program.host)

    def compile(self) -> None:
        """Compile the program with scopes, and measure the phases."""
        traced = TracedProgram(self.spec, self.rebuild, self.layout)
        static = {i: self.arguments[i] for i in self.spec.static}
        self._passed = [x for i, x in enumerate(self.arguments) if i not in static]
        function = fix_arguments(traced.function, static)
        function.__name__ = MODULE
        times = [perf_counter()]
        with stage("JAX compiles for a profile", blocking=True), observing(self._scoped):
            jaxpr = jax.jit(function).trace(*self._passed)
            times.append(perf_counter())
            lowered = jaxpr.lower()
            times.append(perf_counter())
            compiled = lowered.compile()
            times.append(perf_counter())
        seconds = [end - start for start, end in pairwise(times)]
        self.phases = dict(zip(("tracing", "lowering", "compiling by XLA"), seconds, strict=True))
        self.text = compiled.as_text() or ""
        self._execute = traced.trim(compiled) if traced.is_padded else compiled

    def __call__(self) -> Any:
        return jax.block_until_ready(self._execute(*self._passed))  # type: ignore[no-untyped-call]


# By fusion.


def _by_fusion(run: _Profiled, repeat: int) -> tuple[str, float, list[ProgramPart]]:
    """Return the method, the seconds of all calls, and the parts; no parts if JAX has no times."""
    with tempfile.TemporaryDirectory() as folder:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        try:
            jax.profiler.start_trace(folder, profiler_options=options)
        except RuntimeError:  # JAX runs one profiler at a time
            return f"{BY_OPERATION}, as jax.profiler is in use", 0.0, []
        try:
            seconds = time_calls(run, repeat)
        finally:
            jax.profiler.stop_trace()  # type: ignore[no-untyped-call]
        profiled, is_complete = events(Path(folder))
    times = _parts(profiled, instructions(run.text), run.nodes)
    if not times:
        return f"{BY_OPERATION}, as jax.profiler has no times of XLA's instructions here", 0.0, []
    return BY_FUSION if is_complete else INCOMPLETE, seconds, times


def _parts(
    profiled: Sequence[TraceEvent], program: Mapping[str, Instruction], nodes: Sequence[Node]
) -> list[ProgramPart]:
    """Return the parts of a program, given the events of its calls."""
    table = ProgramParts()
    sources = _Sources(program, nodes, {event.name for event in profiled})
    counts: dict[int, Counter[tuple[bool, str]]] = {}
    for run in runs(profiled):
        part = table.add(*sources.operations(run))
        part.seconds += run.microseconds * 1e-6
        instruction = program.get(run.event.name)
        part.bytes += instruction.bytes if instruction else 0
        counts.setdefault(id(part), Counter())[sources.is_holder(run), run.event.name] += 1
    for part in table.all():
        # An operation ran as often as its most frequent instruction, a loop as often as it started.
        numbers = counts[id(part)]
        starts = [n for (is_holder, _), n in numbers.items() if is_holder]
        part.calls = max(starts or numbers.values())
    return table.all()


class _Sources:
    """The operations that instructions come from, given the names of the instructions that ran."""

    def __init__(
        self, program: Mapping[str, Instruction], nodes: Sequence[Node], ran: Collection[str]
    ) -> None:
        self._program = program
        self._nodes = nodes
        executed = [program[name] for name in ran if name in program]
        named = {i for instruction in executed for path in instruction.scopes for i in path}
        # XLA rewrites some products without the names of their operations.
        unnamed = [node for i, node in enumerate(nodes) if i not in named]
        self._products = [node for node in unnamed if isinstance(node.op, DotGeneral)]
        self._nested = {x for node in nodes for graph in node.op.graphs() for x in graph.nodes}

    def is_holder(self, run: Run) -> bool:
        """Return whether an instruction runs other instructions."""
        instruction = self._program.get(run.event.name)
        return instruction is not None and instruction.kind in HOLDERS

    def operations(self, run: Run) -> tuple[Sequence[Node], Sequence[Node], str]:
        """Return the operations of a run, the operations around them, and a name without any."""
        instruction = self._program.get(run.event.name)
        if instruction is not None and instruction.scopes:
            nodes = [self._nodes[i] for i in instruction.operations]
            return nodes, [self._nodes[i] for i in instruction.inside], ""
        kind = instruction.kind if instruction else run.event.name
        inside = self._around(run.around)
        products = self._unnamed_products(inside) if kind == "dot" else []
        return products, inside, "" if products else f"{kind} (XLA)"

    def _around(self, holder: Run | None) -> Sequence[Node]:
        """Return the operations around the instructions that run in an event."""
        if holder is None:
            return ()
        nodes, inside, _ = self.operations(holder)
        return [*inside, *nodes[:1]] if self.is_holder(holder) else inside

    def _unnamed_products(self, inside: Sequence[Node]) -> Sequence[Node]:
        """Return the matrix products within operations that no instruction names."""
        if not inside:
            return [node for node in self._products if node not in self._nested]
        nested = {x for graph in inside[-1].op.graphs() for x in graph.nodes}
        return [node for node in self._products if node in nested]


# By operation.


def _by_operation(run: _Profiled, repeat: int) -> tuple[float, list[ProgramPart]]:
    """Return the seconds of all calls, and the parts, with each operation computed separately."""
    watch = Stopwatch(jax.block_until_ready)

    def observe(node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
        return watch.observe(node, _CompiledGraph(compute) if node.op.graphs() else compute)

    with observing(observe):
        program = run.rebuild()
    traced = TracedProgram(run.spec, lambda: program)
    execute = traced.trim(traced.function) if traced.is_padded else traced.function
    call = partial(execute, *run.arguments)
    call()
    watch.reset()
    seconds = time_calls(lambda: jax.block_until_ready(call()), repeat)  # type: ignore[no-untyped-call]
    return seconds, watch.parts.all()


class _CompiledGraph:
    """A loop or branch, compiled once: outside of a program JAX would compile it at every call."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        self._compute = compute
        self._compiled: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *values: Any) -> Any:
        if not all(isinstance(x, jax.Array | np.ndarray | np.generic) for x in values):
            return self._compute(*values)
        static = {i: np.asarray(x) for i, x in enumerate(values) if not isinstance(x, jax.Array)}
        key = tuple((i, x.dtype.str, x.shape, x.tobytes()) for i, x in static.items())
        if key not in self._compiled:
            self._compiled[key] = jax.jit(fix_arguments(self._compute, static))
        return self._compiled[key](*[x for i, x in enumerate(values) if i not in static])
