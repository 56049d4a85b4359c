"""Cases of graphc.loop.subgraph."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from tests.contract.case import EMPTY, FLOATING, Case, S, V, X


def _applied(inline: bool, build: Any, *arguments: Any) -> Any:
    """A graph as an operation on arrays of the arguments' types."""
    fresh = [x.type() for x in arguments]
    made = build(*fresh)
    outputs = list(made) if isinstance(made, tuple) else [made]
    return graphc.OpFromGraph(fresh, outputs, inline=inline, name="case")(*arguments)


def _both(n: Any, x: Any, c: Any) -> Any:
    return n.sin(x) * c, n.sum(x * c, 0)


def _joined(inline: bool, x: Any, c: Any) -> Any:
    a, b = _applied(inline, lambda x, c: _both(gt, x, c), x, c)
    return gt.concatenate([a, b[None]])


def _joined_by_numpy(x: Any, c: Any) -> Any:
    a, b = _both(np, x, c)
    return np.concatenate([a, b[None]])


@graphc.custom_pullback(lambda g, y, x: g * y)
def _exponential(x: Any) -> Any:
    return gt.exp(x)


FAMILIES: dict[str, dict[str, Case]] = {
    "subgraph": {
        "inlined": Case(
            lambda x, c: _joined(True, x, c), (X, S), (*FLOATING, "complex128"), _joined_by_numpy
        ),
        "kept": Case(
            lambda x, c: _joined(False, x, c), (X, S), (*FLOATING, "complex128"), _joined_by_numpy
        ),
        "kept, of known lengths": Case(
            lambda x, c: _joined(False, x, c), (X, S), FLOATING, _joined_by_numpy, static=True
        ),
        "kept, of nothing": Case(
            lambda x, c: _joined(False, x, c), (EMPTY, S), FLOATING, _joined_by_numpy
        ),
        "kept, of integers": Case(
            lambda x: _applied(False, lambda x: gt.cumsum(x) // 2, x), (V,), ("int32", "int64"),
            lambda x: np.cumsum(x) // 2,
        ),
        "kept, with a loop": Case(
            lambda x: _applied(False, lambda x: graphc.scan(gt.add, x, x[0] * 0)[-1], x), (V,),
            ("float64",), np.sum,
        ),
        "with a pullback": Case(_exponential, (X,), ("float32", "float64"), np.exp),
    },
}  # fmt: skip
