"""Multiples of the identity, against whole matrices."""

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
from graphc.implicit.structures.identity import Identity
from graphc.implicit.structures.low_rank import LowRank
from tests.implicit.cases import CASES
from tests.implicit.protocol import answers, confirm, numbers
from tests.implicit.reference import Case, check, runs
from tests.modes import uncompiled

DENSE = {
    "tensordot", "flat", "rows halved", "w[index, 1]", "concatenate", "concatenate columns",
    "concatenate whole", "w + 1", "w - s", "1 - w", "exp", "isnan", "where mask", "where same",
}  # fmt: skip
"""What has other numbers than zero beside the diagonal, or is no matrix with one."""


def whole(scale: Any, n: int) -> Any:
    """Written out in NumPy."""
    return np.where(
        np.eye(n, dtype=bool), scale[..., None, None], np.zeros_like(scale[..., None, None])
    )


def make(rng: np.random.Generator) -> Any:
    scale = np.asarray(rng.uniform(0.5, 2))
    return Identity(scale, 6), scale * np.eye(6)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2, ways=("jit", "NUMPY", "MLX", "gradient")))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, {case.name for case in CASES} - DENSE)


@given(
    st.sampled_from(["float64", "int32", "bool", "complex128"]),
    st.sampled_from([(), (2,), (2, 3)]),
    st.integers(0, 5),
    st.integers(0, 2**32 - 1),
)
def test_answers_of_all_shapes(dtype: str, batch: Any, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = [np.asarray(numbers(rng, dtype, *batch)) for _ in range(2)]
    parts = ("times", "swapped", "scaled", "added", "multiplied", "weighted", "cast", "rows")
    asked = answers("numpy", Identity(x, n), whole(x, n), Identity(y, n), whole(y, n), seed)
    confirm(asked, lambda name: name.startswith((*parts, "sum [-1", "sum [-2")))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("level", ["jax", "graphc"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_answers_in_other_libraries(level: str, batch: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = [np.asarray(numbers(rng, "float64", *batch)) for _ in range(2)]
    with jax.enable_x64(True):
        confirm(answers(level, Identity(x, 4), whole(x, 4), Identity(y, 4), whole(y, 4), 1))


@pytest.mark.parametrize(
    "other",
    [
        Identity(np.asarray(3.0), 4),
        Diagonal(np.arange(4.0)),
        LowRank(np.ones((4, 1)), np.ones((1, 4))),
    ],
    ids=lambda x: type(x).__name__,
)
def test_products_have_the_others_class(other: Any) -> None:
    i = Identity.of(4, "float64") * 2.0
    with materializing("error"):
        pair = (i @ other, other @ i)
    for y in pair:
        assert type(y) is type(other)
        np.testing.assert_array_equal(y, 2 * np.asarray(other))


def test_sums_and_powers_stay_one_number() -> None:
    i = Identity.of(10**6, "float64")
    y = (i + i * 3.0) @ i - i
    assert (type(y), y.nbytes, float(y.scale)) == (Identity, 8, 3)
    assert float(y.sum()) == 3e6


def test_a_product_is_the_operand_times_a_number() -> None:
    jaxpr = jax.make_jaxpr(implicit(lambda s, x: Identity(s, 4) @ x))(
        jnp.float32(2), jnp.ones((4, 3))
    )
    assert {eqn.primitive.name for eqn in jaxpr.eqns} <= {"mul", "broadcast_in_dim", "transpose"}


def test_gradient_by_the_number(mode: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4))
    i = gt.implicit(Identity, (4, 4), "float64", name="i")
    with materializing("error"):
        g = graphc.grad(((x @ i) ** 2).sum(), i.array.scale)
        found = graphc.function([i], g, mode=uncompiled(mode))(Identity(np.asarray(3.0), 4))
    np.testing.assert_allclose(found, 6 * (x**2).sum(), rtol=1e-5)


def test_stacked_by_vmap_the_shape_is_right() -> None:
    i = jax.vmap(lambda s: Identity(s, 4))(jnp.ones(3))
    assert i.shape == (3, 4, 4)
    np.testing.assert_array_equal(i, np.broadcast_to(np.eye(4), (3, 4, 4)))


@pytest.mark.parametrize("n", [-1, 2.5])
def test_numbers_of_rows_that_are_none_are_refused(n: Any) -> None:
    with pytest.raises(ImplicitArrayError, match="rows"):
        Identity(np.asarray(1.0), n)


@pytest.mark.parametrize("shape", [(4, 5), (None, None)])
def test_shapes_that_are_not_square_or_known_are_refused(shape: Any) -> None:
    with pytest.raises(ImplicitArrayError, match="rows and"):
        gt.implicit(Identity, shape, "float32")
