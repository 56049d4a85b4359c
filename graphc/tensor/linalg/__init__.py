"""Linear algebra, as in ``numpy.linalg`` and ``scipy.linalg``."""

from typing import TYPE_CHECKING

from graphc import lazy
from graphc.tensor.arrays.diagonal import diagonal, trace
from graphc.tensor.linalg.banded import solve_banded, solveh_banded
from graphc.tensor.linalg.cholesky import cho_factor, cholesky
from graphc.tensor.linalg.determinant import det, logdet, slogdet
from graphc.tensor.linalg.dot import (
    DotGeneral,
    batched_dot,
    dot,
    inner,
    matmul,
    matvec,
    outer,
    tensordot,
    vdot,
    vecdot,
    vecmat,
)
from graphc.tensor.linalg.eigen import eig, eigh, eigvals, eigvalsh
from graphc.tensor.linalg.equations import (
    solve_continuous_lyapunov,
    solve_discrete_are,
    solve_discrete_lyapunov,
    solve_sylvester,
)
from graphc.tensor.linalg.expm import expm
from graphc.tensor.linalg.inverse import inv, tensorinv, tensorsolve
from graphc.tensor.linalg.least_squares import cond, lstsq, matrix_rank, pinv
from graphc.tensor.linalg.linalg import cross, kron, matrix_dot, matrix_power, multi_dot, vander
from graphc.tensor.linalg.lu import lu, lu_factor, lu_solve, pivot_to_permutation
from graphc.tensor.linalg.norm import matrix_norm, norm, vector_norm
from graphc.tensor.linalg.patterned import (
    block_diag,
    circulant,
    companion,
    dft,
    fiedler,
    hadamard,
    hankel,
    hilbert,
    leslie,
    pascal,
    toeplitz,
)
from graphc.tensor.linalg.qr import qr
from graphc.tensor.linalg.schur import ordqz, qz, schur, sqrtm
from graphc.tensor.linalg.solve import cho_solve, solve
from graphc.tensor.linalg.svd import polar, svd, svdvals
from graphc.tensor.linalg.triangular import solve_triangular
from graphc.tensor.linalg.tridiagonal import tridiagonal_lu_factor, tridiagonal_lu_solve

__all__ = [
    "DotGeneral", "LowRankPreconditioner", "SolverInfo", "SparseCholesky", "StochasticLogdet",
    "Tridiagonal", "batched_dot", "bicgstab", "block_diag", "cg", "cho_factor", "cho_solve",
    "cholesky", "circulant", "companion", "cond", "cross", "det", "dft", "diagonal", "dot", "eig",
    "eigh", "eigsh", "eigvals", "eigvalsh", "expm", "fiedler", "hadamard", "hankel", "hilbert",
    "inner", "inv", "inv_quad_logdet", "kron", "lanczos", "leslie", "logdet",
    "low_rank_preconditioner", "lstsq", "lu", "lu_factor", "lu_solve", "matmul", "matrix_dot",
    "matrix_inverse", "matrix_norm", "matrix_power", "matrix_rank", "matvec", "multi_dot", "norm",
    "ordqz", "outer", "pascal", "pinv", "pivot_to_permutation", "pivoted_cholesky", "polar", "qr",
    "qz", "schur", "slogdet", "solve", "solve_banded", "solve_continuous_lyapunov",
    "solve_discrete_are", "solve_discrete_lyapunov", "solve_sylvester", "solve_triangular",
    "solveh_banded", "sparse_cholesky", "sqrtm", "stochastic_logdet", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "toeplitz", "trace", "tridiagonal_lu_factor",
    "tridiagonal_lu_solve", "vander", "vdot", "vecdot", "vecmat", "vector_norm",
]  # fmt: skip


matrix_inverse = inv

if TYPE_CHECKING:
    from graphc.implicit.krylov.conjugate import SolverInfo
    from graphc.implicit.krylov.functions import (
        bicgstab,
        cg,
        eigsh,
        inv_quad_logdet,
        lanczos,
        low_rank_preconditioner,
        pivoted_cholesky,
        stochastic_logdet,
    )
    from graphc.implicit.krylov.lanczos import Tridiagonal
    from graphc.implicit.krylov.logdet import StochasticLogdet
    from graphc.implicit.krylov.pivoted import LowRankPreconditioner
    from graphc.implicit.sparse_cholesky import SparseCholesky, sparse_cholesky
else:
    # Provided by a higher layer: they take implicit arrays.
    __getattr__, __dir__ = lazy.attributes(globals())
