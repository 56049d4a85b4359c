"""Sparse matrices by coordinates and compressed, against SciPy's and JAX's."""

from __future__ import annotations

from typing import Any

import jax
import jax.experimental.sparse as jax_sparse
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import BoundsError, ImplicitArrayError
from graphc.implicit import materializing, with_fields
from graphc.implicit.structures.compressed import CSC, CSR
from graphc.implicit.structures.coordinates import BCOO
from graphc.link import names
from tests.implicit.protocol import ALIKE, answers, confirm, numbers, slope_agrees
from tests.implicit.reference import Case, check, named, runs
from tests.modes import uncompiled

STRUCTURED = named(
    ALIKE,
    """
    tensordot; concatenate; concatenate columns; split in two; w * row; w * column; w / row; w *
    same; same * w; w + w; w - 2 * w; w * xs; cast; cast, product; cast half
""",
)
UNIQUE = named("abs; sign; floor; tanh; max") | STRUCTURED


def make(rng: np.random.Generator) -> Any:
    """With elements in several parts, and one that is left out."""
    indices = np.array([[0, 1], [3, 2], [0, 1], [2, 0], [6, 4], [4, 5]])
    data = rng.normal(size=6)
    whole = np.zeros((7, 6))
    np.add.at(whole, tuple(indices.T), data)
    return BCOO(data, indices, (6, 5)), whole[:6, :5]


def make_rows(rng: np.random.Generator) -> Any:
    whole = np.zeros(24)
    whole[rng.permutation(24)[:9]] = rng.normal(size=9)
    whole = whole.reshape(6, 4)
    return CSR.from_scipy(scipy.sparse.csr_array(whole)), whole


def make_columns(rng: np.random.Generator) -> Any:
    w, whole = make_rows(rng)
    return w.matrix_transpose(), whole.T


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, STRUCTURED)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations_of_compressed_rows(case: Case, way: str) -> None:
    check(make_rows, case, way, UNIQUE)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2, ways=("NUMPY", "jit")))
def test_operations_of_compressed_columns(case: Case, way: str) -> None:
    check(make_columns, case, way, UNIQUE)


@pytest.mark.parametrize("make_one", [make, make_rows, make_columns])
def test_the_slope_is_that_of_differences(make_one: Any) -> None:
    slope_agrees(make_one(np.random.default_rng(0))[0])


DTYPES = ("float64", "float32", "int8", "int32", "bool", "complex128")
BATCHES = st.sampled_from([(), (), (2,), (2, 3), (1,), (0,)])
LENGTHS = st.tuples(st.integers(0, 6), st.integers(0, 6))


def by_coordinates(rng: Any, dtype: str, batch: Any, lengths: Any) -> tuple[BCOO, Any]:
    """At random places, some of them the same and some behind the last."""
    m, n = lengths
    count = m + n
    data = numbers(rng, dtype, *batch, count)
    places = [rng.integers(0, k + 1, (*batch, count)).astype("int32") for k in lengths]
    whole = np.zeros((*batch, m + 1, n + 1), dtype)
    stack = np.indices((*batch, count))[:-1]
    np.add.at(whole, (*stack, *places), data)
    return BCOO(data, np.stack(places, -1), (m, n)), whole[..., :m, :n]


def by_rows(rng: Any, dtype: str, batch: Any, lengths: Any) -> tuple[CSR, Any]:
    """With room for more than is stored behind the last row."""
    m, n = lengths
    room = m * n // 2 + 1
    kept = rng.random((*batch, m, n)) < 0.4
    kept &= np.cumsum(kept.reshape(*batch, m * n), -1).reshape(kept.shape) <= room
    whole = np.where(kept, numbers(rng, dtype, *batch, m, n), np.zeros((), dtype))
    data = numbers(rng, dtype, *batch, room)
    indices = np.zeros((*batch, room), "int32")
    indptr = np.zeros((*batch, m + 1), "int32")
    for place in np.ndindex(*batch):
        rows, columns = np.nonzero(kept[place])
        data[place][: rows.size] = whole[place][rows, columns]
        indices[place][: rows.size] = columns
        indptr[place] = np.searchsorted(rows, np.arange(m + 1))
    return CSR(data, indices, indptr, (m, n), True), whole


def by_columns(rng: Any, dtype: str, batch: Any, lengths: Any) -> tuple[CSC, Any]:
    w, whole = by_rows(rng, dtype, batch, lengths[::-1])
    return w.matrix_transpose(), np.swapaxes(whole, -1, -2)


