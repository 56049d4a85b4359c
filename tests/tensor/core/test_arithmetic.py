"""Functions made of elementwise rows give what NumPy's give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError
from graphc.link import names
from tests.grad.differences import check_derivatives
from tests.modes import uncompiled
from tests.tensor.agreement import arrays, check_agrees

BACKENDS = names()
AWKWARD = np.array([0.0, -0.0, 1.5, -1.5, 2.5, 1e300, -1e-300, 1000.25, np.inf, -np.inf, np.nan])
WHOLE = np.array([-7, -1, 0, 1, 4, 15, 25, 35])

EQUAL: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "fraction": (lambda n, x: n.modf(x)[0], [AWKWARD]),
    "whole part": (lambda n, x: n.modf(x)[1], [AWKWARD]),
    "mantissa": (lambda n, x: n.frexp(x)[0], [AWKWARD]),
    "exponent": (lambda n, x: n.frexp(x)[1], [AWKWARD]),
    "ldexp": (lambda n, x, i: n.ldexp(x, i), [AWKWARD, 300 * np.arange(-5, 6)]),
    "ldexp of float32": (
        lambda n, x, i: n.ldexp(x, i), [AWKWARD[2:5].astype("float32"), np.array([-140, 3, 127])],
    ),
    "fix": (lambda n, x: n.fix(x), [AWKWARD]),
    "rint": (lambda n, x: n.rint(x), [AWKWARD]),
    "rint of integers": (lambda n, x: n.rint(x), [WHOLE]),
    "fabs": (lambda n, x: n.fabs(x), [AWKWARD]),
    "fabs of integers": (lambda n, x: n.fabs(x), [WHOLE.astype("int16")]),
    "positive": (lambda n, x: n.positive(x), [AWKWARD]),
    "float_power": (lambda n, x: n.float_power(x, 2), [WHOLE.astype("float32")]),
    "float_power of complex": (lambda n, x: n.float_power(x, 1.5), [WHOLE + 1j]),
    "spacing": (lambda n, x: n.spacing(x), [AWKWARD[2:]]),
    "quotient": (lambda n, x: n.divmod(x, 3)[0], [WHOLE]),
    "rest": (lambda n, x: n.divmod(x, -2.5)[1], [AWKWARD[:8]]),
    "angle": (lambda n, x: n.angle(x), [WHOLE + 2j]),
    "angle in degrees": (lambda n, x: n.angle(x, deg=True), [WHOLE + 2j]),
    "isreal": (lambda n, x: n.isreal(x), [WHOLE + 1j * (WHOLE > 0)]),
    "iscomplex": (lambda n, x: n.iscomplex(x), [WHOLE + 1j * (WHOLE > 0)]),
    "isreal of real": (lambda n, x: n.isreal(x), [WHOLE]),
    "trapezoid": (lambda n, x: n.trapezoid(x, dx=2), [AWKWARD[:5]]),
    "area": (
        lambda n, x, y: n.trapezoid(y, x, axis=0), [AWKWARD[:3] ** 2, np.eye(3, 4) + 2],
    ),
    "unwrap": (lambda n, x: n.unwrap(x), [np.array([0, np.pi, 0, -np.pi, 9, 3.5])]),
    "unwrap along an axis": (
        lambda n, x: n.unwrap(x, 4, axis=0, period=7.5), [np.arange(12.0).reshape(3, 4) ** 2],
    ),
    "unwrap integers": (lambda n, x: n.unwrap(x, period=4), [WHOLE]),
    "unwrap with an odd period": (lambda n, x: n.unwrap(x, period=5), [WHOLE]),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_a_function_is_numpys(name: str) -> None:
    f, values = EQUAL[name]
    check_agrees(lambda *xs: f(gt, *xs), lambda *xs: f(np, *xs), *values)


@settings(max_examples=100)
@given(data=st.data(), decimals=st.integers(-2, 3))
def test_numbers_are_rounded_to_decimals_as_in_numpy(data: Any, decimals: int) -> None:
    value = data.draw(
        arrays(["int8", "int64", "uint16"])
        | hnp.arrays(np.float64, 5, elements=st.integers(-4000, 4000).map(lambda n: n / 8))
    )
    check_agrees(lambda x: gt.round(x, decimals), lambda x: np.round(x, decimals), value)


def test_a_number_without_such_decimals_stays_as_it_is() -> None:
    y = gt.round(gt.as_tensor([1e308, 0.126]), 2).eval(mode="NUMPY")
    assert y.tolist() == [1e308, 0.13]
    assert gt.round(gt.as_tensor(2000.5, dtype="float16"), 3).eval(mode="NUMPY") == 2000.5


@pytest.mark.parametrize("backend", BACKENDS)
def test_halves_go_to_the_even_number_or_away_from_zero(backend: str) -> None:
    x = gt.vector("x")
    outputs = [
        gt.round(x),
        gt.round(x, "half_away_from_zero"),
        gt.round_half_away_from_zero(x),
        gt.iround(x),
        gt.round(x, 1, mode="half_away_from_zero"),
    ]
    value = [0.5, -0.5, 1.5, -2.5, 0.25, 0.49999999999999994, np.inf]
    f = graphc.function([x], outputs, uncompiled(backend), returns="numpy")
    even, away, same, whole, tenths = f(value)
    assert even.tolist() == [0, 0, 2, -2, 0, 0, np.inf]
    assert away.tolist() == same.tolist() == [1, -1, 2, -3, 0, 0, np.inf]
    assert whole.dtype == np.int64
    assert whole[:5].tolist() == [0, 0, 2, -2, 0]
    assert tenths[4] == pytest.approx(0.3)


def test_integers_are_divided_upwards() -> None:
    a = np.arange(-9, 10, dtype="int32")
    for b in (4, -4):
        check_agrees(
            lambda x, b=b: gt.ceil_intdiv(x, b), lambda x, b=b: np.ceil(x / b).astype("int32"), a
        )


def test_a_magnitude_and_an_angle_make_a_complex_number() -> None:
    r, phi = np.array([0.0, 1.0, 2.5]), np.array([3.0, -1.0, 0.5])
    check_agrees(gt.complex_from_polar, lambda r, phi: r * np.exp(1j * phi), r, phi)


def test_the_largest_of_several_is_taken_elementwise() -> None:
    values = [np.array([1.0, 5.0, 2.0]), np.array([[4.0], [0.0]]), np.array(3.0)]
    check_agrees(gt.largest, lambda *xs: np.maximum(np.maximum(xs[0], xs[1]), xs[2]), *values)
    check_agrees(gt.smallest, lambda *xs: np.minimum(np.minimum(xs[0], xs[1]), xs[2]), *values)


def test_a_dtype_is_told_when_the_graph_is_built() -> None:
    assert gt.iscomplexobj(gt.zvector())
    assert gt.isrealobj(gt.vector())
    assert gt.ndim(gt.tensor3()) == 3


DIFFERENTIABLE: dict[str, Callable[..., Any]] = {
    "modf": lambda x: gt.modf(x)[0] ** 2,
    "frexp": lambda x: gt.frexp(x)[0] ** 2,
    "ldexp": lambda x: gt.ldexp(x, [3, -2, 0]) ** 2,
    "spacing": gt.spacing,
    "divmod": lambda x: gt.divmod(x, 0.7)[1] ** 2,
    "fabs": lambda x: gt.fabs(x) ** 3,
    "float_power": lambda x: gt.float_power(gt.abs(x), x),
    "hypot": lambda x: gt.hypot(x, 2 * x + 1),
    "cbrt": gt.cbrt,
    "complex_from_polar": lambda x: gt.complex_from_polar(x, x * x),
    "trapezoid": lambda x: gt.trapezoid(x * x, x),
    "unwrap": lambda x: gt.unwrap(4 * x) ** 2,
    "largest": lambda x: gt.largest(x, x * x, 0.2) ** 2,
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_what_differences_give(name: str) -> None:
    check_derivatives(DIFFERENTIABLE[name], np.array([0.6, -1.3, 2.2]))


X = gt.tensor("x", shape=(2, 3))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a mode": (lambda: gt.round(X, mode="up"), ArgumentError, "mode='up'"),
    "the root of complex": (lambda: gt.cbrt(gt.zvector()), DTypeError, "not defined"),
    "the parts of complex": (lambda: gt.modf(gt.zvector()), DTypeError, "real numbers"),
    "a float exponent": (lambda: gt.ldexp(X, 1.5), DTypeError, "expected integer exponents"),
    "the sign of bool": (lambda: gt.positive(gt.vector(dtype="bool")), DTypeError, "no sign"),
    "the divisor of floats": (lambda: gt.gcd(X, 2), DTypeError, "not defined"),
    "none of several": (gt.largest, ArgumentError, "at least one array"),
    "an area over a matrix": (
        lambda: gt.trapezoid(gt.tensor3(), X),
        ValueError,
        "expected a vector",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_value_is_refused(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message):
        make()
