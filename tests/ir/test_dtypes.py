"""Dtypes become what NumPy 2 makes of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from graphc.errors import DTypeError
from graphc.ir import (
    DTYPES,
    dtype_name,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    is_numeric,
    numpy_dtype,
    promote,
    real_dtype,
)


@pytest.mark.parametrize(("a", "b"), [*itertools.product(DTYPES, DTYPES)])
def test_two_dtypes_promote_as_in_numpy(a: str, b: str) -> None:
    try:
        expected = np.result_type(numpy_dtype(a), numpy_dtype(b)).name
    except TypeError:
        with pytest.raises(DTypeError, match="no common dtype"):
            promote(a, b)
    else:
        assert promote(a, b) == expected


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.float32, "float32"),
        (int, "int64"),
        (bool, "bool"),
        (complex, "complex128"),
        ("f4", "float32"),
        (np.dtype("uint8"), "uint8"),
        ("bfloat16", "bfloat16"),
        ("double", "float64"),
    ],
)
def test_whatever_numpy_takes_for_a_dtype_has_a_name(dtype: Any, name: str) -> None:
    assert dtype_name(dtype) == name


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_dtype_is_of_one_kind(dtype: str) -> None:
    kinds = [dtype == "bool", is_integer(dtype), is_float(dtype), is_complex(dtype)]
    assert kinds.count(True) == 1
    assert is_inexact(dtype) == (is_float(dtype) or is_complex(dtype))
    assert is_numeric(dtype) == (dtype != "bool")
    assert real_dtype(dtype) == (
        np.zeros((), dtype).real.dtype.name if is_complex(dtype) else dtype
    )
