"""Padded arrays are NumPy's, in every mode, also where widths are known at run time only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, GraphcError, ShapeError
from graphc.link import names
from tests.modes import uncompiled
from tests.reference import evaluate
from tests.tensor.agreement import arrays, check_agrees

NUMBERS = ["int8", "uint8", "int64", "float32", "float64"]
WIDTHS = st.one_of(
    st.integers(0, 6),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 9))] * 2),
)
MODES: dict[str, list[dict[str, Any]]] = {
    "constant": [{}, {"constant_values": 3}, {"constant_values": ((1, 2), (3, 4))}],
    "edge": [{}],
    "maximum": [{}, {"stat_length": 2}, {"stat_length": ((1, 2), (9, 3))}],
    "minimum": [{}, {"stat_length": (1, 2)}],
    "mean": [{}, {"stat_length": 2}],
    "median": [{}, {"stat_length": 3}],
    "reflect": [{}, {"reflect_type": "odd"}],
    "symmetric": [{}, {"reflect_type": "odd"}],
    "wrap": [{}],
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=30)
@given(data=st.data())
def test_any_array_is_padded_as_in_numpy(mode: str, data: Any) -> None:
    value = data.draw(arrays(NUMBERS, st.sampled_from([(3, 4), (1, 2), (2, 1)])))
    widths, options = data.draw(WIDTHS), data.draw(st.sampled_from(MODES[mode]))
    check_agrees(
        lambda x: gt.pad(x, widths, mode, **options),
        lambda x: np.pad(x, widths, mode, **options),
        value,
    )


def test_padding_without_a_meaning_has_numpys_shape() -> None:
    for value in (np.arange(6.0).reshape(2, 3), np.zeros((0, 3))):
        x = gt.matrix("x")
        (y,) = evaluate([gt.pad(x, ((1, 2), (0, 1)), "empty")], {x: value})
        n = len(value)
        assert y.shape == (n + 3, 4)
        np.testing.assert_array_equal(y[1 : n + 1, :3], value)


@pytest.mark.parametrize("dtype", ["bool", "complex64", "float16"])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_modes_that_compute_nothing_take_any_dtype(mode: str, dtype: str) -> None:
    value = np.arange(6).reshape(2, 3).astype(dtype)
    check_agrees(lambda x: gt.pad(x, (1, 2), mode), lambda x: np.pad(x, (1, 2), mode), value)


@pytest.mark.parametrize("ends", [0, (5, -4), ((1.5, 2), (3, 4))], ids=str)
def test_ramps_are_numpys(ends: Any) -> None:
    value = np.arange(12.0).reshape(3, 4) ** 1.5
    check_agrees(
        lambda x: gt.pad(x, ((7, 2), (0, 3)), "linear_ramp", end_values=ends),
        lambda x: np.pad(x, ((7, 2), (0, 3)), "linear_ramp", end_values=ends),
        value,
    )


@settings(max_examples=60)
@given(st.integers(-90, 90), st.integers(-90, 90), st.integers(1, 12))
def test_ramps_of_integers_are_rounded_down_without_error(end: int, edge: int, n: int) -> None:
    ramp = [end + (edge - end) * i // n for i in range(n)]
    check_agrees(
        lambda x: gt.pad(x, n, "linear_ramp", end_values=end),
        lambda x: np.array([*ramp, edge, *ramp[::-1]], "int8"),
        np.array([edge], "int8"),
    )


def test_widths_may_stand_by_axis_and_in_arrays() -> None:
    value = np.arange(6).reshape(2, 3)
    for widths in (
        {-1: (1, 2)},
        {0: 1},
        [[1, 2]],
        [[1], [2]],
        np.array([2, 1]),
        gt.as_tensor([2, 1]),
    ):
        theirs = widths.eval(mode="NUMPY") if isinstance(widths, gt.Tensor) else widths
        check_agrees(
            lambda x, widths=widths: gt.pad(x, widths), lambda x, w=theirs: np.pad(x, w), value
        )


ALL = {**MODES, "linear_ramp": [{"end_values": 2}]}


@pytest.mark.parametrize("backend", names())
def test_widths_may_be_known_at_run_time_only(backend: str) -> None:
    x, n, widths = gt.matrix("x"), gt.lscalar("n"), gt.tensor("w", shape=(2,), dtype="int64")
    cases = [(mode, options) for mode in ALL for options in ALL[mode][:1] + ALL[mode][2:]]
    outputs = [gt.pad(x, ((n, 1), (0, n)), mode, **options) for mode, options in cases]
    outputs += [gt.pad(x, widths, mode) for mode in ("constant", "reflect", "wrap")]
    f = graphc.function([x, n, widths], outputs, backend, returns="numpy")
    value = np.arange(12.0).reshape(3, 4) ** 2
    for k, w in ((0, [0, 0]), (5, [7, 2])):
        found = f(value, k, w)
        wanted = [np.pad(value, ((k, 1), (0, k)), mode, **options) for mode, options in cases]
        wanted += [np.pad(value, w, mode) for mode in ("constant", "reflect", "wrap")]
        for y, expected in zip(found, wanted, strict=True):
            np.testing.assert_allclose(y, expected, 1e-14)


@pytest.mark.parametrize("backend", names())
@pytest.mark.parametrize("mode", ["edge", "maximum", "reflect", "symmetric", "wrap"])
def test_an_axis_found_empty_when_it_runs_is_refused(mode: str, backend: str) -> None:
    x = gt.vector("x")
    f = graphc.function([x], gt.pad(x, (30, 1), mode), backend)
    with pytest.raises(GraphcError):
        f(np.zeros(0))


X, N = gt.tensor("x", shape=(2, 3)), gt.tensor("n", shape=(0, 3))

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "an unknown mode": (lambda: gt.pad(X, 1, "edges"), ArgumentError, "unknown mode='edges'"),
    "another mode's option": (
        lambda: gt.pad(X, 1, "edge", constant_values=1), ArgumentError, "takes no constant_values",
    ),
    "a reflection of no kind": (
        lambda: gt.pad(X, 1, "reflect", reflect_type="even odd"), ArgumentError, "unknown reflect",
    ),
    "a statistic of nothing": (
        lambda: gt.pad(X, 1, "mean", stat_length=0), ArgumentError, "stat_length=0",
    ),
    "a negative width": (lambda: gt.pad(X, (1, -1)), ShapeError, "pad: the length -1 is negative"),
    "a width that is a float": (lambda: gt.pad(X, 1.5), DTypeError, "expected integer lengths"),
    "widths for three axes": (lambda: gt.pad(X, [(1, 1)] * 3), ShapeError, "does not fit 2 axes"),
    "three widths": (lambda: gt.pad(X, (1, 2, 3)), ShapeError, "does not fit 2 axes"),
    "widths of no axis": (lambda: gt.pad(X, {2: 1}), ShapeError, "pad: no axis 2"),
    "an empty axis": (lambda: gt.pad(N, 1, "wrap"), ShapeError, "axis 0 of .* is empty"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_padding_is_refused_with_the_users_line(what: str) -> None:
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        build()
    assert "test_pad.py" in str(caught.value)


def test_pad_takes_a_symbolic_matrix_of_widths(mode: str) -> None:
    x, w = gt.matrix("x"), gt.lmatrix("w")
    values = np.arange(6.0).reshape(2, 3), [[1, 0], [3, 2]]
    f = graphc.function([x, w], gt.pad(x, w), mode=uncompiled(mode), returns="numpy")
    np.testing.assert_array_equal(f(*values), np.pad(*values))
