"""Running sums, products and extremes, and linear recurrences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.link.mlx.arrays import device_array, from_numpy, to_numpy
from graphc.link.mlx.backend import backend
from graphc.link.mlx.devices import device_choice
from graphc.link.mlx.lower.reduce import widen_halves
from graphc.link.mlx.segments import DRIVERS, CompiledFunction
from graphc.tensor.arrays.coupled import CoupledRecurrence, apply_matrices, compose_matrices
from graphc.tensor.arrays.cumulative import CumMax, CumMin, CumProd, CumSum, Cumulative, Recurrence
from graphc.tensor.core.axes import slice_at_axis

ACCUMULATE = {CumSum: mx.cumsum, CumProd: mx.cumprod, CumMax: mx.cummax, CumMin: mx.cummin}


@backend.lower(Cumulative)
def accumulate(op: Cumulative, x: Any) -> Any:
    """Accumulate along an axis; half-width floats in float32, in which MLX keeps NaN."""
    y = ACCUMULATE[type(op)](widen_halves(x), axis=op.axis, reverse=op.reverse)
    return y.astype(x.dtype)


WIDE = 4096
"""Elements of a step above which pairwise combination, which does several times the work of single
steps, takes longer than the calls of MLX that it saves."""

LONG = 2**22
"""Number of elements combined pairwise at a time, which takes several times their memory."""

CHUNK = 32
"""Number of steps unrolled at a time."""


@backend.lower(Recurrence)
def recurrence(op: Recurrence, a: Any, b: Any) -> Any:
    """Return all states of a linear recurrence by pairwise combination of steps."""
    return solve_recurrence(_widen(a), _widen(b), op.axis, op.reverse).astype(b.dtype)


def recurrence_driver(op: Recurrence, options: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    """Return the function that computes a recurrence from Python, in blocks if it is long."""
    all_steps = CompiledFunction(lambda a, b: [recurrence(op, a, b)], {}, options)
    by_pairs = CompiledFunction(partial(_block_states, op, solve_recurrence), {}, options)
    by_steps = CompiledFunction(partial(_block_states, op, _solve_stepwise), {}, options)

    def run(a: Any, b: Any) -> Any:
        a, b = map(device_array, (a, b))
        n = b.shape[op.axis]
        width = b.size // max(n, 1)
        if width <= WIDE and b.size <= LONG:
            return all_steps(a, b)[0]
        size, step = (LONG // width, by_pairs) if width <= WIDE else (CHUNK, by_steps)
        results = []
        before: list[Any] = []
        for block in _blocks(n, size, op.reverse):
            elements = slice_at_axis(block, op.axis)
            y, *before = step(a[elements], b[elements], *before)
            mx.async_eval(y, *before)  # type: ignore[no-untyped-call]
            results.append(y)
        return mx.concatenate(results[::-1] if op.reverse else results, op.axis)

    return run


DRIVERS[Recurrence] = recurrence_driver


def _widen(x: Any) -> Any:
    """Return half-width floats as float32, and bools as int32: "or" and "and" by counts."""
    return x.astype(mx.int32) if x.dtype == mx.bool_ else widen_halves(x)


def _block_states(
    op: Recurrence, compute: Callable[..., Any], a: Any, b: Any, *before: Any
) -> tuple[Any, Any]:
    """Return the states of a block of steps after ``before``, and its last state."""
    dtype, axis = b.dtype, op.axis
    a, b = map(_widen, (a, b))
    head, tail = (_last, _first) if op.reverse else (_first, _last)
    if before:
        rest = b.shape[axis] - 1
        first_term = head(a, 1, axis) * before[0] + head(b, 1, axis)
        terms = [first_term, tail(b, rest, axis)]
        b = mx.concatenate(terms[::-1] if op.reverse else terms, axis)
    y = compute(a, b, axis, op.reverse)
    return y.astype(dtype), tail(y, 1, axis)


def _blocks(n: int, size: int, reverse: bool) -> Iterator[slice]:
    for start in range(0, n, size):
        end = min(start + size, n)
        yield slice(n - end, n - start) if reverse else slice(start, end)


def _solve_stepwise(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    n = b.shape[axis]
    order = range(n)[:: -1 if reverse else 1]
    factors, terms = mx.split(a, n, axis), mx.split(b, n, axis)
    states: list[Any] = [*terms]
    for before, i in pairwise(order):
        states[i] = factors[i] * states[before] + terms[i]
    return mx.concatenate(states, axis)


@backend.lower(CoupledRecurrence)
def coupled_recurrence(op: CoupledRecurrence, a: Any, b: Any) -> Any:
    """Return all states by pairwise combination of steps, as matrices."""
    a, wide = widen_halves(a), widen_halves(b)
    times = partial(apply_matrices, times=_zero_preserving_product(a))
    return solve_recurrence(a, wide, -1, op.reverse, times, compose_matrices).astype(b.dtype)


def coupled_driver(op: CoupledRecurrence, options: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    """Return the function that computes a coupled recurrence, by NumPy if a product overflows."""

    def run(a: Any, b: Any) -> Any:
        a, b = map(device_array, (a, b))
        if device_choice("few wide operations", options):
            y = coupled_recurrence(op, a, b)
            if not mx.issubdtype(b.dtype, mx.inexact) or mx.all(mx.isfinite(y)).item():
                return y
        with np.errstate(all="ignore"):
            return from_numpy(op.perform(*map(to_numpy, (a, b))))

    return run


DRIVERS[CoupledRecurrence] = coupled_driver


def solve_recurrence(
    a: Any,
    b: Any,
    axis: int,
    reverse: bool,
    times: Callable[[Any, Any], Any] = mx.multiply,
    compose: Callable[[Any, Any], Any] = mx.multiply,
) -> Any:
    """Return all states of ``y[i] = times(a[i], y[i - 1]) + b[i]``.

    Every second state follows from a recurrence of double steps, half as long; the others follow
    from these. This takes a logarithmic number of operations and a linear amount of work. In
    reverse, steps are counted from the end, and no array is reversed. ``times`` multiplies a factor
    and a state, ``compose`` two factors.
    """
    n = b.shape[axis]
    if n < 2:
        return b
    half, remaining = n // 2, (n - 1) // 2
    # In reverse, the first step is at the last element.
    start = 1 - n % 2 if reverse else 0
    firsts, seconds = (slice_at_axis(slice(i, None, 2), axis) for i in (start, 1 - start))
    a_first, b_first, a_second, b_second = a[firsts], b[firsts], a[seconds], b[seconds]
    head, tail = (_last, _first) if reverse else (_first, _last)
    factor = compose(a_second, head(a_first, half, axis))
    term = times(a_second, head(b_first, half, axis)) + b_second
    deeper = _zero_preserving_product(a) if times is mx.multiply else times
    y_second = solve_recurrence(factor, term, axis, reverse, deeper, compose)
    before = head(y_second, remaining, axis)
    later = times(tail(a_first, remaining, axis), before) + tail(b_first, remaining, axis)
    initial = head(b_first, 1, axis)
    y_first = mx.concatenate([later, initial] if reverse else [initial, later], axis)
    return _interleave(y_second, y_first, axis) if start else _interleave(y_first, y_second, axis)


def _zero_preserving_product(a: Any) -> Callable[[Any, Any], Any]:
    """Return a multiplication by products of these factors that keeps zeros zero, step by step.

    A product of many factors may be infinite though each factor is finite.
    """
    # MLX may loop forever in a reduction without elements.
    if not a.size or not mx.issubdtype(a.dtype, mx.inexact):
        return mx.multiply
    are_finite = mx.logical_not(mx.any(mx.isinf(a)))

    def times(product: Any, y: Any) -> Any:
        is_zero = mx.logical_and(mx.logical_and(mx.isinf(product), y == 0), are_finite)
        return mx.where(is_zero, y, product * y)

    return times


def _first(x: Any, count: int, axis: int) -> Any:
    return x[slice_at_axis(slice(count), axis)]


def _last(x: Any, count: int, axis: int) -> Any:
    return x[slice_at_axis(slice(x.shape[axis] - count, None), axis)]


def _interleave(x: Any, y: Any, axis: int) -> Any:
    """Interleave x and y along an axis; x may have one more element."""
    axis %= x.ndim
    is_longer, m = x.shape[axis] - y.shape[axis], y.shape[axis]
    shape = [*y.shape]
    shape[axis] = 2 * m
    pairs = mx.reshape(mx.stack([_first(x, m, axis), y], axis + 1), shape)
    return mx.concatenate([pairs, _last(x, 1, axis)], axis) if is_longer else pairs
