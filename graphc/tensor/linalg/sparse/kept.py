"""Analyses and factors of the matrices that were used last, so that each is made once.

A value, its gradient and solutions are separate operations, which meet here: a factor has more
elements than the matrix, and never leaves the host.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.analysis import Analysis
from graphc.tensor.linalg.sparse.compiled import CompiledFactor
from graphc.tensor.linalg.sparse.general import GeneralFactor
from graphc.tensor.linalg.sparse.numeric import Factor
from graphc.tensor.linalg.sparse.traversal import kernels

Array = np.ndarray[Any, Any]

PATTERNS = 8
"""The number of patterns to keep."""

ELEMENTS = 2**25
"""The number of elements, 8 bytes each, of all factors of a pattern that are kept."""

LARGE = 2**20
"""Factors of so many elements are computed by compiled passes: compiling takes seconds, once."""

SOME = 4
"""The number of factors of a general pattern that are kept."""


class Recent:
    """What was made of the keys that were used last, found by equality of their arrays.

    Args:
        most: The number of keys to keep.
        copies: Whether a key's arrays are copied; else nobody may write to them later.
    """

    def __init__(self, most: int, copies: bool = True) -> None:
        self.most, self.copies = most, copies
        self.entries = list[tuple[tuple[Any, ...], Any]]()

    def get(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What was made for a key, now or before."""
        for i, (known, value) in enumerate(self.entries):
            if all(map(_equal, known, key)):
                self.entries.insert(0, self.entries.pop(i))
                return value
        value = make()
        if self.copies:
            key = tuple([np.array(x) if isinstance(x, np.ndarray) else x for x in key])
        self.entries.insert(0, (key, value))
        del self.entries[self.most :]
        return value


def _equal(a: Any, b: Any) -> bool:
    return a is b or (np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)


_LOCK = RLock()
_PATTERNS = Recent(PATTERNS)


def positive_factor(rows: Array, columns: Array, n: int, lower: bool, data: Array) -> Any:
    """The factor of a matrix of which a triangle is read; None if not positive definite.

    Nobody may write to the values later.
    """
    with _LOCK:
        analysis, factors = _PATTERNS.get(
            (rows, columns, n, lower), lambda: _analysed(rows, columns, n, lower)
        )
        return factors.get((data,), lambda: _factorised(analysis, data))


def _factorised(analysis: Analysis, data: Array) -> Factor | CompiledFactor | None:
    large = analysis.size >= LARGE
    kind: Any = CompiledFactor if large and kernels() is not None else Factor
    return kind.of(analysis, data)  # type: ignore[no-any-return]


def _analysed(rows: Array, columns: Array, n: int, lower: bool) -> tuple[Analysis, Recent]:
    analysis = Analysis.of(rows, columns, n, lower)
    return analysis, Recent(max(1, min(64, ELEMENTS // max(analysis.size, 1))), False)


def general_factor(rows: Array, columns: Array, n: int, data: Array) -> GeneralFactor:
    """The factor of a matrix of any kind; nobody may write to the values later."""

    def positive(rows: Array, columns: Array, data: Array) -> Any:
        return positive_factor(rows, columns, n, True, data)

    def make() -> GeneralFactor:
        return GeneralFactor(rows, columns, n, data, positive)

    with _LOCK:
        factors = _PATTERNS.get((rows, columns, n, None), lambda: Recent(SOME, False))
        made: GeneralFactor = factors.get((data,), make)
        return made
