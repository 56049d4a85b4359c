"""Symmetry: whether an array equals its transpose in two adjacent axes, by its expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from graphc.ir import Node, TensorType, is_complex
from graphc.tensor.arrays.create import Eye
from graphc.tensor.arrays.diagonal import FromDiagonal
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims, Transpose, transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where, conj, subtract
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral

MAX_TRANSPOSED = 48
"""Largest number of nodes to transpose, so that rewriting stays linear."""

MAX_COMPARED = 400
"""Largest number of pairs of nodes to compare before, each in a tenth of the time."""


def equals_transpose(x: Node, symmetric: Callable[[Node], bool]) -> bool:
    """Return whether matrices equal their transposes, conjugate for complex numbers.

    Args:
        x: An array of at least two axes; the matrices are in the last two.
        symmetric: Function that returns whether another array is known to be symmetric.
    """
    i = x.type.ndim - 2
    start = x
    if is_complex(x.type.dtype):
        start = conj(x) if x.op is not conj else x.inputs[0]
    return _Look(symmetric).may_be(start, x, i) and _Transposes(symmetric).of(start, i) is x


class _Look:
    """A quick test of two arrays, which builds no nodes: most arrays are no transposes."""

    def __init__(self, symmetric: Callable[[Node], bool]) -> None:
        self._symmetric = symmetric
        self._left = MAX_COMPARED
        self._others: set[tuple[Node, Node, int]] = set()

    def may_be(self, x: Node, y: Node, i: int) -> bool:
        """Return whether ``_Transposes.of(x, i)`` may be y; True if that is unknown."""
        self._left -= 1
        if self._left < 0 or (isinstance(y.op, Transpose) and y.inputs[0] is x):
            return True
        if _stays(x, i):
            return x is y
        if i == -1:
            return False
        if x is y and i == x.type.ndim - 2 and self._symmetric(x):
            return True
        if isinstance(x.op, Elementwise | Where | Cast):
            return x.op == y.op and ((x is y and _is_even_difference(x)) or self._operands(x, y, i))
        return self._may_be_other(x, y, i)

    def _may_be_other(self, x: Node, y: Node, i: int) -> bool:
        """Return whether y may be the transpose of an x that is not elementwise."""
        match x.op:
            case Transpose():
                return x.inputs[0] in {y, *y.inputs}
            case Sum(axes):
                axes_left = _remaining_axes(x, axes)
                return x.op == y.op and self.may_be(x.inputs[0], y.inputs[0], axes_left[i])
            case ExpandDims():
                return isinstance(y.op, ExpandDims) and x.inputs[0] is y.inputs[0]
            case DotGeneral():
                return isinstance(y.op, DotGeneral) and all(map(is_, x.inputs, y.inputs[::-1]))
        return x is y and isinstance(x.op, Eye | FromDiagonal)

    def _operands(self, x: Node, y: Node, i: int) -> bool:
        if self._each(x, x.inputs, y.inputs, i):
            return True
        return x.op.is_commutative() and self._each(x, x.inputs, y.inputs[::-1], i)

    def _each(self, x: Node, operands: Sequence[Node], others: Sequence[Node], i: int) -> bool:
        after = i - x.type.ndim
        for a, b in zip(operands, others, strict=True):
            pair = a, b, after + a.type.ndim
            # Try each pair once: two orders of nested operands would take exponential time.
            if pair in self._others:
                return False
            if not self.may_be(*pair):
                self._others.add(pair)
                return False
        return True


def _stays(x: Node, i: int) -> bool:
    """Return whether x has no such axes, or one element along them."""
    return i < -1 or {1} == {*x.type.shape[max(i, 0) : i + 2]}


class _Transposes:
    """Arrays with two adjacent axes exchanged, built from their transposed inputs."""

    def __init__(self, symmetric: Callable[[Node], bool]) -> None:
        self._symmetric = symmetric
        self._left = MAX_TRANSPOSED

    def of(self, x: Node, i: int) -> Node | None:
        """Return x with the axes i and i + 1 exchanged; None if that takes a new array."""
        self._left -= 1
        if self._left < 0:
            return None
        ndim = x.type.ndim
        if _stays(x, i):
            return x
        if i == -1:
            return None  # a vector, each row of a matrix
        if i == ndim - 2 and self._symmetric(x) and not is_complex(x.type.dtype):
            return x
        y = self._rebuild(x, i)
        return _exchange(x, i) if y is None else y

    def _rebuild(self, x: Node, i: int) -> Node | None:
        op = x.op
        if isinstance(op, Elementwise | Where | Cast):
            return self._of_elements(x, i)
        if isinstance(op, Sum):
            return self._of_sum(x, op.axes, i)
        if isinstance(op, ExpandDims):
            return _of_new_axes(x, op.axes, i)
        if i != x.type.ndim - 2:
            return None
        if isinstance(op, DotGeneral) and len(op.batch_axes[0]) == i:
            return _of_product(x, op)
        return x if isinstance(op, Eye | FromDiagonal) and _is_main(x, op) else None

    def _of_elements(self, x: Node, i: int) -> Node | None:
        if _is_even_difference(x):
            a, b = x.inputs[0].inputs
            if self._of_operand(a, x, i) is b and self._of_operand(b, x, i) is a:
                return x
        operands = [self._of_operand(operand, x, i) for operand in x.inputs]
        if None in operands:
            return None
        return x.with_inputs(operands)  # type: ignore[arg-type]

    def _of_operand(self, operand: Node, x: Node, i: int) -> Node | None:
        return self.of(operand, i - (x.type.ndim - operand.type.ndim))

    def _of_sum(self, x: Node, axes: tuple[int, ...], i: int) -> Node | None:
        (inner,) = x.inputs
        axes_left = _remaining_axes(x, axes)
        if axes_left[i + 1] != axes_left[i] + 1:
            return None
        y = self.of(inner, axes_left[i])
        return None if y is None else x.with_inputs([y])


def _remaining_axes(x: Node, axes: tuple[int, ...]) -> list[int]:
    return [axis for axis in range(x.inputs[0].type.ndim) if axis not in axes]


def _is_even_difference(x: Node) -> bool:
    """Return whether x is an even function of a difference, as ``abs(a - b)``."""
    op = x.op
    return isinstance(op, Elementwise) and op.facts.parity == 1 and x.inputs[0].op is subtract


def _is_main(x: Node, op: Eye | FromDiagonal) -> bool:
    """Return whether a matrix is square, with a nonzero main diagonal alone."""
    symbolic = x.inputs[-op.shape.count(None) :] if None in op.shape else ()
    return not op.offset and (len({*op.shape}) == 1) and len({*symbolic}) < 2


def _of_new_axes(x: Node, axes: tuple[int, ...], i: int) -> Node | None:
    if (i in axes) == (i + 1 in axes):
        return None
    old, new = (i, i + 1) if i in axes else (i + 1, i)
    moved = tuple(sorted({*axes} - {old} | {new}))
    return Tensor.make(ExpandDims(moved), x.inputs[0])


def _of_product(x: Node, op: DotGeneral) -> Node | None:
    a, b = x.inputs
    if len(op.free(0, a.type.ndim)) != 1 or len(op.free(1, b.type.ndim)) != 1:
        return None
    op_of_transpose = DotGeneral(_sort_pairs(op.contract[::-1]), op.batch_axes[::-1])
    if a is b and op_of_transpose == DotGeneral(_sort_pairs(op.contract), op.batch_axes):
        return x
    return Tensor.make(op_of_transpose, b, a)


Pairs = tuple[tuple[int, ...], tuple[int, ...]]


def _sort_pairs(contract: Any) -> Pairs:
    pairs = sorted(zip(*contract, strict=True))
    return tuple(i for i, _ in pairs), tuple(j for _, j in pairs)


def _exchange(x: Node, i: int) -> Node | None:
    if not isinstance(x.type, TensorType) or i + 1 >= x.type.ndim:
        return None
    axes = list(range(x.type.ndim))
    axes[i], axes[i + 1] = axes[i + 1], axes[i]
    if isinstance(x.op, Transpose):
        (inner,) = x.inputs
        return transpose(inner, [x.op.axes[axis] for axis in axes])
    return Tensor.make(Transpose(tuple(axes)), x)
