"""A symbolic array stands where NumPy's do, and refuses what needs a value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import special

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError, SymbolicValueError
from graphc.ir import Constant, Leaf
from graphc.tensor import Tensor
from graphc.tensor.core.methods import METHODS
from graphc.tensor.core.tensor import TABLE
from tests.modes import uncompiled
from tests.reference import evaluate

x = gt.vector("x")
VALUES = np.array([0.25, 0.5])

DISPATCHED: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "np.exp(x)": (lambda: np.exp(x), lambda: gt.exp(x)),
    "np.add(array, x)": (lambda: np.add(VALUES, x), lambda: gt.add(VALUES, x)),
    "array + x": (lambda: VALUES + x, lambda: gt.add(VALUES, x)),
    "array @ x": (lambda: VALUES @ x, lambda: gt.matmul(VALUES, x)),
    "array < x": (lambda: operator.lt(VALUES, x), lambda: gt.less(VALUES, x)),
    "np.float64(2) * x": (lambda: np.float64(2) * x, lambda: gt.multiply(np.float64(2), x)),
    "np.absolute(x)": (lambda: np.absolute(x), lambda: gt.abs(x)),
    "np.true_divide(x, 2)": (lambda: np.true_divide(x, 2.0), lambda: x / 2.0),
    "np.mod(x, 2)": (lambda: np.mod(x, 2.0), lambda: x % 2.0),
    "np.bitwise_not": (lambda: np.invert(x > 0), lambda: ~(x > 0)),
    "np.sum(x)": (lambda: np.sum(x), lambda: gt.sum(x)),
    "np.sum(x, axis=0)": (lambda: np.sum(x, axis=0), lambda: gt.sum(x, axis=0)),
    "np.where(x > 0, x, 0)": (lambda: np.where(x > 0, x, 0), lambda: gt.where(x > 0, x, 0)),
    "np.concatenate([x, x])": (lambda: np.concatenate([x, x]), lambda: gt.concatenate([x, x])),
    "np.stack([x, x])": (lambda: np.stack([x, x]), lambda: gt.stack([x, x])),
    "np.transpose(x)": (lambda: np.transpose(x), lambda: gt.transpose(x)),
    "np.reshape(x, (2, 1))": (lambda: np.reshape(x, (2, 1)), lambda: gt.reshape(x, (2, 1))),
    "np.mean(x)": (lambda: np.mean(x), lambda: gt.mean(x)),
    "np.dot(x, x)": (lambda: np.dot(x, x), lambda: gt.dot(x, x)),
    "np.zeros_like(x)": (lambda: np.zeros_like(x), lambda: gt.zeros_like(x)),
    "np.ones_like(x)": (lambda: np.ones_like(x), lambda: gt.ones_like(x)),
    "np.shape(x)": (lambda: np.shape(x), lambda: x.shape),
    "np.round(x)": (lambda: np.round(x), lambda: gt.round(x)),
    "np.max(x)": (lambda: np.max(x), lambda: gt.max(x)),
    "np.clip(x, 0, 1)": (lambda: np.clip(x, 0.0, 1.0), lambda: gt.clip(x, 0.0, 1.0)),
}


@pytest.mark.parametrize("written", DISPATCHED)
def test_numpys_functions_come_here(written: str) -> None:
    numpys, ours = DISPATCHED[written]
    assert numpys() is ours()


UNKNOWN: dict[str, tuple[Callable[[], Any], str]] = {
    "a ufunc without a function": (lambda: np.isnat(x), "np.isnat of the symbolic x"),
    "a function without one": (lambda: np.apply_over_axes(np.sum, x, 0), "np.apply_over_axes"),
    "a reduction by a ufunc": (lambda: np.subtract.reduce(x), "np.subtract.reduce"),
    "an output array": (lambda: np.exp(x, out=np.zeros(2)), "np.exp"),
    "an array in place": (lambda: VALUES.copy().__iadd__(x), "np.add"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_numpys_functions_that_are_not_there_are_refused(what: str) -> None:
    make, message = UNKNOWN[what]
    with pytest.raises(SymbolicValueError, match=message):
        make()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "bool": (lambda: bool(x > 0), "gt.where"),
    "a condition": (lambda: 1 if x.sum() else 0, "gt.where"),
    "and": (lambda: (x > 0) and (x < 1), "gt.where"),
    "chained comparison": (lambda: 0 < x < 1, "gt.where"),
    "len": (lambda: len(x), r"x\.shape\[0\]"),
    "int": (lambda: int(x.sum()), "astype"),
    "float": (lambda: float(x.sum()), "eval"),
    "complex": (lambda: complex(x.sum()), "eval"),
    "a format": (lambda: f"{x.sum():.3f}", "eval"),
    "math.sin": (lambda: math.sin(x.sum()), "eval"),
    "an index of a list": (lambda: [1, 2][gt.lscalar()], "Python integer"),
    "range": (lambda: range(gt.lscalar()), "Python integer"),
    "iteration of unknown length": (lambda: list(x), "gt.tensor"),
    "iteration of a scalar": (lambda: list(gt.scalar()), "0-d array has no elements"),
    "in": (lambda: 1.0 in x, "gt.any"),
    "np.asarray": (lambda: np.asarray(x), "eval"),
    "np.array of a list": (lambda: np.array([x, x]), "gt.stack"),
    "item assignment": (lambda: x.__setitem__(0, 1.0), r"\.set\(value\)"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_a_value_is_refused_with_the_way_out(what: str) -> None:
    make, remedy = REFUSED[what]
    with pytest.raises(SymbolicValueError, match=remedy) as caught:
        make()
    assert "test_tensor.py:" in str(caught.value)


def test_equality_is_identity() -> None:
    assert x == gt.as_tensor(x)
    assert (x == gt.vector("x")) is False
    assert x in {x: 1}
    assert gt.equal(x, x).dtype == "bool"


def test_every_method_is_the_function_of_its_name() -> None:
    assert set(METHODS) - {"conjugate", "diagonal", "fill", "cumsum", "cumprod"} - set(TABLE) <= {
        "ptp", "repeat", "trace",
    }  # fmt: skip
    for name in ("exp", "sum", "argmax", "ravel", "std", "round", "squeeze", "norm"):
        assert getattr(x, name)() is TABLE[name](x)
        assert name in dir(x)


def test_an_attribute_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'item'"):
        _ = x.item


MIXED: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "a list of symbols": (lambda: gt.as_tensor([x.sum(), 1, 2.5]), [0.75, 1, 2.5]),
    "a nested list": (lambda: gt.as_tensor([[x[0], 1.0], [2.0, x[1]]]).ravel(), [0.25, 1, 2, 0.5]),
    "a list beside": (lambda: x.__add__([1.0, 2.0]), [1.25, 2.5]),
    "a tuple in front": (lambda: (1, 2) - x, [0.75, 1.5]),
    "divmod": (lambda: gt.concatenate(divmod(x, 0.4)), [0, 1, 0.25, 0.1]),
    "a reversed power": (lambda: 2.0**x, [2**0.25, 2**0.5]),
    "abs, neg, pos": (lambda: abs(-x) + +x, [0.5, 1.0]),
    "round": (lambda: round(x), [0, 0]),
    "several axes": (lambda: gt.as_tensor(x, ndim=2).sum(0), [0.25, 0.5]),
}


@pytest.mark.parametrize("what", MIXED)
def test_python_and_symbols_mix(what: str) -> None:
    make, expected = MIXED[what]
    np.testing.assert_allclose(evaluate([make()], {x: VALUES})[0], expected, atol=1e-15)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, "bool"), (1, "int64"), (1.0, "float64"), (1j, "complex128"), ([], "float64"),
        ([1, 2.0], "float64"), (np.float32(1), "float32"), ([True, False], "bool"),
        (np.zeros(3, ">f4"), "float32"),
    ],
)  # fmt: skip
def test_a_constant_has_the_dtype_that_numpy_gives_it(value: Any, dtype: str) -> None:
    y = gt.as_tensor(value)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.op.perform(), np.asarray(value))


@pytest.mark.parametrize("value", ["text", object(), [[1], [1, 2]], {"a": 1}, None, 2**70])
def test_what_is_no_array_of_numbers_is_refused(value: Any) -> None:
    with pytest.raises(DTypeError):
        gt.as_tensor(value)


MASKED = np.ma.array([1.0, 2.0], mask=[False, True])

LOSSES: dict[str, tuple[Callable[[], Any], str]] = {
    "a mask": (lambda: gt.constant(MASKED), "mask would be lost"),
    "a mask in a list": (lambda: gt.as_tensor([[MASKED], [MASKED]]), "mask would be lost"),
    "a masked number": (lambda: gt.as_tensor([1.0, np.ma.masked]), "mask would be lost"),
    "a mask of an operand": (lambda: x + MASKED, "mask would be lost"),
    "a mask beside symbols": (lambda: gt.stack([x, MASKED]), "mask would be lost"),
    "a mask of an update": (lambda: x[:2].set(MASKED), "mask would be lost"),
    "a mask of a shared variable": (lambda: graphc.shared(MASKED), "mask would be lost"),
    "an imaginary part": (lambda: gt.zvector().astype("float64"), "drop the imaginary part"),
    "an imaginary part of integers": (lambda: gt.cast(gt.zvector(), "int8"), "imaginary part"),
    "an imaginary part of a constant": (
        lambda: gt.as_tensor(np.array([1j]), dtype="float64"), "lose its imaginary part",
    ),
    "an imaginary part of a sum": (lambda: gt.sum(gt.zvector(), dtype="float64"), "imaginary part"),
}  # fmt: skip


@pytest.mark.parametrize("what", LOSSES)
def test_nothing_is_dropped_silently(what: str) -> None:
    make, problem = LOSSES[what]
    with pytest.raises(DTypeError, match=problem) as caught:
        make()
    assert "test_tensor.py:" in str(caught.value)


def test_a_mask_does_not_go_into_a_shared_variable() -> None:
    kept = graphc.shared(np.zeros(2))
    for value in (MASKED, [1.0, np.ma.masked]):
        with pytest.raises(ArgumentError, match="masked array"):
            kept.set_value(value)


def test_the_derivative_of_a_real_number_made_complex_is_real(mode: str) -> None:
    x = gt.fvector("x")
    y = (x.astype("complex64") * (1 + 2j)) ** 2
    slope = graphc.grad(y.imag.sum(), x)
    f = graphc.function([x], slope, mode=uncompiled(mode), returns="numpy")
    found = f(np.float32([1.5, -2.0]))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [12.0, -16.0], rtol=1e-6)


def test_lists_of_any_depth_are_refused_or_taken() -> None:
    nested: Any = 1.0
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(DTypeError, match="is no array of numbers"):
        gt.as_tensor(nested)


def test_small_arrays_are_part_of_the_graph_and_large_ones_are_leaves() -> None:
    assert isinstance(gt.constant(np.zeros(9)).op, Constant)
    assert isinstance(gt.constant(np.zeros(10)).op, Leaf)
    assert gt.constant(np.zeros(10), "w").name == "w"


def test_an_array_has_no_fewer_axes_than_it_has() -> None:
    with pytest.raises(ShapeError, match="has 1 axes, more than ndim=0"):
        gt.as_tensor(x, ndim=0)


def test_a_copy_is_the_array_itself() -> None:
    assert x.copy() is x
    assert gt.as_tensor(x) is x
    assert isinstance(x, Tensor)


def test_a_clone_is_a_new_input_of_the_type_and_name() -> None:
    x = gt.matrix("x", shape=(None, 3))
    y = (x * 2).clone()
    assert (x.clone().type, x.clone().name, x.clone("z").name) == (x.type, "x", "z")
    assert x.clone() is not x
    assert (y.type, y.owner) == (x.type, None)


@pytest.mark.parametrize("value", [gt.constant(1.0), gt.constant(np.ones(20)), graphc.shared(1.0)])
def test_the_clone_of_what_has_a_value_is_itself(value: Tensor) -> None:
    assert value.clone() is value


@pytest.mark.parametrize("n", [3, 20])
def test_a_constant_has_its_value_as_data(n: int) -> None:
    np.testing.assert_array_equal(gt.constant(np.arange(n)).data, np.arange(n))


def test_only_a_constant_has_data() -> None:
    x = gt.vector("x")
    assert not hasattr(x, "data")
    with pytest.raises(AttributeError, match=r"'data'\. Only constants have data"):
        _ = (x + 1).data


def test_a_method_prints_the_graph() -> None:
    assert (gt.vector("x") * 2).dprint(file="str").splitlines()[0] == "multiply float64[x.0] [id A]"


def test_names_that_numpy_and_scipy_have_for_the_same_are_found() -> None:
    z, v = gt.zvector("z"), gt.vector("v")
    assert z.conjugate() is gt.conj(z)
    assert np.copy(v) is v
    assert special.expit(v) is gt.sigmoid(v)
    assert special.psi(v) is gt.digamma(v)
    assert np.concatenate([v, gt.matrix("m")], axis=None).ndim == 1


def test_a_named_array_is_its_name_as_a_string() -> None:
    x = gt.vector("x")
    y = x + 1
    assert (str(x), f"{x}_grad", str(graphc.shared(1.0, name="w"))) == ("x", "x_grad", "w")
    assert str(y) == repr(y)
    y.name = "y"
    assert str(y) == "y"


def test_an_attribute_of_shared_variables_says_where_states_are() -> None:
    draw = gt.random.RandomStream(1).normal()
    with pytest.raises(AttributeError, match=r"stream\.seed\(seed\) sets them"):
        draw.owner.inputs[0].get_value()
    assert not hasattr(draw, "set_value")


def test_as_tensor_removes_leading_axes_of_length_1_as_pytensor_does() -> None:
    x = np.arange(3.0).reshape(1, 1, 3)
    for ndim in (1, 2, 3, 5):
        ours, theirs = gt.as_tensor(x, ndim=ndim), pt.as_tensor(x, ndim=ndim)
        assert ours.type.shape == theirs.type.shape
        np.testing.assert_array_equal(ours.eval(mode="NUMPY"), theirs.eval())
    for wrong in (np.ones((2, 1, 3)), gt.tensor3("x")):
        with pytest.raises(ShapeError, match="declared to have length 1"):
            gt.as_tensor(wrong, ndim=2)


@pytest.mark.parametrize("floating", ["float32", "float64"])
def test_an_empty_list_has_the_default_dtype(floating: str) -> None:
    with graphc.config.change_flags(floatX=floating), pytensor.config.change_flags(floatX=floating):
        pairs = (gt.as_tensor([]), pt.as_tensor([])), (gt.constant([]), pt.constant([]))
        for ours, theirs in pairs:
            assert ours.dtype == theirs.dtype == floating
        assert gt.as_tensor(np.zeros(0)).dtype == "float64"
