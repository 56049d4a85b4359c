"""Loops in JAX: ``lax.scan`` where the number of steps is known, ``lax.while_loop`` elsewhere."""

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
from graphc.implicit.policy import dense
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
    checked,
    inner,
    ragged,
    rule,
)
from graphc.link.jax.counts import UNBOUNDED, Count, as_count, is_known, settled
from graphc.link.jax.symbolic import is_on_host
from graphc.link.program import Program
from graphc.loop.loop import Loop
from graphc.loop.step import LoopInputs


@backend.lower(Loop)
def loop(op: Loop, *values: Any) -> Any:
    """Lower a loop: to a scan where all steps are done, else to a bounded loop."""
    return _run(op, values, None)


@rule(Loop, of_counts=True)
def of_counts(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Lower a loop with an unknown number of steps, or whose step depends on one."""
    op: Any = node.op
    return _run(op, values, node.where)


def _run(op: Loop, values: Sequence[Any], where: str | None) -> Any:
    given = op.parts(values)
    steps = _number_of_steps(op, given, where)
    if is_known(steps):
        given = replace(given, xs=tuple([_of_length(x, int(steps)) for x in given.xs]))
    step = _Step(op, given)
    if is_known(steps) and not int(steps):
        taken = [np.asarray(0, np.int64)] * op.stops
        return (*step.results(step.init, step.no_rows(), steps), *taken)
    if is_known(steps) and not op.counted and not op.stops:
        final, rows = _scanned(op, step, int(steps))
        return step.results(final, rows, steps)
    return _Bounded(op, step, given, steps).results()


def _of_length(x: Any, n: int) -> Any:
    return ragged(x.buffer, [n, *x.shape[1:]]) if isinstance(x, Ragged) else x


def _number_of_steps(op: Loop, given: LoopInputs[Any], where: str | None) -> Any:
    """Return the number of steps, an integer or a ``Count``; sequences must fit it."""
    steps = op.steps_of(given)
    lengths = [x.shape[0] for x in given.xs]
    if symbolic.has_symbols((steps, *lengths)):
        return _symbolic_number(op, steps, lengths, where)
    if is_known(steps) and not any(isinstance(n, Count) for n in lengths):
        return np.asarray(op.number_of_steps(given), np.int64)
    at_least(steps, 0, _negative(op, where))
    for i, n in enumerate(lengths):
        agree(n, steps, _unequal(op, i, where))
    return settled(as_count(steps))


def _symbolic_number(op: Loop, steps: Any, lengths: Sequence[Any], where: str | None) -> Any:
    """Return the number of steps, one at least where it is a symbol."""
    for i, n in enumerate(lengths):
        if not symbolic.equal(n, steps):
            raise _unequal(op, i, where)(n, steps)
    if is_known(steps):
        return np.asarray(steps, np.int64)
    if not symbolic.at_least(steps, 1):
        raise _negative(op, where)(steps, 0)
    return steps


def _negative(op: Loop, where: str | None) -> Callable[[int, int], GraphcError]:
    return lambda n, zero: ArgumentError(
        f"{op.title}: {n} steps.", "Use a number from 0 on.", where
    )


def _unequal(op: Loop, i: int, where: str | None) -> Callable[[int, int], GraphcError]:
    return lambda length, n: RuntimeShapeError(
        f"{op.title}: the sequence {i} has {length} elements for {n} steps.",
        "Give as many elements as steps.",
        where,
    )


Form = Counts | None
"""Of an array that has counts for lengths, these; None for others."""


def _form(x: Any, lost: int = 0) -> Form:
    """The counts of an array without its first axes, so many of them."""
    counts = x.counts[lost:] if isinstance(x, Ragged) else ()
    return counts if any(counts) else None


def _formed(x: Any, form: Form) -> Any:
    return x if form is None else Ragged(x, form)


def _array(x: Any) -> Any:
    """Convert a value to what JAX's loops take."""
    return jnp.asarray(inner(x), x.dtype)


@dataclass
class _Step:
    """A step as a function of JAX arrays.

    Attributes:
        op: The loop.
        given: What it takes.
        init: The carries at first.
        rows: The forms of stacked rows, known once it was traced.
    """

    op: Loop
    given: LoopInputs[Any]
    rows: list[Form] = field(default_factory=list)

    def __post_init__(self) -> None:
        op, given = self.op, self.given
        own = op.carries + op.sequences
        known = [own + i for i, x in enumerate(given.consts) if is_on_host(x)]
        host = analyse(op.step, known, range(own))
        self.trace = naming_step(op.title, Program(op.step, backend, host).trace)
        self.dtypes = [y.type.numpy_dtype for y in op.step.outputs]
        self.carries = [_form(x) for x in given.init]
        self.elements = [_form(x, 1) for x in given.xs]
        self.init = tuple(map(_array, given.init))
        self.xs = tuple(map(_array, given.xs))
        arrays = [x for x in (*given.init, *given.xs, *given.consts) if isinstance(x, Ragged)]
        counts = [n for x in arrays for n in x.counts if n is not None]
        counts += [x for x in given.consts if isinstance(x, Count)]
        # Counts that a step makes are gone after it, unless they are formulas.
        self.lasting = {id(n.given) for n in counts}

    def __call__(self, carry: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
        """Return the outputs' arrays, given those of carries and elements."""
        op = self.op
        before = [_formed(x, form) for x, form in zip(carry, self.carries, strict=True)]
        taken = [_formed(x, form) for x, form in zip(elements, self.elements, strict=True)]
        with checked(None):
            found = self.trace(*before, *taken, *self.given.consts)
            pairs = zip(found, op.step.outputs, strict=True)
            found = tuple([dense(y, op.title, node.where) for y, node in pairs])
            after = [self._next(x, y) for x, y in zip(before, found, strict=False)]
        op.check_carry(before, after)
        ends = [*after, *found[op.carries :]]
        self.rows = [self._row(y) for y in op.rows_of(ends)]
        return [jnp.asarray(_array(y), dtype) for y, dtype in zip(ends, self.dtypes, strict=True)]

    def _next(self, before: Any, after: Any) -> Any:
        """Return a carry after a step in the layout that it had before."""
        if not isinstance(before, Ragged):
            return self._of_known(before, after) if isinstance(after, Ragged) else after
        if after.ndim != before.ndim:
            raise self._refused("a carry's")
        self._agree(before, after)
        buffer = _array(after)
        more = [n - m for n, m in zip(before.buffer.shape, buffer.shape, strict=True)]
        if any(more):
            buffer = lax.pad(buffer, np.zeros((), buffer.dtype), [(0, n, 0) for n in more])
        return Ragged(buffer, before.counts)

    def _of_known(self, before: Any, after: Ragged) -> Any:
        """Return a carry whose lengths were known before the step, and so must be equal to these.

        Raises:
            DynamicShapeError: Whether they are is not known.
        """
        if after.ndim != before.ndim or not all(n is None or n.formula for n in after.counts):
            _as_known(after)
        self._agree(before, after)
        return ragged(after.buffer, before.shape)

    def _agree(self, before: Any, after: Any) -> None:
        for n, m in zip(before.shape, after.shape, strict=True):
            try:
                agree(n, m, lambda a, b: self._refused("a carry's"))
            except DynamicShapeError:
                raise self._refused("a carry's") from None

    def _row(self, row: Any) -> Form:
        if not isinstance(row, Ragged):
            return None
        counts = [n for n in row.counts if n is not None]
        if any(n.formula is None and id(n.given) not in self.lasting for n in counts):
            raise self._refused("a row's")
        return None, *row.counts

    def _refused(self, whose: str) -> DynamicShapeError:
        return DynamicShapeError(
            f"{self.op.title}: {whose} length is not known while JAX compiles, and may differ from "
            "step to step.",
            "In a loop within a loop, use the last step's value alone ([-1]), or a fixed number "
            "of steps, n_steps, with gt.where; or mode='NUMPY'.",
        )

    def shapes(self) -> Sequence[Any]:
        """Return the shapes and dtypes of the outputs."""
        elements = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in self.xs]  # type: ignore[no-untyped-call]
        return jax.eval_shape(self, self.init, elements)  # type: ignore[no-any-return]

    def no_rows(self) -> list[Any]:
        """Return the rows of a loop that does no step."""
        shapes = self.op.blank_shapes(self.init, self.shapes)
        self.rows = self.rows or [None] * len(shapes)
        dtypes = self.op.rows_of(self.dtypes)
        return [jnp.zeros((0, *n), dtype) for n, dtype in zip(shapes, dtypes, strict=True)]

    def results(self, final: Sequence[Any], rows: Sequence[Any], steps: Any) -> tuple[Any, ...]:
        """Return the loop's results, given their arrays."""
        carried = [_formed(x, form) for x, form in zip(final, self.carries, strict=True)]
        if is_known(steps) or is_symbolic_dim(steps):
            pairs = zip(rows, self.rows, strict=True)
            return (*carried, *(_formed(x, form) for x, form in pairs))
        stacked = [_of_steps(x, steps, form) for x, form in zip(rows, self.rows, strict=True)]
        return (*carried, *stacked)


def _of_steps(rows: Any, steps: Any, form: Form) -> Any:
    """Rows of so many steps; those of steps that were not done are zero."""
    if form is None:
        return ragged(rows, [steps, *rows.shape[1:]], 0)
    pairs = zip(rows.shape[1:], form[1:], strict=True)
    return ragged(rows, [steps, *(n if count is None else count for n, count in pairs)])


def _as_known(x: Ragged) -> Any:
    raise DynamicShapeError(
        "A carry has a known length before a step and one after it that is not known while JAX "
        "compiles.",
        "Let it begin with the shape that a step gives it, or use mode='NUMPY'.",
    )


def _scanned(op: Loop, step: _Step, n: int) -> Any:
    def body(carry: Any, elements: Any) -> Any:
        found = step(carry, elements)
        return tuple(found[: op.carries]), tuple(found[op.carries :])

    return lax.scan(body, step.init, step.xs, n, reverse=op.reverse, unroll=op.unroll)


def _bound(steps: Any, xs: Sequence[Any]) -> int | None:
    found = min([max(as_count(steps).high, 0), *(x.shape[0] for x in xs)])
    return found if found < UNBOUNDED else None


class _Bounded:
    """A ``lax.while_loop``; rows go into buffers that are zero at first.

    Attributes:
        steps: How many there are, an integer, a count or a symbol.
        length: How long buffers are; None where there is no bound.
        limit: How many are done at most.
    """

    def __init__(self, op: Loop, step: _Step, given: LoopInputs[Any], steps: Any) -> None:
        self.op = op
        self.step = step
        self.steps = steps
        self.length: Any = steps if is_symbolic_dim(steps) else _bound(steps, step.xs)
        # XLA counts in 32 bits where that is enough.
        narrow = isinstance(self.length, int) and self.length < 2**31
        self.dtype = np.dtype(np.int32 if narrow else np.int64)
        self.limit = self._counter(steps if given.count is None else given.count)

    def _counter(self, n: Any) -> Any:
        if is_symbolic_dim(n):
            return jnp.asarray(n, self.dtype)
        value = as_count(n).value
        if is_known(value):
            return np.asarray(value, self.dtype)
        return lax.convert_element_type(value, self.dtype)

    def results(self) -> tuple[Any, ...]:
        """Return final carries, rows, and the number of steps done."""
        op, step = self.op, self.step
        rows = self._buffers()
        state: tuple[Any, ...] = (self.dtype.type(0), step.init, rows, *[np.False_] * op.stops)
        if self.length != 0:
            state = lax.while_loop(self._goes_on, self._body, state)
        done, final, rows, *_ = state
        taken = []
        if op.stops:
            taken = [self._taken(lax.convert_element_type(done, np.int64))]
        return (*step.results(final, rows, self.steps), *taken)

    def _taken(self, done: Any) -> Any:
        if is_symbolic_dim(self.steps):
            return done
        steps = as_count(self.steps)
        least = 1 if steps.low > 0 and not self.op.counted else 0
        return settled(Count(done, least, steps.high))

    def _buffers(self) -> tuple[Any, ...]:
        op, step = self.op, self.step
        if not op.stacked:
            return ()
        if self.length is None:
            raise DynamicShapeError(
                f"{op.title}: how many rows there are is not known while JAX compiles, and nothing "
                "bounds it.",
                "Give the maximal number of steps, max_steps=... or n_steps=gt.minimum(n, most); "
                "use the last step's value alone ([-1]); or mode='NUMPY'.",
            )
        rows = op.rows_of(step.shapes())
        return tuple(jnp.zeros((self.length, *row.shape), row.dtype) for row in rows)

    def _goes_on(self, state: Any) -> Any:
        more = lax.lt(state[0], self.limit)
        return lax.bitwise_and(more, lax.bitwise_not(state[3])) if self.op.stops else more

    def _body(self, state: Any) -> Any:
        op = self.op
        done, carry, rows, *_ = state
        one = self.dtype.type(1)
        i = lax.sub(self.limit, lax.add(done, one)) if op.reverse else done
        found = self.step(carry, [_element(x, i) for x in self.step.xs])
        new = op.rows_of(found)
        rows = tuple(_put(array, row, i) for array, row in zip(rows, new, strict=True))
        return (
            lax.add(done, one),
            tuple(found[: op.carries]),
            rows,
            *found[len(found) - op.stops :],
        )


def _element(x: Any, i: Any) -> Any:
    """Return an element; the index is never negative, so JAX need not check."""
    sizes = (1, *x.shape[1:])
    part = lax.dynamic_slice(x, _at(x, i), sizes, allow_negative_indices=False)
    return lax.squeeze(part, (0,))


def _put(array: Any, row: Any, i: Any) -> Any:
    row = lax.expand_dims(row, (0,))
    return lax.dynamic_update_slice(array, row, _at(array, i), allow_negative_indices=False)


def _at(x: Any, i: Any) -> list[Any]:
    return [i, *[np.zeros((), i.dtype)] * (x.ndim - 1)]
