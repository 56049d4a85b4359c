"""Cases of graphc.tensor.core.axes."""

from __future__ import annotations

import graphc.tensor as gt
from tests.contract.case import EVERY, NONE, SOME, Case, S, V, X

FAMILIES: dict[str, dict[str, Case]] = {
    "axes": {
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
        "atleast_3d": Case(
            lambda x: gt.atleast_3d(x, left=False), ((2, 3),), SOME, lambda x: x[:, :, None]
        ),
        "shape_padleft": Case(
            lambda x: gt.shape_padleft(x, 2), (V,), SOME, lambda x: x[None, None]
        ),
        "shape_padright": Case(
            lambda x: gt.shape_padright(x, 2), (V,), SOME, lambda x: x[:, None, None]
        ),
    },
}  # fmt: skip
