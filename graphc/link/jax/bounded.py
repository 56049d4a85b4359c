"""Lengths unknown while JAX traces: arrays in buffers of bounded length.

How many steps a loop does until it stops is such a length; so is a number of steps that is another
one at every call, once there were several of them, and so are the lengths of arguments that are
padded to buckets. What follows from these, the length of a trace or of a slice, is a ``Count``. An
array that has a count for a length is ``Ragged``: a buffer as long as the upper bound, and what is
known of its elements beyond the count. A rule (``RULES``) computes an operation of such arrays: it
puts other numbers there, by a mask, only where the operation would read them.

Lengths that must be equal, and cannot be seen to be, are compared when the program has run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.errors import BoundsError, DynamicShapeError, GraphcError, RuntimeShapeError
from graphc.ir import Node, Op
from graphc.ir.law import deciding_inputs
from graphc.link.jax.counts import Count, Formula, as_count, bound, is_known, is_same, plain
from graphc.tensor.core.shape import are_equal

Counts = tuple[Count | None, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Ragged:
    """An array with lengths that are unknown while JAX traces, held in a longer buffer.

    Attributes:
        buffer: Its elements, and others behind them.
        counts: For each axis how many are its own along it; None where all are.
        fill: What all other elements are, where that is known.
    """

    buffer: Any
    counts: Counts
    fill: Any = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """The lengths, some of them a ``Count``."""
        pairs = zip(self.buffer.shape, self.counts, strict=True)
        return tuple([n if count is None else count for n, count in pairs])

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes with a count."""
        return tuple([i for i, n in enumerate(self.counts) if n is not None])

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.buffer.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.buffer.dtype

    def inside(self, axes: Sequence[int] | None = None) -> Any:
        """A mask of the buffer's elements that are within the counts of these axes, or of all."""
        found = None
        for axis in self.axes if axes is None else axes:
            count = self.counts[axis]
            assert count is not None
            mask = within(self.buffer.shape, axis, count)
            found = mask if found is None else lax.bitwise_and(found, mask)
        return found

    def cut(self, lengths: Sequence[int] = ()) -> Any:
        """Return the array in its own lengths, once these are known; NumPy's where it was cut.

        Args:
            lengths: Those of the call, which formulas are of.

        Raises:
            DynamicShapeError: They are not known, as the user's own code is being traced.
        """
        known = [
            _known_length(n, m, lengths)
            for n, m in zip(self.counts, self.buffer.shape, strict=True)
        ]
        if tuple(known) == self.buffer.shape:
            return self.buffer
        if isinstance(self.buffer, jax.core.Tracer):
            return lax.slice(self.buffer, [0] * self.ndim, known)
        # JAX would compile a slice for each length.
        return np.asarray(self.buffer)[tuple([slice(n) for n in known])]

    def filled(self, fill: Any, axes: Sequence[int] | None = None) -> Any:
        """The buffer with its unused elements along these axes, or all, being a number."""
        if axes is not None and not axes:
            return self.buffer
        if self.fill is not None and _is_number(self.fill, fill, self.dtype):
            return self.buffer
        other = lax.full(self.buffer.shape, fill, self.dtype)
        return lax.select(self.inside(axes), self.buffer, other)


def in_own_lengths(results: Sequence[Any], lengths: Sequence[int] = ()) -> list[Any]:
    """The results of a program, those in buffers cut: by NumPy, and put on the device together.

    Args:
        results: Arrays, and arrays in buffers.
        lengths: Those of the call, which formulas are of.
    """
    found = [y.cut(lengths) if isinstance(y, Ragged) else y for y in results]
    places = [i for i, y in enumerate(found) if isinstance(y, np.ndarray)]
    if places:
        buffers = [results[i].buffer for i in places]
        targets = [x.sharding for x in buffers] if buffers[0].committed else None
        # A call of device_put costs more than what it does for an array.
        parts = jax.device_put([found[i] for i in places], targets)
        for i, part in zip(places, parts, strict=True):
            found[i] = part
    return found


def within(shape: Sequence[int], axis: int, count: Any) -> Any:
    """A mask in a shape, of the elements within a count along an axis."""
    places = lax.broadcasted_iota(np.int64, shape, axis)
    return lax.lt(places, lax.broadcast(as_count(count).value, shape))


def _is_number(a: Any, b: Any, dtype: Any) -> bool:
    x, y = np.asarray(a, dtype), np.asarray(b, dtype)
    return bool(x == y)


