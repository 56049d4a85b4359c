"""Both sides of every equation have the same values, or the right side has the better ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from graphc.errors import DTypeError
from graphc.ir import Graph, Node, TensorType, is_complex, numpy_dtype
from graphc.rewrite import Equation, optimize
from graphc.rewrite.rule import RULES, EquationRule
from tests.rewrite.exact import awkward, is_real_number, tolerance, true_value, values_of

DTYPES = ("bool", "int64", "int8", "uint8", "float32", "float64", "complex64", "complex128")
SOME = 600
"""How many combinations of three values or more: all would be 100 000."""

EQUATIONS = [rule for rule in RULES.values() if isinstance(rule, EquationRule)]


def sides(rule: EquationRule, dtype: str, ndim: int) -> tuple[list[Node], Equation]:
    """The equation, for inputs of a dtype."""
    xs = [TensorType(dtype, (None,) * ndim)() for _ in rule.parameters]
    return xs, Equation(*rule.function(*xs))


def can_be_written(rule: EquationRule, dtype: str) -> bool:
    """Whether the left side exists: there is no -1 among the unsigned integers."""
    if not rule.dtypes(dtype):
        return False
    try:
        sides(rule, dtype, 0)
    except DTypeError:
        return False
    return True


def cases(*steps: str) -> list[Any]:
    return [
        pytest.param(rule, dtype, id=f"{rule.name}-{dtype}")
        for rule in EQUATIONS
        for dtype in DTYPES
        if rule.step in steps and can_be_written(rule, dtype)
    ]


def combinations(rule: EquationRule, dtype: str) -> list[np.ndarray]:
    """Combinations of awkward values, all of two: a vector for each parameter."""
    values = awkward(dtype)
    if len(rule.parameters) <= 2:
        return [grid.ravel() for grid in np.meshgrid(*[values] * len(rule.parameters))]
    choose = np.random.default_rng(0)
    return [choose.choice(values, SOME) for _ in rule.parameters]


def holds(rule: EquationRule, xs: list[Node], given: dict[Node, Any]) -> np.ndarray:
    """Where the rule holds by its domain."""
    if rule.domain is None:
        return np.ones(len(next(iter(given.values()))), bool)
    return np.asarray(values_of([rule.domain(*xs)], given)[0])


@pytest.mark.parametrize(("rule", "dtype"), cases("canonicalize", "stabilize", "specialize"))
def test_the_left_side_is_replaced_by_the_right(rule: EquationRule, dtype: str) -> None:
    _, made = sides(rule, dtype, 2)
    assert rule.apply(made.lhs) is made.rhs


@pytest.mark.parametrize("rule", EQUATIONS, ids=lambda rule: rule.name)
def test_every_equation_is_reached_by_its_pass(rule: EquationRule) -> None:
    dtype = next(d for d in DTYPES[::-1] if can_be_written(rule, d))
    xs, made = sides(rule, dtype, 1)
    done = optimize(Graph(xs, [made.lhs]), including=[rule.name], recording=True, checking=True)
    assert [c.rule for report in done.passes for c in report.records] == [rule]


@pytest.mark.parametrize(("rule", "dtype"), cases("canonicalize", "specialize"))
def test_both_sides_have_the_same_values(rule: EquationRule, dtype: str) -> None:
    xs, made = sides(rule, dtype, 1)
    given = dict(zip(xs, combinations(rule, dtype), strict=True))
    lhs, rhs = values_of([made.lhs, made.rhs], given)
    equal = holds(rule, xs, given)
    if rule.absorbing:
        equal = equal & np.isfinite(lhs)
    assert equal.any()
    np.testing.assert_allclose(rhs[equal], lhs[equal], **tolerance(lhs.dtype.name))


REAL = [case for case in cases("stabilize") if not is_complex(case.values[1])]
COMPLEX = [case for case in cases("stabilize") if is_complex(case.values[1])]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(("rule", "dtype"), REAL)
def test_the_stable_side_is_the_true_value(rule: EquationRule, dtype: str) -> None:
    xs, made = sides(rule, dtype, 0)
    ys, vector = sides(rule, dtype, 1)
    points = combinations(rule, dtype)
    given = dict(zip(ys, points, strict=True))
    (found,) = values_of([vector.rhs], given)
    asked = holds(rule, ys, given) & np.isfinite(points).all(axis=0)
    assert asked.any()

    def truth(point: list[Any]) -> Any:
        return true_value(made.lhs, dict(zip(xs, point, strict=True)))

    for y, *point in zip(found[asked], *(x[asked] for x in points), strict=True):
        check_value(float(y), [mpmath.mpf(float(x)) for x in point], truth, dtype)


def check_value(y: float, point: list[Any], truth: Callable[[list[Any]], Any], dtype: str) -> None:
    kind = np.finfo(numpy_dtype(dtype))
    true = truth(point)
    if not is_real_number(true):
        # Not even 400 digits tell 1 - exp(-1e10) from 1.
        assert not np.isfinite(y) or max(map(abs, point)) > 1e3, (point, y)
        return
    if abs(true) > float(kind.max):
        assert y == np.sign(true) * np.inf, (point, y)
        return
    # A factor below the smallest normal number may be taken for 0, whatever the other one is.
    lost = float(kind.tiny) * max(1, *map(abs, point))
    error = abs(y - true) - (16 * float(kind.eps) * abs(true) + lost)
    if error > 0:
        # An operand off by one rounding may move the result as far.
        moved = max(abs(truth(near) - true) for near in neighbours(point, float(kind.eps)))
        assert error <= 4 * moved, (point, y, true)


def neighbours(point: list[Any], eps: float) -> list[list[Any]]:
    """The point with one coordinate moved by one rounding."""
    return [
        [x * (1 + sign * eps) if i == j else x for j, x in enumerate(point)]
        for i, sign in itertools.product(range(len(point)), (1, -1))
    ]


@pytest.mark.parametrize(("rule", "dtype"), REAL)
def test_the_stable_side_keeps_infinities_and_nan(rule: EquationRule, dtype: str) -> None:
    xs, made = sides(rule, dtype, 1)
    points = combinations(rule, dtype)
    given = dict(zip(xs, points, strict=True))
    lhs, rhs = values_of([made.lhs, made.rhs], given)
    inside = holds(rule, xs, given)
    unknown = np.any(np.isnan(points), axis=0) & inside
    assert np.isnan(rhs[unknown]).all()
    # Where the left side is inf - inf or inf / inf, the right side may know better.
    endless = np.any(np.isinf(points), axis=0) & ~np.isnan(lhs)
    # An exponential of the other operand that overflows says nothing.
    endless &= np.all(np.isinf(points) | (np.abs(points) < 80), axis=0)
    # The left side may have rounded at a 1 that is no longer there.
    rounded = 4 * float(np.finfo(numpy_dtype(dtype)).eps)
    np.testing.assert_allclose(rhs[endless], lhs[endless], rtol=rounded, atol=rounded)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(("rule", "dtype"), COMPLEX)
def test_the_stable_side_is_no_further_from_the_truth(rule: EquationRule, dtype: str) -> None:
    xs, made = sides(rule, dtype, 0)
    ys, vector = sides(rule, dtype, 1)
    points = combinations(rule, dtype)
    given = dict(zip(ys, points, strict=True))
    lhs, rhs = values_of([vector.lhs, vector.rhs], given)
    inside = holds(rule, ys, given)
    eps = float(np.finfo(numpy_dtype(dtype)).eps)
    for i, point in enumerate(zip(*points, strict=True)):
        if not inside[i]:
            continue
        exact = [mpmath.mpmathify(complex(x)) for x in point]
        if not np.isfinite(lhs[i]):
            assert not np.isfinite(rhs[i])
            continue
        truth = true_value(made.lhs, dict(zip(xs, exact, strict=True)))
        error, room = abs(complex(rhs[i]) - truth), abs(complex(lhs[i]) - truth)
        assert error <= room + 16 * eps * abs(truth), (point, rhs[i], truth)
