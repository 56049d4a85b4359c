"""Factorisations and triangular systems, which ONNX lacks: loops over rows or columns.

All take batches of matrices. A step writes a row or column by ``where`` on its index.
"""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.ir import is_complex
from graphc.loop import scan
from graphc.tensor.core.shape import lengths
from graphc.tensor.linalg.cholesky import Cholesky, CholeskyInverse
from graphc.tensor.linalg.lu import LU, PivotsToPermutation
from graphc.tensor.linalg.qr import Orthogonal
from graphc.tensor.linalg.triangular import SolveTriangular
from graphc.tensor.linalg.tridiagonal import SolveTridiagonal


def adjoint(x: Any) -> Any:
    return gt.conj(gt.swapaxes(x, -1, -2))


def column(x: Any, j: Any) -> Any:
    return gt.take(x, j, -1)


def row(x: Any, j: Any) -> Any:
    return gt.take(x, j, -2)


def minimum_length(n: Any, m: Any) -> Any:
    return min(n, m) if isinstance(n, int) and isinstance(m, int) else gt.minimum(n, m)


def iterate(step: Any, starts: Any, count: Any) -> Any:
    """Return the carries after ``count`` steps; a step takes its number and the carries."""
    if isinstance(count, int) and not count:
        return starts
    carries = scan(step, gt.arange(count), starts, return_list=True)
    return [y[-1] for y in carries]


@onnx.lower(Cholesky)
@by_graph
def cholesky(op: Cholesky, x: Any) -> Any:
    """Compute column by column, each from the columns before it."""
    i = gt.arange(lengths(x)[-1])

    def step(j: Any, y: Any) -> Any:
        computed = gt.matmul(y, gt.conj(row(y, j))[..., None])[..., 0]
        new = column(x, j) - computed
        square = gt.real(gt.take(new, j, -1))
        root = gt.where(square > 0, gt.sqrt(square), gt.nan)[..., None]
        new = gt.where(gt.equal(i, j), gt.cast(root, x.dtype), new / root)
        return gt.where(gt.equal(i, j), gt.where(i >= j, new, 0)[..., :, None], y)

    (y,) = iterate(step, [gt.zeros_like(x)], lengths(x)[-1])
    fails = gt.any(gt.isnan(gt.real(gt.diagonal(y, 0, -2, -1))), -1)
    return gt.where(fails[..., None, None], gt.nan, y)


@onnx.lower(SolveTriangular)
@by_graph
def solve_triangular(op: SolveTriangular, a: Any, b: Any) -> Any:
    a = gt.swapaxes(a, -1, -2) if op.transposed else a
    lower = op.lower != op.transposed
    return _substitute(a, b, lengths(b)[-2], lower=lower, unit=op.unit_diagonal)


def _substitute(a: Any, b: Any, n: Any, *, lower: bool, unit: bool = False) -> Any:
    i = gt.arange(n)

    def step(t: Any, x: Any) -> Any:
        j = t if lower else n - 1 - t
        coefficients = row(a, j)
        factors = gt.where(i < j if lower else i > j, coefficients, 0)
        new = row(b, j) - gt.matmul(factors[..., None, :], x)[..., 0, :]
        new = new if unit else new / gt.take(coefficients, j, -1)[..., None]
        return gt.where(gt.equal(i, j)[:, None], new[..., None, :], x)

    return iterate(step, [gt.zeros_like(b)], n)[0]


@onnx.lower(CholeskyInverse)
@by_graph
def cholesky_inverse(op: CholeskyInverse, x: Any) -> Any:
    """Return the inverse of ``L L^H`` as ``inv(L)^H inv(L)``."""
    n = lengths(x)[-1]
    i = gt.arange(n)
    diagonal = gt.equal(i[:, None], i)
    factor = gt.where(diagonal, gt.cast(gt.real(x), x.dtype), gt.tril(x))
    identity = gt.zeros_like(x) + gt.eye(n, dtype=x.dtype)
    inverse = _substitute(factor, identity, n, lower=True)
    y = gt.matmul(adjoint(inverse), inverse)
    singular = gt.any(gt.equal(gt.diagonal(factor, 0, -2, -1), 0), -1)
    return gt.where(singular[..., None, None], gt.nan, y)


def swap_indices(i: Any, j: Any, other: Any) -> Any:
    """Return the indices i after a swap of j with another index."""
    other = other[..., None]
    return gt.where(gt.equal(i, j), other, gt.where(gt.equal(i, other), j, i))


@onnx.lower(LU)
@by_graph
def lu(op: LU, a: Any) -> Any:
    """Eliminate column by column, with the largest element as pivot."""
    n, m = lengths(a)[-2:]
    i, columns, pivots = gt.arange(n), gt.arange(m), gt.arange(minimum_length(n, m))

    def step(j: Any, y: Any, order: Any, rows: Any) -> Any:
        current = column(y, j)
        pivot_row = gt.argmax(gt.where(i >= j, size_of(current), -1), -1)
        swapped = swap_indices(i, j, pivot_row)
        y = gt.take_along_axis(y, swapped[..., None], -2)
        current, pivot = column(y, j), gt.take(column(y, j), j, -1)
        factors = current / gt.where(gt.equal(pivot, 0), 1, pivot)[..., None]
        rest = gt.where(columns > j, row(y, j), 0)
        below = (i > j)[:, None]
        new = y - gt.where(below, factors[..., None], 0) * rest[..., None, :]
        y = gt.where(below & gt.equal(columns, j), factors[..., None], new)
        rows = gt.where(gt.equal(pivots, j), pivot_row[..., None], rows)
        return [y, gt.take_along_axis(order, swapped, -1), rows]

    zeros = gt.zeros_like(gt.sum(a, (-1, -2)), "int64")[..., None]
    packed, order, rows = iterate(step, [a, zeros + i, zeros + 0 * pivots], minimum_length(n, m))
    return packed, gt.cast(rows, "int32"), gt.cast(order, "int32")


