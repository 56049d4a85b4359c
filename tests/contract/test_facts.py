"""The properties that rows state of themselves hold, and none that is easily seen is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import is_float
from graphc.link import names
from graphc.tensor.core.elementwise import ROWS, Elementwise
from tests.contract.rows import expected, taken
from tests.modes import uncompiled

INF = np.inf
LINE = np.unique(
    np.concatenate(
        [
            *(np.linspace(-end, end, 801) for end in (1.2, 8.0, 750.0)),
            *([s * x for s in (1, -1)] for x in (1e-300, 1e-20, 1e-5, 1e5, 1e20, 1e300, INF)),
        ]
    )
)
"""Real numbers of all magnitudes, in order."""

FEW = np.array([-INF, -1e5, -30.0, -2.5, -1.0, -0.3, -0.0, 0.0, 0.3, 1.0, 2.0, 2.5, 30.0, 1e5, INF])


def is_real_row(row: Elementwise) -> bool:
    """Whether a row is a function of real floating numbers to real ones."""
    rule = row.domain("float64")
    return rule is not None and is_float(rule[0]) and is_float(rule[1])


REAL = {name: row for name, row in ROWS.items() if is_real_row(row)}
OF_ONE = {name: row for name, row in REAL.items() if row.arity == 1}


def stating(fact: str) -> Any:
    """The rows of real numbers whose fact differs from that of a row that states nothing."""
    nothing = getattr(type(gt.exp.facts)(), fact)
    found = [row for row in REAL.values() if getattr(row.facts, fact) != nothing]
    return pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in found])


def values(row: Elementwise, *xs: Any) -> Any:
    """NumPy's results, in float64."""
    return expected(row.name, *np.broadcast_arrays(*[np.asarray(x, "float64") for x in xs]))


def sampled(row: Elementwise) -> Any:
    """NumPy's results of all tuples of some numbers."""
    line = LINE if row.arity == 1 else FEW
    return values(row, *np.meshgrid(*[line] * row.arity))


def room(y: Any) -> Any:
    """By how much libraries may miss a value."""
    return 1e-12 * np.abs(np.where(np.isfinite(y), y, 0))


@stating("range")
def test_results_lie_in_the_range(row: Elementwise) -> None:
    y, (low, high) = sampled(row), row.facts.range
    y = y[~np.isnan(y)]
    assert (y >= low - room(low)).all()
    assert (y <= high + room(high)).all()


@stating("range")
def test_results_in_a_range_are_numbers(row: Elementwise) -> None:
    line = LINE if row.arity == 1 else FEW
    line = line[np.isfinite(line)]
    ends = supports(row)
    if row.arity == 1:
        inside = [line[(line >= low) & (line <= high)] for low, high in ends]
    else:
        inside = [line[(line > low) & (line < high)] for low, high in ends]
    assert not np.isnan(values(row, *certain(row, np.meshgrid(*inside)))).any()


def supports(row: Elementwise) -> Any:
    """The interval of each operand outside of which there are no numbers."""
    return row.facts.support or [(-INF, INF)] * row.arity


def certain(row: Elementwise, xs: Any) -> Any:
    """Tuples of operands for which SciPy has an answer."""
    return taken(row.name, [x.ravel() for x in xs])


@stating("support")
def test_results_are_numbers_inside_of_the_support_alone(row: Elementwise) -> None:
    assert len(row.facts.support) == row.arity
    inside = [np.linspace(max(low, -9), min(high, 9), 12)[1:-1] for low, high in supports(row)]
    assert np.isfinite(values(row, *certain(row, np.meshgrid(*inside)))).all()
    for place, (low, high) in enumerate(supports(row)):
        for end in (low - 0.25, high + 0.25):
            if np.isfinite(end):
                xs = [*inside]
                xs[place] = np.array([end])
                assert np.isnan(values(row, *certain(row, np.meshgrid(*xs)))).all(), end


def poles(row: Elementwise) -> list[float]:
    """The first poles."""
    found: list[Any] = [*row.facts.poles]
    if found and found[-1] is ...:
        found[-1:] = [found[-2] + k * (found[-2] - found[-3]) for k in range(1, 9)]
    return found


@stating("poles")
def test_results_grow_without_bound_at_poles(row: Elementwise) -> None:
    ((low, high),) = supports(row)
    for pole in poles(row)[:4]:
        near = [pole + side * 10.0**-k for side in (1, -1) for k in (3, 6, 9)]
        size = np.abs(values(row, [x for x in near if low <= x <= high]).reshape(-1, 3))
        assert len(size)
        assert (np.diff(size) > 0.3).all(), pole


@pytest.mark.parametrize("row", OF_ONE.values(), ids=OF_ONE)
def test_no_pole_is_missing(row: Elementwise) -> None:
    x = np.arange(-32, 33) / 8
    ((low, high),) = supports(row)
    x = x[(low <= x) & (x <= high)]
    bad = x[~np.isfinite(values(row, x))]
    # Of a negative number, entr is -inf.
    assert {*bad} <= {*poles(row)} or row.name == "entr"


