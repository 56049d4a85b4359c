"""The kernels of attention for GPUs, interpreted; ``tests/attention`` runs them on all programs."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import graphc
import graphc.attention as ga
import graphc.tensor as gt
from graphc.attention.grids import compact, grid_of
from graphc.link.jax.attention import pallas
from graphc.link.jax.attention.layout import Tables
from tests.attention import reference

INTERPRETED = graphc.Mode("JAX", attention="interpret")


def test_padding_queries_of_large_scores_leave_gradients_finite() -> None:
    """The exponential of a padding query's score may be infinite; its weight is zero."""
    q, k, v = (gt.tensor(shape=(1, 1, n, 4), dtype="float32") for n in (5, 7, 7))
    out = ga.flex_attention(q, k, v, lambda s, b, h, i, j: s + 200.0 * (j == 3))
    f = graphc.function([q, k, v], graphc.grad((out**2).sum(), [q, k, v]), INTERPRETED)
    x = reference.problem(1, 1, heads=(1, 1), lengths=(5, 7), dims=(4, 4))
    y = reference.forward(*x[:3], plus=200.0 * (np.arange(7) == 3))
    g = reference.backward(*x[:3], 2 * y.out, plus=200.0 * (np.arange(7) == 3))
    results = f(*[a.astype("float32") for a in x[:3]])
    for a, b in zip(results, (g.q, g.k, g.v), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_transposed_tables_list_the_rows_of_each_column() -> None:
    partial = np.random.default_rng(0).random((2, 1, 5, 3)) < 0.4
    full = ~partial & (np.random.default_rng(1).random(partial.shape) < 0.5)
    tables = Tables(*map(jnp.asarray, (*compact(partial), *compact(full))))
    transposed = pallas._transpose(tables)
    for grid, pair in ((partial, transposed[:2]), (full, transposed[2:])):
        np.testing.assert_array_equal(grid_of(*pair), np.swapaxes(grid, 2, 3))
