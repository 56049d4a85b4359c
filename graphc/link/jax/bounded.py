"""Lengths unknown while JAX traces: arrays in buffers of bounded length.

Unknown lengths are the number of steps until a loop stops, a number of steps that changes from call
to call, and the lengths of arguments that are padded to buckets. A length that depends on them, of
the rows of a loop or of a slice, is a ``Count``. An array with a count in its shape is ``Ragged``:
a buffer as long as the upper bound, and the value of its padding, if that is known. A rule
(``RULES``) computes an operation of ragged arrays: it masks the padding only if the operation would
read it.

Lengths that must be equal are compared after the program has run, unless they are certainly equal.
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
    """An array with lengths that are unknown while JAX traces, in a longer buffer.

    Attributes:
        buffer: The elements, followed by padding along each axis.
        counts: The valid length of each axis; None for an axis without padding.
        fill: The value of the padding; None if it is unknown.
    """

    buffer: Any
    counts: Counts
    fill: Any = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """The valid lengths, some of them a ``Count``."""
        pairs = zip(self.buffer.shape, self.counts, strict=True)
        return tuple([n if count is None else count for n, count in pairs])

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes with padding."""
        return tuple([i for i, n in enumerate(self.counts) if n is not None])

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.buffer.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.buffer.dtype

    def inside(self, axes: Sequence[int] | None = None) -> Any:
        """Return a mask of the buffer's valid elements along these axes, by default all axes."""
        valid = None
        for axis in self.axes if axes is None else axes:
            count = self.counts[axis]
            assert count is not None
            mask = within(self.buffer.shape, axis, count)
            valid = mask if valid is None else lax.bitwise_and(valid, mask)
        return valid

    def trim(self, lengths: Sequence[int] = ()) -> Any:
        """Return the valid elements: the buffer if all are valid, else a NumPy array.

        Args:
            lengths: The lengths in formulas at this call.

        Raises:
            DynamicShapeError: If the valid lengths are unknown, because JAX traces the user's code.
        """
        valid = [
            _valid_length(n, m, lengths)
            for n, m in zip(self.counts, self.buffer.shape, strict=True)
        ]
        if tuple(valid) == self.buffer.shape:
            return self.buffer
        if isinstance(self.buffer, jax.core.Tracer):
            return lax.slice(self.buffer, [0] * self.ndim, valid)
        # JAX would compile a slice for each length.
        return np.asarray(self.buffer)[tuple([slice(n) for n in valid])]

    def with_padding(self, fill: Any, axes: Sequence[int] | None = None) -> Any:
        """Return the buffer with a number as padding along these axes, by default all axes."""
        if axes is not None and not axes:
            return self.buffer
        if self.fill is not None and _is_number(self.fill, fill, self.dtype):
            return self.buffer
        padding = lax.full(self.buffer.shape, fill, self.dtype)
        return lax.select(self.inside(axes), self.buffer, padding)


def trim_results(results: Sequence[Any], lengths: Sequence[int] = ()) -> list[Any]:
    """Trim the results of a program that are in buffers, with NumPy, to their valid elements.

    Args:
        results: Arrays, and arrays in buffers.
        lengths: The lengths in formulas at this call.
    """
    trimmed = [y.trim(lengths) if isinstance(y, Ragged) else y for y in results]
    positions = [i for i, y in enumerate(trimmed) if isinstance(y, np.ndarray)]
    if positions:
        buffers = [results[i].buffer for i in positions]
        shardings = [x.sharding for x in buffers] if buffers[0].committed else None
        # One call of device_put, because a call costs more than the transfer of an array.
        arrays = jax.device_put([trimmed[i] for i in positions], shardings)
        for i, y in zip(positions, arrays, strict=True):
            trimmed[i] = y
    return trimmed


def within(shape: Sequence[int], axis: int, count: Any) -> Any:
    """Return a mask of a shape: whether the index along an axis is less than a count."""
    indices = lax.broadcasted_iota(np.int64, shape, axis)
    return lax.lt(indices, lax.broadcast(as_count(count).value, shape))


def _is_number(a: Any, b: Any, dtype: Any) -> bool:
    x, y = np.asarray(a, dtype), np.asarray(b, dtype)
    return bool(x == y)


def _valid_length(count: Count | None, n: int, lengths: Sequence[int]) -> int:
    if count is None:
        return n
    if count.formula is not None:
        return count.formula.evaluate(lengths)
    if isinstance(count.traced, jax.core.Tracer):
        raise DynamicShapeError(
            "A result has a length that is not known while JAX traces.",
            "Call the function outside of jax.jit, jax.vmap and jax.grad.",
        )
    return int(count.traced)


def _flatten(x: Ragged) -> tuple[Any, Any]:
    scalars = [n.traced for n in x.counts if n is not None and n.formula is None]
    bounds = tuple([n and (n.low, n.high, n.formula) for n in x.counts])
    return (x.buffer, *scalars), bounds


def _unflatten(bounds: Any, leaves: Any) -> Ragged:
    buffer, *scalars = leaves
    rest = iter(scalars)
    counts = [n and Count(None if n[2] is not None else next(rest), *n) for n in bounds]
    return Ragged(buffer, tuple(counts))