@stating("positive")
def test_positive_results_are_above_zero(row: Elementwise) -> None:
    y, near = sampled(row), values(row, np.linspace(-5, 5, 101))
    assert (y[~np.isnan(y)] >= 0).all()
    assert (near > 0).all()
    assert row.facts.range[0] >= 0


@stating("trend")
def test_results_follow_the_trend(row: Elementwise) -> None:
    assert len(row.facts.trend) == row.arity
    line = LINE if row.arity == 1 else FEW
    y = values(row, *np.meshgrid(*[line] * row.arity, indexing="ij"))
    for axis, trend in enumerate(row.facts.trend):
        rows = np.moveaxis(y, axis, -1).reshape(-1, len(line))
        for one in rows:
            known = one[~np.isnan(one)]
            with np.errstate(invalid="ignore"):
                steps = np.diff(known) * trend
            assert not (steps < -room(known[1:])).any(), axis


@stating("trend")
def test_a_row_with_a_trend_is_nan_outside_of_its_support_alone(row: Elementwise) -> None:
    if row.arity > 1:
        assert not row.facts.support
        return
    ((low, high),) = supports(row)
    inside = (low <= LINE) & (high >= LINE)
    # The values of Bessel functions at infinity are not those of their limits.
    finite = np.isfinite(LINE) | (row.name != "i1")
    assert (np.isnan(values(row, LINE)) == ~inside)[finite].all()


@pytest.mark.parametrize("row", OF_ONE.values(), ids=OF_ONE)
def test_zero_is_fixed_where_a_row_says_so(row: Elementwise) -> None:
    y = values(row, [0.0, 1.0])
    assert (y[0] == 0) == (0 in row.facts.fixed)
    assert 1 not in row.facts.fixed or y[1] == 1


@pytest.mark.parametrize("row", OF_ONE.values(), ids=OF_ONE)
def test_parity_is_that_of_the_values(row: Elementwise) -> None:
    x = LINE[(LINE > 0) & np.isfinite(LINE)]
    y, mirrored = values(row, x), values(row, -x)
    same = [np.array_equal(mirrored, sign * y, equal_nan=True) for sign in (1, -1)]
    assert row.facts.parity == same[0] - same[1]


@pytest.mark.parametrize("row", OF_ONE.values(), ids=OF_ONE)
def test_whole_results_are_whole_numbers(row: Elementwise) -> None:
    y = values(row, LINE)
    y = y[np.isfinite(y)]
    assert row.facts.integral == ((np.rint(y) == y).all() and np.diff(y).any())


@stating("additive")
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_an_additive_function_of_a_sum_is_the_sum(row: Elementwise, dtype: str) -> None:
    a, b = numbers(dtype)
    found = row.perform(a + b)
    np.testing.assert_array_equal(found, row.perform(a) + row.perform(b))


@stating("multiplicative")
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_multiplicative_function_of_a_product_is_the_product(
    row: Elementwise, dtype: str
) -> None:
    a, b = numbers(dtype)
    with np.errstate(invalid="ignore"):
        if dtype == "float64":
            a, b = np.append(a, [INF, 0.0, -INF]), np.append(b, [0.0, -INF, -2.0])
        np.testing.assert_allclose(row.perform(a * b), row.perform(a) * row.perform(b), rtol=1e-12)


def numbers(dtype: str) -> tuple[Any, Any]:
    """Pairs of numbers whose sums are exact."""
    x = np.random.default_rng(0).integers(-50, 51, (2, 40)) / 4
    a, b = x.astype(dtype)
    return (a, b) if dtype == "float64" else (a + 0.5j * b, b - 2j * a)


@pytest.mark.parametrize("backend", names())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_results_are_those_of_numpy_to_the_last_bit(backend: str, dtype: str) -> None:
    rows = [row for row in REAL.values() if row.facts.exact]
    finest = np.finfo(dtype).smallest_normal
    with np.errstate(over="ignore"):
        line = LINE.astype(dtype)
    # Less than that is 0 to some processors.
    line = line[(np.abs(line) >= finest) | (line == 0)]
    few = line[:: len(line) // 9]
    inputs, operands, outputs = [], [], []
    for row in rows:
        given = [line] if row.arity == 1 else [*np.meshgrid(*[few] * row.arity)]
        xs = [gt.tensor(dtype=dtype, shape=x.shape) for x in given]
        inputs += xs
        operands += given
        outputs.append(row(*xs))
    found = graphc.function(
        inputs, outputs, mode=uncompiled(backend), returns="numpy", on_unused_input="ignore"
    )(*operands)
    rest = iter(operands)
    for row, y in zip(rows, found, strict=True):
        wanted = row.perform(*[next(rest) for _ in range(row.arity)])
        np.testing.assert_array_equal(y, wanted, row.name)
