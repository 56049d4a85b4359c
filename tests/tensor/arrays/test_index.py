"""Indexing reads and changes what NumPy's does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from graphc.ir import toposort
from graphc.link import names
from tests.contract.differences import SMOOTH, slopes
from tests.modes import uncompiled
from tests.reference import evaluate
from tests.tensor.agreement import check_agrees, inputs_for

A = np.arange(60.0).reshape(3, 4, 5)


@st.composite
def entries(draw: Any, n: int, common: tuple[int, ...]) -> Any:
    """What may stand for an axis of that length; index arrays broadcast to the common shape."""
    match draw(st.sampled_from(["integer", "slice", "array", "all"])):
        case "integer":
            return draw(st.integers(-n, n - 1))
        case "slice":
            ends = st.one_of(st.none(), st.integers(-n - 1, n + 1))
            return slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, -1, -2, -3])))
        case "array":
            shape = draw(st.sampled_from([common, common[1:], (1,) * len(common)]))
            return draw(hnp.arrays(np.int64, shape, elements=st.integers(-n, n - 1)))
    return slice(None)


@st.composite
def arrays_with_an_index(draw: Any) -> tuple[np.ndarray, Any]:
    """Integers, slices, integer arrays and masks, with new axes and an ellipsis between."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    array = np.arange(float(np.prod(shape))).reshape(shape)
    front = draw(st.integers(0, len(shape)))
    # Dots for no axes have a test of their own.
    back = draw(st.integers(0, len(shape) - front - 1)) if front < len(shape) else 0
    common = draw(st.sampled_from([(), (2,), (3,), (1,), (2, 3), (0,)]))
    index: list[Any] = [draw(entries(n, common)) for n in shape[:front]]
    if front < len(shape) and (back or draw(st.booleans())):
        index += [..., *[draw(entries(n, common)) for n in shape[len(shape) - back :]]]
    for _ in range(draw(st.integers(0, 2))):
        index.insert(draw(st.integers(0, len(index))), None)
    if front and draw(st.integers(0, 3)) == 0:
        place = next(i for i, part in enumerate(index) if part is not None)
        index[place] = draw(hnp.arrays(np.bool_, shape[0]))
    return array, tuple(index)


def in_numpy(array: np.ndarray, index: Any) -> np.ndarray | None:
    try:
        return array[index]
    except IndexError:
        return None


@settings(max_examples=500)
@given(arrays_with_an_index())
def test_any_index_reads_what_numpy_reads(case: tuple[np.ndarray, Any]) -> None:
    array, index = case
    if in_numpy(array, index) is None:
        return
    has_mask = any(isinstance(i, np.ndarray) and i.dtype == bool for i in index)
    check_agrees(lambda x: x[index], lambda x: x[index], array, tight=not has_mask)


@settings(max_examples=300)
@given(arrays_with_an_index(), st.booleans())
def test_any_part_is_changed_as_in_numpy(case: tuple[np.ndarray, Any], whole: bool) -> None:
    array, index = case
    part = in_numpy(array, index)
    if part is None:
        return
    value = -1.0 - np.arange(float(part.size)).reshape(part.shape) if whole else np.array(-1.0)
    added = array.copy()
    np.add.at(added, index, value)
    for static in (True, False):
        x, v = inputs_for([array, value], static)
        outputs = [x[index].inc(v), x[index].inc(-2), x[index].set(-2)]
        found = evaluate(outputs, {x: array, v: value})
        np.testing.assert_array_equal(found[0], added)
        assert all(x.type.admits(y.type) for y in outputs)
        constant = array.copy()
        constant[index] = -2
        np.testing.assert_array_equal(found[2], constant)
        replaced = array.copy()
        replaced[index] = value
        if len(np.unique(np.arange(array.size).reshape(array.shape)[index])) == part.size:
            (found_set,) = evaluate([x[index].set(v)], {x: array, v: value})
            np.testing.assert_array_equal(found_set, replaced)


