"""Cases of graphc.loop.branch."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from tests.contract.case import NONE, SOME, Case, X


def differ(x: Any) -> Any:
    """Whether two of the elements do, and so which branch is chosen."""
    first, second = x[0, 0, 0], x[1, 0, 0]
    return first != second if isinstance(x, np.ndarray) else gt.not_equal(first, second)


FAMILIES: dict[str, dict[str, Case]] = {
    "switch": {
        "one of two": Case(
            lambda x: graphc.ifelse(differ(x), x * x, x[::-1] + x), (X,), SOME,
            lambda x: x * x if differ(x) else x[::-1] + x,
        ),
        "the other of two": Case(
            lambda x: graphc.ifelse(~differ(x), x * x, x[::-1] + x), (X,), SOME,
            lambda x: x[::-1] + x if differ(x) else x * x,
        ),
        "of three": Case(
            lambda x, y: graphc.switch_case(
                2 - differ(x).astype("int64"), [lambda: y, lambda: y * x[0, 0], lambda: y + y]
            ),
            (X, (4,)), SOME, lambda x, y: y * x[0, 0] if differ(x) else y + y,
        ),
        "beyond the last": Case(
            lambda x: graphc.switch_case(
                7 * differ(x).astype("int8"), [lambda x: x[::-1], lambda x: x + x], x
            ),
            (X,), SOME, lambda x: x + x if differ(x) else x[::-1],
        ),
        "several results": Case(
            lambda x: gt.add(*graphc.ifelse(differ(x), [x * x, x], [x[::-1], x + x])), (X,), SOME,
            lambda x: x * x + x if differ(x) else x[::-1] + (x + x),
        ),
        "one within the other": Case(
            lambda x: graphc.ifelse(
                differ(x), graphc.ifelse(differ(x[:, ::-1]), x * x, x[::-1]), x + x
            ),
            (X,), SOME,
            lambda x: (x * x if differ(x[:, ::-1]) else x[::-1]) if differ(x) else x + x,
        ),
        "by a length": Case(
            lambda x: graphc.ifelse(gt.less(x.shape[1], 3), x + x, x * x), (NONE,), SOME,
            lambda x: x + x,
        ),
        "for each element of a batch": Case(
            lambda x: graphc.vectorize(
                lambda i, x: graphc.switch_case(i, [lambda: x * x, lambda: x[::-1]]), "(),(n)->(n)"
            )(gt.constant([1, 0, 9]), x),
            (X,), SOME,
            lambda x: np.stack([x[:, 0, ::-1], x[:, 1] * x[:, 1], x[:, 2, ::-1]], 1),
        ),
    },
}  # fmt: skip
