"""Cases of graphc.tensor.core.print."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
from tests.contract.case import EMPTY, EVERY, Case, X


def unseen(op: graphc.Print, value: np.ndarray[Any, Any]) -> None:
    """Prints nothing."""
    assert isinstance(value, np.ndarray), op


silent = graphc.Print(global_fn=unseen)

FAMILIES: dict[str, dict[str, Case]] = {
    "print": {
        "Print": Case(lambda x: silent(x) * 1, (X,), EVERY, lambda x: x * 1),
        "of nothing": Case(silent, (EMPTY,), EVERY, lambda x: x),
    },
}
