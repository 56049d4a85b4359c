"""What is found of the elements in ranges of an array is what they are, one by one."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.attention.intervals import ranges as ranges_of
from graphc.attention.intervals.interval import Interval, point, unknown
from graphc.attention.intervals.ranges import gather, wrap_indices

DTYPES = ("bool", "int32", "uint8", "float32")


def elements(random: Any, dtype: str, shape: Any) -> Any:
    """Random elements; one of the floating ones is NaN."""
    if dtype == "bool":
        return random.random(shape) < 0.3
    x = random.integers(0, 100, shape).astype(dtype)
    if dtype == "float32":
        x.reshape(-1)[x.size // 2] = np.nan
    return x


def ranges(random: Any, n: int, longest: int, size: int = 50) -> Interval:
    """Ranges within n elements, no longer than that."""
    low = random.integers(0, n, size)
    high = np.minimum(low + random.integers(0, longest, size), n - 1)
    return Interval(low.astype("int32"), high.astype("int32"))


def check(found: Interval, x: Any, index: Interval) -> None:
    """The least and the most of each range along axis 0, one by one."""
    for low, high, i, j in zip(*np.broadcast_arrays(*found, *index), strict=True):
        part = x[i : j + 1]
        if part.dtype.kind == "f" and np.isnan(part).any():
            assert np.isnan(low)
            assert np.isnan(high)
        else:
            assert (low, high) == (part.min(), part.max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
@pytest.mark.parametrize("library", ["NumPy", "JAX", "graphc"])
@pytest.mark.parametrize("limit", [0, 2**18])
def test_ranges_have_their_least_and_their_most(
    library: str, n: int, dtype: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges_of, "MAX_ELEMENTS", limit)
    random = np.random.default_rng(n)
    x, index = elements(random, dtype, n), ranges(random, n, 20)
    if library == "graphc":
        # Of unknown length.
        array = gt.vector(dtype=dtype)
        made = gather(point(array), [index], 32)
        found = graphc.function([array], list(made), mode="NUMPY")(x)
    else:
        array = jnp.asarray(x) if library == "JAX" else x
        found = gather(point(array), [index], 32)
    check(Interval(*map(np.asarray, found)), x, index)


@pytest.mark.parametrize("limit", [0, 2**18])
def test_longer_ranges_have_the_bounds_of_the_whole_axis(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges_of, "MAX_ELEMENTS", limit)
    x = np.array([3, 5, 5, 5, 5, 5, 5, 5, 5, 9])
    low, high = gather(point(x), [Interval(*np.array([[1, 1], [2, 8]], "int32"))], 2)
    assert low.tolist() == [5, 3]
    assert high.tolist() == [5, 9]


@pytest.mark.parametrize("limit", [0, 2**18])
def test_other_axes_are_indexed_by_points(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges_of, "MAX_ELEMENTS", limit)
    random = np.random.default_rng(0)
    x = random.integers(0, 99, (3, 40, 2))
    index = ranges(random, 40, 9)
    index = Interval(*[end.reshape(1, -1) for end in index])
    b = point(np.arange(3, dtype="int32")[:, None])
    last = point(np.array(1, "int64"))
    found = gather(point(x), [b, index, last], 16)
    for i in range(3):
        check(Interval(found.low[i], found.high[i]), x[i, :, 1], Interval(*[e[0] for e in index]))


def test_points_have_their_elements() -> None:
    x = np.arange(12).reshape(3, 4)
    i, j = np.array([2, 0], "int32"), np.array(3, "int64")
    found = gather(point(x), [point(i), point(j)], 4)
    assert found.low is found.high
    assert found.low.tolist() == [11, 3]


def test_an_array_may_be_known_between_bounds() -> None:
    x = Interval(np.array([1, 2, 3]), np.array([4, 9, 5]))
    found = gather(x, [Interval(*np.array([1, 2], "int32"))], 4)
    assert found == (2, 9)


def test_nothing_is_known_of_elements_that_are_not_there() -> None:
    x = np.arange(4, dtype="int32")
    index = Interval(np.array([-1, 0, 3, 9], "int32"), np.array([2, 3, 4, 9], "int32"))
    low, high = gather(point(x), [index], 4)
    nothing = unknown("int32")
    assert low.tolist() == [nothing.low, 0, nothing.low, nothing.low]
    assert high.tolist() == [nothing.high, 3, nothing.high, nothing.high]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_indices_are_of_any_integer_dtype(dtype: str) -> None:
    x = np.arange(300)
    low, high = gather(point(x), [Interval(*np.array([3, 90], dtype))], 128)
    assert (low, high) == (3, 90)


def test_nothing_is_known_of_no_elements_nor_of_two_ranges_nor_of_complex_numbers() -> None:
    index = Interval(*np.array([0, 1], "int32"))
    assert gather(point(np.zeros(0, "int32")), [index], 4) == unknown("int32")
    assert gather(point(np.zeros((4, 4), "int32")), [index, index], 4) == unknown("int32")
    low, _ = gather(point(np.zeros(4, complex)), [index], 4)
    assert np.isnan(low)


@pytest.mark.parametrize("symbolic", [False, True])
def test_negative_indices_count_from_the_end(symbolic: bool) -> None:
    random, n = np.random.default_rng(0), 10
    low = random.integers(-10, 10, 200)
    high = np.minimum(low + random.integers(0, 12, 200), 9)
    index = Interval(low.astype("int32"), high.astype("int32"))
    if symbolic:
        length = gt.lscalar()
        made = wrap_indices(index, length)
        found = Interval(*graphc.function([length], list(made), mode="NUMPY")(n))
    else:
        found = wrap_indices(index, n)
    for i, j, first, last in zip(low, high, *found, strict=True):
        places = np.arange(i, j + 1) % n
        assert first <= places.min()
        assert last >= places.max()
        if i >= 0 or j < 0:
            assert (first, last) == (places.min(), places.max())


def test_negative_points_are_points() -> None:
    found = wrap_indices(point(np.array([-1, 2], "int32")), 5)
    assert found.low is found.high
    assert found.low.tolist() == [4, 2]


def test_indices_below_every_element_stay_outside() -> None:
    index = wrap_indices(Interval(*np.array([-9, 2], "int32")), 5)
    low, high = gather(point(np.arange(5)), [index], 8)
    assert (low, high) == unknown("int64")
