"""Rules of products with structured matrices."""

from __future__ import annotations

from graphc.ir import Node, is_complex, is_inexact
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.lengths import admit, equal_lengths, fit_to, length_of, with_lengths
from graphc.rewrite.facts.masks import mask_bands
from graphc.rewrite.facts.matrices import factors_of, is_square, kron_factors, labels_of, times
from graphc.rewrite.facts.structure import facts_of
from graphc.rewrite.rule import rewrite
from graphc.rewrite.rules.solve import identity_for
from graphc.tensor.arrays.create import Eye
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import Transpose, swapaxes
from graphc.tensor.core.elementwise import Where, conj, multiply
from graphc.tensor.core.shape import Reshape, reshape
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral, align_axes, matmul
from graphc.tensor.linalg.linalg import kron

SIDES = (0, 1)


@rewrite("canonicalize", DotGeneral, dtypes=is_inexact)
def dot_with_diagonal(node: Node, op: DotGeneral) -> Node | None:
    """``diag(d) @ x`` scales the rows of ``x`` by ``d``, and ``x @ diag(d)`` its columns."""
    if len(op.contract[0]) != 1 or not any(_is_diagonal(x) for x in node.inputs):
        return None
    *labels, result = labels_of(node)
    for side in SIDES:
        x, (*_, row, column) = node.inputs[side], (-1, *labels[side])
        others = labels[1 - side]
        free, summed = max(row, column), min(row, column)
        if _is_diagonal(x) and summed < 0 <= free and free not in others and is_square(x):
            scale_labels = [*labels[side][:-2], free]
            renamed = [free if label == summed else label for label in others]
            scale = align_axes(Tensor.make(MatrixDiagonal(0), x), scale_labels, result)
            other, axis = node.inputs[1 - side], others.index(summed)
            if 1 in {other.type.shape[axis], x.type.shape[-1]}:
                other = with_lengths(other, {axis: length_of(x, x.type.ndim - 1)})
            return admit(scale * align_axes(other, renamed, result), node)  # type: ignore[arg-type]
    return None


def _is_diagonal(x: Node) -> bool:
    return x.type.ndim >= 2 and facts_of(x).is_diagonal


@rewrite("canonicalize", DotGeneral, dtypes=is_inexact)
def dot_of_orthogonal(node: Node, op: DotGeneral) -> Node | None:
    """``q.T @ q`` of an orthogonal matrix is the identity."""
    if not all(facts_of(x).orthogonal for x in node.inputs):
        return None
    factors = factors_of(node)
    if factors is None:
        return None
    (a, a_transposed), (b, b_transposed) = factors
    if a_transposed == b_transposed or not _is_adjoint(a, b):
        return None
    facts = facts_of(a)
    if not facts.orthogonal or not is_square(node):
        return None
    return fit_to(identity_for(a, node), node)


def _is_adjoint(a: Node, b: Node) -> bool:
    if not is_complex(a.type.dtype):
        return a is b
    return (a.op is conj and a.inputs[0] is b) or (b.op is conj and b.inputs[0] is a)


@rewrite("canonicalize", DotGeneral, dtypes=is_inexact)
def dot_of_kron(node: Node, op: DotGeneral) -> Node | None:
    """``kron(a, b) @ x`` is computed by a and b, without the Kronecker product."""
    y = _kron_of_products(node)
    if y is not None:
        return y
    for side, x in enumerate(node.inputs):
        pair = kron_factors(x)
        product = None if pair is None else times(node, side)
        if pair is not None and product is not None:
            a, b = (swapaxes(part, 0, 1) if product.transposed else part for part in pair)
            return admit(product.restore(kron_times(a, b, product.columns)), node)
    return None


def _kron_of_products(node: Node) -> Node | None:
    pairs = []
    if not all(isinstance(x.op, Reshape | Transpose) for x in node.inputs):
        return None
    for x, is_transposed in factors_of(node) or ():
        pair = kron_factors(x)
        if pair is None:
            return None
        pairs.append([swapaxes(part, 0, 1) if is_transposed else part for part in pair])
    if not pairs:
        return None
    (a, b), (c, d) = pairs
    if not equal_lengths(a, 1, c, 0):
        return None
    return fit_to(kron(matmul(a, c), matmul(b, d)), node)


def kron_times(a: Tensor, b: Tensor, columns: Tensor) -> Tensor:
    """Return the Kronecker product of a and b times columns, one factor after the other."""
    k = length_of(columns, 1)
    blocks = reshape(columns, [length_of(a, 1), length_of(b, 1), k])
    first = reshape(
        matmul(a, reshape(blocks, [length_of(a, 1), _times(length_of(b, 1), k)])),
        [length_of(a, 0), length_of(b, 1), k],
    )
    second = matmul(b, first)
    return reshape(second, [_times(length_of(a, 0), length_of(b, 0)), k])


def _times(n: object, m: object) -> object:
    return n * m  # type: ignore[operator]


@rewrite("canonicalize", Sum, beside=[multiply], dtypes=is_inexact)
def sum_with_diagonal(node: Node, op: Sum) -> Node | None:
    """``sum(eye(n) * x)`` is ``sum(diagonal(x))``."""
    (x,) = node.inputs
    n = x.type.ndim
    if op.axes[-2:] != (n - 2, n - 1) or x.op is not multiply:
        return None
    if not any(isinstance(y.op, Eye | FromDiagonal) for y in x.inputs):
        return None
    if not is_square(x) or not facts_of(x).is_diagonal:
        return None
    return Tensor.make(Sum((*op.axes[:-2], n - 2)), Tensor.make(MatrixDiagonal(0), x))


@rewrite("canonicalize", Transpose)
def transpose_of_symmetric(node: Node, op: Transpose) -> Node | None:
    """``a.T`` is ``a`` for a symmetric matrix."""
    (x,) = node.inputs
    n = len(op.axes)
    is_matrix_transpose = n >= 2 and op.axes == (*range(n - 2), n - 1, n - 2)
    if not is_matrix_transpose or is_complex(x.type.dtype) or not facts_of(x).symmetric:
        return None
    return admit(x, node)


@rewrite("canonicalize", Where)
def triangle_of_triangular(node: Node, op: Where) -> Node | None:
    """``tril(a)`` is ``a`` for a lower triangular matrix, and so for ``triu``."""
    mask, x, other = node.inputs
    if x.type.ndim < 2 or mask.type.ndim != 2 or x.type is not node.type:
        return None
    outside = mask_bands(mask).outside
    band = facts_of(x).band
    if band.high >= outside.low and band.low <= outside.high:
        return None
    zero = bounds_of(other)
    return x if zero.low == 0 == zero.high else None
