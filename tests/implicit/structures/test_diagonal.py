"""Diagonal matrices, against whole ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.implicit import materializing
from graphc.implicit.functions import implicit
from graphc.implicit.structures.diagonal import Diagonal
from graphc.implicit.structures.one_hot import OneHot
from tests.implicit.cases import CASES
from tests.implicit.protocol import answers, confirm, numbers
from tests.implicit.reference import Case, check, runs
from tests.modes import uncompiled

DENSE = {
    "tensordot", "flat", "rows halved", "w[index, 1]", "concatenate", "concatenate columns",
    "concatenate whole", "w + 1", "w - s", "1 - w", "exp", "isnan", "where mask", "where same",
}  # fmt: skip
"""What has other numbers than zero beside the diagonal, or is no matrix with one."""


def whole(values: Any) -> Any:
    """Written out in NumPy."""
    return np.where(
        np.eye(values.shape[-1], dtype=bool),
        values[..., None],
        np.zeros_like(values[..., :1, None]),
    )


def make(rng: np.random.Generator) -> Any:
    values = rng.uniform(0.5, 2, 6) * rng.choice([-1, 1], 6)
    return Diagonal(values), np.diag(values)


def make_stack(rng: np.random.Generator) -> Any:
    values = rng.normal(size=(5, 6))
    return Diagonal(values), whole(values)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, {case.name for case in CASES} - DENSE)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=3, ways=("jit", "NUMPY")))
def test_operations_of_a_stack(case: Case, way: str) -> None:
    structured = {"x @ w", "w.T", "w * row", "sum", "sum of batch", "w * same", "stack[i] product"}
    check(make_stack, case, way, structured)


@given(
    st.sampled_from(["float64", "int32", "int8", "bool", "complex128"]),
    st.sampled_from([(), (2,), (2, 3)]),
    st.integers(0, 5),
    st.integers(0, 2**32 - 1),
)
def test_answers_of_all_shapes(dtype: str, batch: Any, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = [numbers(rng, dtype, *batch, n) for _ in range(2)]
    parts = ("times", "swapped", "scaled", "added", "multiplied", "weighted", "chosen", "cast")
    parts += ("window", "rows", "sum [-1", "sum [-2", "max [-1", "min [-2", "all [-1", "any [-2")
    asked = answers("numpy", Diagonal(x), whole(x), Diagonal(y), whole(y), seed)
    confirm(asked, lambda name: name.startswith(parts))


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("level", ["jax", "graphc"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_answers_in_other_libraries(level: str, batch: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = [numbers(rng, "float64", *batch, 4) for _ in range(2)]
    with jax.enable_x64(True):
        confirm(answers(level, Diagonal(x), whole(x), Diagonal(y), whole(y), 1))


def test_parts_that_are_not_square_on_the_diagonal_are_one_hot() -> None:
    d = np.arange(1.0, 8)
    y = Diagonal(d)[1:6, 2::2]
    assert isinstance(y, OneHot)
    np.testing.assert_array_equal(y, np.diag(d)[1:6, 2::2])
    assert isinstance(Diagonal(d)[2:5, 2:5], Diagonal)


def test_a_product_never_has_a_matrix_of_zeros() -> None:
    d = Diagonal(jnp.arange(40.0))
    jaxpr = jax.make_jaxpr(implicit(lambda d, x: x @ (d @ d + d * 2) @ d.T))(d, jnp.ones((3, 40)))
    assert {v.aval.shape for eqn in jaxpr.jaxpr.eqns for v in eqn.outvars} <= {
        (), (1,), (40,), (1, 40), (3, 40)
    }  # fmt: skip


def test_a_whole_array_gets_the_diagonal_added(mode: str) -> None:
    k, noise = np.arange(9.0).reshape(3, 3), np.array([1.0, 2, 3])
    d = gt.implicit(Diagonal, (3, 3), "float64", name="d")
    with materializing("error"):
        f = graphc.function([d], [gt.as_tensor(k) + d, k - d], mode=uncompiled(mode))
        added, subtracted = f(Diagonal(noise))
    np.testing.assert_array_equal(added, k + np.diag(noise))
    np.testing.assert_array_equal(subtracted, k - np.diag(noise))


def test_gradient_by_the_diagonal(mode: str) -> None:
    x, values = np.random.default_rng(0).normal(size=(3, 4)), np.arange(1.0, 5)
    d = gt.implicit(Diagonal, (4, 4), "float64", name="d")
    with materializing("error"):
        g = graphc.grad(((x @ d) ** 2).sum(), d.array.values)
        found = graphc.function([d], g, mode=uncompiled(mode))(Diagonal(values))
    np.testing.assert_allclose(found, 2 * (x**2).sum(0) * values, rtol=1e-5)


def test_stacked_by_vmap_the_shape_is_right() -> None:
    d = jax.vmap(Diagonal)(jnp.ones((3, 4)))
    assert d.shape == (3, 4, 4)


def test_a_number_has_no_diagonal() -> None:
    with pytest.raises(ImplicitArrayError, match="of a number"):
        Diagonal(np.asarray(1.0))


def test_lengths_that_differ_are_refused() -> None:
    with pytest.raises(ImplicitArrayError, match="4 rows and 5 columns"):
        gt.implicit(Diagonal, (4, 5), "float32")
