"""Loops on MLX, which has none: steps are written out in chunks while MLX traces.

A loop of any length is chunks of some tens of steps, each one compiled function, called from Python
and evaluated while the next one is put together. A loop within what is being traced is written out
there; where that is too long, or needs a value, the loop around it goes step by step instead.
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

from graphc.ir.law import deciding_in_graph
from graphc.link.checks import naming_step
from graphc.link.mlx.arrays import (
    LIMIT,
    NotTraceableError,
    bounded,
    contiguous,
    current,
    device_array,
    dtype_of,
    end_of_kernel,
    host_array,
    host_places,
    key_of,
    saves_any_length,
)
from graphc.link.mlx.backend import backend, held_program
from graphc.link.mlx.segments import DRIVERS, CompiledFunction, Segments, constants_of, size_of
from graphc.link.program import Program
from graphc.loop.build import ENDLESS
from graphc.loop.loop import Loop
from graphc.loop.step import LoopInputs

CHUNK = 32
"""The number of steps traced as one where ``unroll`` does not say it.

A step takes as long in chunks of 8 to 128, and larger ones take longer to trace.
"""

FEW = 4
"""The number of lengths of last chunks that are compiled as such. Further ones are put together of
powers of two, so that loops of ever new lengths stop compiling."""

FIRST = 8
"""The number of steps in the first chunk of a loop that stops."""

APART = 8
"""The number of steps, run one by one, after which their results are evaluated."""

Step = Callable[..., Sequence[Any]]


@backend.lower(Loop)
def loop(op: Loop, *values: Any) -> tuple[Any, ...]:
    """All steps written out, within what MLX traces."""
    given = _on_device(op, op.parts(values))
    n = op.number_of_steps(given)
    if n == ENDLESS:
        raise NotTraceableError
    step = _Step(op, given.consts)
    count = given.count
    if isinstance(count, mx.array) or op.stops:
        *found, taken, _ = _masked(step, given, n, count)
        return (*found, taken) if op.stops else tuple(found)
    return _written_out(step, given, n, n if count is None else int(count))


def _on_device(op: Loop, given: LoopInputs[Any]) -> LoopInputs[Any]:
    """Arrays, but for what is to be known."""
    deciding = set(deciding_in_graph(op.step))
    places = enumerate(given.consts, op.carries + op.sequences)
    consts = [host_array(x) if i in deciding else device_array(x) for i, x in places]
    steps = None if given.steps is None else host_array(given.steps)
    init, xs = ([device_array(x) for x in part] for part in (given.init, given.xs))
    return LoopInputs(steps, given.count, init, xs, consts)


class _Step:
    """A loop's step with its constants, while it is traced.

    Attributes:
        apart: Whether nothing is fused with what is in the next step.
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
        """The step's outputs."""
        if (trace := current()) is not None:
            trace.spend(self.size)
        found = [device_array(y) for y in self.trace(*carry, *elements, *self.consts)]
        self.op.check_carry(carry, found)
        if self.apart:
            found = [end_of_kernel(y) if i < len(carry) else y for i, y in enumerate(found)]
        return found


def step_program(op: Loop, consts: Sequence[Any]) -> Program:
    """A step as a program, given which of its constants are on the host."""
    return held_program(op.step, host_places(consts, op.carries + op.sequences))


def _written_out(step: _Step, given: LoopInputs[Any], n: int, done: int) -> tuple[Any, ...]:
    """The carries and rows after ``done`` of ``n`` steps."""
    op = step.op
    carry, rows = list(given.init), _RowBuffer(op)
    elements = [_elements(x, done) for x in given.xs]
    for i in range(done)[:: -1 if op.reverse else 1]:
        found = step(carry, [x[i] for x in elements])
        carry = found[: op.carries]
        rows.put(op.rows_of(found))
    return (*carry, *rows.stacked(0, n - done, partial(_blank, op, step, given)))


def _masked(step: _Step, given: LoopInputs[Any], n: int, count: Any) -> tuple[Any, ...]:
    """All steps are done, and what comes after the last one that counts is left out.

    Results are the carries, the rows, how many steps counted, and whether more would.
    """
    op = step.op
    carry, rows = list(given.init), _RowBuffer(op)
    elements = [_elements(x, n) for x in given.xs]
    runs, counted = mx.array(True), []
    within = None if count is None else _elements(mx.arange(n) < count, n)
    for i in range(n)[:: -1 if op.reverse else 1]:
        found = step(carry, [x[i] for x in elements])
        here = runs if within is None else mx.logical_and(runs, within[i])
        carry = [mx.where(here, new, old) for new, old in zip(found, carry, strict=False)]
        rows.put([mx.where(here, y, mx.zeros_like(y)) for y in op.rows_of(found)])
        counted.append(here)
        if op.stops:
            runs = mx.logical_and(runs, mx.logical_not(mx.logical_and(here, found[-1])))
    taken = mx.sum(mx.stack(counted).astype(mx.int64)) if counted else mx.array(0, mx.int64)
    return (*carry, *rows.stacked(0, 0, partial(_blank, op, step, given)), taken, runs)


