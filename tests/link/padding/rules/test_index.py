"""Parts of padded arrays, and arrays with a part changed: every kind of entry, many lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphcError
from graphc.ir import Graph, TensorType
from graphc.link.padding.counts import Count
from graphc.link.padding.graph import pad
from graphc.link.padding.padded import PaddedArray
from graphc.loop.evaluate import evaluate
from graphc.tensor import Tensor
from graphc.tensor.core.shape import Length
from tests.link.padding.run import run_padded

x = gt.vector("x")
y = gt.vector("y")
a = gt.matrix("a")
b = gt.matrix("b")
t = gt.tensor("t", dtype="float64", shape=(None, 3, None))
v = gt.tensor("v", dtype="float64", shape=(5,))
i = gt.vector("i", dtype="int64")
j = gt.vector("j", dtype="int32")
ij = gt.matrix("ij", dtype="int64")
n = gt.scalar("n", dtype="int64")
m = gt.scalar("m", dtype="int64")
RANDOM = np.random.default_rng(5)

SLICES = [
    *(slice(None), slice(1, None), slice(None, 3), slice(-2, None), slice(None, -2), slice(1, 4)),
    *(slice(None, None, -1), slice(None, None, 2), slice(1, None, 3), slice(-3, None, 2)),
    *(slice(None, None, -2), slice(4, 1, -1), slice(None, 0, -1), slice(-2, None, -1)),
    *(slice(n, None), slice(None, n), slice(n, m), slice(m, n), slice(n, m, 2), slice(m, n, 2)),
    *(slice(n, None, -1), slice(None, n, -1), slice(n, None, -2), slice(m, n, -3), slice(n, n + 2)),
    *(slice(n, -1), slice(1, m), slice(-m, None), slice(None, -n, -1)),
]


def compare(
    inputs: Sequence[Any], outputs: Sequence[Any], arrays: Sequence[Any], extra: int = 3
) -> None:
    """Compare each output computed on padded arrays with NUMPY's, or its error with an error."""
    for output in map(gt.as_tensor, outputs):
        expected = run_numpy(inputs, output, arrays)
        try:
            (computed,) = run_padded(inputs, [output], arrays, extra)
        except (GraphcError, IndexError, ValueError):
            assert expected is None, (output, [np.shape(x) for x in arrays])
            continue
        if expected is not None:
            assert computed.dtype == expected.dtype
            message = f"{output!r} for {[np.shape(x) or x for x in arrays]}"
            np.testing.assert_allclose(computed, expected, rtol=1e-14, err_msg=message)


def run_numpy(inputs: Sequence[Any], output: Tensor, arrays: Sequence[Any]) -> Any:
    """Return NumPy's result, or None if it raises."""
    try:
        return evaluate(Graph([*inputs], [output]), *map(np.asarray, arrays))[0]
    except (GraphcError, IndexError, ValueError):
        return None


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


def bounds() -> Iterator[tuple[int, int]]:
    yield from [(0, 9), (2, 4), (4, 1), (-1, 3), (1, -2), (-3, -1), (-9, 7), (6, -8)]


@pytest.mark.parametrize("entry", SLICES, ids=repr)
def test_a_slice_of_a_padded_axis(entry: slice) -> None:
    part = x[entry]
    outputs = [part, part.set(2.5), part.inc(part * part), v[entry], v[entry].set(1.0)]
    outputs += graphc.grad((part * part).sum(), [x])
    is_static = not any(isinstance(k, Tensor) for k in (entry.start, entry.stop))
    for length in (0, 1, 2, 5, 6):
        for start, stop in [(0, 9)] if is_static else bounds():
            compare([x, v, n, m], outputs, [normal(length), normal(5), start, stop])


def test_an_integer_index_of_a_padded_axis() -> None:
    outputs = [z for k in (0, 2, -1, -3) for z in (x[k], x[k].set(2.0), x[k].inc(x[-1]))]
    outputs += [x[n], x[n].set(1.0), x[n].inc(x[0]), v[n], v[n].set(x[0]), x[None, 1, None]]
    outputs += graphc.grad(x[0] * x[-1] * x[n], [x])
    for length in (0, 1, 3, 6):
        for k in range(-length - 1, length + 1):
            compare([x, v, n], outputs, [normal(length), normal(5), k])


