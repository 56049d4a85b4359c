"""Formulas as they are written down keep 12 digits in float64 and 5 in float32, all ranges over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given as given_by_hypothesis, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir import numpy_dtype
from graphc.link import names
from tests.rewrite.forms import FAR, FORMS, KEPT, PAIRS, SLICES, Form

DIGITS = {"float64": 12, "float32": 5}
PLAIN = ("canonicalize", "stabilize", "specialize")


@cache
def numbers(dtype: str) -> np.ndarray:
    """From the smallest normal to the largest number, dense where formulas break, both signs."""
    kind = np.finfo(numpy_dtype(dtype))
    top = float(np.log(float(kind.max)))
    ends = [top * k + d for k in (0.5, 1, 2) for d in (-0.4, 0.3, 0.9)]
    low, high = float(kind.tiny), float(kind.max) / 4
    half = [
        *np.geomspace(low, high, 21),
        *np.geomspace(1e-9, 50, 24),
        *np.linspace(0.05, 3, 12),
        *np.linspace(5, 1.2 * top, 14),
        *ends,
        0.0,
    ]
    with np.errstate(over="ignore"):
        values = np.array(half, numpy_dtype(dtype))
    values = np.unique(values[np.isfinite(values)])
    return np.concatenate([-values[::-1], values])


@cache
def points(arity: int, dtype: str) -> list[np.ndarray]:
    """A vector for each operand."""
    if arity == 1:
        return [numbers(dtype)]
    some = np.random.default_rng(0).permutation(numbers(dtype))[:30]
    near = np.concatenate([some[:15], some[:15] * some.dtype.type(1 + 1e-4)])
    near = near[np.isfinite(near)]
    values = np.unique(np.concatenate([some, near]))
    a, b = np.meshgrid(values, values)
    keep = np.random.default_rng(1).permutation(a.size)[:500]
    return [a.ravel()[keep], b.ravel()[keep]]


@cache
def slices(dtype: str) -> np.ndarray:
    """Rows of four, of all sizes; equal ones, and one that outweighs the others."""
    random = np.random.default_rng(2)
    kind = np.finfo(numpy_dtype(dtype))
    sizes = [0, float(kind.tiny) * 8, 1e-9, 1e-3, 1, 5, 30, 90, 300, 800, 1e4, 1e9, 1e30]
    rows = [size * row for size in sizes for row in random.uniform(-1, 1, (4, 4))]
    rows += [row + shift for shift in (-900.0, 95.0, 720.0) for row in random.normal(size=(4, 4))]
    return np.array(rows, numpy_dtype(dtype))


def exact(point: Sequence[float]) -> int:
    """Enough digits to tell both 1 + x and 1 + exp(-2 |x|) from 1, with some of what is added."""
    small = max((-math.log10(abs(x)) for x in point if x), default=0)
    large = max((abs(x) for x in point if abs(x) < FAR), default=0)
    return 40 + int(max(0, min(small, 320), min(0.87 * large, 320)))


TABLES: dict[str, dict[str, Form]] = {"number": FORMS, "pair": PAIRS, "slice": SLICES}
INPUTS: dict[str, Callable[..., list[Any]]] = {
    "number": lambda dtype: [gt.vector(dtype=dtype)],
    "pair": lambda dtype: [gt.vector(dtype=dtype), gt.vector(dtype=dtype)],
    "slice": lambda dtype: [gt.matrix(dtype=dtype)],
}


@cache
def given(table: str, dtype: str) -> list[np.ndarray]:
    """Values for the inputs."""
    return [slices(dtype)] if table == "slice" else points(len(INPUTS[table](dtype)), dtype)


@cache
def program(table: str, dtype: str, mode: str, rewriting: bool, slopes: bool) -> Any:
    """All formulas of a table as one function that gives their values, or all their slopes."""
    xs = INPUTS[table](dtype)
    outputs = []
    for form in TABLES[table].values():
        y = form.written(*xs)
        outputs += graphc.grad(gt.sum(y), xs)[: len(form.slopes)] if slopes else [y]
    return graphc.function(
        xs, outputs, mode=graphc.Mode(mode, excluding=() if rewriting else PLAIN)
    )


def called(f: Any, table: str, slopes: bool, xs: list[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """What the function gives, by the formula's name."""
    with np.errstate(all="ignore"):
        found = iter(f(*xs))
    return {
        name: [np.asarray(next(found)) for _ in (form.slopes if slopes else [form.true])]
        for name, form in TABLES[table].items()
    }


