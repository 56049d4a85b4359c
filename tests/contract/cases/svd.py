"""Cases of graphc.tensor.linalg.svd."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

import graphc.tensor as gt
from graphc.tensor import linalg
from tests.contract.case import EMPTY, Case
from tests.contract.values import plain

FLOATS = ("float32", "float64", "complex128")
TALL, WIDE, SQUARE = (2, 4, 3), (3, 4), (2, 3, 3)


def _part(shape: tuple[int, ...], full: bool, item: int) -> Case:
    """Without the signs, or phases, of the vectors; of none is an element next to zero."""
    return Case(
        lambda x: gt.abs(linalg.svd(x, full)[item]), (shape,), FLOATS,
        lambda x: np.abs(np.linalg.svd(x, full)[item]), values=lambda d: plain(d, shape, 3),
    )  # fmt: skip


def _orthonormal(x: Any) -> Any:
    u, _, vh = linalg.svd(x, full_matrices=False)
    return u @ vh


def _orthonormals(x: Any) -> Any:
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    return u @ vh


FAMILIES: dict[str, dict[str, Case]] = {
    "svd": {
        f"{shape}, {full}, {item}": _part(shape, full, item)
        for shape in (TALL, WIDE)
        for full in (True, False)
        for item in (0, 1, 2)
    } | {
        "of nothing": _part(EMPTY, True, 2),
        "orthonormal factor": Case(_orthonormal, (SQUARE,), FLOATS, _orthonormals),
        "polar, the unitary factor": Case(
            lambda x: linalg.polar(x)[0], ((3, 3),), FLOATS, lambda x: scipy.linalg.polar(x)[0]
        ),
        "polar, the other factor": Case(
            lambda x: linalg.polar(x, "left")[1], (WIDE,), FLOATS,
            lambda x: scipy.linalg.polar(x, "left")[1],
        ),
        "svdvals": Case(
            linalg.svdvals, (TALL,), FLOATS, lambda x: np.linalg.svd(x, compute_uv=False)
        ),
        "svdvals of nothing": Case(
            linalg.svdvals, ((3, 0),), FLOATS, lambda x: np.linalg.svd(x, compute_uv=False)
        ),
    },
}  # fmt: skip