def indices(length: int, *shape: int) -> np.ndarray:
    """Return indices of an axis, from both ends; of an empty axis, none."""
    return RANDOM.integers(-length, max(length, 1), shape)


def test_index_arrays_of_padded_axes() -> None:
    pair = gt.as_tensor([2, 0])
    parts = [
        *(x[i], x[ij], x[pair], x[1:][j], x[i][1:], v[i], v[ij], v[1:][j], x[None, i]),
        *(a[i], a[:, i], a[ij], a[i, 1:], a[i, ::-1], a[i, ::2], a[1:, i], a[i, 0], a[-1, i]),
        *(
            a[i, i],
            a[ij, i],
            a[i[:, None], j],
            a[i, None],
            a[ij, 1:],
            a[pair, n:],
            a[i, n],
            a[n, i],
        ),
        *(
            t[i],
            t[:, i],
            t[i, :, j],
            t[i, 1],
            t[0, i],
            t[i, 1, 1:],
            t[1:, i, ::-1],
            t[i, ..., None],
        ),
        *(t[i, :, 1:], t[:, [2, 0], i], t[i[:, None], 1, j[:2]], t[n, i], t[:, n, 1:], t[1:, ij]),
        *(t[1:, 1, i], t[i, None, 2], t[:, None, i, 0], t[..., i], t[ij, :, n]),
    ]
    outputs = [*parts]
    for part in parts:
        outputs += [gt.set_subtensor(part, 2.0), gt.inc_subtensor(part, 3.0)]
        outputs += [gt.inc_subtensor(part, part * part), gt.set_subtensor(part, part * 2)]
    for length, k in [(3, 4), (4, 2), (5, 7), (3, 0), (0, 0)]:
        least = min(length, 3)
        arrays = [
            *(normal(length), normal(length, length + 1), normal(length + 1, 3, length)),
            *(normal(5), indices(least, k), indices(least, k).astype("int32")),
            *(indices(least, k + 1, k), RANDOM.integers(-3, 3)),
        ]
        compare([x, a, t, v, i, j, ij, n], outputs, arrays)


def test_several_axes_of_a_padded_array() -> None:
    parts = [
        *(a[1:, :2], a[::-1, ::2], a[:-1, -1], a[0], a[:, 0], a[0, -2], a[n:, :m], a[n, ::-1]),
        *(
            t[1:, 1, :-1],
            t[:, ::2, ::-1],
            t[::2, :, n:],
            t[-1],
            t[:, 0],
            t[:, :, -1],
            t[n:m, 1:, 1],
        ),
        *(t[None, :, 1, None, 1:], t[..., None, 2], t[::-1, [1], 1:], a[None], a[:, None, ::-2]),
    ]
    outputs = [*parts]
    for part in parts:
        outputs += [gt.set_subtensor(part, 2.0), gt.inc_subtensor(part, part * part)]
        outputs += graphc.grad((part * part).sum() + a.sum() + t.sum(), [a, t])
    for rows, columns in [(3, 4), (4, 3), (2, 6), (6, 2), (1, 1), (5, 0), (0, 3)]:
        arrays = [normal(rows, columns), normal(columns, 3, rows)]
        start, stop = (1, 4) if rows % 2 else (-2, 2)
        compare([a, t, n, m], outputs, [*arrays, start, stop])


