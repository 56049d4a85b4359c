"""Places out of range on MLX, which checks none: read from the edge, written nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import BoundsError, RuntimeShapeError
from graphc.ir import TensorType
from tests.modes import lacks, uncompiled

MODE = uncompiled("MLX")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*("bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64"),)


def brought(places: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Places within an axis, and which of them were; counted in Python's integers."""
    counted = [i + n if i < 0 else i for i in places.ravel().tolist()]
    inside = np.array([0 <= i < n for i in counted], bool).reshape(places.shape)
    return np.array([min(max(i, 0), n - 1) for i in counted], int).reshape(places.shape), inside


def expected(x: np.ndarray, places: Any, value: np.ndarray) -> list[np.ndarray]:
    """What is read, and what x is with the value set and added, place by place."""
    found = [brought(i, n) for i, n in zip(places, x.shape, strict=False)]
    at = np.broadcast_arrays(*[i for i, _ in found])
    inside = np.logical_and.reduce(np.broadcast_arrays(*[i for _, i in found]))
    with_set, with_added = x.copy(), x.copy()
    for k in np.ndindex(inside.shape):
        if inside[k]:
            place = tuple(i[k] for i in at)
            with_set[place] = value[k]
            with_added[place] += value[k]
    return [x[tuple(at)], with_set, with_added]