KINDS = [by_coordinates, by_rows, by_columns]


def is_required(question: str) -> bool:
    names = ("times", "swapped", "window", "scaled", "divided", "mapped neg", "mapped conj", "sum")
    more = ("permuted", "broadcast", "reshaped", "joined", "chosen", "any [-2")
    return question.startswith((*names, *more)) and question != "times itself"


def is_required_of_unique(question: str) -> bool:
    names = ("mapped abs", "mapped square", "cast", "max [-2, -1]", "min [-2, -1]")
    return question.startswith(names) or is_required(question)


def asked(kind: Any, level: str, dtype: str, batch: Any, lengths: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, whole = kind(rng, dtype, batch, lengths)
    assert (w.shape, w.dtype) == (whole.shape, whole.dtype)
    np.testing.assert_array_equal(np.asarray(w), whole)
    required = is_required_of_unique if w.unique else is_required
    other = kind(rng, dtype, batch, lengths)
    questions = answers(level, w, whole, *other, seed)
    confirm(questions, required if dtype != "bool" else None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", ["numpy", "graphc"])
@settings(max_examples=8, deadline=None)
@given(st.sampled_from(DTYPES), BATCHES, LENGTHS, st.integers(0, 9))
def test_each_answer_is_right(
    kind: Any, level: str, dtype: str, batch: Any, lengths: Any, seed: int
) -> None:
    asked(kind, level, dtype, batch, lengths, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("kind", [by_coordinates, by_rows])
def test_each_answer_is_right_in_jax(kind: Any, batch: Any) -> None:
    with jax.enable_x64(True):
        asked(kind, "jax", "float64", batch, (4, 3), 0)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_bools_are_joined_by_or_in_jax(batch: Any) -> None:
    rng = np.random.default_rng(1)
    w, whole = by_coordinates(rng, "bool", batch, (2, 2))
    np.testing.assert_array_equal(np.asarray(jax.tree.map(jnp.asarray, w)), whole)


# From and to other libraries.


@pytest.mark.parametrize("kind", [BCOO, CSR, CSC])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "dok"])
def test_a_matrix_of_scipy_and_back(kind: Any, layout: str) -> None:
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((5, 4), density=0.4, rng=rng, format=layout)
    w = kind.from_scipy(matrix)
    np.testing.assert_array_equal(np.asarray(w), matrix.toarray())
    np.testing.assert_array_equal(w.to_scipy().toarray(), matrix.toarray())


def test_to_scipy_leaves_out_what_is_no_element() -> None:
    w, whole = make(np.random.default_rng(0))
    assert w.to_scipy().nnz == 4
    np.testing.assert_array_equal(w.to_scipy().toarray(), whole)
    row = CSR(np.ones(3), np.array([1, 0, 2]), np.array([0, 1]), (1, 3))
    assert row.to_scipy().toarray().tolist() == np.asarray(row).tolist() == [[0, 1, 0]]


def test_a_stack_is_none_of_scipys() -> None:
    stack = BCOO(np.ones((2, 1)), np.zeros((2, 1, 2), int), (2, 2))
    with pytest.raises(ImplicitArrayError, match="stack"):
        stack.to_scipy()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("batches", [0, 1])
def test_a_matrix_of_jax_and_back(batches: int) -> None:
    whole = np.where(np.random.default_rng(0).random((2, 3, 4)) < 0.5, 1.5, 0)[batches:]
    whole = whole[0] if not batches else whole
    theirs = jax_sparse.bcoo_fromdense(jnp.asarray(whole), n_batch=batches, nse=9)
    w = BCOO.from_jax(theirs)
    np.testing.assert_array_equal(np.asarray(w), whole)
    np.testing.assert_array_equal(w.to_jax().todense(), whole)
    x = np.random.default_rng(1).normal(size=(*whole.shape[:-2], 2, 3)).astype("float32")
    found = w.rmatmul(jnp.asarray(x))
    np.testing.assert_allclose(found, x @ whole, rtol=1e-6)


def test_dense_axes_of_jax_are_refused() -> None:
    theirs = jax_sparse.bcoo_fromdense(jnp.ones((2, 3)), n_dense=1)
    with pytest.raises(ImplicitArrayError, match="1 dense"):
        BCOO.from_jax(theirs)


# What stays sparse.


def test_sums_and_pieces_stay_sparse() -> None:
    w, whole = make(np.random.default_rng(0))
    with materializing("error"):
        square = w[:5]
        part = (square + square.T)[1:4, ::2]
    assert isinstance(part, BCOO)
    np.testing.assert_allclose(np.asarray(part), (whole[:5] + whole[:5].T)[1:4, ::2], rtol=1e-14)


def test_the_transpose_of_rows_is_columns() -> None:
    w, whole = make_rows(np.random.default_rng(0))
    assert isinstance(w.T, CSC)
    assert w.T.T.indices is w.indices
    np.testing.assert_array_equal(np.asarray(w.T.coo), whole.T)
    np.testing.assert_array_equal(np.asarray(w.T), whole.T)


def test_zeros_that_are_not_stored_stay_zero() -> None:
    w = BCOO(np.ones(1), np.zeros((1, 2), int), (2, 2))
    found = np.asarray(w * np.full((2, 2), np.inf))
    assert found.tolist() == [[np.inf, 0], [0, 0]]


def test_what_is_left_out_spoils_nothing() -> None:
    w = BCOO(np.array([1.0, np.nan]), np.array([[0, 0], [2, 2]]), (2, 2))
    np.testing.assert_array_equal(np.asarray(w), [[1, 0], [0, 0]])
    np.testing.assert_array_equal(w @ np.full((2, 1), 3.0), [[3], [0]])
    assert w.sum() == 1


@pytest.mark.parametrize("cls", [CSR, CSC])
def test_a_shared_matrix_whose_fields_may_change_length_is_multiplied(cls: Any, mode: str) -> None:
    x = scipy.sparse.csr_array(np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]))
    w, u, v = graphc.shared(cls.from_scipy(x)), gt.vector("u"), gt.vector("v")
    f = graphc.function([u, v], [w @ u, v @ w], mode=uncompiled(mode), returns="numpy")
    found = f([1.0, 2.0, 3.0], [1.0, 2.0])
    assert [y.tolist() for y in found] == [[8.0, 3.0], [6.0, 1.0, 2.0]]


