"""Loops on MLX, which has no loop: steps are unrolled in chunks while MLX traces.

A loop of any length consists of chunks of some tens of steps. Each chunk is one compiled function,
called from Python and evaluated while Python prepares the next one. A loop in a traced program is
unrolled in it; if that is too long, or needs a value, the outer loop runs step by step instead.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.ir import Graph, TupleType, is_integer
from graphc.ir.law import deciding_in_graph
from graphc.link.checks import naming_step
from graphc.link.mlx import arrays
from graphc.link.mlx.backend import backend, held_program
from graphc.link.mlx.devices import device_choice
from graphc.link.mlx.segments import (
    DRIVERS,
    CompiledFunction,
    Driver,
    Segments,
    constants_of,
    size_of,
)
from graphc.link.program import Program
from graphc.loop.build import ENDLESS
from graphc.loop.loop import Loop
from graphc.loop.step import LoopInputs

CHUNK = 32
"""Number of steps traced as one chunk, unless ``unroll`` sets it.

A step takes the same time in chunks of 8 to 128 steps, and larger chunks take longer to trace.
"""

MAX_TAIL_LENGTHS = 4
"""Number of lengths of last chunks that are compiled. Other last chunks are split into powers of
two, so that loops of ever new lengths stop compiling."""

FIRST_CHUNK = 8
"""Number of steps in the first chunk of a loop that can stop."""

EVALUATE_EVERY = 8
"""Number of steps, run one by one, after which the results are evaluated."""

Step = Callable[..., Sequence[Any]]


@backend.lower(Loop)
def loop(op: Loop, *values: Any) -> tuple[Any, ...]:
    """Unroll all steps in the program that MLX traces."""
    inputs = _convert_inputs(op, op.parts(values))
    n = op.number_of_steps(inputs)
    if n == ENDLESS:
        raise arrays.NotTraceableError
    step = _TracedStep(op, inputs.consts)
    count = inputs.count
    if isinstance(count, mx.array) or op.stops:
        *results, steps_done, _ = _run_masked(step, inputs, n, count)
        return (*results, steps_done) if op.stops else tuple(results)
    return _unroll(step, inputs, n, n if count is None else int(count))


def _convert_inputs(op: Loop, inputs: LoopInputs[Any]) -> LoopInputs[Any]:
    """Return the inputs as MLX arrays, except values that must be known."""
    deciding = set(deciding_in_graph(op.step))
    pairs = enumerate(inputs.consts, op.carries + op.sequences)
    consts = [arrays.host_array(x) if i in deciding else arrays.device_array(x) for i, x in pairs]
    steps = None if inputs.steps is None else arrays.host_array(inputs.steps)
    init, xs = ([arrays.device_array(x) for x in part] for part in (inputs.init, inputs.xs))
    return LoopInputs(steps, inputs.count, init, xs, consts)


class _TracedStep:
    """A loop's step with its constants, while MLX traces it.

    Attributes:
        apart: Whether no operation is fused with the next step's.
    """

    def __init__(
        self,
        op: Loop,
        consts: Sequence[Any],
        program: Program | None = None,
        *,
        apart: bool = False,
    ) -> None:
        self.op = op
        self.consts = consts
        self.apart = apart
        program = program or step_program(op, consts)
        self.size = len(program.steps)
        self.trace = naming_step(op.title, program.trace)

    def __call__(self, carry: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
        if (trace := arrays.current()) is not None:
            trace.spend(self.size)
        outputs = [arrays.device_array(y) for y in self.trace(*carry, *elements, *self.consts)]
        self.op.check_carry(carry, outputs)
        if self.apart:
            outputs = [
                arrays.end_of_kernel(y) if i < len(carry) else y for i, y in enumerate(outputs)
            ]
        return outputs


def step_program(op: Loop, consts: Sequence[Any]) -> Program:
    """Return a step as a program, given its constants on the host."""
    return held_program(op.step, arrays.host_positions(consts, op.carries + op.sequences))


def _unroll(step: _TracedStep, inputs: LoopInputs[Any], n: int, done: int) -> tuple[Any, ...]:
    """Return the carries and rows after ``done`` of ``n`` steps."""
    op = step.op
    carry, rows = list(inputs.init), _RowBuffer(op)
    elements = [_slice_elements(x, done) for x in inputs.xs]
    for i in range(done)[:: -1 if op.reverse else 1]:
        outputs = step(carry, [x[i] for x in elements])
        carry = outputs[: op.carries]
        rows.put(op.rows_of(outputs))
    return (*carry, *rows.stack(0, n - done, partial(_blank_rows, op, step, inputs)))


def _run_masked(step: _TracedStep, inputs: LoopInputs[Any], n: int, count: Any) -> tuple[Any, ...]:
    """Run all steps, and discard the results of steps after the last one that counts.

    Return the carries, the rows, the number of steps that counted, and whether another would count.
    """
    op = step.op
    carry, rows = list(inputs.init), _RowBuffer(op)
    elements = [_slice_elements(x, n) for x in inputs.xs]
    runs, counted = mx.array(True), []
    within = None if count is None else _slice_elements(mx.arange(n) < count, n)
    for i in range(n)[:: -1 if op.reverse else 1]:
        outputs = step(carry, [x[i] for x in elements])
        here = runs if within is None else mx.logical_and(runs, within[i])
        carry = [mx.where(here, new, old) for new, old in zip(outputs, carry, strict=False)]
        rows.put([mx.where(here, y, mx.zeros_like(y)) for y in op.rows_of(outputs)])
        counted.append(here)
        if op.stops:
            runs = mx.logical_and(runs, mx.logical_not(mx.logical_and(here, outputs[-1])))
    steps_done = mx.sum(mx.stack(counted).astype(mx.int64)) if counted else mx.array(0, mx.int64)
    return (*carry, *rows.stack(0, 0, partial(_blank_rows, op, step, inputs)), steps_done, runs)


def _slice_elements(x: Any, n: int) -> list[Any]:
    """Return the first n elements of a sequence as views, by one MLX operation each."""
    if not n:
        return []
    if arrays.saves_dynamic_lengths():
        return [mx.take(x, i, 0) for i in range(n)]
    trace = arrays.current()
    if trace is not None and trace.is_users:  # MLX cannot batch as_strided
        return [mx.squeeze(x[i : i + 1], 0) for i in range(n)]
    shape = x.shape[1:]
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    flat = mx.reshape(arrays.contiguous(x), (-1,))
    return [mx.as_strided(flat, shape, strides, i * math.prod(shape)) for i in range(n)]


class _RowBuffer:
    """Rows in the order of the steps, to be stacked in the order of their indices."""

    def __init__(self, op: Loop) -> None:
        self.op = op
        self.single: list[list[Any]] = [[] for _ in range(op.stacked)]
        self.blocks: list[list[Any]] = [[] for _ in range(op.stacked)]

    def put(self, rows: Sequence[Any]) -> None:
        for rows_so_far, row in zip(self.single, rows, strict=True):
            rows_so_far.append(row)

    def put_several(self, rows: Sequence[Any]) -> None:
        for blocks, block in zip(self.blocks, rows, strict=True):
            blocks.append(block)

    def join(self) -> list[Any]:
        """Stack the rows that were added one by one."""
        stacks = [_stack_rows(self._order(rows)) for rows in self.single if rows]
        if stacks:
            self.put_several(stacks)
            self.single = [[] for _ in self.single]
        return stacks

    def stack(self, before: int, after: int, blank: Callable[[], Sequence[Any]]) -> list[Any]:
        """Return all rows, with zero rows before and after."""
        self.join()
        if not self.op.stacked:
            return []
        if not self.blocks[0]:
            return [mx.zeros((before + after, *row.shape), row.dtype) for row in blank()]
        return [self._join(before, after, self._order(blocks)) for blocks in self.blocks]

    def _join(self, before: int, after: int, blocks: list[Any]) -> Any:
        shape, dtype = blocks[0].shape[1:], blocks[0].dtype
        if before:
            blocks = [mx.zeros((before, *shape), dtype), *blocks]
        if after:
            blocks = [*blocks, mx.zeros((after, *shape), dtype)]
        return mx.concatenate(blocks) if len(blocks) > 1 else blocks[0]

    def _order(self, items: list[Any]) -> list[Any]:
        return items[::-1] if self.op.reverse else items


def _stack_rows(rows: list[Any]) -> Any:
    """Return stacked rows; only scalars need a new axis before they are concatenated."""
    if rows[0].ndim and not arrays.saves_dynamic_lengths():
        return mx.reshape(mx.concatenate(rows), (len(rows), *rows[0].shape))
    return mx.stack(rows)


def _blank_rows(op: Loop, step: Step, inputs: LoopInputs[Any]) -> list[Any]:
    """Return rows of zeros of the right shapes, for a loop of no steps."""
    blanks = [mx.zeros(x.shape[1:], x.dtype) for x in inputs.xs]
    shapes = op.blank_shapes(inputs.init, lambda: step(inputs.init, blanks))
    rows = op.rows_of(op.step.outputs)
    pairs = zip(shapes, rows, strict=True)
    return [mx.zeros(shape, arrays.dtype_of(y.type.dtype)) for shape, y in pairs]


class LoopDriver:
    """A loop that runs from Python, in chunks or step by step.

    Attributes:
        functions: Compiled chunks, by their number of steps and their known values.
        programs: Programs of a step, by the positions of its constants on the host.
        bodies: Segments of a step, by the positions of its constants on the host.
        tails: Lengths of last chunks so far.
        max_chunk: Maximum number of steps in a chunk.
        longest: The same for some shapes; 0 if steps run one by one.
    """

    def __init__(self, op: Loop, options: Mapping[str, Any]) -> None:
        self.op = op
        self.options = options
        self.functions: OrderedDict[Any, CompiledFunction] = OrderedDict()
        self.programs: dict[tuple[int, ...], Program] = {}
        self.bodies: dict[tuple[int, ...], Segments] = {}
        self.tails: set[int] = set()
        self.longest: OrderedDict[Any, int] = OrderedDict()
        size = sum(map(size_of, op.step.nodes))
        self.max_chunk = min(
            op.unroll if op.unroll > 1 else CHUNK, max(1, arrays.MAX_OPERATIONS // size)
        )

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Return the results: MLX arrays, and NumPy's number of steps done."""
        call = _LoopCall(self, self.op.parts(values))
        # A nested loop in the step may be longer for other shapes.
        key = tuple([x.shape for x in values])
        longest = self.longest.get(key, self.max_chunk)
        while longest:
            try:
                return call.run_in_chunks(longest)
            except arrays.NotTraceableError:
                longest //= 4
                arrays.put_bounded(self.longest, key, longest)
        return call.run_in_steps()

    def sizes(self, steps: int, longest: int) -> Iterator[int]:
        """Return the number of steps in each chunk."""
        size = min(FIRST_CHUNK, longest) if self.op.stops else longest
        while steps >= size:
            yield size
            steps -= size
            # A loop may stop soon, and later steps would be wasted.
            size = longest
        if steps in self.tails or (steps and len(self.tails) < MAX_TAIL_LENGTHS):
            self.tails.add(steps)
            yield steps
            return
        while steps:
            size = 1 << (steps.bit_length() - 1)
            yield size
            steps -= size

    def body(self, consts: Sequence[Any]) -> Segments:
        """Return a step as segments."""
        op = self.op
        positions = arrays.host_positions(consts, op.carries + op.sequences)
        if positions not in self.bodies:
            self.bodies[positions] = Segments(held_program(op.step, positions), self.options)
        return self.bodies[positions]

    def chunk(self, size: int, consts: Sequence[Any], known: Any) -> CompiledFunction:
        """Return a compiled function of several steps with these known values."""
        function = self.functions.get((size, known))
        if function is None:
            fixed = [None if isinstance(x, mx.array) else x for x in consts]
            constants = constants_of(self.op.step.nodes)
            function = CompiledFunction(
                partial(self.steps_of, size, fixed), constants, self.options
            )
            arrays.put_bounded(self.functions, (size, known), function)
        return function

    def steps_of(self, size: int, fixed: Sequence[Any], *operands: Any) -> Sequence[Any]:
        """Return the carries and rows of several steps.

        If the loop can stop, also return the number of steps that counted, and whether another
        would.
        """
        op, remaining = self.op, iter(operands)
        init, xs = list(islice(remaining, op.carries)), list(islice(remaining, op.sequences))
        consts = [next(remaining) if x is None else x for x in fixed]
        # Kernels fused across steps would be compiled for each length.
        is_last = size < self.max_chunk and device_choice("fuses by C++")
        positions = arrays.host_positions(consts)
        if positions not in self.programs:
            self.programs[positions] = step_program(op, consts)
        step = _TracedStep(op, consts, self.programs[positions], apart=is_last)
        inputs = LoopInputs(None, None, init, xs, consts)
        if op.stops:
            return _run_masked(step, inputs, size, None)
        return _unroll(step, inputs, size, size)


