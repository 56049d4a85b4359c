"""Products, factorizations, eigenvalues and linear systems in ``jax.lax.linalg``."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.ir import Node, Op, TensorType
from graphc.link.jax.backend import backend
from graphc.link.jax.devices import CPU_ONLY
from graphc.link.jax.symbolic import refuse
from graphc.tensor.linalg.cholesky import Cholesky, CholeskyInverse
from graphc.tensor.linalg.dot import DotGeneral
from graphc.tensor.linalg.eigen import Eig, Eigh, Eigvals, Eigvalsh
from graphc.tensor.linalg.equations import Sylvester
from graphc.tensor.linalg.expm import LIMIT, PADE, Expm
from graphc.tensor.linalg.lu import LU, PivotsToPermutation
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.qr import QR, ComplexQR, Orthogonal, PivotedQR
from graphc.tensor.linalg.schur import Schur
from graphc.tensor.linalg.svd import SVD, Svdvals
from graphc.tensor.linalg.triangular import SolveTriangular
from graphc.tensor.linalg.tridiagonal import SolveTridiagonal


@backend.lower(DotGeneral)
def dot_general(op: DotGeneral, a: Any, b: Any) -> Any:
    """Contract two arrays; for bools, count the true products in int32."""
    logical = a.dtype.kind == "b"
    if logical:
        a, b = (lax.convert_element_type(x, np.int32) for x in (a, b))
    y = lax.dot_general(a, b, (op.contract, op.batch_axes), preferred_element_type=a.dtype)
    return lax.ne(y, np.int32(0)) if logical else y


@backend.lower(Cholesky)
def cholesky(op: Cholesky, x: Any) -> Any:
    """Factorise a matrix; one that is not positive definite gives NaN in both triangles."""
    y = lax.linalg.cholesky(x, symmetrize_input=False)
    has_failed = jnp.isnan(jnp.diagonal(y, axis1=-2, axis2=-1)).any(-1)
    return jnp.where(has_failed[..., None, None], jnp.asarray(jnp.nan, y.dtype), y)


MAX_DIRECT_ROWS = 128
"""Smaller matrices are not split into blocks: the split would take longer than it saves."""


@backend.lower(CholeskyInverse)
def cholesky_inverse(op: CholeskyInverse, x: Any) -> Any:
    """Invert the triangle, and multiply it by its adjoint."""
    return _product(_inverse(x))


def _inverse(x: Any) -> Any:
    """Invert lower triangular matrices without computing the zeros."""
    n = x.shape[-1]
    if is_symbolic_dim(n) or n <= MAX_DIRECT_ROWS:
        identity = jnp.broadcast_to(jnp.eye(n, dtype=x.dtype), x.shape)
        return lax.linalg.triangular_solve(x, identity, left_side=True, lower=True)
    first, off_diagonal, last = _blocks(x)
    a, b = _inverse(first), _inverse(last)
    return _block_matrix(
        a, jnp.zeros_like(jnp.swapaxes(off_diagonal, -1, -2)), -(b @ (off_diagonal @ a)), b
    )


def _product(x: Any) -> Any:
    """Return ``x^H @ x`` of lower triangular matrices; of the off-diagonal blocks compute one."""
    n = x.shape[-1]
    if is_symbolic_dim(n) or n <= MAX_DIRECT_ROWS:
        return _adjoint(x) @ x
    first, off_diagonal, last = _blocks(x)
    lower_left = _adjoint(last) @ off_diagonal
    return _block_matrix(
        _product(first) + _adjoint(off_diagonal) @ off_diagonal,
        _adjoint(lower_left),
        lower_left,
        _product(last),
    )


def _blocks(x: Any) -> tuple[Any, Any, Any]:
    h = x.shape[-1] // 2
    return x[..., :h, :h], x[..., h:, :h], x[..., h:, h:]


def _block_matrix(a: Any, b: Any, c: Any, d: Any) -> Any:
    rows = jnp.concatenate([a, b], -1), jnp.concatenate([c, d], -1)
    return jnp.concatenate(rows, -2)


def _adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


@backend.lower(LU)
def lu(op: LU, a: Any) -> Any:
    return tuple(lax.linalg.lu(a))


@backend.lower(PivotsToPermutation)
def pivots_to_permutation(op: PivotsToPermutation, exchanges: Any) -> Any:
    return lax.linalg.lu_pivots_to_permutation(exchanges, exchanges.shape[-1])


@backend.lower(QR, ComplexQR)
def qr(op: Orthogonal, x: Any) -> Any:
    refuse(op.name, *x.shape[-2:])
    return tuple(lax.linalg.qr(x, full_matrices=op.full))


@backend.lower(PivotedQR)
def pivoted_qr(op: PivotedQR, x: Any) -> Any:
    """Factorise by LAPACK; the pivots count from 0."""
    refuse(op.name, *x.shape[-2:])
    q, r, p = lax.linalg.qr(x, pivoting=True, full_matrices=op.full)
    return q, r, lax.convert_element_type(p, np.int32)


def are_finite(x: Any) -> Any:
    """Return which matrices are finite; for others JAX gives NaN in some results only."""
    return jnp.all(jnp.isfinite(x), axis=(-2, -1))


def nan_unless(finite: Any, y: Any) -> Any:
    """Replace the results of matrices that are not finite by NaN."""
    return jnp.where(lax.expand_dims(finite, range(finite.ndim, y.ndim)), y, jnp.nan)


@backend.lower(SVD)
def svd(op: SVD, x: Any) -> Any:
    """Decompose a matrix; NaN for a matrix that is not finite."""
    finite = are_finite(x)
    return tuple(nan_unless(finite, y) for y in lax.linalg.svd(x, full_matrices=op.full))


@backend.lower(Svdvals)
def svdvals(op: Svdvals, x: Any) -> Any:
    return nan_unless(are_finite(x), lax.linalg.svd(x, compute_uv=False))


@backend.lower(Eigh)
def eigh(op: Eigh, x: Any) -> Any:
    """Decompose Hermitian matrices, given their lower triangles."""
    v, w = lax.linalg.eigh(x, symmetrize_input=False)
    finite = are_finite(jnp.tril(x))
    return nan_unless(finite, w), nan_unless(finite, v)


@backend.lower(Eigvalsh)
def eigvalsh(op: Eigvalsh, x: Any) -> Any:
    """Return the eigenvalues of Hermitian matrices, given their lower triangles."""
    w = jnp.linalg.eigvalsh(x, UPLO="L", symmetrize_input=False)
    return nan_unless(are_finite(jnp.tril(x)), w)


@backend.lower(Eig)
def eig(op: Eig, x: Any) -> Any:
    """Decompose by LAPACK; NaN for a matrix that is not finite."""
    return tuple(lax.linalg.eig(x, compute_left_eigenvectors=False))


@backend.lower(Eigvals)
def eigvals(op: Eigvals, x: Any) -> Any:
    (w,) = lax.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return w


def call_reference(op: Op, *xs: Any) -> Any:
    """Call the operation's NumPy reference, for devices on which JAX lacks the operation."""
    node = Node.make(op, *[TensorType(x.dtype, x.shape)() for x in xs])
    return backend.callback(node)(*xs)