jax.tree_util.register_pytree_node(Ragged, _flatten, _unflatten)


def make_ragged(buffer: Any, shape: Sequence[Any], fill: Any = None) -> Any:
    """Return an array of a shape that may have counts; a buffer that is too long is cut.

    Args:
        buffer: The elements, followed by padding.
        shape: The lengths, integers or counts.
        fill: The value of the padding, if it is known.
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


# Lengths that are compared after the program has run.


@dataclass(frozen=True, eq=False, slots=True)
class LengthCheck:
    """A check that two integers are equal, or that the first is at least the second.

    Attributes:
        a: The first integer.
        b: The second integer.
        error: A function that returns the error, given both integers.
        at_least: Whether ``a > b`` is allowed.
    """

    a: Any
    b: Any
    error: Callable[[int, int], GraphcError]
    at_least: bool

    def verify(self) -> None:
        """Raise the error if the check fails."""
        if isinstance(self.a, jax.core.Tracer):
            return
        a, b = int(self.a), int(self.b)
        if a < b or (a > b and not self.at_least):
            raise self.error(a, b)


jax.tree_util.register_pytree_node(
    LengthCheck,
    lambda x: ((x.a, x.b), (x.error, x.at_least)),
    lambda fields, ab: LengthCheck(*ab, *fields),
)


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on the lengths of a call, without which the program for a bucket is wrong.

    Attributes:
        a: A formula.
        b: A formula that ``a`` must be equal to.
        at_least: Whether ``a > b`` is allowed.
    """

    a: Formula
    b: Formula
    at_least: bool

    def holds(self, lengths: Sequence[int]) -> bool:
        """Return whether the condition holds for these lengths."""
        a, b = self.a.evaluate(lengths), self.b.evaluate(lengths)
        return a >= b if self.at_least else a == b


jax.tree_util.register_static(Guard)

_pending: ContextVar[list[LengthCheck] | None] = ContextVar("pending", default=None)
_guards: ContextVar[dict[Guard, None] | None] = ContextVar("guards", default=None)


@contextmanager
def collect_checks(pending: list[LengthCheck] | None) -> Iterator[None]:
    """Collect checks of lengths in this context, but not within the step of a loop."""
    token = _pending.set(pending)
    try:
        yield
    finally:
        _pending.reset(token)


@contextmanager
def collect_guards(guards: dict[Guard, None]) -> Iterator[None]:
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
    if not _add_guard(x, y, at_least=False):
        _check_later(LengthCheck(x.value, y.value, error, at_least=False))


def at_least(a: Any, b: Any, error: Callable[[int, int], GraphcError]) -> None:
    """Check that ``a >= b``; within the step of a loop, traced lengths are not checked."""
    x, y = as_count(a), as_count(b)
    if x.high < y.low:
        raise error(x.high, y.low)
    if x.low >= y.high or is_same(x, y) or _add_guard(x, y, at_least=True):
        return
    if _pending.get() is not None:
        _check_later(LengthCheck(x.value, y.value, error, at_least=True))


def _add_guard(x: Count, y: Count, *, at_least: bool) -> bool:
    """Add a condition on the lengths of a call; return False if it depends on other values."""
    guards = _guards.get()
    if guards is None or x.formula is None or y.formula is None:
        return False
    guards[Guard(x.formula, y.formula, at_least)] = None
    return True


def _check_later(check: LengthCheck) -> None:
    pending = _pending.get()
    if pending is None:
        raise DynamicShapeError(
            "Whether two lengths fit is not known while JAX compiles the step of a loop.",
            "Make them the same length, or use mode='NUMPY'.",
        )
    pending.append(check)


def unequal(node: Node) -> Callable[[int, int], GraphcError]:
    """Return the error for operands with different lengths."""

    def error(a: int, b: int) -> GraphcError:
        return RuntimeShapeError(
            f"{node!r}: lengths that must be equal are {a} and {b}.", "Make them equal.", node.where
        )

    return error


def outside(node: Node, i: int) -> Callable[[int, int], GraphcError]:
    """Return the error for an index out of bounds."""

    def error(a: int, b: int) -> GraphcError:
        return BoundsError(f"{node!r}: index {i} is out of bounds for length {a}.", "", node.where)

    return error


# Operations.

Lowering = Callable[..., Any]
Rule = Callable[[Node, Any, Sequence[Any]], Any]

RULES: dict[type[Op], Rule] = {}
"""The functions that compute operations with ``Count`` or ``Ragged`` operands."""


OF_COUNTS: set[type[Op]] = set()
"""Operations whose rule takes counts; other operations take counts as arrays."""


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
        node: The node of the operation.
        lowering: The lowering to functions of arrays with static shapes, or None.
        values: The operands.

    Raises:
        DynamicShapeError: If the operation has no rule.
    """
    deciding = () if node.op.graphs() else deciding_inputs(node)
    needs_rule = bool(deciding) or any(isinstance(x, Ragged) for x in values)
    for cls in type(node.op).__mro__:
        if cls in RULES and (needs_rule or cls in OF_COUNTS):
            return RULES[cls](node, lowering, values)
    if needs_rule or lowering is None:
        raise unknown_length_error(node)
    return lowering(node.op, *arrays(node, values))


def arrays(node: Node, values: Sequence[Any]) -> list[Any]:
    """Return the operands, with counts as arrays of their inputs' dtypes."""
    return [
        lax.convert_element_type(x.value, operand.type.numpy_dtype) if isinstance(x, Count) else x
        for x, operand in zip(values, node.inputs, strict=True)
    ]


