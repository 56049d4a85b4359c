"""A function of symbolic arrays against NumPy's own: static type, dtype, shape and value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import graphc.tensor as gt
from graphc.ir import TensorType
from tests.reference import evaluate

__all__ = ["DTYPES", "arrays", "check_agrees", "inputs_for"]

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128",
]  # fmt: skip

RELATIVE = {"float16": 2e-3, "float32": 1e-5, "complex64": 1e-5, "float64": 1e-12}


@st.composite
def arrays(draw: Any, dtypes: list[str], shapes: Any = None) -> np.ndarray:
    """Small whole numbers in any of the dtypes: exact in all of them."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4)
                 if shapes is None else shapes)  # fmt: skip
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    low = 0 if dtype.kind in "bu" else -3
    values = draw(hnp.arrays(np.int64, shape, elements=st.integers(low, 4)))
    return values.astype(dtype)


def inputs_for(values: list[np.ndarray], static: bool) -> list[Any]:
    """Inputs whose lengths are known, or known only where they are 1 and broadcast."""
    shapes = [tuple(n if static or n == 1 else None for n in v.shape) for v in values]
    return [TensorType(v.dtype, s)() for v, s in zip(values, shapes, strict=True)]


def check_agrees(
    ours: Callable[..., Any], theirs: Callable[..., Any], *values: np.ndarray, tight: bool = True
) -> None:
    """Both give the same for inputs of known and of unknown lengths.

    With ``tight``, known lengths of the inputs make all of the result's lengths known.
    """
    with np.errstate(all="ignore"):
        expected = np.asarray(theirs(*values))
    for static in (True, False):
        xs = inputs_for(list(values), static)
        y = gt.as_tensor(ours(*xs))
        assert y.type.numpy_dtype == expected.dtype, (y.type, expected.dtype)
        assert y.type.admits(TensorType(expected.dtype, expected.shape)), (y.type, expected.shape)
        if static and tight:
            assert y.type.shape == expected.shape
        (found,) = evaluate([y], dict(zip(xs, values, strict=True)))
        relative = RELATIVE.get(str(expected.dtype), 1e-12)
        if expected.dtype.kind in "fc":
            np.testing.assert_allclose(found, expected, rtol=relative, atol=relative)
        else:
            np.testing.assert_array_equal(found, expected)
