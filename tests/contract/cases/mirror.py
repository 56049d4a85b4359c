"""Cases of graphc.tensor.linalg.mirror."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.tensor.linalg.mirror import symmetrise
from tests.contract.case import Case


def _mirrored(x: Any, lower: bool, conjugated: bool) -> Any:
    half = np.tril(x, -1) if lower else np.triu(x, 1)
    diagonal = np.zeros_like(x)
    n = np.arange(x.shape[-1])
    diagonal[..., n, n] = x[..., n, n].real if conjugated else x[..., n, n]
    other = np.swapaxes(half, -1, -2)
    return half + diagonal + (np.conj(other) if conjugated else other)


FAMILIES: dict[str, dict[str, Case]] = {
    "mirror": {
        f"mirrored, lower={lower}, conjugated={conjugated}": Case(
            lambda x, lower=lower, conjugated=conjugated: symmetrise(
                gt.as_tensor(x), lower, conjugated
            ),
            ((2, 3, 3),), ("float32", "float64", "complex64", "complex128"),
            lambda x, lower=lower, conjugated=conjugated: _mirrored(x, lower, conjugated),
        )
        for lower in (True, False)
        for conjugated in (True, False)
    },
}  # fmt: skip
