"""Reductions take dimensions by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc.xtensor as gx
from graphc.errors import AxisError
from tests.modes import uncompiled
from tests.xtensor.by_name import given, same

REDUCTIONS = ("all", "any", "max", "mean", "min", "prod", "std", "sum", "var")
DIMS: dict[Any, tuple[int, ...]] = {
    "b": (1,),
    ("c", "a"): (0, 2),
    None: (0, 1, 2),
    ...: (0, 1, 2),
    (): (),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", DIMS, ids=str)
def test_a_reduction_leaves_the_other_dimensions(name: str, dim: Any) -> None:
    x, a = given("abc")
    axes = DIMS[dim]
    kept = [each for i, each in enumerate("abc") if i not in axes]
    expected = getattr(np, name)(a > 1 if name in {"all", "any"} else a, axis=axes)
    y = x > 1 if name in {"all", "any"} else x
    same(getattr(y, name)(dim), kept, expected, {x: a})
    same(getattr(gx.reduction, name)(y, dim), kept, expected, {x: a})


def test_a_reduction_on_every_backend(mode: str) -> None:
    x, a = given("abc")
    same(x.mean(("a", "c")), "b", a.mean((0, 2)), {x: a}, uncompiled(mode))


def test_ddof_is_taken_from_the_number_of_elements() -> None:
    x, a = given("abc")
    same(x.var("c", ddof=1), "ab", a.var(2, ddof=1), {x: a})
    same(x.std(("a", "b"), ddof=2), "c", a.std((0, 1), ddof=2), {x: a})


def test_integers_and_bools_are_summed_as_int64() -> None:
    x = gx.as_xtensor([[True, False], [True, True]], dims=("a", "b"))
    assert (x.sum("a").dtype, x.astype("int8").cumsum("a").dtype) == ("int64", "int64")
    assert x.sum("a").eval(mode="NUMPY").tolist() == [2, 1]


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_cumulative_functions_go_along_each_dimension_in_turn(name: str) -> None:
    x, a = given("abc")
    f: Callable[..., Any] = getattr(np, name)
    same(getattr(x, name)("b"), "abc", f(a, 1), {x: a})
    same(getattr(x, name)(("a", "c")), "abc", f(f(a, 0), 2), {x: a})
    same(getattr(x, name)(), "abc", f(f(f(a, 0), 1), 2), {x: a})


def test_differences_make_a_dimension_shorter() -> None:
    x, a = given("abc")
    same(x.diff("c"), "abc", np.diff(a, axis=2), {x: a})
    same(x.diff("b", n=2), "abc", np.diff(a, 2, axis=1), {x: a})


def test_an_unknown_dimension_is_named_with_those_that_there_are() -> None:
    x, _ = given("ab")
    with pytest.raises(
        AxisError, match=r"sum\(x0: .*'q'\.\nIts dimensions are 'a', 'b'\."
    ) as error:
        x.sum(("a", "q"))
    assert error.value.where.startswith("test_reduction.py:")
    with pytest.raises(AxisError, match=r"mean\(.*\nIt is a scalar"):
        x.sum().mean("a")
