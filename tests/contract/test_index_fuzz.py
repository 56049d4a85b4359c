"""Any index of any array gives what NumPy gives, on every backend: parts, changes, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir import TensorType
from graphc.link import names
from tests.modes import uncompiled

BACKENDS = names()
FUZZ = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
)


@st.composite
def bounds(draw: Any, n: int) -> slice:
    near = st.one_of(st.none(), st.integers(-n - 2, n + 2))
    step = draw(st.sampled_from([None, 1, 2, -1, -2, 3]))
    return slice(draw(near), draw(near), step)


@st.composite
def places(draw: Any, n: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    size = int(np.prod(shape))
    flat = draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size))
    dtype = draw(st.sampled_from(["int64", "int32", "int8"]))
    return np.array(flat, dtype).reshape(shape)


@st.composite
def masks(draw: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    size = int(np.prod(shape))
    flat = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return np.array(flat, bool).reshape(shape)


@st.composite
def indexed(draw: Any) -> tuple[tuple[int, ...], tuple[Any, ...], bool]:
    """A shape, an index of it, and whether the index's parts are symbolic."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    common = draw(st.sampled_from([(), (2,), (3,), (2, 2)]))
    kinds = ["integer", "slice", "slice", "all", "places"]
    index: list[Any] = []
    if draw(st.integers(0, 5)) == 0:
        # A mask of the first axes, alone or with slices after it.
        n = draw(st.integers(1, len(shape)))
        index = [draw(masks(shape[:n]))]
        kinds = ["slice", "all"]
    left = shape[sum(x.ndim for x in index) :]
    for n in left[: draw(st.integers(0, len(left)))]:
        if draw(st.integers(0, 5)) == 0:
            index.append(None)
        kind = draw(st.sampled_from(kinds))
        if kind == "integer":
            index.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            index.append(draw(bounds(n)))
        elif kind == "all":
            index.append(slice(None))
        else:
            index.append(draw(places(n, common)))
    if draw(st.booleans()):
        index.append(Ellipsis)
    return shape, tuple(index), draw(st.booleans())


class Symbolic:
    """An index with inputs in place of its integers, integer arrays and bounds of slices."""

    def __init__(self, index: tuple[Any, ...], symbolic: bool) -> None:
        self.inputs: list[Any] = []
        self.values: list[Any] = []
        self.index = tuple(self.part(p) for p in index) if symbolic else index

    def part(self, part: Any) -> Any:
        if isinstance(part, slice):
            return slice(*[self.input(b) for b in (part.start, part.stop, part.step)])
        masked = isinstance(part, np.ndarray) and part.dtype == bool
        if part is None or part is Ellipsis or masked:
            return part
        return self.input(part)

    def input(self, value: Any) -> Any:
        if value is None:
            return None
        value = np.asarray(value)
        x = TensorType(value.dtype, (None,) * value.ndim)()
        self.inputs.append(x)
        self.values.append(value)
        return x


@pytest.mark.parametrize("backend", BACKENDS)
@FUZZ
@given(case=indexed(), static=st.booleans())
def test_any_index_gives_what_numpy_gives(backend: str, case: Any, static: bool) -> None:
    shape, index, symbolic = case
    made = Symbolic(index, symbolic)
    array = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    part = array[index]
    value = np.arange(0.5, part.size).reshape(part.shape)
    x = TensorType("float64", shape if static else (None,) * len(shape))("x")
    v = TensorType("float64", (None,) * part.ndim)("v")
    y = x[made.index]
    added = y.inc(v)
    by_x, by_v = graphc.grad(gt.sum(added * x), [x, v])
    outputs = [y, added, y.set(-1.5), graphc.grad(gt.sum(y * v), x), by_x, by_v]
    f = graphc.function([x, v, *made.inputs], outputs, uncompiled(backend), returns="numpy")
    found = f(array, value, *made.values)
    with_added, with_set, once = array.copy(), array.copy(), np.zeros(shape)
    np.add.at(with_added, index, value)
    with_set[index] = -1.5
    np.add.at(once, index, value)
    # The cost is sum((x + scattered v) * x).
    wanted = [part, with_added, with_set, once, with_added + array, part]
    for given_, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(given_, expected)
    assert y.type.admits(TensorType("float64", part.shape))
