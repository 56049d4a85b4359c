"""Every elementwise row on every backend: values against NumPy, slopes against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import TensorType, is_complex
from graphc.link import names
from graphc.tensor.core.elementwise import ROWS, Elementwise
from tests.contract.differences import SMOOTH, difference
from tests.contract.row_batch import LARGE, Batch, dtypes_of, layouts_of, takes
from tests.contract.rows import (
    ALL,
    DOMAINS,
    EDGES,
    FIXED,
    FUNCTIONS,
    UNCERTAIN,
    expected,
    taken,
)
from tests.contract.tolerance import TOLERANCES
from tests.contract.values import awkward, plain, tuples
from tests.modes import lacks, uncompiled

pytestmark = pytest.mark.gpu

BACKENDS = names()
ROUNDED = {"gammaln", "gammaincc", "betaln"}
"""Rows whose last digits on JAX depend on how XLA fuses."""

RUNS = [
    pytest.param(
        row,
        backend,
        id=f"{row.name}-{backend}",
        marks=[pytest.mark.optimized] * (backend == "JAX" and (row.name in ROUNDED or i % 16 == 0)),
    )
    for i, row in enumerate(ROWS.values())
    for backend in BACKENDS
]
"""Each row on each backend; on JAX, some as XLA compiles for users."""

SLOPED = [
    pytest.param(row, id=row.name)
    for row in ROWS.values()
    if row.slope is not None and len(FIXED.get(row.name, ())) < row.arity
]


def moved(row: Elementwise) -> list[int]:
    """The operands by which it has a slope."""
    return [i for i in range(row.arity) if i not in FIXED.get(row.name, ())]


@pytest.mark.whole
@pytest.mark.parametrize("part", [pytest.param(1, marks=pytest.mark.exhaustive, id="all"), 8])
@pytest.mark.parametrize(("row", "backend"), RUNS)
def test_a_row_gives_what_numpy_gives(row: Elementwise, backend: str, part: int) -> None:
    batch = Batch(row)
    dtypes = dtypes_of(row, backend)
    # float64, and another for each row: all rows together try every dtype.
    others = dtypes[len(row.name) % min(part, len(dtypes)) :: part]
    dtypes = [dtype for dtype in dtypes if dtype == "float64" or dtype in others]
    for dtype in dtypes:
        values = taken(row.name, tuples([awkward(dtype)] * row.arity))
        batch.add("awkward values", dtype, [(None,)] * row.arity, values)
    # Each layout in one dtype, another for each row: all rows together try every pair.
    for i, (layout, (shape, array)) in enumerate(layouts_of(row)[len(row.name) % part :: part]):
        dtype = dtypes[(i + len(row.name)) % len(dtypes)]
        operands = range(row.arity)
        batch.add(layout, dtype, [shape(k) for k in operands], [array(dtype, k) for k in operands])
    batch.check(backend)


PREDICATES = (
    "isnan",
    "isinf",
    "isfinite",
    "equal",
    "not_equal",
    "real",
    "imag",
    "conj",
    "negative",
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PREDICATES)
def test_parts_of_complex_numbers_may_be_infinite_or_nan(name: str, backend: str) -> None:
    parts = [0.0, -1.5, np.inf, -np.inf, np.nan]
    values = np.array([complex(a, b) for a in parts for b in parts])
    batch = Batch(ROWS[name])
    for dtype in ("complex64", "complex128"):
        if lacks(backend, dtype):
            continue
        arity = ROWS[name].arity
        batch.add(
            "infinite parts", dtype, [(None,)] * arity, tuples([values.astype(dtype)] * arity)
        )
    batch.check(backend)


# Slopes.


def point(row: Elementwise, dtype: str, i: int) -> np.ndarray[Any, Any]:
    low, high = DOMAINS.get(row.name, (ALL,) * row.arity)[i]
    rng = np.random.default_rng(i)
    re, im = (rng.uniform(low, high, 5) for _ in range(2))
    return re + 1j * im * 0.9 if is_complex(dtype) else re


def narrowed(dtype: str, backend: str) -> str:
    """complex64 where there is no complex128."""
    return "complex64" if lacks(backend, dtype) else dtype


def compiled(inputs: list[Any], outputs: list[Any], backend: str) -> Any:
    return graphc.function(
        inputs, outputs, mode=uncompiled(backend), on_unused_input="ignore", returns="numpy"
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", SLOPED)
def test_a_slope_is_what_finite_differences_give(row: Elementwise, backend: str) -> None:
    inputs, outputs, values, wanted = [], [], [], []
    for dtype in ("float64", narrowed("complex128", backend)):
        if not takes(row, dtype, backend):
            continue
        xs = [TensorType(dtype, (None,))() for _ in range(row.arity)]
        ys = row(*xs)
        rounded = [point(row, dtype, i).astype(dtype) for i in range(row.arity)]
        given = [x.astype("complex128" if is_complex(dtype) else dtype) for x in rounded]
        weights = np.linspace(0.5, 1.5, 5) * (1 - 0.7j if is_complex(ys.dtype) else 1)
        cost = gt.sum(gt.real(ys * gt.conj(weights)))
        inputs += xs
        values += rounded
        wrt = [xs[i] for i in moved(row)]
        outputs += graphc.grad(cost, wrt, disconnected_inputs="ignore")
        for i in moved(row):

            def along(x: Any, i: int = i, given: Any = given, weights: Any = weights) -> Any:
                operands = [*given[:i], x, *given[i + 1 :]]
                return (expected(row.name, *operands) * np.conj(weights)).real

            # Each element has a cost of its own, so all are moved at once.
            slope = difference(along, given[i], 1)
            if is_complex(dtype):
                slope = slope + 1j * difference(along, given[i], 1j)
            wanted.append(slope)
    f = compiled(inputs, outputs, backend)
    for i, (found, slope) in enumerate(zip(f(*values), wanted, strict=True)):
        assert found.dtype == inputs[i].type.numpy_dtype
        near = SMOOTH if found.dtype.itemsize == slope.dtype.itemsize else TOLERANCES["float32"]
        np.testing.assert_allclose(found, slope, near, near, err_msg=f"{row.name}, {i}")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EDGES)
def test_a_slope_at_an_edge_is_the_one_chosen(name: str, backend: str) -> None:
    row = ROWS[name]
    points, slopes = zip(*EDGES[name], strict=True)
    xs = [gt.vector(letter) for letter in "abc"[: row.arity]]
    slopes_by = graphc.grad(row(*xs).sum(), xs, disconnected_inputs="ignore")
    found = compiled(xs, slopes_by, backend)(*map(np.array, zip(*points, strict=True)))
    for y, wanted in zip(found, zip(*slopes, strict=True), strict=True):
        np.testing.assert_allclose(y, wanted, atol=1e-300)


SPECIAL = np.array([-2.0, -1.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0])
"""Where derivatives are written with care; two operands have all pairs of them, equal ones too."""


ONCE = {"gammainc", "gammaincc", "gammaincinv", "gammainccinv", "complex"}
"""Rows with a slope that has none by one of the operands, or is of complex numbers."""


@pytest.mark.parametrize(
    "row", [p for p in SLOPED if p.values[0].arity < 3 and p.values[0].name not in ONCE]
)
def test_a_slope_has_its_own_slope_where_it_is_written_with_care(row: Elementwise) -> None:
    values = tuples([SPECIAL] * row.arity)
    xs = [gt.vector(letter) for letter in "ab"[: row.arity]]
    wrt = [xs[i] for i in moved(row)]
    slopes = graphc.grad(row(*xs).sum(), wrt, disconnected_inputs="ignore")
    seconds = [graphc.grad(g.sum(), wrt, disconnected_inputs="ignore") for g in slopes]
    f = compiled(xs, [*slopes, *(g for gs in seconds for g in gs)], "NUMPY")
    with np.errstate(all="ignore"):
        at, found = np.split(np.array(f(*values)), [len(wrt)])
        for k, i in enumerate(moved(row)):

            def moved_by(step: float, i: int = i) -> Any:
                operands = [*values[:i], values[i] + step, *values[i + 1 :]]
                return np.array(f(*operands)[: len(wrt)])

            slope, is_smooth = _one_slope(moved_by, at)
            both = np.where(is_smooth, [slope, found[k :: len(wrt)]], 0)
            np.testing.assert_allclose(*both, 1e-4, 1e-4, err_msg=f"{row.name}, by {i}")


def _one_slope(f: Any, at: Any) -> tuple[Any, Any]:
    """A derivative by differences, and where it is one: on both sides, and for two steps."""
    near, far = 1e-4, 2e-4
    (a, b), (c, d) = ((f(sign * near), f(sign * far)) for sign in (1, -1))
    slope, wide = (a - c) / (2 * near), (b - d) / (2 * far)
    gap = (4 * a - 3 * at - b + 4 * c - 3 * at - d) / (2 * near)
    off = np.maximum(abs(slope - wide), abs(gap))
    return slope, np.isfinite(off) & (off < 1e-5 * (1 + abs(slope)))


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", SLOPED)
def test_a_slope_has_its_operands_dtype_and_shape(row: Elementwise, backend: str) -> None:
    inputs, wrt, outputs, values = [], [], [], []
    narrow = ("bfloat16", "float16", "float32", "complex64")
    for dtype in ("float32",) if row.name in LARGE else narrow:
        if row.domain(dtype) is None:
            continue
        shapes = [(3, 1), (1, 4), (), (1,)][: row.arity]
        xs = [TensorType(dtype, shape)() for shape in shapes]
        y = row(*xs)
        cost = gt.sum(gt.abs(y) if is_complex(y.dtype) else y)
        inputs += xs
        wrt += [xs[i] for i in moved(row)]
        outputs += graphc.grad(cost, [xs[i] for i in moved(row)], disconnected_inputs="ignore")
        values += [plain(dtype, shape) for shape in shapes]
    f = compiled(inputs, outputs, backend)
    given = dict(zip(inputs, values, strict=True))
    for x, g, found in zip(wrt, outputs, f(*values), strict=True):
        assert g.type is x.type
        assert (found.dtype, found.shape) == (given[x].dtype, given[x].shape)


@pytest.mark.parametrize("name", FIXED)
def test_a_slope_that_there_is_not_is_an_error(name: str) -> None:
    xs = gt.vectors(*"abcd"[: ROWS[name].arity])
    for i in FIXED[name]:
        with pytest.raises(graphc.errors.GradientError, match=f"{name} has no derivative"):
            graphc.grad(ROWS[name](*xs).sum(), xs[i])


def test_every_table_names_rows_only() -> None:
    assert {*DOMAINS, *EDGES, *FIXED, *FUNCTIONS, *PREDICATES, *UNCERTAIN} <= {*ROWS}
