"""Rules of determinants: logarithms without overflow, and the cheapest method."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

from graphc.ir import Node, Pick, is_complex, picks
from graphc.rewrite.facts.facts import Definiteness
from graphc.rewrite.facts.lengths import Known, admit, fit_to, inputs_with_checks, length_of
from graphc.rewrite.facts.matrices import factors_of, is_square, kron_factors
from graphc.rewrite.facts.solvers import WHOLE, better, square_blocks
from graphc.rewrite.facts.structure import facts_of
from graphc.rewrite.rule import rewrite
from graphc.rewrite.rules.solve import CHEAP, OTHER_SIDE, is_transpose
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.arrays.reduce import prod, sum
from graphc.tensor.core.axes import Transpose, expand_dims
from graphc.tensor.core.elementwise import abs, cast, sign
from graphc.tensor.core.exponential import log, power
from graphc.tensor.core.tensor import Tensor, as_tensor
from graphc.tensor.linalg.determinant import OF_DIAGONAL, Adjugate, Det, SlogDet
from graphc.tensor.linalg.dot import DotGeneral
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.patterned import BlockDiagonalMatrix


def slogdet(x: Node, assume: str = "gen") -> tuple[Tensor, Tensor]:
    """Return the sign of a determinant, and the logarithm of its magnitude."""
    phase, size = picks(Node.make(SlogDet(assume), x))
    return phase, size


OTHERS = frozenset({"orthogonal", "tridiagonal"})
"""Structures that help to solve equations, but not to compute a determinant."""


@rewrite("canonicalize", Det)
def det_by_structure(node: Node, op: Det) -> Node | None:
    """``det(a)`` of a matrix known to be triangular, positive definite or such is cheaper."""
    (x,) = node.inputs
    kind = better(x, op.assume, OTHERS)
    return None if kind is None else Tensor.make(Det(kind), x)


@rewrite("canonicalize", Pick, beside=[SlogDet])
def slogdet_by_structure(node: Node, op: Pick) -> Node | None:
    """``slogdet(a)`` of a matrix known to be triangular, positive definite or such is cheaper."""
    (results,) = node.inputs
    if not isinstance(results.op, SlogDet):
        return None
    (x,) = results.inputs
    kind = better(x, results.op.assume, OTHERS)
    return None if kind is None else slogdet(x, kind)[op.index]


@rewrite("canonicalize", Adjugate)
def adjugate_of_regular(node: Node, op: Adjugate) -> Node | None:
    """``adjugate(a)`` of a positive definite matrix is ``det(a) * inv(a)``."""
    (x,) = node.inputs
    if facts_of(x).definite is not Definiteness.POSITIVE:
        return None
    det, n = Tensor.make(Det("pos"), x), x.type.ndim
    return expand_dims(det, (n - 2, n - 1)) * Tensor.make(Inverse("pos"), x)


@rewrite("stabilize", log, beside=[Det, abs])
def log_of_det(node: Node, op: Any) -> Node | None:
    """``log(det(a))`` is a sum of logarithms: determinants overflow where these do not."""
    (x,) = node.inputs
    inside = x.inputs[0] if x.op is abs else x
    if not isinstance(inside.op, Det) or is_complex(inside.type.dtype):
        return None
    phase, size = slogdet(inside.inputs[0], inside.op.assume)
    if x.op is abs or inside.op.assume == "pos":
        return size
    return log(phase) + size


@rewrite("stabilize", sign, beside=[Det])
def sign_of_det(node: Node, op: Any) -> Node | None:
    """``sign(det(a))`` is ``slogdet(a).sign``: the determinant may overflow or underflow."""
    (x,) = node.inputs
    return slogdet(x.inputs[0], x.op.assume)[0] if isinstance(x.op, Det) else None


@rewrite("canonicalize", Pick, beside=[SlogDet])
def slogdet_that_is_known(node: Node, op: Pick) -> Node | None:
    """``slogdet(a)`` has sign 1 if ``a`` is positive definite, and logarithm 0 if orthogonal."""
    (results,) = node.inputs
    if not isinstance(results.op, SlogDet):
        return None
    facts = facts_of(results.inputs[0])
    positive = results.op.assume == "pos" or facts.definite is Definiteness.POSITIVE
    if facts.orthogonal if op.index else positive:
        return fit_to(as_tensor(1 - op.index, dtype=node.type.dtype), node)
    return None


@rewrite("canonicalize", Det, Pick, beside=[Transpose, SlogDet])
def det_of_transpose(node: Node, op: Any) -> Node | None:
    """``det(a.T)`` is ``det(a)``, and so for ``slogdet``."""
    spec = _matrix_and_solver(node)
    if spec is None or not is_transpose(spec[0]):
        return None
    x, assume = spec
    return _same_of(node, x.inputs[0], OTHER_SIDE.get(assume, assume))


def _matrix_and_solver(node: Node) -> tuple[Node, str] | None:
    source = node.inputs[0] if isinstance(node.op, Pick) else node
    return (source.inputs[0], source.op.assume) if isinstance(source.op, Det | SlogDet) else None


def _same_of(node: Node, x: Node, assume: str = "gen") -> Tensor:
    """Return the same function of another matrix."""
    if isinstance(node.op, Pick):
        return slogdet(x, assume)[node.op.index]
    return Tensor.make(Det(assume), x)


@rewrite("canonicalize", Det, Pick, beside=[Inverse, SlogDet])
def det_of_inverse(node: Node, op: Any) -> Node | None:
    """``det(inv(a))`` is ``1 / det(a)``, and so for ``slogdet``."""
    spec = _matrix_and_solver(node)
    inverse = None if spec is None else spec[0]
    if inverse is None or not isinstance(inverse.op, Inverse) or is_complex(inverse.type.dtype):
        return None
    y = _same_of(node, inverse.inputs[0], inverse.op.assume)
    if isinstance(op, Det):
        return 1 / y
    return -y if op.index else y


@rewrite("specialize", Det, Pick, beside=[DotGeneral, SlogDet])
def det_of_product(node: Node, op: Any) -> Node | None:
    """``det(a @ b)`` is ``det(a) * det(b)`` for triangles and other cheap matrices."""
    spec = _matrix_and_solver(node)
    factors = None if spec is None or spec[1] not in WHOLE else factors_of(spec[0])
    if factors is None:
        return None
    if not all(is_square(factor.x) and facts_of(factor.x).held & CHEAP for factor in factors):
        return None
    a, b = (_same_of(node, factor.x) for factor in factors)
    is_log = isinstance(op, Pick) and op.index == 1
    return admit(a + b if is_log else a * b, node)


@rewrite("specialize", Det, Pick)
def det_of_kron(node: Node, op: Any) -> Node | None:
    """``det(kron(a, b))`` is ``det(a)**m * det(b)**n`` for a of n rows and b of m rows."""
    spec = _matrix_and_solver(node)
    pair = None if spec is None or spec[1] not in WHOLE else kron_factors(spec[0])
    if pair is None or not all(map(is_square, pair)):
        return None
    a, b = (_same_of(node, x) for x in pair)
    n, m = (_count(length_of(x, 0), a.dtype) for x in pair)
    if isinstance(op, Pick) and op.index == 1:
        return admit(a * m + b * n, node)
    return admit(power(a, m) * power(b, n), node)


def _count(n: Known, dtype: str) -> Tensor:
    return cast(n, dtype) if isinstance(n, Node) else as_tensor(n, dtype=dtype)


@rewrite("specialize", Det, Pick, beside=[BlockDiagonalMatrix, SlogDet])
def det_of_blocks(node: Node, op: Any) -> Node | None:
    """``det(block_diagonal(a, b))`` is ``det(a) * det(b)``, and so for ``slogdet``."""
    spec = _matrix_and_solver(node)
    blocks = None if spec is None else square_blocks(spec[0])
    if spec is None or blocks is None:
        return None
    determinants = [_same_of(node, x, spec[1]) for x in blocks]
    is_log = isinstance(op, Pick) and op.index == 1
    return admit(reduce(operator.add if is_log else operator.mul, determinants), node)


@rewrite("specialize", Det, Pick)
def det_of_triangle(node: Node, op: Any) -> Node | None:
    """``det(a)`` of a triangle is ``prod(diagonal(a))``, and so for ``slogdet``."""
    spec = _matrix_and_solver(node)
    if spec is None or spec[1] not in OF_DIAGONAL:
        return None
    source = node.inputs[0] if isinstance(op, Pick) else node
    diagonal = Tensor.make(MatrixDiagonal(0), *inputs_with_checks(source))
    if isinstance(op, Det):
        return prod(diagonal, -1)
    return sum(log(abs(diagonal)), -1) if op.index else prod(sign(diagonal), -1)
