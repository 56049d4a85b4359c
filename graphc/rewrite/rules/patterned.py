"""Rules of matrices that have others along their diagonal: each is dealt with by itself."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir import Node
from graphc.rewrite.facts.blocks import block_diagonal, rows_for, square_blocks
from graphc.rewrite.facts.facts import Definiteness
from graphc.rewrite.facts.lengths import admitted, equal_lengths, length_of, with_lengths
from graphc.rewrite.facts.matrices import MatrixFactor, factors_of, times
from graphc.rewrite.facts.structure import facts_of
from graphc.rewrite.rule import rewrite
from graphc.rewrite.rules.solve import is_transpose
from graphc.tensor.arrays.diagonal import Diagonal
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import Transpose, matrix_transpose
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.assume import Assume
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.dot import DotGeneral, matmul
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.patterned import BlockDiagonal


@rewrite("canonicalize", Transpose, beside=[BlockDiagonal])
def transpose_of_blocks(node: Node, op: Transpose) -> Node | None:
    """Blocks along the diagonal are transposed where they stand."""
    (x,) = node.inputs
    if not is_transpose(node) or not isinstance(x.op, BlockDiagonal):
        return None
    return admitted(block_diagonal(*map(matrix_transpose, x.inputs)), node)


@rewrite("canonicalize", DotGeneral, beside=[BlockDiagonal, Transpose])
def dot_with_blocks(node: Node, op: DotGeneral) -> Node | None:
    """Blocks along a diagonal are multiplied with the rows that they meet, not the zeros."""
    both = _product_of_blocks(node)
    if both is not None:
        return both
    for side, x in enumerate(node.inputs):
        found = times(node, side) if isinstance(x.op, BlockDiagonal) else None
        if found is not None:
            blocks = _turned(found.x, found.turned)
            rows = length_of(found.x, found.x.ndim - (2 if found.turned else 1))
            columns = with_lengths(found.columns, {-2: rows})
            pairs = zip(blocks, rows_for(blocks, columns), strict=True)
            made = concatenate([matmul(block, rows) for block, rows in pairs], -2)
            return admitted(found.restored(made), node)
    return None


def _turned(x: Node, turned: bool) -> tuple[Tensor, ...]:
    """The blocks of a matrix, or of its transpose."""
    blocks: Sequence[Tensor] = x.inputs  # type: ignore[assignment]
    return tuple(map(matrix_transpose, blocks)) if turned else tuple(blocks)


def _product_of_blocks(node: Node) -> Node | None:
    """Of two such matrices whose blocks fit, that of products."""
    factors: Sequence[MatrixFactor] = factors_of(node) or ()
    if not factors or not all(isinstance(x.op, BlockDiagonal) for x, _ in factors):
        return None
    left, right = (_turned(*factor) for factor in factors)
    if len(left) != len(right):
        return None
    pairs = [*zip(left, right, strict=True)]
    if not all(equal_lengths(a, -1, b, -2) for a, b in pairs):
        return None
    return admitted(block_diagonal(*[matmul(a, b) for a, b in pairs]), node)


@rewrite("canonicalize", Cholesky, beside=[BlockDiagonal])
def cholesky_of_blocks(node: Node, op: Cholesky) -> Node | None:
    """The factor of positive definite blocks along a diagonal is that of factors."""
    (x,) = node.inputs
    blocks = square_blocks(x)
    if blocks is None or facts_of(x).definite is not Definiteness.POSITIVE:
        return None
    return admitted(block_diagonal(*[Tensor.make(op, block) for block in blocks]), node)


@rewrite("canonicalize", Mirror, beside=[BlockDiagonal])
def mirror_of_blocks(node: Node, op: Mirror) -> Node | None:
    """Blocks along a diagonal are made symmetric where they stand."""
    (x,) = node.inputs
    blocks = square_blocks(x)
    if blocks is None:
        return None
    return admitted(block_diagonal(*[Tensor.make(op, block) for block in blocks]), node)


@rewrite("canonicalize", Assume, beside=[BlockDiagonal])
def assumption_of_blocks(node: Node, op: Assume) -> Node | None:
    """The facts of a matrix hold for the blocks along its diagonal."""
    (x,) = node.inputs
    blocks = square_blocks(x)
    if blocks is None or op.denied:
        return None
    facts_of(node)  # says so where that contradicts what is known
    return admitted(block_diagonal(*[Tensor.make(op, block) for block in blocks]), node)


@rewrite("canonicalize", Diagonal, beside=[BlockDiagonal])
def diagonal_of_blocks(node: Node, op: Diagonal) -> Node | None:
    """The diagonal is those of the blocks, one after the other."""
    (x,) = node.inputs
    blocks = square_blocks(x)
    if blocks is None or op.offset:
        return None
    return admitted(concatenate([Tensor.make(op, block) for block in blocks], -1), node)
