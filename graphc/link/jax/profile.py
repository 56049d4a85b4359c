"""Profiles of programs that JAX runs: by compiled fusion, or by operation.

The program is compiled anew with a scope for each operation, so that the profiler of JAX tells of
which operations a fusion is made. Ordinary calls have no scopes, and no executable is kept.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
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
from graphc.link.jax.counts import Count
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

FUSED = "each compiled fusion timed by jax.profiler"
CUT = f"{FUSED}, which left out some events (a smaller repeat= has fewer)"
APART = "each operation timed by itself, nothing fused"


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
        method, seconds, parts = _by_fusion(run, repeat) if fused else (APART, 0.0, [])
        if not parts:
            seconds, parts = _apart(run, repeat)
    return Measurement(method, seconds, alone, parts, run.phases, results)


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
        program: What is profiled.
        spec: How it is called.
        layout: The mesh that it runs over, if there is one.
        arguments: NumPy arrays where values decide shapes, and else arrays of JAX's.
        nodes: Each operation that has a scope; its place is the scope's number.
        phases: The seconds that each phase of compiling took.
        text: The compiled program.
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
            np.asarray(x) if i in self.spec.static else self._placed(i, x, options)
            for i, x in enumerate(arguments)
        ]
        self._scoped = Scoped()
        self.nodes = self._scoped.nodes
        self.phases: dict[str, float] = {}
        self.text = ""

    def _placed(self, place: int, value: Any, options: Mapping[str, Any]) -> Any:
        """An argument as a call has it: on a device, or divided over the mesh as declared."""
        node = self.program.arguments[place]
        if self.layout is None:
            return array(value, node.type, options)
        whole = np.asarray(value, node.type.numpy_dtype)
        return self.layout.home(self.spec.shardings[place]).put(whole, repr(node))

    def rebuilt(self) -> Program:
        """The program anew, as an observer may change it."""
        return Program(self.program.graph, backend, self.program.host)

    def compile(self) -> None:
        """Compile it."""
        traced = TracedProgram(self.spec, self.rebuilt, self.layout)
        static = self.spec.static
        self._given = [x for i, x in enumerate(self.arguments) if i not in static]

        def function(*rest: Any) -> Any:
            left = iter(rest)
            pairs = enumerate(self.arguments)
            return traced.function(*[x if i in static else next(left) for i, x in pairs])

        function.__name__ = MODULE
        times = [perf_counter()]
        with stage("JAX compiles for a profile", blocking=True), observing(self._scoped):
            jaxpr = jax.jit(function).trace(*self._given)
            times.append(perf_counter())
            lowered = jaxpr.lower()
            times.append(perf_counter())
            compiled = lowered.compile()
            times.append(perf_counter())
        taken = [end - start for start, end in pairwise(times)]
        self.phases = dict(zip(("tracing", "lowering", "compiling by XLA"), taken, strict=True))
        self.text = compiled.as_text() or ""
        self._execute = traced.cut(compiled) if traced.is_bounded else compiled

    def __call__(self) -> Any:
        return jax.block_until_ready(self._execute(*self._given))  # type: ignore[no-untyped-call]


# By fusion.


def _by_fusion(run: _Profiled, repeat: int) -> tuple[str, float, list[ProgramPart]]:
    """How it was measured, the seconds of all calls, and the parts; none where JAX gives none."""
    with tempfile.TemporaryDirectory() as folder:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        try:
            jax.profiler.start_trace(folder, profiler_options=options)
        except RuntimeError:  # there can be one at a time
            return f"{APART}, as jax.profiler is in use", 0.0, []
        try:
            seconds = time_calls(run, repeat)
        finally:
            jax.profiler.stop_trace()  # type: ignore[no-untyped-call]
        found, is_whole = events(Path(folder))
    parts = _parts(found, instructions(run.text), run.nodes)
    if not parts:
        return f"{APART}, as jax.profiler has no times of XLA's instructions here", 0.0, []
    return FUSED if is_whole else CUT, seconds, parts


def _parts(
    found: Sequence[TraceEvent], known: Mapping[str, Instruction], nodes: Sequence[Node]
) -> list[ProgramPart]:
    """The parts of a program, given the events of its calls."""
    parts = ProgramParts()
    origin = _Origin(known, nodes, {event.name for event in found})
    counts: dict[int, Counter[tuple[bool, str]]] = {}
    for run in runs(found):
        part = parts.add(*origin.place(run))
        part.seconds += run.microseconds * 1e-6
        instruction = known.get(run.event.name)
        part.bytes += instruction.bytes if instruction else 0
        counts.setdefault(id(part), Counter())[origin.holds(run), run.event.name] += 1
    for part in parts.all():
        # An operation of several instructions ran as often as one of them, a loop as it began.
        numbers = counts[id(part)]
        begun = [n for (holds, _), n in numbers.items() if holds]
        part.calls = max(begun or numbers.values())
    return parts.all()


class _Origin:
    """The operations that instructions come from.

    Args:
        known: The program's instructions.
        nodes: The operations by the numbers of their scopes.
        ran: The names of the instructions that ran.
    """

    def __init__(
        self, known: Mapping[str, Instruction], nodes: Sequence[Node], ran: Collection[str]
    ) -> None:
        self._known = known
        self._nodes = nodes
        told = [known[name] for name in ran if name in known]
        named = {i for instruction in told for path in instruction.scopes for i in path}
        # XLA rewrites some products without saying what they were made of.
        unnamed = [node for i, node in enumerate(nodes) if i not in named]
        self._products = [node for node in unnamed if isinstance(node.op, DotGeneral)]
        self._held = {x for node in nodes for graph in node.op.graphs() for x in graph.nodes}

    def holds(self, run: Run) -> bool:
        """Whether other instructions run in it."""
        found = self._known.get(run.event.name)
        return found is not None and found.kind in HOLDERS

    def place(self, run: Run) -> tuple[Sequence[Node], Sequence[Node], str]:
        """The operations, those that they are in, and a name where there are none."""
        instruction = self._known.get(run.event.name)
        if instruction is not None and instruction.scopes:
            made = [self._nodes[i] for i in instruction.operations]
            return made, [self._nodes[i] for i in instruction.inside], ""
        kind = instruction.kind if instruction else run.event.name
        inside = self._around(run.around)
        products = self._lost(inside) if kind == "dot" else []
        return products, inside, "" if products else f"{kind} (XLA)"

    def _around(self, holder: Run | None) -> Sequence[Node]:
        """The operations that what runs in an event is in."""
        if holder is None:
            return ()
        made, inside, _ = self.place(holder)
        return [*inside, *made[:1]] if self.holds(holder) else inside

    def _lost(self, inside: Sequence[Node]) -> Sequence[Node]:
        """The products there that no instruction names."""
        if not inside:
            return [node for node in self._products if node not in self._held]
        held = {x for graph in inside[-1].op.graphs() for x in graph.nodes}
        return [node for node in self._products if node in held]


# By operation.


def _apart(run: _Profiled, repeat: int) -> tuple[float, list[ProgramPart]]:
    """The seconds of all calls, and the parts, with each operation computed by itself."""
    watch = Stopwatch(jax.block_until_ready)

    def observe(node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
        return watch.observe(node, _Compiled(compute) if node.op.graphs() else compute)

    with observing(observe):
        made = run.rebuilt()
    traced = TracedProgram(run.spec, lambda: made)
    execute = traced.cut(traced.function) if traced.is_bounded else traced.function
    call = partial(execute, *run.arguments)
    call()
    watch.reset()
    seconds = time_calls(lambda: jax.block_until_ready(call()), repeat)  # type: ignore[no-untyped-call]
    return seconds, watch.parts.all()


class _Compiled:
    """A loop or branch, compiled once: outside of a program JAX would do so at every call."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        self._compute = compute
        self._made: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *values: Any) -> Any:
        if not all(isinstance(x, jax.Array | np.ndarray | np.generic) for x in values):
            return self._compute(*values)
        known = {i: np.asarray(x) for i, x in enumerate(values) if not isinstance(x, jax.Array)}
        key = tuple((i, x.dtype.str, x.shape, x.tobytes()) for i, x in known.items())
        if key not in self._made:
            self._made[key] = self._compiled(known)
        return self._made[key](*[x for i, x in enumerate(values) if i not in known])

    def _compiled(self, known: Mapping[int, np.ndarray[Any, Any]]) -> Callable[..., Any]:
        """A compiled function of the other operands, given these."""
        counts: dict[int, Count] = {}

        def function(*rest: Any) -> Any:
            left = iter(rest)
            places = range(len(known) + len(rest))
            found = self._compute(*[known[i] if i in known else next(left) for i in places])
            counts.update({i: y for i, y in enumerate(found) if isinstance(y, Count)})
            return [y.value if isinstance(y, Count) else y for y in found]

        compiled = jax.jit(function)

        def run(*rest: Any) -> Any:
            pairs = enumerate(compiled(*rest))
            found = [(counts.get(i), y) for i, y in pairs]
            return tuple([y if n is None else replace(n, given=y, formula=None) for n, y in found])

        return run