@settings(max_examples=100)
@given(arrays_with_an_index())
def test_symbolic_indices_read_what_constant_ones_do(case: tuple[np.ndarray, Any]) -> None:
    array, index = case
    expected = in_numpy(array, index)
    if expected is None:
        return
    values: dict[Any, Any] = {}

    def symbolic(part: Any) -> Any:
        if isinstance(part, int):
            part = np.array(part)
        if isinstance(part, np.ndarray):
            x = gt.tensor(shape=(None,) * part.ndim, dtype=part.dtype)
            values[x] = part
            return x
        if isinstance(part, slice):
            return slice(*[symbolic(p) for p in (part.start, part.stop, part.step)])
        return part

    x = gt.tensor(shape=(None,) * array.ndim)
    made = x[tuple(symbolic(part) for part in index)]
    np.testing.assert_array_equal(evaluate([made], {**values, x: array})[0], expected)


def test_repeated_indices_add_up() -> None:
    x, i = gt.vector(), gt.lvector()
    (y,) = evaluate([x[i].inc(1)], {x: np.zeros(3), i: [0, 2, 0, 0]})
    assert y.tolist() == [3.0, 0.0, 1.0]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool"])
@pytest.mark.parametrize("columns", [0, 1, 5, 100, 200])
def test_many_rows_add_up_in_order(dtype: str, columns: int) -> None:
    """However many columns there are, the sums are those of a loop over the rows, to the bit."""
    rng = np.random.default_rng(columns)
    x, value = ((9 * rng.normal(size=(n, columns))).astype(dtype) for n in (7, 300))
    rows = rng.integers(-7, 7, 300)
    i = gt.vector("i", dtype="int64")
    found = gt.inc_subtensor(gt.as_tensor(x)[i], value).eval({i: rows}, mode="NUMPY")
    expected = x.copy()
    for row, part in zip(rows, value, strict=True):
        expected[row] += part
    np.testing.assert_array_equal(found, expected, strict=True)


def test_increments_of_fewer_axes_than_the_index_all_count() -> None:
    x, v = gt.vector("x"), gt.vector("v")
    values = {x: np.zeros(2), v: np.array([1.0, 2.0])}
    (y,) = evaluate([x[[[0, 0], [1, 1]]].inc(v)], values)
    assert y.tolist() == [3.0, 3.0]


SETS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, tuple[int, ...]]] = {
    "rows": (lambda x, i, v: x[i].set(v), lambda i: np.s_[i], [0, 2, 2, 0], (4, 3)),
    "rows, from either end": (
        lambda x, i, v: x[i].set(v), lambda i: np.s_[i], [0, -1, 2, -3], (4, 3)
    ),
    "columns": (lambda x, i, v: x[1:, i].set(v), lambda i: np.s_[1:, i], [1, 0, 1], (2, 3)),
    "elements": (
        lambda x, i, v: x[i, i[::-1]].set(v), lambda i: np.s_[i, i[::-1]], [1, 0, 0, 1], (4,)
    ),
    "elements of a table": (
        lambda x, i, v: x[i, 1:].set(v), lambda i: np.s_[i, 1:], [[0, 1], [0, 2]], (2, 2, 2)
    ),
    "elements apart": (
        lambda x, i, v: x[i, None, 1].set(v), lambda i: np.s_[i, None, 1], [2, 1, 2], (3, 1)
    ),
    "one value for all": (lambda x, i, v: x[i].set(v), lambda i: np.s_[i], [0, 0, 1], (3,)),
    "places along an axis": (
        lambda x, i, v: gt.put_along_axis(x, i[:, None] + np.zeros((1, 3), int), v, 0),
        lambda i: np.s_[i[:, None], np.arange(3)[None]], [2, 0, 2, 2], (4, 3),
    ),
    "in a loop": (
        lambda x, i, v: graphc.scan(
            lambda k, y: y[i].set(k * v), sequences=gt.arange(1, 3), outputs_info=x
        )[-1],
        lambda i: np.s_[i], [0, 2, 2], (3, 3),
    ),
}  # fmt: skip
"""The update, NumPy's index, positions that repeat elements, and the shape of the value."""


