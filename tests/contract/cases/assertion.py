"""Cases of graphc.tensor.core.assertion."""

from __future__ import annotations

import graphc
import graphc.tensor as gt
from tests.contract.case import EMPTY, EVERY, FLOATING, Case, V, X

checked = graphc.Assert("holds")

FAMILIES: dict[str, dict[str, Case]] = {
    "assertion": {
        "Assert": Case(lambda x: checked(x, x.size > 0), (X,), EVERY, lambda x: x),
        "several conditions": Case(
            lambda x, y: checked(x * 2, gt.isfinite(y), gt.eq(x.size, 24)), (X, V), ("float64",),
            lambda x, y: x * 2,
        ),
        "of nothing": Case(lambda x: checked(x, x * 0 > 0), (EMPTY,), FLOATING, lambda x: x),
    },
}  # fmt: skip
