"""Rules of intervals hold for every value in them, and are tight where nothing wraps around."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.attention.intervals.interval import (
    Interval,
    cast_interval,
    elementwise_interval,
    interval_around,
    is_point,
    point,
    unknown,
    where_interval,
)
from graphc.intervals.rules import RULES
from graphc.ir import is_float
from graphc.tensor.core.elementwise import ROWS, Elementwise

INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64")
FLOATS = ("float16", "float32", "float64")
ARITIES = {name: row.arity for name, row in ROWS.items()}


def _has_interval(name: str) -> bool:
    rule = ROWS[name].domain("float64")
    operands = [point(np.array(0.5))] * ARITIES[name]
    return rule == ("float64", "float64") and elementwise_interval(name, *operands) is not None


def _is_computed_in_floats(row: Elementwise) -> bool:
    rule = row.domain("int32")
    return rule is not None and is_float(rule[0])


NAMES = [*RULES, *[name for name in ROWS if name not in RULES and _has_interval(name)]]
"""Functions with an interval, by a rule or by the facts of their row."""

SIZE = 60
"""How many intervals are drawn at a time."""

WITHIN = 40
"""How many values of each interval."""

WHOLE = {"left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor", "invert"}
"""Rules of integers, some of which are of bool too."""

FLOATING = {
    *("floor", "ceil", "trunc", "round"),
    *(name for name in NAMES if _is_computed_in_floats(ROWS[name])),
}
"""Rules of floating numbers."""

LOGICAL = {"logical_not", "logical_and", "logical_or", "logical_xor"}
BOOLEAN = {
    *("add", "multiply", "maximum", "minimum", "fmax", "fmin", "clip", "abs"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "invert"),
}


def dtypes(name: str) -> list[str]:
    """The dtypes that a rule is asked of."""
    if name in LOGICAL:
        return ["bool", *INTEGERS, *FLOATS]
    found = [] if name in FLOATING else [*INTEGERS]
    found += [] if name in WHOLE else FLOATS
    return found + (["bool"] if name in BOOLEAN else [])


CASES = [(name, dtype) for name in NAMES for dtype in dtypes(name)]


def ends(random: Any, dtype: str) -> Interval:
    """Intervals of small, large and extreme numbers, some of them points or without an end."""
    if dtype == "bool":
        low, high = random.random((2, SIZE)) < 0.5
        return Interval(low & high, low | high)
    if dtype in FLOATS:
        scale = 10.0 ** random.integers(-3, 4, SIZE)
        x = (random.standard_normal((2, SIZE)) * scale).astype(dtype)
        x[:, :8] = np.round(x[:, :8])
        x[1, 8:12] = np.inf
        x[0, 10:14] = -np.inf
        x[:, 14:18] = 0
        x[:, 18] = np.nan
    else:
        kind = np.iinfo(dtype)
        x = random.integers(max(kind.min, -9), 10, (2, SIZE)).astype(dtype)
        wide = random.integers(kind.min, kind.max, (2, SIZE), dtype=dtype, endpoint=True)
        x[:, SIZE // 2 :] = wide[:, SIZE // 2 :]
        x[:, -3:] = [[kind.min], [kind.max]]
        x[:, -6:-3] = kind.min
        x[:, -9:-6] = kind.max
    x[1, ::7] = x[0, ::7]
    return Interval(np.minimum(*x), np.maximum(*x))


def values(random: Any, x: Interval) -> Any:
    """Values of intervals, both ends among them: (WITHIN, SIZE)."""
    dtype = x.low.dtype
    if dtype.kind == "b":
        drawn = random.random((WITHIN, SIZE)) < 0.5
        found = np.where(x.low, True, np.where(x.high, drawn, False))
    elif dtype.kind == "f":
        low, high = np.nan_to_num(x.low.astype("float64")), np.nan_to_num(x.high.astype("float64"))
        part = random.random((WITHIN, SIZE))
        with np.errstate(over="ignore"):
            found = np.clip((low * (1 - part) + high * part).astype(dtype), x.low, x.high)
    else:
        found = np.stack(
            [
                random.integers(low, high, WITHIN, dtype=dtype, endpoint=True)
                for low, high in zip(x.low, x.high, strict=True)
            ],
            axis=1,
        )
    found[0], found[1] = x.low, x.high
    return random.permuted(found, axis=0)


def reference(name: str, *operands: Any) -> Any:
    """Return the values of a function; integers to a negative power as JAX and MLX have them."""
    a, b = operands[0], operands[-1]
    if name != "power" or a.dtype.kind != "i":
        return np.asarray(ROWS[name].reference(*operands))
    truncated = np.where(np.abs(a) == 1, np.power(a, b & 1), 0)
    return np.where(b < 0, truncated, np.power(a, np.maximum(b, 0))).astype(a.dtype)


def holds(made: Interval, found: Any) -> Any:
    """Where values lie in intervals; of what may be NaN nothing is said."""
    low, high = made
    if low.dtype == bool:
        return (~low | found) & (~found | high)
    if low.dtype.kind == "f":
        return (np.isnan(low) & np.isnan(high)) | ((low <= found) & (found <= high))
    return (low <= found) & (found <= high)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_every_value_lies_between_the_ends(name: str, dtype: str) -> None:
    random = np.random.default_rng([*name.encode(), *dtype.encode()])
    with np.errstate(all="ignore"):
        for _ in range(4):
            operands = [ends(random, dtype) for _ in range(ARITIES[name])]
            given = [values(random, x) for x in operands]
            found = reference(name, *given)
            made = elementwise_interval(name, *operands)
            assert made is not None
            kept = holds(Interval(*map(np.asarray, made)), found)
            assert kept.all(), (name, dtype, np.argwhere(~kept)[0])


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_the_rule_of_points_has_the_value(name: str, dtype: str) -> None:
    random = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        operands = [point(values(random, ends(random, dtype))) for _ in range(ARITIES[name])]
        found = reference(name, *[x.low for x in operands])
        made = elementwise_interval(name, *operands)
        assert made is not None
        assert holds(Interval(*map(np.asarray, made)), found).all()


EXACT_ENDS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": operator.floordiv,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negative": operator.neg,
    "abs": np.abs,
    "square": np.square,
    "sign": np.sign,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "invert": operator.invert,
    "right_shift": operator.rshift,
    "left_shift": operator.lshift,
}


@pytest.mark.parametrize("name", EXACT_ENDS)
def test_small_integers_have_exact_ends(name: str) -> None:
    random, divides = np.random.default_rng(2), "divide" in name or "shift" in name
    for _ in range(200):
        operands = []
        for i in range(ARITIES[name]):
            low = int(random.integers(1 if i and divides else -6, 7))
            operands.append((low, low + int(random.integers(0, 5))))
        axes = [np.arange(low, high + 1, dtype="int32") for low, high in operands]
        found = EXACT_ENDS[name](*np.meshgrid(*axes))
        made = elementwise_interval(name, *[Interval(*np.array(x, "int32")) for x in operands])
        assert made is not None
        assert (made.low, made.high) == (found.min(), found.max()), (name, operands)


@pytest.mark.parametrize("name", ["remainder", "fmod"])
def test_remainders_by_one_divisor_are_tight_within_a_period(name: str) -> None:
    made = elementwise_interval(
        name, Interval(*np.array([130, 140], "int32")), point(np.array(128, "int32"))
    )
    assert made is not None
    assert (made.low, made.high) == (2, 12)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_a_divisor_that_may_be_zero_tells_nothing(name: str) -> None:
    x = Interval(*np.array([5, 9], "int32"))
    made = elementwise_interval(name, x, Interval(*np.array([0, 3], "int32")))
    assert made == unknown("int32")


def test_a_sum_that_may_wrap_around_tells_nothing() -> None:
    x = Interval(*np.array([2**31 - 10, 2**31 - 5], "int32"))
    made = elementwise_interval("add", x, point(np.array(6, "int32")))
    assert made == unknown("int32")


def test_a_negative_unsigned_difference_tells_nothing() -> None:
    x = Interval(*np.array([3, 9], "uint32"))
    assert elementwise_interval("subtract", x, point(np.array(4, "uint32"))) == unknown("uint32")
    made = elementwise_interval("subtract", x, point(np.array(3, "uint32")))
    assert made == (0, 6)


def test_what_may_be_nan_decides_no_comparison() -> None:
    x = point(np.array([np.nan, 1.0]))
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        made = elementwise_interval(name, x, point(np.array(0.0)))
        assert made is not None
        assert (made.low[0], made.high[0]) == (False, True)
        assert made.low[1] == made.high[1]


def test_the_root_of_what_may_be_negative_tells_nothing() -> None:
    made = elementwise_interval("sqrt", Interval(np.array([-1.0, 1.0]), np.array([4.0, 4.0])))
    assert made is not None
    assert np.isnan(made.low).tolist() == np.isnan(made.high).tolist() == [True, False]


def test_a_product_that_is_added_without_rounding_between_lies_in_the_sum() -> None:
    # As a fused multiply-add has it, whose product is not rounded.
    a, b = np.float32(1 + 2**-12), np.float32(1 + 2**-12)
    product = elementwise_interval("multiply", point(a), point(b))
    assert product is not None
    made = elementwise_interval("subtract", product, point(np.float32(a * b)))
    assert made is not None
    fused = float(a) * float(b) - float(np.float32(a * b))
    assert fused != 0
    assert made.low <= fused <= made.high


def test_rounded_values_of_points_are_no_points() -> None:
    x = interval_around(np.array(0.1), exact=False)
    assert x.low < 0.1 < x.high
    assert is_point(interval_around(np.array(0.1), exact=True))
    assert is_point(interval_around(np.array(3), exact=False))


def test_functions_without_a_rule_have_no_interval() -> None:
    assert elementwise_interval("gamma", point(np.array(1.0))) is None
    assert elementwise_interval("add", point(np.array(1j)), point(np.array(1j))) is None


# Casts and choices.

CASTS = ["bool", *INTEGERS, *FLOATS]


@pytest.mark.parametrize("given", CASTS)
@pytest.mark.parametrize("wanted", CASTS)
def test_casts_hold_for_every_value(given: str, wanted: str) -> None:
    random = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        for _ in range(3):
            x = ends(random, given)
            found = values(random, x)
            made = cast_interval(x, wanted)
            kept = holds(Interval(*map(np.asarray, made)), found.astype(wanted))
            assert kept.all()


def test_integers_that_fit_are_cast_as_they_are() -> None:
    x = Interval(*np.array([-3, 200], "int32"))
    assert cast_interval(x, "int64") == (-3, 200)
    assert cast_interval(x, "float32") == (-3.0, 200.0)
    assert cast_interval(x, "int8") == unknown("int8")
    assert cast_interval(x, "uint8") == unknown("uint8")
    assert cast_interval(Interval(*np.array([-2.5, 2.5])), "int32") == (-2, 2)
    assert all(np.isnan(end) and end.dtype == "complex64" for end in cast_interval(x, "complex64"))
    assert cast_interval(unknown("complex64"), "int32") == unknown("int32")


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_a_choice_holds_for_every_value(dtype: str) -> None:
    random = np.random.default_rng(4)
    for _ in range(5):
        condition, a, b = ends(random, "bool"), ends(random, dtype), ends(random, dtype)
        given = [values(random, x) for x in (condition, a, b)]
        assert holds(where_interval(condition, a, b), np.where(*given)).all()


def test_a_choice_that_is_certain_has_the_ends_of_what_is_chosen() -> None:
    a, b = Interval(*np.array([1, 2])), Interval(*np.array([5, 9]))
    assert where_interval(point(np.array(True)), a, b) == (1, 2)
    assert where_interval(point(np.array(False)), a, b) == (5, 9)
    assert where_interval(unknown("bool"), a, b) == (1, 9)


# Other libraries.


def _in_jax(x: Any) -> Any:
    return jnp.asarray(x)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
@pytest.mark.parametrize("library", ["graphc", "JAX"])
def test_rules_are_the_same_in_every_library(library: str, dtype: str) -> None:
    names = [name for name in NAMES if dtype in dtypes(name)]
    random = np.random.default_rng(5)
    drawn = [ends(random, dtype) for _ in range(3)]
    wanted = [_applied(name, drawn) for name in names]
    if library == "JAX":
        found = [_applied(name, [Interval(*map(_in_jax, x)) for x in drawn]) for name in names]
    else:
        inputs = [Interval(*[gt.vector(dtype=dtype) for _ in x]) for x in drawn]
        outputs = [end for name in names for end in _applied(name, inputs)]
        flat = [end for x in inputs for end in x]
        f = graphc.function(flat, outputs, mode="NUMPY", on_unused_input="ignore")
        made = iter(f(*[end for x in drawn for end in x]))
        found = [Interval(next(made), next(made)) for _ in names]
    for name, a, b in zip(names, wanted, found, strict=True):
        for x, y in zip(a, b, strict=True):
            x, y = np.broadcast_arrays(np.asarray(x), np.asarray(y))
            assert x.dtype == y.dtype
            if dtype == "float32" and not ROWS[name].facts.exact:
                np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5, err_msg=name)
            else:
                np.testing.assert_array_equal(x, y, name)


def _applied(name: str, drawn: list[Interval]) -> Interval:
    made = elementwise_interval(name, *drawn[: ARITIES[name]])
    assert made is not None
    return made


def test_numbers_beside_symbolic_arrays_stay_numbers() -> None:
    q, k = (Interval(*np.array(x, "int32")) for x in ((0, 7), (8, 15)))
    made = elementwise_interval("less", q, k)
    assert made is not None
    assert all(isinstance(end, np.ndarray | np.generic) for end in made)
