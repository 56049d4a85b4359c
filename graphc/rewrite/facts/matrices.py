"""Products of matrices, recognized by their wiring."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Whether matrices are known to have as many rows as columns."""
    return equal_lengths(x, -2, x, -1)


def is_uniform(x: Node) -> bool:
    """Whether all elements of a matrix are one number, by its shape."""
    return all(n == 1 for n in x.type.shape[-2:])


class MatrixFactor(NamedTuple):
    """A matrix in a product, or its transpose."""

    x: Node
    turned: bool


def factors_of(node: Node) -> tuple[MatrixFactor, MatrixFactor] | None:
    """Both factors of a product of matrices, or of batches of them; None for other products."""
    op: Any = node.op
    if not isinstance(op, DotGeneral):
        return None
    batch = len(op.batch_axes[0])
    found = []
    for side, x in enumerate(node.inputs):
        last = x.type.ndim - 1
        whole = x.type.ndim == batch + 2 and len(op.contract[side]) == 1
        if not whole or op.batch_axes[side] != (*range(batch),):
            return None
        (axis,) = op.contract[side]
        if axis < last - 1:
            return None
        turned = axis == (last - 1 if side == 0 else last)
        (x, turned) = _unturned(x, turned)
        found.append(MatrixFactor(x, turned))
    return found[0], found[1]


def _unturned(x: Node, turned: bool) -> tuple[Node, bool]:
    """A matrix that is not the transpose of another, and whether it was."""
    n = x.type.ndim
    exchange = (*range(n - 2), n - 1, n - 2)
    while isinstance(x.op, Transpose) and x.op.axes == exchange:
        (x,), turned = x.inputs, not turned
    return x, turned


def labels_of(node: Node) -> tuple[list[int], list[int], list[int]]:
    """Numbers for both operands' axes of a product, and the result's; those summed are negative."""
    op: DotGeneral = node.op  # type: ignore[assignment]
    result = list(range(node.type.ndim))
    batch = len(op.batch_axes[0])
    found = [[0] * x.type.ndim for x in node.inputs]
    rest, unused = iter(result[batch:]), count(-1, -1)
    for side, own in enumerate(found):
        for axis, number in zip(op.batch_axes[side], result, strict=False):
            own[axis] = number
        for axis in op.free(side, len(own)):
            own[axis] = next(rest)
    for i, j in zip(*op.contract, strict=True):
        found[0][i] = found[1][j] = next(unused)
    return found[0], found[1], result


class MatrixProduct(NamedTuple):
    """A product as that of matrices with columns that stand in their last two axes.

    Attributes:
        x: The matrices.
        turned: Their transposes are multiplied.
        columns: What they are multiplied with, of as many leading axes.
        labels: The numbers of the axes of the other operand as it was, the leading ones first.
        lengths: Those of its columns, before they were made one axis.
        result: The numbers of the result's axes.
    """

    x: Tensor
    turned: bool
    columns: Tensor
    labels: tuple[int, ...]
    lengths: tuple[Any, ...]
    result: tuple[int, ...]

    def restored(self, y: Tensor) -> Tensor:
        """The result in the place of the product, given the columns of it."""
        head = lengths_of(y)[:-1]
        if not self.lengths:
            y = squeeze(y, y.ndim - 1)
        elif len(self.lengths) > 1:
            y = reshape(y, [*head, *self.lengths])
        return transpose(y, [self.labels.index(label) for label in self.result])


def times(node: Node, side: int) -> MatrixProduct | None:
    """A product of the matrices on one side with the columns on the other; None of other ones."""
    op: Any = node.op
    x, other = node.inputs[side], node.inputs[1 - side]
    batch = len(op.batch_axes[0])
    if x.type.ndim != batch + 2 or len(op.contract[0]) != 1:
        return None
    left, right, result = labels_of(node)
    own, others = (left, right) if side == 0 else (right, left)
    if own[:batch] != [*range(batch)]:
        return None
    turned = own[-1] >= 0
    row, summed = (own[-1], own[-2]) if turned else (own[-2], own[-1])
    free = [label for label in others if label not in own]
    order: Sequence[int] = [*range(batch), summed, *free]
    columns = transpose(other, [others.index(label) for label in order])
    lengths = tuple(lengths_of(columns)[batch + 1 :])
    if not free:
        columns = expand_dims(columns, columns.ndim)
    elif len(free) > 1:
        columns = reshape(columns, [*lengths_of(columns)[: batch + 1], product(lengths)])
    labels = (*range(batch), row, *free)
    x, turned = _unturned(x, turned)
    return MatrixProduct(x, turned, columns, labels, lengths, tuple(result))  # type: ignore[arg-type]


class Kronecker(NamedTuple):
    """The matrices of a Kronecker product."""

    a: Tensor
    b: Tensor


def kron_factors(node: Node) -> Kronecker | None:
    """The matrices that ``kron`` was given; None of other arrays."""
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
    return Kronecker(a, b)  # type: ignore[arg-type]


def _is_product(n: Any, a: Any, b: Any) -> bool:
    return n == product([a, b]) if isinstance(n, int) else n is product([a, b])
