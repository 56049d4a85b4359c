"""Slices of constants as one slice, of an axis whose length may be unknown."""

from __future__ import annotations

import math

from graphc.tensor.arrays.index import HOLE, Range

Bound = int | None
Parts = tuple[Bound, Bound, int]
"""Start, stop and step."""


def canonical(entry: Range, n: int | None) -> Range:
    """The one way to write a slice; holes stay as they are."""
    if HOLE in entry.parts:
        start, stop, step = entry.parts
        step = None if step == 1 else step
        return Range(None if start == 0 and step is None else start, stop, step)
    if n is not None:
        return _taking(range(n)[_slice(entry)], n)
    start, stop, step = _parts(entry)
    if step > 0 and start == 0:
        start = None
    if step < 0 and start == -1:
        start = None
    if _is_empty(start, stop, step):
        start, stop, step = 0, 0, 1
    return Range(start, stop, None if step == 1 else step)


def _slice(entry: Range) -> slice:
    return slice(*_parts(entry))


def _parts(entry: Range) -> Parts:
    start, stop, step = entry.parts
    assert HOLE not in entry.parts
    return start, stop, 1 if step is None else step  # type: ignore[return-value]


def _is_empty(start: Bound, stop: Bound, step: int) -> bool:
    """Whether it is known to take nothing."""
    if stop is None:
        return False
    first = (0 if step > 0 else -1) if start is None else start
    if (first < 0) != (stop < 0):
        return False
    return first >= stop if step > 0 else first <= stop


def _taking(places: range, n: int) -> Range:
    """The slice of an axis of length n that takes these places."""
    if not places:
        return Range(0, 0) if n else Range()
    first, last, step = places[0], places[-1], places.step
    if len(places) == 1:
        step = 1
    end = last + (1 if step > 0 else -1)
    return Range(
        None if first == (0 if step > 0 else n - 1) else first,
        None if not 0 <= end < n else end,
        None if step == 1 else step,
    )


def element(entry: Range, i: int, n: int | None) -> int | None:
    """The place of an element of a slice, which is out of bounds where the element is.

    None where it depends on the length, or is out of bounds whatever that is.
    """
    if n is not None:
        places = range(n)[_slice(entry)]
        return places[i] if -len(places) <= i < len(places) else None
    start, stop, step = _parts(entry)
    if (start, stop, step) == (None, None, -1):
        return -1 - i
    if step > 0 and i >= 0 and _is_not_negative(start):
        place = (start or 0) + i * step
        return place if stop is None or place < stop else None
    if step != 1 or i >= 0:
        return None
    if start is None and (stop is None or stop < 0):
        return i + (stop or 0)
    return i if stop is None and start is not None and start <= i else None


def composed(first: Range, second: Range, n: int | None) -> Range | None:
    """A slice of a slice, None where it depends on the length."""
    if n is not None:
        return _taking(range(n)[_slice(first)][_slice(second)], n)
    found = _composed(_parts(first), _parts(second))
    return None if found is None else canonical(Range(*found), None)


def _composed(first: Parts, second: Parts) -> Parts | None:
    start, stop, step = first
    if second == (None, None, 1):
        return first
    if second[2] < 0:
        # To read backwards is to reverse, then to read forwards.
        back = _reversed(first)
        return None if back is None else _composed(back, _seen_from_the_end(second))
    if step < 0:
        return _seen_from_the_end(second) if first == (None, None, -1) else None
    if _is_not_negative(start) and _is_not_negative(second[0]):
        return _from_the_start(first, second)
    return _from_the_end(start, second) if step == 1 and stop is None else None


def _from_the_start(first: Parts, second: Parts) -> Parts | None:
    start, stop, step = first
    c, d, by = second
    begin = (start or 0) + (c or 0) * step
    if _is_not_negative(stop) and _is_not_negative(d):
        ends = [stop, None if d is None else (start or 0) + d * step]
        return begin, min([n for n in ends if n is not None], default=None), step * by
    if d is None or (step == 1 and d < 0 and (stop is None or stop < 0)):
        return begin, (stop or 0) + (d or 0), step * by
    return None


def _from_the_end(start: Bound, second: Parts) -> Parts | None:
    """A slice of the elements from ``start`` on, which is negative or none."""
    c, d, by = second
    if start is None:
        return second
    if start >= 0 or (d is not None and d >= 0):
        return None
    if c is None:
        return start, d, by
    return (max(start, c), d, by) if c < 0 else None


def _reversed(parts: Parts) -> Parts | None:
    """The same elements from the last to the first."""
    start, stop, step = parts
    if (start, stop, step) == (None, None, -1):
        return None, None, 1
    if step != 1 or stop == 0:
        return None
    return None if stop is None else stop - 1, None if not start else start - 1, -1


def _seen_from_the_end(parts: Parts) -> Parts:
    """The slice that takes of a reversed array what this one takes of the array, reversed."""
    start, stop, step = parts
    return None if start is None else -1 - start, None if stop is None else -1 - stop, -step


def _is_not_negative(bound: Bound) -> bool:
    return bound is None or bound >= 0


MOST_PLACES = 1000
"""How long an axis may be for its places to be compared one by one."""


def are_disjoint(a: int | Range, b: int | Range, n: int | None) -> bool:
    """Whether two parts of an axis have no element in common, whatever its length."""
    if _has_holes(a) or _has_holes(b):
        return False
    if n is not None and n <= MOST_PLACES:
        return set(_places(a, n)).isdisjoint(_places(b, n))
    if isinstance(a, int) and isinstance(b, int):
        return a != b and (a < 0) == (b < 0)
    spans = zip(_spans(a), _spans(b), strict=True)
    return any(p and q and (p[1] <= q[0] or q[1] <= p[0]) for p, q in spans)


def _has_holes(entry: int | Range) -> bool:
    return isinstance(entry, Range) and HOLE in entry.parts


def _places(entry: int | Range, n: int) -> range:
    return range(n)[_slice(entry)] if isinstance(entry, Range) else range(n)[entry : entry + 1 or n]


Span = tuple[float, float] | None


def _spans(entry: int | Range) -> tuple[Span, Span]:
    """Where it begins and ends, counted from the start and counted from the end."""
    start, stop, step = _parts(entry) if isinstance(entry, Range) else (entry, entry + 1 or None, 1)
    if step < 0:
        return None, None
    from_start = (start or 0, math.inf if stop is None else stop)
    from_end = (-math.inf if start is None else start, stop or 0)
    return (
        from_start if _is_not_negative(start) and _is_not_negative(stop) else None,
        from_end if from_end[0] < 0 and (stop is None or stop < 0) else None,
    )
