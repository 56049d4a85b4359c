"""Functions by the library of the arrays: the same numbers from each."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.implicit import ImplicitArray, numpy_like
from graphc.implicit.namespace import materialize_layer


@dataclass(frozen=True)
class Halves(ImplicitArray):
    left: Any
    right: Any

    def materialize(self) -> Any:
        return numpy_like(self.left).concatenate([self.left, self.right], 0)


@dataclass(frozen=True)
class Twice(ImplicitArray):
    half: Any

    def materialize(self) -> Any:
        return self.half + self.half


def symbolic(f: Any, *arrays: np.ndarray) -> Any:
    xs = [gt.as_tensor(x) for x in arrays]
    return graphc.function([], f(*xs), mode="NUMPY")()


WAYS = {
    "NumPy": lambda f, *arrays: f(*arrays),
    "JAX": lambda f, *arrays: np.asarray(f(*map(jnp.asarray, arrays))),
    "graphc": symbolic,
}


def level_names() -> list[str]:
    return [
        numpy_like(np.ones(1), x).name for x in (np.ones(2), jnp.ones(2), mx.ones(2), gt.vector())
    ]


def test_a_symbolic_array_goes_before_any_and_numpy_after_all() -> None:
    assert level_names() == ["NumPy", "JAX", "MLX", "graphc"]
    assert numpy_like(Halves(jnp.ones(2), np.ones(2)), 1.0).name == "JAX"
    assert numpy_like(1.0, [np.ones(2), gt.vector()]).name == "graphc"


@pytest.mark.parametrize("way", WAYS)
@given(
    m=st.integers(0, 4),
    n=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=10, deadline=None)
def test_segments_are_summed_and_ids_out_of_range_left_out(
    way: str, m: int, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 9, (m, 2)).astype("float32")
    ids = rng.integers(-2, n + 2, m)
    wanted = np.zeros((n, 2), "float32")
    for i, row in zip(ids, values, strict=True):
        if 0 <= i < n:
            wanted[i] += row
    found = WAYS[way](lambda v, i: numpy_like(v).segment_sum(v, i, n), values, ids)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("way", WAYS)
def test_products_have_batch_axes_first_then_the_left_ones_then_the_right(way: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((2, 3, 4), (4, 5, 2)))
    found = WAYS[way](
        lambda a, b: numpy_like(a).dot_general(a, b, ((2,), (0,)), ((0,), (2,))), a, b
    )
    np.testing.assert_allclose(found, np.einsum("bik,kjb->bij", a, b), rtol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_casts_take_names_and_dtypes(way: str) -> None:
    for dtype in ("int8", np.dtype("int8")):
        found = WAYS[way](lambda x: numpy_like(x).cast(x, dtype), np.array([1.5, -2.5], "float32"))  # noqa: B023
        assert np.asarray(found).dtype == np.int8
        np.testing.assert_array_equal(found, [1, -2])


@pytest.mark.parametrize("way", ["NumPy", "JAX"])
def test_operands_may_be_implicit(way: str) -> None:
    rows = np.arange(6.0, dtype="float32").reshape(2, 3)

    def f(rows: Any) -> Any:
        x = Halves(rows, Twice(rows))
        xp = numpy_like(x)
        return xp.matmul(x, xp.swapaxes(x, 0, 1)) + xp.sum(xp.cast(x, "float32"))

    whole = np.concatenate([rows, 2 * rows])
    np.testing.assert_allclose(WAYS[way](f, rows), whole @ whole.T + whole.sum(), rtol=1e-6)


def test_lengths_are_numbers_or_symbolic() -> None:
    assert numpy_like(np.ones((2, 3))).shape_of(np.ones((2, 3))) == (2, 3)
    x = gt.tensor("x", shape=(None, 3))
    n, three = numpy_like(x).shape_of(x)
    assert three == 3
    assert int(n.eval({x: np.ones((5, 3))}, mode="NUMPY")) == 5


def test_mlx_dispatches_nothing_and_says_so() -> None:
    x = Twice(mx.ones((2, 2)))
    assert np.asarray(materialize_layer(x)).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert str(numpy_like(x).cast(mx.ones(2), "bool").dtype) == "mlx.core.bool"
    with pytest.raises(ImplicitArrayError, match="MLX has no dispatch"):
        x @ mx.ones((2, 2))
