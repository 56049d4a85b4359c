"""Loops in JAX: ``lax.scan`` for a known number of steps, else ``lax.while_loop``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.implicit.policy import as_dense
from graphc.link.checks import naming_step
from graphc.link.host import analyse
from graphc.link.jax import symbolic
from graphc.link.jax.backend import backend
from graphc.link.jax.devices import unrolled_steps
from graphc.link.jax.symbolic import is_on_host
from graphc.link.jax.varying import vary, varying_axes
from graphc.link.program import Program
from graphc.loop.loop import Loop
from graphc.loop.step import LoopInputs


@backend.lower(Loop)
def loop(op: Loop, *values: Any) -> Any:
    """Lower to a scan, or to a while loop if the number of steps is not known."""
    inputs = op.parts(values)
    steps = _step_count(op, inputs)
    step = _LoopStep(op, inputs)
    if isinstance(steps, int) and not steps:
        steps_done = [np.asarray(0, np.int64)] * op.stops
        return (*step.init, *step.no_rows(), *steps_done)
    if isinstance(steps, int) and not op.counted and not op.stops:
        final, rows = _scan(op, step, steps)
        return (*final, *rows)
    return _WhileLoop(op, step, inputs, steps).results()


def _step_count(op: Loop, inputs: LoopInputs[Any]) -> Any:
    """Return the number of steps: an integer, a symbol of 1 at least, or an array."""
    steps = op.steps_of(inputs)
    lengths = [x.shape[0] for x in inputs.xs]
    if not symbolic.has_symbols((steps, *lengths)):
        return op.number_of_steps(inputs) if isinstance(steps, np.ndarray | int) else steps
    for i, n in enumerate(lengths):
        if not symbolic.equal(n, steps):
            raise op.unequal_sequence(i, n, steps)
    if isinstance(steps, np.ndarray | int):
        return int(steps)
    if not symbolic.at_least(steps, 1):
        raise op.negative_steps(steps)
    return steps


def _as_array(x: Any) -> Any:
    return jnp.asarray(x, x.dtype)


@dataclass
class _LoopStep:
    """A step as a function of JAX arrays; ``axes`` are mesh axes over which operands vary."""

    op: Loop
    inputs: LoopInputs[Any]

    def __post_init__(self) -> None:
        op, inputs = self.op, self.inputs
        varying = op.carries + op.sequences
        on_host = [varying + i for i, x in enumerate(inputs.consts) if is_on_host(x)]
        host = analyse(op.step, on_host, range(varying))
        self.trace = naming_step(op.title, Program(op.step, backend, host).trace)
        self.dtypes = [y.type.numpy_dtype for y in op.step.outputs]
        self.xs = tuple(map(_as_array, inputs.xs))
        init = tuple(map(_as_array, inputs.init))
        self.axes = varying_axes(
            *init, *self.xs, *[x for x in inputs.consts if isinstance(x, jax.Array)]
        )
        self.init = self.vary(init)

    def __call__(self, carry: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
        """Return the outputs for carries and elements."""
        op = self.op
        outputs = self.trace(*carry, *elements, *self.inputs.consts)
        pairs = zip(outputs, op.step.outputs, strict=True)
        results = [as_dense(y, op.title, node.where) for y, node in pairs]
        op.check_carry(carry, results)
        arrays = [jnp.asarray(y, dtype) for y, dtype in zip(results, self.dtypes, strict=True)]
        return list(self.vary(arrays))

    def vary(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Cast arrays to vary over the mesh axes over which the loop's operands vary."""
        return tuple([vary(x, self.axes) for x in arrays])

    def shapes(self) -> Sequence[Any]:
        """Return the shapes and dtypes of the outputs."""
        elements = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in self.xs]  # type: ignore[no-untyped-call]
        return jax.eval_shape(self, self.init, elements)  # type: ignore[no-any-return]

    def no_rows(self) -> list[Any]:
        """Return the rows of a loop without steps."""
        shapes = self.op.blank_shapes(self.init, self.shapes)
        dtypes = self.op.rows_of(self.dtypes)
        return [jnp.zeros((0, *n), dtype) for n, dtype in zip(shapes, dtypes, strict=True)]


def _scan(op: Loop, step: _LoopStep, n: int) -> Any:
    def body(carry: Any, elements: Any) -> Any:
        outputs = step(carry, elements)
        return tuple(outputs[: op.carries]), tuple(outputs[op.carries :])

    unroll = unrolled_steps(op, n)
    return lax.scan(body, step.init, step.xs, n, reverse=op.reverse, unroll=unroll)


class _WhileLoop:
    """A ``lax.while_loop``, which writes rows into buffers of zeros.

    Attributes:
        steps: The number of steps, the length of the buffers; an array for a loop without rows.
        dtype: The dtype of the loop's counter.
        limit: The largest number of steps.
    """

    def __init__(self, op: Loop, step: _LoopStep, inputs: LoopInputs[Any], steps: Any) -> None:
        self.op = op
        self.step = step
        self.steps = steps
        # Count in 32 bits, as XLA does, if that suffices.
        is_narrow = isinstance(steps, int) and steps < 2**31
        self.dtype = np.dtype(np.int32 if is_narrow else np.int64)
        self.limit = self._counter(steps if inputs.count is None else inputs.count)

    def _counter(self, n: Any) -> Any:
        if isinstance(n, np.ndarray | int):
            return np.asarray(n, self.dtype)
        if is_symbolic_dim(n):
            return jnp.asarray(n, self.dtype)
        return lax.convert_element_type(n, self.dtype)

    def results(self) -> tuple[Any, ...]:
        """Return the final carries, the rows, and the number of steps done."""
        op, step = self.op, self.step
        stops = step.vary([np.False_] * op.stops)
        state: tuple[Any, ...] = (self.dtype.type(0), step.init, self._buffers(), *stops)
        done, final, rows, *_ = lax.while_loop(self._condition, self._body, state)
        steps_done = [lax.convert_element_type(done, np.int64)] * op.stops
        return (*final, *rows, *steps_done)

    def _buffers(self) -> tuple[Any, ...]:
        op, step = self.op, self.step
        if not op.stacked:
            return ()
        rows = op.rows_of(step.shapes())
        return step.vary([jnp.zeros((self.steps, *row.shape), row.dtype) for row in rows])

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
