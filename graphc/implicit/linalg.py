"""Krylov methods for JAX arrays, implicit ones among them: the functions of ``gt.linalg``.

A matrix is an array, an implicit array of JAX arrays, the traced array that represents one within
an implicit function, or a function of JAX arrays. The gradient with respect to an implicit array is
an implicit array with a gradient for each field. No matrix becomes dense.
"""

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

__all__ = [
    "LowRankPreconditioner",
    "SolverInfo",
    "StochasticLogdet",
    "Tridiagonal",
    "bicgstab",
    "cg",
    "eigsh",
    "inv_quad_logdet",
    "lanczos",
    "low_rank_preconditioner",
    "pivoted_cholesky",
    "stochastic_logdet",
]
