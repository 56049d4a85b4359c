"""Lengths unknown while JAX traces: arrays in buffers of bounded length.

How many steps a loop does until it stops is such a length; so is a number of steps that is another
one at every call, once there were several of them. What follows from it, the length of a trace or
of a slice, is a ``Count``: a traced integer with bounds. An array that has a count for a length is
``Ragged``: a buffer as long as the upper bound, whose elements beyond the count mean nothing.

Lengths that must be equal, and cannot be seen to be, are compared when the program has run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import lax

from graphc.errors import BoundsError, DynamicShapeError, GraphcError, RuntimeShapeError
from graphc.intervals.interval import INTEGERS, Interval
from graphc.intervals.rules import image
from graphc.ir import Node, Op

LEAST, MOST = -(2**63), 2**63 - 1
UNBOUNDED = 2**48
"""A bound that no buffer can have."""


@dataclass(frozen=True, eq=False, slots=True)
class Count:
    """An integer that is unknown while JAX traces, with its bounds.

    Attributes:
        value: A traced int64 scalar.
        low: The least that it can be.
        high: The most.
    """

    value: Any
    low: int = LEAST
    high: int = MOST

    shape = ()
    ndim = 0
    dtype = np.dtype(np.int64)

    def __repr__(self) -> str:
        return f"{self.low}..{self.high}"


@dataclass(frozen=True, eq=False, slots=True)
class Ragged:
    """An array with one length that is unknown while JAX traces, held in a longer buffer.

    Attributes:
        buffer: Its elements, and others behind them.
        count: How many are its own along the axis.
        axis: That axis.
    """

    buffer: Any
    count: Count
    axis: int

    @property
    def shape(self) -> tuple[Any, ...]:
        """The lengths, one of them a ``Count``."""
        own = self.buffer.shape
        return (*own[: self.axis], self.count, *own[self.axis + 1 :])

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.buffer.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.buffer.dtype

    def inside(self) -> Any:
        """A mask of the buffer's elements that belong to the array."""
        places = lax.broadcasted_iota(np.int64, self.buffer.shape, self.axis)
        return lax.lt(places, self.count.value)

    def cut(self) -> Any:
        """Return the array in its own length, once that is known.

        Raises:
            DynamicShapeError: It is not, as the user's own code is being traced.
        """
        if isinstance(self.buffer, jax.core.Tracer):
            raise DynamicShapeError(
                "A result has a length that is not known while JAX traces.",
                "Call the function outside of jax.jit, jax.vmap and jax.grad.",
            )
        # In NumPy, as JAX would compile a slice for each length.
        part = np.asarray(self.buffer)[(slice(None),) * self.axis + (slice(int(self.count.value)),)]
        return jax.device_put(part, self.buffer.sharding)

    def filled(self, fill: Any) -> Any:
        """Fill the buffer's unused elements with a number."""
        other = lax.full(self.buffer.shape, fill, self.dtype)
        return lax.select(self.inside(), self.buffer, other)


jax.tree_util.register_pytree_node(
    Ragged,
    lambda x: ((x.buffer, x.count.value), (x.axis, x.count.low, x.count.high)),
    lambda how, parts: Ragged(parts[0], Count(parts[1], *how[1:]), how[0]),
)


def is_known(x: Any) -> bool:
    """Whether a value is known while JAX traces."""
    return isinstance(x, np.ndarray | np.generic | int)


# Counts.


def as_count(n: Any) -> Count:
    """Convert an integer, known or traced, to a ``Count``."""
    if isinstance(n, Count):
        return n
    if is_known(n):
        return Count(np.asarray(n, np.int64), int(n), int(n))
    return Count(lax.convert_element_type(n, np.int64))


def plain(x: Any) -> Any:
    """Return a count's value; anything else unchanged."""
    return x.value if isinstance(x, Count) else x


def settled(n: Count) -> Any:
    """Return a count whose bounds are equal as an integer."""
    return np.asarray(n.low, np.int64) if n.low == n.high else n


def combined(name: str, f: Callable[..., Any], *xs: Any) -> Any:
    """The count that is an elementwise function of others.

    Args:
        name: The function's row.
        f: The same of values in JAX.
        xs: Counts and known integers.
    """
    counts = [as_count(x) for x in xs]
    bounds = image(INTEGERS, name, *[Interval(x.low, x.high) for x in counts])
    assert bounds is not None
    low, high = max(bounds.low, LEAST), min(bounds.high, MOST)
    return settled(Count(f(*[x.value for x in counts]), low, high))


