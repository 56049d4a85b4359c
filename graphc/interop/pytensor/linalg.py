"""Linear algebra: products, factorisations, systems; and ``Blockwise``, which batches them."""

from __future__ import annotations

import re
from typing import Any

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, length
from graphc.interop.pytensor.elementwise import Converter, in_dtype, in_result, without_casts
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
"""Operations on matrices whose converters take batches."""

LENGTHS = {
    "Alloc": slice(1, None),
    "AllocEmpty": slice(None),
    "Eye": slice(2),
    "Reshape": slice(1, 2),
}
"""The operands that are lengths, which are equal in the whole batch."""


def blockwise(at: Application, *xs: Tensor) -> Any:
    """Apply an operation to the last axes of arrays; the other axes broadcast."""
    core = at.of(at.op.core_op)
    convert, name = at.conversion.converter(core.op), type(core.op).__name__
    if name in BATCHED:
        return convert(core, *xs)
    if name == "ARange":
        return _aranges(core, *xs)
    inputs, _, results = at.op.signature.partition("->")
    cores = re.findall(r"\((.*?)\)", inputs)
    # A constant without batch axes is an operand of the core operation, such as an axis.
    operands = [_core_constant(x, axes) for x, axes in zip(xs, cores, strict=True)]
    for i in range(len(xs))[LENGTHS.get(name, slice(0))]:
        operands[i] = xs[i].ravel()[0] if cores[i] == "" else xs[i][(0,) * (xs[i].ndim - 1)]
    varying = [i for i, x in enumerate(operands) if x is None]

    def function(*rows: Tensor) -> Any:
        by_index = dict(zip(varying, rows, strict=True))
        return _one_or_tuple(
            convert(core, *[by_index.get(i, x) for i, x in enumerate(operands)]), results
        )

    signature = ",".join(f"({cores[i]})" for i in varying) + "->" + results
    return gt.vectorize(function, signature)(*[xs[i] for i in varying])


def _aranges(at: Application, start: Tensor, stop: Tensor, step: Tensor) -> Tensor:
    """Return ranges of one length, the length of the first."""
    begin, end, by = (in_dtype(x.ravel()[0], at.dtype) for x in (start, stop, step))
    n = gt.arange(begin, end, by, dtype=at.dtype).shape[0]
    starts, steps = (gt.expand_dims(in_dtype(x, at.dtype), -1) for x in (start, step))
    # The result broadcasts with the other ends, which say nothing more.
    y = starts + steps * gt.arange(n, dtype=at.dtype)
    return gt.broadcast_arrays(y, gt.expand_dims(stop, -1))[0]


def _core_constant(x: Tensor, axes: str) -> Tensor | None:
    """Return a constant without its batch axes; None for a batch, or another array."""
    if not isinstance(x.op, Constant):
        return None
    rank = len([n for n in axes.split(",") if n])
    value = x.op.value
    if any(n != 1 for n in value.shape[: value.ndim - rank]):
        return None
    return constant(value.reshape(value.shape[value.ndim - rank :]), bake=True)


def _one_or_tuple(result: Any, results: str) -> Any:
    ys = tuple(result) if isinstance(result, list | tuple) else (result,)
    return ys if results.count("(") > 1 else ys[0]


def gemm(at: Application, z: Tensor, a: Tensor, x: Tensor, y: Tensor, b: Tensor) -> Tensor:
    """``b * z + a * x @ y``, of matrices, or of a matrix and vectors (``Gemv``)."""
    return b * z + a * gt.dot(x, y)


def _lower(op: Any) -> bool:
    return bool(op.UPLO == "L") if hasattr(op, "UPLO") else bool(op.lower)


def qz(at: Application, a: Tensor, b: Tensor) -> Any:
    return linalg.qz(
        a,
        b,
        output="complex" if at.op.complex_output else "real",
        sort=at.op.sort,
        return_eigenvalues=at.op.return_eigenvalues,
    )


def solve(at: Application, a: Tensor, b: Tensor) -> Tensor:
    op = at.op
    structure = "gen" if op.assume_a == "banded" else op.assume_a
    return linalg.solve(a, b, assume_a=structure, lower=op.lower, b_ndim=op.b_ndim)


def solve_triangular(at: Application, a: Tensor, b: Tensor) -> Tensor:
    op = at.op
    return linalg.solve_triangular(
        a, b, lower=op.lower, unit_diagonal=op.unit_diagonal, b_ndim=op.b_ndim
    )


def tridiagonal_lu_factor(at: Application, low: Tensor, middle: Tensor, high: Tensor) -> Any:
    matrix = gt.alloc_diag(low, -1) + gt.alloc_diag(middle) + gt.alloc_diag(high, 1)
    return linalg.tridiagonal_lu_factor(matrix)