CPU_ONLY |= {Schur, Sylvester}


@backend.lower(Schur)
def schur(op: Schur, x: Any) -> Any:
    """Decompose by LAPACK; real matrices have the real form."""
    return lax.platform_dependent(
        x,
        cpu=lambda x: tuple(lax.linalg.schur(x)),
        default=lambda x: tuple(call_reference(op, x)),
    )


@backend.lower(Sylvester)
def sylvester(op: Sylvester, a: Any, b: Any, q: Any) -> Any:
    """Solve by Schur decompositions of a and b, one equation at a time."""
    if not q.size:
        return jnp.zeros_like(q)
    solve = jax.scipy.linalg.solve_sylvester
    for _ in range(q.ndim - 2):
        solve = jax.vmap(solve)
    return lax.platform_dependent(a, b, q, cpu=solve, default=partial(call_reference, op))


@backend.lower(Expm)
def expm(op: Expm, a: Any) -> Any:
    """Scale and square each matrix as often as its norm needs."""
    if not a.size:
        return a
    norms = jnp.abs(a).sum(-2).max(-1)
    is_finite = jnp.isfinite(norms)
    norms = jnp.where(is_finite, norms, 0)
    _, exponents = jnp.frexp(norms / LIMIT)
    squarings = jnp.maximum(exponents, 0).astype(np.int32)[..., None, None]
    scale = jnp.ldexp(jnp.ones_like(norms), -squarings[..., 0, 0])[..., None, None]
    y = pade_approximant(jnp.where(is_finite[..., None, None], a, 0) * scale.astype(a.dtype))

    def square(i: Any, y: Any) -> Any:
        return jnp.where(i < squarings, _matmul(y, y), y)

    y = lax.fori_loop(0, squarings.max(), square, y)
    return jnp.where(is_finite[..., None, None], y, jnp.asarray(jnp.nan, y.dtype))


def _matmul(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def pade_approximant(a: Any) -> Any:
    """Return the Padé approximant of exp for matrices of norm up to ``LIMIT``."""
    b = PADE
    one = jnp.eye(a.shape[-1], dtype=a.dtype)
    a2 = _matmul(a, a)
    a4 = _matmul(a2, a2)
    a6 = _matmul(a2, a4)
    odd = _matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = _matmul(a, odd + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = _matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    even = even + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    factors, _, order = lax.linalg.lu(even - odd)
    right = jnp.take_along_axis(even + odd, order[..., None], -2)
    inner = lax.linalg.triangular_solve(
        factors, right, left_side=True, lower=True, unit_diagonal=True
    )
    return lax.linalg.triangular_solve(factors, inner, left_side=True, lower=False)


@backend.lower(SolveTriangular)
def solve_triangular(op: SolveTriangular, a: Any, b: Any) -> Any:
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=op.lower,
        transpose_a=op.transposed,
        unit_diagonal=op.unit_diagonal,
    )


@backend.lower(SolveTridiagonal)
def solve_tridiagonal(op: SolveTridiagonal, low: Any, d: Any, up: Any, b: Any) -> Any:
    """Solve by LAPACK with partial pivoting."""
    if not b.size:
        return b
    return lax.linalg.tridiagonal_solve(low, d, up, b)


@backend.lower(Mirror)
def mirror(op: Mirror, x: Any) -> Any:
    """Copy the triangle that is read to the other triangle."""
    axes = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    opposite = lax.transpose(x, axes)
    row, column = (lax.broadcasted_iota(np.int32, x.shape, x.ndim - k) for k in (2, 1))
    is_read = lax.gt(row, column) if op.lower else lax.lt(row, column)
    diagonal = x
    if op.conjugated and x.dtype.kind == "c":
        opposite = lax.conj(opposite)
        diagonal = lax.convert_element_type(lax.real(x), x.dtype)
    return lax.select(is_read, x, lax.select(lax.eq(row, column), diagonal, opposite))
