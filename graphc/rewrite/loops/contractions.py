"""Products that a loop sums over its steps, as one contraction over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from graphc.ir import Node
from graphc.rewrite.loops.dependence import number_of_elements
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims, Transpose, squeeze
from graphc.tensor.core.elementwise import multiply
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral, contracted


@dataclass(frozen=True, slots=True)
class Product:
    """Two arrays with a label for each of their axes; what the result lacks is summed over.

    Attributes:
        factors: Parts of a step.
        labels: Of the factors' axes.
        out: Of the result's axes, from 0 on.
    """

    factors: tuple[Tensor, Tensor]
    labels: tuple[list[int], list[int]]
    out: list[int]

    def summed(self, rows: Sequence[Tensor]) -> Tensor:
        """The sum over all steps, given the rows of both factors, or one and the other itself."""
        moving = [y.ndim > x.ndim for x, y in zip(self.factors, rows, strict=True)]
        if all(moving):
            first: list[int] = [TIME]
        else:
            first = []
            rows = [added_up(y) if moves else y for y, moves in zip(rows, moving, strict=True)]
        left, right = ([*first, *own] for own in self.labels)
        return contracted(rows[0], left, rows[1], right, self.out)

    def is_large(self) -> bool:
        """Whether the result may have at least as many elements as its factors together."""
        if any(set(self.out) <= set(own) for own in self.labels):
            return False
        sizes: list[Any] = [number_of_elements(x) for x in self.factors]
        if None in sizes:
            return True
        lengths: dict[int, Any] = {
            label: n
            for x, own in zip(self.factors, self.labels, strict=True)
            for label, n in zip(own, x.type.shape, strict=True)
        }
        return bool(prod(lengths[label] for label in self.out) >= sum(sizes))


TIME = -1
"""The label of the leading axis of rows."""


def product_of(term: Node) -> Product | None:
    """A product summed over axes, or of arrays neither of which has all axes; None for others."""
    out = list(range(term.type.ndim))
    labels, scales = out, []
    while True:
        if isinstance(term.op, Transpose):
            labels = [labels[term.op.axes.index(axis)] for axis in range(len(labels))]
            (term,) = term.inputs
        elif term.op is multiply and 0 in {x.type.ndim for x in term.inputs}:
            scale, term = sorted(term.inputs, key=lambda x: x.type.ndim)
            scales.append(scale)
        else:
            break
    made = _of_dot(term, labels) or _of_broadcast(term, labels)
    if made is None:
        return None
    (a, b), own = made
    for scale in scales:
        a = multiply(scale, a)
    return Product((a, b), own, out)


Factors = tuple[tuple[Tensor, Tensor], tuple[list[int], list[int]]]


def _of_dot(term: Node, labels: list[int]) -> Factors | None:
    op = term.op
    if not isinstance(op, DotGeneral):
        return None
    a, b = term.inputs
    own = [0] * a.type.ndim, [0] * b.type.ndim
    k = len(op.batch_axes[0])
    rest = iter(labels[k:])
    for side in (0, 1):
        for axis, label in zip(op.batch_axes[side], labels, strict=False):
            own[side][axis] = label
        for axis in op.free(side, len(own[side])):
            own[side][axis] = next(rest)
        for i, axis in enumerate(op.contract[side]):
            own[side][axis] = TIME - 1 - i
    return (a, b), own  # type: ignore[return-value]


def _of_broadcast(term: Node, labels: list[int]) -> Factors | None:
    """An elementwise product of arrays each of which is repeated along an axis of the other's."""
    if term.op is not multiply:
        return None
    (a, left), (b, right) = (_bare(x, labels, term) for x in term.inputs)
    if set(left) <= set(right) or set(right) <= set(left):
        return None
    return (a, b), (left, right)


def _bare(x: Node, labels: list[int], term: Node) -> tuple[Tensor, list[int]]:
    """A factor without axes along which it is repeated, and the labels of the others."""
    own = labels[len(labels) - x.type.ndim :]
    full = term.type.shape[len(labels) - x.type.ndim :]
    ones = tuple(
        i for i, (n, m) in enumerate(zip(x.type.shape, full, strict=True)) if n == 1 and m != 1
    )
    left = [label for i, label in enumerate(own) if i not in ones]
    if isinstance(x.op, ExpandDims) and x.op.axes == ones:
        (x,) = x.inputs
        return x, left  # type: ignore[return-value]
    return squeeze(x, ones) if ones else x, left  # type: ignore[return-value]


def added_up(rows: Tensor) -> Tensor:
    """The sum of rows over all steps."""
    return Tensor.make(Sum((0,)), rows)
