"""Matrices of kernels, sums and products, against the same whole."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import ImplicitArrayError
from graphc.implicit import KernelMatrix, Product, Sum
from graphc.implicit.structures import kernel_matrix
from tests.implicit.differences import differences

RNG = np.random.default_rng(0)
X, Y, V = RNG.normal(size=(30, 3)), RNG.normal(size=(13, 3)), RNG.normal(size=(30, 2))
LENGTHS = np.array([1.0, 2.0, 0.7])
MODES = ("NUMPY", "JAX", "MLX")


@pytest.fixture(autouse=True)
def _in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows at a time, and a last block that is not full."""
    monkeypatch.setattr(kernel_matrix, "BLOCK", 200)


def whole(x: Any, y: Any, lengths: Any, variance: Any, name: str) -> Any:
    squares = (((x[:, None] - y) / lengths) ** 2).sum(-1)
    r = np.sqrt(squares)
    return (
        variance
        * {
            "rbf": np.exp(-squares / 2),
            "matern12": np.exp(-r),
            "matern32": (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
            "matern52": (1 + 5**0.5 * r + 5 / 3 * squares) * np.exp(-(5**0.5) * r),
        }[name]
    )


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *[(mode, "matern32") for mode in MODES],
        *[("NUMPY", x) for x in ("rbf", "matern12", "matern52")],
    ],
)
def test_products_rows_and_gradients_are_those_of_the_whole_matrix(mode: str, name: str) -> None:
    x, y, v = gt.matrix("x", shape=(30, 3)), gt.matrix("y", shape=(13, 3)), gt.constant(V)
    lengths, variance = gt.vector("lengths", shape=(3,)), gt.scalar("variance")
    of = {"lengthscale": lengths, "variance": variance, "function": name}
    own, other = [gt.as_tensor(KernelMatrix.of(x, z, **of)) for z in (None, y)]
    slopes = graphc.grad((other.T @ v).sum(), [x, y, lengths, variance])
    outputs = [own @ v, v.T @ other, other[2], gt.diagonal(own), own[3:9, 2:4] @ v[:2], *slopes]
    with implicit.materializing("error"):
        f = graphc.function([x, y, lengths, variance], outputs, mode=mode, returns="numpy")
    found = f(X, Y, LENGTHS, 1.3)
    k, c = whole(X, X, LENGTHS, 1.3, name), whole(X, Y, LENGTHS, 1.3, name)
    wanted = [k @ V, V.T @ c, c[2], np.diag(k), k[3:9, 2:4] @ V[:2]]
    for a, b in zip(found, wanted, strict=False):
        close(a, b)

    def total(x: Any = X, y: Any = Y, lengths: Any = LENGTHS, variance: Any = 1.3) -> float:
        return float((whole(x, y, lengths, variance, name).T @ V).sum())

    given = {"x": X, "y": Y, "lengths": LENGTHS, "variance": 1.3}
    for slope, (key, value) in zip(found[5:], given.items(), strict=True):
        close(slope, differences(lambda z, key=key: total(**{key: z}), value), 1e-6)


def test_jax_takes_them_and_functions_of_many_features() -> None:
    with jax.enable_x64(True):
        many = RNG.normal(size=(30, 12))

        def total(x: Any, length: Any) -> Any:
            return (KernelMatrix.of(x, lengthscale=length) @ V).sum()

        def wanted(x: Any, length: Any) -> Any:
            squares = (((x[:, None] - x) / length) ** 2).sum(-1)
            return (jnp.exp(-squares / 2) @ V).sum()

        given = jnp.asarray(many), jnp.asarray(3.0)
        slopes = [jax.jit(jax.grad(f, (0, 1)))(*given) for f in (total, wanted)]
        for a, b in zip(*slopes, strict=True):
            close(a, b)

        def linear(a: Any, b: Any) -> Any:
            return a @ jnp.swapaxes(b, -1, -2)

        k = KernelMatrix.of(jnp.asarray(X), variance=2.0, function=linear)
        close(k @ V, 2 * X @ X.T @ V)
        close(implicit.implicit(jnp.diagonal)(k), 2 * (X**2).sum(1))


