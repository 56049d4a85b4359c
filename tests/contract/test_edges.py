"""What a tolerance hides, on every backend: signs of zeros, last digits, integers at their ends."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError
from graphc.ir import TensorType
from graphc.link import names
from graphc.tensor.core.elementwise import ROWS
from tests.contract.rows import expected, taken
from tests.contract.tolerance import assert_agree
from tests.contract.values import awkward, tuples
from tests.modes import uncompiled

OPTIMIZED = pytest.mark.optimized
BACKENDS = [pytest.param(name, marks=OPTIMIZED) if name == "JAX" else name for name in names()]
SUBNORMAL = [name for name in names() if name != "JAX"]
"""XLA takes subnormal numbers for 0."""


def computed(name: str, values: list[np.ndarray[Any, Any]], mode: Any) -> np.ndarray[Any, Any]:
    """A row of these operands."""
    xs = [TensorType(x.dtype.name, x.shape)() for x in values]
    return graphc.function(xs, ROWS[name](*xs), mode=mode, returns="numpy")(*values)  # type: ignore[no-any-return]


SIGNED_ZEROS = (
    "add", "subtract", "multiply", "divide", "negative", "abs", "sqrt", "square", "floor", "ceil",
    "trunc", "round", "remainder", "fmod", "floor_divide", "copysign", "cbrt", "hypot", "sin",
    "tan", "tanh", "sinh", "arcsin", "arctan", "arctan2", "arcsinh", "arctanh", "expm1", "log1p",
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SIGNED_ZEROS)
def test_a_zero_has_numpys_sign(name: str, backend: str) -> None:
    values = tuples([awkward("float64")] * ROWS[name].arity)
    wanted = expected(name, *values)
    found = computed(name, values, uncompiled(backend))
    zeros = (wanted == 0) & (found == 0)
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))


POINTS = np.array(
    [
        *np.linspace(-30, 30, 61),
        *(np.pi / 2 * np.array([-7, -2, -1, 1, 2, 3, 4, 1000, 10**9])),
        *(1e-300, 1e-9, 0.3, -0.7, 300.0, -700.0, 1e15, -1e22),
    ]
)
EXACT = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "expm1": mpmath.expm1,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXACT)
def test_float64_has_all_its_digits(name: str, backend: str) -> None:
    points = POINTS[np.abs(POINTS) < 701] if name in {"exp", "exp2", "expm1"} else POINTS
    with mpmath.workdps(60):
        wanted = [EXACT[name](mpmath.mpf(float(x))) for x in points]
    found = computed(name, [points], uncompiled(backend))
    np.testing.assert_allclose(found, np.array(wanted, float), rtol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cubes_have_whole_roots(backend: str) -> None:
    roots = np.concatenate([np.arange(-50, 51), 2.0 ** np.arange(-300, 300, 37)])
    found = computed("cbrt", [roots**3], uncompiled(backend))
    np.testing.assert_allclose(found, roots, rtol=2.3e-16)


WHOLE = ("floor_divide", "remainder", "fmod", "gcd", "lcm", "power", "left_shift", "right_shift")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_integers_of_any_size_are_exact(name: str, backend: str) -> None:
    rng = np.random.default_rng(0)
    for dtype in ("int8", "uint16", "int32", "int64", "uint64"):
        info = np.iinfo(dtype)
        wide = rng.integers(info.min, info.max, (2, 200), dtype, endpoint=True)
        values = [wide[0], wide[1] >> rng.integers(0, info.bits, 200).astype(dtype)]
        values = taken(name, values)
        found = computed(name, values, uncompiled(backend))
        np.testing.assert_array_equal(found, expected(name, *values), err_msg=dtype)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_power_of_an_integer_to_a_negative_number_is_an_error_or_truncated(
    dtype: str, mode: str
) -> None:
    a, b = gt.tensor(shape=(None,), dtype=dtype), gt.tensor(shape=(None,), dtype=dtype)
    for exponent in (-1, np.array([-2, 3, 0, 1, -1], dtype)):
        with pytest.raises(ArgumentError, match="float_power"):
            _ = a**exponent
    values = np.array([1, -1, -1, 0, 5], dtype), np.array([-3, -3, -2, -1, -1], dtype)
    f = graphc.function([a, b], a**b, mode=uncompiled(mode), returns="numpy")
    np.testing.assert_array_equal(f(values[0], -values[1]), values[0] ** -values[1])
    if mode == "NUMPY":
        with pytest.raises(ArgumentError, match="to the power of -3"):
            f(*values)
    else:
        np.testing.assert_array_equal(f(*values), [1, -1, 1, 0, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_slowest_divisions_of_euclid_come_to_an_end(backend: str) -> None:
    for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
        fibonacci = [1, 1]
        while fibonacci[-1] + fibonacci[-2] <= np.iinfo(dtype).max:
            fibonacci.append(fibonacci[-1] + fibonacci[-2])
        largest = np.iinfo(dtype).max
        a = np.array([*fibonacci[1:], *fibonacci[:-1], largest, largest, 0, largest - 1], dtype)
        b = np.array([*fibonacci[:-1], *fibonacci[1:], largest, 0, largest, largest], dtype)
        found = computed("gcd", [a, b], uncompiled(backend))
        np.testing.assert_array_equal(found, np.gcd(a, b), err_msg=dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_bit_is_counted(backend: str) -> None:
    for dtype in ("int8", "uint8", "int16", "uint32", "int64", "uint64"):
        info = np.iinfo(dtype)
        x = np.random.default_rng(0).integers(info.min, info.max, 500, dtype, endpoint=True)
        found = computed("bitwise_count", [x], uncompiled(backend))
        np.testing.assert_array_equal(found, np.bitwise_count(x), err_msg=dtype)


@pytest.mark.parametrize("backend", SUBNORMAL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_subnormal_numbers_are_scaled_with_one_rounding(dtype: str, backend: str) -> None:
    info = np.finfo(dtype)
    rng = np.random.default_rng(0)
    size = 500
    a = np.concatenate([rng.uniform(1, 2, size), rng.uniform(1, 2, size) * float(info.tiny)])
    low, high = int(info.minexp), int(info.maxexp)
    b = np.concatenate(
        [rng.integers(low - 60, low + 20, size), rng.integers(-60, high - low, size)]
    )
    a, b = a.astype(dtype), b.astype(dtype)
    mode = uncompiled(backend)
    np.testing.assert_array_equal(computed("ldexp", [a, b], mode), np.ldexp(a, b.astype(int)))
    smallest = computed("ldexp", [a, b], "NUMPY")
    np.testing.assert_array_equal(
        computed("exponent", [smallest], mode), np.frexp(smallest)[1].astype(dtype)
    )


@pytest.mark.parametrize("backend", SUBNORMAL)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_number_next_to_another_may_be_subnormal(dtype: str, backend: str) -> None:
    info = np.finfo(dtype)
    ends = [0, info.tiny, info.smallest_subnormal, 1, info.max, np.inf]
    values = np.array([*ends, *(-x for x in ends), np.nan], dtype)
    a, b = tuples([values, values])
    with np.errstate(all="ignore"):
        found = computed("nextafter", [a, b], uncompiled(backend))
        np.testing.assert_array_equal(found, np.nextafter(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_joined_of_two_parts_has_them_back(backend: str) -> None:
    a, b = tuples([np.array([0, -0.0, 1.5, np.inf, -np.inf, np.nan], "float32")] * 2)
    y = computed("complex", [a, b], uncompiled(backend))
    assert y.dtype == np.complex64
    for part, given in ((y.real, a), (y.imag, b)):
        np.testing.assert_array_equal(part, given)
        np.testing.assert_array_equal(np.signbit(part), np.signbit(given))


COMPILED = [
    *(("remainder", dtype) for dtype in ("float32", "int32")),
    *(("floor_divide", dtype) for dtype in ("float32", "int32")),
    *(("power", dtype) for dtype in ("int32", "complex64")),
    *((name, "float64") for name in ("nextafter", "logaddexp", "cos")),
    ("gcd", "uint8"),
]
"""Rows of several steps, and of constants: ``mx.compile`` merges those that are equal."""


def test_mlx_compiles_rows_of_several_steps_to_the_same() -> None:
    xs, outputs, values, wanted = [], [], [], []
    for name, dtype in COMPILED:
        given = tuples([awkward(dtype)] * ROWS[name].arity)
        operands = [TensorType(dtype, (None,))() for _ in given]
        xs += operands
        values += given
        outputs.append(ROWS[name](*operands))
        wanted.append(computed(name, given, uncompiled("MLX")))
    found = graphc.function(xs, outputs, mode="MLX", returns="numpy")(*values)
    for y, plain, (name, dtype) in zip(found, wanted, COMPILED, strict=True):
        assert_agree(y, plain, f"{name}, {dtype}")
        if plain.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(y), np.signbit(plain), name)
