"""What is known of matrices: it holds of random ones, saves work, and changes no result."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import HealthCheck, given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, RuntimeShapeError, ShapeError
from graphc.ir import Graph, Node
from graphc.rewrite import optimize
from graphc.rewrite.facts.facts import Definiteness
from graphc.rewrite.facts.structure import facts_of
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.determinant import Det, SlogDet
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.lu import LU
from graphc.tensor.linalg.solve import Solve
from tests.modes import uncompiled
from tests.reference import evaluate

N = 4
a, b = gt.tensor("a", shape=(N, N)), gt.tensor("b", shape=(N, N))
v, tall = gt.tensor("v", shape=(N,)), gt.tensor("tall", shape=(7, N))
batch, z = gt.tensor("batch", shape=(2, N, N)), gt.tensor("z", dtype="complex128", shape=(N, N))
turn = gt.tensor("turn", shape=(N, N))

random = np.random.default_rng(5)
VALUES: dict[Node, Any] = {x: random.normal(size=x.type.shape) for x in (a, b, v, tall, batch)} | {
    z: random.normal(size=(N, N)) + 1j * random.normal(size=(N, N)),
    turn: np.linalg.qr(random.normal(size=(N, N)))[0],
}

# Matrices that something is known of, and how others are made of them.

LEAVES = [
    a, b, a.T, turn, batch, z,
    gt.eye(N), gt.eye(N, k=1), gt.diag(v), gt.diag(gt.exp(v)), gt.diag(v[1:], -1),
    gt.tril(a), gt.triu(b, 1), gt.tril(gt.triu(a, -1), 1), gt.zeros((N, N)), gt.ones((N, N)),
    gt.constant(np.eye(N)[[1, 2, 3, 0]]), gt.constant(np.tri(N)), tall.T @ tall,
    gt.assume(turn, orthogonal=True), (tall[:, :, None] * tall[:, None, :]).sum(0),
    gt.square(v[:, None] - v[None, :]), gt.outer(v, v), z + gt.conj(z.T),
    z @ gt.conj(z).T,
]  # fmt: skip

ONE: list[Any] = [
    gt.matrix_transpose,
    lambda x: -x,
    lambda x: 2.5 * x,
    lambda x: x * gt.exp(v[0]),
    lambda x: x + gt.matrix_transpose(x),
    lambda x: gt.matmul(x, gt.conj(gt.matrix_transpose(x))),
    lambda x: gt.matmul(x, gt.matrix_transpose(x)) + 0.5 * gt.eye(x.type.shape[-1]),
    gt.sin,
    gt.square,
    lambda x: gt.cos(gt.real(x)),
    lambda x: gt.exp(gt.real(x) / 4),
    gt.tril,
    lambda x: gt.triu(x, -1),
    lambda x: gt.fill_diagonal(x, 0) if x.ndim == 2 else x,
    lambda x: x[..., :3, :3],
    lambda x: gt.linalg.block_diag(x, gt.full((1, 1), 2.0, dtype=x.dtype)),
    lambda x: gt.linalg.kron(x, np.array([[2.0, 1.0], [1.0, 2.0]])) if x.ndim == 2 else x,
    lambda x: gt.broadcast_to(x, (3, *x.type.shape)) if x.ndim == 2 else x.sum(0),
]  # fmt: skip

TWO: list[Any] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    gt.matmul,
    lambda x, y: gt.matmul(gt.matmul(gt.matrix_transpose(x), y), x),
    lambda x, y: gt.where(gt.real(x) > 0, y, 0),
    lambda x, y: gt.linalg.block_diag(x, y) if x.ndim == y.ndim else x,
    lambda x, y: gt.linalg.kron(x, y) if x.ndim == y.ndim == 2 and x.type.shape[0] < 9 else x,
]  # fmt: skip


@st.composite
def matrices(draw: Any) -> Any:
    """Matrices, each made of those before it."""
    pool = [draw(st.sampled_from(LEAVES)) for _ in range(3)]
    for _ in range(draw(st.integers(1, 8))):
        x, y = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        if draw(st.booleans()) and x.type.shape[-1] == y.type.shape[-1]:
            pool.append(draw(st.sampled_from(TWO))(x, y))
        else:
            pool.append(draw(st.sampled_from(ONE))(x))
        if pool[-1].type.shape[-1] > 20:
            pool.pop()
    return pool


def has_zeros(x: np.ndarray, where: Any) -> bool:
    """Whether elements are zero on the diagonals that a condition holds of."""
    above = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
    return not np.any(x[..., where(above)])


def is_symmetric(x: np.ndarray) -> bool:
    size = np.max(np.abs(x), initial=1.0)
    return np.allclose(x, np.conj(np.swapaxes(x, -1, -2)), atol=1e-12 * size)


def is_positive(x: np.ndarray) -> bool:
    """Semidefinite, as far as roundings let that be seen."""
    size = np.max(np.abs(x), initial=1.0)
    return is_symmetric(x) and bool(np.all(np.linalg.eigvalsh(x) > -1e-11 * size))


def is_orthogonal(x: np.ndarray) -> bool:
    adjoint = np.conj(np.swapaxes(x, -1, -2))
    return np.allclose(x @ adjoint, np.eye(x.shape[-1]), atol=1e-10)


def is_selection(x: np.ndarray) -> bool:
    single = np.all((x == 0) | (x == 1)) and np.all((x == 1).sum(-1) == 1)
    return bool(single and (x != 0).sum(-2).max() <= 1)


DEFINITIONS: dict[str, Any] = {
    "diagonal": lambda x: has_zeros(x, lambda above: above != 0),
    "lower_triangular": lambda x: has_zeros(x, lambda above: above > 0),
    "upper_triangular": lambda x: has_zeros(x, lambda above: above < 0),
    "tridiagonal": lambda x: has_zeros(x, lambda above: np.abs(above) > 1),
    "symmetric": is_symmetric,
    "positive_definite": is_positive,
    "orthogonal": is_orthogonal,
    "selection": is_selection,
    "permutation": lambda x: is_selection(x) and bool(np.all((x != 0).sum(-2) == 1)),
}


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(matrices())
def test_what_is_known_of_a_random_matrix_holds(xs: list[Any]) -> None:
    done = optimize(Graph([*VALUES], xs)).graph.outputs
    values = evaluate(xs, VALUES)
    for made, value in zip([*xs, *done], [*values, *values], strict=True):
        known = facts_of(made)
        low, high = known.band
        assert has_zeros(value, lambda above, low=low, high=high: (above < low) | (above > high))
        assert not known.definite or is_positive(value)
        wrong = [name for name in known.held if not DEFINITIONS[name](value)]
        wrong += [name for name in known.denied if DEFINITIONS[name](value)]
        assert not wrong


@settings(max_examples=60, deadline=None, derandomize=True)
@given(matrices())
def test_linear_algebra_of_a_random_matrix_keeps_its_values(xs: list[Any]) -> None:
    x = xs[-1]
    # A multiple of the identity makes it regular, and leaves most of what is known of it.
    (raw,) = evaluate([x], VALUES)
    if x.type.dtype != "float64" or raw.shape[-1] != raw.shape[-2] or not raw.size:
        return
    regular = x + (2 * np.max(np.abs(raw).sum(-1)) + 1) * gt.eye(raw.shape[-1])
    sides = gt.constant(np.arange(1.0, 1 + 2 * raw.shape[-1]).reshape(-1, 2))
    sides = gt.broadcast_to(sides, (*raw.shape[:-2], *sides.type.shape))
    outputs = [
        gt.Tensor.make(Solve("gen", False), regular, sides),
        gt.matmul(gt.linalg.inv(regular), gt.matrix_transpose(regular)),
        gt.log(gt.abs(gt.Tensor.make(Det("gen"), regular))),
        gt.linalg.slogdet(gt.matrix_transpose(regular))[1],
        gt.diagonal(gt.matmul(regular, regular), 0, -2, -1),
    ]
    done = optimize(Graph([*VALUES], outputs), checking=True).graph.outputs
    for made, found, wanted in zip(
        done, evaluate(done, VALUES), evaluate(outputs, VALUES), strict=True
    ):
        scale = np.max(np.abs(wanted), initial=0.0)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11 * scale, err_msg=str(made))


# What it saves.


def factorisations(f: Any) -> dict[str, int]:
    """How often each kind of factors is computed by the program that runs."""
    names = re.findall(r"= (cholesky|lu|solve_triangular|cholesky_inverse)\(", str(f.plan()))
    return {name: names.count(name) for name in {*names}}


@pytest.mark.parametrize("backend", ["NUMPY", "JAX", "MLX"])
def test_a_likelihood_and_its_gradient_share_one_factor(backend: str) -> None:
    matrix, y = gt.matrix("matrix"), gt.vector("y")
    known = gt.assume(matrix, positive_definite=True)
    fit = y @ gt.linalg.solve(known, y)
    value = -(fit + gt.linalg.logdet(known)) / 2
    f = graphc.function(
        [matrix, y], [value, *graphc.grad(value, [matrix, y])], mode=uncompiled(backend)
    )
    random = np.random.default_rng(0)
    x = random.normal(size=(6, 6))
    x, right = x @ x.T + np.eye(6), random.normal(size=6)
    found, by_matrix, by_y = map(np.asarray, f(x, right))
    assert factorisations(f) == {"cholesky": 1, "solve_triangular": 2, "cholesky_inverse": 1}
    inverse = np.linalg.inv(x)
    weights = inverse @ right
    np.testing.assert_allclose(found, -(right @ weights + np.linalg.slogdet(x)[1]) / 2, rtol=1e-10)
    np.testing.assert_allclose(by_y, -weights, rtol=1e-8)
    np.testing.assert_allclose(by_matrix, (np.outer(weights, weights) - inverse) / 2, rtol=1e-8)


@pytest.mark.parametrize("backend", ["NUMPY", "JAX", "MLX"])
def test_a_general_matrix_is_factorised_once(backend: str) -> None:
    x, y = gt.tensor("x", shape=(5, 5)), gt.vector("y")
    value = gt.log(gt.abs(gt.linalg.det(x))) + (gt.linalg.inv(x) @ y).sum()
    f = graphc.function([x, y], [value, *graphc.grad(value, [x, y])], mode=uncompiled(backend))
    given = random.normal(size=(5, 5)), random.normal(size=5)
    found, by_x, by_y = map(np.asarray, f(*given))
    assert factorisations(f)["lu"] == 1
    inverse = np.linalg.inv(given[0])
    weights = inverse @ given[1]
    np.testing.assert_allclose(found, np.linalg.slogdet(given[0])[1] + weights.sum(), rtol=1e-9)
    np.testing.assert_allclose(by_y, inverse.sum(0), rtol=1e-8)
    np.testing.assert_allclose(
        by_x, inverse.T - np.outer(inverse.sum(0), weights), rtol=1e-7, atol=1e-9
    )


def operations(y: Any, kind: Any) -> list[Any]:
    """The operations of a kind in a rewritten graph."""
    graph = optimize(Graph([*VALUES], [y])).graph
    return [node.op for node in graph.nodes if isinstance(node.op, kind)]


@pytest.mark.parametrize(
    ("matrix", "assume"),
    [
        (tall.T @ tall + 1e-3 * gt.eye(N), "pos"),
        (gt.exp(v[0]) * (a @ a.T) + gt.diag(gt.exp(v)), "pos"),
        (gt.tril(a), "lower triangular"),
        (gt.tril(a).T, "lower triangular"),
        (gt.diag(v) @ gt.diag(v), "diagonal"),
        (gt.diag(gt.exp(v)) + gt.diag(v[1:], 1) + gt.diag(v[1:], -1), "tridiagonal"),
        (gt.tril(gt.triu(tall.T @ tall + gt.eye(N), -1), 1), "tridiagonal"),
        (gt.linalg.qr(a)[0], "orthogonal"),
        (gt.linalg.qr(a)[1], "upper triangular"),
        (gt.linalg.cholesky(a), "lower triangular"),
        (gt.assume(a, positive_definite=True)[:3, :3], "pos"),
        (a, "gen"),
        (a + a.T, "gen"),
    ],
)
def test_the_cheapest_solver_is_found(matrix: Any, assume: str) -> None:
    y = gt.linalg.solve(matrix, v[: matrix.type.shape[0]])
    assert [op.assume for op in operations(y, Solve)] == [assume]


@pytest.mark.parametrize("backend", ["NUMPY", "JAX", "MLX"])
def test_blocks_are_dealt_with_one_by_one(backend: str) -> None:
    one, other, y = gt.tensor("one", shape=(3, 3)), gt.matrix("other"), gt.tensor("y", shape=(5,))
    lower = gt.tensor("lower", shape=(2, 2))
    k = gt.linalg.block_diag(one @ one.T + gt.eye(3), gt.assume(other, positive_definite=True))
    fit = y @ gt.linalg.solve(k, y) + gt.log(gt.linalg.det(k))
    mixed = gt.linalg.block_diag(one, gt.tril(lower))
    wholes = [
        gt.linalg.inv(mixed),
        gt.linalg.slogdet(mixed.T)[1],
        k.T @ mixed @ y,
        gt.linalg.cholesky(k),
        gt.linalg.solve(k, mixed, assume_a="pos"),
    ]
    outputs = [fit, *graphc.grad(fit, [one, other, y]), *wholes]
    f = graphc.function([one, other, y, lower], outputs, mode=uncompiled(backend))
    rng = np.random.default_rng(3)
    given = [rng.normal(size=(3, 3)), rng.normal(size=(2, 2)), rng.normal(size=5)]
    given[1] = given[1] @ given[1].T + np.eye(2)
    given.append(rng.normal(size=(2, 2)) + 3 * np.eye(2))
    value, by_one, by_other, by_y, *found = map(np.asarray, f(*given))
    assert factorisations(f)["cholesky"] == 2
    assert factorisations(f)["lu"] == 1
    whole = scipy.linalg.block_diag(given[0] @ given[0].T + np.eye(3), given[1])
    second = scipy.linalg.block_diag(given[0], np.tril(given[3]))
    weights, inverse = np.linalg.solve(whole, given[2]), np.linalg.inv(whole)
    slope = inverse - np.outer(weights, weights)
    np.testing.assert_allclose(value, given[2] @ weights + np.linalg.slogdet(whole)[1], rtol=1e-9)
    np.testing.assert_allclose(by_y, 2 * weights, rtol=1e-8)
    np.testing.assert_allclose(by_one, 2 * slope[:3, :3] @ given[0], rtol=1e-7)
    np.testing.assert_allclose(by_other, slope[3:, 3:], rtol=1e-7)
    wanted = [
        np.linalg.inv(second),
        np.linalg.slogdet(second)[1],
        whole @ second @ given[2],
        np.linalg.cholesky(whole),
        np.linalg.solve(whole, second),
    ]
    for got, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)


def test_determinants_of_what_is_taken_apart_do_not_overflow() -> None:
    x, y = gt.tensor("x", shape=(200, 200)), gt.tensor("y", shape=(200, 200))
    large = 1e3 * np.eye(200)
    for matrix in (gt.linalg.block_diag(x, y), gt.tril(x) @ gt.triu(y)):
        f = graphc.function([x, y], gt.log(gt.linalg.det(matrix)), mode="NUMPY")
        np.testing.assert_allclose(f(large, large), 400 * np.log(1e3))


@pytest.mark.parametrize("backend", ["NUMPY", "JAX", "MLX"])
def test_three_diagonals_are_solved_as_such(backend: str) -> None:
    d, e, y = (gt.tensor(name, shape=(n,)) for name, n in (("d", 50), ("e", 49), ("y", 50)))
    matrix = gt.diag(d) + gt.diag(e, 1) + gt.diag(e, -1)
    x = gt.linalg.solve(matrix, y)
    f = graphc.function([d, e, y], [x, *graphc.grad(x.sum(), [d, e, y])], mode=uncompiled(backend))
    rng = np.random.default_rng(4)
    given = rng.uniform(3, 4, 50), rng.normal(size=49) / 2, rng.normal(size=50)
    found, by_d, by_e, by_y = map(np.asarray, f(*given))
    assert factorisations(f) == {}
    assert "solve_tridiagonal" in str(f.plan())
    whole = np.diag(given[0]) + np.diag(given[1], 1) + np.diag(given[1], -1)
    x_wanted, back = np.linalg.solve(whole, given[2]), np.linalg.solve(whole, np.ones(50))
    np.testing.assert_allclose(found, x_wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_y, back, rtol=1e-9)
    np.testing.assert_allclose(by_d, -back * x_wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        by_e, -back[1:] * x_wanted[:-1] - back[:-1] * x_wanted[1:], rtol=1e-8, atol=1e-12
    )


def test_no_inverse_is_left_where_it_is_multiplied() -> None:
    y = gt.linalg.inv(a) @ b + v @ gt.linalg.inv(a)
    assert not operations(y, Inverse)
    assert len(operations(y, Solve)) == 2


def test_determinants_do_not_overflow() -> None:
    x = gt.matrix("x")
    f = graphc.function([x], gt.log(gt.linalg.det(x)), mode="NUMPY")
    np.testing.assert_allclose(f(np.eye(400) * 1e3), 400 * np.log(1e3))
    assert np.isnan(f(-np.eye(401)))


def test_factors_are_found_again_however_they_are_written() -> None:
    known = gt.assume(a, positive_definite=True)
    lower = gt.linalg.cholesky(known)
    y = gt.linalg.solve(known, v, assume_a="pos").sum() + gt.log(gt.diag(lower)).sum()
    f = graphc.function([a, v], y + gt.linalg.logdet(known), mode="NUMPY")
    f(np.eye(N), np.ones(N))
    assert factorisations(f)["cholesky"] == 1
    assert not operations(lower @ lower.T, Cholesky)
    assert not operations(gt.linalg.solve(a, a @ b), (Solve, LU, SlogDet))


# What may be said.


def test_what_is_denied_may_not_follow_from_what_is_said() -> None:
    with pytest.raises(ArgumentError, match="positive_definite and not symmetric"):
        gt.assume(a, positive_definite=True, symmetric=False)
    with pytest.raises(ArgumentError, match="known to be: diagonal"):
        facts_of(gt.assume(gt.diag(v), diagonal=False))


def test_vectors_and_oblong_matrices_are_not_what_squares_are() -> None:
    with pytest.raises(ShapeError, match="expected a matrix"):
        gt.assume(v, diagonal=True)
    with pytest.raises(ShapeError, match="not square cannot be orthogonal"):
        gt.assume(tall, orthogonal=True)
    assert gt.assume(tall, upper_triangular=True).type is tall.type


def test_a_matrix_of_unknown_lengths_that_is_not_square_is_refused_when_it_runs() -> None:
    x = gt.matrix("x")
    f = graphc.function([x], gt.assume(x, symmetric=True) * 2, mode="NUMPY")
    with pytest.raises(RuntimeShapeError, match="specify_shape"):
        f(np.ones((2, 3)))
    assert np.all(f(np.ones((2, 2))) == 2)


def test_nothing_said_is_the_array_itself() -> None:
    assert gt.assume(a) is a
    assert facts_of(gt.assume(a, symmetric=False))["symmetric"] is False
    assert facts_of(a)["symmetric"] is None
    assert facts_of(a @ a.T).definite is Definiteness.SEMI


def test_the_imaginary_part_of_a_hermitian_matrix_is_not_symmetric() -> None:
    h = gt.zmatrix("h")
    product = h @ gt.conj(h.T)
    value = np.array([[1, 2j], [3 + 1j, -1]])
    whole = (value @ value.conj().T).T
    parts = [gt.imag(product).T, gt.angle(product).T, gt.real(product).T, gt.abs(product).T]
    found = graphc.function([h], parts, mode="NUMPY")(value)
    for y, wanted in zip(found, (whole.imag, np.angle(whole), whole.real, abs(whole)), strict=True):
        np.testing.assert_allclose(y, wanted, atol=1e-12)


AS_WRITTEN = graphc.Mode("NUMPY", excluding=["all"])
ODD = np.array([[4.0, 1, 2], [1, 5, 1], [3, 1, 6]])
SMALL = np.array([[3.0, 1], [1, 2]])


def stays(inputs: list[Any], y: Any, *values: Any) -> None:
    """Raise where rewriting changes the value."""
    found, wanted = (
        graphc.function(inputs, y, mode=mode, on_unused_input="ignore")(*values)
        for mode in ("NUMPY", AS_WRITTEN)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mask", [[[True], [False], [False]], [[True, True, False]]])
def test_a_mask_that_is_repeated_is_no_triangle(mask: Any) -> None:
    x = gt.tensor("x", shape=(3, 3))
    chosen = gt.where(np.array(mask), x, 0.0)
    stays([x], gt.linalg.inv(chosen + gt.eye(3)), ODD)
    other = gt.where(np.array(mask), x, 1.0)
    stays([x], gt.linalg.solve_triangular(other, gt.ones(3), lower=True), ODD)


@pytest.mark.parametrize(
    "kind", ["lower triangular", "upper triangular", "tridiagonal", "diagonal", "gen", "orthogonal"]
)
def test_what_a_solver_leaves_out_it_leaves_out_of_products_and_inverses_too(kind: str) -> None:
    y, z = gt.tensor("y", shape=(3, 3)), gt.tensor("z", shape=(2, 2))
    product = gt.linalg.kron(y, z)
    stays([y, z], gt.linalg.solve(product, gt.arange(6.0), assume_a=kind), ODD, SMALL)
    inverse = gt.linalg.inv(y)
    stays([y, z], gt.linalg.solve(inverse, gt.arange(3.0), assume_a=kind), ODD, SMALL)


def test_a_hermitian_matrix_is_not_symmetric() -> None:
    h = gt.tensor("h", shape=(2, 2), dtype="complex128")
    known = gt.assume(h, positive_definite=True)
    y = gt.linalg.solve(known, gt.ones(2), assume_a="sym")
    stays([h], y, np.array([[3, 1j], [-1j, 3]]))