@cache
def compiled(table: str, dtype: str, mode: str, rewriting: bool, slopes: bool) -> dict[str, Any]:
    """What each formula gives for the given values: its value, or its slopes."""
    f = program(table, dtype, mode, rewriting, slopes)
    return called(f, table, slopes, given(table, dtype))


@cache
def truth(table: str, name: str, dtype: str, slopes: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """The true values in float64 and the room for rounding; NaN where there are none to ask for."""
    form = TABLES[table][name]
    xs = given(table, dtype)
    xs = [xs[0][:, i] for i in range(4)] if table == "slice" else xs
    return [_true(form, f, xs, dtype, slopes) for f in (form.slopes if slopes else [form.true])]


def _true(
    form: Form, f: Any, xs: list[np.ndarray], dtype: str, slopes: bool
) -> tuple[np.ndarray, np.ndarray]:
    kind = np.finfo(numpy_dtype(dtype))
    # XLA takes what is below the smallest normal number for 0, also a half of the value; and a
    # derivative adds up what may be larger than it.
    limits = 16 * float(kind.tiny), float(kind.max) / (16 if slopes else 1)
    values, rooms = [], []
    for point in zip(*(x.tolist() for x in xs), strict=True):
        with mpmath.workdps(exact(point)):
            x = [mpmath.mpf(number) for number in point]
            try:
                y = f(x) if len(x) == 4 else f(*x)
            except (ZeroDivisionError, ValueError, OverflowError):
                y = mpmath.nan
            values.append([_asked(part, limits) for part in (y if isinstance(y, list) else [y])])
            scale = form.rounded[slopes]
            size = 0 if scale is None else scale(x) if len(x) == 4 else scale(*x)
            rooms.append(4 * float(kind.eps) * float(min(size, kind.max)))
    return np.array(values), np.array(rooms)[:, None]


def _asked(y: Any, limits: tuple[float, float]) -> float:
    """A true value as a number, NaN where it has none of full precision."""
    low, high = limits
    known = isinstance(y, mpmath.mpf) and (not y or low <= abs(y) <= high)
    return float(y) if known else np.nan


def wrong(found: np.ndarray, true: np.ndarray, room: np.ndarray, dtype: str) -> np.ndarray:
    """Where a value has fewer digits than promised."""
    tiny = float(np.finfo(numpy_dtype(dtype)).tiny)
    with np.errstate(all="ignore"):
        error = np.abs(found.reshape(true.shape).astype("float64") - true)
        right = error <= 10.0 ** -DIGITS[dtype] * np.abs(true) + room + tiny * (true == 0)
    return ~right & np.isfinite(true)


CASES = [pytest.param(table, name, id=name) for table in TABLES for name in TABLES[table]]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("slopes", [False, True], ids=["values", "slopes"])
@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("mode", names())
@pytest.mark.parametrize(("table", "name"), CASES)
def test_formulas_keep_their_digits(
    table: str, name: str, mode: str, dtype: str, slopes: bool
) -> None:
    found = compiled(table, dtype, mode, True, slopes)[name]
    for y, (true, room) in zip(found, truth(table, name, dtype, slopes), strict=True):
        assert not complaints(table, dtype, y, true, room)


def complaints(
    table: str, dtype: str, y: np.ndarray, true: np.ndarray, room: np.ndarray
) -> list[str]:
    """Where digits are lost, in words."""
    xs = given(table, dtype)
    return [
        f"at {[x[i].tolist() for x in xs]}: {y.reshape(true.shape)[i, j]!r} for {true[i, j]!r}"
        for i, j in np.argwhere(wrong(y, true, room, dtype))
    ]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(("table", "name"), CASES)
def test_the_formula_as_written_loses_them(table: str, name: str) -> None:
    losses = 0
    for slopes in (False, True):
        found = compiled(table, "float64", "NUMPY", False, slopes)[name]
        for y, (true, room) in zip(found, truth(table, name, "float64", slopes), strict=True):
            losses += wrong(y, true, room, "float64").sum()
    assert (losses == 0) == (name in KEPT)


@given_by_hypothesis(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=20, deadline=None)
def test_any_number_keeps_its_digits(x: float) -> None:
    for slopes in (False, True):
        f = program("number", "float64", "NUMPY", True, slopes)
        values = [np.array([x])]
        found = called(f, "number", slopes, values)
        for name, form in FORMS.items():
            for y, true_of in zip(found[name], form.slopes if slopes else [form.true], strict=True):
                true, room = _true(form, true_of, values, "float64", slopes)
                assert not wrong(y, true, room, "float64").any(), (name, x, y, true)
