"""Cases of graphc.tensor.signal.pad."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, NUMERIC, SOME, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "pad": {
        "pad": Case(lambda n, x: n.pad(x, ((1, 0), (0, 2), (1, 1))), (X,), EVERY),
        "pad with values": Case(
            lambda n, x: n.pad(x, (2, 1), constant_values=((1, 2), (3, 4))), ((2, 3),), NUMERIC
        ),
        "pad with a number": Case(
            lambda x, y: gt.pad(x, ((1, y.shape[0]), (0, 2)), constant_values=y[1]),
            ((2, 3), (3,)), SOME,
            lambda x, y: np.pad(x, ((1, 3), (0, 2)), constant_values=y[1]),
        ),
        "pad with the edge": Case(lambda n, x: n.pad(x, (2, 1), "edge"), ((2, 3),)),
        "pad with ramps": Case(
            lambda n, x: n.pad(x, (2, 1), "linear_ramp", end_values=2), ((2, 3),),
            ("bfloat16", "float32", "float64", "complex128"),
        ),
        "pad with maxima": Case(
            lambda n, x: n.pad(x, (2, 1), "maximum", stat_length=2), ((2, 3),), ("int8", "float64")
        ),
        "pad with means": Case(
            lambda n, x: n.pad(x, (2, 1), "mean"), ((2, 3),), ("float32", "float64", "complex128")
        ),
        "pad by reflection": Case(lambda n, x: n.pad(x, (2, 1), "reflect"), ((4, 3),)),
        "pad by wide reflection": Case(lambda n, x: n.pad(x, (9, 4), "reflect"), ((4, 3),)),
        "pad by odd reflection": Case(
            lambda n, x: n.pad(x, (9, 4), "symmetric", reflect_type="odd"), ((2, 3),),
            ("float64", "complex128"),
        ),
        "pad by odd reflection of known lengths": Case(
            lambda n, x: n.pad(x, (1, 2), "symmetric", reflect_type="odd"), ((2, 3),),
            ("float64", "complex128"), static=True,
        ),
        "pad by wrapping": Case(lambda n, x: n.pad(x, (5, 1), "wrap"), ((2, 3),)),
        "pad by lengths": Case(
            lambda x, y: gt.pad(x, ((y.shape[0], 0), (1, y.shape[0])), "wrap"), ((2, 3), (2,)),
            SOME, lambda x, y: np.pad(x, ((2, 0), (1, 2)), "wrap"),
        ),
    },
}  # fmt: skip
