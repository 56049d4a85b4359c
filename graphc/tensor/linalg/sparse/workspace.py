"""Memory that is used again: a system takes longer to give new pages than factors to fill them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MOST = 4
"""The number of arrays to keep."""

ELEMENTS = 2**25
"""The number of elements, 8 bytes each, of all that are kept."""

_LOCK = Lock()
_FREE: list[Array] = []


def borrow(size: int) -> Array:
    """An array of at least so many elements, float64, of any values."""
    with _LOCK:
        fitting = [i for i, x in enumerate(_FREE) if size <= len(x) <= 2 * size]
        if fitting:
            return _FREE.pop(min(fitting, key=lambda i: len(_FREE[i])))
    return np.empty(size)


def give_back(x: Array) -> None:
    """Keep an array that ``borrow`` gave, and which nothing reads any more."""
    with _LOCK:
        _FREE.insert(0, x)
        while len(_FREE) > MOST or sum(map(len, _FREE)) > ELEMENTS:
            _FREE.pop()


@contextmanager
def borrowed(size: int) -> Iterator[Array]:
    """An array of so many elements, while it is needed."""
    x = borrow(size)
    try:
        yield x[:size]
    finally:
        give_back(x)
