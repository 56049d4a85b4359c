"""Kronecker products, against NumPy's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from graphc.errors import ImplicitArrayError
from graphc.implicit import materialize_nested, materializing
from graphc.implicit.structures.kronecker import Kronecker
from tests.implicit.protocol import ALIKE, answers, confirm, numbers, slope_agrees
from tests.implicit.reference import Case, check, named, runs

STRUCTURED = named(
    ALIKE,
    """
    w.T @ w; w[::-1]; w * row; w * column; w / row; w * same; same * w; w * w; w ** 2; w ** 3; w
    * xs; abs; max; max of rows; min; norm; cast; cast, product
""",
)


def make(rng: np.random.Generator) -> Any:
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    return Kronecker(a, b), np.kron(a, b)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, STRUCTURED)


def test_the_slope_is_that_of_differences() -> None:
    slope_agrees(make(np.random.default_rng(0))[0])


DTYPES = ("float64", "float32", "int8", "int32", "bool", "complex128")
SIZES = st.tuples(*[st.integers(0, 3)] * 4)
BATCHES = st.sampled_from([(), (), (2,), (2, 3), (1,), (0,)])


def kronecker(rng: Any, dtype: str, batch: Any, sizes: Any) -> tuple[Kronecker, Any]:
    p, q, r, s = sizes
    a, b = numbers(rng, dtype, *batch, p, q), numbers(rng, dtype, *batch, r, s)
    whole = a[..., :, None, :, None] * b[..., None, :, None, :]
    return Kronecker(a, b), whole.reshape(*batch, p * r, q * s)


def is_required(question: str) -> bool:
    names = (
        "times",
        "swapped",
        "window",
        "rows",
        "scaled",
        "divided",
        "mapped negative",
        "sum [-2",
    )
    return question.startswith((*names, "permuted", "broadcast", "reshaped batch", "multiplied"))


def asked(level: str, dtype: str, batch: Any, sizes: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, whole = kronecker(rng, dtype, batch, sizes)
    assert (w.shape, w.dtype) == (whole.shape, whole.dtype)
    np.testing.assert_array_equal(np.asarray(w), whole)
    confirm(answers(level, w, whole, *kronecker(rng, dtype, batch, sizes), seed), is_required)


@pytest.mark.parametrize("level", ["numpy", "graphc"])
@settings(max_examples=12, deadline=None)
@given(st.sampled_from(DTYPES), BATCHES, SIZES, st.integers(0, 9))
def test_each_answer_is_right(level: str, dtype: str, batch: Any, sizes: Any, seed: int) -> None:
    asked(level, dtype, batch, sizes, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", [(), (2,)])
def test_each_answer_is_right_in_jax(batch: Any) -> None:
    with jax.enable_x64(True):
        asked("jax", "float64", batch, (2, 3, 3, 1), 0)


def test_three_factors_nest() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(2, 3)), rng.normal(size=(3, 2)), rng.normal(size=(2, 2))
    w = Kronecker(a, Kronecker(b, c))
    whole = np.kron(a, np.kron(b, c))
    assert w.shape == whole.shape
    np.testing.assert_allclose(materialize_nested(w, full=True), whole, rtol=1e-14)
    x = rng.normal(size=(5, 12))
    with materializing("error"):
        np.testing.assert_allclose(x @ w, x @ whole, rtol=1e-12)
        np.testing.assert_allclose(w @ x.T[:, :5], whole @ x.T[:, :5], rtol=1e-12)
        np.testing.assert_allclose(w.T @ np.ones(12), whole.T @ np.ones(12), rtol=1e-12)


def test_the_mixed_product_stays_a_kronecker_product() -> None:
    rng = np.random.default_rng(0)
    a, b, c, d = (rng.normal(size=(3, 3)) for _ in range(4))
    with materializing("error"):
        y = Kronecker(a, b) @ Kronecker(c, d)
    assert isinstance(y, Kronecker)
    np.testing.assert_allclose(np.asarray(y), np.kron(a, b) @ np.kron(c, d), rtol=1e-12)


def test_the_extremes_of_numbers_with_signs() -> None:
    a, b = np.array([[-2.0, 1.0]]), np.array([[-3.0], [0.5]])
    assert Kronecker(a, b).reduce("max", (0, 1)) == np.kron(a, b).max() == 6
    assert Kronecker(a, b).reduce("min", (0, 1)) == np.kron(a, b).min() == -3


BAD = [
    (np.ones(3), np.ones((2, 2)), "matrices"),
    (np.ones((4, 2, 2)), np.ones((3, 2, 2)), "equal leading axes"),
    (np.ones((2, 2)), np.ones((2, 2), "float32"), "different dtypes"),
]


@pytest.mark.parametrize(("a", "b", "said"), BAD)
def test_factors_that_do_not_fit(a: Any, b: Any, said: str) -> None:
    with pytest.raises(ImplicitArrayError, match=said):
        Kronecker(a, b)


def test_a_shape_that_the_left_factor_does_not_divide() -> None:
    with pytest.raises(ImplicitArrayError, match=r"shape \(6, 4\) with left=\(4, 2\)"):
        Kronecker.spec((6, 4), "float32", left=(4, 2))
