"""Rules of Cholesky factors."""

from __future__ import annotations

from graphc.ir import Node, is_complex
from graphc.rewrite.facts.facts import Definiteness
from graphc.rewrite.facts.lengths import admit, fit_to, inputs_with_checks, lengths_of
from graphc.rewrite.facts.matrices import factors_of, kron_factors
from graphc.rewrite.facts.structure import facts_of
from graphc.rewrite.rule import rewrite
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal
from graphc.tensor.core.elementwise import sqrt
from graphc.tensor.core.shape import entries
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.dot import DotGeneral
from graphc.tensor.linalg.linalg import kron
from graphc.tensor.linalg.mirror import Mirror


@rewrite("canonicalize", Cholesky, beside=[Mirror])
def cholesky_of_mirror(node: Node, op: Cholesky) -> Node | None:
    """``cholesky(mirror(a))`` is ``cholesky(a)``: only the lower triangle is read."""
    (x,) = node.inputs
    if not isinstance(x.op, Mirror) or not x.op.lower:
        return None
    return node.with_inputs(x.inputs)


@rewrite("canonicalize", Cholesky)
def cholesky_of_diagonal(node: Node, op: Cholesky) -> Node | None:
    """``cholesky(diag(d))`` is ``diag(sqrt(d))``."""
    (x,) = node.inputs
    facts = facts_of(x)
    if not facts.is_diagonal or is_complex(x.type.dtype):
        return None
    static, symbolic = entries("cholesky", lengths_of(node)[-2:])
    roots = sqrt(Tensor.make(MatrixDiagonal(0), *inputs_with_checks(node)))
    factor = Tensor.make(FromDiagonal(static, 0), roots, *symbolic)
    return admit(factor, node)


@rewrite("canonicalize", Cholesky)
def cholesky_of_kron(node: Node, op: Cholesky) -> Node | None:
    """``cholesky(kron(a, b))`` of positive definite a, b is ``kron(cholesky(a), cholesky(b))``."""
    (x,) = node.inputs
    pair = kron_factors(x)
    if pair is None or not all(facts_of(part).definite is Definiteness.POSITIVE for part in pair):
        return None
    return fit_to(kron(*(Tensor.make(op, part) for part in pair)), node)


@rewrite("canonicalize", DotGeneral, beside=[Cholesky])
def dot_of_cholesky(node: Node, op: DotGeneral) -> Node | None:
    """``l @ l.T`` is ``a`` for ``l = cholesky(a)``."""
    factors = factors_of(node)
    if factors is None or is_complex(node.type.dtype):
        return None
    (a, a_transposed), (b, b_transposed) = factors
    if (
        a is not b
        or (a_transposed, b_transposed) != (False, True)
        or not isinstance(a.op, Cholesky)
    ):
        return None
    (x,) = a.inputs
    return admit(x if facts_of(x).symmetric else Tensor.make(Mirror(True, True), x), node)