def tridiagonal_lu_solve(at: Application, *operands: Tensor) -> Tensor:
    *factors, b = operands
    return linalg.tridiagonal_lu_solve(factors, b, b_ndim=at.op.b_ndim, transposed=at.op.transposed)


def eigh_gradient(
    at: Application, x: Tensor, w: Tensor, v: Tensor, gw: Tensor, gv: Tensor
) -> Tensor:
    """Return the gradient of ``eigh`` with respect to the triangle that it reads."""
    n = length(w.shape[0])
    gaps = gt.expand_dims(w, 0) - gt.expand_dims(w, 1)
    diagonal = gt.eye(n, dtype="bool")
    shares = gt.where(diagonal, 0, gt.dot(v.T, gv) / gt.where(diagonal, 1, gaps))
    return _to_triangle(at.op.UPLO, v @ (gt.where(diagonal, gt.diag(gw), 0) + shares) @ v.T)


def _to_triangle(uplo: str, g: Tensor) -> Tensor:
    if uplo == "L":
        return gt.tril(g) + gt.triu(g, 1).T
    return gt.triu(g) + gt.tril(g, -1).T


def eigvalsh_gradient(at: Application, a: Tensor, b: Tensor, g: Tensor) -> list[Tensor]:
    """Return the gradients of generalized eigenvalues, for the triangles that are read."""
    w, v = linalg.eigh(a, b, lower=at.op.lower)
    uplo = "L" if at.op.lower else "U"
    return [_to_triangle(uplo, v * s @ v.T) for s in (g, -g * w)]


LINALG: dict[str, Converter] = {
    "Blockwise": blockwise,
    # Products.
    "Dot": in_result(gt.dot),
    "Dot22": in_result(gt.dot),
    "Dot22Scalar": lambda at, x, y, a: a * gt.dot(x, y),
    "Gemm": gemm,
    "Gemv": gemm,
    "CGemv": gemm,
    "Ger": lambda at, z, a, x, y: z + a * gt.outer(x, y),
    "CGer": lambda at, z, a, x, y: z + a * gt.outer(x, y),
    "BatchedDot": in_result(gt.batched_dot),
    "KroneckerProduct": without_casts(linalg.kron),
    "BlockDiagonal": without_casts(linalg.block_diag),
    # Factorisations. A factorisation that fails gives NaN, in PyTensor as in graphc.
    "Cholesky": lambda at, x: linalg.cholesky(x, lower=at.op.lower),
    "QR": lambda at, x: linalg.qr(x, mode=at.op.mode, pivoting=at.op.pivoting),
    "LU": lambda at, x: linalg.lu(x, permute_l=at.op.permute_l, p_indices=at.op.p_indices),
    "LUFactor": without_casts(linalg.lu_factor),
    "PivotToPermutations": lambda at, pivots: linalg.pivot_to_permutation(
        pivots, inverse=at.op.inverse
    ),
    "SVD": lambda at, x: linalg.svd(
        x, full_matrices=at.op.full_matrices, compute_uv=at.op.compute_uv
    ),
    "Eig": without_casts(linalg.eig),
    # Eigenvectors have the signs of LAPACK where a backend uses it.
    "Eigh": lambda at, x, b=None: linalg.eigh(x, b, lower=_lower(at.op)),
    "EighGrad": eigh_gradient,
    "Eigvalsh": lambda at, x, b=None: linalg.eigvalsh(x, b, lower=_lower(at.op)),
    "EigvalshGrad": eigvalsh_gradient,
    "Schur": lambda at, x: linalg.schur(x, output=at.op.output, sort=at.op.sort),
    "QZ": qz,
    # Inverses, determinants, systems.
    "MatrixInverse": without_casts(linalg.inv),
    "MatrixPinv": lambda at, x: linalg.pinv(x, hermitian=at.op.hermitian),
    "TensorInv": lambda at, x: linalg.tensorinv(x, at.op.ind),
    "TensorSolve": lambda at, a, b: linalg.tensorsolve(a, b, at.op.axes),
    "Lstsq": without_casts(linalg.lstsq),
    "Det": without_casts(linalg.det),
    "SLogDet": lambda at, x: tuple(linalg.slogdet(x)),
    "Expm": without_casts(linalg.expm),
    "Solve": solve,
    "SolveTriangular": solve_triangular,
    "CholeskySolve": lambda at, c, b: linalg.cho_solve((c, at.op.lower), b, b_ndim=at.op.b_ndim),
    "LUFactorTridiagonal": tridiagonal_lu_factor,
    "SolveLUFactorTridiagonal": tridiagonal_lu_solve,
    "SolveSylvester": without_casts(linalg.solve_sylvester),
    # By the solver for general matrices.
    "TRSYL": without_casts(linalg.solve_sylvester),
    "SolveDiscreteARE": without_casts(linalg.solve_discrete_are),
}
"""The converters of linear algebra, by the names of their classes."""
