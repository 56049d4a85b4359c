"""Eigenvalues of Hermitian matrices and singular values, by Jacobi's rotations.

A round rotates disjoint pairs of columns, all at once, so that some number is 0 between the columns
of each pair; after n rounds every column was beside every other one. The rounds end when all those
numbers are as small as rounding leaves them. Each round takes a linear number of elementwise
operations on rows and columns, and no product of matrices.

Source: Brent & Luk, The solution of singular-value and symmetric eigenvalue problems on
multiprocessor arrays, SIAM J. Sci. Stat. Comput. 6(1), 1985.
"""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.export.onnx.lower.linalg import adjoint, reflected, smaller
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.loop import scan, until
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.eigen import Eigh, Eigvalsh
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.svd import SVD, Svdvals

SWEEPS = 24
"""So many times every pair is rotated at most; six to ten are enough."""

DOUBLES = {"float32": "float64", "complex64": "complex128"}


def in_doubles(x: Any) -> Any:
    """Numbers of twice the width."""
    return gt.cast(x, DOUBLES.get(x.dtype, x.dtype))


def partners(k: Any, n: Any, turn: Any) -> Any:
    """For each column the one beside it in a round: itself, or the last one, if there is none.

    The sum of both is the round's number modulo an odd one.
    """
    even = gt.equal(n % 2, 0)
    odd = gt.maximum(gt.where(even, n - 1, n), 1)
    beside = (turn - k) % odd
    last = gt.where(gt.equal(beside, k), odd, beside)
    beside = gt.where(even, last, beside)
    of_last = (turn % odd) * ((odd + 1) // 2) % odd
    return gt.where(even & gt.equal(k, odd), of_last, beside)


def rotation(own: Any, between: Any, beside: Any, k: Any) -> tuple[Any, Any]:
    """The factors of each column and of the one beside it.

    Args:
        own: A real number for each column, such as the matrix's diagonal.
        between: The number that is to be 0, of the column beside each and it.
        beside: The number of the column beside each.
        k: The number of each column.
    """
    size = gt.abs(between)
    none = gt.equal(size, 0) | gt.equal(beside, k)
    other = gt.take_along_axis(own, beside + gt.zeros_like(own, "int64"), -1)
    first = k < beside
    slope = gt.where(first, other - own, own - other) / gt.where(none, 1, 2 * size)
    tangent = 1 / (gt.abs(slope) + gt.sqrt(1 + gt.square(slope)))
    tangent = gt.where(slope < 0, -tangent, tangent)
    cosine = gt.where(none, 1, 1 / gt.sqrt(1 + gt.square(tangent)))
    sine = gt.where(none, 0, tangent * cosine * gt.where(first, -1, 1))
    return gt.cast(cosine, between.dtype), gt.cast(sine, between.dtype) * between / gt.cast(
        gt.where(none, 1, size), between.dtype
    )


def turned(x: Any, cosine: Any, sine: Any, beside: Any) -> Any:
    """The columns of matrices, each with some of the one beside it."""
    return x * cosine[..., None, :] + x[..., beside] * sine[..., None, :]


def unit(x: Any, n: Any) -> Any:
    """Identity matrices of n rows, as many as there are matrices x."""
    return gt.zeros_like(gt.sum(x, (-1, -2)))[..., None, None] + gt.eye(n, dtype=x.dtype)


def rounds(step: Any, starts: Any, n: Any) -> Any:
    """What rounds come to that end when a step says so."""
    if isinstance(n, int) and n < 2:
        return starts
    turns = gt.arange(SWEEPS * (n + 1))
    found = scan(step, turns, starts, return_list=True)
    return [y[-1] for y in found]


def diagonalised(x: Any) -> tuple[Any, Any]:
    """The eigenvalues of Hermitian matrices, in no order, and the vectors."""
    n = lengths(x)[-1]
    k = gt.arange(n)
    diagonal = gt.equal(k[:, None], k)
    limit = 1e-32 * gt.sum(gt.square(gt.abs(x)), (-1, -2))

    def step(turn: Any, a: Any, v: Any) -> Any:
        beside = partners(k, n, turn)
        own = gt.real(gt.diagonal(a, 0, -2, -1))
        cosine, sine = rotation(own, a[..., beside, k], beside, k)
        a, v = (turned(y, cosine, sine, beside) for y in (a, v))
        a = adjoint(turned(adjoint(a), cosine, sine, beside))
        rest = gt.sum(gt.where(diagonal, 0, gt.square(gt.abs(a))), (-1, -2))
        return [a, v], until(gt.all(rest <= limit))

    a, v = rounds(step, [x, unit(x, n)], n)
    return gt.real(gt.diagonal(a, 0, -2, -1)), v


def whole(x: Any) -> Any:
    """The Hermitian matrices of lower triangles."""
    return Tensor.make(Mirror(lower=True, conjugated=True), x)


@onnx.lower(Eigh)
@by_graph
def eigh(op: Eigh, x: Any) -> Any:
    """In ascending order; the lower triangle is read."""
    w, v = diagonalised(in_doubles(whole(x)))
    order = gt.argsort(w, -1)
    v = gt.take_along_axis(v, order[..., None, :], -1)
    real = gt.real(x).dtype
    return gt.cast(gt.take_along_axis(w, order, -1), real), gt.cast(v, x.dtype)


@onnx.lower(Eigvalsh)
@by_graph
def eigvalsh(op: Eigvalsh, x: Any) -> Any:
    """In ascending order; the lower triangle is read."""
    w, _ = diagonalised(in_doubles(whole(x)))
    return gt.cast(gt.sort(w, -1), gt.real(x).dtype)


def orthogonalised(x: Any) -> tuple[Any, Any, Any]:
    """Matrices times V, whose columns are orthogonal; their lengths in falling order, and V."""
    n = lengths(x)[-1]
    k = gt.arange(n)
    limit = 1e-32 * gt.square(gt.sum(gt.square(gt.abs(x)), (-1, -2)))

    def step(turn: Any, a: Any, v: Any) -> Any:
        beside = partners(k, n, turn)
        own = gt.sum(gt.square(gt.abs(a)), -2)
        between = gt.sum(gt.conj(a[..., beside]) * a, -2)
        cosine, sine = rotation(own, between, beside, k)
        a, v = (turned(y, cosine, sine, beside) for y in (a, v))
        products = gt.matmul(adjoint(a), a)
        rest = gt.where(gt.equal(k[:, None], k), 0, gt.square(gt.abs(products)))
        return [a, v], until(gt.all(gt.sum(rest, (-1, -2)) <= limit))

    a, v = rounds(step, [x, unit(x, n)], n)
    s = gt.sqrt(gt.sum(gt.square(gt.abs(a)), -2))
    order = gt.argsort(-s, -1)
    a, v = (gt.take_along_axis(y, order[..., None, :], -1) for y in (a, v))
    return a, gt.take_along_axis(s, order, -1), v


@onnx.lower(SVD)
@by_graph
def svd(op: SVD, x: Any) -> Any:
    """Columns of length 0 are completed by reflections, as is a full basis."""
    m, n = lengths(x)[-2:]
    least = smaller(m, n)
    a, s, v = orthogonalised(in_doubles(x))
    q, r = reflected(a)
    size = gt.diagonal(r, 0, -2, -1)
    phase = gt.where(gt.equal(size, 0), 1, gt.sign(size))
    u = q[..., :least] * phase[..., None, :]
    if op.full:
        u = gt.concatenate([u, q[..., least:]], -1)
    else:
        v = v[..., :least]
    found = u, s[..., :least], adjoint(v)
    real = gt.real(x).dtype
    return tuple(gt.cast(y, t) for y, t in zip(found, (x.dtype, real, x.dtype), strict=True))


@onnx.lower(Svdvals)
@by_graph
def svdvals(op: Svdvals, x: Any) -> Any:
    """In falling order."""
    least = smaller(*lengths(x)[-2:])
    _, s, _ = orthogonalised(in_doubles(x))
    return gt.cast(s[..., :least], gt.real(x).dtype)
