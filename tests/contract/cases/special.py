"""Cases of graphc.tensor.special.special."""

from __future__ import annotations

import numpy as np
from scipy import special

import graphc.tensor as gt
from tests.contract.case import FLOATING, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "composite": {
        "softmax": Case(
            lambda x: gt.softmax(x, 1), (X,), FLOATING, lambda x: special.softmax(x, 1)
        ),
        "softmax over two": Case(
            lambda x: gt.softmax(x, (0, 2)), (X,), FLOATING, lambda x: special.softmax(x, (0, 2))
        ),
        "softmax with infinities": Case(
            lambda x: gt.softmax(x, 0), ((7, 4),), FLOATING, lambda x: special.softmax(x, 0),
            special=True,
        ),
        "log_softmax": Case(
            lambda x: gt.log_softmax(x, 2), (X,), FLOATING, lambda x: special.log_softmax(x, 2)
        ),
        "logsumexp": Case(
            lambda x: gt.logsumexp(x, 1), (X,), FLOATING, lambda x: special.logsumexp(x, 1)
        ),
        "logsumexp of -inf": Case(
            lambda x: gt.logsumexp(x - np.inf, 1), (X,), ("float64",),
            lambda x: np.full((2, 4), -np.inf),
        ),
        "log_sigmoid": Case(gt.log_sigmoid, (X,), FLOATING, special.log_expit),
        "norm": Case(
            lambda x: gt.norm(x, axis=1), (X,), ("float64",), lambda x: np.linalg.norm(x, axis=1)
        ),
    },
}  # fmt: skip
