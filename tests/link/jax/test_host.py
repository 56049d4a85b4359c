"""NumPy called from a program of JAX's loses nothing, whatever the thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import Op, Type, numpy_dtype
from graphc.ir.node import picks
from graphc.ir.types import TupleType

DTYPES = (
    *("float64", "int64", "complex128", "uint64", "float32", "complex64"),
    *("bool", "int8", "float16", "bfloat16"),
)
SEEN: list[str] = []


@dataclass(frozen=True, slots=True)
class Echo(Op):
    """Its operands, each a result."""

    by_numpy = True

    def infer(self, *types: Type) -> Type:
        return TupleType(types)

    def perform(self, *values: np.ndarray[Any, Any]) -> Sequence[Any]:
        SEEN[:] = [x.dtype.name for x in values]
        return [x.copy() for x in values]


def some(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Numbers that need all bits of the dtype."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape) * 1e3
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    if dtype == "uint64":
        return np.asarray(np.abs(x)).astype(dtype) + np.uint64(2**63 + 1)
    return np.asarray(x * 2**40 if dtype == "int64" else x).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (200, 300)])
def test_what_numpy_gets_and_gives_keeps_every_bit(shape: tuple[int, ...]) -> None:
    xs = [gt.tensor(dtype=dtype, shape=(None,) * len(shape)) for dtype in DTYPES]
    values = [some(dtype, shape) for dtype in DTYPES]
    f = graphc.function(xs, picks(gt.Tensor.make(Echo(), *xs)), mode="JAX", returns="numpy")
    for found, x in zip(f(*values), values, strict=True):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x)
    if 0 not in shape:
        assert [*DTYPES] == SEEN


def test_a_call_in_a_loop_keeps_every_bit() -> None:
    x = gt.vector("x")
    ys = graphc.scan(
        lambda y: picks(gt.Tensor.make(Echo(), gt.sin(y) + x))[0], outputs_info=x, n_steps=30
    )
    value = np.linspace(0, 1, 50_000)
    wanted = value
    for _ in range(30):
        wanted = np.sin(wanted) + value
    found = graphc.function([x], ys[-1], mode="JAX", returns="numpy")(value)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
