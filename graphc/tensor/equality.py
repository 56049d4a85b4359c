"""What ``==`` means between symbolic arrays: identity, and elementwise where a user says it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from graphc.ir import is_own

__all__ = ["elementwise_equality", "is_elementwise"]


class _Meaning(threading.local):
    depth = 0


_meaning = _Meaning()


@contextmanager
def elementwise_equality() -> Iterator[None]:
    """Within this, ``a == b`` and ``a != b`` in a user's code are elementwise, as in NumPy.

    Functions that say of single elements what is done with them are written with these operators.
    graphc's own code goes on to compare nodes by identity.
    """
    _meaning.depth += 1
    try:
        yield
    finally:
        _meaning.depth -= 1


def is_elementwise() -> bool:
    """Whether the code that asked the caller compares elements; it is two frames up."""
    return _meaning.depth > 0 and not is_own(sys._getframe(2))
