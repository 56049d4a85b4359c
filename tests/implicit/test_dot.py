"""Products over any axes in terms of products of matrices."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax import lax

from graphc.errors import MaterializeError
from graphc.implicit import (
    ImplicitArray,
    dot,
    implicit,
    materializations,
    materialized,
    materializing,
)
from graphc.implicit.layout import StructureLost
from graphc.tensor.linalg.dot import DotGeneral
from tests.implicit.box import Box, Plain, numbers


@dataclass(frozen=True)
class Product:
    """Two shapes and the pairs of their axes."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    op: DotGeneral


@st.composite
def products(draw: Any) -> Product:
    """Any pairs of axes, in any order, some of length 0 or 1."""
    lengths = st.integers(0, 3)
    batch, summed, *free = (draw(st.lists(lengths, max_size=2)) for _ in range(4))
    sides = []
    for rest in free:
        kinds = [*[("b", i) for i in range(len(batch))], *[("k", i) for i in range(len(summed))]]
        order = draw(st.permutations([*kinds, *[("f", i) for i in range(len(rest))]]))
        sizes = {"b": batch, "k": summed, "f": rest}
        shape = tuple(sizes[kind][i] for kind, i in order)
        sides.append((shape, {kind: order.index(kind) for kind in kinds}))
    (left, a), (right, b) = sides
    pairs = {
        kind: tuple(tuple(side[kind, i] for i in range(len(n))) for side in (a, b))
        for kind, n in (("b", batch), ("k", summed))
    }
    return Product(left, right, DotGeneral(pairs["k"], pairs["b"]))


def dense(x: Any) -> Any:
    return x.values if isinstance(x, Box) else x


@pytest.mark.parametrize("which", ["left", "right", "both"])
@given(product=products())
def test_any_product_is_one_of_matrices(which: str, product: Product) -> None:
    a, b = numbers(product.left), numbers(product.right)
    left = a if which == "right" else Box(a)
    right = b if which == "left" else Box(b)
    op = product.op
    y = dot.dot_general(left, right, op.contract, op.batch_axes, a.dtype)
    np.testing.assert_allclose(dense(y), op.perform(a, b), 1e-12, 1e-12)


@pytest.mark.parametrize("side", [0, 1])
@given(product=products())
def test_a_structure_that_stays_in_place_gives_the_product_or_nothing(
    side: int, product: Product
) -> None:
    a, b = numbers(product.left), numbers(product.right)
    operands = [a, b]
    operands[side] = Plain(operands[side])
    op = product.op
    y = None
    with suppress(StructureLost):
        y = dot.dot_general(*operands, op.contract, op.batch_axes, a.dtype)
        np.testing.assert_allclose(y, op.perform(a, b), 1e-12, 1e-12)
    # One axis summed over among the last two, the other of these free: that is always a product.
    n = operands[side].ndim
    (*others, summed), batch = (None, *op.contract[side]), op.batch_axes[side]
    if len(others) == 1 and n > 1 and summed in {n - 1, n - 2} and not {n - 1, n - 2} & {*batch}:
        assert y is not None


@dataclass(frozen=True, repr=False)
class Greedy(Plain):
    """One that multiplies whole arrays alone."""

    def matrix_transpose(self) -> Any:
        return Greedy(self.xp.swapaxes(self.values, -1, -2))

    def rmatmul(self, x: Any) -> Any:
        x = materialized(x, "times") if isinstance(x, ImplicitArray) else x
        return self.xp.matmul(x, self.values)


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_structures_that_one_multiplies_which_needs_no_other_whole(first: int) -> None:
    values = jnp.asarray(numbers((3, 3)))
    operands = [Greedy(values), Box(values)]
    a, b = operands[first], operands[1 - first]
    with materializing("error"):
        y = implicit(jnp.matmul)(a, b)
    np.testing.assert_allclose(np.asarray(y), values @ values, 1e-5)
    with materializations() as report:
        implicit(jnp.matmul)(operands[0], operands[0])
    assert [found.what for found in report] == ["times"]
    with materializing("error"), pytest.raises(MaterializeError, match="times"):
        implicit(jnp.matmul)(operands[0], operands[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("wanted", ["float32", "float64", None])
def test_sums_are_in_the_dtype_of_the_result(dtype: str, wanted: str | None) -> None:
    rng = np.random.default_rng(0)
    x, w = (jnp.asarray(rng.normal(size=shape), dtype) for shape in ((3, 200), (200, 4)))
    with jax.enable_x64(True):

        def product(x: Any, w: Any) -> Any:
            return lax.dot(x, w, preferred_element_type=wanted)

        y = implicit(product)(x, Box(w))
        assert y.dtype == (wanted or dtype)
        exact = np.asarray(x, "float64") @ np.asarray(w, "float64")
        rounding = float(jnp.finfo(y.dtype).eps) * (200 if wanted else 4)
        np.testing.assert_allclose(np.asarray(y, "float64"), exact, rounding, rounding * 20)


def test_a_narrower_result_is_cast_at_the_end() -> None:
    x, w = np.full((1, 3), 0.1, "float32"), np.full((3, 1), 1.0, "float32")
    y = implicit(lambda x, w: lax.dot(x, w, preferred_element_type="bfloat16"))(x, Box(w))
    assert y.dtype == "bfloat16"
    assert float(y[0, 0]) == float(jnp.asarray(np.float32(0.1) * 3, "bfloat16"))


def test_integers_are_summed_in_the_integers_asked_for() -> None:
    x, w = np.full((2, 50), 100, "int8"), np.full((50, 3), 100, "int8")
    y = implicit(lambda x, w: lax.dot(x, w, preferred_element_type="int32"))(x, Box(w))
    assert y.dtype == "int32"
    assert (np.asarray(y) == 500_000).all()


def test_a_products_precision_is_that_of_the_structures_own() -> None:
    x = jnp.ones((2, 3))

    def product(x: Any, w: Any) -> Any:
        return lax.dot(x, w, precision=lax.Precision.HIGHEST)

    program = jax.make_jaxpr(implicit(product))(x, Box(jnp.ones((3, 2))))
    (inner,) = (eqn for eqn in program.jaxpr.eqns if eqn.primitive.name == "dot_general")
    assert set(inner.params["precision"]) == {lax.Precision.HIGHEST}