def compared(name: str, a: Any, b: Any) -> bool | None:
    """The result of a comparison of integers that their bounds decide."""
    x, y = as_count(a), as_count(b)
    ends = [Interval(0, 0)] * 2 if x.value is y.value else [Interval(n.low, n.high) for n in (x, y)]
    found = image(INTEGERS, name, *ends)
    return bool(found.low) if found is not None and found.low == found.high else None


def plus(a: Any, b: Any) -> Any:
    """The sum."""
    for x, y in ((a, b), (b, a)):
        if is_known(x) and int(x) == 0:
            return y
    return combined("add", lax.add, a, b)


def minus(a: Any, b: Any) -> Any:
    """The difference."""
    if a is b:
        return np.asarray(0, np.int64)
    if is_known(b) and int(b) == 0:
        return a
    return combined("subtract", lax.sub, a, b)


def times(a: Any, b: Any) -> Any:
    """The product."""
    return combined("multiply", lax.mul, a, b)


def over(n: Any, step: int) -> Any:
    """The quotient of a count that is not negative, rounded down."""
    return n if step == 1 else combined("floor_divide", lax.div, n, step)


def every(n: Any, step: int) -> Any:
    """How many there are of a count if one of so many is taken, the first of them included."""
    return over(plus(n, step - 1), step)


def least(a: Any, b: Any) -> Any:
    """The smaller one, which is one of them where that is known."""
    for x, y in ((as_count(a), as_count(b)), (as_count(b), as_count(a))):
        if x.high <= y.low:
            return settled(x)
    return combined("minimum", lax.min, a, b)


def most(a: Any, b: Any) -> Any:
    """The larger one, which is one of them where that is known."""
    for x, y in ((as_count(a), as_count(b)), (as_count(b), as_count(a))):
        if x.low >= y.high:
            return settled(x)
    return combined("maximum", lax.max, a, b)


def bound(n: Any) -> int:
    """Return the longest buffer that is needed.

    Raises:
        DynamicShapeError: There is no bound.
    """
    count = as_count(n)
    if count.high >= UNBOUNDED:
        raise DynamicShapeError(
            "A length is unknown while JAX compiles, and has no upper bound.",
            "Limit it by gt.minimum(n, most) or, of a loop, by the most steps there can be; or use "
            "mode='NUMPY'.",
        )
    return max(count.high, 0)


def ragged(buffer: Any, count: Any, axis: int) -> Any:
    """Make an array of a length that may be a ``Count``; too long a buffer is cut."""
    count = as_count(count)
    n = bound(count)
    if buffer.shape[axis] > n:
        buffer = lax.slice_in_dim(buffer, 0, n, axis=axis)
    return buffer if count.low == count.high else Ragged(buffer, count, axis)


# What must be equal, and is compared when the program has run.


@dataclass(frozen=True, eq=False, slots=True)
class LengthCheck:
    """A check that two integers are equal, or that the first is at least the second.

    Attributes:
        a: The first one.
        b: The second.
        error: What is raised where they are not, given both.
        at_least: Whether the first may be more.
    """

    a: Any
    b: Any
    error: Callable[[int, int], GraphcError]
    at_least: bool

    def verify(self) -> None:
        """Raise where the check fails."""
        if isinstance(self.a, jax.core.Tracer):
            return
        a, b = int(self.a), int(self.b)
        if a < b or (a > b and not self.at_least):
            raise self.error(a, b)


jax.tree_util.register_pytree_node(
    LengthCheck,
    lambda x: ((x.a, x.b), (x.error, x.at_least)),
    lambda how, ab: LengthCheck(*ab, *how),
)

_pending: ContextVar[list[LengthCheck] | None] = ContextVar("pending", default=None)


@contextmanager
def checked(pending: list[LengthCheck] | None) -> Iterator[None]:
    """Collect checks of lengths in this context; not within the step of a loop."""
    token = _pending.set(pending)
    try:
        yield
    finally:
        _pending.reset(token)


def agree(a: Any, b: Any, error: Callable[[int, int], GraphcError]) -> None:
    """Check that two lengths are equal."""
    if a is b:
        return
    x, y = as_count(a), as_count(b)
    if x.value is y.value or x.low == x.high == y.low == y.high:
        return
    if x.high < y.low or y.high < x.low:
        raise error(x.low, y.low)
    _later(LengthCheck(x.value, y.value, error, at_least=False))


def at_least(a: Any, b: Any, error: Callable[[int, int], GraphcError]) -> None:
    """Check that the first is not less than the second; within a step nothing is checked."""
    x, y = as_count(a), as_count(b)
    if x.high < y.low:
        raise error(x.high, y.low)
    if x.low < y.high and x.value is not y.value and _pending.get() is not None:
        _later(LengthCheck(x.value, y.value, error, at_least=True))


