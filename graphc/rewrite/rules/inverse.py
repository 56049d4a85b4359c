"""Rules of inverses: most need not be computed."""

from __future__ import annotations

from graphc.ir import Node
from graphc.rewrite.facts.lengths import admit, fit_to, inputs_with_checks, lengths_of
from graphc.rewrite.facts.matrices import is_square, kron_factors, times
from graphc.rewrite.facts.solvers import WHOLE, better, block_diagonal, square_blocks
from graphc.rewrite.rule import rewrite
from graphc.rewrite.rules.solve import OTHER_SIDE, is_transpose, solve_with
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal
from graphc.tensor.core.axes import Transpose, matrix_transpose
from graphc.tensor.core.shape import entries
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.linalg import kron
from graphc.tensor.linalg.mirror import adjoint
from graphc.tensor.linalg.patterned import BlockDiagonalMatrix


def inverse_of(x: Node, assume: str = "gen") -> Tensor:
    """Return the inverses of matrices."""
    return Tensor.make(Inverse(assume), x)


@rewrite("canonicalize", Inverse)
def inverse_by_structure(node: Node, op: Inverse) -> Node | None:
    """``inv(a)`` of a matrix known to be triangular, positive definite or such is cheaper."""
    (x,) = node.inputs
    kind = better(x, op.assume)
    return None if kind is None else inverse_of(x, kind)


@rewrite("canonicalize", DotGeneral, beside=[Inverse])
def dot_with_inverse(node: Node, op: DotGeneral) -> Node | None:
    """``inv(a) @ b`` is ``solve(a, b)``, which is faster and more precise."""
    for side in (0, 1):
        inverse = node.inputs[side].op
        product = times(node, side) if isinstance(inverse, Inverse) else None
        if product is not None and isinstance(inverse, Inverse):
            (a,) = product.x.inputs
            return admit(
                product.restore(solve_with(inverse.assume, product.transposed, a, product.columns)),
                node,
            )
    return None


@rewrite("canonicalize", Inverse, beside=[Inverse])
def inverse_of_inverse(node: Node, op: Inverse) -> Node | None:
    """``inv(inv(a))`` is ``a``."""
    (x,) = node.inputs
    if not isinstance(x.op, Inverse) or not {op.assume, x.op.assume} <= WHOLE:
        return None
    (inner,) = inputs_with_checks(x)
    return admit(inner, node)


@rewrite("canonicalize", Inverse, beside=[Transpose])
def inverse_of_transpose(node: Node, op: Inverse) -> Node | None:
    """``inv(a.T)`` is ``inv(a).T``."""
    (x,) = node.inputs
    if not is_transpose(x):
        return None
    return matrix_transpose(inverse_of(x.inputs[0], OTHER_SIDE.get(op.assume, op.assume)))


@rewrite("canonicalize", Inverse)
def inverse_of_diagonal(node: Node, op: Inverse) -> Node | None:
    """``inv(diag(d))`` is ``diag(1 / d)``, and ``inv(q)`` of an orthogonal matrix is ``q.T``."""
    (x,) = inputs_with_checks(node)
    if op.assume == "orthogonal":
        return admit(adjoint(x), node)
    if op.assume != "diagonal":
        return None
    static, symbolic = entries("inv", lengths_of(node)[-2:])
    result = Tensor.make(FromDiagonal(static, 0), 1 / Tensor.make(MatrixDiagonal(0), x), *symbolic)
    return admit(result, node)


@rewrite("canonicalize", Inverse)
def inverse_of_kron(node: Node, op: Inverse) -> Node | None:
    """``inv(kron(a, b))`` is ``kron(inv(a), inv(b))``."""
    (x,) = node.inputs
    pair = kron_factors(x)
    if pair is None or not all(map(is_square, pair)) or op.assume not in WHOLE:
        return None
    return fit_to(kron(*map(inverse_of, pair)), node)


@rewrite("canonicalize", Inverse, beside=[BlockDiagonalMatrix])
def inverse_of_blocks(node: Node, op: Inverse) -> Node | None:
    """``inv(block_diagonal(a, b))`` is ``block_diagonal(inv(a), inv(b))``."""
    blocks = square_blocks(node.inputs[0])
    if blocks is None:
        return None
    return admit(block_diagonal(*[inverse_of(x, op.assume) for x in blocks]), node)
