"""Expressions of lengths compute as integers do, and equal ones are one object."""

from __future__ import annotations

import operator
from random import Random
from typing import Any

import pytest

from graphc.ir.lengths import (
    SymbolicLength,
    agree,
    common,
    comparisons,
    evaluate,
    greatest,
    is_symbol,
    least,
    product,
    total,
)

AXES = [SymbolicLength.of("axis", 0, axis) for axis in range(3)]
NUMBERS = {("axis", 0, 0): 7, ("axis", 0, 1): 4, ("axis", 0, 2): 11}
n, m, _ = AXES


def number(length: Any) -> int:
    """Return an expression's value for the lengths in NUMBERS."""
    if isinstance(length, int):
        return length
    return length.constant + sum(k * number_of_atom(atom) for atom, k in length.terms)


def number_of_atom(atom: tuple[Any, ...]) -> int:
    if is_symbol(atom):
        return NUMBERS[atom]
    name, *arguments = atom
    functions: dict[str, Any] = {
        "min": min, "max": max, "*": operator.mul, "//": operator.floordiv,
    }  # fmt: skip
    return functions[name](*map(number, arguments))  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(200))
def test_expressions_have_the_values_that_integers_have(seed: int) -> None:
    random = Random(seed)
    pairs: list[tuple[Any, int]] = [(x, number(x)) for x in AXES] + [(k, k) for k in (0, 1, 3)]
    operations: list[tuple[Any, Any]] = [
        (operator.add, operator.add),
        (operator.sub, operator.sub),
        (operator.mul, operator.mul),
        (least, min),
        (greatest, max),
        (total, lambda a, b: a + b),
        (product, operator.mul),
    ]
    for _ in range(12):
        symbolic, of_numbers = random.choice(operations)
        (a, i), (b, j) = random.choices(pairs, k=2)
        if symbolic is least and min(i, j) < 0:
            continue  # a length is at least 0
        pairs.append((symbolic(a, b), of_numbers(i, j)))
        pairs.append((a // 3, i // 3))
    for length, value in pairs:
        assert number(length) == value, length


def test_equal_expressions_are_one_object() -> None:
    assert n + m - 1 is m - 1 + n
    assert 2 * n is n + n
    assert n * m is m * n
    assert n - n == 0
    assert (n + 3) // 2 is (3 + n) // 2


def test_expressions_are_written_as_formulas() -> None:
    assert repr(2 * n - m + 1) == "2*#0.0 - #0.1 + 1"
    assert repr(SymbolicLength.of("value", 2) // 2) == "#2 // 2"
    assert repr((n + 1) * m // -2 - n) == "((#0.0 + 1)*#0.1) // (-2) - #0.0"
    assert repr(-n) == "- #0.0"


def test_lengths_agree_unless_their_difference_is_another_number_than_0() -> None:
    assert agree(3, None, 3)
    assert agree(n, m, 3)
    assert not agree(3, n, 4)
    assert not agree(n, 3, 4)
    assert not agree(n, n + 1)


def test_only_lengths_that_may_differ_are_compared_at_run_time() -> None:
    with comparisons() as record:
        assert agree(n, 5, m, n, None)
        assert agree(4, 4)
        assert agree(n + 1, 1 + n)
    assert record.pairs == [(n, 5), (n, m)]


def test_the_common_length_is_a_number_if_one_is_known() -> None:
    assert common(None, n, 5, m) == 5
    assert common(None, m, n) is m
    assert common(None, None) is None


def test_an_expression_of_an_unknown_value_is_unknown() -> None:
    for expression in (n, n * n, least(n, 2 * n), (n + 3) // m):
        assert evaluate(expression, lambda symbol: None, {"min": min}) is None
    nested: Any = n
    for _ in range(12):
        nested = least(nested + m, nested - m)
    assert evaluate(nested, lambda symbol: 2 if symbol == n.symbol else 0, {"min": min}) == 2


def test_the_text_of_deeply_nested_expressions_is_short() -> None:
    nested: Any = n
    for _ in range(500):
        nested = greatest(nested - m, 0) + greatest(nested - 1, 0)
    # The order of atoms follows from labels; written in full, the text doubles at each step.
    assert nested + m is m + nested
    assert nested * m is m * nested
    assert len(repr(nested)) < 1000
    again: Any = n
    for _ in range(500):
        again = greatest(again - 1, 0) + greatest(again - m, 0)
    assert again is nested
