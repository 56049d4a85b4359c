"""Types are values: equal ones are one object, and none changes."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

from graphc.errors import DTypeError, FrozenError, ShapeError
from graphc.ir import TensorType, TupleType


def test_equal_types_are_one_object() -> None:
    assert TensorType("float64", (None, 3)) is TensorType(np.float64, [None, np.int64(3)])
    assert TensorType(float) is TensorType("float64", ())
    a = TensorType("int8", (2,))
    assert TupleType((a, a)) is TupleType((a, a))


@pytest.mark.parametrize(
    ("shape", "other"), [((1,), (None,)), ((1,), (1, 1)), ((0,), (None,)), ((), (1,))]
)
def test_types_of_different_shapes_are_different(shape: Any, other: Any) -> None:
    assert TensorType("int8", shape) is not TensorType("int8", other)


@pytest.mark.parametrize("length", [-1, 2.0, True, "3", 2.5])
def test_what_is_no_length_is_refused(length: Any) -> None:
    with pytest.raises(ShapeError, match="not a static length"):
        TensorType("float64", (length,))


@pytest.mark.parametrize("dtype", ["float63", "U3", object, "datetime64[s]", "float128", "", 3])
def test_what_is_no_dtype_of_arrays_is_refused(dtype: Any) -> None:
    with pytest.raises(DTypeError):
        TensorType(dtype, ())


def test_a_type_never_changes() -> None:
    with pytest.raises(FrozenError):
        TensorType("float64").shape = (3,)


def test_pickled_and_copied_types_are_the_same_object() -> None:
    for made in (TensorType("bool", (None, 1)), TupleType((TensorType("int8"),))):
        assert pickle.loads(pickle.dumps(made)) is made
        assert copy.deepcopy(made) is made


def test_threads_that_make_the_same_types_get_the_same_objects() -> None:
    found: list[list[Any]] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        arrays = [TensorType("int16", (n, None, 12345)) for n in range(300)]
        found.append([*arrays, *(TupleType((a,)) for a in arrays)])

    workers = [threading.Thread(target=make) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(x is y for types in found for x, y in zip(types, found[0], strict=True))


@pytest.mark.parametrize(
    ("wide", "narrow", "admitted"),
    [
        ((None, 3), (2, 3), True),
        ((2, 3), (None, 3), False),
        ((None,), (None,), True),
        ((1,), (2,), False),
        ((None,), (None, None), False),
    ],
)
def test_a_type_admits_what_states_more(wide: Any, narrow: Any, admitted: bool) -> None:
    assert TensorType("int8", wide).admits(TensorType("int8", narrow)) is admitted
    assert not TensorType("int8", wide).admits(TensorType("int16", narrow))


def test_a_type_prints_as_it_is_read() -> None:
    assert repr(TensorType("float32", (None, 3, 1))) == "float32[?, 3, 1]"
    assert repr(TupleType((TensorType("int8"), TensorType("bool", (2,))))) == "(int8[], bool[2])"


def test_only_a_static_length_of_one_broadcasts() -> None:
    made = TensorType("float32", (None, 3, 1))
    assert made.broadcastable == (False, False, True)
    assert not made.is_static


def test_a_clone_has_another_dtype_or_shape() -> None:
    x = TensorType("float64", (None, 3))
    assert x.clone() is x
    assert x.clone(dtype="int8", shape=(2, 3)) is TensorType("int8", (2, 3))
