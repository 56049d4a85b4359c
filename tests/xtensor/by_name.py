"""NumPy arrays with names of their axes: what arrays with named dimensions are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphc
import graphc.xtensor as gx

__all__ = ["LENGTHS", "Named", "at", "given", "placed", "same"]

LENGTHS = {"a": 2, "b": 3, "c": 4, "d": 1}
"""The length of each dimension."""


class Named:
    """An array with names, as xarray has them.

    Attributes:
        values: The array.
        dims: The names of its axes.
    """

    def __init__(self, values: Any, dims: Sequence[str]) -> None:
        self.values = np.asarray(values)
        self.dims = tuple(dims)

    def transpose(self, *dims: str) -> Named:
        """The array with its axes in another order."""
        return Named(self.values.transpose([self.dims.index(dim) for dim in dims]), dims)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values, dtype)


def given(dims: str, seed: int = 0, known: bool = True) -> tuple[gx.XTensor, np.ndarray]:
    """An input with these dimensions, a letter each, and a value for it."""
    shape = [LENGTHS[dim] for dim in dims]
    value = np.random.default_rng([seed, *map(ord, dims)]).uniform(0.5, 2.0, shape)
    x = gx.xtensor(f"x{seed}", dims=tuple(dims), shape=shape if known else None)
    return x, value


def placed(value: np.ndarray, dims: Sequence[str], order: Sequence[str]) -> np.ndarray:
    """An array with its axes in an order, of length 1 for what it lacks."""
    lengths = dict(zip(dims, value.shape, strict=True))
    moved = np.transpose(value, [dims.index(dim) for dim in order if dim in dims])
    return moved.reshape([lengths.get(dim, 1) for dim in order])


def at(y: gx.XTensor, values: dict[Any, Any], mode: Any = "NUMPY") -> np.ndarray:
    """The value of an array."""
    f = graphc.function(list(values), y, mode=mode, on_unused_input="ignore", returns="numpy")
    found: np.ndarray = f(*values.values())
    return found


def same(
    y: gx.XTensor, dims: Sequence[str], expected: Any, values: dict[Any, Any], mode: Any = "NUMPY"
) -> None:
    """Compare dimensions, the known lengths, the dtype and the values of an array."""
    found = at(y, values, mode)
    expected = np.asarray(expected)
    assert y.dims == tuple(dims)
    assert found.shape == expected.shape
    assert all(n in {None, m} for n, m in zip(y.type.shape, found.shape, strict=True))
    assert y.dtype == found.dtype.name
    np.testing.assert_allclose(found, expected, rtol=1e-10)