@onnx.lower(PivotsToPermutation)
@by_graph
def pivots_to_permutation(op: PivotsToPermutation, exchanges: Any) -> Any:
    i = gt.arange(lengths(exchanges)[-1])
    start = gt.zeros_like(gt.sum(exchanges, -1), "int64")[..., None] + i

    def step(j: Any, other: Any, order: Any) -> Any:
        return gt.take_along_axis(order, swap_indices(i, j, gt.cast(other, "int64")), -1)

    others = gt.moveaxis(exchanges, -1, 0)
    order = scan(step, [i, others], start)[-1]
    return gt.cast(order, "int32")


@onnx.lower(SolveTridiagonal)
@by_graph
def solve_tridiagonal(op: SolveTridiagonal, low: Any, d: Any, up: Any, b: Any) -> Any:
    """Eliminate downwards with row exchanges, then substitute upwards."""
    n = lengths(d)[-1]
    low, d, up = (gt.moveaxis(x, -1, 0)[..., None] for x in (low, d, up))
    b = gt.moveaxis(b, -2, 0)
    last = gt.equal(gt.arange(n), n - 1)[(slice(None), *[None] * (d.ndim - 1))]
    up = gt.where(last, 0, up)
    zeros = gt.zeros_like(gt.sum(d, 0))
    first = [_first_row_or_zeros(x) for x in (d, up, b)]

    # A row has elements in three columns: the diagonal and the two after it.
    def down(below: Any, own: Any, after: Any, right: Any, *row: Any) -> Any:
        p = row[0]
        exchange = size_of(below) > size_of(p)
        factor = gt.where(exchange, p, below) / gt.where(exchange, below, p)
        pairs = list(zip((below, own, after, right), row, strict=True))
        pivot = [gt.where(exchange, x, z) for x, z in pairs]
        rest = [gt.where(exchange, z, x) for x, z in pairs[1:]]
        eliminated = [x - factor * z for x, z in zip(rest, pivot[1:], strict=True)]
        return [eliminated[0], eliminated[1], zeros, eliminated[2], *pivot]

    starts = [first[0], first[1], zeros, first[2]]
    sequences = [low[1:], d[1:], up[1:], b[1:]]
    stacked = scan(down, sequences, [*starts, *[None] * 4], return_list=True)
    ends = [gt.concatenate([x[None], y])[-1] for x, y in zip(starts, stacked[:4], strict=True)]
    rows = [gt.concatenate([x, y[None]]) for x, y in zip(stacked[4:], ends, strict=True)]

    def upwards(p: Any, q: Any, r: Any, y: Any, after: Any, second: Any) -> Any:
        x = (y - q * after - r * second) / p
        return [x, after]

    zero = gt.zeros_like(first[2])
    x = scan(upwards, [y[::-1] for y in rows], [zero, zero], return_list=True)[0][::-1]
    singular = gt.any(gt.equal(rows[0], 0), 0)
    return gt.moveaxis(gt.where(singular, gt.nan, x[:n]), 0, -2)


def _first_row_or_zeros(rows: Any) -> Any:
    return gt.cast(gt.sum(rows[:1], 0), rows.dtype)


def size_of(x: Any) -> Any:
    """Return ``|re| + |im|``, by which LAPACK chooses pivots."""
    return gt.abs(gt.real(x)) + gt.abs(gt.imag(x)) if is_complex(x.dtype) else gt.abs(x)


@onnx.lower(Orthogonal)
@by_graph
def qr(op: Orthogonal, x: Any) -> Any:
    m, n = lengths(x)[-2:]
    q, r = triangularize(x)
    if op.full:
        return q, gt.triu(r)
    k = minimum_length(m, n)
    return q[..., :, :k], gt.triu(r[..., :k, :])


def triangularize(x: Any) -> Any:
    """Return the product Q of Householder reflections, and ``Q^H x``."""
    m, n = lengths(x)[-2:]
    i = gt.arange(m)
    unit = gt.zeros_like(gt.matmul(x, adjoint(x))) + gt.eye(m, dtype=x.dtype)

    def step(j: Any, y: Any, q: Any) -> Any:
        v, scale = _reflection(column(y, j), i, j)
        along = gt.matmul(adjoint(v[..., None]), y)
        y = y - gt.conj(scale)[..., None, None] * v[..., None] * along
        across = gt.matmul(q, v[..., None])
        return y, q - scale[..., None, None] * across * adjoint(v[..., None])

    y, q = iterate(step, [x, unit], minimum_length(m, n))
    return q, y


def _reflection(x: Any, i: Any, j: Any) -> Any:
    """Return v and t so that ``1 - t v v^H`` maps a column to a real multiple of unit vector j."""
    below = gt.where(i > j, x, 0)
    first = gt.take(x, j, -1)
    rest = gt.sum(gt.square(gt.abs(below)), -1)
    norm = gt.sqrt(gt.square(gt.abs(first)) + rest)
    beta = gt.where(gt.signbit(gt.real(first)), norm, -norm)
    is_reduced = gt.equal(rest, 0) & gt.equal(gt.imag(first), 0)
    beta = gt.cast(beta, x.dtype)
    divisor = gt.where(is_reduced, 1, first - beta)
    scale = gt.where(is_reduced, 0, (beta - first) / gt.where(is_reduced, 1, beta))
    v = gt.where(gt.equal(i, j), 1, below / divisor[..., None])
    return v, scale
