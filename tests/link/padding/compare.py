"""Compare a graph on padded arrays with the graph on the arrays themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.core.tensor import Tensor
from tests.link.padding.run import run_padded

RANDOM = np.random.default_rng(7)


def numbers(*shape: int, dtype: str = "float64") -> np.ndarray[Any, Any]:
    """Return different numbers, with NaN among floats; bools and integers are random."""
    if dtype == "bool":
        return RANDOM.random(shape) > 0.5
    x = RANDOM.permutation(np.prod(shape, dtype=int)).reshape(shape) - 4
    x = x.astype(dtype)
    if x.dtype.kind in "fc" and x.size > 3:
        x.flat[2] = np.nan
    return x + np.asarray(1j * x, dtype) if x.dtype.kind == "c" else x


def count(scalar: Tensor, most: int) -> Tensor:
    """Return a number of data as a length from 0 to ``most``, which no formula gives."""
    return gt.maximum(gt.minimum(scalar.astype("int64"), most), 0)


def assert_padding_is_unseen(
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    *arrays: Any,
    extra: int = 3,
    exact: Sequence[Node] = (),
) -> None:
    """Compare the results on padded arrays with the results on the arrays themselves."""
    expected = graphc.function([*inputs], [*outputs], mode="NUMPY")(*arrays)
    results = run_padded(inputs, outputs, arrays, extra, exact)
    for y, e in zip(results, expected, strict=True):
        assert y.shape == e.shape
        assert y.dtype == e.dtype
        np.testing.assert_allclose(y, e, rtol=1e-9, atol=1e-12)