class _LoopCall:
    """A call of a loop that runs from Python.

    Attributes:
        steps: Length of the rows.
        max_steps: Number of steps, unless the loop stops before.
    """

    def __init__(self, driven: LoopDriver, values: LoopInputs[Any]) -> None:
        self.driven = driven
        self.op = driven.op
        self.values = values
        self.inputs = _convert_inputs(driven.op, values)
        self.steps = driven.op.number_of_steps(self.inputs)
        count = values.count
        self.max_steps = (
            self.steps if count is None else min(int(arrays.host_array(count)), self.steps)
        )

    def run_in_chunks(self, longest: int) -> tuple[Any, ...]:
        op, inputs = self.op, self.inputs
        # Views would need a separate kernel in the first step: another run of the C++ compiler.
        carry, rows = [mx.contiguous(x) for x in inputs.init], _RowBuffer(op)
        constants = [x for x in inputs.consts if isinstance(x, mx.array)]
        static = tuple([arrays.key_of(x) for x in inputs.consts if not isinstance(x, mx.array)])
        steps_run = steps_done = 0
        for size in self.driven.sizes(self.max_steps, longest):
            first = self.max_steps - steps_run - size if op.reverse else steps_run
            xs = inputs.xs if size == self.steps else [x[first : first + size] for x in inputs.xs]
            results = self.driven.chunk(size, inputs.consts, static)(*carry, *xs, *constants)
            carry = results[: op.carries]
            rows.put_several(op.rows_of(results))
            steps_run += size
            if op.stops:
                mx.eval(results)
                steps_done += int(results[-2])
                if not bool(results[-1]):
                    break
            elif size < self.max_steps:
                mx.async_eval(results)  # type: ignore[no-untyped-call]
        return self._results(carry, rows, steps_run, steps_done)

    def run_in_steps(self) -> tuple[Any, ...]:
        op, inputs = self.op, self.inputs
        carry, rows = list(inputs.init), _RowBuffer(op)
        step = naming_step(op.title, self.driven.body(self.values.consts).run, numbered=True)
        steps_run = 0
        for i in range(self.max_steps)[:: -1 if op.reverse else 1]:
            outputs = step(*carry, *[x[i] for x in inputs.xs], *self.values.consts)
            outputs = [arrays.device_array(y) for y in outputs]
            op.check_carry(carry, outputs)
            carry = outputs[: op.carries]
            rows.put(op.rows_of(outputs))
            steps_run += 1
            if op.stops and bool(outputs[-1]):
                break
            if steps_run % EVALUATE_EVERY == 0:
                mx.async_eval(*carry, *rows.join())  # type: ignore[no-untyped-call]
        return self._results(carry, rows, steps_run, steps_run)

    def _results(
        self, carry: Sequence[Any], rows: _RowBuffer, steps_run: int, steps_done: int
    ) -> tuple[Any, ...]:
        before = self.max_steps - steps_run if self.op.reverse else 0
        after = self.steps - steps_run - before if self.op.stacked else 0
        stacks = rows.stack(before, after, self._blank_rows)
        return (*carry, *stacks, *([np.array(steps_done, np.int64)] if self.op.stops else []))

    def _blank_rows(self) -> Sequence[Any]:
        try:
            return _blank_rows(self.op, _TracedStep(self.op, self.inputs.consts), self.inputs)
        except arrays.NotTraceableError:
            return _blank_rows(self.op, self._single, self.inputs)

    def _single(self, carry: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        consts = self.values.consts
        return [*map(arrays.device_array, self.driven.body(consts).run(*carry, *elements, *consts))]


MAX_ON_HOST = 64
"""Number of elements up to which NumPy computes a step of integers sooner than MLX starts it."""


def loop_driver(op: Loop, options: Mapping[str, Any]) -> Driver:
    """Return a driver of a loop; NumPy runs loops of a few integers alone, such as keys."""
    if op.sequences or not _computes_few_integers(op.step):
        return LoopDriver(op, options)

    def run_on_host(*values: Any) -> tuple[Any, ...]:
        results = op.perform(*map(arrays.host_array, values))
        end = op.carries + op.stacked
        return (*map(arrays.device_array, results[:end]), *results[end:])

    return run_on_host


def _computes_few_integers(graph: Graph) -> bool:
    return all(
        _has_few_integers(node.type) and all(map(_computes_few_integers, node.op.graphs()))
        for node in graph.nodes
    )


def _has_few_integers(type: Any) -> bool:
    if isinstance(type, TupleType):
        return all(map(_has_few_integers, type.items))
    return is_integer(type.dtype) and type.is_static and math.prod(type.shape) <= MAX_ON_HOST


DRIVERS[Loop] = loop_driver
