"""Eigenvalues of Hermitian matrices and singular values, by Jacobi rotations.

A round rotates disjoint pairs of columns in parallel, which zeroes the off-diagonal element of each
pair; after n rounds every column was paired with every other one. The rounds end when the
off-diagonal elements are as small as rounding leaves them. Each round takes a linear number of
elementwise operations on rows and columns, and no product of matrices.

Source: Brent & Luk, The solution of singular-value and symmetric eigenvalue problems on
multiprocessor arrays, SIAM J. Sci. Stat. Comput. 6(1), 1985.
"""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.export.onnx.lower.linalg import adjoint, minimum_length, triangularize
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.loop import scan, until
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.eigen import Eigh, Eigvalsh
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.svd import SVD, Svdvals

SWEEPS = 24
"""The largest number of rotations of each pair; six to ten are enough."""

DOUBLES = {"float32": "float64", "complex64": "complex128"}


def in_float64(x: Any) -> Any:
    return gt.cast(x, DOUBLES.get(x.dtype, x.dtype))


def partners(k: Any, n: Any, round_: Any) -> Any:
    """Return the partner of each column in a round; a column without one is its own partner.

    The sum of partners is the round's number, modulo the largest odd number up to n.
    """
    even = gt.equal(n % 2, 0)
    odd = gt.maximum(gt.where(even, n - 1, n), 1)
    beside = (round_ - k) % odd
    last = gt.where(gt.equal(beside, k), odd, beside)
    beside = gt.where(even, last, beside)
    of_last = (round_ % odd) * ((odd + 1) // 2) % odd
    return gt.where(even & gt.equal(k, odd), of_last, beside)


def rotation(diagonal: Any, off_diagonal: Any, partner: Any, k: Any) -> tuple[Any, Any]:
    """Return the cosine and sine that rotate each column with its partner.

    Args:
        diagonal: The diagonal element of each column, which is real.
        off_diagonal: The element of each column and its partner, which becomes 0.
        partner: The index of each column's partner.
        k: The index of each column.
    """
    size = gt.abs(off_diagonal)
    is_zero = gt.equal(size, 0) | gt.equal(partner, k)
    other = gt.take_along_axis(diagonal, partner + gt.zeros_like(diagonal, "int64"), -1)
    first = k < partner
    slope = gt.where(first, other - diagonal, diagonal - other) / gt.where(is_zero, 1, 2 * size)
    tangent = 1 / (gt.abs(slope) + gt.sqrt(1 + gt.square(slope)))
    tangent = gt.where(slope < 0, -tangent, tangent)
    cosine = gt.where(is_zero, 1, 1 / gt.sqrt(1 + gt.square(tangent)))
    sine = gt.where(is_zero, 0, tangent * cosine * gt.where(first, -1, 1))
    return gt.cast(cosine, off_diagonal.dtype), gt.cast(
        sine, off_diagonal.dtype
    ) * off_diagonal / gt.cast(gt.where(is_zero, 1, size), off_diagonal.dtype)


def rotate_columns(x: Any, cosine: Any, sine: Any, partner: Any) -> Any:
    return x * cosine[..., None, :] + x[..., partner] * sine[..., None, :]


def identity_like(x: Any, n: Any) -> Any:
    """Return an identity matrix of n rows for each of the matrices x."""
    return gt.zeros_like(gt.sum(x, (-1, -2)))[..., None, None] + gt.eye(n, dtype=x.dtype)


def repeat_rounds(step: Any, starts: Any, n: Any) -> Any:
    """Repeat a step until it ends the loop, at most ``SWEEPS`` times for each pair."""
    if isinstance(n, int) and n < 2:
        return starts
    round_numbers = gt.arange(SWEEPS * (n + 1))
    carries = scan(step, round_numbers, starts, return_list=True)
    return [y[-1] for y in carries]


def diagonalize(x: Any) -> tuple[Any, Any]:
    """Return the eigenvalues of Hermitian matrices, unsorted, and the eigenvectors."""
    n = lengths(x)[-1]
    k = gt.arange(n)
    diagonal = gt.equal(k[:, None], k)
    limit = 1e-32 * gt.sum(gt.square(gt.abs(x)), (-1, -2))

    def step(round_: Any, a: Any, v: Any) -> Any:
        partner = partners(k, n, round_)
        eigenvalues = gt.real(gt.diagonal(a, 0, -2, -1))
        cosine, sine = rotation(eigenvalues, a[..., partner, k], partner, k)
        a, v = (rotate_columns(y, cosine, sine, partner) for y in (a, v))
        a = adjoint(rotate_columns(adjoint(a), cosine, sine, partner))
        rest = gt.sum(gt.where(diagonal, 0, gt.square(gt.abs(a))), (-1, -2))
        return [a, v], until(gt.all(rest <= limit))

    a, v = repeat_rounds(step, [x, identity_like(x, n)], n)
    return gt.real(gt.diagonal(a, 0, -2, -1)), v


def hermitian(x: Any) -> Any:
    """Return the Hermitian matrices with these lower triangles."""
    return Tensor.make(Mirror(lower=True, conjugated=True), x)


@onnx.lower(Eigh)
@by_graph
def eigh(op: Eigh, x: Any) -> Any:
    w, v = diagonalize(in_float64(hermitian(x)))
    order = gt.argsort(w, -1)
    v = gt.take_along_axis(v, order[..., None, :], -1)
    real = gt.real(x).dtype
    return gt.cast(gt.take_along_axis(w, order, -1), real), gt.cast(v, x.dtype)


@onnx.lower(Eigvalsh)
@by_graph
def eigvalsh(op: Eigvalsh, x: Any) -> Any:
    w, _ = diagonalize(in_float64(hermitian(x)))
    return gt.cast(gt.sort(w, -1), gt.real(x).dtype)


def orthogonalize(x: Any) -> tuple[Any, Any, Any]:
    """Return ``x V`` with orthogonal columns, their norms in descending order, and V."""
    n = lengths(x)[-1]
    k = gt.arange(n)
    limit = 1e-32 * gt.square(gt.sum(gt.square(gt.abs(x)), (-1, -2)))

    def step(round_: Any, a: Any, v: Any) -> Any:
        partner = partners(k, n, round_)
        squares = gt.sum(gt.square(gt.abs(a)), -2)
        products_of_pairs = gt.sum(gt.conj(a[..., partner]) * a, -2)
        cosine, sine = rotation(squares, products_of_pairs, partner, k)
        a, v = (rotate_columns(y, cosine, sine, partner) for y in (a, v))
        products = gt.matmul(adjoint(a), a)
        rest = gt.where(gt.equal(k[:, None], k), 0, gt.square(gt.abs(products)))
        return [a, v], until(gt.all(gt.sum(rest, (-1, -2)) <= limit))

    a, v = repeat_rounds(step, [x, identity_like(x, n)], n)
    s = gt.sqrt(gt.sum(gt.square(gt.abs(a)), -2))
    order = gt.argsort(-s, -1)
    a, v = (gt.take_along_axis(y, order[..., None, :], -1) for y in (a, v))
    return a, gt.take_along_axis(s, order, -1), v


@onnx.lower(SVD)
@by_graph
def svd(op: SVD, x: Any) -> Any:
    """Complete columns of norm 0, and a full basis, by Householder reflections."""
    m, n = lengths(x)[-2:]
    least = minimum_length(m, n)
    a, s, v = orthogonalize(in_float64(x))
    q, r = triangularize(a)
    size = gt.diagonal(r, 0, -2, -1)
    phase = gt.where(gt.equal(size, 0), 1, gt.sign(size))
    u = q[..., :least] * phase[..., None, :]
    if op.full:
        u = gt.concatenate([u, q[..., least:]], -1)
    else:
        v = v[..., :least]
    results = u, s[..., :least], adjoint(v)
    real = gt.real(x).dtype
    return tuple(gt.cast(y, t) for y, t in zip(results, (x.dtype, real, x.dtype), strict=True))


@onnx.lower(Svdvals)
@by_graph
def svdvals(op: Svdvals, x: Any) -> Any:
    least = minimum_length(*lengths(x)[-2:])
    _, s, _ = orthogonalize(in_float64(x))
    return gt.cast(s[..., :least], gt.real(x).dtype)
