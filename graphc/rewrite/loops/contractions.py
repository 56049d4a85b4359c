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
from graphc.tensor.linalg.dot import DotGeneral, contract_axes


@dataclass(frozen=True, slots=True)
class LabelledProduct:
    """Two arrays with labels for their axes; labels that the result lacks are contracted.

    Attributes:
        factors: The two arrays, nodes of a step.
        labels: Labels of the axes of each.
        out: Labels of the result's axes, from 0 on.
    """

    factors: tuple[Tensor, Tensor]
    labels: tuple[list[int], list[int]]
    out: list[int]

    def sum_steps(self, rows: Sequence[Tensor]) -> Tensor:
        """Return the sum over all steps, given the rows of each factor, or a constant factor."""
        moving = [y.ndim > x.ndim for x, y in zip(self.factors, rows, strict=True)]
        if all(moving):
            first: list[int] = [TIME]
        else:
            first = []
            rows = [sum_rows(y) if moves else y for y, moves in zip(rows, moving, strict=True)]
        a_labels, b_labels = ([*first, *axes_labels] for axes_labels in self.labels)
        return contract_axes(rows[0], a_labels, rows[1], b_labels, self.out)

    def is_large(self) -> bool:
        """Return whether the result may have at least as many elements as both factors."""
        if any(set(self.out) <= set(labels) for labels in self.labels):
            return False
        sizes: list[Any] = [number_of_elements(x) for x in self.factors]
        if None in sizes:
            return True
        lengths: dict[int, Any] = {
            label: n
            for x, labels in zip(self.factors, self.labels, strict=True)
            for label, n in zip(labels, x.type.shape, strict=True)
        }
        return bool(prod(lengths[label] for label in self.out) >= sum(sizes))


TIME = -1
"""The label of the leading axis of rows."""


def product_of(term: Node) -> LabelledProduct | None:
    """Return a contraction or an outer product in this form; None for other nodes."""
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
    factors = _of_dot(term, labels) or _of_broadcast(term, labels)
    if factors is None:
        return None
    (a, b), labels_of_factors = factors
    for scale in scales:
        a = multiply(scale, a)
    return LabelledProduct((a, b), labels_of_factors, out)


Factors = tuple[tuple[Tensor, Tensor], tuple[list[int], list[int]]]


def _of_dot(term: Node, labels: list[int]) -> Factors | None:
    op = term.op
    if not isinstance(op, DotGeneral):
        return None
    a, b = term.inputs
    labels_of_sides = [0] * a.type.ndim, [0] * b.type.ndim
    k = len(op.batch_axes[0])
    rest = iter(labels[k:])
    for side in (0, 1):
        for axis, label in zip(op.batch_axes[side], labels, strict=False):
            labels_of_sides[side][axis] = label
        for axis in op.free(side, len(labels_of_sides[side])):
            labels_of_sides[side][axis] = next(rest)
        for i, axis in enumerate(op.contract[side]):
            labels_of_sides[side][axis] = TIME - 1 - i
    return (a, b), labels_of_sides  # type: ignore[return-value]


def _of_broadcast(term: Node, labels: list[int]) -> Factors | None:
    """Return an elementwise product in which each factor broadcasts along the other's axes."""
    if term.op is not multiply:
        return None
    (a, a_labels), (b, b_labels) = (_bare(x, labels, term) for x in term.inputs)
    if set(a_labels) <= set(b_labels) or set(b_labels) <= set(a_labels):
        return None
    return (a, b), (a_labels, b_labels)


def _bare(x: Node, labels: list[int], term: Node) -> tuple[Tensor, list[int]]:
    """Return a factor without the axes along which it broadcasts, and the labels of the others."""
    own_labels = labels[len(labels) - x.type.ndim :]
    full = term.type.shape[len(labels) - x.type.ndim :]
    single = tuple(
        i for i, (n, m) in enumerate(zip(x.type.shape, full, strict=True)) if n == 1 and m != 1
    )
    labels_left = [label for i, label in enumerate(own_labels) if i not in single]
    if isinstance(x.op, ExpandDims) and x.op.axes == single:
        (x,) = x.inputs
        return x, labels_left  # type: ignore[return-value]
    return squeeze(x, single) if single else x, labels_left  # type: ignore[return-value]


def sum_rows(rows: Tensor) -> Tensor:
    """Return the sum of rows over all steps."""
    return Tensor.make(Sum((0,)), rows)
