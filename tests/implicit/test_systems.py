"""Linear systems and determinants of structured matrices, against NumPy's of whole ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import MaterializeError
from graphc.implicit import (
    BlockDiagonal,
    Diagonal,
    Fill,
    Identity,
    Kronecker,
    LoRA,
    LowRank,
    implicit,
    materializing,
)
from graphc.implicit.treedef import Treedef

RANDOM = np.random.default_rng(3)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=shape)


def near_identity(*batch: int, n: int) -> np.ndarray[Any, Any]:
    return numbers(*batch, n, n) + 2 * np.eye(n)


LOW = LowRank(numbers(6, 2), numbers(2, 6))
MATRICES = {
    "Diagonal": Diagonal(numbers(6)),
    "Identity": Identity(np.array(-1.5), 6),
    "BlockDiagonal": BlockDiagonal(near_identity(3, n=2)),
    "blocks of other sizes": BlockDiagonal((near_identity(n=2), near_identity(n=4))),
    "Kronecker": Kronecker(near_identity(n=2), -near_identity(n=3)),
    "Diagonal + LowRank": LoRA(Diagonal(numbers(6)), LOW.u, LOW.v, np.array(0.5)),
    "Kronecker + LowRank": LoRA(Kronecker(near_identity(n=2), near_identity(n=3)), LOW.u, LOW.v),
}
MODES = ("NUMPY", "JAX", "MLX")


def whole(x: Any) -> Any:
    return np.asarray(x.materialize() if hasattr(x, "materialize") else x)


def answers(xp: Any, w: Any, b: Any) -> list[Any]:
    sign, log = xp.slogdet(w)
    return [xp.solve(w, b), xp.solve(w, b[:, 0]), xp.inv(w), sign, log, xp.det(w)]


def agree(found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(whole(x), y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("mode", MODES)
def test_graphs_solve_by_structure(name: str, mode: str) -> None:
    w, b = MATRICES[name], numbers(6, 3)
    x, s = gt.matrix("x", shape=(6, 3)), gt.implicit(w, name="s")
    transposed = gt.linalg.solve(s, x, transposed=True)
    with materializing("error"):
        f = graphc.function([s, x], [*answers(gt.linalg, s, x), transposed], mode=mode)
    dense = whole(w)
    wanted = [*answers(np.linalg, dense, b), np.linalg.solve(dense.T, b)]
    with jax.enable_x64(True):
        agree(f(w, b), wanted, 2e-3 if mode == "MLX" else 1e-9)


@pytest.mark.parametrize("name", MATRICES)
def test_jax_functions_solve_by_structure(name: str) -> None:
    w, b = MATRICES[name], numbers(6, 3)
    with jax.enable_x64(True):
        run = jax.jit(implicit(lambda w, b: answers(jnp.linalg, w, b), materialize="error"))
        agree(run(w, b), answers(np.linalg, whole(w), b))


def likelihood(solve: Any, slogdet: Any, w: Any, b: Any) -> Any:
    return (b * solve(w, b)).sum() + slogdet(w)[1]


@pytest.mark.parametrize("name", MATRICES)
def test_gradients_are_those_of_the_whole_matrix(name: str) -> None:
    """By each field, through ``materialize`` for what is wanted."""
    w, b = MATRICES[name], numbers(6, 3)

    def loss(w: Any) -> Any:
        return likelihood(jnp.linalg.solve, jnp.linalg.slogdet, w, b)

    with jax.enable_x64(True):
        wanted = jax.tree.leaves(jax.jit(jax.grad(lambda w: loss(w.materialize())))(w))
        found = jax.tree.leaves(jax.jit(jax.grad(implicit(loss, materialize="error")))(w))
        agree(found, wanted)
    s = gt.implicit(w, name="s")
    y = likelihood(gt.linalg.solve, gt.linalg.slogdet, s, gt.constant(b))
    with materializing("error"):
        slopes = graphc.grad(y, Treedef.of(s.array)[1])
        agree(graphc.function([s], slopes, mode="NUMPY")(w), wanted)


def singular(case: str) -> Any:
    e = np.eye(3)[:, :1]
    return {
        "Diagonal": Diagonal(np.array([1.0, 0.0, 2.0])),
        "BlockDiagonal": BlockDiagonal((np.eye(1), np.ones((2, 2)))),
        "Woodbury": LoRA(Identity.of(3), e, -e.T),
        "Kronecker": Kronecker(np.ones((1, 1)), np.diag([1.0, 0.0, 3.0])),
    }[case]


@pytest.mark.parametrize("case", ["Diagonal", "BlockDiagonal", "Woodbury", "Kronecker"])
def test_singular_matrices_give_no_finite_solution(case: str) -> None:
    w = singular(case)
    s = gt.implicit(w, name="s")
    sign, log = gt.linalg.slogdet(s)
    outputs = [gt.linalg.solve(s, gt.constant(np.ones(3))), sign, log, gt.linalg.det(s)]
    with materializing("error"):
        f = graphc.function([s], outputs, mode="NUMPY")
    x, *determinant = f(w)
    assert not np.isfinite(x).all()
    assert [float(y) for y in determinant] == [0, -np.inf, 0]
    with jax.enable_x64(True):
        y = implicit(jnp.linalg.solve, materialize="error")(w, jnp.ones(3))
        assert not np.isfinite(y).all()


def test_a_singular_base_gives_nan_rather_than_a_number() -> None:
    w = LoRA(Diagonal(np.array([0.0, 1.0])), np.ones((2, 1)), np.ones((1, 2)))
    s = gt.implicit(w, name="s")
    f = graphc.function([s], [gt.linalg.solve(s, gt.ones(2)), gt.linalg.logdet(s)], mode="NUMPY")
    x, log = f(w)
    assert np.isnan(x).any()
    assert np.isnan(log)


def test_inverses_and_solutions_keep_the_structure() -> None:
    s = gt.implicit(MATRICES["Kronecker"], name="s")
    d = gt.implicit(MATRICES["Diagonal"], name="d")
    low = gt.implicit(LOW, name="low")
    with materializing("error"):
        f = graphc.function([s], [gt.linalg.inv(s), gt.linalg.solve(s, s)], mode="NUMPY")
        g = graphc.function(
            [d, low], [gt.linalg.inv(d + low), gt.linalg.solve(d, low)], mode="NUMPY"
        )
    values = [MATRICES["Diagonal"], LOW]
    inverse, same = f(MATRICES["Kronecker"])
    assert (type(inverse), type(same)) == (Kronecker, Kronecker)
    np.testing.assert_allclose(whole(same), np.eye(6), atol=1e-9)
    inverse, solved = g(*values)
    assert (type(inverse), type(solved)) == (LoRA, LowRank)
    total = whole(values[0]) + whole(LOW)
    np.testing.assert_allclose(whole(inverse), np.linalg.inv(total), atol=1e-9)


def stacks() -> dict[str, Any]:
    return {
        "Diagonal": Diagonal(numbers(4, 6)),
        "BlockDiagonal": BlockDiagonal(near_identity(4, 3, n=2)),
        "Kronecker": Kronecker(near_identity(4, n=2), near_identity(4, n=3)),
        "LoRA": LoRA(Diagonal(numbers(4, 6)), numbers(4, 6, 2), numbers(4, 2, 6)),
    }


@pytest.mark.parametrize("name", stacks())
def test_stacks_are_solved_matrix_by_matrix(name: str) -> None:
    w, b = stacks()[name], numbers(4, 6, 2)
    wanted = [np.linalg.solve(whole(w), b), *np.linalg.slogdet(whole(w))]

    def run(solve: Callable[..., Any], slogdet: Callable[..., Any]) -> Any:
        return lambda w, b: [solve(w, b), *slogdet(w)]

    s, x = gt.implicit(w, name="s"), gt.tensor(shape=b.shape, name="x")
    with materializing("error"):
        f = graphc.function([s, x], run(gt.linalg.solve, gt.linalg.slogdet)(s, x), mode="NUMPY")
        agree(f(w, b), wanted)
        with jax.enable_x64(True):
            g = run(jnp.linalg.solve, jnp.linalg.slogdet)
            agree(implicit(g)(w, b), wanted)
            agree(jax.jit(jax.vmap(implicit(g)))(w, b), wanted)


def test_jax_solves_for_a_vector_with_a_solution_that_is_implicit() -> None:
    a = Diagonal(Fill(jnp.full((), 2.0), (4,)))
    x = implicit(jnp.linalg.solve)(a, jnp.array([4.0, 6.0, 2.0, 8.0]))
    ones = implicit(lambda a: jnp.linalg.solve(a, jnp.ones(4)))(a)
    np.testing.assert_allclose(np.asarray(x), [2.0, 3.0, 1.0, 4.0])
    np.testing.assert_allclose(np.asarray(ones), np.full(4, 0.5))


def test_a_function_of_that_name_is_not_taken_for_jax_s() -> None:
    @jax.jit
    def det(w: Any) -> Any:
        return w.sum()

    assert implicit(det, materialize="error")(Diagonal(jnp.array([2.0, 3.0]))) == 5


def test_assumptions_that_read_a_part_are_not_answered_by_all_elements() -> None:
    w = MATRICES["Kronecker"]
    s = gt.implicit(w, name="s")
    x = gt.linalg.solve(s, gt.ones(6), assume_a="lower triangular")
    f = graphc.function([s], x, mode="NUMPY")
    np.testing.assert_allclose(f(w), np.linalg.solve(np.tril(whole(w)), np.ones(6)))
    with materializing("error"), pytest.raises(MaterializeError):
        graphc.function([s], x, mode="NUMPY")
