"""Cases of graphc.tensor.arrays.pack."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, SOME, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "pack": {
        "join_dims": Case(
            lambda x: gt.join_dims(x, 1), (X,), EVERY, lambda x: x.reshape(2, 12)
        ),
        "split_dims": Case(
            lambda x: gt.split_dims(x, (2, 2), -1), (X,), SOME, lambda x: x.reshape(2, 3, 2, 2)
        ),
        "pack": Case(
            lambda a, b: gt.pack(a, b, keep_axes=0)[0], ((2, 3), (2, 2, 2)), SOME,
            lambda a, b: np.concatenate([a, b.reshape(2, 4)], 1),
        ),
        "unpack": Case(
            lambda x, y: gt.unpack(x, [(), y.shape])[1] * y, ((7,), (2, 3)), SOME,
            lambda x, y: x[1:].reshape(2, 3) * y,
        ),
    },
}  # fmt: skip
