"""Cases of graphc.tensor.core.shape."""

from __future__ import annotations

import numpy as np

from tests.contract.case import EMPTY, EVERY, SOME, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "shape": {
        "reshape": Case(lambda n, x: n.reshape(x, (6, 4)), (X,), EVERY),
        "reshape with a rest": Case(lambda n, x: n.reshape(x, (4, -1)), (X,)),
        "reshape to a scalar": Case(lambda n, x: n.reshape(x, ()), ((1, 1),)),
        "reshape of nothing": Case(lambda n, x: n.reshape(x, (3, 0)), (EMPTY,)),
        "reshape by a length": Case(
            lambda x, y: x.reshape(y.shape[0] * 2, -1), (X, (3,)), SOME,
            lambda x, y: x.reshape(6, 4),
        ),
        "ravel": Case(lambda n, x: n.ravel(x), (X,)),
        "flatten": Case(lambda x: x.flatten(2), (X,), SOME, lambda x: x.reshape(2, 12)),
        "shape": Case(lambda x: x.shape, (X,), ("float64",), lambda x: np.array(x.shape)),
        "length": Case(lambda x: x.shape[1] + x.size, (X,), ("int8",), lambda x: np.int64(27)),
    },
}  # fmt: skip
