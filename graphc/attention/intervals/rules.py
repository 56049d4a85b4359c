"""The interval of an elementwise function of intervals whose ends are arrays."""

from __future__ import annotations

import numpy as np

from graphc.attention.intervals.interval import Interval, arithmetic_of, dtype_of
from graphc.intervals.rules import image
from graphc.ir import is_complex


def applied(name: str, *operands: Interval) -> Interval | None:
    """The interval of an elementwise function of intervals of one dtype; None without a rule.

    Args:
        name: The row's name.
        operands: Each of arrays that have a dtype and broadcast.

    Example:
        >>> from graphc.attention.intervals.interval import point
        >>> q = Interval(np.array([0, 128]), np.array([127, 255]))
        >>> certain, possible = applied("less", q, point(np.array(128)))
        >>> certain, possible
        (array([ True, False]), array([ True, False]))
    """
    if any(is_complex(dtype_of(x.low)) for x in operands):
        return None
    with np.errstate(all="ignore"):
        return image(arithmetic_of(*operands), name, *operands)
