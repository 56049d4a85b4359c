"""Evenly spaced values and the coordinates of grids are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.link import names
from tests.tensor.agreement import arrays, check_agrees

ENDS = ["int8", "uint8", "int64", "float16", "float32", "float64", "complex128"]


@settings(max_examples=100)
@given(
    arrays(ENDS, st.sampled_from([(), (3,), (2, 1)])),
    arrays(ENDS, st.sampled_from([(), (1,), (2, 3)])),
    st.integers(0, 5),
    st.booleans(),
    st.sampled_from([0, -1]),
)
def test_any_ends_have_numpys_values_between_them(
    start: np.ndarray, stop: np.ndarray, num: int, endpoint: bool, axis: int
) -> None:
    check_agrees(
        lambda a, b: gt.linspace(a, b, num, endpoint, axis=axis),
        lambda a, b: np.linspace(a, b, num, endpoint, axis=axis),
        start,
        stop,
    )


@settings(max_examples=60)
@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 20), st.booleans())
def test_integers_between_integers_are_rounded_down_without_error(
    start: int, stop: int, num: int, endpoint: bool
) -> None:
    gaps = max(num - 1, 1) if endpoint else num
    wanted = [start + (stop - start) * i // gaps for i in range(num)]
    check_agrees(
        lambda a: gt.linspace(a, stop, num, endpoint, dtype="int32"),
        lambda a: np.array(wanted, "int32"),
        np.array(start),
    )


def test_values_have_the_dtype_asked_for() -> None:
    third = np.array(1 / 3)
    check_agrees(
        lambda a: gt.linspace(a, 9, 4, dtype="int16"),
        lambda a: np.linspace(a, 9, 4, dtype="int16"),
        third,
    )
    assert gt.linspace(0, 1, dtype="float32").type == gt.TensorType("float32", (50,))
    with graphc.config.change_flags(floatX="float32"):
        assert {gt.linspace(0, 1).dtype, gt.linspace(0.5, 1).dtype} == {"float32"}
        assert gt.linspace(gt.lscalar(), 1).dtype == "float64"


@pytest.mark.parametrize("num", [1, 4])
def test_the_distance_comes_on_request(num: int) -> None:
    check_agrees(
        lambda a: gt.linspace(a, 3, num, retstep=True)[1],
        lambda a: np.linspace(a, 3, num, retstep=True)[1],
        np.array(1.0),
    )


@pytest.mark.parametrize("num", [0, 1, 5])
@pytest.mark.parametrize("endpoint", [True, False])
def test_powers_and_ratios_are_numpys(num: int, endpoint: bool) -> None:
    a, b = np.array([1.5, 2.0]), np.array(7.25)
    options: dict[str, Any] = {"num": num, "endpoint": endpoint, "axis": -1}
    for sign in (1, -1, 1j):
        check_agrees(
            lambda a, b: gt.geomspace(a, b, **options),
            lambda a, b: np.geomspace(a, b, **options),
            sign * a,
            sign * b,
        )
    check_agrees(
        lambda a, b: gt.logspace(a, b, base=2.0, **options),
        lambda a, b: np.logspace(a, b, base=2.0, **options),
        a,
        b,
    )
    assert gt.geomspace(1, 1000, 4, dtype="int64").dtype == "int64"
    assert gt.logspace(gt.fscalar(), 3, dtype="int32").dtype == "int32"


def test_the_base_of_logarithms_changes_no_ratio() -> None:
    for base in (2.0, 10.0):
        found = gt.geomspace(3.0, 48.0, 5, base).eval(mode="NUMPY")
        np.testing.assert_allclose(found, [3, 6, 12, 24, 48], 1e-14)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_coordinates_are_numpys(n: int, indexing: Any, sparse: bool) -> None:
    values = [np.arange(4.0), np.arange(3), np.array(2.5)][:n]
    options = {"indexing": indexing, "sparse": sparse}
    assert len(gt.meshgrid(*values, **options)) == n
    for i in range(n):
        check_agrees(
            lambda *xs, i=i: gt.meshgrid(*xs, **options)[i],
            lambda *xs, i=i: np.meshgrid(*xs, **options)[i],
            *values,
        )


def test_grids_are_made_by_slices() -> None:
    for part in (np.s_[2:7:2], np.s_[0:3, 1:5:2], np.s_[0:1:3j, :2]):
        ours, theirs = gt.mgrid[part], np.mgrid[part]
        assert ours.type.shape == theirs.shape
        np.testing.assert_array_equal(ours.eval(mode="NUMPY"), theirs)
        for x, y in zip(gt.ogrid[part], np.ogrid[part], strict=True):
            np.testing.assert_array_equal(x.eval(mode="NUMPY"), y)


def test_places_combine_as_in_numpy() -> None:
    value = np.arange(20).reshape(4, 5)
    for places in (([0, 2], [1, 3, 4]), ([True, False, False, True], [0]), ([], [1])):
        check_agrees(lambda x, p=places: x[gt.ix_(*p)], lambda x, p=places: x[np.ix_(*p)], value)


def test_indices_of_elements_are_numpys() -> None:
    for shape in ((2, 3), (4,), (2, 0, 1), ()):
        np.testing.assert_array_equal(gt.indices(shape).eval(mode="NUMPY"), np.indices(shape))
    rows, _ = gt.indices((2, 3), "int8", sparse=True)
    assert rows.type == gt.TensorType("int8", (2, 1))


@pytest.mark.parametrize("mode", names())
def test_how_many_values_may_be_known_at_run_time_only(mode: str) -> None:
    a, n = gt.scalar("a"), gt.lscalar("n")
    outputs = [
        gt.linspace(a, 3, n),
        gt.linspace(a, 3, n, endpoint=False),
        gt.geomspace(a, 8, n),
        gt.mgrid[0:n, 1:4],
        gt.indices((n, 2)),
        graphc.grad((gt.linspace(a, 3, n) ** 2).sum(), a),
    ]
    f = graphc.function([a, n], outputs, mode, returns="numpy")
    for k in (0, 1, 5):
        *found, slope = f(2.0, k)
        wanted = [
            np.linspace(2, 3, k), np.linspace(2, 3, k, endpoint=False), np.geomspace(2, 8, k),
            np.mgrid[0:k, 1:4], np.indices((k, 2)),
        ]  # fmt: skip
        for y, expected in zip(found, wanted, strict=True):
            np.testing.assert_allclose(y, expected, 1e-14)
        by_hand = 2 * np.linspace(2, 3, k) * (np.linspace(1, 0, k))
        np.testing.assert_allclose(slope, by_hand.sum(), 1e-14)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "fewer than no values": (lambda: gt.linspace(0, 1, -1), ShapeError, "linspace: the length -1"),
    "half a value": (lambda: gt.linspace(0, 1, 2.5), DTypeError, "expected integer lengths"),
    "endpoint for a base": (lambda: gt.logspace(0, 1, 5, False), ArgumentError, "endpoint=False"),
    "a ratio to 0": (lambda: gt.geomspace(1, 0), ArgumentError, "an end is 0"),
    "a grid of matrices": (lambda: gt.meshgrid(gt.matrix()), ShapeError, "expected a vector"),
    "a grid of other order": (lambda: gt.meshgrid(1, indexing="yx"), ArgumentError, "'yx'"),
    "a grid without an end": (lambda: gt.mgrid[0:, 1:2], ArgumentError, "with a stop"),
    "places in a matrix": (lambda: gt.ix_(gt.lmatrix()), ShapeError, "ix_: expected a vector"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_grid_is_refused_with_the_users_line(what: str) -> None:
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        build()
    assert "test_grid.py" in str(caught.value)
