"""Elementwise functions align their operands by name, and dot sums over dimensions."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, AxisError, ShapeError, SymbolicValueError
from tests.modes import uncompiled
from tests.xtensor.by_name import given, placed, same

PAIRS = [
    ("ab", "ab"),
    ("ab", "ba"),
    ("ab", "b"),
    ("b", "ab"),
    ("ac", "b"),
    ("", "ab"),
    ("abc", "dca"),
]


@pytest.mark.parametrize("dims", PAIRS, ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_operands_align_by_name_and_dimensions_come_in_order_of_appearance(
    dims: tuple[str, str], known: bool
) -> None:
    (x, a), (y, b) = given(dims[0], 1, known), given(dims[1], 2, known)
    order = "".join(dict.fromkeys(dims[0] + dims[1]))
    expected = placed(a, dims[0], order) - placed(b, dims[1], order)
    same(x - y, order, expected, {x: a, y: b})


def test_three_operands_align_on_every_backend(mode: str) -> None:
    (x, a), (y, b), (z, c) = given("ab", 1), given("cb", 2), given("a", 3)
    expected = np.where(a[:, :, None] > 1, b.T[None], c[:, None, None])
    same(gx.where(x > 1, y, z), "abc", expected, {x: a, y: b, z: c}, uncompiled(mode))


OPERATORS: list[Callable[[Any, Any], Any]] = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.pow, operator.lt, operator.le, operator.gt, operator.ge),
]


@pytest.mark.parametrize("f", OPERATORS, ids=lambda f: f.__name__)
def test_an_operator_takes_arrays_and_numbers_on_both_sides(f: Callable[[Any, Any], Any]) -> None:
    (x, a), (y, b) = given("ab", 1), given("b", 2)
    same(f(x, y), "ab", f(a, b), {x: a, y: b})
    same(f(x, 2.0), "ab", f(a, 2.0), {x: a})
    same(f(np.float64(2.0), x), "ab", f(2.0, a), {x: a})
    same(f(gt.constant(2.0), x), "ab", f(2.0, a), {x: a})


def test_operators_of_bits_and_signs() -> None:
    x, y = gx.as_xtensor([6, 3], dims="a"), gx.as_xtensor([3, 5], dims="a")
    made = [x & y, x | y, x ^ y, ~x, -x, abs(-x), 1 & x, 1 | x, 1 ^ x, *divmod(x, 4), *divmod(9, x)]
    found = [each.eval(mode="NUMPY").tolist() for each in made]
    assert found[:6] == [[2, 1], [7, 7], [5, 6], [-7, -4], [-6, -3], [6, 3]]
    assert found[6:] == [[0, 1], [7, 3], [7, 2], [1, 0], [2, 3], [1, 3], [3, 0]]


REFERENCES: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(np, name)
        for name in ["exp", "tanh", "sqrt", "log1p", "arctan", "square", "sign", "floor"]
    },
    **{name: getattr(scipy.special, name) for name in ["erf", "gammaln", "psi", "i0", "j1"]},
    "sigmoid": scipy.special.expit,
    "neg": np.negative,
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_function_of_one_array_keeps_its_dimensions(name: str) -> None:
    x, a = given("ab")
    same(getattr(gx.math, name)(x), "ab", REFERENCES[name](a), {x: a})


def test_every_function_of_single_elements_takes_arrays_with_names() -> None:
    x = gx.xtensor("x", dims=("a", "b"), shape=(2, 3), dtype="float64")
    apart = {"cast", "dot", "round", "clip", "where", "switch", "softmax", "logsumexp"}
    for name in {*gx.math.__all__} - apart:
        f = getattr(gx.math, name)
        for n, dtype in itertools.product(range(1, 5), ("float64", "int64", "bool")):
            try:
                made = f(*[x.astype(dtype)] * n)
            except (TypeError, ValueError):
                continue
            assert made.dims == ("a", "b"), name
            break
        else:
            pytest.fail(f"{name} takes nothing.")


def test_a_python_number_takes_the_dtype_of_the_arrays() -> None:
    x = gx.xtensor("x", dims=("a",), dtype="float32")
    assert (2.0 * x).dtype == (x + 1).dtype == gx.math.clip(x, 0.0, None).dtype == "float32"
    assert gx.math.exp(2.0).dims == ()


def test_rounding_clipping_and_choosing() -> None:
    (x, a), (y, b) = given("ab", 1), given("b", 2)
    same(x.round(1), "ab", np.round(a, 1), {x: a})
    same(round(x), "ab", np.round(a), {x: a})
    same(x.clip(0.9, y), "ab", np.clip(a, 0.9, b), {x: a, y: b})
    same(y.where(x > 1), "ba", np.where(a > 1, b, np.nan).T, {x: a, y: b})
    same(x.where(x > 1, 0.0), "ab", np.where(a > 1, a, 0.0), {x: a})
    same((x + 1j).conj().imag, "ab", -np.ones_like(a), {x: a})


def test_softmax_and_logsumexp_do_not_overflow() -> None:
    x = gx.as_xtensor([[1000.0, 1000.0], [0.0, 0.0]], dims=("a", "b"))
    assert gx.math.softmax(x, dim="b").eval(mode="NUMPY").tolist() == [[0.5, 0.5], [0.5, 0.5]]
    found = gx.math.logsumexp(x, dim=("b",))
    assert found.dims == ("a",)
    np.testing.assert_allclose(found.eval(mode="NUMPY"), [1000 + np.log(2), np.log(2)])


def test_numpys_functions_align_by_name_too() -> None:
    (x, a), (y, b) = given("ab", 1), given("b", 2)
    same(np.maximum(x, y), "ab", np.maximum(a, b), {x: a, y: b})
    with pytest.raises(SymbolicValueError, match=r"np.add.reduce of the symbolic x1"):
        np.add.reduce(x)
    with pytest.raises(SymbolicValueError, match=r"np.mean of the symbolic x1.*\n.*take dim="):
        np.mean(x)


# dot.

DOTS = {
    None: ("ac", "ab,bc->ac"),
    "b": ("ac", "ab,bc->ac"),
    "a": ("bc", "ab,bc->bc"),
    ("a", "c"): ("b", "ab,bc->b"),
    (): ("abc", "ab,bc->abc"),
    ...: ("", "ab,bc->"),
}


@pytest.mark.parametrize("dim", DOTS, ids=str)
def test_dot_sums_over_dimensions(dim: Any) -> None:
    (x, a), (y, b) = given("ab", 1), given("bc", 2)
    kept, subscripts = DOTS[dim]
    same(x.dot(y, dim), kept, np.einsum(subscripts, a, b), {x: a, y: b})


def test_the_operator_at_is_dot() -> None:
    (x, a), (y, b) = given("ab", 1), given("cb", 2)
    same(x @ y, "ac", a @ b.T, {x: a, y: b})
    with pytest.raises(AxisError, match=r"neither has the dimension 'q'.\nThey have 'a', 'b', 'c'"):
        x.dot(y, "q")


# What does not align.


def test_one_dimension_has_one_length_and_one_does_not_broadcast() -> None:
    x, y = gx.xtensor("x", dims=("a", "b"), shape=(2, 3)), gx.xtensor("y", dims=("b",), shape=(1,))
    with pytest.raises(ShapeError, match=r"'b' has the length 3 in x: .*, and 1 in y") as error:
        x + y
    assert error.value.where.startswith("test_math.py:")
    with pytest.raises(ShapeError, match="'b' has the length 3"):
        x.dot(y)


def test_a_length_that_only_a_call_decides_is_checked_too(mode: str) -> None:
    x, y = gx.xtensor("x", dims=("a",)), gx.xtensor("y", dims=("a",), shape=(1,))
    with pytest.raises(ShapeError, match=r"multiply along a: .*shape \(3,\)"):
        (x * y).eval({x: np.ones(3), y: np.ones(1)}, mode=uncompiled(mode))
    y, z = gx.xtensor("y", dims=("a", "b")), gx.xtensor("z", dims=("b", "a"))
    values = {y: np.ones((3, 2)), z: np.ones((1, 3))}
    message = (
        r"axis 1 \('b'\) of .*axis 1 \('b'\) of one.*\n.*of one name have one length.*test_math"
    )
    with pytest.raises(ShapeError, match=message):
        (gx.math.exp(y) * z).eval(values, mode=uncompiled(mode))


@pytest.mark.parametrize("other", [gt.vector("v"), np.ones(3), [1.0, 2.0]], ids=["v", "n", "l"])
def test_an_array_without_names_is_refused(other: Any) -> None:
    x = gx.xtensor("x", dims=("a",))
    for f in (lambda: x + other, lambda: other + x, lambda: gx.math.maximum(x, other)):
        with pytest.raises(ArgumentError, match=r"has no names of its axes.\nName them: .*as_x"):
            f()


def test_a_function_of_arrays_without_names_refuses_one_with_names() -> None:
    x = gx.xtensor("x", dims=("a",))
    for f in (lambda: gt.exp(x), lambda: gt.add(gt.vector(), x), lambda: gt.vector()[x]):
        with pytest.raises(SymbolicValueError, match=r"write x.values where the position is meant"):
            f()
