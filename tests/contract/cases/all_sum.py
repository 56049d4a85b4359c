"""Cases of graphc.tensor.core.all_sum, in a process that is alone."""

from __future__ import annotations

import graphc.tensor as gt
from tests.contract.case import FLOATING, NUMERIC, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "all_sum": {
        "all_sum": Case(lambda x: gt.all_sum(x) * 2, (X,), NUMERIC, lambda x: x * 2),
        "all_mean": Case(lambda x: gt.all_mean(x) * 2, (X,), FLOATING, lambda x: x * 2),
    },
}  # fmt: skip