@pytest.mark.parametrize("mode", names())
@pytest.mark.parametrize("case", SETS)
def test_of_several_values_set_at_one_position_the_last_alone_has_a_gradient(
    case: str, mode: str
) -> None:
    build, index, positions, shape = SETS[case]
    rng = np.random.default_rng(len(case))
    array, value, weight = (rng.normal(size=s) for s in ((3, 3), shape, (3, 3)))
    steps = 2 if case == "in a loop" else 1

    def by_numpy(x: Any, v: Any) -> Any:
        y = x.copy()
        y[index(np.array(positions))] = steps * v
        return y

    def cost(x: Any, v: Any) -> Any:
        return (weight * by_numpy(x, v) ** 3).sum()

    def squares_of_gradient(v: Any) -> Any:
        units = np.eye(v.size).reshape(-1, *shape)
        g = 3 * weight * by_numpy(array, v) ** 2
        return sum((g * by_numpy(np.zeros((3, 3)), unit)).sum() ** 2 for unit in units)

    x, v = gt.matrix("x"), gt.tensor("v", shape=(None,) * len(shape))
    i = gt.tensor("i", dtype="int64", shape=(None,) * np.ndim(positions))
    y = build(x, i, v)
    by_x, by_v = graphc.grad((weight * y**3).sum(), [x, v])
    second = graphc.grad((by_v**2).sum(), v)
    outputs = [y, by_x, by_v, second, graphc.pushforward(y, v, v)]
    f = graphc.function([x, v, i], outputs, uncompiled(mode), returns="numpy")
    expected = [by_numpy(array, value), *slopes(cost, [array, value])]
    expected += [*slopes(squares_of_gradient, [value]), by_numpy(np.zeros((3, 3)), value)]
    for found, wanted in zip(f(array, value, positions), expected, strict=True):
        np.testing.assert_allclose(found, wanted, SMOOTH, SMOOTH)


@pytest.mark.parametrize("mode", names())
def test_each_array_of_a_batch_has_its_own_last_values(mode: str) -> None:
    i, v = gt.lmatrix("i"), gt.matrix("v")

    def gradient(i: Any, v: Any) -> Any:
        return graphc.grad((gt.zeros(3)[i].set(v) ** 2 * np.array([0.5, 5.0, 50.0])).sum(), v)

    y = graphc.vectorize(gradient, signature="(n),(n)->(n)")(i, v)
    f = graphc.function([i, v], y, uncompiled(mode), returns="numpy")
    found = f([[0, 2, 2], [1, 1, 0]], np.ones((2, 3)))
    np.testing.assert_array_equal(found, [[1.0, 0, 100], [0, 10, 1]])


@pytest.mark.parametrize(
    "index",
    [lambda i: gt.arange(i.shape[0]), lambda i: [2, 0], lambda i: gt.lvector() > 0, lambda i: 1],
    ids=["consecutive", "constant", "a mask", "one"],
)
def test_the_gradient_of_positions_that_differ_is_the_plain_part(index: Any) -> None:
    i, x, v = gt.lvector("i"), gt.vector("x"), gt.vector("v")
    part = x[index(i)]
    g = graphc.grad((part.set(v if part.ndim else v[0]) ** 2).sum(), v)
    assert not [node for node in toposort([g]) if node.op.name == "equal"]


def test_one_length_is_a_part_of_a_shape() -> None:
    x = gt.matrix()
    found = evaluate([gt.shape(x)[-1].inc(2), x.shape[0].set(7)], {x: np.ones((2, 3))})
    np.testing.assert_array_equal(found, [[2, 5], [7, 3]])


def test_a_value_broadcasts_to_the_part() -> None:
    x, row = gt.tensor(shape=(3, 4)), gt.tensor(shape=(1, 4))
    (y,) = evaluate([x[::2].set(row)], {x: np.zeros((3, 4)), row: np.ones((1, 4))})
    assert y.sum(1).tolist() == [4.0, 0.0, 4.0]


@pytest.mark.parametrize("whole", [True, False], ids=["elements", "rows"])
def test_a_masked_part_is_changed_without_knowing_how_long_it_is(whole: bool) -> None:
    array = np.arange(6.0).reshape(2, 3)
    mask = array % 2 == 0 if whole else np.array([True, False])
    x, m = gt.matrix(), gt.tensor(shape=(None,) * mask.ndim, dtype="bool")
    outputs = [x[m].set(0), x[m].inc(10.0)]
    assert {y.op.name for y in outputs} == {"where"}
    zeroed, moved = array.copy(), array.copy()
    zeroed[mask] = 0
    moved[mask] += 10
    found = evaluate(outputs, {x: array, m: mask})
    np.testing.assert_array_equal(found[0], zeroed)
    np.testing.assert_array_equal(found[1], moved)


