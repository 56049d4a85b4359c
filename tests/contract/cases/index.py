"""Cases of graphc.tensor.arrays.index."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, SOME, Case, S, X


def _set(x: Any, index: Any, value: Any) -> Any:
    y = x.copy()
    y[index] = value
    return y


def _inc(x: Any, index: Any, value: Any) -> Any:
    y = x.copy()
    np.add.at(y, index, value)
    return y


MASK = np.array([[True, False, True], [False, False, True]])
PLACES = np.array([[1, 0], [-1, 1]])

FAMILIES: dict[str, dict[str, Case]] = {
    "index": {
        "an integer": Case(lambda n, x: x[:, 1], (X,), EVERY),
        "slices": Case(lambda n, x: x[::-1, 1:, ::-2], (X,), EVERY),
        "a new axis": Case(lambda n, x: x[..., None, -1], (X,)),
        "integers": Case(lambda n, x: x[:, PLACES], (X,), EVERY),
        "a mask": Case(lambda n, x: x[MASK], (X,), EVERY),
        "nothing": Case(lambda n, x: x[:, 2:1], (X,)),
        "take": Case(lambda n, x: n.take(x, PLACES, axis=1), (X,)),
        "nonzero": Case(
            lambda x: x[gt.nonzero(MASK)[0], gt.nonzero(MASK)[1]], (X,), SOME,
            lambda x: x[np.nonzero(MASK)],
        ),
        "set": Case(
            lambda x, v: x[:, 1].set(v), (X, (4,)), EVERY, lambda x, v: _set(x, np.s_[:, 1], v)
        ),
        "set of a step": Case(
            lambda x, v: x[::-1, ::2].set(v), (X, (4,)), SOME,
            lambda x, v: _set(x, np.s_[::-1, ::2], v),
        ),
        "set of a mask": Case(
            lambda x, v: x[MASK].set(v), (X, S), SOME, lambda x, v: _set(x, MASK, v)
        ),
        "inc": Case(
            lambda x, v: x[:, 1:].inc(v), (X, (4,)), EVERY, lambda x, v: _inc(x, np.s_[:, 1:], v)
        ),
        "inc twice": Case(
            lambda x, v: x[:, np.array([0, 2, 0])].inc(v), (X, (4,)), EVERY,
            lambda x, v: _inc(x, np.s_[:, np.array([0, 2, 0])], v),
        ),
        "inc backwards": Case(
            lambda x, v: x[0, ::-2].inc(v), (X, (4,)), SOME,
            lambda x, v: _inc(x, np.s_[0, ::-2], v),
        ),
    },
}  # fmt: skip