def _later(check: LengthCheck) -> None:
    pending = _pending.get()
    if pending is None:
        raise DynamicShapeError(
            "Whether two lengths fit is not known while JAX compiles the step of a loop.",
            "Make them the same length, or use mode='NUMPY'.",
        )
    pending.append(check)


def unequal(node: Node) -> Callable[[int, int], GraphcError]:
    """Return the error for two lengths of operands that differ."""

    def error(a: int, b: int) -> GraphcError:
        return RuntimeShapeError(
            f"{node!r}: lengths that must be equal are {a} and {b}.", "Make them equal.", node.where
        )

    return error


def outside(node: Node, i: int) -> Callable[[int, int], GraphcError]:
    """Return the error for an index outside of an array."""

    def error(a: int, b: int) -> GraphcError:
        return BoundsError(f"{node!r}: index {i} is out of bounds for length {a}.", "", node.where)

    return error


# Operations.

Lowering = Callable[..., Any]
Rule = Callable[[Node, Lowering, Sequence[Any]], Any]

RULES: dict[type[Op], Rule] = {}
"""The functions that compute operations with ``Count`` or ``Ragged`` operands."""


OF_COUNTS: set[type[Op]] = set()
"""Those of them whose rule is for counts too; others take these as arrays."""


def rule(*ops: type[Op], of_counts: bool = False) -> Callable[[Rule], Rule]:
    """Register the decorated function for these operations."""

    def enter(f: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, f))
        OF_COUNTS.update(ops if of_counts else ())
        return f

    return enter


def compute(node: Node, lowering: Lowering | None, values: Sequence[Any]) -> Any:
    """Compute an operation with ``Count`` or ``Ragged`` operands, or with unknown shapes.

    Args:
        node: What is computed.
        lowering: What computes it of arrays of known shapes.
        values: The operands.

    Raises:
        DynamicShapeError: It cannot be.
    """
    decides = () if node.op.graphs() else node.op.host_inputs()
    needed = bool(decides) or any(isinstance(x, Ragged) for x in values)
    if lowering is None:
        raise refused(node)
    for cls in type(node.op).__mro__:
        if cls in RULES and (needed or cls in OF_COUNTS):
            return RULES[cls](node, lowering, values)
    if needed:
        raise refused(node)
    return lowering(node.op, *arrays(node, values))


def arrays(node: Node, values: Sequence[Any]) -> list[Any]:
    """Return the operands, with counts as arrays of their inputs' dtypes."""
    return [
        lax.convert_element_type(x.value, known.type.numpy_dtype) if isinstance(x, Count) else x
        for x, known in zip(values, node.inputs, strict=True)
    ]


def ragged_axis(node: Node, values: Sequence[Any]) -> int:
    """Return the axis along which arrays are ragged; it must be the same for all."""
    axes = {x.axis for x in values if isinstance(x, Ragged)}
    if len(axes) != 1:
        raise refused(node)
    return axes.pop()


def refused(node: Node) -> DynamicShapeError:
    """Return the error for an operation that needs an unknown length."""
    return DynamicShapeError(
        f"{node!r} needs a length that is known while JAX compiles; here it depends on how many "
        "steps a loop does.",
        "Use the last step's value alone ([-1]); or a fixed number of steps, n_steps, with "
        "gt.where in place of until; or mode='NUMPY'.",
        node.where,
    )


def whole(x: Any, node: Node) -> Any:
    """Return an array, or a count's value.

    Raises:
        DynamicShapeError: An array's length is not known.
    """
    if isinstance(x, Ragged):
        raise refused(node)
    return plain(x)


def cut(x: Any, n: int, axis: int) -> Any:
    """Cut a buffer to its first elements."""
    return x if x.shape[axis] <= n else lax.slice_in_dim(x, 0, n, axis=axis)


def aligned(node: Node, values: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Any], Any]:
    """Align buffers along axes; return them and their common count.

    Args:
        node: Named where they do not fit.
        values: Arrays.
        axes: Of each the axis that the count is the length of; None where it has none, or 1.
    """
    of_each = [None if a is None else x.shape[a] for x, a in zip(values, axes, strict=True)]
    lengths = [n for n in of_each if n is not None]
    count = next(n for n in lengths if isinstance(n, Count))
    for n in lengths:
        agree(count, n, unequal(node))
    buffers = [x.buffer if isinstance(x, Ragged) else plain(x) for x in values]
    n = min(x.shape[a] for x, a in zip(buffers, axes, strict=True) if a is not None)
    return [x if a is None else cut(x, n, a) for x, a in zip(buffers, axes, strict=True)], count