def test_a_constant_mask_reads_what_it_selects() -> None:
    mask = np.array([True, False, True])
    check_agrees(lambda x: x[mask], lambda x: x[mask], A, tight=False)
    check_agrees(lambda x: x[:, A[0, :, 0] > 7], lambda x: x[:, A[0, :, 0] > 7], A, tight=False)


def test_places_that_are_not_zero_are_numpys() -> None:
    value = np.array([[0, 1], [2, 0], [0, 3]])
    x = gt.lmatrix()
    found = evaluate(gt.nonzero(x), {x: value})
    for ours, theirs in zip(found, np.nonzero(value), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert gt.where(x)[1] is gt.nonzero(x)[1]


def test_iterating_over_a_known_length_gives_the_elements() -> None:
    x = gt.tensor(shape=(2, None))
    a, b = x
    assert a is x[0]
    assert b is x[1]


def test_dots_for_no_axes_change_nothing() -> None:
    for index in [(0, 1, 2, ...), (..., 0, [1, 2], 0), (0, ..., [0, 1], [1, 2])]:
        check_agrees(lambda x, i=index: x[i], lambda x, i=index: x[i], A)


def test_dots_for_no_axes_that_would_reorder_the_result_are_refused() -> None:
    assert A[:, 0, ..., [0, 1]].shape == (2, 3)
    assert A[:, 0, [0, 1]].shape == (3, 2)
    with pytest.raises(ArgumentError, match="stands for no axes"):
        gt.tensor3()[:, 0, ..., [0, 1]]


def test_a_list_of_lists_is_an_index_array() -> None:
    check_agrees(lambda x: x[[[0, 1], [2, 0]]], lambda x: x[[[0, 1], [2, 0]]], A)
    check_agrees(lambda x: x[[]], lambda x: x[[]], A)


def test_a_numpy_integer_is_an_integer() -> None:
    x = gt.tensor(shape=(3,))
    assert x[np.int8(1)] is x[1]
    assert x[gt.constant(1)] is x[1]


X, V = gt.tensor("x", shape=(3, 4)), gt.vector("v")

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "too many indices": (lambda: X[0, 0, 0], BoundsError, "has 2 axes, the index 3"),
    "an integer out of bounds": (lambda: X[3], BoundsError, "outside axis 0 .* of length 3"),
    "a negative one": (lambda: X[:, -5], BoundsError, "outside axis 1 .* of length 4"),
    "a length that is not there": (lambda: V.shape[1], BoundsError, "Index 1"),
    "a bool": (lambda: X[True], DTypeError, "instead of a bool"),
    "a float": (lambda: X[1.0], DTypeError, "is not an index"),
    "a string": (lambda: X["a"], DTypeError, "is not an index"),
    "a float array": (lambda: X[V], DTypeError, "is not an index"),
    "a bool scalar": (lambda: X[gt.scalar(dtype="bool")], DTypeError, "Use gt.where"),
    "a float in a slice": (lambda: X[: gt.scalar()], DTypeError, "is not an index"),
    "an array in a slice": (lambda: X[: gt.lvector()], DTypeError, "integer scalars"),
    "a step of zero": (lambda: X[::0], ShapeError, "step 0"),
    "a mask of another length": (lambda: X[np.ones(4, bool)], ShapeError, "does not fit"),
    "index arrays that differ": (lambda: X[[0, 1], [0, 1, 2]], ShapeError, "differ on axis"),
    "places of a scalar": (lambda: gt.nonzero(gt.scalar()), ShapeError, "at least one axis"),
    "set of no part": (lambda: gt.exp(X).set(1), ArgumentError, "not a part of an array"),
    "set of a longer value": (lambda: X[0].set(np.ones(3)), ShapeError, "does not fit"),
    "set of more axes": (lambda: X[0].set(X), ShapeError, "does not fit"),
    "set of a wider kind": (lambda: X[0].set(1j), DTypeError, "cannot be stored in"),
    "set of floats in integers": (
        lambda: gt.lvector()[0].set(gt.scalar()), DTypeError, "Cast it",
    ),
    "take of no axis": (lambda: X.take([0], 2), ShapeError, "no axis 2"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_index_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_index.py:" in str(caught.value)
