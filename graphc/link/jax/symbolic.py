"""Lengths that are symbols while ``jax.export`` traces: what is computed from them.

A length stays a symbol where a shape follows from it, and is an array of JAX's where its value is
used. NumPy's references compute with symbols as with any Python numbers.

What must hold of lengths for a function to have a result, such as ``n >= 3`` for ``x[2]``, becomes
a condition of the program: it refuses other lengths when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.errors import InconclusiveDimensionOperation
from jax.export import is_symbolic_dim

from graphc.errors import DynamicShapeError
from graphc.ir import Node, TensorType
from graphc.tensor.core.elementwise import maximum, minimum
from graphc.tensor.core.shape import Length, Shape, as_length, compared_by

LENGTH = TensorType("int64")


_assumed: ContextVar[dict[str, None] | None] = ContextVar("assumed", default=None)


@contextmanager
def assuming(conditions: dict[str, None]) -> Iterator[None]:
    """Collect the conditions on symbols in this context, as ``SymbolicScope`` takes them."""
    token = _assumed.set(conditions)
    try:
        with compared_by(equal, at_least):
            yield
    finally:
        _assumed.reset(token)


def is_assuming() -> bool:
    """Whether a program is being written to a file."""
    return _assumed.get() is not None


def has_symbols(values: Iterable[Any]) -> bool:
    """Whether a value is a symbol, or an array with one for a length."""
    return any(is_symbolic_dim(n) for x in values for n in (x, *getattr(x, "shape", ())))


def is_on_host(x: Any) -> bool:
    """Whether a value is known while JAX traces, or a symbol."""
    return isinstance(x, np.ndarray) or is_symbolic_dim(x)


def at_least(a: Any, b: Any) -> bool:
    """Whether the first length is no less than the second, perhaps as a condition from now on."""
    try:
        return bool(a >= b)
    except InconclusiveDimensionOperation:
        return _assume(f"{a} >= {b}")


def equal(a: Any, b: Any) -> bool:
    """Whether two lengths are equal, perhaps as a condition from now on."""
    if a == b:
        return True
    if not (is_symbolic_dim(a) or is_symbolic_dim(b)):
        return False
    try:
        if a - b > 0 or a - b < 0:
            return False
    except InconclusiveDimensionOperation:
        pass
    return _assume(f"{a} == {b}")


def _assume(condition: str) -> bool:
    conditions = _assumed.get()
    if conditions is None:
        raise DynamicShapeError(
            f"Whether {condition} is not known while JAX traces.",
            "Write the program with f.export(programs=('JAX',)), which makes it a condition, or "
            "declare it: jax.export.symbolic_shape(..., constraints=[...]).",
        )
    conditions[condition] = None
    return True


def most(a: Any, b: Any) -> Any:
    """The larger one of two lengths."""
    return jax.core.max_dim(a, b)


def least(a: Any, b: Any) -> Any:
    """The smaller one of two lengths."""
    return jax.core.min_dim(a, b)


def refuse(what: str, *lengths: Any) -> None:
    """Raise where JAX has to know lengths that are symbols.

    Raises:
        DynamicShapeError: Names them.
    """
    unknown = [str(n) for n in lengths if is_symbolic_dim(n)]
    if unknown:
        raise DynamicShapeError(
            f"{what} needs lengths that are known while JAX compiles, not {', '.join(unknown)}.",
            'Say which they are: dynamic={"x": (10, None)}.',
        )


def part(entry: slice, n: Any) -> tuple[Any, Any, int]:
    """Return what a slice takes of an axis: the first place, the number of places and the step.

    Raises:
        ValueError: The step is 0 or a symbol.
    """
    step = 1 if entry.step is None else entry.step
    if is_symbolic_dim(step) or not step:
        raise ValueError(f"a slice with the step {step}")
    low, high = (0, n) if step > 0 else (-1, n - 1)
    first, last = (low, high) if step > 0 else (high, low)

    def place(given: Any, default: Any) -> tuple[Any, bool]:
        """Return a place, which may be outside of the axis, and whether it counts from the end."""
        if given is None:
            return default, step > 0
        return (given, False) if at_least(given, 0) else (n + given, True)

    def inside(place: Any, *, from_end: bool) -> Any:
        return most(place, low) if from_end else least(place, high)

    (start, start_from_end), (stop, stop_from_end) = (
        place(entry.start, first),
        place(entry.stop, last),
    )
    begin = first if entry.start is None else inside(start, from_end=start_from_end)
    end = last if entry.stop is None else inside(stop, from_end=stop_from_end)
    way = end - begin if step > 0 else begin - end
    if step > 0 and stop_from_end and (entry.start is None or not start_from_end):
        # The same number, written so that x[1:][1:] and x[1:][:-1] are seen to be equally long.
        way = stop - (0 if entry.start is None else start)
    elif step > 0 and entry.stop is None:
        way = least(n, n - start)
    count = (most(way, 0) - 1) // abs(step) + 1
    if step == 1 and entry.start is not None:
        begin = n - count if entry.stop is None else least(begin, n - count)
    return begin, count, step


def meets_symbols(node: Node) -> bool:
    """Return whether an operation gives lengths, or may take what is computed from them."""
    return isinstance(node.op, Length | Shape) or any(x.type is LENGTH for x in node.inputs)


def of_symbols(compute: Callable[..., Any], deciding: Container[int]) -> Callable[..., Any]:
    """Return a lowering that takes symbols: as lengths where they decide a shape, else as arrays.

    Args:
        compute: The lowering.
        deciding: The operands that decide its shape, by position.
    """

    def given(*values: Any) -> Any:
        if not any(map(is_symbolic_dim, values)):
            return compute(*values)
        return compute(
            *[
                jnp.asarray(x, np.int64) if is_symbolic_dim(x) and i not in deciding else x
                for i, x in enumerate(values)
            ]
        )

    return given


ENDS: dict[Any, Callable[[Any, Any], Any]] = {maximum: most, minimum: least}
"""The operations that NumPy would compare symbols for."""


def on_host(
    node: Node, compute: Callable[..., Any], traced: Callable[..., Any]
) -> Callable[..., Any]:
    """Return what computes a number on the host, which may be a symbol.

    Args:
        node: What is computed.
        compute: Of numbers that are known.
        traced: Its lowering, of arrays.
    """
    op: Any = node.op

    def given(*values: Any) -> Any:
        if isinstance(op, Length):
            n = values[0].shape[op.axis]
            return n if is_symbolic_dim(n) else compute(*values)
        if isinstance(op, Shape) and has_symbols(values):
            return jnp.stack([jnp.asarray(n, np.int64) for n in values[0].shape])
        if not any(map(is_symbolic_dim, values)):
            return compute(*values)
        try:
            perform = ENDS.get(op, op.perform)
            found = perform(*map(as_length, values))
        except (AttributeError, TypeError, InconclusiveDimensionOperation):
            found = None
        if is_symbolic_dim(found):
            return found
        return traced(*[jnp.asarray(x, np.int64) if is_symbolic_dim(x) else x for x in values])

    return given
