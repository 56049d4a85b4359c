"""Cases of graphc.tensor.arrays.select."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, SOME, Case, V, X

PLACES = np.array([[[1, -1]], [[0, 2]]])
FAR = np.array([[-7, 1], [5, 3]])


def _put(x: Any, v: Any) -> Any:
    y = x.copy()
    np.put_along_axis(y, np.broadcast_to(PLACES, (2, 3, 2)), v[..., None], 2)
    return y


FAMILIES: dict[str, dict[str, Case]] = {
    "select": {
        "take_along_axis": Case(lambda n, x: n.take_along_axis(x, PLACES, 2), (X,), EVERY),
        "put_along_axis": Case(
            lambda x, v: gt.put_along_axis(x, np.broadcast_to(PLACES, (2, 3, 2)), v[..., None], 2),
            (X, (2, 3)), EVERY, _put,
        ),
        "take wrapped": Case(lambda n, x: n.take(x, FAR, axis=1, mode="wrap"), (X,), SOME),
        "take clipped": Case(lambda n, x: n.take(x, FAR, axis=1, mode="clip"), (X,), SOME),
        "choose": Case(lambda n, x, v: n.choose([1, 0, 1, 1, 0], [x, v]), (V, V), SOME),
        "compress": Case(lambda n, x: n.compress([True, False, True], x, 1), (X,), SOME),
        "extract": Case(lambda n, x: n.extract(np.arange(24) % 5 == 1, x), (X,), SOME),
        "select": Case(
            lambda n, x, v: n.select([PLACES[:, 0, 0] == 1, PLACES[:, 0, 0] == 0], [x, v]),
            ((2,), (2,)), SOME,
        ),
        "ravel_multi_index": Case(
            lambda n, x: n.ravel_multi_index((x, x), (9, 9), order="F"), (V,), ("int8", "int64"),
        ),
        "unravel_index": Case(
            lambda n, x: n.unravel_index(x, (4, 3))[1], (V,), ("int8", "int64")
        ),
        "to_one_hot": Case(
            lambda x: gt.to_one_hot(x, 7, "int8"), (X,), ("uint8", "int64"),
            lambda x: np.eye(7, dtype=np.int8)[x],
        ),
        "one_hot": Case(
            lambda x: gt.one_hot(x, 7, "int8", axis=1), (X,), ("uint8", "int64"),
            lambda x: np.moveaxis(np.eye(7, dtype=np.int8)[x], -1, 1),
        ),
        "relu": Case(gt.relu, (X,), SOME[:-1], lambda x: np.maximum(x, np.zeros((), x.dtype))),
        "inverse_permutation": Case(
            lambda x: gt.inverse_permutation(gt.argsort(x)), (X,), ("float64",),
            lambda x: np.argsort(np.argsort(x)),
        ),
        "permute_row_elements": Case(
            lambda x: gt.permute_row_elements(x, [2, 0, 3, 1], inverse=True), (X,), SOME,
            lambda x: x[..., [1, 3, 0, 2]],
        ),
    },
}  # fmt: skip
