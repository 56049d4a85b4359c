"""Loops in JAX: ``lax.scan`` for a known number of steps, else ``lax.while_loop``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.errors import ArgumentError, DynamicShapeError, GraphcError, RuntimeShapeError
from graphc.implicit.policy import as_dense
from graphc.ir import Node
from graphc.link.checks import naming_step
from graphc.link.host import analyse
from graphc.link.jax import symbolic
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Counts,
    Lowering,
    Ragged,
    agree,
    at_least,
    collect_checks,
    inner,
    make_ragged,
    rule,
)
from graphc.link.jax.counts import UNBOUNDED, Count, as_count, as_static, is_known
from graphc.link.jax.symbolic import is_on_host
from graphc.link.jax.varying import vary, varying_axes
from graphc.link.program import Program
from graphc.loop.loop import Loop
from graphc.loop.step import LoopInputs


@backend.lower(Loop)
def loop(op: Loop, *values: Any) -> Any:
    """Lower to a scan, or to a bounded loop where the number of steps is unknown."""
    return _run(op, values, None)


@rule(Loop, of_counts=True)
def ragged_loop(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Lower a loop with an unknown number of steps, or whose step depends on an unknown length."""
    op: Any = node.op
    return _run(op, values, node.where)


def _run(op: Loop, values: Sequence[Any], where: str | None) -> Any:
    inputs = op.parts(values)
    steps = _step_count(op, inputs, where)
    if is_known(steps):
        inputs = replace(inputs, xs=tuple([_with_length(x, int(steps)) for x in inputs.xs]))
    step = _LoopStep(op, inputs)
    if is_known(steps) and not int(steps):
        steps_done = [np.asarray(0, np.int64)] * op.stops
        return (*step.results(step.init, step.no_rows(), steps), *steps_done)
    if is_known(steps) and not op.counted and not op.stops:
        final, rows = _scan(op, step, int(steps))
        return step.results(final, rows, steps)
    return _WhileLoop(op, step, inputs, steps).results()


def _with_length(x: Any, n: int) -> Any:
    return make_ragged(x.buffer, [n, *x.shape[1:]]) if isinstance(x, Ragged) else x


def _step_count(op: Loop, inputs: LoopInputs[Any], where: str | None) -> Any:
    """Return the number of steps, an integer or a ``Count``; check the sequences' lengths."""
    steps = op.steps_of(inputs)
    lengths = [x.shape[0] for x in inputs.xs]
    if symbolic.has_symbols((steps, *lengths)):
        return _symbolic_step_count(op, steps, lengths, where)
    if is_known(steps) and not any(isinstance(n, Count) for n in lengths):
        return np.asarray(op.number_of_steps(inputs), np.int64)
    at_least(steps, 0, _negative_steps(op, where))
    for i, n in enumerate(lengths):
        agree(n, steps, _unequal_lengths(op, i, where))
    return as_static(as_count(steps))


def _symbolic_step_count(op: Loop, steps: Any, lengths: Sequence[Any], where: str | None) -> Any:
    """Return the number of steps; a symbol must be 1 at least."""
    for i, n in enumerate(lengths):
        if not symbolic.equal(n, steps):
            raise _unequal_lengths(op, i, where)(n, steps)
    if is_known(steps):
        return np.asarray(steps, np.int64)
    if not symbolic.at_least(steps, 1):
        raise _negative_steps(op, where)(steps, 0)
    return steps


def _negative_steps(op: Loop, where: str | None) -> Callable[[int, int], GraphcError]:
    return lambda n, zero: ArgumentError(
        f"{op.title}: {n} steps.", "Use a number from 0 on.", where
    )


def _unequal_lengths(op: Loop, i: int, where: str | None) -> Callable[[int, int], GraphcError]:
    return lambda length, n: RuntimeShapeError(
        f"{op.title}: the sequence {i} has {length} elements for {n} steps.",
        "Give as many elements as steps.",
        where,
    )


AxisCounts = Counts | None
"""The counts of an array's axes; None if all lengths are known."""


