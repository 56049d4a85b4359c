"""Lengths that are symbols while ``jax.export`` traces, and numbers computed from them.

A length stays a symbol if it decides a shape, and becomes a JAX array if its value is used. NumPy's
references compute with symbols as with any Python numbers.

A requirement on lengths, such as ``n >= 3`` for ``x[2]``, becomes a condition of the program: the
program refuses other lengths when it is called.
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

from graphc.context import setting
from graphc.errors import DynamicShapeError
from graphc.ir import Node, TensorType
from graphc.tensor.core.elementwise import maximum, minimum
from graphc.tensor.core.shape import Length, Shape, as_length, compared_by

LENGTH = TensorType("int64")


_assumed: ContextVar[dict[str, None] | None] = ContextVar("assumed", default=None)


@contextmanager
def assuming(conditions: dict[str, None]) -> Iterator[None]:
    """Collect the conditions on symbols in this context, as ``SymbolicScope`` takes them."""
    with setting(_assumed, conditions), compared_by(equal, at_least):
        yield


def is_assuming() -> bool:
    """Return whether a program is being exported, so that conditions can be assumed."""
    return _assumed.get() is not None


def has_symbols(values: Iterable[Any]) -> bool:
    """Return whether a value is a symbol, or an array with a symbol in its shape."""
    return any(is_symbolic_dim(n) for x in values for n in (x, *getattr(x, "shape", ())))


def is_on_host(x: Any) -> bool:
    """Return whether a value is static while JAX traces, or a symbol."""
    return isinstance(x, np.ndarray) or is_symbolic_dim(x)


def at_least(a: Any, b: Any) -> bool:
    """Return whether ``a >= b``; an undecided comparison becomes a condition."""
    try:
        return bool(a >= b)
    except InconclusiveDimensionOperation:
        return _assume(f"{a} >= {b}")


def equal(a: Any, b: Any) -> bool:
    """Return whether two lengths are equal; an undecided comparison becomes a condition."""
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
    """Return the larger of two lengths."""
    return jax.core.max_dim(a, b)


def least(a: Any, b: Any) -> Any:
    """Return the smaller of two lengths."""
    return jax.core.min_dim(a, b)


def refuse(subject: str, *lengths: Any) -> None:
    """Refuse symbols for lengths that JAX must know.

    Args:
        subject: The operation, in messages.
        lengths: The lengths.

    Raises:
        DynamicShapeError: If a length is a symbol.
    """
    unknown = [str(n) for n in lengths if is_symbolic_dim(n)]
    if unknown:
        raise DynamicShapeError(
            f"{subject} needs lengths that are known while JAX compiles, not {', '.join(unknown)}.",
            'Say which they are: dynamic={"x": (10, None)}.',
        )


def part(entry: slice, n: Any) -> tuple[Any, Any, int]:
    """Return the first index of a slice of an axis, the number of indices, and the step.

    Args:
        entry: The slice.
        n: The length of the axis.

    Raises:
        ValueError: If the step is 0 or a symbol.
    """
    step = 1 if entry.step is None else entry.step
    if is_symbolic_dim(step) or not step:
        raise ValueError(f"a slice with the step {step}")
    low, high = (0, n) if step > 0 else (-1, n - 1)
    first, last = (low, high) if step > 0 else (high, low)

    def position(bound: Any, default: Any) -> tuple[Any, bool]:
        """Return an index, perhaps out of range, and whether the bound counts from the end."""
        if bound is None:
            return default, step > 0
        return (bound, False) if at_least(bound, 0) else (n + bound, True)

    def clip(index: Any, *, from_end: bool) -> Any:
        return most(index, low) if from_end else least(index, high)

    (start, start_from_end), (stop, stop_from_end) = (
        position(entry.start, first),
        position(entry.stop, last),
    )
    begin = first if entry.start is None else clip(start, from_end=start_from_end)
    end = last if entry.stop is None else clip(stop, from_end=stop_from_end)
    distance = end - begin if step > 0 else begin - end
    if step > 0 and stop_from_end and (entry.start is None or not start_from_end):
        # An equal number, in a form by which JAX finds that x[1:][1:] and x[1:][:-1] are as long.
        distance = stop - (0 if entry.start is None else start)
    elif step > 0 and entry.stop is None:
        distance = least(n, n - start)
    count = (most(distance, 0) - 1) // abs(step) + 1
    if step == 1 and entry.start is not None:
        begin = n - count if entry.stop is None else least(begin, n - count)
    return begin, count, step


def meets_symbols(node: Node) -> bool:
    """Return whether an operation returns lengths, or may take numbers computed from them."""
    return isinstance(node.op, Length | Shape) or any(x.type is LENGTH for x in node.inputs)


def of_symbols(compute: Callable[..., Any], deciding: Container[int]) -> Callable[..., Any]:
    """Return a lowering that takes symbols: as lengths if they decide a shape, else as arrays.

    Args:
        compute: The lowering.
        deciding: The positions of the operands that decide the shape of the result.
    """

    def call(*values: Any) -> Any:
        if not any(map(is_symbolic_dim, values)):
            return compute(*values)
        return compute(
            *[
                jnp.asarray(x, np.int64) if is_symbolic_dim(x) and i not in deciding else x
                for i, x in enumerate(values)
            ]
        )

    return call


EXTREMA: dict[Any, Callable[[Any, Any], Any]] = {maximum: most, minimum: least}
"""Operations for which NumPy would compare symbols."""


def on_host(
    node: Node, compute: Callable[..., Any], traced: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that computes a number on the host, which may be a symbol.

    Args:
        node: The node of the number.
        compute: The function that computes the node from static numbers.
        traced: The lowering of the node, a function of arrays.
    """
    op: Any = node.op

    def call(*values: Any) -> Any:
        if isinstance(op, Length):
            n = values[0].shape[op.axis]
            return n if is_symbolic_dim(n) else compute(*values)
        if isinstance(op, Shape) and has_symbols(values):
            return jnp.stack([jnp.asarray(n, np.int64) for n in values[0].shape])
        if not any(map(is_symbolic_dim, values)):
            return compute(*values)
        try:
            perform = EXTREMA.get(op, op.perform)
            result = perform(*map(as_length, values))
        except (AttributeError, TypeError, InconclusiveDimensionOperation):
            result = None
        if is_symbolic_dim(result):
            return result
        return traced(*[jnp.asarray(x, np.int64) if is_symbolic_dim(x) else x for x in values])

    return call
