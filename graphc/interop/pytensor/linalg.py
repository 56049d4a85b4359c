"""Linear algebra: products, factorisations, systems; and ``Blockwise``, which batches them."""

from __future__ import annotations

import re
from typing import Any

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, length
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.ir import Constant
from graphc.tensor import linalg
from graphc.tensor.core.tensor import Tensor, constant

BATCHED = frozenset(
    [
        *("Cholesky", "QR", "LU", "LUFactor", "SVD", "Eig", "Eigh", "Eigvalsh", "Schur", "QZ"),
        *("MatrixInverse", "MatrixPinv", "Det", "SLogDet", "Expm", "BlockDiagonal"),
        *("Solve", "SolveTriangular", "CholeskySolve", "SolveLUFactorTridiagonal"),
        *("SolveSylvester", "SolveDiscreteARE"),
    ]
)
"""Operations on matrices whose converters take batches of them as they are."""

LENGTHS = {
    "Alloc": slice(1, None),
    "AllocEmpty": slice(None),
    "Eye": slice(2),
    "Reshape": slice(1, 2),
}
"""The operands that are lengths. They are equal in the whole batch, or its results had no shape."""


def blockwise(at: Application, *xs: Tensor) -> Any:
    """An operation on the last axes of arrays, whose other axes broadcast."""
    core = at.of(at.op.core_op)
    convert, name = at.conversion.converter(core.op), type(core.op).__name__
    if name in BATCHED:
        return convert(core, *xs)
    if name == "ARange":
        return _aranges(core, *xs)
    operands, _, results = at.op.signature.partition("->")
    cores = re.findall(r"\((.*?)\)", operands)
    # A constant that is the same for all is one of the core's, such as an axis.
    parts = [_unbatched(x, axes) for x, axes in zip(xs, cores, strict=True)]
    for i in range(len(xs))[LENGTHS.get(name, slice(0))]:
        parts[i] = xs[i].ravel()[0] if cores[i] == "" else xs[i][(0,) * (xs[i].ndim - 1)]
    varying = [i for i, x in enumerate(parts) if x is None]

    def function(*given: Tensor) -> Any:
        each = dict(zip(varying, given, strict=True))
        return _listed(convert(core, *[each.get(i, x) for i, x in enumerate(parts)]), results)

    signature = ",".join(f"({cores[i]})" for i in varying) + "->" + results
    return gt.vectorize(function, signature)(*[xs[i] for i in varying])


def _aranges(at: Application, start: Tensor, stop: Tensor, step: Tensor) -> Tensor:
    """Ranges of one length, that of the first."""
    begin, end, by = (in_dtype(x.ravel()[0], at.dtype) for x in (start, stop, step))
    n = gt.arange(begin, end, by, dtype=at.dtype).shape[0]
    starts, steps = (gt.expand_dims(in_dtype(x, at.dtype), -1) for x in (start, step))
    # The other ends say nothing more; the result broadcasts with them.
    y = starts + steps * gt.arange(n, dtype=at.dtype)
    return gt.broadcast_arrays(y, gt.expand_dims(stop, -1))[0]


def _unbatched(x: Tensor, axes: str) -> Tensor | None:
    """A constant without its batch axes; None where it is none, or another in each place."""
    if not isinstance(x.op, Constant):
        return None
    rank = len([n for n in axes.split(",") if n])
    value = x.op.value
    if any(n != 1 for n in value.shape[: value.ndim - rank]):
        return None
    return constant(value.reshape(value.shape[value.ndim - rank :]), bake=True)


def _listed(found: Any, results: str) -> Any:
    """One array by itself, and several as a tuple."""
    several = tuple(found) if isinstance(found, list | tuple) else (found,)
    return several if results.count("(") > 1 else several[0]


# Products.


def dot(at: Application, a: Tensor, b: Tensor) -> Tensor:
    return gt.dot(in_dtype(a, at.dtype), in_dtype(b, at.dtype))


def batched_dot(at: Application, a: Tensor, b: Tensor) -> Tensor:
    return gt.batched_dot(in_dtype(a, at.dtype), in_dtype(b, at.dtype))


def gemm(at: Application, z: Tensor, a: Tensor, x: Tensor, y: Tensor, b: Tensor) -> Tensor:
    """``b * z + a * x @ y``, of matrices, or of a matrix and vectors (``Gemv``)."""
    return b * z + a * gt.dot(x, y)


