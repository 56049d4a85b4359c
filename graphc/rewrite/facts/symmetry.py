"""Symmetry: whether an array equals its transpose in two neighbouring axes, by how it is made."""

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

MOST = 48
"""The most nodes that are visited, so that rewriting stays linear."""

MOST_LOOKED_AT = 400
"""The most that are looked at before, which takes a tenth of the time for each."""


def equals_transpose(x: Node, symmetric: Callable[[Node], bool]) -> bool:
    """Whether matrices equal their transposes, conjugate for complex numbers.

    Args:
        x: At least two axes; the matrices are in the last two.
        symmetric: Whether that is known of another array.
    """
    i = x.type.ndim - 2
    start = x
    if is_complex(x.type.dtype):
        start = conj(x) if x.op is not conj else x.inputs[0]
    return _Look(symmetric).may_be(start, x, i) and _Transposes(symmetric).of(start, i) is x


class _Look:
    """A quick look at two arrays, which builds nothing: most are seen not to be transposes."""

    def __init__(self, symmetric: Callable[[Node], bool]) -> None:
        self._symmetric = symmetric
        self._left = MOST_LOOKED_AT
        self._others: set[tuple[Node, Node, int]] = set()

    def may_be(self, x: Node, y: Node, i: int) -> bool:
        """Whether ``_Transposes.of(x, i)`` may be y; True where that takes a closer look."""
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
        """The same of what is no function of elements."""
        match x.op:
            case Transpose():
                return x.inputs[0] in {y, *y.inputs}
            case Sum(axes):
                kept = _kept(x, axes)
                return x.op == y.op and self.may_be(x.inputs[0], y.inputs[0], kept[i])
            case ExpandDims():
                return isinstance(y.op, ExpandDims) and x.inputs[0] is y.inputs[0]
            case DotGeneral():
                return isinstance(y.op, DotGeneral) and all(map(is_, x.inputs, y.inputs[::-1]))
        return x is y and isinstance(x.op, Eye | FromDiagonal)

    def _operands(self, x: Node, y: Node, i: int) -> bool:
        if self._each(x, x.inputs, y.inputs, i):
            return True
        return x.op.is_commutative() and self._each(x, x.inputs, y.inputs[::-1], i)

    def _each(self, x: Node, operands: Sequence[Node], wanted: Sequence[Node], i: int) -> bool:
        after = i - x.type.ndim
        for a, b in zip(operands, wanted, strict=True):
            pair = a, b, after + a.type.ndim
            # Seen once, or the two orders of operands of operands would take exponential time.
            if pair in self._others:
                return False
            if not self.may_be(*pair):
                self._others.add(pair)
                return False
        return True


def _stays(x: Node, i: int) -> bool:
    """Whether there are no such axes, or none of more than one element."""
    return i < -1 or {1} == {*x.type.shape[max(i, 0) : i + 2]}


class _Transposes:
    """Arrays with an axis and the next one exchanged, built from their transposed inputs."""

    def __init__(self, symmetric: Callable[[Node], bool]) -> None:
        self._symmetric = symmetric
        self._left = MOST

    def of(self, x: Node, i: int) -> Node | None:
        """Return x with the axes i and i + 1 exchanged; None where that costs a new array."""
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
        made = self._rebuilt(x, i)
        return _exchanged(x, i) if made is None else made

    def _rebuilt(self, x: Node, i: int) -> Node | None:
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
        parts = [self._of_operand(operand, x, i) for operand in x.inputs]
        if None in parts:
            return None
        return x.with_inputs(parts)  # type: ignore[arg-type]

    def _of_operand(self, operand: Node, x: Node, i: int) -> Node | None:
        return self.of(operand, i - (x.type.ndim - operand.type.ndim))

    def _of_sum(self, x: Node, axes: tuple[int, ...], i: int) -> Node | None:
        (inner,) = x.inputs
        kept = _kept(x, axes)
        if kept[i + 1] != kept[i] + 1:
            return None
        made = self.of(inner, kept[i])
        return None if made is None else x.with_inputs([made])


def _kept(x: Node, axes: tuple[int, ...]) -> list[int]:
    """The axes of a sum's operand that the sum has too."""
    return [axis for axis in range(x.inputs[0].type.ndim) if axis not in axes]


def _is_even_difference(x: Node) -> bool:
    """Whether it is an even function of a difference, which may be taken the other way."""
    op = x.op
    return isinstance(op, Elementwise) and op.facts.parity == 1 and x.inputs[0].op is subtract


def _is_main(x: Node, op: Eye | FromDiagonal) -> bool:
    """Whether a square matrix has elements on its main diagonal alone."""
    symbolic = x.inputs[-op.shape.count(None) :] if None in op.shape else ()
    return not op.offset and (len({*op.shape}) == 1) and len({*symbolic}) < 2


def _of_new_axes(x: Node, axes: tuple[int, ...], i: int) -> Node | None:
    """A new axis and the one beside it change places."""
    if (i in axes) == (i + 1 in axes):
        return None
    old, new = (i, i + 1) if i in axes else (i + 1, i)
    moved = tuple(sorted({*axes} - {old} | {new}))
    return Tensor.make(ExpandDims(moved), x.inputs[0])


def _of_product(x: Node, op: DotGeneral) -> Node | None:
    """The columns of one operand by the rows of the other."""
    a, b = x.inputs
    if len(op.free(0, a.type.ndim)) != 1 or len(op.free(1, b.type.ndim)) != 1:
        return None
    made = DotGeneral(_sorted(op.contract[::-1]), op.batch_axes[::-1])
    if a is b and made == DotGeneral(_sorted(op.contract), op.batch_axes):
        return x
    return Tensor.make(made, b, a)


Pairs = tuple[tuple[int, ...], tuple[int, ...]]


def _sorted(contract: Any) -> Pairs:
    """Pairs of axes in the order of the first."""
    pairs = sorted(zip(*contract, strict=True))
    return tuple(i for i, _ in pairs), tuple(j for _, j in pairs)


def _exchanged(x: Node, i: int) -> Node | None:
    if not isinstance(x.type, TensorType) or i + 1 >= x.type.ndim:
        return None
    axes = list(range(x.type.ndim))
    axes[i], axes[i + 1] = axes[i + 1], axes[i]
    if isinstance(x.op, Transpose):
        (inner,) = x.inputs
        return transpose(inner, [x.op.axes[axis] for axis in axes])
    return Tensor.make(Transpose(tuple(axes)), x)
