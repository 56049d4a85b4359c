"""Padded arrays: arrays with lengths that are unknown when a padded graph is built.

An array with a count in its shape lies in a longer buffer, whose other elements are padding. The
value of the padding is known or not; an operation masks padding that it would read.

Lengths that must be equal are compared after the program has run, unless they are certainly equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.errors import BoundsError, DynamicShapeError, GraphcError, RuntimeShapeError
from graphc.ir import Constant, Node
from graphc.ir.law import checks_of
from graphc.ir.op import Check
from graphc.link.host import KNOWN_STEPS
from graphc.link.padding.counts import (
    Count,
    LengthComparison,
    as_count,
    bound,
    current_lengths,
    exact,
    is_known,
    is_known_to_backend,
    is_same,
)
from graphc.tensor.arrays.create import StaticArange, arange
from graphc.tensor.arrays.index import EVERYTHING, HOLE, Entry, Index, Range
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast, less, logical_and, where
from graphc.tensor.core.shape import Length, entries
from graphc.tensor.core.tensor import Tensor, constant
from graphc.tensor.signal.pad import Pad

Counts = tuple[Count | None, ...]


@dataclass(frozen=True, eq=False, slots=True)
class PaddedArray:
    """An array in a longer buffer.

    Attributes:
        buffer: The elements, followed by padding along each axis.
        counts: The valid length of each axis; None for an axis without padding.
        fill: The value of the padding; None if it is unknown.
    """

    buffer: Tensor
    counts: Counts
    fill: Any = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """The valid lengths, some of them a ``Count``."""
        pairs = zip(shape_of(self.buffer), self.counts, strict=True)
        return tuple([n if count is None else count for n, count in pairs])

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes with padding."""
        return tuple([i for i, n in enumerate(self.counts) if n is not None])

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.buffer.ndim

    def inside(self, axes: Sequence[int] | None = None) -> Tensor:
        """Return a mask of the valid elements along some axes, by default along all.

        The mask has length 1 along other axes.
        """
        valid = None
        for axis in self.axes if axes is None else axes:
            mask = within(self.buffer, axis, self.counts[axis])
            valid = mask if valid is None else logical_and(valid, mask)
        assert valid is not None
        return valid

    def with_padding(self, fill: Any, axes: Sequence[int] | None = None) -> Tensor:
        """Return the buffer with a number as padding along some axes, by default all."""
        if axes is not None and not axes:
            return self.buffer
        dtype = self.buffer.type.numpy_dtype
        if self.fill is not None and bool(np.asarray(self.fill, dtype) == np.asarray(fill, dtype)):
            return self.buffer
        return where(self.inside(axes), self.buffer, number(fill, self.buffer))


def number(value: Any, like: Node) -> Tensor:
    """Return a number as a scalar constant of an array's dtype."""
    return constant(np.asarray(value).astype(like.type.numpy_dtype))


def shape_of(x: Any) -> tuple[Any, ...]:
    """Return the lengths of a value: integers and counts."""
    if isinstance(x, PaddedArray):
        return x.shape
    if isinstance(x, Count):
        return ()
    if isinstance(x, Node):
        return tuple(
            [
                exact(Tensor.make(Length(axis), x)) if n is None else n
                for axis, n in enumerate(x.type.shape)
            ]
        )
    return np.shape(x)


def ndim_of(x: Any) -> int:
    """Return the number of axes of a value."""
    return len(shape_of(x))


def length_of_buffer(x: Node, axis: int) -> Any:
    """Return a length of a buffer: an integer, or a node that a backend knows when it compiles."""
    n = x.type.shape[axis]
    return Tensor.make(Length(axis), x) if n is None else n


def as_node(x: Any, like: Node | None = None) -> Tensor:
    """Return a buffer, an array or a number as a node.

    Args:
        x: The value.
        like: A node whose dtype a count or a number gets, by default its own or int64.
    """
    if isinstance(x, PaddedArray):
        return x.buffer
    y = x.node if isinstance(x, Count) else x
    if not isinstance(y, Node):
        y = Tensor.make(Constant.of(np.asarray(y)))
    return cast(y, like.type.dtype) if like is not None else y  # type: ignore[return-value]


def indices(n: Any) -> Tensor:
    """Return the integers from 0 to ``n``, an integer or a node."""
    if isinstance(n, int):
        return Tensor.make(StaticArange(0, n, 1, "int64"))
    return arange(n)


def along(x: Tensor, axis: int, ndim: int) -> Tensor:
    """Return a vector as an array of ``ndim`` axes, of which one has its elements."""
    return expand_dims(x, [i for i in range(ndim) if i != axis % ndim])


def within(x: Tensor, axis: int, count: Any) -> Tensor:
    """Return a mask of an array's axis: whether the index along it is less than a count."""
    return along(less(indices(length_of_buffer(x, axis)), as_count(count).node), axis, x.ndim)


def make_padded(buffer: Any, shape: Sequence[Any], fill: Any = None) -> Any:
    """Return an array of a shape that may have counts; a buffer that is too long is cut.

    Args:
        buffer: The elements, followed by padding.
        shape: The lengths, integers or counts.
        fill: The value of the padding, if it is known.
    """
    counts: list[Count | None] = []
    for axis, n in enumerate(shape):
        count = as_count(n)
        if count.is_exact:
            counts.append(None)
            continue
        buffer = cut(buffer, bound(count), axis)
        # A length is not negative, whatever the bounds of its terms imply.
        count = count if count.low >= 0 else replace(count, low=0)
        counts.append(None if count.low == count.high else count)
    return PaddedArray(buffer, tuple(counts), fill) if any(counts) else buffer


