"""Toeplitz matrices, against SciPy's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.linalg import toeplitz

import graphc
import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.implicit import materializing
from graphc.implicit.functions import implicit
from graphc.implicit.structures.toeplitz import LONG, Toeplitz, ToeplitzProduct
from tests.implicit.protocol import ALIKE, Symbols, answers, confirm, numbers, slope_agrees
from tests.implicit.reference import Case, check, named, runs

STRUCTURED = named(
    ALIKE,
    """
    w[::-1]; split in two; w + 1; w - s; 1 - w; w + w; w - 2 * w; w * w; w ** 2; w ** 3; abs;
    sign; floor; exp; tanh; isnan; cast; cast, product; cast half; max; max of rows; min; prod;
    norm
""",
)


def make(rng: np.random.Generator) -> Any:
    column, row = rng.normal(size=6), rng.normal(size=5)
    return Toeplitz(column, row), toeplitz(column, row)


def make_symmetric(rng: np.random.Generator) -> Any:
    column = rng.normal(size=6)
    return Toeplitz(column), toeplitz(column)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, STRUCTURED)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2, ways=("NUMPY", "jit")))
def test_operations_of_symmetric_ones(case: Case, way: str) -> None:
    check(make_symmetric, case, way, STRUCTURED)


@pytest.mark.parametrize("make_one", [make, make_symmetric])
def test_the_slope_is_that_of_differences(make_one: Any) -> None:
    slope_agrees(make_one(np.random.default_rng(0))[0])


DTYPES = ("float64", "float32", "int8", "int32", "bool", "complex128")
BATCHES = st.sampled_from([(), (), (2,), (2, 3), (1,), (0,)])
LENGTHS = st.tuples(st.integers(0, 40), st.integers(0, 12))


def spread(column: Any, row: Any) -> Any:
    """The whole matrices of columns (*batch, m) and rows (*batch, n)."""
    m, n = column.shape[-1], row.shape[-1]
    whole = np.zeros((*column.shape[:-1], m, n), column.dtype)
    for i in range(m):
        for j in range(n):
            whole[..., i, j] = column[..., i - j] if i >= j else row[..., j - i]
    return whole


def general(rng: Any, dtype: str, batch: Any, lengths: Any) -> tuple[Toeplitz, Any]:
    column, row = [numbers(rng, dtype, *batch, n) for n in lengths]
    return Toeplitz(column, row), spread(column, row)


def hermitian(rng: Any, dtype: str, batch: Any, lengths: Any) -> tuple[Toeplitz, Any]:
    column = numbers(rng, dtype, *batch, lengths[1])
    return Toeplitz(column), spread(column, column.conj())


def is_required(question: str) -> bool:
    names = ("times 1", "times 3", "swapped", "window", "rows", "scaled", "divided", "shifted")
    more = ("permuted", "broadcast", "reshaped batch", "multiplied by", "added", "mapped", "cast")
    known = ("sum [-2", "sum [-1", "max [-2", "prod [-1", "any [-2", "chosen by one")
    return question.startswith((*names, *more, *known)) and question != "added whole"


def asked(kind: Any, level: str, dtype: str, batch: Any, lengths: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, whole = kind(rng, dtype, batch, lengths)
    assert (w.shape, w.dtype) == (whole.shape, whole.dtype)
    np.testing.assert_array_equal(np.asarray(w), whole)
    confirm(answers(level, w, whole, *kind(rng, dtype, batch, lengths), seed), is_required)


@pytest.mark.parametrize("kind", [general, hermitian])
@pytest.mark.parametrize("level", ["numpy", "graphc"])
@settings(max_examples=10, deadline=None)
@given(st.sampled_from(DTYPES), BATCHES, LENGTHS, st.integers(0, 9))
def test_each_answer_is_right(
    kind: Any, level: str, dtype: str, batch: Any, lengths: Any, seed: int
) -> None:
    asked(kind, level, dtype, batch, lengths, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", [(), (2,)])
def test_each_answer_is_right_in_jax(batch: Any) -> None:
    with jax.enable_x64(True):
        asked(general, "jax", "float64", batch, (5, 4), 0)


def error_of(found: Any, column: Any, row: Any, x: Any) -> float:
    """The error relative to the norms, in units of rounding."""
    wide = toeplitz(column.astype("float64"), row.astype("float64")) @ x.astype("float64")
    norm = np.hypot(np.linalg.norm(column), np.linalg.norm(row[1:])) * np.linalg.norm(x)
    return float(np.abs(np.asarray(found) - wide).max() / norm / np.finfo(x.dtype).eps)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("lengths", [(LONG, 700), (900, LONG), (3 * LONG, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_stated_error_of_long_ones(dtype: str, lengths: Any) -> None:
    """8 eps log2(m + n) |t| |x|, by Fourier transforms and by blocks."""
    rng = np.random.default_rng(0)
    column, row, x = [rng.normal(size=n).astype(dtype) for n in (*lengths, lengths[1])]
    bound = 8 * np.log2(sum(lengths))
    w = Toeplitz(column, row)
    assert error_of(w.matrix_transpose().rmatmul(x[None])[0], column, row, x) < bound
    with jax.enable_x64(True):
        found = implicit(jnp.matmul)(jax.tree.map(jnp.asarray, w), jnp.asarray(x))
    assert found.dtype == dtype
    assert error_of(found, column, row, x) < bound
    symbols = Symbols()
    symbolic = w.matrix_transpose().each(symbols.enter).rmatmul(symbols.enter(x[None]))
    assert error_of(symbols.leave(symbolic)[0], column, row, x) < bound


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_long_ones_in_graphs_and_their_gradients(mode: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    lengths, rows = (LONG, LONG // 2 + 3), 3
    column, row = [rng.normal(size=n).astype(dtype) for n in lengths]
    x, g = (rng.normal(size=(n, rows)).astype(dtype) for n in lengths[::-1])
    of_type = Toeplitz.spec(lengths, dtype)
    w, symbol = gt.implicit(of_type, name="w"), gt.matrix("x", dtype=dtype)
    with materializing("error"):
        y = w @ symbol
        wrt = [w.array.column, w.array.row, symbol]
        f = graphc.function([w, symbol], [y, *graphc.grad((y * g).sum(), wrt)], mode=mode)
    found = [np.asarray(part) for part in f(Toeplitz(column, row), x)]
    wide = [array.astype("float64") for array in (column, row, x, g)]
    dense = toeplitz(*wide[:2])
    by_element = wide[3] @ wide[2].T
    by_row = [np.trace(by_element, k) for k in range(lengths[1])]
    # The first element of the row is not read.
    by_column = [np.trace(by_element, -k) for k in range(lengths[0])]
    expected = [dense @ wide[2], by_column, [0.0, *by_row[1:]], dense.T @ wide[3]]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, atol=np.finfo(dtype).eps * 40 * np.abs(b).max())


def test_derivatives_and_batches_of_long_ones() -> None:
    rng = np.random.default_rng(0)
    t, x = gt.matrix("t", shape=(2, 40)), gt.tensor("x", dtype="float64", shape=(2, 3, 16))
    values = [rng.normal(size=a.type.shape) for a in (t, x)]
    graphc.verify_grad(
        lambda t, x: gt.Tensor.make(ToeplitzProduct(16, 25), t, x), values, mode="NUMPY"
    )
    y = gt.Tensor.make(ToeplitzProduct(16, 25), t, x)
    tangents = [rng.normal(size=a.shape) for a in values]
    forward = graphc.pushforward(y, [t, x], [gt.constant(v) for v in tangents])
    step = 1e-6
    f = graphc.function([t, x], [y, forward], mode="NUMPY")
    ends = [
        f(*[v + s * d for v, d in zip(values, tangents, strict=True)])[0] for s in (step, -step)
    ]
    np.testing.assert_allclose(
        f(*values)[1], (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-6
    )
    one = [gt.vector("t", shape=(40,)), gt.matrix("x", shape=(3, 16))]
    single = gt.Tensor.make(ToeplitzProduct(16, 25), *one)
    for swaps in ({one[0]: t}, {one[1]: x}, {one[0]: t, one[1]: x}):
        (batched,) = graphc.vectorize_graph([single], swaps)
        given = [t if one[0] in swaps else one[0], x if one[1] in swaps else one[1]]
        arrays = [v if a in swaps.values() else v[0] for a, v in zip(given, values, strict=True)]
        found = graphc.function(given, batched, mode="JAX")(*arrays)
        t2, x2 = (np.broadcast_to(a, v.shape) for a, v in zip(arrays, values, strict=True))
        plain = [[np.correlate(t2[i], row, "valid") for row in x2[i]] for i in range(2)]
        np.testing.assert_allclose(found, plain, atol=1e-12)


def test_long_ones_of_integers_are_exact() -> None:
    rng = np.random.default_rng(0)
    column, row = rng.integers(-9, 9, LONG), rng.integers(-9, 9, LONG)
    x = rng.integers(-9, 9, (LONG, 2))
    with materializing("error"):
        np.testing.assert_array_equal(Toeplitz(column, row) @ x, toeplitz(column, row) @ x)


def test_long_complex_ones() -> None:
    rng = np.random.default_rng(0)
    column = rng.normal(size=LONG) + 1j * rng.normal(size=LONG)
    x = rng.normal(size=(3, LONG)) + 1j * rng.normal(size=(3, LONG))
    found = Toeplitz(column).rmatmul(x)
    np.testing.assert_allclose(found, x @ toeplitz(column), rtol=1e-9, atol=1e-10)


def test_the_temporary_of_a_product_is_small() -> None:
    n = 4096
    w = Toeplitz(jnp.zeros(n), jnp.zeros(n))

    def product(w: Any, x: Any) -> Any:
        return implicit(lambda w, x: w @ x)(w, x)

    compiled = jax.jit(product).lower(w, jnp.zeros((n, 1))).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < n * n * 4 / 20


BAD = [
    (np.ones(()), None, "vectors"),
    (np.ones((2, 3)), np.ones((3, 3)), "equal leading axes"),
    (np.ones(3), np.ones(3, "int8"), "different dtypes"),
]


@pytest.mark.parametrize(("column", "row", "said"), BAD)
def test_fields_that_do_not_fit(column: Any, row: Any, said: str) -> None:
    with pytest.raises(ImplicitArrayError, match=said):
        Toeplitz(column, row)


def test_a_symmetric_one_is_square() -> None:
    with pytest.raises(ImplicitArrayError, match="square"):
        Toeplitz.spec((3, 4), "float32", symmetric=True)


def test_a_hermitian_matrix_stays_one_by_a_choice_and_a_cast() -> None:
    column = jnp.asarray([2.0, 1 + 2j, -1j], "complex64")
    flags = jnp.asarray([True, False])

    @implicit
    def choose(t: Any) -> Any:
        return jax.lax.scan(lambda c, flag: (jnp.where(flag, c, t), None), t, flags)[0]

    with materializing("error"):
        y = choose(Toeplitz(column))
    assert y.row is None
    np.testing.assert_allclose(np.asarray(y), np.asarray(Toeplitz(np.asarray(column))))
