"""Symmetry: whether an array equals its transpose in two neighbouring axes, by how it is made."""

from __future__ import annotations

from collections.abc import Callable
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


def equals_transpose(x: Node, symmetric: Callable[[Node], bool]) -> bool:
    """Whether matrices equal their transposes, conjugate for complex numbers.

    Args:
        x: At least two axes; the matrices are in the last two.
        symmetric: Whether that is known of another array.
    """
    if is_complex(x.type.dtype):
        made = _Transposes(symmetric).of(
            conj(x) if x.op is not conj else x.inputs[0], x.type.ndim - 2
        )
    else:
        made = _Transposes(symmetric).of(x, x.type.ndim - 2)
    return made is x


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
        if i < -1 or {1} == {*x.type.shape[max(i, 0) : i + 2]}:
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
        op: Any = x.op
        if _is_even(op) and x.inputs[0].op is subtract:
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
        kept = [axis for axis in range(inner.type.ndim) if axis not in axes]
        if kept[i + 1] != kept[i] + 1:
            return None
        made = self.of(inner, kept[i])
        return None if made is None else x.with_inputs([made])


def _is_even(op: Any) -> bool:
    return isinstance(op, Elementwise) and op.facts.parity == 1


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
