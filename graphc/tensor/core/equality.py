"""The meaning of ``==`` between symbolic arrays: identity, or elementwise on request.

Dictionaries and ``x in list`` need identity, and PyTensor has it. Users
of NumPy or JAX expect an array, and get False: ``gt.sum(x == 1)`` would be 0. So two comparisons
warn at the user's line: a comparison with a number or an array, which is always False, and a
comparison of two symbolic arrays whose False becomes part of a graph.
"""

from __future__ import annotations

import numbers
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import numpy as np

from graphc.errors import IdentityWarning
from graphc.ir import Node
from graphc.site import compares, frames_up, here, is_own, where


class _Meaning(threading.local):
    """The state of this thread's comparisons.

    Attributes:
        depth: The number of open contexts of elementwise equality.
        compared: The site of the last comparison of two symbolic arrays whose value was kept.
    """

    depth = 0
    compared: tuple[CodeType, int] | None = None


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


def same(x: object, other: object) -> bool:
    """Return whether two objects are one; a user's comparison of them is watched.

    Called by ``__eq__`` and ``__ne__`` of symbolic arrays.
    """
    if x is other:
        return True
    frame = sys._getframe(2)
    if not is_own(frame) and (comparison := compares(frame.f_code, frame.f_lasti)):
        if isinstance(other, numbers.Number | np.ndarray | np.generic):
            _warn(f"A symbolic array is compared with {_short(other)} by {comparison.operator},")
        elif comparison.is_kept and isinstance(other, Node):
            _meaning.compared = (frame.f_code, frame.f_lasti)
    return False


def warn_if_compared(value: bool) -> None:
    """Warn of a Python bool that becomes part of a graph and came from a comparison by identity."""
    site, _meaning.compared = _meaning.compared, None
    user = here() if site else None
    if site is None or user is None or user[0] is not site[0]:
        return
    comparison = compares(*site)
    if comparison and value is (comparison.operator == "!="):
        line = where(site)
        _warn(
            f"Symbolic arrays are compared by {comparison.operator}{f' ({line})' if line else ''},"
        )


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, numbers.Number) else "an array"


def _warn(compared: str) -> None:
    warnings.warn(
        f"{compared} which asks whether they are one object and gives a Python bool.\n"
        "Compare elementwise by gt.eq(a, b) or gt.neq(a, b), of named arrays by "
        "graphc.xtensor.math.eq; ask for identity by `a is b`.",
        IdentityWarning,
        stacklevel=frames_up(),
    )