def _known_length(count: Count | None, n: int, lengths: Sequence[int]) -> int:
    if count is None:
        return n
    if count.formula is not None:
        return count.formula.evaluate(lengths)
    if isinstance(count.given, jax.core.Tracer):
        raise DynamicShapeError(
            "A result has a length that is not known while JAX traces.",
            "Call the function outside of jax.jit, jax.vmap and jax.grad.",
        )
    return int(count.given)


def _flat(x: Ragged) -> tuple[Any, Any]:
    given = [n.given for n in x.counts if n is not None and n.formula is None]
    how = tuple([n and (n.low, n.high, n.formula) for n in x.counts])
    return (x.buffer, *given), how


def _again(how: Any, parts: Any) -> Ragged:
    buffer, *given = parts
    left = iter(given)
    counts = [n and Count(None if n[2] is not None else next(left), *n) for n in how]
    return Ragged(buffer, tuple(counts))


jax.tree_util.register_pytree_node(Ragged, _flat, _again)


def ragged(buffer: Any, shape: Sequence[Any], fill: Any = None) -> Any:
    """Make an array of a shape that may have counts; a buffer that is too long is cut.

    Args:
        buffer: Its elements, and others behind them.
        shape: The lengths, integers or counts.
        fill: What the others are, if that is known.
    """
    counts: list[Count | None] = []
    for axis, n in enumerate(shape):
        if is_symbolic_dim(n):
            counts.append(None)
            continue
        count = as_count(n)
        buffer = cut(buffer, bound(count), axis)
        counts.append(None if count.low == count.high else count)
    return Ragged(buffer, tuple(counts), fill) if any(counts) else buffer


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


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on the lengths of a call: a program for a bucket gives its results only then.

    Attributes:
        a: A formula.
        b: One that it must be equal to.
        at_least: Whether it may be more.
    """

    a: Formula
    b: Formula
    at_least: bool

    def holds(self, lengths: Sequence[int]) -> bool:
        """Whether it holds for these lengths."""
        a, b = self.a.evaluate(lengths), self.b.evaluate(lengths)
        return a >= b if self.at_least else a == b


jax.tree_util.register_static(Guard)

_pending: ContextVar[list[LengthCheck] | None] = ContextVar("pending", default=None)
_guards: ContextVar[dict[Guard, None] | None] = ContextVar("guards", default=None)


@contextmanager
def checked(pending: list[LengthCheck] | None) -> Iterator[None]:
    """Collect checks of lengths in this context; not within the step of a loop."""
    token = _pending.set(pending)
    try:
        yield
    finally:
        _pending.reset(token)


@contextmanager
def guarded(guards: dict[Guard, None]) -> Iterator[None]:
    """Collect the conditions on the lengths of a call, within the steps of loops too."""
    token = _guards.set(guards)
    try:
        yield
    finally:
        _guards.reset(token)


def agree(a: Any, b: Any, error: Callable[[int, int], GraphcError]) -> None:
    """Check that two lengths are equal."""
    if is_symbolic_dim(a) or is_symbolic_dim(b):
        if not are_equal(a, b):
            raise error(a, b)
        return
    if a is b or is_same(a, b):
        return
    x, y = as_count(a), as_count(b)
    if x.high < y.low or y.high < x.low:
        raise error(x.low, y.low)
    if not _is_guarded(x, y, at_least=False):
        _later(LengthCheck(x.value, y.value, error, at_least=False))


def at_least(a: Any, b: Any, error: Callable[[int, int], GraphcError]) -> None:
    """Check that the first is not less than the second; within a step no traced one is checked."""
    x, y = as_count(a), as_count(b)
    if x.high < y.low:
        raise error(x.high, y.low)
    if x.low >= y.high or is_same(x, y) or _is_guarded(x, y, at_least=True):
        return
    if _pending.get() is not None:
        _later(LengthCheck(x.value, y.value, error, at_least=True))


def _is_guarded(x: Count, y: Count, *, at_least: bool) -> bool:
    """Whether a condition is one on the lengths of a call, by which a program is chosen."""
    guards = _guards.get()
    if guards is None or x.formula is None or y.formula is None:
        return False
    guards[Guard(x.formula, y.formula, at_least)] = None
    return True


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
Rule = Callable[[Node, Any, Sequence[Any]], Any]

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
    decides = () if node.op.graphs() else deciding_inputs(node)
    needed = bool(decides) or any(isinstance(x, Ragged) for x in values)
    for cls in type(node.op).__mro__:
        if cls in RULES and (needed or cls in OF_COUNTS):
            return RULES[cls](node, lowering, values)
    if needed or lowering is None:
        raise refused(node)
    return lowering(node.op, *arrays(node, values))


def arrays(node: Node, values: Sequence[Any]) -> list[Any]:
    """Return the operands, with counts as arrays of their inputs' dtypes."""
    return [
        lax.convert_element_type(x.value, known.type.numpy_dtype) if isinstance(x, Count) else x
        for x, known in zip(values, node.inputs, strict=True)
    ]