# What does not fit.

PLACES = np.array([[0, 0], [1, 1]])
BAD = [
    (lambda: BCOO(np.ones(3), PLACES, (2, 2)), ImplicitArrayError, "3 values"),
    (lambda: BCOO(np.ones(2), PLACES * 1.0, (2, 2)), ImplicitArrayError, "float64"),
    (lambda: BCOO(np.ones(2), PLACES[:, :1], (2, 2)), ImplicitArrayError, "a row and a column"),
    (lambda: BCOO(np.ones(2), PLACES, (2, -2)), ImplicitArrayError, "negative"),
    (lambda: BCOO(np.ones(2), PLACES * 4, (2, 2)), BoundsError, "has 4, and the length is 2"),
    (lambda: BCOO(np.ones(2), -PLACES, (2, 2)), BoundsError, "has -1"),
    (lambda: BCOO(np.ones(2), PLACES * 0, (2, 2), True), ImplicitArrayError, "more than once"),
    (lambda: BCOO(np.ones((2, 2)), PLACES, (2, 2)), ImplicitArrayError, "equal leading axes"),
    (lambda: BCOO.spec((2, 2), "float32"), ImplicitArrayError, "without nse"),
    (
        lambda: CSR(np.ones(2), np.arange(2), np.arange(3), (3, 2)),
        ImplicitArrayError,
        "one more than",
    ),
    (lambda: CSR(np.ones(1), np.array([4]), np.arange(2), (1, 2)), BoundsError, "indices has 4"),
    (
        lambda: CSR(np.ones(2), np.arange(2), np.array([0, 2, 1]), (2, 2)),
        BoundsError,
        "never decrease",
    ),
    (
        lambda: CSR(np.ones(2), np.arange(2), np.array([1, 1, 2]), (2, 2)),
        BoundsError,
        "start at 0",
    ),
    (
        lambda: CSR(np.ones(2), np.arange(2), np.array([0, 1, 3]), (2, 2)),
        BoundsError,
        "nse at most",
    ),
]


@pytest.mark.parametrize(("make_it", "kind", "said"), BAD)
def test_fields_that_do_not_fit(make_it: Any, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said):
        make_it()