def _elements(x: Any, n: int) -> list[Any]:
    """The first elements of a sequence: each a view, by one operation of MLX's in place of two."""
    if not n:
        return []
    if saves_any_length():
        return [mx.take(x, i, 0) for i in range(n)]
    trace = current()
    if trace is not None and trace.is_users:  # MLX cannot batch the operation below
        return [mx.squeeze(x[i : i + 1], 0) for i in range(n)]
    shape = x.shape[1:]
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    flat = mx.reshape(contiguous(x), (-1,))
    return [mx.as_strided(flat, shape, strides, i * math.prod(shape)) for i in range(n)]


class _RowBuffer:
    """Rows in the order of the steps, until they are stacked in that of their places."""

    def __init__(self, op: Loop) -> None:
        self.op = op
        self.single: list[list[Any]] = [[] for _ in range(op.stacked)]
        self.parts: list[list[Any]] = [[] for _ in range(op.stacked)]

    def put(self, rows: Sequence[Any]) -> None:
        """A step's."""
        for found, row in zip(self.single, rows, strict=True):
            found.append(row)

    def put_several(self, rows: Sequence[Any]) -> None:
        """Those of some steps, stacked."""
        for found, part in zip(self.parts, rows, strict=True):
            found.append(part)

    def join(self) -> list[Any]:
        """Stack the rows that were added one by one."""
        found = [_stacked(self._ordered(rows)) for rows in self.single if rows]
        if found:
            self.put_several(found)
            self.single = [[] for _ in self.single]
        return found

    def stacked(self, before: int, after: int, blank: Callable[[], Sequence[Any]]) -> list[Any]:
        """All of them, between as many that are zero."""
        self.join()
        if not self.op.stacked:
            return []
        if not self.parts[0]:
            return [mx.zeros((before + after, *row.shape), row.dtype) for row in blank()]
        return [self._whole(before, after, self._ordered(parts)) for parts in self.parts]

    def _whole(self, before: int, after: int, parts: list[Any]) -> Any:
        shape, dtype = parts[0].shape[1:], parts[0].dtype
        if before:
            parts = [mx.zeros((before, *shape), dtype), *parts]
        if after:
            parts = [*parts, mx.zeros((after, *shape), dtype)]
        return mx.concatenate(parts) if len(parts) > 1 else parts[0]

    def _ordered(self, found: list[Any]) -> list[Any]:
        return found[::-1] if self.op.reverse else found


def _stacked(rows: list[Any]) -> Any:
    """Rows below each other; only scalars need an axis of their own before they are joined."""
    if rows[0].ndim and not saves_any_length():
        return mx.reshape(mx.concatenate(rows), (len(rows), *rows[0].shape))
    return mx.stack(rows)


def _blank(op: Loop, step: Step, given: LoopInputs[Any]) -> list[Any]:
    """Return rows of the right shapes, where no step is done."""
    blanks = [mx.zeros(x.shape[1:], x.dtype) for x in given.xs]
    shapes = op.blank_shapes(given.init, lambda: step(given.init, blanks))
    rows = op.rows_of(op.step.outputs)
    pairs = zip(shapes, rows, strict=True)
    return [mx.zeros(shape, dtype_of(y.type.dtype)) for shape, y in pairs]


