"""Cases of graphc.tensor.arrays.repeat."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, SOME, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "repeat": {
        "tile": Case(lambda n, x: n.tile(x, (2, 1, 3)), (X,), EVERY),
        "tile with new axes": Case(lambda n, x: n.tile(x, (2, 1, 3)), ((2, 3),)),
        "tile by lengths": Case(
            lambda x, y: gt.tile(x, (y.shape[0], 2)), ((2, 3), (3,)), SOME,
            lambda x, y: np.tile(x, (3, 2)),
        ),
        "repeat": Case(lambda n, x: n.repeat(x, 2, 1), (X,), EVERY),
        "repeat of all": Case(lambda n, x: n.repeat(x, 3), ((2, 3),)),
        "repeat by counts": Case(lambda n, x: n.repeat(x, [2, 0, 3], 1), (X,)),
        "repeat by lengths": Case(
            lambda x, y: gt.repeat(x, gt.stack([y.shape[0], 0, y.size]), 1), (X, (2,)), SOME,
            lambda x, y: np.repeat(x, [2, 0, 2], 1),
        ),
    },
}  # fmt: skip
