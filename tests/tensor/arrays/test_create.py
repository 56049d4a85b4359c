"""Inputs and arrays are made with the dtypes and shapes that their names and arguments say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, ShapeError
from tests.modes import uncompiled
from tests.reference import evaluate

LETTERS = {
    "": "float64", "b": "int8", "w": "int16", "i": "int32", "l": "int64", "f": "float32",
    "d": "float64", "c": "complex64", "z": "complex128",
}  # fmt: skip
SHAPES = {
    "scalar": (), "vector": (None,), "row": (1, None), "col": (None, 1), "matrix": (None, None),
    "tensor3": (None,) * 3, "tensor4": (None,) * 4, "tensor5": (None,) * 5,
    "tensor6": (None,) * 6, "tensor7": (None,) * 7,
}  # fmt: skip


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("kind", SHAPES)
def test_a_constructor_makes_what_its_name_says(letter: str, kind: str) -> None:
    construct = getattr(gt, letter + kind)
    x = construct("x")
    assert (x.dtype, x.type.shape, x.name) == (LETTERS[letter], SHAPES[kind], "x")
    assert construct is x.type if letter else construct.__name__ == kind


def test_floatx_is_the_dtype_of_constructors_without_a_letter() -> None:
    with graphc.config.change_flags(floatX="float32"):
        assert {gt.vector().dtype, gt.tensor(ndim=1).dtype, gt.eye(2).dtype} == {"float32"}
        assert gt.dvector().dtype == "float64"
        assert [x.dtype for x in gt.matrices(2)] == ["float32", "float32"]


def test_a_constructor_takes_lengths_and_a_dtype() -> None:
    assert gt.matrix("m", shape=(2, None), dtype="int8").type.shape == (2, None)
    assert gt.matrix("m", dtype="int8").dtype == "int8"
    with pytest.raises(ShapeError, match="expected a shape of 2 axes"):
        gt.matrix(shape=(3,))
    assert gt.dmatrix("m", shape=(2, None)).type.shape == (2, None)
    with pytest.raises(ShapeError, match=r"expected a shape of float64\[1, \?\]"):
        gt.drow(shape=(2, 3))


def test_plurals_make_several_by_name_or_number() -> None:
    assert [x.name for x in gt.scalars("a", "b")] == ["a", "b"]
    assert [x.type.shape for x in gt.rows(2)] == [(1, None)] * 2
    assert [x.dtype for x in gt.vectors("a", "b", dtype="int8")] == ["int8", "int8"]
    assert [len(gt.cols(n)) for n in (0, 1, 3)] == [0, 1, 3]
    assert [x.type.shape for x in gt.ftensor3s("ab")] == [(None,) * 3] * 2


def test_a_single_string_names_an_input_by_each_letter() -> None:
    assert [x.name for x in gt.matrices("xyz")] == ["x", "y", "z"]
    assert [x.name for x in gt.scalars(["beta", "mu"])] == ["beta", "mu"]


def test_a_single_name_makes_the_input_itself() -> None:
    x = gt.vectors("x")
    assert (x.name, gt.vectors(["x_0"]).name, x.ndim) == ("x", "x_0", 1)


def test_a_tensor_takes_a_shape_or_a_rank() -> None:
    assert gt.tensor("x", ndim=2, dtype="int8").type.shape == (None, None)
    assert gt.tensor("float32", shape=(3,)).dtype == "float32"
    for wrong in ({}, {"ndim": 1, "shape": (2,)}):
        with pytest.raises(ShapeError, match="either shape or ndim"):
            gt.tensor("x", **wrong)


MADE: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "zeros": (lambda: gt.zeros((2, 3)), lambda: np.zeros((2, 3))),
    "zeros of an integer": (lambda: gt.zeros(3, "int8"), lambda: np.zeros(3, "int8")),
    "ones": (lambda: gt.ones((2, 1), "complex64"), lambda: np.ones((2, 1), "complex64")),
    "ones of no axes": (lambda: gt.ones(()), lambda: np.ones(())),
    "full": (lambda: gt.full((2, 2), 7), lambda: np.full((2, 2), 7)),
    "full of a row": (lambda: gt.full((2, 2), [1, 2]), lambda: np.full((2, 2), [1, 2])),
    "full with a dtype": (lambda: gt.full(2, 1.5, "int8"), lambda: np.full(2, 1.5, "int8")),
    "empty": (lambda: gt.empty((2,)), lambda: np.zeros(2)),
    "alloc": (lambda: gt.alloc(1.5, 2, 3), lambda: np.full((2, 3), 1.5)),
    "eye": (lambda: gt.eye(3), lambda: np.eye(3)),
    "eye off the diagonal": (lambda: gt.eye(2, 4, 1, "int8"), lambda: np.eye(2, 4, 1, "int8")),
    "eye below": (lambda: gt.eye(3, k=-1), lambda: np.eye(3, k=-1)),
    "identity_like": (lambda: gt.identity_like(gt.zeros((2, 3))), lambda: np.eye(2, 3)),
    "arange": (lambda: gt.arange(5), lambda: np.arange(5)),
    "arange from": (lambda: gt.arange(2, 9, 3), lambda: np.arange(2, 9, 3)),
    "arange down": (lambda: gt.arange(5, 0, -2), lambda: np.arange(5, 0, -2)),
    "arange of floats": (lambda: gt.arange(0, 1, 0.1), lambda: np.arange(0, 1, 0.1)),
    "arange to nothing": (lambda: gt.arange(3, 1), lambda: np.arange(3, 1)),
    "arange with a dtype": (lambda: gt.arange(3, dtype="f4"), lambda: np.arange(3, dtype="f4")),
    "arange from -0.0": (lambda: gt.arange(-0.0, 2.0), lambda: np.arange(-0.0, 2.0)),
}


@pytest.mark.parametrize("what", MADE)
def test_an_array_is_made_as_in_numpy(what: str) -> None:
    ours, theirs = MADE[what]
    y, expected = ours(), theirs()
    (found,) = evaluate([y])
    assert (y.dtype, y.type.shape) == (expected.dtype.name, expected.shape)
    np.testing.assert_array_equal(found, expected)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("k", [0, 2, -1, 9])
def test_the_diagonal_of_ones_may_be_symbolic(k: int, mode: str) -> None:
    n, at = gt.lscalar("n"), gt.iscalar("at")
    made = [gt.eye(n, 3, at), gt.eye(3, k=at, dtype="int8")]
    f = graphc.function([n, at], made, mode=uncompiled(mode), returns="numpy")
    for found, wanted in zip(f(4, k), [np.eye(4, 3, k), np.eye(3, k=k, dtype="int8")], strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype


def test_a_diagonal_is_an_integer() -> None:
    with pytest.raises(DTypeError, match="eye: expected an integer diagonal"):
        gt.eye(3, k=1.5)


@pytest.mark.parametrize("bounds", [(0, 7, 2), (5, -3, -3), (3, 3, 1)])
def test_a_range_of_symbolic_bounds_is_numpys(bounds: Any) -> None:
    xs = gt.lscalar("a"), gt.lscalar("b"), gt.lscalar("c")
    y = gt.arange(*xs)
    (found,) = evaluate([y], dict(zip(xs, bounds, strict=True)))
    assert y.type.shape == (None,)
    np.testing.assert_array_equal(found, np.arange(*bounds))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "int64", "uint8", "uint32"])
def test_a_range_of_integers_is_numpys_int64(dtype: str) -> None:
    n = gt.scalar("n", dtype=dtype)
    value = np.array(1, dtype)
    y, z = gt.arange(n), gt.arange(n, 300)
    found = evaluate([y, z], {n: value})
    for one, wanted in zip(found, (np.arange(value), np.arange(1, 300)), strict=True):
        assert one.dtype == wanted.dtype == np.int64
        np.testing.assert_array_equal(one, wanted)
    assert gt.arange(value.item(), value).dtype == "int64"


def test_a_range_of_floats_has_their_common_dtype() -> None:
    assert gt.arange(gt.fscalar()).dtype == gt.arange(np.float32(5)).dtype == "float32"
    assert gt.arange(gt.fscalar(), gt.dscalar()).dtype == "float64"
    assert gt.arange(gt.iscalar(), 5, 0.5).dtype == "float64"
    assert gt.arange(gt.scalar(dtype="uint64")).dtype == "uint64"
    assert gt.arange(gt.iscalar(), dtype="float32").dtype == "float32"


def test_a_range_of_step_zero_is_refused() -> None:
    with pytest.raises(ShapeError, match="step is 0"):
        gt.arange(0, 3, 0)
    step = gt.lscalar()
    with pytest.raises(ShapeError, match="step is 0"):
        evaluate([gt.arange(0, 3, step)], {step: 0})


@pytest.mark.parametrize("end", [gt.zscalar, gt.lvector])
def test_a_range_is_of_real_scalars(end: Any) -> None:
    with pytest.raises(DTypeError, match="real scalars"):
        gt.arange(end())
