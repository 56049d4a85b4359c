"""Cases of graphc.tensor.core.sharding."""

from __future__ import annotations

import graphc.tensor as gt
from tests.contract.case import SOME, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "sharding": {
        "shard": Case(
            lambda x: gt.shard(x, ("data", None)) * 2, (X,), SOME, lambda x: x * 2,
        ),
    },
}  # fmt: skip
