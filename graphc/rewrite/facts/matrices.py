"""Products of matrices, recognized by their wiring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from graphc.ir import Node
from graphc.rewrite.facts.lengths import equal_lengths, length_of, lengths_of, product
from graphc.tensor.core.axes import ExpandDims, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.core.elementwise import multiply
from graphc.tensor.core.shape import Reshape, reshape
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral


def is_square(x: Node) -> bool:
    """Return whether matrices provably have as many rows as columns."""
    return equal_lengths(x, -2, x, -1)


def is_uniform(x: Node) -> bool:
    """Return whether the last two axes have length 1."""
    return all(n == 1 for n in x.type.shape[-2:])


class MatrixFactor(NamedTuple):
    """A matrix in a product, or its transpose."""

    x: Node
    transposed: bool


def factors_of(node: Node) -> tuple[MatrixFactor, MatrixFactor] | None:
    """Return both factors of a product of matrices, or batches of them; None for other nodes."""
    op: Any = node.op
    if not isinstance(op, DotGeneral):
        return None
    batch = len(op.batch_axes[0])
    factors = []
    for side, x in enumerate(node.inputs):
        last = x.type.ndim - 1
        is_matrix = x.type.ndim == batch + 2 and len(op.contract[side]) == 1
        if not is_matrix or op.batch_axes[side] != (*range(batch),):
            return None
        (axis,) = op.contract[side]
        if axis < last - 1:
            return None
        transposed = axis == (last - 1 if side == 0 else last)
        (x, transposed) = _without_transposes(x, transposed)
        factors.append(MatrixFactor(x, transposed))
    return factors[0], factors[1]


def _without_transposes(x: Node, transposed: bool) -> tuple[Node, bool]:
    n = x.type.ndim
    exchange = (*range(n - 2), n - 1, n - 2)
    while isinstance(x.op, Transpose) and x.op.axes == exchange:
        (x,), transposed = x.inputs, not transposed
    return x, transposed


def operand_labels(
    node: Node, result: Sequence[int], unused: Iterator[int]
) -> tuple[list[int], ...]:
    """Return the labels of both operands' axes, given the result's."""
    op: DotGeneral = node.op  # type: ignore[assignment]
    batch = len(op.batch_axes[0])
    labels = [[0] * x.type.ndim for x in node.inputs]
    rest = iter(result[batch:])
    for side, side_labels in enumerate(labels):
        for axis, label in zip(op.batch_axes[side], result, strict=False):
            side_labels[axis] = label
        for axis in op.free(side, len(side_labels)):
            side_labels[axis] = next(rest)
    for i, j in zip(*op.contract, strict=True):
        labels[0][i] = labels[1][j] = next(unused)
    return tuple(labels)


def labels_of(node: Node) -> tuple[list[int], list[int], list[int]]:
    """Return labels of the axes of both operands and the result; contracted ones are negative."""
    result = list(range(node.type.ndim))
    a_labels, b_labels = operand_labels(node, result, count(-1, -1))
    return a_labels, b_labels, result


class MatrixProduct(NamedTuple):
    """A product of matrices with columns, which are in the last two axes.

    Attributes:
        x: The matrices.
        transposed: Whether the transposes of ``x`` are multiplied.
        columns: The other factor, with the same leading axes.
        labels: Labels of the batch, row and column axes before the columns were flattened.
        lengths: Lengths of the column axes before they were flattened.
        result: Labels of the result's axes.
    """

    x: Tensor
    transposed: bool
    columns: Tensor
    labels: tuple[int, ...]
    lengths: tuple[Any, ...]
    result: tuple[int, ...]

    def restore(self, y: Tensor) -> Tensor:
        """Return the original product, given this one."""
        head = lengths_of(y)[:-1]
        if not self.lengths:
            y = squeeze(y, y.ndim - 1)
        elif len(self.lengths) > 1:
            y = reshape(y, [*head, *self.lengths])
        return transpose(y, [self.labels.index(label) for label in self.result])


def times(node: Node, side: int) -> MatrixProduct | None:
    """Return the product of the matrices on one side with the columns on the other, or None."""
    op: Any = node.op
    x, other = node.inputs[side], node.inputs[1 - side]
    batch = len(op.batch_axes[0])
    if x.type.ndim != batch + 2 or len(op.contract[0]) != 1:
        return None
    a_labels, b_labels, result = labels_of(node)
    x_labels, others = (a_labels, b_labels) if side == 0 else (b_labels, a_labels)
    if x_labels[:batch] != [*range(batch)]:
        return None
    transposed = x_labels[-1] >= 0
    row, contracted = (x_labels[-1], x_labels[-2]) if transposed else (x_labels[-2], x_labels[-1])
    free = [label for label in others if label not in x_labels]
    order: Sequence[int] = [*range(batch), contracted, *free]
    columns = transpose(other, [others.index(label) for label in order])
    lengths = tuple(lengths_of(columns)[batch + 1 :])
    if not free:
        columns = expand_dims(columns, columns.ndim)
    elif len(free) > 1:
        columns = reshape(columns, [*lengths_of(columns)[: batch + 1], product(lengths)])
    labels = (*range(batch), row, *free)
    x, transposed = _without_transposes(x, transposed)
    return MatrixProduct(x, transposed, columns, labels, lengths, tuple(result))  # type: ignore[arg-type]


class KroneckerFactors(NamedTuple):
    """The matrices of a Kronecker product."""

    a: Tensor
    b: Tensor


def kron_factors(node: Node) -> KroneckerFactors | None:
    """Return the matrices of a Kronecker product; None for other nodes."""
    if not isinstance(node.op, Reshape) or node.type.ndim != 2:
        return None
    (blocks, *_) = node.inputs
    if blocks.op is not multiply or blocks.type.ndim != 4:
        return None
    pair = {x.op.axes: x.inputs[0] for x in blocks.inputs if isinstance(x.op, ExpandDims)}
    if {*pair} != {(1, 3), (0, 2)}:
        return None
    a, b = pair[1, 3], pair[0, 2]
    for axis in (0, 1):
        if not _is_product(length_of(node, axis), length_of(a, axis), length_of(b, axis)):
            return None
    return KroneckerFactors(a, b)  # type: ignore[arg-type]


def _is_product(n: Any, a: Any, b: Any) -> bool:
    return n == product([a, b]) if isinstance(n, int) else n is product([a, b])
