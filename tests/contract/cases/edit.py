"""Cases of graphc.tensor.arrays.edit."""

from __future__ import annotations

from tests.contract.case import SOME, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "edit": {
        "append": Case(lambda n, x, y: n.append(x, y, 0), ((2, 3), (1, 3))),
        "delete": Case(lambda n, x: n.delete(x, -2, 1), (X,)),
        "delete several": Case(lambda n, x: n.delete(x, [0, 2], 1), (X,), SOME, static=True),
        "insert": Case(lambda n, x, y: n.insert(x, 1, y, 1), ((2, 3), (2,))),
        "insert several": Case(
            lambda n, x, y: n.insert(x, [2, 0], y, 1), ((2, 3), (2, 1)), SOME, static=True
        ),
    },
}  # fmt: skip
