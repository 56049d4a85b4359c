"""Cases of graphc.tensor.arrays.rearrange."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, SOME, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "rearrange": {
        "flip": Case(lambda n, x: n.flip(x, (0, 2)), (X,)),
        "roll": Case(lambda n, x: n.roll(x, 1, 1), (X,), EVERY),
        "roll of all": Case(lambda n, x: n.roll(x, -5), (X,)),
        "roll of two axes": Case(lambda n, x: n.roll(x, (2, -1), (0, 2)), (X,)),
        "roll by a length": Case(
            lambda x, y: gt.roll(x, y.shape[0], -1), (X, (6,)), SOME, lambda x, y: np.roll(x, 6, -1)
        ),
        "rot90": Case(lambda n, x: n.rot90(x, 3, (0, 2)), (X,)),
    },
}  # fmt: skip
