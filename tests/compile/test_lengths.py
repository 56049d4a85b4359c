"""Integers that decide shapes: read on the host, one executable a value, and a bounded number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import BoundsError, DynamicShapeError, RuntimeShapeError, ShapeError

n, m = gt.lscalar("n"), gt.lscalar("m")
x = gt.vector("x")
lengths = gt.lvector("lengths", shape=(2,))
TEN = np.arange(10.0)

PROGRAMS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "arange(n)": (gt.arange(n) + 0 * x.sum(), lambda n: np.arange(n) * 1.0),
    "arange(n, m)": (gt.arange(n, n + 4) + 0 * x.sum(), lambda n: np.arange(n, n + 4) * 1.0),
    "x[:n]": (x[:n], lambda n: TEN[:n]),
    "x[n:]": (x[n:], lambda n: TEN[n:]),
    "x[n:n + 3]": (x[n : n + 3], lambda n: TEN[n : n + 3]),
    "x[::n]": (x[:: n * n + 1], lambda n: TEN[:: n * n + 1]),
    "x[n:m:-1]": (x[n : n - 3 : -1], lambda n: TEN[n : n - 3 : -1]),
    "x[2 * n // 3 + 1:]": (x[2 * n // 3 + 1 :], lambda n: TEN[2 * n // 3 + 1 :]),
    "x[:max(n, 2)]": (x[: gt.maximum(n, 2)], lambda n: TEN[: max(n, 2)]),
    "x[:x.shape[0] - n]": (x[: x.shape[0] - n], lambda n: TEN[: 10 - n]),
    "x[:n].set(5)": (x[:n].set(5.0), lambda n: np.where(np.arange(10) < n % 10, 5.0, TEN)),
    "arange(x.shape[0] + n)": (
        gt.arange(x.shape[0] + n) + 0 * x.sum(),
        lambda n: np.arange(10 + n) * 1.0,
    ),
}
"""What a program of x and n gives for ten numbers."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_integer_input_may_decide_a_shape(program: str, mode: str) -> None:
    y, expected = PROGRAMS[program]
    f = graphc.function([x, n], y, mode=mode)
    for value in (3, 0, 7, 3, -2, 9):
        if program == "x[:n].set(5)" and value < 0:
            continue
        np.testing.assert_array_equal(np.asarray(f(TEN, value)), expected(value))


@pytest.mark.parametrize("sizes", [(2, 3), (0, 3), (4, 0), (1, 1)])
@pytest.mark.parametrize("make", [gt.zeros, gt.ones, lambda s: gt.full(s, 7.0)])
def test_a_shape_may_be_made_of_integer_inputs(make: Any, sizes: Any, mode: str) -> None:
    f = graphc.function([n, m], make((n, m + 1)), mode=mode)
    assert f(*sizes).shape == (sizes[0], sizes[1] + 1)


