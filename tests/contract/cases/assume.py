"""Cases of graphc.tensor.linalg.assume."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from tests.contract.case import SOME, Case, X


def lower(n: Any, x: Any) -> Any:
    return n.assume(n.tril(x), lower_triangular=True) if n is gt else np.tril(x)


FAMILIES: dict[str, dict[str, Case]] = {
    "assume": {
        "assume": Case(lambda n, x: lower(n, x) * 2, (X,), SOME),
        "assume of square matrices": Case(
            lambda x: gt.assume(x + gt.matrix_transpose(x), symmetric=True, diagonal=False),
            ((2, 3, 3),), ("int8", "float32", "float64"),
            lambda x: x + np.swapaxes(x, -1, -2),
        ),
    },
}  # fmt: skip
