"""The solver for a matrix, by its facts; facts of factorizations and of block-diagonal matrices."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from functools import reduce

from graphc.ir import Node, Pick, TupleType, is_complex
from graphc.rewrite.facts.bounds import sign_of
from graphc.rewrite.facts.facts import ANYWHERE, NOTHING, Band, Definiteness, MatrixFacts
from graphc.rewrite.facts.lengths import Known, length_of
from graphc.rewrite.facts.matrices import is_square, is_uniform
from graphc.rewrite.facts.structure import facts_of, facts_step
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.eigen import Eigh
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.patterned import BlockDiagonalMatrix, cuts
from graphc.tensor.linalg.qr import QR, ComplexQR, PivotedQR
from graphc.tensor.linalg.svd import SVD

WHOLE = frozenset({"gen", "sym", "her", "pos", "banded"})
"""The solvers that read all of a matrix, or one triangle of a matrix that is symmetric."""

KINDS = (
    ("diagonal", "diagonal"),
    ("orthogonal", "orthogonal"),
    ("lower_triangular", "lower triangular"),
    ("upper_triangular", "upper triangular"),
    ("tridiagonal", "tridiagonal"),
    ("positive_definite", "pos"),
)
"""Facts and the solvers that they allow, the cheapest first."""


def reads_all(assume: str, x: Node) -> bool:
    """Return whether a solver reads all of a matrix, or its unread part is as it assumes."""
    return assume in WHOLE or any(facts_of(x)[name] for name, kind in KINDS if kind == assume)


def better(x: Node, assume: str, leaving_out: Collection[str] = ()) -> str | None:
    """Return a cheaper solver for a matrix than the present one, or None.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.matrix("x")
        >>> better(gt.tril(x), "gen"), better(x, "gen")
        ('lower triangular', None)
    """
    facts = facts_of(x)
    if assume not in WHOLE:
        # Elements that are not read may be anything: only a diagonal matrix may change its solver.
        return (
            "diagonal" if facts.is_diagonal and assume not in {"diagonal", "orthogonal"} else None
        )
    for name, kind in KINDS:
        if facts[name] and kind not in leaving_out:
            return None if kind == assume else kind
    return None


@facts_step.register
def _of_cholesky(op: Cholesky, node: Node) -> MatrixFacts:
    (x,) = node.inputs
    facts = facts_of(x)
    diagonal = facts.is_diagonal
    definite = Definiteness.POSITIVE if diagonal else Definiteness.UNKNOWN
    return MatrixFacts(Band(0 if diagonal else ANYWHERE.low, 0), diagonal, definite)


@facts_step.register
def _of_inverse(op: Inverse, node: Node) -> MatrixFacts:
    facts = facts_of(node.inputs[0]).inverted
    if op.assume not in WHOLE and op.assume != "orthogonal":
        # The inverse is that of a part of the matrix.
        facts = MatrixFacts()
    if op.assume == "pos":
        return facts._replace(symmetric=True, definite=Definiteness.POSITIVE)
    sides = {"lower triangular": Band(high=0), "upper triangular": Band(low=0)}
    band = Band(0, 0) if op.assume == "diagonal" else sides.get(op.assume, ANYWHERE)
    return facts._replace(band=facts.band & band, orthogonal=facts.orthogonal)


@facts_step.register
def _of_mirror(op: Mirror, node: Node) -> MatrixFacts:
    (x,) = node.inputs
    facts = facts_of(x)
    if facts.symmetric and (op.conjugated or _is_real(node)):
        return facts
    side = Band(high=0) if op.lower else Band(low=0)
    one = facts.band & side
    return MatrixFacts(one | one.transposed, symmetric=op.conjugated or _is_real(node))


def _is_real(node: Node) -> bool:
    return not node.type.dtype.startswith("complex")


ORTHOGONAL = MatrixFacts(orthogonal=True)


@facts_step.register
def _of_pick(op: Pick, node: Node) -> MatrixFacts:
    (results,) = node.inputs
    assert isinstance(results.type, TupleType)
    match results.op:
        case QR() | ComplexQR() | PivotedQR():
            if op.index == 1:
                return MatrixFacts(Band(low=0))
            return ORTHOGONAL if op.index == 0 and is_square(node) else NOTHING
        case SVD():
            return ORTHOGONAL if op.index != 1 and is_square(node) else NOTHING
        case Eigh():
            return ORTHOGONAL if op.index == 1 else NOTHING
    return NOTHING


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