def refused(node: Node) -> DynamicShapeError:
    """Return the error for an operation that needs an unknown length."""
    if _guards.get() is not None:
        # The exact program runs, and a plan says this.
        return DynamicShapeError(f"{node!r} cannot be padded", "", node.where)
    return DynamicShapeError(
        f"{node!r} needs a length that is known while JAX compiles; here it depends on how many "
        "steps a loop does.",
        "Use the last step's value alone ([-1]); or a fixed number of steps, n_steps, with "
        "gt.where in place of until; or mode='NUMPY'.",
        node.where,
    )


def zero_beyond(x: Any, axes: Sequence[int]) -> Any:
    """The buffer of an array, with zeros for unused elements along these axes."""
    if not isinstance(x, Ragged):
        return plain(x)
    return x.filled(0, [axis for axis in x.axes if axis in axes])


def whole(x: Any, node: Node) -> Any:
    """Return an array, or a count's value.

    Raises:
        DynamicShapeError: An array's length is not known.
    """
    if isinstance(x, Ragged):
        raise refused(node)
    return plain(x)


def inner(x: Any) -> Any:
    """Return the buffer of an array, or a count's value."""
    return x.buffer if isinstance(x, Ragged) else plain(x)


def cut(x: Any, n: int, axis: int) -> Any:
    """Cut a buffer to its first elements."""
    return x if x.shape[axis] <= n else lax.slice_in_dim(x, 0, n, axis=axis)


def common(node: Node, values: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Any], Any]:
    """Give arrays one length along an axis of each: cut them, and return it too.

    Args:
        node: Named where they do not fit.
        values: Arrays.
        axes: Of each the axis; None where it has none, or one of length 1 that is repeated.
    """
    lengths = [x.shape[a] for x, a in zip(values, axes, strict=True) if a is not None]
    # A length that is known needs no mask.
    n = next((n for n in lengths if is_known(n)), lengths[0])
    for other in lengths:
        agree(n, other, unequal(node))
    pairs = [(x, a) for x, a in zip(values, axes, strict=True)]
    most = min(inner(x).shape[a] for x, a in pairs if a is not None)
    return [x if a is None else _with_length(x, a, n, most) for x, a in pairs], n


def _with_length(x: Any, axis: int, n: Any, most: int) -> Any:
    """An array of a length that it has, in a buffer of no more elements than that along an axis."""
    if not isinstance(x, Ragged):
        return cut(x, most, axis) if is_known(n) else _counted(x, axis, n, most)
    buffer = cut(x.buffer, most, axis)
    counts = list(x.counts)
    counts[axis] = None if is_known(n) else n
    return replace(x, buffer=buffer, counts=tuple(counts)) if any(counts) else buffer


def _counted(x: Any, axis: int, n: Any, most: int) -> Any:
    counts = [n if i == axis else None for i in range(x.ndim)]
    return Ragged(cut(x, most, axis), tuple(counts))


def aligned(
    node: Node, values: Sequence[Any], known: Sequence[Node]
) -> tuple[list[Any], list[Any]]:
    """Give arrays that are broadcast common lengths; return them and the shape of the result.

    Args:
        node: Named where they do not fit.
        values: Arrays.
        known: The nodes that these are the values of: only static lengths of 1 are repeated.
    """
    found = list(values)
    ndim = max(x.ndim for x in values)
    shape = []
    for axis in range(-ndim, 0):
        axes = [
            x.ndim + axis if x.ndim >= -axis and of.type.shape[axis] != 1 else None
            for x, of in zip(found, known, strict=True)
        ]
        if any(a is not None for a in axes):
            found, n = common(node, found, axes)
        else:
            n = 1
        shape.append(n)
    return found, shape


def kept_fill(op: Op, values: Sequence[Any], shape: Sequence[Any]) -> Any:
    """What an elementwise operation makes of the numbers beyond its operands' counts.

    None where the numbers there are not known, or those of one operand stand beside elements of
    another.
    """
    own = [isinstance(n, Count) for n in shape]
    numbers = []
    for x in values:
        if isinstance(x, Ragged) and x.fill is not None:
            if [n is not None for n in x.counts] != own:
                return None
            numbers.append(np.asarray(x.fill, x.dtype))
        elif is_known(x) and not np.ndim(x):
            numbers.append(np.asarray(x))
        else:
            return None
    with np.errstate(all="ignore"):
        found = op.perform(*numbers)
    return None if np.ndim(found) else found
