"""Mask and score graphs as functions of a tile's elements."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.attention.mods import lift_mod, mask_of
from graphc.link import load
from graphc.link.jax.attention.elements import ElementFunction

load("JAX")
ids = gt.vector("ids", dtype="int32")
table = gt.matrix("table", dtype="int64")
scalar = gt.scalar("scalar", dtype="int32")
IDS = np.array([3, 1, 4, 1, 5], np.int32)
TABLE = np.arange(15).reshape(3, 5) % 4
FUNCTIONS: dict[str, Any] = {
    "indices": lambda ids, table, n: lambda b, h, q, k: (q >= k) & (h + b > 0),
    "an array of queries and of keys": lambda ids, table, n: lambda b, h, q, k: ids[q] == ids[k],
    "negative indices": lambda ids, table, n: lambda b, h, q, k: ids[q - 3] < table[h - 1, -k - 1],
    "an element whose index is an element": (
        lambda ids, table, n: lambda b, h, q, k: table[ids[q] % 3, k] > 1
    ),
    "a computed array": lambda ids, table, n: lambda b, h, q, k: (ids[::-1] + n)[q] > k,
    "a scalar alone": lambda ids, table, n: lambda b, h, q, k: n > 2,
}
"""By what they read: functions of captured arrays, which give mask functions."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_element_function_is_the_function_of_each_element(name: str) -> None:
    mod = mask_of(lift_mod(FUNCTIONS[name](ids, table, scalar), "mask_mod"))
    function = ElementFunction.of(mod.graph, 4, has_score=False)
    assert function is not None
    values = (IDS, TABLE, np.int32(3))
    evaluate = graphc.function(
        [ids, table, scalar], list(mod.captured), "NUMPY", on_unused_input="ignore"
    )
    q, k = np.arange(5, dtype=np.int32)[:, None], np.arange(4, dtype=np.int32)[None]
    with jax.enable_x64(True):
        arrays = function.operands(*evaluate(*values))
        first = function.read([np.int32(1), np.int32(2), q, k], arrays)
        found = np.broadcast_to(function.apply(first, {}), (5, 4))
    mask = FUNCTIONS[name](*values)
    expected = [[mask(1, 2, i, j) for j in range(4)] for i in range(5)]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda b, h, q, k: gt.sum(ids[: q + 1]) > k,
        lambda b, h, q, k: gt.any(ids == q),
        lambda b, h, q, k: table[h].max() > k,
    ],
)
def test_functions_of_arrays_are_no_element_functions(function: Any) -> None:
    mod = mask_of(lift_mod(function, "mask_mod"))
    assert ElementFunction.of(mod.graph, 4, has_score=False) is None
