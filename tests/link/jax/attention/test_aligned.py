"""Which axes of captured arrays are read at a score's own batch, head and query alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.attention.mods import score_of
from graphc.capture import lift
from graphc.link.jax.attention.aligned import localize, roles_of
from graphc.loop.evaluate import evaluate

LENGTHS = (4, 6, 8)

Read = Callable[..., Any]

CASES: dict[str, tuple[tuple[int, ...], Read, tuple[int | None, ...]]] = {
    "own": ((4, 6, 8), lambda x, b, h, i, j: x[b, h, i], (0, 1, 2)),
    "other order": ((8, 3, 4), lambda x, b, h, i, j: x[i, 1, b], (2, None, 0)),
    "keys": ((8, 8), lambda x, b, h, i, j: x[i, j], (2, None)),
    "queries and keys": ((4, 8), lambda x, b, h, i, j: x[b, i] - x[b, j], (0, None)),
    "one axis for two": ((4, 4), lambda x, b, h, i, j: x[b, b], (0, None)),
    "another length": ((5, 6), lambda x, b, h, i, j: x[b, h], (None, 1)),
    "another index": ((8,), lambda x, b, h, i, j: x[7 - i], (None,)),
    "another index too": ((4,), lambda x, b, h, i, j: x[b] + x[b // 2], (None,)),
    "through another": ((6, 4), lambda x, b, h, i, j: x[h, gt.cast(x[h, b], "int32")], (1, None)),
    "nothing": ((), lambda x, b, h, i, j: x, ()),
}


@pytest.mark.parametrize("case", CASES)
def test_axes_that_are_read_at_own_indices_can_be_divided(case: str) -> None:
    shape, read, wanted = CASES[case]
    x = gt.tensor("x", dtype="float64", shape=shape)
    graph, captured = score_of(lift(lambda s, b, h, i, j: s + read(x, b, h, i, j)), "float64")
    assert len(captured) == 1
    assert roles_of(graph, LENGTHS, [shape]) == [wanted]
    # A part reads what the whole does.
    value = np.random.default_rng(0).integers(0, 4, shape).astype(float)
    first = (2, 3, 4)
    mine = value[tuple([slice(None if r is None else first[r], None) for r in wanted])]
    for b, h, i, j in ((2, 3, 4, 0), (3, 5, 7, 7), (3, 3, 5, 2)):
        own = b - first[0], h - first[1], i - first[2], j
        (found,) = evaluate(localize(graph, [wanted]), 1.0, *own, mine, np.int32([*first, 0]))
        assert found == evaluate(graph, 1.0, b, h, i, j, value)[0]
