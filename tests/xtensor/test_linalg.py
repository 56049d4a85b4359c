"""Linear algebra names its core dimensions; all others are a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.xtensor as gx
from graphc.errors import ArgumentError, AxisError, GraphcError, ShapeError
from tests.modes import uncompiled
from tests.xtensor.by_name import same

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 2, 3))  # m, batch, k
B = RNG.normal(size=(4, 3, 2))  # other, k, n
SPD = A[:, 0] @ A[:, 0].T + np.eye(3)


def named(value: np.ndarray, *dims: str) -> gx.XTensor:
    return gx.xtensor(dims=dims, shape=value.shape)


def test_solve_of_vectors_fulfils_the_equations_by_name(mode: str) -> None:
    a, b = named(A, "m", "batch", "k"), named(B[..., 0], "other", "k")
    x = gx.linalg.solve(a, b, dims=("k", "m"), rows="k")
    expected = np.linalg.solve(A.transpose(1, 2, 0)[:, None], B[None, ..., :1])[..., 0]
    same(x, ("batch", "other", "m"), expected, {a: A, b: B[..., 0]}, uncompiled(mode))
    back = np.broadcast_to(B[..., 0], (2, 4, 3))
    same(
        a.dot(x, "m").transpose("batch", "other", "k"),
        ("batch", "other", "k"),
        back,
        {a: A, b: B[..., 0]},
    )


def test_solve_of_matrices_and_of_the_transposed_system() -> None:
    a, b = named(A, "m", "batch", "k"), named(B, "other", "k", "n")
    values, dims = {a: A, b: B}, ("batch", "other", "m", "n")
    by_k = np.linalg.solve(A.transpose(1, 2, 0)[:, None], B[None])
    by_m = np.linalg.solve(A.transpose(1, 0, 2)[:, None], B[None])
    same(gx.linalg.solve(a, b, dims=("n", "m", "k"), rows="k"), dims, by_k, values)
    same(gx.linalg.solve(a, b, dims=("m", "k", "n"), rows="m"), dims, by_m, values)


def test_a_symmetric_matrix_needs_no_rows() -> None:
    a, b = named(SPD, "m", "k"), named(B[0], "k", "n")
    x = gx.linalg.solve(a, b, dims=("m", "k", "n"), assume_a="pos")
    same(x, ("m", "n"), np.linalg.solve(SPD, B[0]), {a: SPD, b: B[0]})


def test_cholesky_of_a_batch(mode: str) -> None:
    value = np.stack([SPD, 2 * SPD], axis=1)
    x = named(value, "row", "batch", "column")
    expected = np.linalg.cholesky(value.transpose(1, 0, 2))
    lower = gx.linalg.cholesky(x, dims=("row", "column"))
    same(lower, ("batch", "row", "column"), expected, {x: value}, uncompiled(mode))
    upper = gx.linalg.cholesky(x, lower=False, dims=("row", "column"))
    same(upper, ("batch", "row", "column"), expected.transpose(0, 2, 1), {x: value})


def test_a_solution_has_a_gradient() -> None:
    def loss(a: Any, b: Any) -> Any:
        x = gx.as_xtensor(a, dims=("m", "k")), gx.as_xtensor(b, dims=("k",))
        return (gx.linalg.solve(*x, dims=("m", "k"), rows="k") ** 2).sum().values

    graphc.verify_grad(loss, [A[:, 0], B[0, :, 0]], rng=np.random.default_rng(0), mode="NUMPY")


def test_convolution_goes_along_one_dimension_of_each(mode: str) -> None:
    x, y = named(A, "m", "batch", "k"), named(B[..., 0], "other", "lag")
    made = gx.signal.convolve1d(x, y, dims=("k", "lag"))
    rows = [[[np.convolve(u, v) for v in B[..., 0]] for u in part] for part in A]
    same(made, ("m", "batch", "other", "k"), rows, {x: A, y: B[..., 0]}, uncompiled(mode))


WRONG: dict[str, tuple[Callable[[Any, Any], Any], type[GraphcError], str]] = {
    "rows": (
        lambda a, b: gx.linalg.solve(a, b, dims=("m", "k")),
        ArgumentError,
        r"which dimension numbers the equations, 'm' or 'k'\?\nSay rows='k'",
    ),
    "rows of others": (
        lambda a, b: gx.linalg.solve(a, b, dims=("m", "k"), rows="n"),
        AxisError,
        "rows='n'",
    ),
    "one": (lambda a, b: gx.linalg.solve(a, b, dims=("m",)), AxisError, "Name 2 or 3 dimensions"),
    "not shared": (
        lambda a, b: gx.linalg.solve(a, a, dims=("m", "k")),
        AxisError,
        "one is shared",
    ),
    "cholesky": (lambda a, b: gx.linalg.cholesky(a, dims="m"), AxisError, "Name 2 dimensions"),
    "absent": (
        lambda a, b: gx.linalg.cholesky(a, dims=("m", "q")),
        AxisError,
        "no dimension 'q'.\nIts dimensions are 'm', 'batch', 'k'",
    ),
    "square": (lambda a, b: gx.linalg.cholesky(a, dims=("m", "batch")), ShapeError, "square"),
    "foreign": (
        lambda a, b: gx.signal.convolve1d(a, b, dims=("m", "k")),
        AxisError,
        "has the core dimension 'k' of another operand",
    ),
    "mode": (
        lambda a, b: gx.signal.convolve1d(a, b, mode="all", dims=("m", "other")),
        ArgumentError,
        "mode='all'",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_core_dimensions_that_do_not_fit_are_refused(what: str) -> None:
    f, error, message = WRONG[what]
    with pytest.raises(error, match=message):
        f(named(A, "m", "batch", "k"), named(B[..., 0], "other", "k"))
