"""Slices of slices are one slice, whatever the length of the axis is."""

from __future__ import annotations

from itertools import product

import pytest

from graphc.rewrite.facts.slices import are_disjoint, canonical, compose_slices, element
from graphc.tensor.arrays.index import Range

BOUNDS = (None, 0, 1, 3, -1, -2)
STEPS = (None, 2, -1, -2)
RANGES = [Range(*parts) for parts in product(BOUNDS, BOUNDS, STEPS)]
LENGTHS = range(6)


def taken(entry: Range, n: int) -> list[int]:
    return list(range(n))[slice(*entry.parts)]  # type: ignore[misc]


@pytest.mark.parametrize("known", [True, False])
def test_a_slice_of_a_slice_takes_what_both_take(known: bool) -> None:
    found = 0
    for first, second in product(RANGES, RANGES):
        for n in LENGTHS:
            both = compose_slices(first, second, n if known else None)
            if both is not None:
                found += 1
                wanted = taken(first, n)[slice(*second.parts)]  # type: ignore[misc]
                assert taken(both, n) == wanted, (first, second, both, n)
    assert found > (len(RANGES) ** 2 * len(LENGTHS) if known else 10_000) - 1


@pytest.mark.parametrize("known", [True, False])
def test_an_element_of_a_slice_is_the_array_s_and_out_of_bounds_as_often(known: bool) -> None:
    found = 0
    for first, i, n in product(RANGES, range(-4, 5), LENGTHS):
        place = element(first, i, n if known else None)
        part = taken(first, n)
        inside = -len(part) <= i < len(part)
        if place is not None:
            found += 1
            assert inside == (-n <= place < n), (first, i, place, n)
            assert not inside or range(n)[place] == part[i]
        elif known:
            assert not inside
    assert found > 400


@pytest.mark.parametrize("known", [True, False])
def test_a_canonical_slice_takes_the_same(known: bool) -> None:
    for entry, n in product(RANGES, LENGTHS):
        made = canonical(entry, n if known else None)
        assert taken(made, n) == taken(entry, n), (entry, made, n)


def test_slices_of_the_same_places_are_one() -> None:
    for n in LENGTHS:
        forms = {tuple(taken(e, n)): canonical(e, n) for e in RANGES}
        assert {canonical(e, n) for e in RANGES} == set(forms.values())


@pytest.mark.parametrize("known", [True, False])
def test_disjoint_parts_have_no_place_in_common(known: bool) -> None:
    found = 0
    for a, b, n in product([*RANGES, *range(-2, 3)], [*RANGES, *range(-2, 3)], LENGTHS):
        if are_disjoint(a, b, n if known else None):
            found += 1
            places = [
                set(taken(e, n) if isinstance(e, Range) else list(range(n))[e : e + 1 or None])
                for e in (a, b)
            ]
            assert not places[0] & places[1], (a, b, n)
    assert found > 1000
