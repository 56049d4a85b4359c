"""Cases of graphc.tensor.shape."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EMPTY, EVERY, NONE, SOME, Case, S, V, X

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
        "transpose": Case(lambda n, x: n.transpose(x), (X,), EVERY),
        "transpose to an order": Case(lambda n, x: n.transpose(x, (1, 2, 0)), (X,)),
        "transpose of nothing": Case(lambda n, x: n.transpose(x, (1, 2, 0)), (NONE,)),
        "swapaxes": Case(lambda n, x: n.swapaxes(x, 0, -1), (X,)),
        "moveaxis": Case(lambda n, x: n.moveaxis(x, (0, 1), (-1, 0)), (X,)),
        "expand_dims": Case(lambda n, x: n.expand_dims(x, (0, 2, -1)), (X,), EVERY),
        "expand_dims of a scalar": Case(lambda n, x: n.expand_dims(x, 0), (S,)),
        "squeeze": Case(lambda n, x: n.squeeze(x, (0, 2)), ((1, 3, 1),), EVERY),
        "dimshuffle": Case(
            lambda x: x.dimshuffle(1, "x", 0), ((2, 3),), SOME, lambda x: x.T[:, None, :]
        ),
        "atleast_1d": Case(lambda n, x: n.atleast_1d(x), (S,)),
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
        "concatenate": Case(lambda n, a, b: n.concatenate([a, b, a], 1), (X, (2, 1, 4)), EVERY),
        "concatenate with nothing": Case(
            lambda n, a, b: n.concatenate([a, b], 1), ((2, 3), (2, 0))
        ),
        "concatenate nothing": Case(lambda n, a, b: n.concatenate([a, b], 0), ((0, 3), (0, 3))),
        "stack": Case(lambda n, a, b: n.stack([a, b], -1), (X, X)),
        "shape": Case(lambda x: x.shape, (X,), ("float64",), lambda x: np.array(x.shape)),
        "length": Case(lambda x: x.shape[1] + x.size, (X,), ("int8",), lambda x: np.int64(27)),
        "flip": Case(lambda n, x: n.flip(x, (0, 2)), (X,)),
    },
}  # fmt: skip
