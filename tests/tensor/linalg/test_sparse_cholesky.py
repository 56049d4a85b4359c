"""Factors of sparse matrices, against those of the same dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import ArgumentError, DTypeError, ShapeError, UnsupportedOperationError
from graphc.implicit import BCOO, CSC, CSR
from graphc.tensor.linalg.sparse import factor as factor_module
from graphc.tensor.linalg.sparse.factor import PositiveFactor, Recent, SparsityPattern

MODES = ("NUMPY", "JAX", "MLX")

sparse_cholesky = gt.linalg.sparse_cholesky


def grid(k: int, more: float = 0.5) -> Any:
    """The precision of a field on k by k nodes."""
    path = sparse.diags_array(
        [-np.ones(k - 1), 2 * np.ones(k), -np.ones(k - 1)], offsets=[-1, 0, 1]
    )
    one = sparse.eye_array(k)
    return sparse.csc_array(
        sparse.kron(path, one) + sparse.kron(one, path) + more * sparse.eye_array(k * k)
    )


def random_precision(n: int, density: float, seed: int) -> Any:
    """A positive definite matrix of a random pattern, in several parts where it is very sparse."""
    rng = np.random.default_rng(seed)
    half = sparse.random_array((n, n), density=density, rng=rng)
    return sparse.csc_array(half @ half.T + sparse.diags_array(rng.uniform(0.5, 2, n)))


def arrow(n: int) -> Any:
    """One node that is linked with all others."""
    a = sparse.lil_array(sparse.eye_array(n) * 2.0)
    a[n // 2, :] = a[:, n // 2] = 0.05
    a[n // 2, n // 2] = 3.0
    return sparse.csc_array(a)


EMPTY = sparse.csc_array((0, 0))
MATRICES = {
    "none": EMPTY,
    "one": sparse.csc_array([[4.0]]),
    "diagonal": sparse.csc_array(sparse.diags_array(np.arange(1.0, 6.0))),
    "grid": grid(7),
    "arrow": arrow(40),
    "disconnected": sparse.csc_array(sparse.block_diag([grid(3), grid(2), [[3.0]]])),
    "dense": random_precision(9, 0.9, 0),
    **{f"random {i}": random_precision(10 * i, 0.6 / i, i) for i in range(1, 5)},
}


def check_by_numpy(q: Any, lower: bool, tolerance: float = 1e-9) -> None:
    """Compare all that a factor is for with dense linear algebra."""
    places, n = q.tocoo(), q.shape[0]
    rows, columns = places.row, places.col
    factor = PositiveFactor.of(SparsityPattern(rows, columns, n, lower), places.data)
    assert factor is not None
    dense, rng = q.toarray(), np.random.default_rng(3)
    read = rows >= columns if lower else rows <= columns
    z = np.linalg.inv(dense)
    close = {"rtol": tolerance, "atol": tolerance}
    np.testing.assert_allclose(factor.logdet, np.linalg.slogdet(dense)[1], **close)
    np.testing.assert_allclose(factor.inverse(), z[rows, columns] * read, **close)
    b = rng.normal(size=(n, 2))
    np.testing.assert_allclose(factor.solve(b), z @ b, **close)
    v = rng.normal(size=len(rows)) * read
    half = sparse.coo_array((v, (rows, columns)), shape=q.shape).toarray()
    whole = half + half.T - np.diag(np.diag(half))
    expected = (z @ whole @ z)[rows, columns] * read
    np.testing.assert_allclose(factor.inverse_derivative(v), expected, **close)
    root = factor.colour(np.eye(n))
    np.testing.assert_allclose(root @ root.T, z, **close)
    np.testing.assert_allclose(factor.colour_transposed(b), root.T @ b, **close)


@pytest.mark.whole
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", MATRICES)
def test_a_factor_is_that_of_the_dense_matrix(name: str, lower: bool) -> None:
    check_by_numpy(MATRICES[name], lower)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(60))
def test_factors_of_random_patterns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q = random_precision(int(rng.integers(1, 90)), rng.uniform(0, 0.2), seed)
    check_by_numpy(q, True)


@st.composite
def patterns(draw: Any) -> Any:
    """Precisions of up to 24 nodes with any links, and some nodes that are linked with all."""
    n = draw(st.integers(1, 24))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3 * n))
    hubs = draw(st.lists(st.integers(0, n - 1), max_size=2))
    links = np.zeros((n, n))
    for i, j in pairs:
        links[i, j] = links[j, i] = 1 + (i + j) / n
    links[hubs] = links[:, hubs] = 0.5
    np.fill_diagonal(links, 0)
    return sparse.csc_array(np.diag(links.sum(0) + np.arange(1, n + 1) / n) - links)


@pytest.mark.exhaustive
@settings(max_examples=150, deadline=None)
@given(patterns(), st.booleans())
def test_factors_of_drawn_patterns(q: Any, lower: bool) -> None:
    check_by_numpy(q, lower, 1e-8)


@pytest.mark.exhaustive
def test_a_large_grid() -> None:
    """The inverse of 1600 nodes, and solutions of 40,000."""
    check_by_numpy(grid(40), True)
    q = grid(200, 0.01).tocoo()
    factor = PositiveFactor.of(SparsityPattern(q.row, q.col, 40_000, True), q.data)
    assert factor is not None
    b = np.random.default_rng(0).normal(size=(40_000, 1))
    np.testing.assert_allclose(q @ factor.solve(b), b, atol=1e-9)
    lu = sparse.linalg.splu(q.tocsc())
    expected = np.log(np.abs(lu.U.diagonal())).sum()
    np.testing.assert_allclose(factor.logdet, expected, rtol=1e-11)
    unit = np.zeros((40_000, 3))
    nodes = np.array([5, 20_100, 39_999])
    unit[nodes, np.arange(3)] = 1
    on = [np.flatnonzero((q.row == i) & (q.col == i))[0] for i in nodes]
    np.testing.assert_allclose(factor.inverse()[on], np.diagonal(lu.solve(unit)[nodes]), rtol=1e-9)


def density(q: Any, data: Any, x: Any, **options: Any) -> Any:
    factor = sparse_cholesky(q, data, **options)
    return factor.logdet() / 2 - x @ factor.solve(x) / 2


@pytest.mark.parametrize("mode", MODES)
def test_values_and_two_derivatives_are_those_of_dense_matrices(mode: str) -> None:
    q = MATRICES["random 2"]
    data, x = gt.vector("data", dtype="float64"), gt.vector("x", dtype="float64")
    places = q.tocoo()
    whole = gt.inc_subtensor(gt.zeros(q.shape)[places.row, places.col], data)
    low = gt.linalg.cholesky(whole)
    solved = gt.linalg.solve(whole, x, assume_a="pos", lower=True)
    dense = gt.log(gt.diagonal(low)).sum() - x @ solved / 2
    found = []
    for cost in (density(q, data, x), dense):
        slopes = graphc.grad(cost, [data, x])
        second = graphc.grad((slopes[0] ** 2).sum() + (slopes[1] ** 3).sum(), [data, x])
        found += [cost, *slopes, *second]
    f = graphc.function([data, x], found, mode=mode, returns="numpy")
    values = f(q.data, np.random.default_rng(0).normal(size=q.shape[0]))
    tolerance = 1e-4 if mode == "MLX" else 1e-8
    for ours, theirs in zip(values[:5], values[5:], strict=True):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, atol=tolerance * scale, rtol=tolerance)


def test_gradients_agree_with_differences() -> None:
    q = MATRICES["grid"]
    data, x = gt.vector("data"), gt.vector("x")
    factor = sparse_cholesky(q, data)
    cost = factor.logdet() + (factor.solve(x) ** 2).sum()
    rng = np.random.default_rng(0)
    graphc.gradient.verify_grad(
        lambda data, x: (
            sparse_cholesky(q, data).logdet() + (sparse_cholesky(q, data).solve(x) ** 2).sum()
        ),
        [q.data, rng.normal(size=49)],
        rng=rng,
    )
    hessian = graphc.grad(graphc.grad(cost, data)[::5].sum(), data)
    f = graphc.function([data, x], [graphc.grad(cost, data), hessian], mode="NUMPY")
    at = rng.normal(size=49)
    step, direction = 1e-6, rng.normal(size=q.nnz)
    _, curvature = f(q.data, at)
    ends = [f(q.data + s * step * direction, at)[0][::5].sum() for s in (1, -1)]
    np.testing.assert_allclose(curvature @ direction, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


def test_tangents_are_products_with_the_gradient() -> None:
    q = MATRICES["grid"]
    data, x, v = gt.vector("data"), gt.vector("x"), gt.vector("v")
    cost = density(q, data, x)
    forward = graphc.pushforward(cost, data, v)
    second = graphc.pushforward(graphc.grad(cost, data), data, v)
    reverse = [graphc.grad(cost, data) @ v, graphc.grad(graphc.grad(cost, data) @ v, data)]
    f = graphc.function([data, x, v], [forward, second, *reverse], mode="NUMPY")
    rng = np.random.default_rng(1)
    found = f(q.data, rng.normal(size=49), rng.normal(size=q.nnz))
    np.testing.assert_allclose(found[0], found[2])
    np.testing.assert_allclose(found[1], found[3])


@pytest.mark.parametrize("kind", [CSC, CSR, BCOO])
@pytest.mark.parametrize("assume", ["gen", "sym", "pos"])
@pytest.mark.parametrize("definite", [True, False])
def test_solve_and_determinants_of_sparse_arrays_stay_sparse(
    kind: Any, assume: str, definite: bool
) -> None:
    a = random_precision(12, 0.2, 5)
    a = a if definite else -a if assume == "sym" else sparse.csc_array(a + sparse.triu(a, 1))
    if assume == "pos" and not definite:
        return
    held = kind.from_scipy(a)
    q, b = gt.implicit(held, name="q"), gt.vector("b", dtype="float64")
    results = []
    for x in (q, q.dense()):
        sign, log = gt.linalg.slogdet(x)
        cost = log + (gt.linalg.solve(x, b, assume_a=assume) ** 3).sum() + 1e-6 * gt.linalg.det(x)
        slope = graphc.grad(cost, q.array.data)
        results.append([sign, cost, slope, *graphc.grad((slope**3).sum(), [q.array.data, b])])
    with implicit.materializing("error"):
        ours = graphc.function([q, b], results[0], mode="NUMPY")
    theirs = graphc.function([q, b], results[1], mode="NUMPY")
    at = np.random.default_rng(0).normal(size=12)
    for x, y in zip(ours(held, at), theirs(held, at), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-8)


def test_a_batch_of_values_has_one_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    count = []
    monkeypatch.setattr(factor_module, "_PATTERNS", Recent(8))
    monkeypatch.setattr(
        factor_module, "SparsityPattern", lambda *args: count.append(1) or SparsityPattern(*args)
    )
    q = grid(4)
    scale = np.array([[1.0, 2.0, 3.0]]).T
    data, b = gt.matrix("data"), gt.matrix("b")
    factor = sparse_cholesky(q, data)
    outputs = [factor.logdet(), factor.solve(b), factor.variances(), factor.inverse()]
    slope = graphc.grad((factor.logdet() * gt.arange(3)).sum(), data)
    f = graphc.function([data, b], [*outputs, slope], mode="NUMPY")
    at = np.random.default_rng(0).normal(size=(3, 16))
    logs, x, variances, inverses, slopes = f(q.data * scale, at)
    z = np.linalg.inv(q.toarray())
    np.testing.assert_allclose(logs, np.linalg.slogdet(q.toarray())[1] + 16 * np.log(scale[:, 0]))
    np.testing.assert_allclose(x, at @ z / scale)
    np.testing.assert_allclose(variances, np.diag(z) / scale)
    np.testing.assert_allclose(inverses * scale, inverses[:1] + np.zeros((3, 1)))
    np.testing.assert_allclose(slopes[0], 0)
    np.testing.assert_allclose(slopes[2], slopes[1] / 3 * 2 * 2)
    assert len(count) == 1


def test_vectorized_values_share_their_places() -> None:
    q = grid(3)
    one = gt.vector("one", shape=(q.nnz,))
    batch = gt.matrix("batch", shape=(None, q.nnz))
    y = sparse_cholesky(q, one).logdet()
    x = sparse_cholesky(q, one).solve(gt.ones(9))
    many = graphc.clone_replace([y, x], {})
    found = graphc.gradient.vectorize_graph(many, {one: batch})
    f = graphc.function([batch], found, mode="NUMPY")
    logs, solved = f(np.stack([q.data, 2 * q.data]))
    np.testing.assert_allclose(logs[1] - logs[0], 9 * np.log(2))
    np.testing.assert_allclose(solved[0], 2 * solved[1])


@pytest.mark.parametrize("mode", MODES)
def test_draws_have_the_inverse_as_covariance(mode: str) -> None:
    q = random_precision(5, 0.3, 1)
    stream = gt.random.RandomStream(7)
    f = graphc.function([], sparse_cholesky(q).sample(stream, 40_000), mode=mode, returns="numpy")
    np.testing.assert_allclose(np.cov(f().T), np.linalg.inv(q.toarray()), atol=0.06)
    assert sparse_cholesky(q).sample(stream).type.shape == (5,)


def test_what_is_not_positive_definite_is_nan_or_an_error() -> None:
    q = grid(2)
    data = gt.vector("data")
    factor = sparse_cholesky(q, data)
    outputs = [factor.logdet(), factor.solve(gt.ones(4)), factor.inverse()]
    f = graphc.function([data], [*outputs, graphc.grad(factor.logdet(), data)], mode="NUMPY")
    for bad in (-q.data, np.full(q.nnz, np.nan), np.full(q.nnz, np.inf)):
        assert all(np.isnan(y).any() for y in f(bad))
    assert np.isfinite(f(q.data)[0])
    strict = graphc.function([data], sparse_cholesky(q, data, on_error="raise").logdet())
    strict(q.data)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        strict(-q.data)


def test_a_singular_general_matrix_has_determinant_zero() -> None:
    q = gt.implicit(CSC.from_scipy(sparse.csc_array([[1.0, 2.0], [2.0, 4.0]])), name="q")
    sign, log = gt.linalg.slogdet(q)
    f = graphc.function([q], [sign, log, gt.linalg.solve(q, gt.ones(2))], mode="NUMPY")
    sign_value, log_value, x = f(CSC.from_scipy(sparse.csc_array([[1.0, 2.0], [2.0, 4.0]])))
    assert (sign_value, log_value) == (0, -np.inf)
    assert np.isnan(x).all()


def test_values_stored_in_parts_and_places_left_out_count_as_they_do_elsewhere() -> None:
    q = BCOO(
        np.array([1.0, 3.0, 5.0, 7.0, 2.0]),
        np.array([[0, 0], [0, 0], [1, 1], [2, 2], [1, 0]]),
        (2, 2),
    )
    factor = sparse_cholesky(q)
    assert factor.logdet().eval(mode="NUMPY") == pytest.approx(np.log(16))
    assert factor.inverse().eval(mode="NUMPY").shape == (5,)
    np.testing.assert_allclose(factor.variances().eval(mode="NUMPY"), [5 / 16, 4 / 16])


def test_what_is_refused() -> None:
    q = grid(2)
    with pytest.raises(ArgumentError, match=r"gt\.linalg\.cholesky"):
        sparse_cholesky(np.eye(2))
    with pytest.raises(ArgumentError, match="on_error"):
        sparse_cholesky(q, on_error="ignore")
    with pytest.raises(ShapeError, match="square"):
        sparse_cholesky(sparse.csc_array((2, 3)))
    with pytest.raises(DTypeError, match="real"):
        sparse_cholesky(q * 1j)
    with pytest.raises(ShapeError, match="lengths"):
        sparse_cholesky(q).solve(np.ones(5))
    data = gt.vector("data")
    third = graphc.grad(graphc.grad(sparse_cholesky(q, data).logdet(), data).sum(), data).sum()
    with pytest.raises(UnsupportedOperationError, match="third"):
        graphc.grad(third, data)
    draw = sparse_cholesky(q, data).inverse_root(gt.ones(4)).sum()
    with pytest.raises(UnsupportedOperationError, match="disconnected_grad"):
        graphc.grad(draw, data)
