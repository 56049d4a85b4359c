"""Bounds of graphs of one element: right for every function, and close for those people write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc.tensor as gt
from graphc.attention.blocks import block_indices
from graphc.attention.intervals.graphs import bounds
from graphc.attention.intervals.interval import Interval, is_point
from graphc.attention.mods import lift_mod, mask_of
from tests.attention import expressions

LENGTHS = (2, 3, 40, 40)
BLOCK = (8, 5)


def of_mask(mask: Callable[..., Any]) -> Interval:
    """The bounds of a mask function over blocks."""
    mod = mask_of(lift_mod(mask, "mask_mod"))
    values = [np.asarray(x.eval(mode="NUMPY")) for x in mod.captured]
    return bounds(mod.graph, block_indices(*LENGTHS, BLOCK), values, 32)


def dense(f: Callable[..., Any]) -> Any:
    """The function at every element."""
    with np.errstate(all="ignore"):
        return np.broadcast_to(f(*np.indices(LENGTHS, "int32")), LENGTHS)


def check(found: Interval, every: Any) -> None:
    """Every element lies between the ends of its block."""
    rows, columns = BLOCK
    low, high = (
        np.repeat(np.repeat(np.broadcast_to(end, (2, 3, 5, 8)), rows, 2), columns, 3)
        for end in found
    )
    assert (low <= every).all()
    assert (every <= high).all()


@given(expressions.masks, st.integers(0, 5))
@settings(max_examples=150)
def test_every_element_lies_between_the_bounds(tree: expressions.Tree, seed: int) -> None:
    captured = expressions.arrays(seed)

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        return expressions.value(tree, gt, captured, b, h, q, k)

    check(of_mask(mask), dense(lambda *at: expressions.value(tree, np, captured, *at)))


IDS = np.repeat(np.arange(5, dtype="int32"), 8)
TABLE = np.stack([IDS, np.repeat(np.array([0, 1, 3, 4], "int32"), 10)])
TALL = np.stack([IDS + 9 * h for h in range(3)], axis=1)
ENDS = np.array([16, 33], "int32")
SLOPES = np.array([0.5, 1.0, 2.0], "float32")

DECIDED: dict[str, Callable[..., Any]] = {
    "causal": lambda np, b, h, q, k: q >= k,
    "a window": lambda np, b, h, q, k: (q - k < 7) & (k - q <= 2),
    "a window on both sides": lambda np, b, h, q, k: np.abs(q - k) < 6,
    "a prefix of each sequence": lambda np, b, h, q, k: (k < ENDS[b]) | (q >= k),
    "padding": lambda np, b, h, q, k: (q < ENDS[b]) & (k < ENDS[b]),
    "documents": lambda np, b, h, q, k: IDS[q] == IDS[k],
    "documents of each sequence": lambda np, b, h, q, k: TABLE[b, q] == TABLE[b, k],
    "the last axis by points": lambda np, b, h, q, k: TALL[q, h] == TALL[k, 0],
    "indices from the end": lambda np, b, h, q, k: IDS[q - 40] == IDS[k - 40],
    "places taken": lambda np, b, h, q, k: np.take(IDS, q) == np.take(IDS, k, mode="clip"),
    "rows of blocks": lambda np, b, h, q, k: (q // 8 == k // 10) | (q // 8 == 0),
    "a stride of what is aligned": lambda np, b, h, q, k: (q // 8) % 2 == (k // 5) % 2,
    "each head its own": lambda np, b, h, q, k: np.where(h == 1, q >= k, k >= q),
    "a function of the head": lambda np, b, h, q, k: k < 4 * np.exp(SLOPES[h]),
    "no rule, but of points": lambda np, b, h, q, k: np.gcd(b + 4, h + 6) < q,
    "beside what is not known": lambda np, b, h, q, k: (np.gcd(q, k) > 2) & (q < 0),
    "in floating point": lambda np, b, h, q, k: (q - k) * SLOPES[h] < 9.25,
    "bits": lambda np, b, h, q, k: ((q >> 3) & 1) == 0,
    "a captured bool": lambda np, b, h, q, k: (IDS < 3)[q] & (k > 7),
}


@pytest.mark.parametrize("name", DECIDED)
def test_what_is_left_open_is_partial(name: str) -> None:
    found = of_mask(partial(DECIDED[name], gt))
    every = dense(partial(DECIDED[name], np))
    check(found, every)
    parts = every.reshape(2, 3, 5, 8, 8, 5)
    certain, possible = (np.broadcast_to(end, (2, 3, 5, 8)) for end in found)
    np.testing.assert_array_equal(certain, parts.all((3, 5)))
    np.testing.assert_array_equal(possible, parts.any((3, 5)))


def test_axes_may_be_indexed_one_after_the_other() -> None:
    found = of_mask(lambda b, h, q, k: TABLE[b][q] <= TABLE[b][k])
    at_once = of_mask(lambda b, h, q, k: TABLE[b, q] <= TABLE[b, k])
    np.testing.assert_array_equal(found.low, at_once.low)
    np.testing.assert_array_equal(found.high, at_once.high)


def test_a_constant_is_known() -> None:
    assert of_mask(lambda b, h, q, k: True) == (True, True)


def test_a_function_of_batch_alone_is_known() -> None:
    assert is_point(of_mask(lambda b, h, q, k: ENDS[b] > 20))


OPEN: dict[str, Callable[..., Any]] = {
    "no rule": lambda b, h, q, k: gt.gcd(q, k) > 2,
    "a product of what is indexed": lambda b, h, q, k: gt.prod(gt.as_tensor(TABLE)[:, q]) > 3,
    "two ranges of one array": lambda b, h, q, k: gt.as_tensor(np.tri(40) > 0)[q, k],
    "a new axis": lambda b, h, q, k: gt.as_tensor(IDS)[None, q][0] > 3,
    "a complex number": lambda b, h, q, k: gt.abs(gt.cast(q, "complex64") * 1j) > 3,
    "elements that are not there": lambda b, h, q, k: gt.as_tensor(IDS)[gt.maximum(q, 33) + 8] > 3,
}


@pytest.mark.parametrize("name", OPEN)
def test_nothing_is_claimed_of_what_is_not_understood(name: str) -> None:
    certain, possible = of_mask(OPEN[name])
    assert not np.any(certain)
    assert np.any(possible)
