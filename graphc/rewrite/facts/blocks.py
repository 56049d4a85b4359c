"""Block-diagonal matrices: their blocks, and their facts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

from graphc.ir import Node, is_complex
from graphc.rewrite.facts.bounds import sign_of
from graphc.rewrite.facts.facts import Band, Definiteness, MatrixFacts
from graphc.rewrite.facts.lengths import Known, length_of
from graphc.rewrite.facts.matrices import is_square, is_uniform
from graphc.rewrite.facts.structure import facts_of, facts_step
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.patterned import BlockDiagonalMatrix, cuts


def block_diagonal(*blocks: Tensor) -> Tensor:
    """Return the matrix with these blocks along its diagonal."""
    return Tensor.make(BlockDiagonalMatrix(), *blocks)


def square_blocks(x: Node) -> tuple[Tensor, ...] | None:
    """Return the blocks of a block-diagonal matrix if all are square, otherwise None.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = gt.tensor(shape=(2, 2)), gt.tensor(shape=(3, 3))
        >>> square_blocks(gt.linalg.block_diag(a, b)) == (a, b)
        True
    """
    has_blocks = isinstance(x.op, BlockDiagonalMatrix) and all(map(_is_square, x.inputs))
    return x.inputs if has_blocks else None  # type: ignore[return-value]


def _is_square(x: Node) -> bool:
    """Return whether a block is square by its lengths, or by other facts."""
    facts = facts_of(x)
    return facts.symmetric or facts.orthogonal or is_square(x)


def rows_for(blocks: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """Return the rows of matrices that each block multiplies."""
    sizes: list[Known] = [length_of(block, block.ndim - 1) for block in blocks]
    open_ones = [i for i, n in enumerate(sizes) if not isinstance(n, int)]
    length = x.type.shape[-2]
    if len(open_ones) == 1 and length is not None:
        rest = length - sum(n for n in sizes if isinstance(n, int))
        sizes[open_ones[0]] = max(rest, 0)
    return cuts(x, sizes, -2)


@facts_step.register
def _of_blocks(op: BlockDiagonalMatrix, node: Node) -> MatrixFacts:
    facts = [_of_block(x) for x in node.inputs]
    selection = all(x.selection for x in facts)
    if not all(map(_is_square, node.inputs)):
        return MatrixFacts(selection=selection)
    return MatrixFacts(
        reduce(operator.or_, [x.band for x in facts], Band(0, 0)),
        all(x.symmetric for x in facts),
        min(x.definite for x in facts),
        all(x.orthogonal for x in facts),
        selection,
        all(x.permutation for x in facts),
    )


def _of_block(x: Node) -> MatrixFacts:
    facts = facts_of(x)
    if not is_uniform(x) or is_complex(x.type.dtype):
        return facts
    return facts._replace(
        band=Band(0, 0), symmetric=True, definite=max(facts.definite, Definiteness(sign_of(x)))
    )
