"""Krylov methods for JAX arrays, implicit ones among them: the functions of ``gt.linalg``.

These are JAX functions of any arrays but symbolic ones: ``jax.jit``, ``jax.grad`` and ``jax.vmap``
apply to their callers. A matrix is an array, an implicit array, the traced array that represents
one within an implicit function, or a function of JAX arrays. The gradient with respect to an
implicit array is an implicit array with a gradient for each field. No matrix becomes dense.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.krylov import functions
from graphc.implicit.krylov.conjugate import SolverInfo
from graphc.implicit.krylov.lanczos import Tridiagonal
from graphc.implicit.krylov.logdet import StochasticLogdet
from graphc.implicit.krylov.pivoted import LowRankPreconditioner

P = ParamSpec("P")

__all__ = [
    "LowRankPreconditioner", "SolverInfo", "StochasticLogdet", "Tridiagonal", "bicgstab", "cg",
    "eigsh", "inv_quad_logdet", "lanczos", "low_rank_preconditioner", "pivoted_cholesky",
    "stochastic_logdet",
]  # fmt: skip


def _in_jax(function: Callable[P, Any]) -> Callable[P, Any]:
    """Return a function of ``gt.linalg`` bound to JAX instead of graphs."""
    y: Any = functions.with_calculus(lambda: jax_arrays().KRYLOV)(inspect.unwrap(function))
    y.__signature__ = inspect.signature(y).replace(return_annotation="Any")
    y.__module__ = __name__
    return y  # type: ignore[no-any-return]


cg = _in_jax(functions.cg)
bicgstab = _in_jax(functions.bicgstab)
lanczos = _in_jax(functions.lanczos)
eigsh = _in_jax(functions.eigsh)
stochastic_logdet = _in_jax(functions.stochastic_logdet)
inv_quad_logdet = _in_jax(functions.inv_quad_logdet)
pivoted_cholesky = _in_jax(functions.pivoted_cholesky)
low_rank_preconditioner = _in_jax(functions.low_rank_preconditioner)
