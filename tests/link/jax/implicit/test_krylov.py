"""Krylov methods of JAX's arrays, implicit ones among them, against dense linear algebra."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest
import scipy.sparse

import graphc.tensor as gt
from graphc import implicit
from graphc.errors import ArgumentError, GradientError

N = 16
COLUMN = np.r_[4.0, 1.0, 0.5, 0.2, np.zeros(N - 4)]
B = np.random.default_rng(0).normal(size=N)
TIGHT = {"rtol": 1e-12}
linalg = implicit.linalg


@pytest.fixture(autouse=True)
def _in_64_bits() -> Iterator[None]:
    with jax.enable_x64(True), implicit.materializing("error"):
        yield


def toeplitz(column: Any) -> Any:
    return implicit.Toeplitz(column)


def dense(column: Any) -> Any:
    i = jnp.arange(N)
    return jnp.asarray(column)[jnp.abs(i[:, None] - i)]


def close(a: Any, b: Any, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def by_cg(a: Any, b: Any) -> Any:
    return (linalg.cg(lambda v: a @ v + 0.5 * v, b, **TIGHT)[0] ** 3).sum()


def by_bicgstab(a: Any, b: Any) -> Any:
    near = implicit.Diagonal(1 / jnp.arange(4.0, 4.0 + N))
    return (linalg.bicgstab(a, b, M=near, **TIGHT)[0] ** 3).sum()


def by_quadratic_form(a: Any, b: Any) -> Any:
    return linalg.inv_quad_logdet(a, b, jax.random.key(0), probes=2, steps=2, **TIGHT)[0]


CASES: dict[str, tuple[Any, Any]] = {
    "cg": (by_cg, lambda a, b: (jnp.linalg.solve(a + 0.5 * jnp.eye(N), b) ** 3).sum()),
    "bicgstab": (by_bicgstab, lambda a, b: (jnp.linalg.solve(a, b) ** 3).sum()),
    "quadratic form": (by_quadratic_form, lambda a, b: b @ jnp.linalg.solve(a, b)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("within", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_solutions_have_derivatives_by_fields_outside_and_within_implicit_functions(
    name: str, within: bool
) -> None:
    function, whole = CASES[name]
    made = implicit.implicit(function) if within else function

    def of(column: Any) -> Any:
        return made(toeplitz(column), B)

    def wanted(column: Any) -> Any:
        return whole(dense(column), jnp.asarray(B))

    def values(f: Any, gradient_of_field: Any, column: Any) -> list[Any]:
        slope = jax.grad(f)(column)
        curve = jax.grad(lambda c: (jax.grad(f)(c) ** 2).sum())(column)
        _, tangent = jax.jvp(f, (column,), (column**2,))
        return [f(column), slope, gradient_of_field(column), tangent, curve]

    column = jnp.asarray(COLUMN)
    by_field = jax.grad(made)
    own = jax.jit(lambda c: values(of, lambda c: by_field(toeplitz(c), jnp.asarray(B)).column, c))
    dense_values = jax.jit(lambda c: values(wanted, jax.grad(wanted), c))
    tolerances = (1e-8, 1e-8, 1e-8, 1e-8, 1e-6)
    for y, expected, tolerance in zip(own(column), dense_values(column), tolerances, strict=True):
        close(y, expected, tolerance)


def test_gradients_and_batches_may_stand_within_an_implicit_function() -> None:
    def slope(a: Any, b: Any) -> Any:
        return jax.grad(lambda b: by_cg(a, b))(b)

    def many(a: Any, scales: Any) -> Any:
        return jax.vmap(lambda s: linalg.cg(lambda v: a @ v + s * v, B, **TIGHT)[0])(scales)

    t, scales = toeplitz(jnp.asarray(COLUMN)), jnp.array([0.0, 1.0, 3.0])
    whole = dense(COLUMN)
    x = np.linalg.solve(whole + 0.5 * np.eye(N), B)
    close(implicit.implicit(slope)(t, B), np.linalg.solve(whole + 0.5 * np.eye(N), 3 * x**2))
    wanted = [np.linalg.solve(whole + s * np.eye(N), B) for s in scales]
    close(implicit.implicit(many)(t, scales), wanted)


@pytest.mark.exhaustive
def test_a_logdet_and_its_gradient_are_those_of_the_same_vectors() -> None:
    key = jax.random.key(4)
    z = np.asarray(1 - 2 * (jax.random.bits(key, (N, 6), "uint32") & 1).astype(float))

    def estimate(a: Any) -> Any:
        return linalg.stochastic_logdet(a, key, probes=6, steps=N, **TIGHT).value

    t, whole = toeplitz(jnp.asarray(COLUMN)), dense(COLUMN)
    w, v = np.linalg.eigh(whole)
    close(estimate(t), (z * ((v * np.log(w)) @ v.T @ z)).sum() / 6)
    solved = np.linalg.solve(whole, z)
    wanted = [(solved * (dense(e) @ z)).sum() / 6 for e in np.eye(N)]
    for function in (estimate, implicit.implicit(estimate), jax.jit(implicit.implicit(estimate))):
        close(jax.grad(function)(t).column, wanted)


@pytest.mark.exhaustive
def test_eigenvalues_have_a_first_derivative() -> None:
    def largest(column: Any) -> Any:
        return linalg.eigsh(toeplitz(column), 2, which="LA")[0] @ jnp.array([1.0, 3.0])

    def wanted(column: Any) -> Any:
        return jnp.linalg.eigvalsh(dense(column))[-2:] @ jnp.array([1.0, 3.0])

    column = jnp.asarray(COLUMN)
    close(largest(column), wanted(column))
    close(jax.grad(largest)(column), jax.grad(wanted)(column))
    with pytest.raises(GradientError, match="no second one"):
        jax.hessian(largest)(column)
    with pytest.raises(GradientError, match="eigenvectors have no derivative"):
        jax.grad(lambda c: linalg.eigsh(toeplitz(c), 2)[1].sum())(column)


@pytest.mark.exhaustive
def test_a_preconditioner_of_pivots_saves_steps() -> None:
    x = jnp.linspace(0.0, 5.0, 60)[:, None]
    k = implicit.KernelMatrix.of(x, lengthscale=2.0)
    near = linalg.low_rank_preconditioner(linalg.pivoted_cholesky(k, 12), 0.01)
    sides = jnp.cos(jnp.arange(60.0))
    plain = linalg.cg(lambda v: k @ v + 0.01 * v, sides, **TIGHT)
    better = linalg.cg(lambda v: k @ v + 0.01 * v, sides, M=near, **TIGHT)
    close(plain[0], better[0], 1e-7)
    assert better[1].steps < plain[1].steps / 2


def test_what_does_not_converge_is_nan() -> None:
    t = toeplitz(jnp.asarray(COLUMN))
    x, info = jax.jit(lambda t: linalg.cg(t, B, maxiter=1, **TIGHT))(t)
    assert jnp.isnan(x).all()
    assert not info.converged
    with pytest.raises(ArgumentError, match="on_error"):
        linalg.cg(t, B, on_error="raise")


def test_a_lanczos_basis_makes_a_tridiagonal_matrix() -> None:
    t = toeplitz(jnp.asarray(COLUMN))
    basis, alpha, beta = linalg.lanczos(t, B, 6)
    inside = np.diag(alpha) + np.diag(beta[:-1], 1) + np.diag(beta[:-1], -1)
    close(basis.T @ dense(COLUMN) @ basis, inside)


@pytest.mark.parametrize("lower", [False, True])
def test_systems_assumed_to_be_positive_are_solved_by_structure(lower: bool) -> None:
    left, right = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[4.0, 0.5], [0.5, 3.0]])

    def solved(a: Any, b: Any) -> Any:
        return jax.scipy.linalg.solve(a, b, assume_a="pos", lower=lower)

    k = implicit.Kronecker(jnp.asarray(left), jnp.asarray(right))
    for b in (B[:4], B.reshape(4, 4)):
        close(
            implicit.implicit(solved)(k, jnp.asarray(b)), np.linalg.solve(np.kron(left, right), b)
        )


def test_jaxs_own_solvers_may_give_more_than_a_solution() -> None:
    def solved(a: Any, b: Any) -> Any:
        def solve(product: Any, b: Any) -> Any:
            return jnp.linalg.solve(dense(COLUMN), b), jnp.sum(b)

        x, total = jax.lax.custom_linear_solve(
            lambda v: a @ v, b, solve, symmetric=True, has_aux=True
        )
        return x, total

    x, total = implicit.implicit(solved)(toeplitz(jnp.asarray(COLUMN)), B)
    close(x, np.linalg.solve(dense(COLUMN), B))
    close(total, B.sum())


def from_dict(column: Any) -> Any:
    arrays = {"a": dense(column)}
    return lambda v: arrays["a"] @ v


def from_default(column: Any) -> Any:
    a = dense(column)
    return lambda v, a=a: a @ v


class Operator:
    def __init__(self, column: Any) -> None:
        self.column = column

    def multiply(self, v: Any) -> Any:
        return toeplitz(self.column) @ v


OPERATORS: dict[str, Any] = {
    "NumPy": lambda c: np.asarray(dense(c)),
    "list": lambda c: np.asarray(dense(c)).tolist(),
    "SciPy": lambda c: scipy.sparse.csr_array(np.asarray(dense(c))),
    "implicit array of NumPy": lambda c: toeplitz(np.asarray(c)),
    "JAX": dense,
    "attribute": lambda c: Operator(c).multiply,
    "dict": from_dict,
    "default argument": from_default,
    "partial": lambda c: functools.partial(jnp.matmul, dense(c)),
    "jit": lambda c: jax.jit(Operator(c).multiply),
}


def solution_of(solver: Any) -> Any:
    def solve(operator: Any) -> Any:
        x, info = solver(operator, B, **TIGHT)
        close(x, np.linalg.solve(dense(COLUMN), B))
        return x, info.steps

    return solve


METHODS: dict[str, Any] = {
    "cg": solution_of(linalg.cg),
    "bicgstab": solution_of(linalg.bicgstab),
    "lanczos": lambda operator: linalg.lanczos(operator, B, 3).alpha,
    "eigsh": lambda operator: linalg.eigsh(operator, 2, v0=B)[0],
}


@pytest.mark.sample("name", "method")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OPERATORS)
def test_functions_of_implicit_linalg_return_arrays_of_jax(name: str, method: str) -> None:
    results = METHODS[method](OPERATORS[name](jnp.asarray(COLUMN)))
    assert all(isinstance(y, jax.Array) for y in jax.tree.leaves(results))


def test_graphs_are_made_of_jax_arrays_too() -> None:
    a, expected = gt.matrix("a", shape=(N, N)), np.linalg.solve(dense(COLUMN), B)
    given = {a: np.asarray(dense(COLUMN))}
    operands = {"a": a}
    x, _ = gt.linalg.cg(lambda v: operands["a"] @ v, jnp.asarray(B), **TIGHT)
    close(x.eval(given), expected)
    x, _ = gt.linalg.cg(dense(COLUMN), jnp.asarray(B), on_error="raise", **TIGHT)
    close(x.eval(), expected)
    assert isinstance(gt.linalg.pivoted_cholesky(dense(COLUMN), 2), gt.Tensor)


@pytest.mark.sample("maker", "asarray")
@pytest.mark.parametrize("maker", ["graphs", "JAX"])
@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray])
def test_a_preconditioner_of_either_namespace_serves_both(maker: str, asarray: Any) -> None:
    make = {"graphs": gt.linalg, "JAX": linalg}[maker].low_rank_preconditioner
    low = asarray(np.random.default_rng(1).normal(size=(N, 3)))
    matrix = np.asarray(low @ low.T) + np.asarray(dense(COLUMN))
    near, a, b = make(low, 1.0), gt.matrix("a", shape=(N, N)), gt.vector("b", shape=(N,))
    expected = np.linalg.solve(matrix, B)
    close(linalg.cg(jnp.asarray(matrix), jnp.asarray(B), M=near, **TIGHT)[0], expected)
    close(jax.jit(lambda a, b: linalg.cg(a, b, M=near, **TIGHT)[0])(matrix, B), expected)
    close(jax.jit(lambda a, b: linalg.cg(a, b, M=make(low, 1.0), **TIGHT)[0])(matrix, B), expected)
    x, _ = gt.linalg.cg(a, b, M=near, **TIGHT)
    close(x.eval({a: matrix, b: B}), expected)
    of_jax = linalg.inv_quad_logdet(matrix, B, jax.random.key(0), M=near, **TIGHT)
    of_graph = gt.linalg.inv_quad_logdet(a, b, gt.random.key(0), M=near, **TIGHT)
    close(of_jax[0], B @ expected)
    close(of_graph[0].eval({a: matrix, b: B}), B @ expected)
    close(of_jax[1].value, np.linalg.slogdet(matrix)[1], 0.1)
    close(of_graph[1].value.eval({a: matrix, b: B}), of_jax[1].value)


def test_both_namespaces_have_the_same_names_and_parameters() -> None:
    for name in linalg.__all__:
        own, graphs = getattr(linalg, name), getattr(gt.linalg, name)
        assert own.__doc__ == graphs.__doc__
        if not isinstance(own, type):
            assert inspect.signature(own).parameters == inspect.signature(graphs).parameters
            assert "calculus" not in inspect.signature(own).parameters
            assert pickle.loads(pickle.dumps(own)) is own
            assert pickle.loads(pickle.dumps(graphs)) is graphs
