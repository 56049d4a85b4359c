"""Cases of graphc.tensor.arrays.broadcast."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, SOME, Case, S, V, X

FAMILIES: dict[str, dict[str, Case]] = {
    "broadcast": {
        "broadcast_to": Case(
            lambda n, x: n.broadcast_to(x, (2, 3, 4)), ((3, 1),), EVERY, static=True
        ),
        "broadcast_to of a scalar": Case(lambda n, x: n.broadcast_to(x, (2, 3)), (S,)),
        "broadcast_to nothing": Case(
            lambda n, x: n.broadcast_to(x, (0, 3)), ((1, 3),), static=True
        ),
        "broadcast_to lengths": Case(
            lambda x, y: gt.broadcast_to(x, (y.shape[1], y.shape[0], x.shape[0])), (V, X), SOME,
            lambda x, y: np.broadcast_to(x, (3, 2, 5)),
        ),
        "broadcast_arrays": Case(
            lambda a, b: gt.broadcast_arrays(a, b)[0], ((2, 1), (1, 3)), SOME,
            lambda a, b: np.broadcast_arrays(a, b)[0], static=True,
        ),
        "second": Case(
            gt.second, ((2, 1), (1, 3)), SOME,
            lambda a, b: np.broadcast_arrays(a, b)[1], static=True,
        ),
    },
}  # fmt: skip
