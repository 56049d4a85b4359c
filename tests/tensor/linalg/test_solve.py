"""Solutions of systems of equations, by what is known of their matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    RuntimeShapeError,
    ShapeError,
    UnsupportedOperationError,
)
from graphc.ir import TensorType
from graphc.tensor import Tensor, linalg
from graphc.tensor.linalg.determinant import Det
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.solve import ASSUMPTIONS, SOLVERS
from tests.modes import uncompiled
from tests.reference import evaluate
from tests.tensor.spectral import TIGHT, adjoint, found, random, ways

BACKENDS = ("NUMPY", "JAX", "MLX")


def regular(shape: tuple[int, ...], dtype: str) -> Any:
    x = random(shape, dtype)
    return (x / 2 + 3 * np.eye(shape[-1])).astype(dtype)


@st.composite
def systems(draw: Any) -> tuple[Any, Any]:
    """Matrices and right-hand sides whose axes in front broadcast."""
    front = draw(st.sampled_from([(), (2,), (1,), (3, 1), (2, 4), (0,)]))
    other = draw(st.sampled_from([(), (2,), (1,), (3, 2), (1, 1)]))
    try:
        np.broadcast_shapes(front, other)
    except ValueError:
        other = ()
    n, k = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    dtype = draw(st.sampled_from([*TIGHT]))
    return regular((*front, n, n), dtype), random((*other, n, k), dtype, 1)


@settings(max_examples=60)
@given(systems(), st.sampled_from(["gen", "lower triangular", "diagonal"]), st.booleans())
def test_solutions_of_any_systems_are_numpys(system: Any, kind: str, transposed: bool) -> None:
    a, b = system
    x, y = (TensorType(v.dtype, v.shape)() for v in (a, b))
    made = linalg.solve(x, y, assume_a=kind, transposed=transposed)
    read = {"gen": a, "lower triangular": np.tril(a), "diagonal": a * np.eye(a.shape[-1])}[kind]
    read = read.astype(a.dtype)
    wanted = np.linalg.solve(np.swapaxes(read, -1, -2) if transposed else read, b)
    assert made.type.shape == wanted.shape
    (got,) = evaluate([made], {x: a, y: b})
    np.testing.assert_allclose(got, wanted, atol=30 * TIGHT[a.dtype.name])


@pytest.mark.parametrize("mode", BACKENDS)
def test_every_kind_of_matrix_is_solved_in_every_dtype(mode: str) -> None:
    for dtype in ways(mode):
        a, b = regular((4, 4), dtype), random((2, 4, 3), dtype, 1)
        kinds = {
            "sym": a + a.T,
            "her": a + adjoint(a),
            "pos": (a @ adjoint(a)).astype(dtype),
            "tridiagonal": np.triu(np.tril(a, 1), -1),
            "upper triangular": np.triu(a),
            "orthogonal": np.linalg.qr(a)[0],
        }

        def build(b: Any, *matrices: Any, kinds: Any = kinds) -> list[Any]:
            pairs = zip(kinds, matrices, strict=True)
            return [linalg.solve(x, b, assume_a=kind, lower=True) for kind, x in pairs]

        for y, x in zip(found(mode, build, b, *kinds.values()), kinds.values(), strict=True):
            np.testing.assert_allclose(y, np.linalg.solve(x, b), atol=30 * TIGHT[dtype])


def test_one_triangle_is_read_of_symmetric_matrices() -> None:
    a, b = regular((3, 3), "float64"), random((3,), "float64")
    for kind in ("sym", "her", "pos"):
        for lower in (True, False):
            own = np.tril(a) if lower else np.triu(a)
            whole = own + (np.tril(a, -1) if lower else np.triu(a, 1)).T
            x = gt.matrix()
            y = linalg.solve(x, b, assume_a=kind, lower=lower).eval({x: a}, mode="NUMPY")
            np.testing.assert_allclose(y, np.linalg.solve(whole, b), atol=1e-12)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", ["gen", "sym", "pos", "tridiagonal", "upper triangular"])
def test_gradients_of_all_orders_are_slopes(kind: str) -> None:
    a, b = regular((3, 3), "float64"), random((3, 2), "float64")

    def cost(a: Any, b: Any) -> Any:
        return gt.sum(linalg.solve(a, b, assume_a=kind) ** 3)

    def slope(a: Any, b: Any) -> Any:
        by_a, by_b = graphc.grad(cost(a, b), [a, b])
        return gt.sum(by_a * gt.arange(3)) + gt.sum(by_b**2)

    graphc.verify_grad(cost, [a @ a.T, b], rng=0, mode="NUMPY")
    graphc.verify_grad(slope, [a @ a.T, b], rng=0, mode="NUMPY")


def test_one_matrix_and_a_batch_of_vectors_is_one_factorisation() -> None:
    a, b = regular((3, 3), "float64"), random((50, 3), "float64")
    x, y = gt.matrix(), gt.vector()
    over = graphc.vectorize_graph(linalg.solve(x, y), {y: gt.constant(b)})
    kinds = [node.op.name for node in graphc.ir.toposort([over])]
    assert kinds.count("solve") == 1
    np.testing.assert_allclose(
        over.eval({x: a}, mode="NUMPY"), np.linalg.solve(a, b.T).T, atol=1e-12
    )


@pytest.mark.parametrize("mode", BACKENDS)
def test_singular_matrices_give_what_is_not_finite_and_leave_the_others(mode: str) -> None:
    a = np.stack([np.diag([1.0, 0.0, 2.0]), np.eye(3)])
    b = np.ones((2, 3, 1))

    def build(a: Any, b: Any) -> list[Any]:
        return [
            linalg.solve(a, b, assume_a=kind)
            for kind in ("gen", "sym", "pos", "tridiagonal", "upper triangular", "diagonal")
        ]

    for y in found(mode, build, a, b):
        assert not np.isfinite(y[0]).all()
        np.testing.assert_array_equal(y[1], b[1])


@pytest.mark.parametrize("mode", BACKENDS)
def test_bands_are_scipys(mode: str) -> None:
    ab, b = random((3, 5), "float64") + 3 * np.eye(3)[:, [1]], random((5,), "float64")
    h = random((2, 5), "float64") + 5 * np.eye(2)[:, [0]]
    x, y, z = gt.tensor(shape=(3, None)), gt.tensor(shape=(2, None)), gt.vector()
    outputs = [
        linalg.solve_banded((1, 1), x, z),
        linalg.solve_banded((2, 0), x + 4, z),
        linalg.solveh_banded(y, z, lower=True),
        linalg.solveh_banded(y[::-1], z),
        linalg.solve_banded((1, 1), gt.stack([x, 2 * x]), gt.expand_dims(z, 1)),
    ]
    f = graphc.function([x, y, z], outputs, graphc.Mode(mode), returns="numpy")
    made = f(ab, h, b)
    wanted = [
        scipy.linalg.solve_banded((1, 1), ab, b),
        scipy.linalg.solve_banded((2, 0), ab + 4, b),
        scipy.linalg.solveh_banded(h, b, lower=True),
        scipy.linalg.solveh_banded(h[::-1], b),
    ]
    for got, expected in zip(made, wanted, strict=False):
        np.testing.assert_allclose(got, expected, atol=1e-12)
    np.testing.assert_allclose(made[4][1, :, 0], wanted[0] / 2, atol=1e-12)


@pytest.mark.parametrize("lower_upper", [(1, 1), (2, 0), (0, 3), (4, 4)])
def test_gradients_by_bands_are_slopes(lower_upper: tuple[int, int]) -> None:
    k = sum(lower_upper) + 1
    ab = random((k, 3), "float64") + 4 * np.eye(k)[:, [lower_upper[1]]]
    graphc.verify_grad(
        lambda ab, b: linalg.solve_banded(lower_upper, ab, b) ** 2,
        [ab, random((3, 2), "float64")],
        rng=0,
        mode="NUMPY",
    )


def test_the_factors_of_tridiagonal_matrices_are_lapacks() -> None:
    a, b = random((2, 5, 5), "float64"), random((5, 2), "float64")
    x, y = gt.tensor3(), gt.matrix()
    factors = linalg.tridiagonal_lu_factor(x)
    solved = [
        linalg.tridiagonal_lu_solve(factors, y, b_ndim=2, transposed=t) for t in (False, True)
    ]
    made = evaluate([*factors, *solved], {x: a, y: b})
    (gttrf,) = scipy.linalg.get_lapack_funcs(("gttrf",), (a,))
    for i in range(2):
        *parts, _ = gttrf(*(np.diagonal(a[i], k) for k in (-1, 0, 1)))
        for got, expected in zip(made, parts, strict=False):
            np.testing.assert_allclose(got[i], expected, atol=1e-12)
        band = np.triu(np.tril(a[i], 1), -1)
        np.testing.assert_allclose(made[5][i], np.linalg.solve(band, b), atol=1e-9)
        np.testing.assert_allclose(made[6][i], np.linalg.solve(band.T, b), atol=1e-9)


def test_factors_of_tridiagonal_matrices_have_no_gradient_and_say_what_has() -> None:
    x, y = gt.matrix(), gt.vector()
    solved = linalg.tridiagonal_lu_solve(linalg.tridiagonal_lu_factor(x), y)
    graphc.grad(solved.sum(), y)
    with pytest.raises(UnsupportedOperationError, match="assume_a='tridiagonal'"):
        graphc.grad(solved.sum(), x)


@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C", False, True])
def test_triangular_systems_take_scipys_arguments(trans: Any) -> None:
    a, b = regular((3, 3), "complex128"), random((3,), "complex128")
    for lower in (True, False):
        for unit in (True, False):
            made = linalg.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit)
            wanted = scipy.linalg.solve_triangular(a, b, trans, lower, unit)
            np.testing.assert_allclose(made.eval(mode="NUMPY"), wanted, atol=1e-12)


@pytest.mark.parametrize("kind", ASSUMPTIONS)
def test_what_is_assumed_has_a_long_and_a_short_name(kind: str) -> None:
    x, y = gt.matrix(), gt.matrix()
    assert linalg.solve(x, y, assume_a=kind) is linalg.solve(x, y, assume_a=kind.upper())


def test_what_cannot_be_solved_is_refused() -> None:
    a, b = gt.matrix(), gt.vector()
    with pytest.raises(ArgumentError, match="unknown assumption 'odd'"):
        linalg.solve(a, b, assume_a="odd")
    with pytest.raises(ArgumentError, match="b_ndim"):
        linalg.solve(a, b, b_ndim=3)
    with pytest.raises(ShapeError):
        linalg.solve(a, b, b_ndim=2)
    with pytest.raises(ShapeError, match="expected a matrix"):
        linalg.solve(b, b)
    with pytest.raises(ShapeError, match="lengths differ"):
        linalg.solve(gt.tensor(shape=(3, 3)), gt.tensor(shape=(4,)))
    with pytest.raises(ShapeError, match="square"):
        linalg.solve(gt.tensor(shape=(3, 4)), gt.tensor(shape=(4,)))
    with pytest.raises(ArgumentError, match="trans"):
        linalg.solve_triangular(a, b, trans="X")
    with pytest.raises(ArgumentError, match="diagonals"):
        linalg.solve_banded((-1, 0), a, b)
    with pytest.raises(ShapeError, match=r"expected .* rows, one for each diagonal"):
        linalg.solve_banded((1, 1), gt.tensor(shape=(2, 4)), b)
    with pytest.raises(ShapeError, match="unknown"):
        linalg.solveh_banded(a, b)
    f = graphc.function([a, b], linalg.solve(a, b), "NUMPY")
    with pytest.raises(ShapeError):
        f(np.eye(3), np.ones(4))


@pytest.mark.parametrize("backend", ["NUMPY", "JAX", "MLX"])
def test_lengths_that_do_not_fit_are_told_when_they_are_seen(backend: str) -> None:
    a, b = gt.matrix("a"), gt.vector("b")
    values = [
        gt.linalg.solve(a, b),
        gt.linalg.solve(a, b, assume_a="diagonal"),
        gt.linalg.det(a) + b.sum(),
        gt.linalg.slogdet(a)[1] + b.sum(),
        gt.linalg.inv(a).sum() + b.sum(),
    ]
    for y in values:
        f = graphc.function([a, b], y, mode=uncompiled(backend))
        with pytest.raises(RuntimeShapeError):
            f(np.ones((2, 3)), np.ones(2))
    f = graphc.function([a, b], values[0], mode=uncompiled(backend))
    with pytest.raises(RuntimeShapeError):
        f(np.eye(3), np.ones(2))


@pytest.mark.parametrize("op", ["solve", "solve of a transpose", "inv", "det"])
@pytest.mark.parametrize("kind", SOLVERS)
def test_each_kind_of_matrix_is_checked_to_be_square(kind: str, op: str) -> None:
    a, b = gt.matrix("a"), gt.matrix("b")
    made: dict[str, Any] = {
        "solve": lambda: linalg.solve(a, b, assume_a=kind),
        "solve of a transpose": lambda: linalg.solve(a, b, assume_a=kind, transposed=True),
        "inv": lambda: Tensor.make(Inverse(kind), a),
        "det": lambda: Tensor.make(Det(kind), a),
    }
    y = made[op]()
    for mode in (graphc.Mode("NUMPY", excluding=["all"]), "NUMPY"):
        f = graphc.function([a, b], y, mode=mode, on_unused_input="ignore")
        for rows, columns in ((2, 3), (3, 2), (2, 1), (1, 2)):
            for n in (rows, columns):
                with pytest.raises(RuntimeShapeError):
                    f(np.ones((rows, columns)), np.ones((n, 1)))
