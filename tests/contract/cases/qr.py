"""Cases of graphc.tensor.linalg.qr."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from graphc.tensor import linalg
from graphc.tensor.linalg.mirror import adjoint
from tests.contract.case import EMPTY, Case

FLOATS = ("float32", "float64", "complex128")
UNDERIVED = ("float32", "complex64")
TALL, WIDE, SQUARE = (2, 4, 3), (3, 4), (2, 3, 3)
NUMPYS = {"full": "complete", "economic": "reduced", "r": "complete"}


def _factor(shape: tuple[int, ...], mode: str, item: int) -> Case:
    def ours(x: Any) -> Any:
        made = linalg.qr(x, mode)
        return made if mode == "r" else made[item]

    return Case(ours, (shape,), FLOATS, lambda x: np.linalg.qr(x, NUMPYS[mode])[item])


def _projector(x: Any) -> Any:
    q = linalg.qr(x)[0][..., 3:]
    return q @ adjoint(q)


def _projected(x: Any) -> Any:
    q = np.linalg.qr(x, "complete")[0][..., 3:]
    return q @ np.conj(np.swapaxes(q, -1, -2))


def _pivoted(item: int, mode: str = "economic", dtypes: tuple[str, ...] = FLOATS) -> Case:
    def theirs(x: Any) -> Any:
        return scipy.linalg.qr(x, mode=mode, pivoting=True)[item]

    return Case(lambda x: linalg.qr(x, mode, pivoting=True)[item], ((4, 3),), dtypes, theirs)


FAMILIES: dict[str, dict[str, Case]] = {
    "qr": {
        f"{mode}, {shape}, {item}": _factor(shape, mode, item)
        for mode, shape, item in (
            ("economic", TALL, 0), ("economic", TALL, 1), ("economic", WIDE, 0),
            ("economic", WIDE, 1), ("full", WIDE, 1), ("full", TALL, 1), ("full", SQUARE, 0),
            ("r", TALL, 1), ("r", WIDE, 1), ("full", EMPTY, 1), ("economic", (3, 0), 0),
        )
    } | {
        "the span of a full q": Case(_projector, (TALL,), FLOATS, _projected),
        "pivoted q": _pivoted(0),
        "pivoted r": _pivoted(1),
        "pivots": _pivoted(2),
        "pivoted, full": _pivoted(1, "full"),
        "of complex matrices": Case(
            lambda x: linalg.qr(x)[1], ((3, 3),), ("complex128", "complex64"),
            lambda x: np.linalg.qr(x)[1],
        ),
        "raw": Case(
            lambda x: linalg.qr(x, "raw")[0], ((4, 3),), UNDERIVED,
            lambda x: scipy.linalg.qr(x, mode="raw")[0][0],
        ),
        "raw scales": Case(
            lambda x: linalg.qr(x, "raw", pivoting=True)[1], ((4, 3),), UNDERIVED,
            lambda x: scipy.linalg.qr(x, mode="raw", pivoting=True)[0][1],
        ),
    },
}  # fmt: skip
