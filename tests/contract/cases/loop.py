"""Cases of graphc.loop.loop; many more, of many kinds, stand in loop_cases."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Graph
from graphc.loop.build import build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep
from tests.contract.case import SOME, Case, X


def doubled_and_added(x: Any, **how: Any) -> tuple[Any, Any]:
    """Twice the last element, and each added to twice the one before it."""
    zero = gt.zeros(x.shape[1:], x.dtype)
    before, now = zero.type("before"), zero.type("now")
    n = gt.as_tensor(x.shape[0])
    last, rows = build(
        Loop(Graph([], []), **how),
        n,
        None,
        [zero],
        [x],
        LoopStep([before], [now], [now + now], [before + now]),
    )
    return last, rows


FAMILIES: dict[str, dict[str, Case]] = {
    "loop": {
        "rows": Case(
            lambda x: doubled_and_added(x)[1], (X,), SOME,
            lambda x: x + np.concatenate([np.zeros_like(x[:1]), (x + x)[:-1]]),
        ),
        "rows in reverse": Case(
            lambda x: doubled_and_added(x, reverse=True)[1], (X,), SOME,
            lambda x: x + np.concatenate([(x + x)[1:], np.zeros_like(x[:1])]),
        ),
        "the last carry": Case(
            lambda x: doubled_and_added(x)[0], (X,), SOME, lambda x: (x + x)[-1]
        ),
        "no steps": Case(
            lambda x: doubled_and_added(x)[1], ((0, 3),), SOME, lambda x: x
        ),
    },
}  # fmt: skip
