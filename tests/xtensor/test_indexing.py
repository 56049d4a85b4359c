"""Parts are selected by places along named dimensions, and changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, AxisError, BoundsError, DTypeError, GraphcError, ShapeError
from tests.modes import uncompiled
from tests.xtensor.by_name import at, given, same

P = gx.as_xtensor([1, 0], dims="p")
PQ = gx.as_xtensor([[0, 2, 3], [1, 1, 0]], dims=("p", "q"))
MASK = np.array([True, False, True])

# For x of the dimensions a, b, c: places, dimensions of the result, and the same by position.
PARTS: dict[str, tuple[dict[str, Any], str, Callable[[np.ndarray], np.ndarray]]] = {
    "nothing": ({}, "abc", lambda a: a),
    "integers": ({"a": 1, "c": -1}, "b", lambda a: a[1, :, -1]),
    "slices": ({"b": slice(None, None, -1), "c": slice(1, 3)}, "abc", lambda a: a[:, ::-1, 1:3]),
    "a list": ({"b": [2, 0, 2]}, "abc", lambda a: a[:, [2, 0, 2]]),
    "an empty list": ({"b": []}, "abc", lambda a: a[:, :0]),
    "lists": ({"a": [1, 0], "c": [3, 0]}, "abc", lambda a: a[np.ix_([1, 0], range(3), [3, 0])]),
    "an array and an integer": ({"a": 0, "c": [3, 0]}, "bc", lambda a: a[0][:, [3, 0]]),
    "a mask": ({"b": MASK}, "abc", lambda a: a[:, MASK]),
    "masks": ({"a": [True, False], "b": MASK}, "abc", lambda a: a[:1][:, MASK]),
    "a named array": ({"b": P}, "apc", lambda a: a[:, [1, 0]]),
    "a pair": ({"b": ("p", [1, 0])}, "apc", lambda a: a[:, [1, 0]]),
    "element by element": ({"a": P, "c": ("p", [3, 1])}, "pb", lambda a: a[[1, 0], :, [3, 1]]),
    "side by side": ({"b": P, "c": ("p", [3, 1])}, "ap", lambda a: a[:, [1, 0], [3, 1]]),
    "two dimensions": ({"c": PQ}, "abpq", lambda a: a[:, :, PQ.data]),
    "one of two": (
        {"a": P, "c": PQ},
        "pbq",
        lambda a: a[[[1], [0]], :, PQ.data].transpose(0, 2, 1),
    ),
    "along another": (
        {"c": gx.as_xtensor([0, 3, 1], dims="b")},
        "ab",
        lambda a: np.stack([a[:, i, j] for i, j in enumerate([0, 3, 1])], axis=1),
    ),
    "along a slice": (
        {"b": slice(1, None), "c": gx.as_xtensor([0, 3], dims="b")},
        "ab",
        lambda a: np.stack([a[:, 1, 0], a[:, 2, 3]], axis=1),
    ),
    "a scalar array": ({"a": gx.as_xtensor(1), "c": np.int64(2)}, "b", lambda a: a[1, :, 2]),
}


@pytest.mark.parametrize("what", PARTS)
@pytest.mark.parametrize("known", [True, False])
def test_isel_selects_by_name(what: str, known: bool) -> None:
    places, dims, by_position = PARTS[what]
    x, a = given("abc", known=known)
    same(x.isel(places), dims, by_position(a), {x: a})
    same(x[tuple(places.get(dim, slice(None)) for dim in "abc")], dims, by_position(a), {x: a})


@pytest.mark.parametrize("what", PARTS)
def test_a_part_is_set_and_added_to(what: str) -> None:
    places, _, by_position = PARTS[what]
    x, a = given("abc")
    part = x.isel(places)
    where = by_position(np.arange(a.size).reshape(a.shape))
    value = np.random.default_rng(1).uniform(size=where.shape)
    expected = a.copy()
    np.add.at(expected.reshape(-1), where, value)
    same(part.inc(value), "abc", expected, {x: a})
    same(part.inc(gx.as_xtensor(value, dims=part.dims).T), "abc", expected, {x: a})
    expected = a.copy()
    expected.reshape(-1)[where] = 7.0
    same(part.set(7.0), "abc", expected, {x: a})


def test_a_value_needs_some_of_the_dimensions_alone(mode: str) -> None:
    (x, a), (y, b) = given("abc", 1), given("ba", 2)
    expected = a.copy()
    expected[:, :, [3, 1]] = b.T[:, :, None]
    same(x.isel(c=[3, 1]).set(y), "abc", expected, {x: a, y: b}, uncompiled(mode))


def test_places_that_only_a_call_decides(mode: str) -> None:
    x, a = given("abc")
    i, places = gt.lscalar("i"), gx.xtensor("places", dims=("p",), dtype="int64")
    values = {x: a, i: 1, places: np.array([2, 2, 0, 1])}
    expected = a[1][:, [2, 2, 0, 1]]
    same(x.isel(a=i, c=places), "bp", expected, values, uncompiled(mode))
    same(x.isel(c=slice(i, None)), "abc", a[:, :, 1:], values, uncompiled("NUMPY"))
    mask = gx.xtensor("mask", dims=("b",), dtype="bool")
    same(x.isel(b=mask), "abc", a[:, MASK], {x: a, mask: MASK})


def test_an_ellipsis_stands_for_the_dimensions_between() -> None:
    x, a = given("abc")
    same(x[0, ..., 1], "b", a[0, :, 1], {x: a})
    same(x[..., 1], "ab", a[..., 1], {x: a})
    same(x[{"b": 0}], "ac", a[:, 0], {x: a})


def test_head_tail_and_thin() -> None:
    x, a = given("bc", known=False)
    same(x.head(2), "bc", a[:2, :2], {x: a})
    same(x.head(c=3), "bc", a[:, :3], {x: a})
    same(x.tail({"b": 1}), "bc", a[-1:], {x: a})
    same(x.tail(), "bc", a, {x: a})
    same(x.tail(c=0), "bc", a[:, :0], {x: a})
    same(x.thin(c=2), "bc", a[:, ::2], {x: a})
    y, b = given("bc")
    same(y.tail(2), "bc", b[-2:, -2:], {y: b})


def test_gradients_go_to_the_places_that_were_read() -> None:
    x, a = given("abc")
    places = gx.as_xtensor([0, 0, 1], dims="p")
    slope = graphc.grad(x.isel(a=places).sum(), x)
    expected = np.broadcast_to(np.array([2.0, 1.0])[:, None, None], a.shape)
    same(slope, "abc", expected, {x: a})


WRONG: dict[str, tuple[Callable[[gx.XTensor], Any], type[GraphcError], str]] = {
    "unknown": (lambda x: x.isel(q=0), AxisError, "no dimension 'q'"),
    "outside": (lambda x: x.isel(a=2), BoundsError, "a=2 is outside its length 2"),
    "too many": (lambda x: x[0, 0, 0], AxisError, "an index of 3 entries"),
    "two ellipses": (lambda x: x[..., 0, ...], AxisError, "an index of 3 entries"),
    "an ellipsis by name": (lambda x: x.isel(a=...), ArgumentError, "a=... is no place"),
    "None": (lambda x: x[None], DTypeError, "a=None is no place.\n.*expand_dims"),
    "a bool": (lambda x: x.isel(a=True), DTypeError, "a=True is no place"),
    "floats": (lambda x: x.isel(a=[0.5]), DTypeError, "are no integers"),
    "no names": (lambda x: x.isel(a=[[0, 1]]), AxisError, "have 2 axes and no names"),
    "names twice": (lambda x: x.isel(a=("q", P)), ArgumentError, "names 'q' for places that have"),
    "a mask of another": (
        lambda x: x.isel(a=gx.as_xtensor([True], dims="q")),
        AxisError,
        r"for 'a' has the dimensions \('q',\)",
    ),
    "a mask too long": (lambda x: x.isel(a=MASK), ShapeError, "'a' has the length 2 in"),
    "lengths": (
        lambda x: x.isel(a=P, b=("p", [0, 1, 2])),
        ShapeError,
        r"isel\(.*'p' has the length 2 in",
    ),
    "both ways": (lambda x: x.isel({"a": 0}, b=0), ArgumentError, "in a dict and as keywords"),
    "set of no part": (lambda x: x.set(1), ArgumentError, r"\.set\(\.\.\.\): .* not a part"),
    "set of a dimension": (
        lambda x: x.isel(a=0).set(P),
        ShapeError,
        r"the value .*p=2\] has a dimension that",
    ),
    "set of a length": (
        lambda x: x.isel(a=0).set(gx.as_xtensor([1.0], dims="b")),
        ShapeError,
        "'b' has the length 3",
    ),
    "thin": (lambda x: x.thin(), ArgumentError, "thin: no number"),
    "sel": (lambda x: x.sel(a=0), ArgumentError, "no coordinates, names alone.\n.*x.isel"),
    "loc": (lambda x: x.loc, ArgumentError, "loc of x0"),
    "coords": (lambda x: x.coords, ArgumentError, "coords of x0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_selects_nothing_is_refused_on_its_line(what: str) -> None:
    f, error, message = WRONG[what]
    with pytest.raises(error, match=message) as found:
        f(given("ab")[0])
    assert found.value.where.startswith("test_indexing.py:")


def test_what_isel_does_about_a_missing_dimension() -> None:
    x, a = given("ab")
    same(x.isel(a=0, q=1, missing_dims="ignore"), "b", a[0], {x: a})
    with pytest.warns(UserWarning, match="isel.*no dimension 'q'"):
        assert at(x.isel(q=1, missing_dims="warn"), {x: a}).shape == (2, 3)


def test_isel_head_and_stack_take_a_dimension_named_x_as_keyword() -> None:
    a = gx.xtensor("a", dims=("x", "y"), shape=(3, 4))
    assert a.isel(x=0).dims == a.head(x=1).isel(x=0).dims == ("y",)
    assert a.stack(cell=("x", "y")).unstack(cell={"x": 3, "y": 4}).dims == ("x", "y")
    assert gx.as_xtensor(1.0).expand_dims(x=2).stack(z=["x"]).dims == ("z",)


def test_expand_dims_rename_and_isel_take_a_dimension_named_self_as_keyword() -> None:
    a = gx.as_xtensor(1.0).expand_dims(self=2)
    assert a.dims == ("self",)
    assert a.isel(self=0).dims == ()
    assert a.rename(self="time").dims == ("time",)


def test_isel_of_an_index_without_its_dimension_says_what_to_write() -> None:
    a = gx.xtensor("a", dims=("city", "indexers"), shape=(3, 4))
    index: Any = 0
    message = r"indexers=0 .*\n.*isel\({'city': 0}\)"
    with pytest.raises(ArgumentError, match=message):
        a.isel(index)
    with pytest.raises(ArgumentError, match=message):
        a.isel(indexers=index)
