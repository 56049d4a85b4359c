"""Elementwise functions have NumPy 2's dtypes and its broadcasting, but for unknown lengths."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir.law import checks_of
from graphc.link import names
from graphc.tensor.core.elementwise import ROWS
from tests.reference import evaluate
from tests.tensor.agreement import DTYPES, check_agrees

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

ONLY_NUMPY = {("//", "bool"), ("%", "bool"), ("**", "bool")}
"""NumPy computes these in int8; here bool is cast first, as it is no number."""

COMPLEX_ORDER = {"<", "<=", ">", ">="}
"""NumPy orders complex numbers by their parts; here they have no order."""


def agrees_or_both_refuse(sign: str, a: np.ndarray, b: Any, ours: Callable[[Any], Any]) -> None:
    # A bool array ** 2 is int8 in NumPy, unlike ** 3 or np.power.
    f = np.power if sign == "**" else OPERATORS[sign]
    try:
        with np.errstate(all="ignore"):
            expected = f(a, b)
    except (TypeError, OverflowError):
        with pytest.raises(DTypeError):
            ours(gt.tensor(shape=a.shape, dtype=a.dtype))
        return
    common = np.result_type(a, b)
    if (sign, common.name) in ONLY_NUMPY or (sign in COMPLEX_ORDER and common.kind == "c"):
        with pytest.raises(DTypeError, match=f"not defined for {common.name}"):
            ours(gt.tensor(shape=a.shape, dtype=a.dtype))
        return
    assert ours(gt.tensor(shape=a.shape, dtype=a.dtype)).dtype == expected.dtype.name


@pytest.mark.parametrize("sign", OPERATORS)
def test_two_dtypes_give_what_they_give_in_numpy(sign: str) -> None:
    for first in DTYPES:
        for second in DTYPES:
            a, b = np.ones(3, first), np.ones(3, second)
            other = gt.tensor(shape=(3,), dtype=second)
            agrees_or_both_refuse(sign, a, b, lambda x, b=other: OPERATORS[sign](x, b))


@pytest.mark.parametrize("scalar", [True, 2, 2.0, 2j], ids=repr)
@pytest.mark.parametrize("sign", OPERATORS)
def test_a_python_number_is_weak(sign: str, scalar: Any) -> None:
    for dtype in DTYPES:
        a = np.ones(3, dtype)
        agrees_or_both_refuse(sign, a, scalar, lambda x: OPERATORS[sign](x, scalar))


@pytest.mark.parametrize("sign", OPERATORS)
def test_an_array_of_numpy_is_not_weak(sign: str) -> None:
    for dtype in DTYPES:
        b = np.array(1, dtype)
        agrees_or_both_refuse(sign, np.ones(3, "int8"), b, lambda x, b=b: OPERATORS[sign](x, b))


@pytest.mark.parametrize("sign", OPERATORS)
def test_a_number_may_stand_on_either_side(sign: str) -> None:
    x = gt.tensor(shape=(2,), dtype="int32")
    values = np.array([2, 3], "int32")
    (found,) = evaluate([gt.as_tensor(OPERATORS[sign](5, x))], {x: values})
    expected = OPERATORS[sign](5, values)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("value", [300, -1, 2**70])
def test_a_python_integer_that_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(DTypeError, match=f"{value} does not fit uint8"):
        gt.tensor(shape=(), dtype="uint8") + value


WHOLE = [dtype for dtype in DTYPES if np.dtype(dtype).kind in "biu"]

OTHER_DTYPES = {("conj", "bool"), ("square", "bool")}
"""NumPy computes these in int8. A reciprocal of integers is floating here, as 1 / x is."""

NARROW = [dtype for dtype in WHOLE if np.dtype(dtype).itemsize == 1]


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.arity == 1], ids=repr)
def test_a_row_has_numpys_dtype(row: Any) -> None:
    numpys = getattr(np, row.name, None)
    if not isinstance(numpys, np.ufunc):
        return
    for dtype in DTYPES:
        if (row.name, dtype) in OTHER_DTYPES or (row.name == "reciprocal" and dtype in WHOLE):
            continue
        x = gt.tensor(shape=(), dtype=dtype)
        try:
            with np.errstate(all="ignore"):
                expected = numpys(np.ones((), dtype)).dtype.name
        except TypeError:
            with pytest.raises(DTypeError):
                row(x)
            continue
        if dtype in NARROW and expected == "float16":
            expected = "float32"  # PyTensor's: in float16 exp(12) overflows
        assert row(x).dtype == expected, dtype


@pytest.mark.parametrize("backend", names())
def test_a_function_of_narrow_integers_does_not_overflow(backend: str) -> None:
    xs = [gt.tensor(shape=(2,), dtype=dtype) for dtype in NARROW]
    folded = gt.exp(gt.constant([12], dtype="int8"))
    f = graphc.function(xs, [*map(gt.exp, xs), folded], mode=backend, returns="numpy")
    *found, constant = f(*[np.array([12, 0], dtype) for dtype in NARROW])
    for y, dtype in zip(found, NARROW, strict=True):
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, np.exp(np.array([12, 0], dtype).astype(float)), 1e-6)
    assert constant.dtype == np.float32
    np.testing.assert_allclose(constant, np.exp([12.0]), 1e-6)


SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4)


@settings(max_examples=150)
@given(SHAPES, st.sampled_from([gt.add, gt.clip, gt.where]))
def test_shapes_broadcast_as_in_numpy(shapes: Any, f: Any) -> None:
    values = [np.full(s, i + 1.0) for i, s in enumerate(shapes.input_shapes)]
    if f is gt.add:
        check_agrees(f, np.add, *values[:2])
    elif f is gt.clip:
        check_agrees(f, lambda x, a, b: np.minimum(np.maximum(x, a), b), *values)
    else:
        check_agrees(f, np.where, values[0] > 0, *values[1:])


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((1,), (3,), (3,)),
        ((1,), (None,), (None,)),
        ((None,), (3,), (3,)),
        ((None,), (None,), (None,)),
        ((1, None), (2, 1), (2, None)),
        ((), (None, 1), (None, 1)),
        ((0,), (1,), (0,)),
    ],
)
def test_a_static_length_of_one_broadcasts(a: Any, b: Any, result: Any) -> None:
    assert (gt.tensor(shape=a) + gt.tensor(shape=b)).type.shape == result


def test_an_unknown_length_never_broadcasts() -> None:
    x, y = gt.vector(), gt.vector()
    assert checks_of(x + y) == ((0, 0, 1, 0),)
    assert checks_of(x + gt.tensor(shape=(1,))) == ()


def test_lengths_that_differ_are_refused() -> None:
    a, b = gt.tensor(shape=(3,)), gt.tensor(shape=(4, 2))
    with pytest.raises(ShapeError, match=r"differ on axis -1.*\n.*or one of them 1\.   test_elem"):
        a + b


def test_clip_puts_the_upper_limit_last() -> None:
    x = gt.vector()
    (y,) = evaluate([gt.clip(x, 2.0, 1.0)], {x: [0.0, 1.5, 3.0]})
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_a_wrong_number_of_operands_is_refused() -> None:
    with pytest.raises(ArgumentError, match="exp takes 1 operands, not 2"):
        gt.exp(1, 2)
    with pytest.raises(ArgumentError, match="where takes a condition alone"):
        gt.where(True, 1)


def test_a_sum_of_many_operands_adds_them_all() -> None:
    x, y, z = gt.scalars(3)
    assert gt.add(x, y, z) is x + y + z


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_a_cast_is_numpys(source: str, target: str) -> None:
    values = np.array([0, 1, 100]).astype(source)
    x = gt.tensor(shape=(3,), dtype=source)
    if values.dtype.kind == "c" and np.dtype(target).kind not in "cb":
        with pytest.raises(DTypeError, match="would drop the imaginary part"):
            x.astype(target)
        return
    (y,) = evaluate([x.astype(target)], {x: values})
    np.testing.assert_array_equal(y, values.astype(target))


def test_a_cast_to_bool_reads_both_parts_of_a_complex_number() -> None:
    x = gt.zvector()
    assert evaluate([x.astype("bool")], {x: [0, 1j, 1]})[0].tolist() == [False, True, True]


def test_a_cast_to_its_own_dtype_is_the_array() -> None:
    x = gt.vector()
    assert x.astype("float64") is x
    assert gt.cast(x, "floatX") is x


INTEGER_EDGES: dict[str, tuple[Callable[..., Any], str, list[int], list[int]]] = {
    "negation of the least": (lambda x: -x, "int8", [-128], [-128]),
    "magnitude of the least": (abs, "int8", [-128], [-128]),
    "overflow": (lambda x: x + 100, "int8", [100], [-56]),
    "underflow of unsigned": (lambda x: x - 1, "uint8", [0], [255]),
    "negation of unsigned": (lambda x: -x, "uint8", [1], [255]),
    "floor division": (lambda x: x // 2, "int32", [-3, 3], [-2, 1]),
    "remainder": (lambda x: x % 3, "int32", [-4, 4], [2, 1]),
    "remainder by a negative": (lambda x: x % -3, "int32", [-4, 4], [-1, -2]),
    "division by zero": (lambda x: x // 0, "int64", [5, -5], [0, 0]),
    "remainder by zero": (lambda x: x % 0, "int64", [5, -5], [0, 0]),
    "the least divided by -1": (lambda x: x // -1, "int8", [-128], [-128]),
    "zero to the zeroth": (lambda x: x**0, "int32", [0, 2], [1, 1]),
    "inverted": (lambda x: ~x, "uint8", [0, 255], [255, 0]),
    "shifted right": (lambda x: x >> 1, "int8", [-3, 3], [-2, 1]),
    "shifted left": (lambda x: x << 7, "int8", [1], [-128]),
    "sign": (gt.sign, "int16", [-5, 0, 7], [-1, 0, 1]),
    "square overflow": (gt.square, "int8", [100], [16]),
    "rounded": (gt.round, "int64", [2**62 + 1], [2**62 + 1]),
    "large sums": (lambda x: x + 1, "int64", [2**53], [2**53 + 1]),
}


@pytest.mark.parametrize("what", INTEGER_EDGES)
def test_integers_at_their_edges(what: str) -> None:
    f, dtype, values, expected = INTEGER_EDGES[what]
    x = gt.tensor(shape=(len(values),), dtype=dtype)
    (y,) = evaluate([f(x)], {x: np.array(values, dtype)})
    assert y.tolist() == expected
    assert y.dtype == dtype


EXACT: dict[str, tuple[Callable[..., Any], list[float], list[float]]] = {
    "softplus": (gt.softplus, [-1000, 0, 1000, np.inf, -np.inf], [0, np.log(2), 1000, np.inf, 0]),
    "sigmoid": (gt.sigmoid, [-1000, 0, 1000, np.inf, -np.inf], [0, 0.5, 1, 1, 0]),
    "log_sigmoid": (gt.log_sigmoid, [-1000, 0, 1000, -np.inf], [-1000, -np.log(2), 0, -np.inf]),
    "log1mexp": (gt.log1mexp, [-1e-20, -1000, 0], [np.log(1e-20), 0, -np.inf]),
    "logaddexp": (
        lambda x: gt.logaddexp(x, x[::-1]),
        [-np.inf, 1000, 1000, -np.inf],
        [-np.inf, 1000 + np.log(2), 1000 + np.log(2), -np.inf],
    ),
    "erfc": (gt.erfc, [0, 30, -np.inf], [1, 2.5646562037561116e-393, 2]),
    "log1p": (gt.log1p, [1e-20, -1], [1e-20, -np.inf]),
    "expm1": (gt.expm1, [1e-20, -1000], [1e-20, -1]),
    "round": (gt.round, [0.5, 1.5, 2.5, -0.5], [0, 2, 2, 0]),
}


@pytest.mark.parametrize("what", EXACT)
def test_functions_keep_their_digits_at_the_ends(what: str) -> None:
    f, values, expected = EXACT[what]
    x = gt.vector()
    (y,) = evaluate([f(x)], {x: values})
    np.testing.assert_allclose(y, expected, rtol=1e-14)


def test_half_width_floats_stay_so() -> None:
    x = gt.tensor(shape=(2,), dtype="bfloat16")
    y = gt.sigmoid(x * 2.0 + 1) @ x
    assert y.dtype == "bfloat16"
    (found,) = evaluate([y], {x: np.array([0.5, 1.0])})
    assert abs(float(found) - 1.3937) < 0.01


def test_the_default_dtype_is_a_setting() -> None:
    with graphc.config.change_flags(floatX="float32"):
        assert gt.vector().dtype == "float32"
        assert (gt.lvector() + gt.scalar()).dtype == "float64"
        assert gt.zeros(3).dtype == gt.as_tensor(1.0).dtype == "float32"
        assert gt.as_tensor(1j).dtype == "complex64"
        assert gt.cast(gt.dvector(), "floatX").dtype == "float32"
        assert (gt.vector() * 2.5).dtype == "float32"
    assert gt.vector().dtype == "float64"


def test_a_sum_of_an_integer_and_a_python_float_is_float64_whatever_floatx() -> None:
    with graphc.config.change_flags(floatX="float32"):
        assert (gt.ivector() * 2.5).dtype == "float64"