def unknown_length_error(node: Node) -> DynamicShapeError:
    """Return the error for an operation that needs an unknown length."""
    if _guards.get() is not None:
        # The message is for a plan; a call runs the exact program instead.
        return DynamicShapeError(f"{node!r} cannot be padded", "", node.where)
    return DynamicShapeError(
        f"{node!r} needs a length that is known while JAX compiles; here it depends on the "
        "number of steps of a loop.",
        "Use the last step's value alone ([-1]); or a fixed number of steps, n_steps, with "
        "gt.where in place of until; or mode='NUMPY'.",
        node.where,
    )


def zero_beyond(x: Any, axes: Sequence[int]) -> Any:
    """Return the buffer of an array, with zeros as padding along these axes."""
    if not isinstance(x, Ragged):
        return plain(x)
    return x.with_padding(0, [axis for axis in x.axes if axis in axes])


def whole(x: Any, node: Node) -> Any:
    """Return an array, or a count's value.

    Raises:
        DynamicShapeError: If a length of the array is unknown.
    """
    if isinstance(x, Ragged):
        raise unknown_length_error(node)
    return plain(x)


def inner(x: Any) -> Any:
    """Return the buffer of an array, or a count's value."""
    return x.buffer if isinstance(x, Ragged) else plain(x)


def cut(x: Any, n: int, axis: int) -> Any:
    """Return the first elements of a buffer along an axis."""
    return x if x.shape[axis] <= n else lax.slice_in_dim(x, 0, n, axis=axis)


def common(node: Node, values: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Any], Any]:
    """Cut arrays to one length along an axis of each, and return this length too.

    Args:
        node: The node, for errors.
        values: The arrays.
        axes: The axis of each array; None for an array without the axis, or with an axis of
            length 1 that is broadcast.
    """
    lengths = [x.shape[a] for x, a in zip(values, axes, strict=True) if a is not None]
    # A static length needs no mask.
    n = next((n for n in lengths if is_known(n)), lengths[0])
    for other in lengths:
        agree(n, other, unequal(node))
    pairs = [(x, a) for x, a in zip(values, axes, strict=True)]
    most = min(inner(x).shape[a] for x, a in pairs if a is not None)
    return [x if a is None else _with_length(x, a, n, most) for x, a in pairs], n


def _with_length(x: Any, axis: int, n: Any, most: int) -> Any:
    """Give an axis the length ``n``, in a buffer of at most ``most`` elements along the axis."""
    if not isinstance(x, Ragged):
        return cut(x, most, axis) if is_known(n) else _with_count(x, axis, n, most)
    buffer = cut(x.buffer, most, axis)
    counts = list(x.counts)
    counts[axis] = None if is_known(n) else n
    return replace(x, buffer=buffer, counts=tuple(counts)) if any(counts) else buffer


def _with_count(x: Any, axis: int, n: Any, most: int) -> Any:
    counts = [n if i == axis else None for i in range(x.ndim)]
    return Ragged(cut(x, most, axis), tuple(counts))


def align_lengths(
    node: Node, values: Sequence[Any], operands: Sequence[Node]
) -> tuple[list[Any], list[Any]]:
    """Cut arrays that are broadcast to common lengths, and return the broadcast shape too.

    Args:
        node: The node, for errors.
        values: The arrays.
        operands: The nodes of the arrays: only static lengths of 1 are broadcast.
    """
    cut_values = list(values)
    ndim = max(x.ndim for x in values)
    shape = []
    for axis in range(-ndim, 0):
        axes = [
            x.ndim + axis if x.ndim >= -axis and operand.type.shape[axis] != 1 else None
            for x, operand in zip(cut_values, operands, strict=True)
        ]
        if any(a is not None for a in axes):
            cut_values, n = common(node, cut_values, axes)
        else:
            n = 1
        shape.append(n)
    return cut_values, shape


def kept_fill(op: Op, values: Sequence[Any], shape: Sequence[Any]) -> Any:
    """Return the value of an elementwise operation in the padding of its operands.

    The value is None if the padding of an operand is unknown, or if the padding of one operand
    meets valid elements of another.
    """
    has_padding = [isinstance(n, Count) for n in shape]
    numbers = []
    for x in values:
        if isinstance(x, Ragged) and x.fill is not None:
            if [n is not None for n in x.counts] != has_padding:
                return None
            numbers.append(np.asarray(x.fill, x.dtype))
        elif is_known(x) and not np.ndim(x):
            numbers.append(np.asarray(x))
        else:
            return None
    with np.errstate(all="ignore"):
        fill = op.perform(*numbers)
    return None if np.ndim(fill) else fill
