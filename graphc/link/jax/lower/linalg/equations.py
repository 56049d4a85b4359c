"""Sylvester's equation in ``jax.scipy.linalg``, which solves it on the CPU only."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax

from graphc.link.jax.backend import backend
from graphc.link.jax.lower.linalg.schur import call_reference
from graphc.tensor.linalg.equations import Sylvester


@backend.lower(Sylvester)
def sylvester(op: Sylvester, a: Any, b: Any, q: Any) -> Any:
    """Solve by Schur decompositions of a and b, one equation at a time."""
    if not q.size:
        return jnp.zeros_like(q)
    solve = jax.scipy.linalg.solve_sylvester
    for _ in range(q.ndim - 2):
        solve = jax.vmap(solve)
    return lax.platform_dependent(a, b, q, cpu=solve, default=partial(call_reference, op))