class Driven:
    """A loop that is run from Python, chunk by chunk, or step by step.

    Attributes:
        functions: Compiled chunks, by how many steps they have and what they know.
        programs: A step, by which of its constants are on the host.
        tails: The lengths of last chunks there were.
        most: How many steps a chunk may have.
        longest: How many it may have for some shapes; 0 where steps are run one by one.
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
        self.most = min(op.unroll if op.unroll > 1 else CHUNK, max(1, LIMIT // size))

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """The loop's results: MLX arrays, and NumPy's of how many steps were done."""
        call = _LoopCall(self, self.op.parts(values))
        # Another loop in the step may be longer for other shapes.
        key = tuple([x.shape for x in values])
        longest = self.longest.get(key, self.most)
        while longest:
            try:
                return call.in_chunks(longest)
            except NotTraceableError:
                longest //= 4
                bounded(self.longest, key, longest)
        return call.in_steps()

    def sizes(self, steps: int, longest: int) -> Iterator[int]:
        """The number of steps in each chunk."""
        size = min(FIRST, longest) if self.op.stops else longest
        while steps >= size:
            yield size
            steps -= size
            # A loop that stops may well do so soon; what is done after that is in vain.
            size = longest
        if steps in self.tails or (steps and len(self.tails) < FEW):
            self.tails.add(steps)
            yield steps
            return
        while steps:
            size = 1 << (steps.bit_length() - 1)
            yield size
            steps -= size

    def body(self, consts: Sequence[Any]) -> Segments:
        """A step as a program of its own."""
        op = self.op
        known = host_places(consts, op.carries + op.sequences)
        if known not in self.bodies:
            self.bodies[known] = Segments(held_program(op.step, known), self.options)
        return self.bodies[known]

    def chunk(self, size: int, consts: Sequence[Any], known: Any) -> CompiledFunction:
        """A compiled function of some steps, given what these know."""
        found = self.functions.get((size, known))
        if found is None:
            fixed = [None if isinstance(x, mx.array) else x for x in consts]
            constants = constants_of(self.op.step.nodes)
            found = CompiledFunction(partial(self.steps_of, size, fixed), constants, self.options)
            bounded(self.functions, (size, known), found)
        return found

    def steps_of(self, size: int, fixed: Sequence[Any], *arrays: Any) -> Sequence[Any]:
        """The carries and rows; how many steps counted, and whether more would, if it can stop."""
        op, left = self.op, iter(arrays)
        init, xs = list(islice(left, op.carries)), list(islice(left, op.sequences))
        consts = [next(left) if x is None else x for x in fixed]
        # What MLX fuses across steps has kernels of its own for each length.
        is_last = size < self.most and mx.default_device().type == mx.cpu
        places = host_places(consts)
        if places not in self.programs:
            self.programs[places] = step_program(op, consts)
        step = _Step(op, consts, self.programs[places], apart=is_last)
        given = LoopInputs(None, None, init, xs, consts)
        if op.stops:
            return _masked(step, given, size, None)
        return _written_out(step, given, size, size)


class _LoopCall:
    """A call of a loop, run from Python.

    Attributes:
        steps: How long the rows are.
        most: How many steps are done, but for a loop that stops before.
    """

    def __init__(self, driven: Driven, values: LoopInputs[Any]) -> None:
        self.driven = driven
        self.op = driven.op
        self.values = values
        self.given = _on_device(driven.op, values)
        self.steps = driven.op.number_of_steps(self.given)
        count = values.count
        self.most = self.steps if count is None else min(int(host_array(count)), self.steps)

    def in_chunks(self, longest: int) -> tuple[Any, ...]:
        """The results, chunk by chunk."""
        op, given = self.op, self.given
        # Views would have a kernel of their own in the first step: another run of the C++ compiler.
        carry, rows = [mx.contiguous(x) for x in given.init], _RowBuffer(op)
        arrays = [x for x in given.consts if isinstance(x, mx.array)]
        known = tuple([key_of(x) for x in given.consts if not isinstance(x, mx.array)])
        walked = taken = 0
        for size in self.driven.sizes(self.most, longest):
            first = self.most - walked - size if op.reverse else walked
            xs = given.xs if size == self.steps else [x[first : first + size] for x in given.xs]
            found = self.driven.chunk(size, given.consts, known)(*carry, *xs, *arrays)
            carry = found[: op.carries]
            rows.put_several(op.rows_of(found))
            walked += size
            if op.stops:
                mx.eval(found)
                taken += int(found[-2])
                if not bool(found[-1]):
                    break
            elif size < self.most:
                mx.async_eval(found)  # type: ignore[no-untyped-call]
        return self._results(carry, rows, walked, taken)

    def in_steps(self) -> tuple[Any, ...]:
        """The results, step by step."""
        op, given = self.op, self.given
        carry, rows = list(given.init), _RowBuffer(op)
        step = naming_step(op.title, self.driven.body(self.values.consts).run, numbered=True)
        walked = 0
        for i in range(self.most)[:: -1 if op.reverse else 1]:
            found = step(*carry, *[x[i] for x in given.xs], *self.values.consts)
            found = [device_array(y) for y in found]
            op.check_carry(carry, found)
            carry = found[: op.carries]
            rows.put(op.rows_of(found))
            walked += 1
            if op.stops and bool(found[-1]):
                break
            if walked % APART == 0:
                mx.async_eval(*carry, *rows.join())  # type: ignore[no-untyped-call]
        return self._results(carry, rows, walked, walked)

    def _results(
        self, carry: Sequence[Any], rows: _RowBuffer, walked: int, taken: int
    ) -> tuple[Any, ...]:
        before = self.most - walked if self.op.reverse else 0
        after = self.steps - walked - before if self.op.stacked else 0
        found = rows.stacked(before, after, self._blank)
        return (*carry, *found, *([np.array(taken, np.int64)] if self.op.stops else []))

    def _blank(self) -> Sequence[Any]:
        try:
            return _blank(self.op, _Step(self.op, self.given.consts), self.given)
        except NotTraceableError:
            return _blank(self.op, self._single, self.given)

    def _single(self, carry: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        consts = self.values.consts
        return [*map(device_array, self.driven.body(consts).run(*carry, *elements, *consts))]


DRIVERS[Loop] = Driven