def test_lengths_may_be_unknown_and_casts_and_factors_keep_the_structure() -> None:
    x, v = gt.matrix("x"), gt.matrix("v")
    k = gt.as_tensor(KernelMatrix.of(x))
    with implicit.materializing("error"):
        f = graphc.function([x, v], k @ v, mode="NUMPY")
    close(f(X, V), whole(X, X, 1.0, 1.0, "rbf") @ V)
    numbers = KernelMatrix.of(X)
    assert isinstance(2 * numbers, KernelMatrix)
    assert numbers.astype("float32").dtype == np.float32
    assert isinstance(numbers.T, KernelMatrix)
    close(np.asarray(3 * numbers), whole(X, X, 1.0, 3.0, "rbf"))


def test_fields_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ImplicitArrayError, match="function="):
        KernelMatrix.of(X, function="cosine")
    with pytest.raises(ImplicitArrayError, match="points"):
        KernelMatrix.of(X, Y[:, :2])
    with pytest.raises(ImplicitArrayError, match="features"):
        KernelMatrix.spec((3, 3), "float64")
    with pytest.raises(ImplicitArrayError, match="shapes"):
        Sum.of(np.ones((2, 2)), np.ones((2, 3)))
    with pytest.raises(ImplicitArrayError, match="dtype"):
        Product.of(np.ones((2, 2)), np.ones((2, 2), "float32"))


T = implicit.Toeplitz(np.array([4.0, 1.0, 0.5]))
D = implicit.Diagonal(np.array([1.0, 2.0, 3.0]))
A, E = np.asarray(T), np.diag([1.0, 2.0, 3.0])
COMPOSED: dict[str, tuple[Any, Any]] = {
    "sum": (Sum.of(T, D, A), 2 * A + E),
    "product": (Product.of(D, T, D), E @ A @ E),
    "sum of a product": (Sum.of(Product.of(D, D), T), E @ E + A),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", COMPOSED)
def test_sums_and_products_multiply_as_the_whole_does(mode: str, name: str) -> None:
    array, dense = COMPOSED[name]
    w, x = gt.implicit(array, name="w"), np.arange(6.0).reshape(3, 2)
    outputs = [w @ x, x.T @ w, w.T @ x, (3 * w) @ x, w[1], w[gt.constant([2, 0])]]
    if name == "sum":
        outputs += [w[:2] @ x, gt.diagonal(w), w.sum(0), (w + w) @ x]
    with implicit.materializing("error"):
        found = graphc.function([w], outputs, mode=mode, returns="numpy")(array)
    wanted = [dense @ x, x.T @ dense, dense.T @ x, 3 * dense @ x, dense[1], dense[[2, 0]]]
    wanted += [dense[:2] @ x, np.diag(dense), dense.sum(0), 2 * dense @ x]
    for a, b in zip(found, wanted, strict=False):
        close(a, b)
    close(np.asarray(array), dense)


def test_systems_of_products_are_solved_factor_by_factor() -> None:
    k = implicit.Kronecker(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([[3.0]]))
    d = implicit.Diagonal(np.array([1.0, -4.0]))
    array, dense = Product.of(k, d), np.asarray(k) @ np.diag([1.0, -4.0])
    w, x = gt.implicit(array, name="w"), np.arange(4.0).reshape(2, 2)
    outputs = [gt.linalg.solve(w, x), *gt.linalg.slogdet(w), gt.linalg.inv(w) @ x]
    with implicit.materializing("error"):
        found = graphc.function([w], outputs, mode="NUMPY")(array)
    solved = np.linalg.solve(dense, x)
    for a, b in zip(found, [solved, *np.linalg.slogdet(dense), solved], strict=True):
        close(a, b)