def cut(x: Tensor, n: Any, axis: int) -> Tensor:
    """Return the first elements of a buffer along an axis."""
    size = x.type.shape[axis]
    if not isinstance(n, int) or (size is not None and size <= n):
        return x
    return index_axis(x, axis, Range(None, n))


def index_axis(buffer: Tensor, axis: int, entry: Entry, *symbolic: Tensor) -> Tensor:
    """Return the part of an array that an entry selects along one axis."""
    entries = [entry if i == axis else EVERYTHING for i in range(buffer.ndim)]
    return Tensor.make(Index(tuple(entries)), buffer, *symbolic)


def extend(x: Tensor, sizes: Mapping[int, int], value: Any = 0) -> Tensor:
    """Cut or pad a buffer at the end so that it has the given length along each axis."""
    for axis, n in sizes.items():
        x = cut(x, n, axis)
    widths = [
        sizes[axis] - length_of_buffer(x, axis) if axis in sizes else 0 for axis in range(x.ndim)
    ]
    if all(isinstance(n, int) and not n for n in widths):
        return x
    static, symbolic = entries("extend", [width for n in widths for width in (0, n)])
    return Tensor.make(Pad(static), x, number(value, x), *symbolic)


# Lengths that are compared.


@contextmanager
def within_held_graph() -> Iterator[None]:
    """Refuse, in this context, comparisons that need the values of a run."""
    record = current_lengths()
    record.depth += 1
    try:
        yield
    finally:
        record.depth -= 1


def agree(a: Any, b: Any, error: Callable[[int, int], GraphcError]) -> None:
    """Check that two lengths are equal.

    Raises:
        DynamicShapeError: If the step of a loop computes one of the lengths.
    """
    if a is b or is_same(a, b):
        return
    x, y = as_count(a), as_count(b)
    if x.high < y.low or y.high < x.low:
        raise error(x.low, y.low)
    _compare(x, y, error, at_least=False)


def at_least(a: Any, b: Any, error: Callable[[int, int], GraphcError]) -> None:
    """Check that ``a >= b``; lengths that the step of a loop computes are not checked."""
    x, y = as_count(a), as_count(b)
    if x.high < y.low:
        raise error(x.high, y.low)
    if x.low < y.high and not is_same(x, y):
        _compare(x, y, error, at_least=True)


def _compare(
    x: Count, y: Count, error: Callable[[int, int], GraphcError], *, at_least: bool
) -> None:
    """Let the host compare two integers before a call, or else after it."""
    record = current_lengths()
    if is_known_to_backend(x) and is_known_to_backend(y):
        # The backend compares them when it compiles.
        return
    if record.passed and x.formula is not None and y.formula is not None:
        record.comparisons[LengthComparison(x.formula, y.formula, at_least, None)] = None
    elif not record.depth:
        a, b = record.formula(x), record.formula(y)
        record.comparisons[LengthComparison(a, b, at_least, error)] = None
    elif not at_least:
        raise DynamicShapeError(
            "Whether two lengths fit is not known while the step of a loop is compiled.",
            "Make them the same length, or use mode='NUMPY'.",
        )


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


def unknown_length(node: Node) -> DynamicShapeError:
    """Return the error for an operation that needs an unknown length."""
    if current_lengths().passed:
        # The message is for a plan; a call runs the exact program instead.
        return DynamicShapeError(f"{node!r} cannot be padded", "", node.where)
    return DynamicShapeError(
        f"{node!r} needs a length that is known while the program is compiled; here it depends on "
        "the number of steps of a loop.",
        KNOWN_STEPS,
        node.where,
    )


# Operands of one length.


def align(node: Node, values: Sequence[Any], checks: Sequence[Check] | None = None) -> list[Any]:
    """Cut arrays to one length along axes that must be equal, and have been compared.

    Args:
        node: The node, for errors.
        values: The arrays.
        checks: The pairs of axes; by default those that the node's type rule compares.
    """
    groups: list[set[tuple[int, int]]] = []
    for a, m, b, n in checks_of(node) if checks is None else checks:
        joined = [{(a, m), (b, n)}, *groups]
        groups = [g for g in joined if not g & joined[0]]
        groups.append(set().union(*[g for g in joined if g & joined[0]]))
    values = list(values)
    for group in map(sorted, groups):
        lengths = [shape_of(values[i])[axis] for i, axis in group]
        # A known length needs no mask, nor does an exact one.
        n = min(lengths, key=lambda n: 0 if is_known(n) else 2 - n.is_exact)
        sizes = [length_of_buffer(as_node(values[i]), axis) for i, axis in group]
        most = min([size for size in sizes if isinstance(size, int)], default=None)
        for i, axis in group:
            values[i] = _with_length(values[i], axis, n, most)
    return values


def _with_length(x: Any, axis: int, n: Any, most: int | None) -> Any:
    """Give an axis the length ``n``, in a buffer of at most ``most`` elements along the axis."""
    buffer = as_node(x)
    # The operation compares a buffer of exact length with others.
    if most is not None and buffer.type.shape[axis] is not None:
        buffer = cut(buffer, most, axis)
    counts = list(x.counts) if isinstance(x, PaddedArray) else [None] * buffer.ndim
    fill = x.fill if isinstance(x, PaddedArray) and counts[axis] is not None else None
    if counts[axis] is not None and not is_known(n) and n.is_exact:
        buffer = index_axis(buffer, axis, Range(None, HOLE), n.node)
    counts[axis] = None if is_known(n) or n.is_exact else n
    return PaddedArray(buffer, tuple(counts), fill) if any(counts) else buffer


def with_buffer(x: Any, buffer: Tensor) -> Any:
    """Return an array whose elements are in another buffer of the same lengths."""
    return replace(x, buffer=buffer) if isinstance(x, PaddedArray) else buffer
