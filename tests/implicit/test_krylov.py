"""Krylov methods in graphs, against dense linear algebra and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import ArgumentError, DTypeError, GradientError, ShapeError
from tests.implicit.differences import differences

MODES = ("NUMPY", "JAX", "MLX")
N = 24
COLUMN = np.r_[4.0, 1.0, 0.5, 0.2, np.zeros(N - 4)]
DENSE = scipy.linalg.toeplitz(COLUMN)
RNG = np.random.default_rng(0)
B = RNG.normal(size=(N, 2))
U = RNG.normal(size=(N, 3))
GENERAL = RNG.normal(size=(N, N)) + 8 * np.eye(N)
TIGHT = {"rtol": 1e-12}


class Scaled:
    """An object that knows products alone."""

    def __matmul__(self, x: Any) -> Any:
        return gt.constant(DENSE) @ x * 2.0


SIX, FOUR = DENSE[:6, :6], DENSE[:4, :4]
OPERATORS: dict[str, tuple[Any, Any]] = {
    "dense": (DENSE, DENSE),
    "Toeplitz": (implicit.Toeplitz(COLUMN), DENSE),
    "low rank + diagonal": (
        implicit.Diagonal(np.arange(1.0, N + 1)) + implicit.LowRank(U, U.T.copy()),
        np.diag(np.arange(1.0, N + 1)) + U @ U.T,
    ),
    "Kronecker sum": (
        implicit.Sum.of(
            implicit.Kronecker(SIX, implicit.Identity.of(4)),
            implicit.Kronecker(implicit.Identity.of(6), FOUR),
        ),
        np.kron(SIX, np.eye(4)) + np.kron(np.eye(6), FOUR),
    ),
    "product": (
        implicit.Product.of(implicit.Toeplitz(COLUMN), implicit.Toeplitz(COLUMN)),
        DENSE @ DENSE,
    ),
    "CSR": (implicit.CSR.from_scipy(scipy.sparse.csr_array(DENSE)), DENSE),
    "SciPy's": (scipy.sparse.csr_array(DENSE), DENSE),
    "with @": (Scaled(), 2 * DENSE),
    "function": (lambda v: implicit_toeplitz() @ v + 0.5 * v, DENSE + 0.5 * np.eye(N)),
}


def implicit_toeplitz() -> Any:
    return gt.as_tensor(implicit.Toeplitz(COLUMN))


def values(outputs: Any, mode: str = "NUMPY", inputs: Any = (), given: Any = ()) -> Any:
    """What graphs give, without an implicit array that becomes whole."""
    with implicit.materializing("error"):
        f = graphc.function(list(inputs), outputs, mode=mode, returns="numpy")
    return f(*given)


def close(a: Any, b: Any, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# Solutions.


@pytest.mark.parametrize("name", OPERATORS)
def test_conjugate_gradients_solve_systems_of_operators_of_any_kind(name: str) -> None:
    operator, dense = OPERATORS[name]
    x, info = gt.linalg.cg(operator, B, **TIGHT)
    y, steps, residual, converged = values([x, *info])
    close(y, np.linalg.solve(dense, B))
    close(residual, np.linalg.norm(B - dense @ y, axis=0), 1e-10)
    assert converged.all()
    assert (steps > 1).all()


def test_steps_are_as_many_as_scipys_for_each_column() -> None:
    counts = []
    for b in B.T:
        seen: list[Any] = []
        scipy.sparse.linalg.cg(DENSE, b, rtol=1e-6, callback=seen.append)
        counts.append(len(seen))
    _, info = gt.linalg.cg(DENSE, B, rtol=1e-6)
    assert values(info.steps).tolist() == counts


@pytest.mark.parametrize("mode", MODES)
def test_gradients_by_fields_and_parameters_are_those_of_a_dense_solution(mode: str) -> None:
    t, s = gt.implicit(implicit.Toeplitz(COLUMN), name="t"), gt.scalar("s")
    b = gt.matrix("b", shape=(N, 2))

    def parts(x: Any) -> Any:
        by_column, by_b, by_s = graphc.grad((x**3).sum(), [t.array.column, b, s])
        return [x, by_column, by_b, by_s, graphc.grad((by_column**2).sum(), s)]

    x, _ = gt.linalg.cg(lambda v: t @ v + s * v, b, **TIGHT)
    found = values(parts(x), mode, [t, b, s], [implicit.Toeplitz(COLUMN), B, 0.5])
    dense = gt.linalg.solve(t.dense() + s * gt.eye(N), b)
    wanted = graphc.function([t, b, s], parts(dense), mode="NUMPY")
    for a, c in zip(found, wanted(implicit.Toeplitz(COLUMN), B, 0.5), strict=True):
        close(a, c)


def test_forward_mode_and_batches_solve_the_system_again() -> None:
    s, b = gt.scalar("s"), gt.vector("b", shape=(N,))

    def solution(s: Any, b: Any) -> Any:
        return gt.linalg.cg(lambda v: implicit_toeplitz() @ v + s * v, b, **TIGHT)[0]

    moved = graphc.pushforward(solution(s, b), [s, b], [gt.constant(1.0), b])
    found = values(moved, "NUMPY", [s, b], [0.5, B[:, 0]])
    whole = DENSE + 0.5 * np.eye(N)
    x = np.linalg.solve(whole, B[:, 0])
    close(found, np.linalg.solve(whole, B[:, 0] - x))
    many = gt.vector("many", shape=(3,))
    each = graphc.vectorize(lambda s: graphc.grad(solution(s, gt.constant(B[:, 0])).sum(), s))(many)
    given = np.array([0.0, 0.5, 2.0])
    wanted = [
        -np.ones(N) @ np.linalg.solve(a, np.linalg.solve(a, B[:, 0]))
        for a in (DENSE + s * np.eye(N) for s in given)
    ]
    close(values(each, "NUMPY", [many], [given]), wanted)


@pytest.mark.parametrize("mode", MODES)
def test_bicgstab_solves_general_systems_and_its_gradient_the_transposed_one(mode: str) -> None:
    a, b = gt.matrix("a", shape=(N, N)), gt.vector("b", shape=(N,))
    x, info = gt.linalg.bicgstab(lambda v: a @ v, b, M=lambda v: v / gt.diagonal(a), **TIGHT)
    outputs = [x, info.converged, *graphc.grad((x**3).sum(), [a, b])]
    y, converged, by_a, by_b = values(outputs, mode, [a, b], [GENERAL, B[:, 0]])
    dual = np.linalg.solve(GENERAL.T, 3 * y**2)
    assert converged
    close(y, np.linalg.solve(GENERAL, B[:, 0]))
    close(by_a, -np.outer(dual, y))
    close(by_b, dual)


def test_stacks_of_matrices_are_solved_side_by_side() -> None:
    stack = np.stack([DENSE, DENSE + np.eye(N)])
    sides = np.stack([B, 2 * B])
    x, info = gt.linalg.cg(stack, sides, **TIGHT)
    y, steps = values([x, info.steps])
    close(y, np.linalg.solve(stack, sides))
    assert steps.shape == (2, 2)


def test_a_preconditioner_and_a_start_save_steps() -> None:
    scales = np.geomspace(1, 1e4, N)
    hard = scales[:, None] * DENSE * scales
    exact = np.linalg.solve(hard, B)
    plain = gt.linalg.cg(hard, B, **TIGHT, on_error="ignore")
    better = gt.linalg.cg(hard, B, M=implicit.Diagonal(1 / np.diag(hard)), **TIGHT)
    begun = gt.linalg.cg(DENSE, B, np.linalg.solve(DENSE, B), rtol=1e-6)
    x, *steps = values([better[0], *[info.steps for _, info in (plain, better, begun)]])
    np.testing.assert_allclose(x, exact, rtol=1e-6)
    assert steps[1].max() < steps[0].min()
    assert steps[2].max() == 0


@pytest.mark.parametrize("solver", [gt.linalg.cg, gt.linalg.bicgstab])
def test_what_does_not_converge_is_never_silent(solver: Any) -> None:
    b = np.stack([np.zeros(N), B[:, 0]], -1)
    x, info = solver(DENSE, b, maxiter=2, **TIGHT)
    y, converged = values([x, info.converged])
    assert np.isnan(y[:, 1]).all()
    assert converged.tolist() == [True, False]
    assert not y[:, 0].any()
    rough, info = solver(DENSE, b, maxiter=2, on_error="ignore")
    y, residual = values([rough, info.residual])
    close(residual, np.linalg.norm(b - DENSE @ y, axis=0))
    stopping, _ = solver(DENSE, b, maxiter=2, on_error="raise", **TIGHT)
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        values(stopping)


def test_conjugate_gradients_refuse_matrices_that_are_not_positive() -> None:
    x, info = gt.linalg.cg(np.diag([1.0, -1.0]), [1.0, 1.0])
    y, converged = values([x, info.converged])
    assert np.isnan(y).all()
    assert not converged


def test_dtypes_are_those_of_products() -> None:
    single = gt.linalg.cg(DENSE.astype("float32"), B.astype("float32"))[0]
    mixed = gt.linalg.cg(DENSE.astype("float32"), B)[0]
    whole = gt.linalg.cg(np.array([[2, 1], [1, 3]]), [3, 4])[0]
    assert [x.dtype for x in (single, mixed, whole)] == ["float32", "float64", "float64"]
    close(values(whole), [1.0, 1.0], 1e-6)


def test_wrong_operands_are_refused_with_what_to_do() -> None:
    with pytest.raises(ShapeError, match="square"):
        gt.linalg.cg(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ShapeError, match="row for each"):
        gt.linalg.cg(DENSE, np.ones(3))
    with pytest.raises(ShapeError, match="argument's shape"):
        gt.linalg.cg(lambda v: v[1:], np.ones(3))
    with pytest.raises(DTypeError, match="complex"):
        gt.linalg.cg(DENSE * 1j, B)
    with pytest.raises(ArgumentError, match="neither a matrix"):
        gt.linalg.cg(3, B)
    with pytest.raises(ArgumentError, match="on_error"):
        gt.linalg.cg(DENSE, B, on_error="warn")
    with pytest.raises(ArgumentError, match="low_rank_preconditioner"):
        gt.linalg.stochastic_logdet(DENSE, gt.random.key(0), M=np.eye(N))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no shape"):
        gt.linalg.stochastic_logdet(lambda v: v, gt.random.key(0))


# Lanczos.


@pytest.mark.parametrize("mode", MODES)
def test_a_lanczos_basis_is_orthonormal_and_makes_a_tridiagonal_matrix(mode: str) -> None:
    basis, alpha, beta = values([*gt.linalg.lanczos(implicit_toeplitz(), B, 12)], mode)
    assert basis.shape == (2, N, 12)
    for q, a, b, start in zip(basis, alpha, beta, B.T, strict=True):
        close(q.T @ q, np.eye(12), 1e-13)
        close(q[:, 0], start / np.linalg.norm(start), 1e-13)
        inside = np.diag(a) + np.diag(b[:-1], 1) + np.diag(b[:-1], -1)
        close(q.T @ DENSE @ q, inside, 1e-12)
        left = DENSE @ q - q @ inside
        close(np.linalg.norm(left[:, -1]), b[-1], 1e-12)


def test_a_krylov_space_that_ends_gives_zeros() -> None:
    basis, _, beta = values([*gt.linalg.lanczos(np.diag([1.0, 1.0, 2.0]), np.ones(3), 3)])
    close(basis[:, 2], np.zeros(3))
    close(beta[1:], np.zeros(2), 1e-14)


def test_the_lanczos_process_is_differentiated_step_by_step() -> None:
    c = gt.vector("c", shape=(N,))
    t = gt.as_tensor(implicit.Toeplitz(c))

    def total(c: Any) -> float:
        matrix, q, before, b = scipy.linalg.toeplitz(c), B[:, 0] / np.linalg.norm(B[:, 0]), 0, 0
        found = 0.0
        for i in range(5):
            w = matrix @ q
            a = q @ w
            w = w - a * q - b * before
            before, b = q, np.linalg.norm(w)
            q, found = w / b, found + (i + 1) * a * b
        return found

    _, alpha, beta = gt.linalg.lanczos(t, B[:, 0], 5)
    slope = graphc.grad((alpha * beta * np.arange(1, 6)).sum(), c)
    close(values(slope, "NUMPY", [c], [COLUMN]), differences(total, COLUMN), 1e-6)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
def test_outer_eigenvalues_are_scipys(which: str) -> None:
    shifted = DENSE - 4.5 * np.eye(N)
    many = scipy.sparse.diags_array([np.linspace(-3, 2, 400)], offsets=[0]).tocsr()
    for a, k in ((shifted, 3), (many, 5), (np.eye(5), 2), (DENSE[:4, :4], 4)):
        w, v = values([*gt.linalg.eigsh(a, k, which=which)])
        whole = a.toarray() if scipy.sparse.issparse(a) else a
        order = np.linalg.eigvalsh(whole)
        key = {"LM": np.abs(order), "LA": order, "SA": -order}[which]
        close(w, np.sort(order[np.argsort(key, kind="stable")[len(order) - k :]]), 1e-9)
        close(v.T @ v, np.eye(k), 1e-9)
        close(whole @ v, v * w, 1e-7)


def test_eigenvalues_have_a_gradient_and_eigenvectors_say_that_they_have_none() -> None:
    c = gt.vector("c", shape=(N,))
    w, v = gt.linalg.eigsh(implicit.Toeplitz(c), 3, which="LA")
    weights = np.array([1.0, 2.0, 5.0])
    slope = values(graphc.grad((w * weights).sum(), c), "JAX", [c], [COLUMN])

    def total(c: Any) -> float:
        return float(np.linalg.eigvalsh(scipy.linalg.toeplitz(c))[-3:] @ weights)

    close(slope, differences(total, COLUMN), 1e-6)
    with pytest.raises(GradientError, match="eigenvectors have no derivative"):
        graphc.grad(v.sum(), c)
    with pytest.raises(GradientError, match="no second one"):
        graphc.grad((graphc.grad(w[0], c) ** 2).sum(), c)
    w, _ = values([*gt.linalg.eigsh(np.diag(np.linspace(0, 1, 300)), 2, maxiter=1)])
    assert np.isnan(w).all()


# Determinants.


def forms(a: Any, probes: int, key: int = 3) -> Any:
    """The quadratic forms of a logarithm, and the vectors."""
    bits = gt.random.random_bits(gt.random.key(key), (len(a), probes)).eval(mode="NUMPY")
    z = 1.0 - 2.0 * (bits & 1)
    w, v = np.linalg.eigh(a)
    return (z * ((v * np.log(w)) @ v.T @ z)).sum(0), z


@pytest.mark.parametrize("mode", MODES)
def test_a_stochastic_logdet_is_the_mean_of_quadratic_forms(mode: str) -> None:
    c = gt.vector("c", shape=(N,))
    found = gt.linalg.stochastic_logdet(
        implicit.Toeplitz(c), gt.random.key(3), probes=9, steps=20, lower=1.5, rtol=1e-12
    )
    slope = graphc.grad(found.value, c)
    value, error, excess, by_column = values([*found, slope], mode, [c], [COLUMN])
    wanted, z = forms(DENSE, 9)
    close(value, wanted.mean())
    close(error, wanted.std(ddof=1) / 3)
    assert 0 <= excess < 1e-8
    assert abs(value - np.linalg.slogdet(DENSE)[1]) < 3 * error
    solved = np.linalg.solve(DENSE, z)
    slopes = [(solved * (scipy.linalg.toeplitz(e) @ z)).sum() / 9 for e in np.eye(N)]
    close(by_column, slopes)


def test_the_quadrature_error_bounds_what_few_steps_give() -> None:
    w = np.geomspace(0.1, 100, 200)
    a = scipy.linalg.qr(RNG.normal(size=(200, 200)))[0]
    a = (a * w) @ a.T
    exact = forms(a, 4)[0].mean()
    seen = []
    for steps in (3, 6, 12):
        value, _, excess = values(
            [*gt.linalg.stochastic_logdet(a, gt.random.key(3), probes=4, steps=steps, lower=0.09)]
        )
        assert 0 < value - exact <= excess
        seen.append(excess)
    assert seen[2] < seen[1] < seen[0]
    for lower, check in ((None, np.isinf), (5.0, np.isnan)):
        found = gt.linalg.stochastic_logdet(a, gt.random.key(3), steps=12, lower=lower)
        assert check(values(found.quadrature_error))


def kernel(n: int = 80, noise: float = 0.1) -> tuple[Any, Any]:
    x = np.random.default_rng(5).normal(size=(n, 2))
    k = np.exp(-((x[:, None] - x) ** 2).sum(-1) / 2)
    return k, k + noise * np.eye(n)


def test_a_partial_factor_leaves_a_positive_matrix_and_is_the_textbooks() -> None:
    k, _ = kernel()
    low = values(gt.linalg.pivoted_cholesky(k, 12))
    left, wanted = np.diag(k).copy(), np.zeros((80, 0))
    for _ in range(12):
        i = left.argmax()
        column = (k[:, i] - wanted @ wanted[i]) / np.sqrt(left[i])
        wanted = np.column_stack([wanted, column])
        left = np.maximum(left - column**2, 0)
        left[i] = 0
    close(low, wanted)
    assert np.linalg.eigvalsh(k - low @ low.T).min() > -1e-10
    flat = values(gt.linalg.pivoted_cholesky(np.ones((4, 4)), 3))
    close(flat, np.eye(4)[:, :0] @ np.zeros((0, 3)) + np.outer(np.ones(4), [1, 0, 0]))


def test_a_low_rank_preconditioner_knows_its_inverse_roots_and_determinant() -> None:
    low, x = RNG.normal(size=(N, 5)), RNG.normal(size=(N, 2))
    m = gt.linalg.low_rank_preconditioner(low, 0.3)
    p = low @ low.T + 0.3 * np.eye(N)
    root = scipy.linalg.sqrtm(p)
    found = values([m @ x, m.root(x), m.inverse_root(x), m.logdet(), m @ x[:, 0]])
    inverse = np.linalg.inv(p) @ x
    wanted = [inverse, root @ x, np.linalg.solve(root, x), np.linalg.slogdet(p)[1], inverse[:, 0]]
    for a, b in zip(found, wanted, strict=True):
        close(a, b)


@pytest.mark.parametrize("mode", MODES)
def test_the_parts_of_a_gaussian_likelihood_share_their_solutions(mode: str) -> None:
    k, whole = kernel()
    noise, y = gt.scalar("noise"), gt.vector("y", shape=(80,))
    m = gt.linalg.low_rank_preconditioner(gt.linalg.pivoted_cholesky(k, 25), noise)
    quad, logdet, info = gt.linalg.inv_quad_logdet(
        lambda v: gt.constant(k) @ v + noise * v, y, gt.random.key(1),
        M=m, probes=12, steps=30, rtol=1e-11,
    )  # fmt: skip
    slopes = [*graphc.grad(quad, [noise, y]), graphc.grad(logdet.value, noise)]
    curve = graphc.grad(slopes[0], noise)
    given = np.sin(np.arange(80.0))
    value, log, error, excess, by_noise, by_y, log_slope, second, converged = values(
        [quad, *logdet, *slopes, curve, info.converged], mode, [noise, y], [0.1, given]
    )
    x = np.linalg.solve(whole, given)
    assert converged.all()
    assert converged.shape == (13,)
    close(value, given @ x)
    close(by_y, 2 * x)
    close(by_noise, -x @ x)
    close(second, 2 * x @ np.linalg.solve(whole, x), 1e-6)
    exact = np.linalg.slogdet(whole)[1]
    assert abs(log - exact) < 3 * error + excess
    assert error < 0.02 * abs(exact)
    assert abs(log_slope - np.trace(np.linalg.inv(whole))) < 20


def test_columns_have_a_quadratic_form_each() -> None:
    quad, _, _ = gt.linalg.inv_quad_logdet(DENSE, B, gt.random.key(1), rtol=1e-11)
    close(values(quad), (B * np.linalg.solve(DENSE, B)).sum(0))
