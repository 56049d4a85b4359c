"""The solver for a matrix, by its facts; and the facts of factorizations."""

from __future__ import annotations

from collections.abc import Collection

from graphc.ir import Node, Pick, TupleType
from graphc.rewrite.facts.facts import ANYWHERE, NOTHING, Band, Definiteness, MatrixFacts
from graphc.rewrite.facts.matrices import is_square
from graphc.rewrite.facts.structure import facts_of, facts_step
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.eigen import Eigh
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.mirror import Mirror
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