@pytest.mark.parametrize("mode", names())
@pytest.mark.parametrize("make_one", [make, make_rows, make_columns])
def test_diagonals_and_elements_are_found_from_what_is_stored(make_one: Any, mode: str) -> None:
    array, whole = make_one(np.random.default_rng(0))
    w = gt.implicit(array, name="w")
    rows, columns = (gt.tensor(name, dtype="int64", shape=(3,)) for name in ("rows", "columns"))
    with materializing("error"):
        outputs = [gt.diagonal(w, k) for k in (-9, -2, 0, 1)]
        outputs += [gt.trace(w), w[rows, columns]]
        cost = gt.sum(outputs[2] ** 2) + gt.sum(outputs[-1])
        outputs.append(graphc.grad(cost, w.array.data))
        f = graphc.function([w, rows, columns], outputs, uncompiled(mode), returns="numpy")
    places = np.array([0, 3, 2]), np.array([1, -2, 0])
    *found, trace, elements, slope = f(array, *places)
    for y, k in zip(found, (-9, -2, 0, 1), strict=True):
        np.testing.assert_allclose(y, np.diagonal(whole, k))
    np.testing.assert_allclose(trace, np.trace(whole))
    np.testing.assert_allclose(elements, whole[places])
    by_whole = np.zeros_like(whole)
    np.add.at(by_whole, places, 1)
    n = min(whole.shape)
    by_whole[range(n), range(n)] += 2 * np.diagonal(whole)
    _, i, j = array.entries()
    inside = i < whole.shape[0]
    wanted = np.zeros(len(i))
    wanted[inside] = by_whole[i[inside], j[inside]]
    np.testing.assert_allclose(slope, wanted)


@pytest.mark.parametrize("batch", [(2,), (2, 3)])
def test_a_stack_of_sparse_matrices_has_diagonals(batch: tuple[int, ...]) -> None:
    array, whole = by_rows(np.random.default_rng(0), "float64", batch, (4, 5))
    w = gt.implicit(array, name="w")
    with materializing("error"):
        f = graphc.function([w], gt.diagonal(w, 1, -2, -1), "NUMPY")
    np.testing.assert_array_equal(f(array), np.diagonal(whole, 1, -2, -1))
    np.testing.assert_array_equal(array.diagonal(1), np.diagonal(whole, 1, -2, -1))


def test_more_elements_than_rows_make_a_matrix_whole() -> None:
    array, whole = make_rows(np.random.default_rng(0))
    w = gt.implicit(array, name="w")
    places = np.arange(20) % 6, np.arange(20) % 4
    f = graphc.function([w], w[places], "NUMPY")
    np.testing.assert_array_equal(f(array), whole[places])


def test_functions_of_the_stored_values_alone_are_functions_of_a_field() -> None:
    array, whole = make_rows(np.random.default_rng(0))
    w = gt.implicit(array, name="w")
    x = gt.matrix("x", shape=(4, 2))
    with materializing("error"):
        grown = gt.as_tensor(with_fields(w.array, {"data": gt.exp(w.array.data)}))
        y = grown @ x
        f = graphc.function([w, x], [y, graphc.grad(gt.sum(y), w.array.data)], returns="numpy")
    value = np.arange(8.0).reshape(4, 2)
    stored = np.where(whole != 0, np.exp(whole), 0)
    found, slope = f(array, value)
    np.testing.assert_allclose(found, stored @ value)
    _, i, j = array.entries()
    np.testing.assert_allclose(slope, stored[i, j] * value.sum(1)[j])


@pytest.mark.parametrize(("cls", "theirs"), [(BCOO, "coo"), (CSR, "csr"), (CSC, "csc")])
def test_a_shared_matrix_may_get_more_values_and_is_multiplied_from_both_sides(
    cls: Any, theirs: str, mode: str
) -> None:
    def sparse(whole: Any) -> Any:
        return cls.from_scipy(scipy.sparse.coo_array(whole).asformat(theirs))

    _, whole = make_rows(np.random.default_rng(0))
    s = graphc.shared(sparse(whole), "s")
    x, y = gt.vector("x"), gt.vector("y")
    f = graphc.function([x, y], [s @ x, y @ s], uncompiled(mode), returns="numpy")
    a, b = np.arange(4.0), np.arange(6.0)
    for matrix in (whole, whole + np.eye(6, 4)):
        s.set_value(sparse(matrix))
        for found, expected in zip(f(a, b), (matrix @ a, b @ matrix), strict=True):
            np.testing.assert_allclose(found, expected, 1e-12)
