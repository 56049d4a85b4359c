"""Dynamic lengths in a program that MLX saves.

MLX traces arrays of example lengths. If a program computes with a length, as a mean does, the saved
function takes the length as an argument, and computes values that depend on it. A program is saved
for any length only if it is equal for several lengths, so no other use of a length is missed.
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

INJECTIVE = frozenset(
    ("add", "subtract", "multiply", "divide", "negative", "reciprocal", "sqrt", "square")
)
"""Injective rows: a result that is equal for all example lengths, but not for others, would seem
constant."""

KNOW_LENGTHS = (
    'Give the lengths, dynamic={"x": (10, None)}, or some lengths for each name, '
    'lengths={"n": (10, 20)}; or leave "MLX" out of programs=.'
)

CountArrays = Mapping[str, Any]
"""The lengths by name, as arrays that MLX traces."""


class NamedLengths:
    """The lengths of arrays while a program is planned, by name.

    Attributes:
        values: Example length for each name, both in traced arrays and in NumPy's computations. No
            other number of the program is equal to one of them.
    """

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = dict(values)
        self._names = {n: name for name, n in values.items()}
        self._functions: dict[Any, Callable[[CountArrays], Any]] = {}
        self._unknown: set[Node] = set()

    def observe(self, node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that computes a node and records values that depend on a length."""
        op = node.op
        is_length = isinstance(op, Length | Shape) and not node.inputs[0].type.is_static
        if not is_length and self._unknown.isdisjoint(node.inputs):
            return compute
        self._unknown.add(node)

        def compute_and_record(*values: Any) -> Any:
            y = compute(*values)
            if isinstance(y, np.ndarray | np.generic):
                self._record(node, values, np.asarray(y))
            return y

        return compute_and_record

    def _record(self, node: Node, values: Sequence[Any], y: np.ndarray[Any, Any]) -> None:
        op = node.op
        if isinstance(op, Length | Shape):
            name = self._names.get(int(y)) if isinstance(op, Length) else None
            if name is not None:
                self._functions[key_of(y)] = lambda counts: counts[name]
            return
        if not (isinstance(op, Cast) or (isinstance(op, Elementwise) and op.row in INJECTIVE)):
            raise unknown_length(node)
        by_key = self._functions
        functions = [by_key.get(key_of(x)) if isinstance(x, np.ndarray) else None for x in values]
        if any(functions):
            lowering = backend.bind(node)
            by_key[key_of(y)] = lambda counts: lowering(
                *[
                    function(counts) if function else device_array(x)
                    for function, x in zip(functions, values, strict=True)
                ]
            )

    def occur_in(self, shape: Sequence[int]) -> bool:
        """Return whether a shape has a dynamic length, or a multiple of one."""
        return any(n % m == 0 for n in shape if n for m in self.values.values())

    def arrays(self) -> list[mx.array]:
        """Return the further arguments of a saved function: numbers, then rows."""
        counts = [mx.array(n, mx.int64) for n in self.values.values()]
        return counts + [mx.zeros((n,), mx.bool_) for n in self.values.values()]

    def trace(self, arrays: Sequence[Any]) -> TracedLengths:
        """Return the lengths while MLX traces these further arguments."""
        n = len(self.values)
        counts = dict(zip(self.values, arrays[:n], strict=True))
        rows = dict(zip(self.values.values(), arrays[n:], strict=True))
        return TracedLengths(self._functions, counts, rows)


class TracedLengths:
    """Dynamic lengths while MLX traces: constants computed from them, and shapes that have them.

    Attributes:
        rows: For each length, an array with as many elements.
    """

    def __init__(
        self,
        functions: Mapping[Any, Callable[[CountArrays], Any]],
        counts: CountArrays,
        rows: Mapping[int, Any],
    ) -> None:
        self._functions = functions
        self._counts = counts
        self.rows = rows

    def get(self, key: Any) -> Any:
        """Return the array that stands for the constant of a key, or None."""
        compute = self._functions.get(key)
        return compute(self._counts) if compute else None

    def occur_in(self, shape: Sequence[int]) -> bool:
        """Return whether a shape has a dynamic length, or a multiple of one."""
        return any(n % m == 0 for n in shape if n for m in self.rows)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        """Return ``x`` in another shape: with merged axes, or with one length that MLX infers."""
        y = _merge_axes(x, shape)
        if y is not None:
            return y
        dynamic = [i for i, n in enumerate(shape) if self.occur_in([n])]
        if len(dynamic) == 1:
            shape = [-1 if i in dynamic else n for i, n in enumerate(shape)]
        return mx.reshape(x, shape)

    def broadcast(self, x: Any, shape: Sequence[int]) -> Any:
        """Return ``x`` broadcast to a shape; rows have its dynamic lengths."""
        operands = [mx.zeros([1 if n in self.rows else n for n in shape], mx.bool_)]
        for axis, n in enumerate(shape):
            if n in self.rows:
                operands.append(mx.expand_dims(self.rows[n], [*range(1, len(shape) - axis)]))
        return mx.broadcast_arrays(x, *operands)[0]


def _merge_axes(x: Any, shape: Sequence[int]) -> Any:
    """Return ``x`` with groups of adjacent axes merged to a shape; None if they do not match."""
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
    """Return the error for a node that must know a length."""
    return ExportError(f"MLX cannot save {node!r} for any length.", KNOW_LENGTHS, node.where)
