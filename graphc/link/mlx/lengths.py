"""Lengths that are not known where a program is saved: what becomes of them in what MLX traces.

MLX traces arrays of some lengths. Where a program computes with a length, as a mean does, what is
saved takes the length as an argument, and so for what follows from it. A program is saved for any
length only if it is the same for several, so nothing here has to find out where else one is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.errors import ExportError
from graphc.ir import Node
from graphc.link.mlx.arrays import device_array, key_of
from graphc.link.mlx.backend import backend
from graphc.tensor.core.elementwise import Cast, Elementwise
from graphc.tensor.core.shape import Length, Shape

FOLLOWED = frozenset(
    ("add", "subtract", "multiply", "divide", "negative", "reciprocal", "sqrt", "square")
)
"""Rows that give another number for each other one, as far as it matters: a number that is the same
for all the lengths that were tried, but not for others, would be taken for a constant."""

KNOW_LENGTHS = (
    'Say which the lengths are, dynamic={"x": (10, None)}, or give some for each name, '
    'lengths={"n": (10, 20)}; or leave "MLX" out of programs=.'
)

Counts = Mapping[str, Any]
"""The lengths by name, as MLX traces them."""


class Lengths:
    """The lengths of arrays while a program is planned, by name.

    Attributes:
        values: The length that stands for each name: in arrays that are traced, and in what NumPy
            computes. No other number of the program is one of them.
    """

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = dict(values)
        self._names = {n: name for name, n in values.items()}
        self._follow: dict[Any, Callable[[Counts], Any]] = {}
        self._unknown: set[Node] = set()

    def observe(self, node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
        """What is run in the place of an operation, which may follow from a length."""
        op = node.op
        is_length = isinstance(op, Length | Shape) and not node.inputs[0].type.is_static
        if not is_length and self._unknown.isdisjoint(node.inputs):
            return compute
        self._unknown.add(node)

        def noted(*values: Any) -> Any:
            y = compute(*values)
            if isinstance(y, np.ndarray | np.generic):
                self._note(node, values, np.asarray(y))
            return y

        return noted

    def _note(self, node: Node, values: Sequence[Any], y: np.ndarray[Any, Any]) -> None:
        op = node.op
        if isinstance(op, Length | Shape):
            name = self._names.get(int(y)) if isinstance(op, Length) else None
            if name is not None:
                self._follow[key_of(y)] = lambda counts: counts[name]
            return
        if not (isinstance(op, Cast) or (isinstance(op, Elementwise) and op.row in FOLLOWED)):
            raise unknown_length(node)
        follow = self._follow
        parts = [follow.get(key_of(x)) if isinstance(x, np.ndarray) else None for x in values]
        if any(parts):
            lowering = backend.bind(node)
            follow[key_of(y)] = lambda counts: lowering(
                *[
                    part(counts) if part else device_array(x)
                    for part, x in zip(parts, values, strict=True)
                ]
            )

    def are_in(self, shape: Sequence[int]) -> bool:
        """Whether a shape has one of them, or what follows from one."""
        return any(n % m == 0 for n in shape if n for m in self.values.values())

    def arrays(self) -> list[mx.array]:
        """What a saved function takes of these behind its arguments: numbers, then rows."""
        counts = [mx.array(n, mx.int64) for n in self.values.values()]
        return counts + [mx.zeros((n,), mx.bool_) for n in self.values.values()]

    def traced(self, arrays: Sequence[Any]) -> TracedLengths:
        """The same, while MLX traces these."""
        n = len(self.values)
        counts = dict(zip(self.values, arrays[:n], strict=True))
        rows = dict(zip(self.values.values(), arrays[n:], strict=True))
        return TracedLengths(self._follow, counts, rows)


class TracedLengths:
    """Lengths while MLX traces: constants that follow from them, and shapes that have them.

    Attributes:
        rows: For each length an array of so many elements.
    """

    def __init__(
        self,
        follow: Mapping[Any, Callable[[Counts], Any]],
        counts: Counts,
        rows: Mapping[int, Any],
    ) -> None:
        self._follow = follow
        self._counts = counts
        self.rows = rows

    def get(self, key: Any) -> Any:
        """The array that stands for a constant, by its key; None for other constants."""
        made = self._follow.get(key)
        return made(self._counts) if made else None

    def are_in(self, shape: Sequence[int]) -> bool:
        """Whether a shape has one of them, or what follows from one."""
        return any(n % m == 0 for n in shape if n for m in self.rows)

    def reshaped(self, x: Any, shape: Sequence[int]) -> Any:
        """The elements in another shape, with axes merged, or one length that MLX finds out."""
        merged = _merged(x, shape)
        if merged is not None:
            return merged
        unknown = [i for i, n in enumerate(shape) if self.are_in([n])]
        if len(unknown) == 1:
            shape = [-1 if i in unknown else n for i, n in enumerate(shape)]
        return mx.reshape(x, shape)

    def repeated(self, x: Any, shape: Sequence[int]) -> Any:
        """The array repeated to a shape that has the lengths of rows."""
        like = [mx.zeros([1 if n in self.rows else n for n in shape], mx.bool_)]
        for axis, n in enumerate(shape):
            if n in self.rows:
                like.append(mx.expand_dims(self.rows[n], [*range(1, len(shape) - axis)]))
        return mx.broadcast_arrays(x, *like)[0]


def _merged(x: Any, shape: Sequence[int]) -> Any:
    """The elements in a shape of which each axis is some of the array's; None if it is not."""
    groups, first = [], 0
    for n in shape:
        last, size = first, 1
        while size != n and last < x.ndim:
            size *= x.shape[last]
            last += 1
        if size != n:
            return None
        groups.append((first, last))
        first = last
    if first < x.ndim:
        return None
    for first, last in reversed(groups):
        if last - first > 1:
            x = mx.flatten(x, first, last - 1)
        elif last == first:
            x = mx.expand_dims(x, first)
    return x


def unknown_length(node: Node) -> ExportError:
    """The error where a length is to be known."""
    return ExportError(
        f"MLX cannot save {node!r} for any length.",
        KNOW_LENGTHS,
        node.where,
    )
