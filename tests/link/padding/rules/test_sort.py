"""Searches in padded sorted vectors."""

from __future__ import annotations

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.tensor.arrays.sort import SearchSorted
from graphc.tensor.core.tensor import Tensor
from tests.link.padding.compare import assert_padding_is_unseen


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("dtype", ["float64", "int8", "uint16", "bool"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(n: int, dtype: str, side: str) -> None:
    x, v = gt.vector("x", dtype=dtype), gt.matrix("v", dtype=dtype)
    greatest = np.nan if dtype == "float64" else True if dtype == "bool" else np.iinfo(dtype).max
    sorted_array = np.sort(np.array([0, 1, 3, 3, greatest])[:n].astype(dtype))
    values = np.array([[0, 1, 2], [3, greatest, greatest]]).astype(dtype)
    assert_padding_is_unseen([x, v], [gt.searchsorted(x, v, side)], sorted_array, values)
    assert_padding_is_unseen([x], [gt.searchsorted(x, values[1], side)], sorted_array)
    assert_padding_is_unseen([v], [gt.searchsorted(sorted_array, v, side)], values)


def test_searchsorted_in_a_batch() -> None:
    x, v = gt.matrix("x"), gt.tensor3("v")
    rows = np.sort(np.random.default_rng(3).normal(size=(3, 4)))
    values = np.random.default_rng(4).normal(size=(3, 5, 2))
    y = Tensor.make(SearchSorted(right=True, batched=1), x, v)
    assert_padding_is_unseen([x, v], [y], rows, values)
