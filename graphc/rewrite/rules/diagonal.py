"""Rules of diagonals, which need no full matrix."""

from __future__ import annotations

from graphc.ir import Node, is_inexact
from graphc.rewrite.facts.lengths import admit, fit_to, inputs_with_checks
from graphc.rewrite.facts.matrices import factors_of, is_square, is_uniform, kron_factors
from graphc.rewrite.rule import rewrite
from graphc.tensor.arrays.create import Eye
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.core.axes import Transpose, squeeze, swapaxes
from graphc.tensor.core.elementwise import Cast, Elementwise, multiply
from graphc.tensor.core.shape import ravel
from graphc.tensor.core.tensor import Tensor, as_tensor
from graphc.tensor.linalg.assume import Assume
from graphc.tensor.linalg.dot import DotGeneral


@rewrite("canonicalize", MatrixDiagonal, beside=[FromDiagonal, Eye, Assume, Transpose])
def diagonal_of_rearranged(node: Node, op: MatrixDiagonal) -> Node | None:
    """``diagonal(diag(d))`` is ``d``, and ``diagonal(a.T)`` is ``diagonal(a)``."""
    (x,) = node.inputs
    match x.op:
        case FromDiagonal(_, offset) if offset == op.offset:
            return admit(x.inputs[0], node)
        case Eye(_, offset, dtype) if offset == op.offset:
            return fit_to(as_tensor(1, dtype=dtype), node)
        case Assume():
            return node.with_inputs(inputs_with_checks(x))
        case Transpose(axes) if not op.offset:
            n = len(axes)
            if axes == (*range(n - 2), n - 1, n - 2):
                return admit(node.with_inputs(x.inputs), node)
    return None


@rewrite("canonicalize", MatrixDiagonal)
def diagonal_of_elements(node: Node, op: MatrixDiagonal) -> Node | None:
    """``diagonal(exp(a))`` is ``exp(diagonal(a))``."""
    (x,) = node.inputs
    if not isinstance(x.op, Elementwise | Cast):
        return None
    diagonals = [_diagonal_of_operand(y, x, node) for y in inputs_with_checks(x)]
    return None if None in diagonals else admit(x.with_inputs(diagonals), node)  # type: ignore[arg-type]


def _diagonal_of_operand(y: Node, x: Node, node: Node) -> Node | None:
    if not y.type.ndim:
        return y
    if y.type.ndim >= 2 and y.type.shape[-2:] == x.type.shape[-2:]:
        return node.with_inputs([y])
    last = y.type.ndim - 1
    if is_uniform(y) and last:
        return squeeze(y, last)
    if node.op != MatrixDiagonal(0) or not is_square(x):
        return None
    single = [axis for axis in range(max(last - 1, 0), last + 1) if y.type.shape[axis] == 1]
    return squeeze(y, single[0]) if single and last else y if not last else None


@rewrite("canonicalize", MatrixDiagonal, beside=[DotGeneral])
def diagonal_of_dot(node: Node, op: MatrixDiagonal) -> Node | None:
    """``diagonal(a @ b)`` is ``sum(a * b.T, -1)``."""
    (x,) = node.inputs
    factors = factors_of(x)
    if op.offset or factors is None or not is_square(x) or not is_inexact(x.type.dtype):
        return None
    a, b = (  # a's rows, and b's columns as rows
        swapaxes(factor.x, -1, -2) if factor.transposed != side else factor.x
        for factor, side in zip(factors, (False, True), strict=True)
    )
    return admit(sum(multiply(a, b), -1), node)


@rewrite("canonicalize", MatrixDiagonal)
def diagonal_of_kron(node: Node, op: MatrixDiagonal) -> Node | None:
    """``diagonal(kron(a, b))`` is ``kron(diagonal(a), diagonal(b))``."""
    (x,) = node.inputs
    pair = kron_factors(x)
    if pair is None or op.offset or not (is_square(pair.a) and is_square(pair.b)):
        return None
    a, b = (Tensor.make(MatrixDiagonal(0), x) for x in pair)
    return fit_to(ravel(a[:, None] * b), node)
