"""Block-diagonal matrices: their blocks, and the facts of the whole."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

from graphc.ir import Node, is_complex
from graphc.rewrite.facts.facts import Band, Definiteness, MatrixFacts
from graphc.rewrite.facts.lengths import Known, length_of, length_step, total
from graphc.rewrite.facts.matrices import is_square, is_uniform
from graphc.rewrite.facts.signs import sign_of
from graphc.rewrite.facts.structure import facts_of, facts_step
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.patterned import BlockDiagonal, cuts


def block_diagonal(*blocks: Tensor) -> Tensor:
    """The matrix that has these along its diagonal."""
    return Tensor.make(BlockDiagonal(), *blocks)


def square_blocks(x: Node) -> tuple[Tensor, ...] | None:
    """The matrices along the diagonal of one, where all are square; None of other ones.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = gt.tensor(shape=(2, 2)), gt.tensor(shape=(3, 3))
        >>> square_blocks(gt.linalg.block_diag(a, b)) == (a, b)
        True
    """
    whole = isinstance(x.op, BlockDiagonal) and all(map(_is_square, x.inputs))
    return x.inputs if whole else None  # type: ignore[return-value]


def _is_square(x: Node) -> bool:
    """Whether a block is square by its lengths, or by what else is known of it."""
    known = facts_of(x)
    return known.symmetric or known.orthogonal or is_square(x)


def rows_for(blocks: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """The rows of matrices that each block meets in a product."""
    sizes: list[Known] = [length_of(block, block.ndim - 1) for block in blocks]
    open_ones = [i for i, n in enumerate(sizes) if not isinstance(n, int)]
    whole = x.type.shape[-2]
    if len(open_ones) == 1 and whole is not None:
        rest = whole - sum(n for n in sizes if isinstance(n, int))
        sizes[open_ones[0]] = max(rest, 0)
    return cuts(x, sizes, -2)


@facts_step.register
def _of_blocks(op: BlockDiagonal, node: Node) -> MatrixFacts:
    known = [_of_block(x) for x in node.inputs]
    selection = all(x.selection for x in known)
    if not all(map(_is_square, node.inputs)):
        return MatrixFacts(selection=selection)
    return MatrixFacts(
        reduce(operator.or_, [x.band for x in known], Band(0, 0)),
        all(x.symmetric for x in known),
        min(x.definite for x in known),
        all(x.orthogonal for x in known),
        selection,
        all(x.permutation for x in known),
    )


def _of_block(x: Node) -> MatrixFacts:
    known = facts_of(x)
    if not is_uniform(x) or is_complex(x.type.dtype):
        return known
    return known._replace(
        band=Band(0, 0), symmetric=True, definite=max(known.definite, Definiteness(sign_of(x)))
    )


@length_step.register
def _length_of_blocks(op: BlockDiagonal, node: Node, axis: int) -> Known | None:
    if axis < node.type.ndim - 2:
        return None
    return total([length_of(x, axis) for x in node.inputs])
