"""Cases of graphc.tensor.arrays.split."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, SOME, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "split": {
        "split": Case(
            lambda x: gt.concatenate(gt.split(x, [1, 0, 3], axis=-1)[::-1], 2), (X,), EVERY,
            lambda x: np.concatenate([x[..., 1:], x[..., :1]], 2),
        ),
        "split by lengths": Case(
            lambda x, y: gt.split(x, [y.shape[0], 1], axis=1)[0], (X, (2,)), SOME,
            lambda x, y: x[:, :2],
        ),
        "one part of a split": Case(
            lambda x: gt.split(x, [1, 2], axis=1)[1] * 2, (X,), SOME, lambda x: x[:, 1:] * 2
        ),
        "array_split": Case(
            lambda n, x: n.concatenate(n.array_split(x, 3, 2)[::-1], 2), (X,)
        ),
        "unstack": Case(
            lambda x: gt.unstack(x, 1)[2], (X,), SOME, lambda x: x[:, 2], static=True
        ),
    },
}  # fmt: skip
