"""The log-density of a Gaussian Markov random field, and its gradient, beside CHOLMOD's factor.

Both are given new values in known places at every call. CHOLMOD, by cvxopt, factorises and solves
one system: it has no gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from cvxopt import cholmod, matrix, spmatrix
from scipy import sparse

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark
from benchmarks.timing import agree, compared

SIDE = 316
"""Of the grid, which has about 100,000 nodes."""


def _precision() -> Any:
    """Differences of neighbours on a grid, and a little of the identity."""
    line = sparse.diags_array(
        [-np.ones(SIDE - 1), 2 * np.ones(SIDE), -np.ones(SIDE - 1)], offsets=[-1, 0, 1]
    )
    one = sparse.eye_array(SIDE)
    q = sparse.kron(line, one) + sparse.kron(one, line) + 0.1 * sparse.eye_array(SIDE**2)
    return sparse.csc_array(q)


@benchmark("sparse_cholesky")
def with_numpy_and_jax() -> Iterator[Line]:
    """The value, and its gradient by the values of the precision and by the point."""
    q = _precision()
    low = sparse.tril(q).tocoo()
    rows, columns = (matrix(places.astype(int)) for places in (low.row, low.col))
    theirs = spmatrix(matrix(low.data), rows, columns, q.shape)
    symbolic = cholmod.symbolic(theirs)
    point = np.random.default_rng(0).normal(size=SIDE**2)
    right = matrix(point)

    def factor_and_solve() -> None:
        cholmod.numeric(theirs, symbolic)
        cholmod.solve(symbolic, right)

    factor_and_solve()
    logdet = 2 * float(np.log(np.asarray(cholmod.diag(symbolic))).sum())
    for mode in ("NUMPY", "JAX"):
        data, x = gt.vector("data", shape=(q.nnz,)), gt.vector("x", shape=(SIDE**2,))
        held = graphc.implicit.with_fields(graphc.implicit.CSC.from_scipy(q), {"data": data})
        factor = gt.linalg.sparse_cholesky(held)
        value = factor.logdet() / 2 - x @ (gt.as_tensor(held) @ x) / 2
        f = graphc.function(
            [data, x], [value, *graphc.grad(value, [data, x])], mode=mode, returns="numpy"
        )
        agree(f(q.data, point)[0], logdet / 2 - point @ (q @ point) / 2, rtol=1e-9)
        scales = (1 + 1e-6 * i for i in count())
        ratio = compared(
            lambda f=f, scales=scales: f(q.data * next(scales), point),
            factor_and_solve,
            blocks=20,
        )
        yield Line(f"{mode}, {SIDE**2} nodes: CHOLMOD's factor and one solution", ratio, 2.0)