def ger(at: Application, z: Tensor, a: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return z + a * gt.outer(x, y)


def dot_scaled(at: Application, x: Tensor, y: Tensor, a: Tensor) -> Tensor:
    return a * gt.dot(x, y)


def kron(at: Application, a: Tensor, b: Tensor) -> Tensor:
    return linalg.kron(a, b)


def block_diagonal(at: Application, *xs: Tensor) -> Tensor:
    return linalg.block_diag(*xs)


# Factorisations. In PyTensor as in graphc, a factorisation that fails gives NaN.


def cholesky(at: Application, x: Tensor) -> Tensor:
    return linalg.cholesky(x, lower=at.op.lower)


def qr(at: Application, x: Tensor) -> Any:
    return linalg.qr(x, mode=at.op.mode, pivoting=at.op.pivoting)


def lu(at: Application, x: Tensor) -> Any:
    return linalg.lu(x, permute_l=at.op.permute_l, p_indices=at.op.p_indices)


def lu_factor(at: Application, x: Tensor) -> Any:
    return linalg.lu_factor(x)


def pivot_to_permutation(at: Application, pivots: Tensor) -> Tensor:
    return linalg.pivot_to_permutation(pivots, inverse=at.op.inverse)


def svd(at: Application, x: Tensor) -> Any:
    return linalg.svd(x, full_matrices=at.op.full_matrices, compute_uv=at.op.compute_uv)


def eig(at: Application, x: Tensor) -> Any:
    return linalg.eig(x)


def _lower(op: Any) -> bool:
    return bool(op.UPLO == "L") if hasattr(op, "UPLO") else bool(op.lower)


def eigh(at: Application, x: Tensor, b: Any = None) -> Any:
    """Eigenvalues and eigenvectors, whose signs are those of LAPACK where a backend uses it."""
    return linalg.eigh(x, b, lower=_lower(at.op))


def eigvalsh(at: Application, x: Tensor, b: Any = None) -> Tensor:
    return linalg.eigvalsh(x, b, lower=_lower(at.op))


def schur(at: Application, x: Tensor) -> Any:
    return linalg.schur(x, output=at.op.output, sort=at.op.sort)


def qz(at: Application, a: Tensor, b: Tensor) -> Any:
    return linalg.qz(
        a,
        b,
        output="complex" if at.op.complex_output else "real",
        sort=at.op.sort,
        return_eigenvalues=at.op.return_eigenvalues,
    )


# Inverses, determinants, systems.


def matrix_inverse(at: Application, x: Tensor) -> Tensor:
    return linalg.inv(x)


def pinv(at: Application, x: Tensor) -> Tensor:
    return linalg.pinv(x, hermitian=at.op.hermitian)


def tensorinv(at: Application, x: Tensor) -> Tensor:
    return linalg.tensorinv(x, at.op.ind)


def tensorsolve(at: Application, a: Tensor, b: Tensor) -> Tensor:
    return linalg.tensorsolve(a, b, at.op.axes)


def lstsq(at: Application, a: Tensor, b: Tensor, rcond: Tensor) -> Any:
    return linalg.lstsq(a, b, rcond)


def det(at: Application, x: Tensor) -> Tensor:
    return linalg.det(x)


def slogdet(at: Application, x: Tensor) -> Any:
    return tuple(linalg.slogdet(x))


def expm(at: Application, x: Tensor) -> Tensor:
    return linalg.expm(x)


def solve(at: Application, a: Tensor, b: Tensor) -> Tensor:
    op = at.op
    assumed = "gen" if op.assume_a == "banded" else op.assume_a
    return linalg.solve(a, b, assume_a=assumed, lower=op.lower, b_ndim=op.b_ndim)


def solve_triangular(at: Application, a: Tensor, b: Tensor) -> Tensor:
    op = at.op
    return linalg.solve_triangular(
        a, b, lower=op.lower, unit_diagonal=op.unit_diagonal, b_ndim=op.b_ndim
    )


def cholesky_solve(at: Application, c: Tensor, b: Tensor) -> Tensor:
    return linalg.cho_solve((c, at.op.lower), b, b_ndim=at.op.b_ndim)


def tridiagonal_lu_factor(at: Application, low: Tensor, middle: Tensor, high: Tensor) -> Any:
    matrix = gt.alloc_diag(low, -1) + gt.alloc_diag(middle) + gt.alloc_diag(high, 1)
    return linalg.tridiagonal_lu_factor(matrix)


def tridiagonal_lu_solve(at: Application, *given: Tensor) -> Tensor:
    *factors, b = given
    return linalg.tridiagonal_lu_solve(factors, b, b_ndim=at.op.b_ndim, transposed=at.op.transposed)


def solve_sylvester(at: Application, a: Tensor, b: Tensor, q: Tensor) -> Tensor:
    return linalg.solve_sylvester(a, b, q)


def solve_triangular_sylvester(at: Application, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The equation for triangular matrices, solved as that for any matrices."""
    return linalg.solve_sylvester(a, b, c)


def solve_discrete_are(at: Application, *xs: Tensor) -> Tensor:
    return linalg.solve_discrete_are(*xs)


def eigh_gradient(
    at: Application, x: Tensor, w: Tensor, v: Tensor, gw: Tensor, gv: Tensor
) -> Tensor:
    """The gradient of ``eigh`` with respect to the triangle that it reads."""
    n = length(w.shape[0])
    apart = gt.expand_dims(w, 0) - gt.expand_dims(w, 1)
    same = gt.eye(n, dtype="bool")
    shares = gt.where(same, 0, gt.dot(v.T, gv) / gt.where(same, 1, apart))
    return _to_triangle(at.op.UPLO, v @ (gt.where(same, gt.diag(gw), 0) + shares) @ v.T)


def _to_triangle(uplo: str, g: Tensor) -> Tensor:
    if uplo == "L":
        return gt.tril(g) + gt.triu(g, 1).T
    return gt.triu(g) + gt.tril(g, -1).T


def eigvalsh_gradient(at: Application, a: Tensor, b: Tensor, g: Tensor) -> list[Tensor]:
    """The gradients of generalized eigenvalues with respect to the triangles that are read."""
    w, v = linalg.eigh(a, b, lower=at.op.lower)
    uplo = "L" if at.op.lower else "U"
    return [_to_triangle(uplo, v * s @ v.T) for s in (g, -g * w)]
