"""Rules of inverses, few of which are needed."""

from __future__ import annotations

from graphc.ir import Node
from graphc.rewrite.blocks import block_diagonal, square_blocks
from graphc.rewrite.lengths import admitted, fitted, lengths_of
from graphc.rewrite.matrices import is_square, kron_factors, times
from graphc.rewrite.rule import rewrite
from graphc.rewrite.rules.solve import OTHER_SIDE, is_transpose, solved
from graphc.rewrite.solvers import WHOLE, better
from graphc.tensor.axes import Transpose
from graphc.tensor.diagonal import Diagonal, FromDiagonal
from graphc.tensor.dot import DotGeneral
from graphc.tensor.inverse import Inverse
from graphc.tensor.linalg import kron
from graphc.tensor.mirror import adjoint, swapped
from graphc.tensor.patterned import BlockDiagonal
from graphc.tensor.shape import entries
from graphc.tensor.tensor import Tensor


def inverted(x: Node, assume: str = "gen") -> Tensor:
    """The inverses of matrices."""
    return Tensor.make(Inverse(assume), x)


@rewrite("canonicalize", Inverse)
def inverse_by_structure(node: Node, op: Inverse) -> Node | None:
    """A matrix that is known to be triangular, positive definite or such needs less work."""
    (x,) = node.inputs
    kind = better(x, op.assume)
    return None if kind is None else inverted(x, kind)


@rewrite("canonicalize", DotGeneral, beside=[Inverse])
def dot_with_inverse(node: Node, op: DotGeneral) -> Node | None:
    """What an inverse is multiplied with is a right-hand side: that is faster, and more exact."""
    for side in (0, 1):
        inverse = node.inputs[side].op
        found = times(node, side) if isinstance(inverse, Inverse) else None
        if found is not None and isinstance(inverse, Inverse):
            (a,) = found.x.inputs
            return admitted(
                found.restored(solved(inverse.assume, found.turned, a, found.columns)), node
            )
    return None


@rewrite("canonicalize", Inverse, beside=[Inverse])
def inverse_of_inverse(node: Node, op: Inverse) -> Node | None:
    """The inverse of an inverse is the matrix."""
    (x,) = node.inputs
    if not isinstance(x.op, Inverse) or not {op.assume, x.op.assume} <= WHOLE:
        return None
    return admitted(x.inputs[0], node)


@rewrite("canonicalize", Inverse, beside=[Transpose])
def inverse_of_transpose(node: Node, op: Inverse) -> Node | None:
    """The inverse of a transpose is that of the matrix, transposed."""
    (x,) = node.inputs
    if not is_transpose(x):
        return None
    return swapped(inverted(x.inputs[0], OTHER_SIDE.get(op.assume, op.assume)))


@rewrite("canonicalize", Inverse)
def inverse_of_diagonal(node: Node, op: Inverse) -> Node | None:
    """A diagonal matrix has the reciprocals on its diagonal, an orthogonal one is transposed."""
    (x,) = node.inputs
    if op.assume == "orthogonal":
        return admitted(adjoint(x), node)  # type: ignore[arg-type]
    if op.assume != "diagonal":
        return None
    static, symbolic = entries("inv", lengths_of(node)[-2:])
    made = Tensor.make(FromDiagonal(static, 0), 1 / Tensor.make(Diagonal(0), x), *symbolic)
    return admitted(made, node)


@rewrite("canonicalize", Inverse)
def inverse_of_kron(node: Node, op: Inverse) -> Node | None:
    """The inverse of a Kronecker product is that of inverses."""
    (x,) = node.inputs
    pair = kron_factors(x)
    if pair is None or not all(map(is_square, pair)) or op.assume not in WHOLE:
        return None
    return fitted(kron(*map(inverted, pair)), node)


@rewrite("canonicalize", Inverse, beside=[BlockDiagonal])
def inverse_of_blocks(node: Node, op: Inverse) -> Node | None:
    """Blocks along a diagonal are inverted where they stand."""
    blocks = square_blocks(node.inputs[0])
    if blocks is None:
        return None
    return admitted(block_diagonal(*[inverted(x, op.assume) for x in blocks]), node)
