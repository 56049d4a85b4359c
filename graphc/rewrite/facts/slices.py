"""Slices of slices as one slice, on an axis whose length may be unknown."""

from __future__ import annotations

import math

from graphc.tensor.arrays.index import HOLE, Range

Bound = int | None
Parts = tuple[Bound, Bound, int]
"""Start, stop and step."""


def canonical(entry: Range, n: int | None) -> Range:
    """Return the one form of a slice; holes stay."""
    if HOLE in entry.parts:
        start, stop, step = entry.parts
        step = None if step == 1 else step
        return Range(None if start == 0 and step is None else start, stop, step)
    if n is not None:
        return _slice_of_positions(range(n)[_slice(entry)], n)
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
    if stop is None:
        return False
    first = (0 if step > 0 else -1) if start is None else start
    if (first < 0) != (stop < 0):
        return False
    return first >= stop if step > 0 else first <= stop


def _slice_of_positions(positions: range, n: int) -> Range:
    if not positions:
        return Range(0, 0) if n else Range()
    first, last, step = positions[0], positions[-1], positions.step
    if len(positions) == 1:
        step = 1
    end = last + (1 if step > 0 else -1)
    return Range(
        None if first == (0 if step > 0 else n - 1) else first,
        None if not 0 <= end < n else end,
        None if step == 1 else step,
    )


def element(entry: Range, i: int, n: int | None) -> int | None:
    """Return the position of an element of a slice, out of bounds if the element is.

    None if it depends on the length, or the element is out of bounds for every length.
    """
    if n is not None:
        positions = range(n)[_slice(entry)]
        return positions[i] if -len(positions) <= i < len(positions) else None
    start, stop, step = _parts(entry)
    if (start, stop, step) == (None, None, -1):
        return -1 - i
    if step > 0 and i >= 0 and _is_not_negative(start):
        position = (start or 0) + i * step
        return position if stop is None or position < stop else None
    if step != 1 or i >= 0:
        return None
    if start is None and (stop is None or stop < 0):
        return i + (stop or 0)
    return i if stop is None and start is not None and start <= i else None


def compose_slices(first: Range, second: Range, n: int | None) -> Range | None:
    """Return the slice of a slice, None if it depends on the length."""
    if n is not None:
        return _slice_of_positions(range(n)[_slice(first)][_slice(second)], n)
    bounds = _compose(_parts(first), _parts(second))
    return None if bounds is None else canonical(Range(*bounds), None)


def _compose(first: Parts, second: Parts) -> Parts | None:
    start, stop, step = first
    if second == (None, None, 1):
        return first
    if second[2] < 0:
        # Reading backwards is reversing, then reading forwards.
        reverse = _reverse(first)
        return None if reverse is None else _compose(reverse, _mirror(second))
    if step < 0:
        return _mirror(second) if first == (None, None, -1) else None
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
    """Return a slice of the elements from a negative ``start`` on, or from the first."""
    c, d, by = second
    if start is None:
        return second
    if start >= 0 or (d is not None and d >= 0):
        return None
    if c is None:
        return start, d, by
    return (max(start, c), d, by) if c < 0 else None


def _reverse(bounds: Parts) -> Parts | None:
    start, stop, step = bounds
    if (start, stop, step) == (None, None, -1):
        return None, None, 1
    if step != 1 or stop == 0:
        return None
    return None if stop is None else stop - 1, None if not start else start - 1, -1


def _mirror(bounds: Parts) -> Parts:
    """Return the mirror image of a slice: ``x[::-1][mirrored]`` is ``x[slice]``."""
    start, stop, step = bounds
    return None if start is None else -1 - start, None if stop is None else -1 - stop, -step


def _is_not_negative(bound: Bound) -> bool:
    return bound is None or bound >= 0


MAX_COMPARED_LENGTH = 1000
"""Longest axis whose positions are compared one by one."""


def are_disjoint(a: int | Range, b: int | Range, n: int | None) -> bool:
    """Return whether two indices of an axis have no element in common, whatever its length."""
    if _has_holes(a) or _has_holes(b):
        return False
    if n is not None and n <= MAX_COMPARED_LENGTH:
        return set(_positions(a, n)).isdisjoint(_positions(b, n))
    if isinstance(a, int) and isinstance(b, int):
        return a != b and (a < 0) == (b < 0)
    spans = zip(_spans(a), _spans(b), strict=True)
    return any(p and q and (p[1] <= q[0] or q[1] <= p[0]) for p, q in spans)


def _has_holes(entry: int | Range) -> bool:
    return isinstance(entry, Range) and HOLE in entry.parts


def _positions(entry: int | Range, n: int) -> range:
    return range(n)[_slice(entry)] if isinstance(entry, Range) else range(n)[entry : entry + 1 or n]


Span = tuple[float, float] | None


def _spans(entry: int | Range) -> tuple[Span, Span]:
    """Return first and last position of an index, from the start and from the end, or None."""
    start, stop, step = _parts(entry) if isinstance(entry, Range) else (entry, entry + 1 or None, 1)
    if step < 0:
        return None, None
    from_start = (start or 0, math.inf if stop is None else stop)
    from_end = (-math.inf if start is None else start, stop or 0)
    return (
        from_start if _is_not_negative(start) and _is_not_negative(stop) else None,
        from_end if from_end[0] < 0 and (stop is None or stop < 0) else None,
    )
