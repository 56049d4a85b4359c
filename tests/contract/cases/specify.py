"""Cases of graphc.tensor.core.specify."""

from __future__ import annotations

import graphc.tensor as gt
from tests.contract.case import SOME, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "specify": {
        "specify_shape": Case(
            lambda x, y: gt.specify_shape(x, (2, None, y.shape[0] + 1)) * 2, (X, (3,)), SOME,
            lambda x, y: x * 2,
        ),
    },
}  # fmt: skip
