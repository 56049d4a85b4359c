"""The log-density of Gaussian Markov random fields, and its gradient, beside CHOLMOD's factor.

Both are given new values in known places at every call. CHOLMOD, by cvxopt, factorises and solves
one system: it has no gradient. Both compute with as many threads as BLAS is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
from cvxopt import cholmod, matrix, spmatrix
from scipy import sparse
from scipy.spatial import Delaunay

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark
from benchmarks.timing import agree, compared

SIDE = 316
"""Of the grid, which has about 100,000 nodes."""


def _precision(links: Any) -> Any:
    """Differences of neighbours, and a little of the identity."""
    links = sparse.csc_array(links)
    links = links.maximum(links.T)
    neighbours = np.asarray(links.sum(0)).ravel()
    return sparse.csc_array(sparse.diags_array(neighbours + 0.1) - links)


def _grid(reach: int) -> Any:
    """Each node is linked with four others, or with those at the corners, too."""
    line = sparse.diags_array([np.ones(SIDE - 1)] * 2, offsets=[-1, 1])
    one = sparse.eye_array(SIDE)
    links = sparse.kron(line, one) + sparse.kron(one, line)
    return _precision(links + sparse.kron(line, line) if reach == 2 else links)


def _mesh() -> Any:
    """Triangles between random points."""
    points = np.random.default_rng(1).uniform(size=(SIDE**2, 2))
    corners = Delaunay(points).simplices
    pairs = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
    links = sparse.coo_array((np.ones(len(pairs)), pairs.T), shape=(SIDE**2, SIDE**2))
    return _precision(sparse.csc_array(links) > 0)


FIELDS: dict[str, Callable[[], Any]] = {
    "grid, 4 neighbours": lambda: _grid(1),
    "grid, 8 neighbours": lambda: _grid(2),
    "mesh of triangles": _mesh,
}


@benchmark("sparse_cholesky")
def with_numpy_and_jax() -> Iterator[Line]:
    """The value, and its gradient by the values of the precision and by the point."""
    for title, make in FIELDS.items():
        yield from _lines(title, sparse.csc_array(make(), dtype=float))


def _lines(title: str, q: Any) -> Iterator[Line]:
    n = q.shape[0]
    low = sparse.tril(q).tocoo()
    rows, columns = (matrix(places.astype(int)) for places in (low.row, low.col))
    theirs = spmatrix(matrix(low.data), rows, columns, q.shape)
    symbolic = cholmod.symbolic(theirs)
    point = np.random.default_rng(0).normal(size=n)
    right = matrix(point)

    def factor_and_solve() -> None:
        cholmod.numeric(theirs, symbolic)
        cholmod.solve(symbolic, right)

    factor_and_solve()
    logdet = 2 * float(np.log(np.asarray(cholmod.diag(symbolic))).sum())
    for mode in ("NUMPY", "JAX"):
        data, x = gt.vector("data", shape=(q.nnz,)), gt.vector("x", shape=(n,))
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
            blocks=5,
        )
        yield Line(f"{mode}, {title}: CHOLMOD's factor and one solution", ratio, 40.0)
