"""The meaning of ``==`` between symbolic arrays: identity, or elementwise on request."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from graphc.site import is_own


class _Meaning(threading.local):
    depth = 0


_meaning = _Meaning()


@contextmanager
def elementwise_equality() -> Iterator[None]:
    """Make ``a == b`` and ``a != b`` elementwise in a user's code, as in NumPy.

    Functions of single elements, such as masks of attention, are written with these operators.
    graphc's own code still compares nodes by identity.
    """
    _meaning.depth += 1
    try:
        yield
    finally:
        _meaning.depth -= 1


def is_elementwise() -> bool:
    """Return whether the code two frames up compares elementwise."""
    return _meaning.depth > 0 and not is_own(sys._getframe(2))
