"""Dimensions are put in order, merged, split, added, removed, joined and filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, AxisError, DTypeError, GraphcError, ShapeError
from tests.modes import uncompiled
from tests.xtensor.by_name import at, given, placed, same

ORDERS: dict[tuple[Any, ...], str] = {
    (): "cba",
    ("b", "a", "c"): "bac",
    ("c", ...): "cab",
    (..., "a"): "bca",
    ("c", ..., "a"): "cba",
    (...,): "abc",
    ("a", "b", "c", ...): "abc",
}


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_transpose_puts_dimensions_in_order(order: tuple[Any, ...]) -> None:
    x, a = given("abc")
    same(x.transpose(*order), ORDERS[order], placed(a, "abc", ORDERS[order]), {x: a})


def test_what_transpose_does_about_a_missing_dimension() -> None:
    x, _ = given("ab")
    assert x.transpose("q", "b", "a", missing_dims="ignore").dims == ("b", "a")
    with pytest.warns(UserWarning, match=r"there is no dimension 'q'. Its dimensions are 'a'"):
        assert x.transpose("q", ..., "a", missing_dims="warn").dims == ("b", "a")
    assert x.T.dims == ("b", "a")


def test_stack_and_unstack_are_inverse(mode: str) -> None:
    x, a = given("abc")
    stacked = x.stack(z=("a", "c"))
    expected = a.transpose(1, 0, 2).reshape(3, 8)
    same(stacked, "bz", expected, {x: a}, uncompiled(mode))
    same(stacked.unstack(z={"a": 2, "c": 4}), "bac", a.transpose(1, 0, 2), {x: a}, uncompiled(mode))


def test_lengths_that_a_call_decides_are_stacked_and_split() -> None:
    x, a = given("abc", known=False)
    stacked = x.stack({"z": ["a", "b"]})
    same(stacked.unstack({"z": {d: x.sizes[d] for d in "ab"}}), "cab", np.moveaxis(a, 2, 0), {x: a})


def test_rename_changes_names_of_dimensions_or_the_name() -> None:
    x, a = given("ab")
    assert x.rename(a="b", b="a").dims == ("b", "a")
    assert x.rename({"a": "q"}).dims == ("q", "b")
    y = (x + 1).rename("y")
    assert (y.name, y.dims) == ("y", ("a", "b"))
    same(x.rename(a="q") * x, "qba", a[:, :, None] * a.T[None], {x: a})


def test_expand_dims_puts_new_dimensions_in_front_or_where_axis_says() -> None:
    x, a = given("ab")
    same(x.expand_dims("q"), "qab", a[None], {x: a})
    same(x.expand_dims(["q", "r"]), "qrab", a[None, None], {x: a})
    same(x.expand_dims(q=2, r=3), "qrab", np.broadcast_to(a, (2, 3, 2, 3)), {x: a})
    same(x.expand_dims({"q": 2}, axis=-1), "abq", np.repeat(a[..., None], 2, 2), {x: a})
    same(x.expand_dims(["q", "r"], axis=[0, 2]), "qarb", a[None, :, None], {x: a})
    n = gt.lscalar("n")
    same(x.expand_dims(q=n), "qab", np.broadcast_to(a, (4, 2, 3)), {x: a, n: 4})
    with pytest.warns(UserWarning, match=r"of the coordinates of 'q' only the number is used, 3"):
        assert x.expand_dims(q=["u", "v", "w"]).type.shape == (3, 2, 3)


def test_squeeze_takes_dimensions_of_length_one_away() -> None:
    (x, a), (y, b) = given("adb"), given("adb", 1, known=False)
    same(x.squeeze(), "ab", a[:, 0], {x: a})
    same(x.squeeze("d"), "ab", a[:, 0], {x: a})
    same(x.squeeze(axis=1), "ab", a[:, 0], {x: a})
    same(y.squeeze("d"), "ab", b[:, 0], {y: b})
    assert y.squeeze().dims == ("a", "d", "b")


def test_broadcast_gives_all_arrays_all_dimensions() -> None:
    (x, a), (y, b) = given("ab", 1, known=False), given("cb", 2)
    first, second = gx.broadcast(x, y)
    same(first, "abc", np.broadcast_to(a[:, :, None], (2, 3, 4)), {x: a, y: b})
    same(second, "abc", np.broadcast_to(b.T[None], (2, 3, 4)), {x: a, y: b})
    first, second = gx.broadcast(x, y, exclude="b")
    same(first, "acb", np.broadcast_to(a[:, None], (2, 4, 3)), {x: a, y: b})
    same(y.broadcast_like(x), "abc", np.broadcast_to(b.T[None], (2, 3, 4)), {x: a, y: b})
    assert gx.broadcast() == ()


def test_concat_joins_along_an_old_or_a_new_dimension(mode: str) -> None:
    (x, a), (y, b) = given("ab", 1), given("b", 2)
    values = {x: a, y: b}
    same(gx.concat([x, y], "a"), "ab", np.vstack([a, b[None]]), values, uncompiled(mode))
    wide = [a[..., None].transpose(2, 0, 1), np.broadcast_to(b, (1, 2, 3))]
    same(gx.concat([x, y], dim="q"), "qab", np.concatenate(wide), values, uncompiled(mode))


def test_arrays_like_others() -> None:
    x, a = given("ab", known=False)
    same(gx.full_like(x, 3), "ab", np.full((2, 3), 3.0), {x: a})
    same(gx.ones_like(x, dtype="int64"), "ab", np.ones((2, 3), int), {x: a})
    same(gx.zeros_like(x), "ab", np.zeros((2, 3)), {x: a})


def test_sizes_are_lengths_by_name() -> None:
    x, a = given("ab", known=False)
    assert {dim: int(at(gx.as_xtensor(n), {x: a})) for dim, n in x.sizes.items()} == {
        "a": 2,
        "b": 3,
    }
    assert (int(x.size.eval({x: a}, mode="NUMPY")), x.ndim, x.type.shape) == (6, 2, (None, None))


WRONG: dict[str, tuple[Callable[[gx.XTensor], Any], type[GraphcError], str]] = {
    "transpose too few": (lambda x: x.transpose("a"), ArgumentError, "not one of all dimensions"),
    "transpose twice": (lambda x: x.transpose("a", "a"), ArgumentError, "'a' comes twice"),
    "transpose unknown": (lambda x: x.transpose("q", ...), AxisError, "no dimension 'q'"),
    "transpose choice": (
        lambda x: x.transpose("q", ..., missing_dims="no"),  # type: ignore[arg-type]
        ArgumentError,
        "missing_dims='no'",
    ),
    "stack one name": (lambda x: x.stack(z="ab"), ArgumentError, r"stack: z='ab'"),
    "stack old name": (lambda x: x.stack(b=("a",)), ArgumentError, "a dimension 'b' already"),
    "stack order": (
        lambda x: x.stack(z=("b", "a")),
        ArgumentError,
        r"z=\('b', 'a'\) is not in the order of the axes.\n.*transpose\(\.\.\., 'b', 'a'\)",
    ),
    "stack both": (lambda x: x.stack({"z": ["a"]}, y=["b"]), ArgumentError, "as keywords"),
    "unstack one": (lambda x: x.unstack(a={"q": 2}), ArgumentError, "two lengths or more"),
    "unstack old name": (lambda x: x.unstack(a={"b": 1, "q": 2}), ArgumentError, "'b' already"),
    "unstack length": (lambda x: x.unstack(a={"p": 2.0, "q": 1}), DTypeError, "no integer"),
    "unstack lengths": (lambda x: x.unstack(a={"p": 3, "q": 2}), ShapeError, "reshape"),
    "rename unknown": (lambda x: x.rename(q="r"), ArgumentError, "no dimension 'q'"),
    "rename to one": (lambda x: x.rename(a="b"), ArgumentError, "'b' comes twice"),
    "expand old name": (lambda x: x.expand_dims("a"), ArgumentError, "a dimension 'a' already"),
    "expand length": (lambda x: x.expand_dims(q=-1), ShapeError, "the length of 'q' is -1"),
    "expand axes": (lambda x: x.expand_dims("q", axis=[0, 1]), ArgumentError, "for the dimensions"),
    "squeeze length": (lambda x: x.squeeze("a"), ShapeError, "'a' has the length 2, not 1"),
    "squeeze both": (lambda x: x.squeeze("a", axis=0), ArgumentError, "both dim and axis"),
    "concat nothing": (lambda x: gx.concat([], "a"), ArgumentError, "no arrays"),
    "concat lengths": (
        lambda x: gx.concat([x, gx.xtensor(dims="b", shape=(4,))], "a"),
        ShapeError,
        "'b' has the length 3",
    ),
    "full of an array": (lambda x: gx.full_like(x, x), ShapeError, "is no scalar"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused_on_its_line(what: str) -> None:
    f, error, message = WRONG[what]
    with pytest.raises(error, match=message) as found:
        f(given("ab")[0])
    assert found.value.where.startswith("test_shape.py:")