def test_values_of_an_update_are_padded_or_broadcast() -> None:
    row = gt.row("row")
    three = gt.tensor("three", dtype="float64", shape=(3,))
    inputs = [x, y, a, b, t, row, three, i, n]
    outputs = [
        *(x[:].set(y), x[::-1].inc(y), x[1:].set(y[1:]), x[:-1].inc(y[1:]), x[::2].set(y[::2])),
        *(
            x[1:4].set(three),
            x[:3].inc(three),
            x[-3:].set(three),
            x[n:].set(y[n:]),
            x[-1:].set(y[:1]),
        ),
        *(
            a[:].set(b),
            a[0].set(b[-1]),
            a[:, 0].set(x),
            a[:, 1:].set(b[:, 1:]),
            a[:, 1:].set(x[:, None]),
        ),
        *(
            a[1:, ::-1].inc(b[1:]),
            a[:, :3].set(three),
            a[::2].set(row),
            a[1:].inc(b[0]),
            a[-1:, :].set(b[:1]),
        ),
        *(
            t[:, 1].set(b.T),
            t[:, 1:2].inc(a.T[:, None]),
            t[:, :, 0].set(three),
            t[..., None].set(2.0),
        ),
        *(x[i].set(y[: i.shape[0]]), x[i].inc(y[: i.shape[0]]), a[i].set(b[: i.shape[0]])),
        *(
            a[i, 1:].set(b[: i.shape[0], 1:]),
            a[i, 0].set(y[: i.shape[0]]),
            a[i].inc(b[0]),
            a[i].set(row),
        ),
        *(
            a[i, ::-1].inc(b[: i.shape[0]]),
            a[i, n:].set(b[0, n:]),
            a[i, :3].set(three),
            a[i, i].set(1.0),
        ),
        *(
            t[:, [0, 2], i[:2]].set(7.0),
            t[:, [1, 0, 1]].set(a.T[:, None]),
            t[1:, i].inc(a[1, 1:, None, None]),
        ),
    ]
    for rows, columns, k in [(4, 5, 2), (5, 4, 3), (4, 8, 4), (6, 3, 2), (3, 3, 3)]:
        arrays = [
            *(normal(rows), normal(rows), normal(rows, columns), normal(rows, columns)),
            *(normal(columns, 3, rows), normal(1, columns), normal(3), indices(3, k), k - 3),
        ]
        compare(inputs, outputs, arrays)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "complex128", "float32"])
def test_updates_of_other_dtypes(dtype: str) -> None:
    z, w = gt.vector("z", dtype=dtype), gt.vector("w", dtype=dtype)
    outputs = [
        z[1:],
        z[::-1],
        z[i],
        z[1:].set(w[1:]),
        z[i].set(w[: i.shape[0]]),
        z[::2].inc(w[::2]),
    ]
    outputs += [z[i].inc(w[: i.shape[0]]), z[-1].inc(w[0]), z[1:].inc(w[:-1])]
    for length, k in [(5, 5), (4, 2), (1, 0)]:
        arrays = [(RANDOM.random(length) * 3).astype(dtype) for _ in range(2)]
        compare([z, w, i], outputs, [*arrays, indices(length, k)])


def test_gradients_of_parts_selected_by_arrays() -> None:
    cost = (x[i] ** 2).sum() + (a[i, 1:] ** 2).sum() + (a[i, 0] * y[: i.shape[0]]).sum()
    cost += (a[i[:, None], i] ** 3).sum() + (t[:, n, i] ** 2).sum()
    updated = x[i].set(y[: i.shape[0]])[::-1] * a[1:, 1].sum()
    updated = updated + a[i].inc(b[: i.shape[0]])[:, 0]
    outputs = [*graphc.grad(cost, [x, y, a, t]), *graphc.grad((updated**2).sum(), [x, y, a, b])]
    for rows, columns, k in [(4, 5, 2), (5, 4, 3), (4, 8, 4), (3, 3, 0)]:
        arrays = [
            *(normal(rows), normal(rows), normal(rows, columns), normal(rows, columns)),
            *(normal(columns, 3, rows), indices(3, k), -1),
        ]
        compare([x, y, a, b, t, i, n], outputs, arrays)


def test_buffers_without_padding_and_empty_buffers() -> None:
    outputs = [x[1:], x[::-1], x[::2], x[n:], x[i], x[i].set(y[: i.shape[0]]), x[i].inc(3.0)]
    outputs += [
        x[-1],
        x[n:m:-1],
        x[1:].set(y[1:]),
        a[i, 1:],
        a[i, 1:].set(1.0),
        a[i, ::-1].inc(2.0),
    ]
    for length, k in [(5, 5), (1, 1), (0, 0), (3, 0)]:
        arrays = [normal(length), normal(length), normal(length, 2), indices(length, k), 1, -1]
        for extra in (0, 1):
            compare([x, y, a, i, n, m], outputs, arrays, extra)


