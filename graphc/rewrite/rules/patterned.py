"""Rules of block-diagonal matrices, block by block."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir import Node
from graphc.rewrite.facts.facts import Definiteness
from graphc.rewrite.facts.lengths import admit, equal_lengths, length_of, with_lengths
from graphc.rewrite.facts.matrices import MatrixFactor, factors_of, times
from graphc.rewrite.facts.solvers import block_diagonal, rows_for, square_blocks
from graphc.rewrite.facts.structure import facts_of
from graphc.rewrite.rule import rewrite
from graphc.rewrite.rules.solve import is_transpose
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import Transpose, matrix_transpose
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.assume import Assume
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.dot import DotGeneral, matmul
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.patterned import BlockDiagonalMatrix


@rewrite("canonicalize", Transpose, beside=[BlockDiagonalMatrix])
def transpose_of_blocks(node: Node, op: Transpose) -> Node | None:
    """``block_diagonal(a, b).T`` is ``block_diagonal(a.T, b.T)``."""
    (x,) = node.inputs
    if not is_transpose(node) or not isinstance(x.op, BlockDiagonalMatrix):
        return None
    return admit(block_diagonal(*map(matrix_transpose, x.inputs)), node)


@rewrite("canonicalize", DotGeneral, beside=[BlockDiagonalMatrix, Transpose])
def dot_with_blocks(node: Node, op: DotGeneral) -> Node | None:
    """``block_diagonal(a, b) @ x`` multiplies each block with its rows of ``x``."""
    product = _product_of_blocks(node)
    if product is not None:
        return product
    for side, x in enumerate(node.inputs):
        factor = times(node, side) if isinstance(x.op, BlockDiagonalMatrix) else None
        if factor is not None:
            blocks = _blocks(factor.x, factor.transposed)
            rows = length_of(factor.x, factor.x.ndim - (2 if factor.transposed else 1))
            columns = with_lengths(factor.columns, {-2: rows})
            pairs = zip(blocks, rows_for(blocks, columns), strict=True)
            result = concatenate([matmul(block, rows) for block, rows in pairs], -2)
            return admit(factor.restore(result), node)
    return None


def _blocks(x: Node, is_transposed: bool) -> tuple[Tensor, ...]:
    blocks: Sequence[Tensor] = x.inputs  # type: ignore[assignment]
    return tuple(map(matrix_transpose, blocks)) if is_transposed else tuple(blocks)


def _product_of_blocks(node: Node) -> Node | None:
    factors: Sequence[MatrixFactor] = factors_of(node) or ()
    if not factors or not all(isinstance(x.op, BlockDiagonalMatrix) for x, _ in factors):
        return None
    a_blocks, b_blocks = (_blocks(*factor) for factor in factors)
    if len(a_blocks) != len(b_blocks):
        return None
    pairs = [*zip(a_blocks, b_blocks, strict=True)]
    if not all(equal_lengths(a, -1, b, -2) for a, b in pairs):
        return None
    return admit(block_diagonal(*[matmul(a, b) for a, b in pairs]), node)


@rewrite("canonicalize", Cholesky, beside=[BlockDiagonalMatrix])
def cholesky_of_blocks(node: Node, op: Cholesky) -> Node | None:
    """``cholesky(block_diagonal(a, b))`` is ``block_diagonal(cholesky(a), cholesky(b))``."""
    (x,) = node.inputs
    blocks = square_blocks(x)
    if blocks is None or facts_of(x).definite is not Definiteness.POSITIVE:
        return None
    return admit(block_diagonal(*[Tensor.make(op, block) for block in blocks]), node)


@rewrite("canonicalize", Mirror, beside=[BlockDiagonalMatrix])
def mirror_of_blocks(node: Node, op: Mirror) -> Node | None:
    """``mirror(block_diagonal(a, b))`` is ``block_diagonal(mirror(a), mirror(b))``."""
    (x,) = node.inputs
    blocks = square_blocks(x)
    if blocks is None:
        return None
    return admit(block_diagonal(*[Tensor.make(op, block) for block in blocks]), node)


@rewrite("canonicalize", Assume, beside=[BlockDiagonalMatrix])
def assumption_of_blocks(node: Node, op: Assume) -> Node | None:
    """``assume(block_diagonal(a, b), fact)`` assumes the fact of each block."""
    (x,) = node.inputs
    blocks = square_blocks(x)
    if blocks is None or op.denied:
        return None
    facts_of(node)  # raises where that contradicts known facts
    return admit(block_diagonal(*[Tensor.make(op, block) for block in blocks]), node)


@rewrite("canonicalize", MatrixDiagonal, beside=[BlockDiagonalMatrix])
def diagonal_of_blocks(node: Node, op: MatrixDiagonal) -> Node | None:
    """``diagonal(block_diagonal(a, b))`` is ``concatenate([diagonal(a), diagonal(b)])``."""
    (x,) = node.inputs
    blocks = square_blocks(x)
    if blocks is None or op.offset:
        return None
    return admit(concatenate([Tensor.make(op, block) for block in blocks], -1), node)