def test_a_reshape_may_be_made_of_integer_inputs(mode: str) -> None:
    f = graphc.function([x, n], [x.reshape((n, -1)), x.reshape((n, 10 // n))], mode=mode)
    for value in (1, 2, 5, 10):
        for y in f(TEN, value):
            np.testing.assert_array_equal(np.asarray(y), TEN.reshape(value, -1))


def test_a_shape_may_be_a_vector_input(mode: str) -> None:
    f = graphc.function([x, lengths], [x.reshape(lengths), gt.zeros(lengths)], mode=mode)
    for shape in ((2, 5), (5, 2), (10, 1)):
        assert [y.shape for y in f(TEN, np.array(shape))] == [shape, shape]


def test_an_integer_that_decides_a_shape_is_a_number_too(mode: str) -> None:
    f = graphc.function([x, n], (x[:n] * n).sum() / n, mode=mode)
    assert [float(f(TEN, k)) for k in (2, 4, 2)] == [1.0, 6.0, 1.0]


def test_a_gradient_goes_through_a_part_of_unknown_length(mode: str) -> None:
    f = graphc.function([x, n], graphc.grad((x[:n] ** 2).sum(), x), mode=mode)
    for value in (0, 3, -2):
        expected = np.zeros(10)
        expected[:value] = 2 * TEN[:value]
        np.testing.assert_array_equal(np.asarray(f(TEN, value)), expected)


@pytest.mark.parametrize("kind", ["int8", "int32", "uint8", "int64"])
def test_an_integer_of_any_dtype_decides_a_shape(kind: str, mode: str) -> None:
    k = gt.scalar("k", dtype=kind)
    f = graphc.function([x, k], x[:k], mode=mode)
    np.testing.assert_array_equal(np.asarray(f(TEN, np.array(4, kind))), TEN[:4])


def test_a_shared_integer_may_decide_a_shape(mode: str) -> None:
    size = graphc.shared(2, name="size")
    f = graphc.function([x], x[:size], mode=mode)
    assert f(TEN).shape == (2,)
    size.set_value(5)
    assert f(TEN).shape == (5,)


def test_a_shared_integer_that_decides_a_shape_may_be_updated(mode: str) -> None:
    bias, size = graphc.shared(np.float64(1.0)), graphc.shared(0)
    total, kept = graphc.shared(np.zeros(10)), graphc.shared(np.ones(10))
    updates = [(size, size + 1), (total, total + x)]
    f = graphc.function([x], x[:size] + bias + kept[:size], mode=mode, updates=updates)
    given = np.array(TEN)
    for i in range(4):
        np.testing.assert_array_equal(np.asarray(f(given)), TEN[:i] + 2)
    np.testing.assert_array_equal(total.get_value(), 4 * TEN)
    assert size.get_value() == 4
    assert bias.get_value() == 1


def test_lengths_of_arrays_need_no_inputs(mode: str) -> None:
    f = graphc.function([x], [gt.arange(x.shape[0] * 2), gt.zeros(x.shape), x.size], mode=mode)
    for length in (0, 1, 5):
        doubled, zeros, size = f(np.ones(length))
        assert (doubled.shape, zeros.shape, int(size)) == ((2 * length,), (length,), length)


def test_a_negative_length_is_refused(mode: str) -> None:
    f = graphc.function([n], gt.zeros((n, 2)), mode=mode)
    with pytest.raises(ShapeError, match=r"\(-1, 2\).*\n?.*test_lengths.py"):
        f(-1)
    assert f(3).shape == (3, 2)


def test_a_reshape_that_does_not_fit_is_refused(mode: str) -> None:
    f = graphc.function([x, n], x.reshape((n, 2)), mode=mode)
    with pytest.raises(RuntimeShapeError, match="10 elements"):
        f(TEN, 3)
    assert f(TEN, 5).shape == (5, 2)


# How many executables there are.


def executables(f: Any) -> Any:
    """The cache of executables behind a function for JAX in 64 bits."""
    inner = [cell.cell_contents for cell in f._compiled.execute.__closure__]
    namespaces = [getattr(x, "__globals__", {}) for x in inner]
    return next(names["executables"] for names in namespaces if "executables" in names)


def test_there_is_one_executable_a_value() -> None:
    f = graphc.function([x, n], x[:n], mode="JAX")
    for value in (1, 2, 1, 2, 3, 1):
        f(TEN, value)
    assert len(executables(f)) == 3


def test_the_number_of_executables_is_bounded_and_the_oldest_goes() -> None:
    f = graphc.function([x, n], x[:n], mode="JAX")
    with graphc.config.change_flags(specializations=2):
        for value in (1, 2, 1, 3):
            assert f(TEN, value).shape == (value,)
    assert [*executables(f)] == [(1,), (3,)]


def test_an_integer_that_decides_no_shape_needs_one_executable() -> None:
    f = graphc.function([x, n], [x * n, x[n]], mode="JAX")
    assert not f._program.host.inputs
    assert [float(f(TEN, k)[1]) for k in (0, 4, -1)] == [0.0, 4.0, 9.0]


# Masks.

MASK = np.array([True, False, True, False])
FOUR = np.array([1.0, -2.0, 3.0, -4.0])


@pytest.mark.parametrize("mask", [MASK, np.arange(20) % 3 == 0], ids=["tiny", "leaf"])
def test_a_constant_mask_selects(mask: Any, mode: str) -> None:
    f = graphc.function([x], [x[mask], x[mask].sum(), x[~mask]], mode=mode)
    given = np.arange(float(len(mask)))
    chosen, total, others = f(given)
    np.testing.assert_array_equal(np.asarray(chosen), given[mask])
    np.testing.assert_array_equal(np.asarray(others), given[~mask])
    assert float(total) == given[mask].sum()


def test_the_places_of_a_constant_mask_are_known(mode: str) -> None:
    (places,) = gt.nonzero(MASK)
    f = graphc.function([x], x[places], mode=mode)
    np.testing.assert_array_equal(np.asarray(f(FOUR)), FOUR[MASK])


@pytest.mark.parametrize(
    "program", [lambda x: x[x > 0], lambda x: gt.nonzero(x)[0], lambda x: x[x < 5].max()]
)
def test_a_mask_made_of_inputs_needs_values(program: Any) -> None:
    y = program(x)
    assert np.asarray(graphc.function([x], y, mode="NUMPY")(FOUR)).ndim == y.ndim
    with pytest.raises(DynamicShapeError, match=r"gt\.where\(mask, a, b\)") as caught:
        graphc.function([x], y, mode="JAX")
    assert "x: float64[?]" in str(caught.value)
    assert "test_lengths.py:" in str(caught.value)


SUMMARIES: dict[str, tuple[Any, float]] = {
    "sum": (lambda x: x[x > 0].sum(), 4.0),
    "mean": (lambda x: x[x > 0].mean(), 2.0),
    "var": (lambda x: x[x > 0].var(), 1.0),
    "prod": (lambda x: x[x < 0].prod(), 8.0),
    "sum of a function": (lambda x: gt.sum(gt.log(x[x > 0]) * 2), 2 * np.log(3)),
    "any": (lambda x: gt.any(x[x > 0] > 2), 1.0),
    "length": (lambda x: x[x > 1].shape[0], 1.0),
    "gradient": (lambda x: graphc.grad(gt.square(x[x > 0]).sum(), x).sum(), 8.0),
}
"""What is made of masked elements without an array of them, and what it gives for FOUR."""


@pytest.mark.parametrize(("program", "expected"), SUMMARIES.values(), ids=SUMMARIES)
def test_a_mask_made_of_inputs_may_be_summed_over(program: Any, expected: Any, mode: str) -> None:
    f = graphc.function([x], program(x), mode=mode)
    assert float(f(FOUR)) == pytest.approx(expected, rel=1e-12)


LOSSES: dict[str, tuple[Callable[[Any, Any], Any], list[float]]] = {
    "sum": (lambda x, k: x[k].sum(), [1.0, 0.0, 1.0]),
    "mean": (lambda x, k: x[k].mean(), [0.5, 0.0, 0.5]),
    "mean of squares": (lambda x, k: (x[k] ** 2).mean(), [1.0, 0.0, 3.0]),
    "var": (lambda x, k: x[k].var(), [-1.0, 0.0, 1.0]),
    "of two parts": (lambda x, k: ((x[k] - gt.exp(x)[k]) ** 1).sum(), [1 - np.e, 0.0, 1 - np.e**3]),
}
"""Losses over a part that a mask of its own chooses, and their gradients at 1, 2 and 3."""


@pytest.mark.parametrize(("loss", "expected"), LOSSES.values(), ids=LOSSES)
def test_a_loss_over_a_masked_part_has_its_gradient(loss: Any, expected: Any, mode: str) -> None:
    k = gt.vector("k", dtype="bool")
    f = graphc.function([x, k], graphc.grad(loss(x, k), x), mode=mode, returns="numpy")
    np.testing.assert_allclose(f([1.0, 2.0, 3.0], [True, False, True]), expected, rtol=1e-12)


def test_a_mask_of_a_shared_variable_needs_values() -> None:
    mask = graphc.shared(MASK, name="mask")
    with pytest.raises(DynamicShapeError, match="mask: bool"):
        graphc.function([x], x[mask], mode="JAX")


@pytest.mark.parametrize("change", ["set", "inc"])
def test_a_masked_part_takes_a_scalar(change: str, mode: str) -> None:
    f = graphc.function([x], getattr(x[x > 0], change)(5.0), mode=mode)
    expected = FOUR.copy()
    expected[FOUR > 0] = 5.0 if change == "set" else expected[FOUR > 0] + 5.0
    np.testing.assert_array_equal(np.asarray(f(FOUR)), expected)


def test_a_float_decides_no_shape() -> None:
    k = gt.scalar("k")
    with pytest.raises(DynamicShapeError, match="k: float64"):
        graphc.function([k], gt.arange(k), mode="JAX")


def test_an_index_out_of_bounds_is_an_error_in_numpy() -> None:
    f = graphc.function([x, n], x[n], mode="NUMPY")
    with pytest.raises(BoundsError, match="index 10"):
        f(TEN, 10)