def test_lengths_that_do_not_fit_are_refused() -> None:
    three = gt.tensor("three", dtype="float64", shape=(3,))
    outputs = [x[1:].set(y), x[i].set(y), x[1:3].set(three), x[::2].inc(three), a[i, 1:].set(b[1:])]
    outputs += [x[i, None].set(y[:, None]), a[:, 1:].inc(three), a[i, j], a[1:, :].set(b)]
    arrays = [
        normal(7),
        normal(2),
        normal(7, 3),
        normal(7, 2),
        np.arange(3),
        np.arange(4, dtype="int32"),
    ]
    for output in outputs:
        with pytest.raises((GraphcError, ValueError)):
            run_padded([x, y, a, b, i, j, three], [output], [*arrays, normal(3)])


def test_a_last_index_of_equal_ones_is_written() -> None:
    z = run_padded([x, i, y], [x[i].set(y)], [np.zeros(3), [1, 1, -2], [5.0, 6.0, 7.0]])
    np.testing.assert_array_equal(z[0], [0.0, 7.0, 0.0])


def test_axes_whose_lengths_a_backend_knows_when_it_compiles() -> None:
    part = a[:n]
    graph_outputs = [
        *(part, part * 2, part[::-1], part[1:], part[-1], part[::2], part[::-2], part[:, 1:]),
        *(
            a[1:],
            a[-1],
            a[::-1, 1:],
            a[n:],
            a[:m],
            a[m:, :m],
            a[m],
            part[:, :m],
            a[m:n:2],
            a[n:, ::-1],
        ),
        *(
            part[i],
            part[:, i],
            a[i],
            a[i, :m],
            a[i, m:].set(1.0),
            a[i].set(a[i] * 2),
            a[i, 1:].inc(2.0),
        ),
        *(
            a[:n].set(3.0),
            a[1:, m:].inc(1.0),
            part[m:].inc(1.0),
            part[i].set(1.0),
            a[n:].set(a[n:] * 2),
        ),
        *(a[:n].inc(part * part), a[::-1].set(a), a[-1].set(1.0), part[-1].inc(part[0]), a[i[:2]]),
    ]
    rows, scalar, positions = (TensorType(z.type.dtype, z.type.shape)() for z in (a, n, i))
    number = TensorType("int64", ())()
    limit = Tensor.make(Length(0), rows)
    values = [rows, Count(scalar, 0, limit=limit), positions, number]
    for lengths in [(5, 4, 3, 2), (4, 6, 4, -2), (6, 3, 1, 0)]:
        columns = lengths[1]
        arrays = [normal(lengths[0], columns), lengths[2], indices(1, 2), lengths[3]]
        for output in graph_outputs:
            expected = run_numpy([a, n, i, m], output, arrays)
            padded = pad(
                Graph([a, n, i, m], [output]), (), [rows, scalar, positions, number], values
            )
            (result, *_) = evaluate(padded.graph, *map(np.asarray, arrays))
            np.testing.assert_array_equal(result[tuple(map(slice, expected.shape))], expected)


def test_a_step_and_an_index_that_are_known_when_the_graph_is_padded() -> None:
    for output in [x[::n], x[n], x[n::-1], x[::n].set(1.0), x[n].inc(x[-1]), x[n:].set(x[n:] * 2)]:
        for known in (2, -1):
            buffer, count = TensorType("float64", (9,))(), TensorType("int64", ())()
            values = [PaddedArray(buffer, (Count(count, 0, 9),)), np.asarray(known)]
            padded = pad(Graph([x, n], [output]), (), [buffer, count], values)
            array = normal(5)
            (result, *_) = evaluate(padded.graph, np.pad(array, (0, 4)), np.int64(5))
            expected = run_numpy([x, n], output, [array, known])
            np.testing.assert_array_equal(result[tuple(map(slice, expected.shape))], expected)
