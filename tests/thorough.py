"""Which tests ``make test`` runs; ``make test-all`` runs the others, marked ``exhaustive``.

A parametrized test of more than ``FEW`` cases runs as many of them in ``make test`` as give each
value of each parameter once. Markers say otherwise:

- ``@pytest.mark.sample("operation mode", "shape")`` keeps each operation in each mode, and each
  shape. ``@pytest.mark.sample("operation", mode="JAX")`` samples only the cases in this mode.
- ``@pytest.mark.sample(every=10)`` keeps every tenth of them, for many cases of one class.
- ``@pytest.mark.sample(rest=4)`` leaves a fourth of the cases that have no value of their own to
  ``make test-all``, beside all those that have one; ``pytest --whole`` runs all.
- ``@pytest.mark.whole`` keeps all cases.
- ``@pytest.mark.exhaustive`` leaves a test, or one ``pytest.param``, to ``make test-all``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from zlib import crc32

import numpy as np
import pytest

__all__ = ["leave_to_exhaustive"]

FEW = 12
"""A test of so many cases is not sampled, unless it is marked."""


def leave_to_exhaustive(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Mark the cases that no test needs as representatives ``exhaustive``.

    Returns:
        The cases beyond the part that ``make test-all`` runs.
    """
    beyond = set[pytest.Item]()
    tests = defaultdict[str, list[pytest.Function]](list)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        markers = [*cases[0].iter_markers("sample")]
        if not markers and len(cases) > FEW and not cases[0].get_closest_marker("whole"):
            markers = [pytest.mark.sample.mark]
        for marker in markers:
            beyond |= _leave(cases, marker)
    return beyond


def _leave(cases: list[pytest.Function], marker: pytest.Mark) -> set[pytest.Item]:
    """Keep a case only where it has a combination of values that no case before it has."""
    among = dict(marker.kwargs)
    every, rest = among.pop("every", 1), among.pop("rest", 1)
    seen, beyond = {True: set[Hashable](), False: set[Hashable]()}, set[pytest.Item]()
    count = left = 0
    # A shuffled order varies the parameters that are not in a combination.
    for case in sorted(cases, key=lambda x: crc32(x.nodeid.encode())):
        if case.get_closest_marker("optimized"):
            continue
        values = case.callspec.params
        if any(values[name] != value for name, value in among.items()):
            continue
        has = {
            (names, tuple(_identity(values[name]) for name in names.split()))
            for names in marker.args or values
        }
        is_long = case.get_closest_marker("exhaustive") is not None
        is_needed = not has <= seen[is_long]
        if is_long or not is_needed or count % every:
            case.add_marker("exhaustive")
        if not is_needed:
            if left % rest:
                beyond.add(case)
            left += 1
        elif not is_long:
            count += 1
        seen[is_long] |= has
    return beyond


def _identity(value: object) -> Hashable:
    """Tell equal values of simple types apart from others; an object is equal to itself alone."""
    simple = isinstance(value, str | int | float | complex | type | np.dtype | None)
    return (type(value), value) if simple else id(value)
