"""Cases of graphc.tensor.arrays.join."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, SOME, Case, V, X

FAMILIES: dict[str, dict[str, Case]] = {
    "join": {
        "concatenate": Case(lambda n, a, b: n.concatenate([a, b, a], 1), (X, (2, 1, 4)), EVERY),
        "concatenate all elements": Case(
            lambda n, a, b: n.concatenate([a, b], axis=None), (X, V)
        ),
        "concatenate with nothing": Case(
            lambda n, a, b: n.concatenate([a, b], 1), ((2, 3), (2, 0))
        ),
        "concatenate nothing": Case(lambda n, a, b: n.concatenate([a, b], 0), ((0, 3), (0, 3))),
        "stack": Case(lambda n, a, b: n.stack([a, b], -1), (X, X)),
        "concat_with_broadcast": Case(
            lambda a, b: gt.concat_with_broadcast([a, b], 1), ((2, 3), (1, 2)), SOME,
            lambda a, b: np.concatenate([a, np.repeat(b, 2, 0)], 1), static=True,
        ),
        "dstack": Case(lambda n, a, b: n.dstack([a, b]), ((5,), (5,))),
        "column_stack": Case(lambda n, a, b: n.column_stack([a, b]), ((5,), (5, 2))),
        "block": Case(lambda n, a, b: n.block([[a, b], [a, b]]), ((2, 3), (2, 1))),
    },
}  # fmt: skip