@st.composite
def cases(draw: Any) -> tuple[str, tuple[int, ...], list[np.ndarray]]:
    """A dtype, a shape, and places of its first axes, many of them out of range."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    common = draw(st.sampled_from([(), (1,), (4,), (2, 3)]))
    places = []
    for n in shape[: draw(st.integers(1, len(shape)))]:
        dtype = draw(st.sampled_from(INTEGERS))
        info = np.iinfo(dtype)
        near = st.integers(max(-2 * n - 1, info.min), 2 * n + 1)
        far = st.sampled_from([info.min, info.max])
        size = int(np.prod(common))
        values = draw(st.lists(st.one_of(near, near, far), min_size=size, max_size=size))
        places.append(np.array(values, dtype).reshape(common))
    return draw(st.sampled_from(DTYPES)), shape, places


@settings(max_examples=150)
@given(case=cases())
def test_a_place_out_of_range_reads_the_edge_and_writes_nothing(case: Any) -> None:
    dtype, shape, places = case
    numpy_dtype = TensorType(dtype, ()).numpy_dtype
    array = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(numpy_dtype)
    x = TensorType(dtype, (None,) * len(shape))()
    symbols = [TensorType(i.dtype, (None,) * i.ndim)() for i in places]
    part = x[tuple(symbols)]
    rest = shape[len(places) :]
    value = np.arange(np.prod((*places[0].shape, *rest))) % 5 + 50
    value = value.reshape((*places[0].shape, *rest)).astype(numpy_dtype)
    v = TensorType(dtype, (None,) * value.ndim)()
    f = graphc.function([x, v, *symbols], [part, part.set(v), part.inc(v)], MODE, returns="numpy")
    wanted = expected(array, places, value)
    for found, one in zip(f(array, value, *places), wanted, strict=True):
        np.testing.assert_array_equal(found, one)
        assert found.dtype == one.dtype


@pytest.mark.parametrize("backend", ["JAX", "MLX"])
def test_compiled_backends_agree_out_of_range(backend: str) -> None:
    x, v, i, j = gt.dmatrix(), gt.dvector(), gt.lvector(), gt.lscalar()
    row = x[j]
    outputs = [x[i], x[i, 0].set(v), x[i, 0].inc(v), row, row.set(9.0), x[:, j].inc(1.0)]
    f = graphc.function([x, v, i, j], outputs, uncompiled(backend), returns="numpy")
    array = np.arange(1.0, 7).reshape(3, 2)
    found = f(array, [10.0, 20, 30, 40], [-1, -7, 3, 1], 5)
    set_, added = array.copy(), array.copy()
    set_[[2, 1], 0] = 10, 40
    added[[2, 1], 0] += 10, 40
    wanted = [array[[2, 0, 2, 1]], set_, added, array[2], array, array]
    for one, expected_ in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, expected_)


def test_so_does_a_compiled_program() -> None:
    x, v, i = gt.fvector(), gt.fvector(), gt.ivector()
    f = graphc.function([x, v, i], [x[i], x[i].set(v), x[i].inc(v)], "MLX", returns="numpy")
    for n in (4, 6):
        array, places = np.arange(n, dtype=np.float32), np.array([n, -1, -n - 1, 1], np.int32)
        found = f(array, np.float32([7, 8, 9, 10]), places)
        for one, wanted in zip(found, expected(array, [places], np.arange(7, 11)), strict=True):
            np.testing.assert_array_equal(one, wanted)


REPEATED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a vector": lambda x, i, v: x[i].inc(v),
    "rows": lambda x, i, v: x[i, 1:].inc(v[:, None]),
    "columns": lambda x, i, v: x[:, i].inc(v),
    "columns backwards": lambda x, i, v: x[::-1, i].inc(v),
    "in front of a slice": lambda x, i, v: x[i, ::2, i, 0].inc(v[:, None]),
    "apart, in front of a slice": lambda x, i, v: x[i, :, i, 1:].inc(v[:, None, None]),
    "behind one": lambda x, i, v: x[1, :, i, 2].inc(v[:, None]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REPEATED)
def test_repeated_places_add_up(name: str, dtype: str) -> None:
    numpy_dtype = TensorType(dtype, ()).numpy_dtype
    ndim = {"a vector": 1, "rows": 2, "columns": 2, "columns backwards": 2}.get(name, 4)
    shape = (4, 4, 4, 3)[:ndim]
    x, v = TensorType(dtype, (None,) * ndim)(), TensorType(dtype, (None,))()
    array = np.arange(np.prod(shape)).reshape(shape).astype(numpy_dtype)
    value, places = np.array([1, 2, 1, 3]).astype(numpy_dtype), np.array([2, 0, 2, 2])
    i = gt.lvector()
    found, constant = graphc.function(
        [x, i, v], [REPEATED[name](x, i, v), REPEATED[name](x, places, v)], MODE, returns="numpy"
    )(array, places, value)
    wide = {"bool": bool, "bfloat16": np.float32}.get(dtype, numpy_dtype)
    wanted = REPEATED[name](
        gt.constant(array.astype(wide)), places, gt.constant(value.astype(wide))
    )
    wanted = wanted.eval(mode="NUMPY").astype(numpy_dtype)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(constant, wanted)


def test_an_axis_without_elements_has_no_place_to_read() -> None:
    x, i = gt.vector(), gt.lvector()
    f = graphc.function([x, i], x[i], MODE, returns="numpy")
    assert f([], np.zeros(0, int)).shape == (0,)
    with pytest.raises(BoundsError, match="out of bounds"):
        f([], [0])
    g = graphc.function([x, i], x[i].inc(1.0), MODE, returns="numpy")
    assert g([], [0, 1]).shape == (0,)


def test_an_argument_stays_as_it_is() -> None:
    x = gt.fvector()
    f = graphc.function([x], [x[1:].set(0.0), x[::-1].inc(x), x[[0, 0]].inc(1.0)], MODE)
    given_ = mx.array([1.0, 2, 3])
    mx.eval(f(given_))
    assert given_.tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", [d for d in (*INTEGERS, "float16") if not lacks("MLX", d)])
def test_a_range_is_exact(dtype: str) -> None:
    n = gt.lscalar("n")
    info = np.iinfo(dtype) if dtype != "float16" else None
    ends = [(0, 5, 1), (9, 2, -3), (3, 3, 1)]
    if info:
        ends += [
            (info.max - 6, info.max, 2),
            (info.min, info.min + 7, 3),
            (info.max, info.max - 3, -1),
        ]
    outputs = [gt.arange(start, stop, step, dtype=dtype) for start, stop, step in ends]
    outputs.append(gt.arange(n, dtype=dtype))
    found = graphc.function([n], outputs, MODE, returns="numpy")(100)
    wanted = [np.arange(*e, dtype=dtype) for e in ends]
    for one, expected_ in zip(found, [*wanted, np.arange(100).astype(dtype)], strict=True):
        np.testing.assert_array_equal(one, expected_)
        assert one.dtype == expected_.dtype


@pytest.mark.parametrize("method", ["set", "inc"])
@pytest.mark.parametrize("index", [np.s_[:, :0], np.s_[:], np.s_[:, 1:3]], ids=str)
def test_a_value_that_does_not_go_into_a_part_is_an_error(index: Any, method: str) -> None:
    x, value = gt.matrix("x"), gt.matrix("value")
    f = graphc.function([x, value], getattr(x[index], method)(value), mode=MODE)
    with pytest.raises(RuntimeShapeError):
        f(np.zeros((1, 4)), np.zeros((3, 4)))