def _counts_of(x: Any, dropped: int = 0) -> AxisCounts:
    """Return the counts of an array, without the first ``dropped`` axes."""
    counts = x.counts[dropped:] if isinstance(x, Ragged) else ()
    return counts if any(counts) else None


def _with_counts(x: Any, counts: AxisCounts) -> Any:
    return x if counts is None else Ragged(x, counts)


def _loop_array(x: Any) -> Any:
    return jnp.asarray(inner(x), x.dtype)


@dataclass
class _LoopStep:
    """A step as a function of JAX arrays.

    Attributes:
        op: The loop.
        inputs: The loop's operands.
        rows: The counts of each stacked row, after the step was traced.
        trace: The step's program.
        dtypes: The dtypes of the step's outputs.
        carries: The counts of each carry.
        elements: The counts of each sequence's elements.
        axes: The mesh axes over which the loop's operands vary.
        init: The buffers of the initial carries.
        xs: The buffers of the sequences.
        lasting: The ids of the counts that exist outside of the step.
    """

    op: Loop
    inputs: LoopInputs[Any]
    rows: list[AxisCounts] = field(default_factory=list)

    def __post_init__(self) -> None:
        op, inputs = self.op, self.inputs
        varying = op.carries + op.sequences
        on_host = [varying + i for i, x in enumerate(inputs.consts) if is_on_host(x)]
        host = analyse(op.step, on_host, range(varying))
        self.trace = naming_step(op.title, Program(op.step, backend, host).trace)
        self.dtypes = [y.type.numpy_dtype for y in op.step.outputs]
        self.carries = [_counts_of(x) for x in inputs.init]
        self.elements = [_counts_of(x, 1) for x in inputs.xs]
        self.xs = tuple(map(_loop_array, inputs.xs))
        init = tuple(map(_loop_array, inputs.init))
        self.axes = varying_axes(
            *init, *self.xs, *[x for x in inputs.consts if isinstance(x, jax.Array)]
        )
        self.init = self.vary(init)
        arrays = [x for x in (*inputs.init, *inputs.xs, *inputs.consts) if isinstance(x, Ragged)]
        counts = [n for x in arrays for n in x.counts if n is not None]
        counts += [x for x in inputs.consts if isinstance(x, Count)]
        # A count that a step computes does not exist after it, unless it is a formula.
        self.lasting = {id(n.traced) for n in counts}

    def __call__(self, carry: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
        """Return the buffers of the outputs for buffers of carries and elements."""
        op = self.op
        before = [_with_counts(x, counts) for x, counts in zip(carry, self.carries, strict=True)]
        xs = [_with_counts(x, counts) for x, counts in zip(elements, self.elements, strict=True)]
        with collect_checks(None):
            outputs = self.trace(*before, *xs, *self.inputs.consts)
            pairs = zip(outputs, op.step.outputs, strict=True)
            outputs = tuple([as_dense(y, op.title, node.where) for y, node in pairs])
            after = [self._carry_after(x, y) for x, y in zip(before, outputs, strict=False)]
        op.check_carry(before, after)
        results = [*after, *outputs[op.carries :]]
        self.rows = [self._row_counts(y) for y in op.rows_of(results)]
        buffers = [
            jnp.asarray(_loop_array(y), dtype)
            for y, dtype in zip(results, self.dtypes, strict=True)
        ]
        return list(self.vary(buffers))

    def vary(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Cast arrays to vary over the mesh axes over which the loop's operands vary."""
        return tuple([vary(x, self.axes) for x in arrays])

    def _carry_after(self, before: Any, after: Any) -> Any:
        """Return a carry after a step in the buffer shape that it had before."""
        if not isinstance(before, Ragged):
            return self._static_carry_after(before, after) if isinstance(after, Ragged) else after
        if after.ndim != before.ndim:
            raise self._varying_length("a carry's")
        self._check_lengths(before, after)
        buffer = _loop_array(after)
        missing = [n - m for n, m in zip(before.buffer.shape, buffer.shape, strict=True)]
        if any(missing):
            buffer = lax.pad(buffer, np.zeros((), buffer.dtype), [(0, n, 0) for n in missing])
        return Ragged(buffer, before.counts)

    def _static_carry_after(self, before: Any, after: Ragged) -> Any:
        """Return a carry with the lengths before the step, which its new counts must equal.

        Raises:
            DynamicShapeError: If the equality cannot be checked.
        """
        if after.ndim != before.ndim or not all(n is None or n.formula for n in after.counts):
            raise _unknown_length()
        self._check_lengths(before, after)
        return make_ragged(after.buffer, before.shape)

    def _check_lengths(self, before: Any, after: Any) -> None:
        for n, m in zip(before.shape, after.shape, strict=True):
            try:
                agree(n, m, lambda a, b: self._varying_length("a carry's"))
            except DynamicShapeError:
                raise self._varying_length("a carry's") from None

    def _row_counts(self, row: Any) -> AxisCounts:
        if not isinstance(row, Ragged):
            return None
        counts = [n for n in row.counts if n is not None]
        if any(n.formula is None and id(n.traced) not in self.lasting for n in counts):
            raise self._varying_length("a row's")
        return None, *row.counts

    def _varying_length(self, owner: str) -> DynamicShapeError:
        return DynamicShapeError(
            f"{self.op.title}: {owner} length is not known while JAX compiles, and may differ from "
            "step to step.",
            "In a loop within a loop, use the last step's value alone ([-1]), or a fixed number "
            "of steps, n_steps, with gt.where; or mode='NUMPY'.",
        )

    def shapes(self) -> Sequence[Any]:
        """Return the shapes and dtypes of the outputs."""
        elements = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in self.xs]  # type: ignore[no-untyped-call]
        return jax.eval_shape(self, self.init, elements)  # type: ignore[no-any-return]

    def no_rows(self) -> list[Any]:
        """Return the rows of a loop without steps."""
        shapes = self.op.blank_shapes(self.init, self.shapes)
        self.rows = self.rows or [None] * len(shapes)
        dtypes = self.op.rows_of(self.dtypes)
        return [jnp.zeros((0, *n), dtype) for n, dtype in zip(shapes, dtypes, strict=True)]

    def results(self, final: Sequence[Any], rows: Sequence[Any], steps: Any) -> tuple[Any, ...]:
        """Return the loop's results for the buffers of the carries and rows."""
        carried = [_with_counts(x, counts) for x, counts in zip(final, self.carries, strict=True)]
        if is_known(steps) or is_symbolic_dim(steps):
            pairs = zip(rows, self.rows, strict=True)
            return (*carried, *(_with_counts(x, counts) for x, counts in pairs))
        stacked = [_stack_rows(x, steps, counts) for x, counts in zip(rows, self.rows, strict=True)]
        return (*carried, *stacked)


def _stack_rows(rows: Any, steps: Any, counts: AxisCounts) -> Any:
    """Return rows with the number of steps as length; rows beyond it are zero."""
    if counts is None:
        return make_ragged(rows, [steps, *rows.shape[1:]], 0)
    pairs = zip(rows.shape[1:], counts[1:], strict=True)
    return make_ragged(rows, [steps, *(n if count is None else count for n, count in pairs)])


def _unknown_length() -> DynamicShapeError:
    return DynamicShapeError(
        "A carry has a known length before a step, and after it a length that is not known while "
        "JAX compiles.",
        "Start with a carry of the shape that a step returns, or use mode='NUMPY'.",
    )


def _scan(op: Loop, step: _LoopStep, n: int) -> Any:
    def body(carry: Any, elements: Any) -> Any:
        outputs = step(carry, elements)
        return tuple(outputs[: op.carries]), tuple(outputs[op.carries :])

    return lax.scan(body, step.init, step.xs, n, reverse=op.reverse, unroll=op.unroll)


def _max_steps(steps: Any, xs: Sequence[Any]) -> int | None:
    n = min([max(as_count(steps).high, 0), *(x.shape[0] for x in xs)])
    return n if n < UNBOUNDED else None


class _WhileLoop:
    """A ``lax.while_loop``, which writes rows into buffers of zeros.

    Attributes:
        steps: The number of steps: an integer, a count or a symbol.
        length: The length of the buffers; None without an upper bound.
        dtype: The dtype of the loop's counter.
        limit: The largest number of steps.
    """

    def __init__(self, op: Loop, step: _LoopStep, inputs: LoopInputs[Any], steps: Any) -> None:
        self.op = op
        self.step = step
        self.steps = steps
        self.length: Any = steps if is_symbolic_dim(steps) else _max_steps(steps, step.xs)
        # Count in 32 bits, as XLA does, if that suffices.
        is_narrow = isinstance(self.length, int) and self.length < 2**31
        self.dtype = np.dtype(np.int32 if is_narrow else np.int64)
        self.limit = self._counter(steps if inputs.count is None else inputs.count)

    def _counter(self, n: Any) -> Any:
        if is_symbolic_dim(n):
            return jnp.asarray(n, self.dtype)
        value = as_count(n).value
        if is_known(value):
            return np.asarray(value, self.dtype)
        return lax.convert_element_type(value, self.dtype)

    def results(self) -> tuple[Any, ...]:
        """Return the final carries, the rows, and the number of steps done."""
        op, step = self.op, self.step
        rows = self._buffers()
        stops = step.vary([np.False_] * op.stops)
        state: tuple[Any, ...] = (self.dtype.type(0), step.init, rows, *stops)
        if self.length != 0:
            state = lax.while_loop(self._condition, self._body, state)
        done, final, rows, *_ = state
        steps_done = []
        if op.stops:
            steps_done = [self._steps_done(lax.convert_element_type(done, np.int64))]
        return (*step.results(final, rows, self.steps), *steps_done)

    def _steps_done(self, done: Any) -> Any:
        if is_symbolic_dim(self.steps):
            return done
        steps = as_count(self.steps)
        least = 1 if steps.low > 0 and not self.op.counted else 0
        return as_static(Count(done, least, steps.high))

    def _buffers(self) -> tuple[Any, ...]:
        op, step = self.op, self.step
        if not op.stacked:
            return ()
        if self.length is None:
            raise DynamicShapeError(
                f"{op.title}: the number of rows is not known while JAX compiles, and has no upper "
                "bound.",
                "Give the largest number of steps, max_steps=... or n_steps=gt.minimum(n, most); "
                "use the last step's value alone ([-1]); or mode='NUMPY'.",
            )
        rows = op.rows_of(step.shapes())
        return self.step.vary([jnp.zeros((self.length, *row.shape), row.dtype) for row in rows])

    def _condition(self, state: Any) -> Any:
        is_within = lax.lt(state[0], self.limit)
        return lax.bitwise_and(is_within, lax.bitwise_not(state[3])) if self.op.stops else is_within

    def _body(self, state: Any) -> Any:
        op = self.op
        done, carry, rows, *_ = state
        one = self.dtype.type(1)
        i = lax.sub(self.limit, lax.add(done, one)) if op.reverse else done
        outputs = self.step(carry, [_element(x, i) for x in self.step.xs])
        new_rows = op.rows_of(outputs)
        rows = tuple(_write_row(array, row, i) for array, row in zip(rows, new_rows, strict=True))
        return (
            lax.add(done, one),
            tuple(outputs[: op.carries]),
            rows,
            *outputs[len(outputs) - op.stops :],
        )


def _element(x: Any, i: Any) -> Any:
    """Return an element; the index is never negative, which saves JAX a check."""
    sizes = (1, *x.shape[1:])
    element = lax.dynamic_slice(x, _start_indices(x, i), sizes, allow_negative_indices=False)
    return lax.squeeze(element, (0,))


def _write_row(array: Any, row: Any, i: Any) -> Any:
    row = lax.expand_dims(row, (0,))
    return lax.dynamic_update_slice(
        array, row, _start_indices(array, i), allow_negative_indices=False
    )


def _start_indices(x: Any, i: Any) -> list[Any]:
    return [i, *[np.zeros((), i.dtype)] * (x.ndim - 1)]
