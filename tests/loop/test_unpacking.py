"""``out, updates = scan(...)``, which would unpack rows or outputs, is refused on its line."""

# ruff: noqa: RUF059 (the unpacking is what is tested)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, SymbolicValueError

x = gt.vector("x")
two = gt.vector("two", shape=(2,))


def one(sequence: Any = x, **options: Any) -> Any:
    return graphc.scan(lambda y: y + 1, sequence, **options)


def pair(sequence: Any = x) -> Any:
    return graphc.scan(lambda y: [y + 1, y - 1], sequence)


def of_one() -> None:
    out, updates = graphc.scan(lambda y: y + 1, x)  # <-


def of_two_rows() -> None:
    out, updates = graphc.scan(lambda y: y + 1, two)  # <-


def discarded() -> None:
    out, _ = graphc.scan(lambda y: y + 1, two)  # <-


def of_two_outputs() -> None:
    outs, updates = graphc.scan(lambda y: [y, y], x)  # <-


def nested() -> None:
    [a, b], updates = graphc.scan(lambda y: [y, y], two)  # <-


def nested_and_discarded() -> None:
    (a, b), _ = graphc.scan(lambda y: [y, y], two)  # <-


def of_map() -> None:
    out, updates = graphc.map(lambda y: y, two)  # <-


def of_reduce() -> None:
    out, updates = graphc.reduce(lambda y, s: s + y, two, gt.zeros(2))  # <-


def of_foldl() -> None:
    out, updates = graphc.foldl(lambda y, s: s + y, two, 0.0)  # <-


def of_foldr() -> None:
    out, updates = graphc.foldr(lambda y, s: s + y, two, 0.0)  # <-


@pytest.mark.parametrize(
    "wrong",
    [of_one, of_two_rows, discarded, of_two_outputs, nested, nested_and_discarded, of_map,
     of_reduce, of_foldl, of_foldr],
)  # fmt: skip
def test_updates_are_not_unpacked_from_outputs(wrong: Callable[[], None]) -> None:
    with pytest.raises(ArgumentError, match="outputs alone") as error:
        wrong()
    assert "return_updates=True" in str(error.value)
    assert f"test_unpacking.py:{wrong.__code__.co_firstlineno + 1}" in str(error.value)


def test_what_a_function_of_the_user_returns_is_not_unpacked_to_rows() -> None:
    with pytest.raises(SymbolicValueError, match="return their outputs alone"):
        out, _ = one()
    with pytest.raises(SymbolicValueError, match="return their outputs alone"):
        out, updates = one(two)
    with pytest.raises(SymbolicValueError, match="return their outputs alone"):
        [_, _], updates = pair(two)
    with pytest.raises(SymbolicValueError, match="Its length is unknown"):
        a, b, c = x


def test_a_second_output_that_is_discarded_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="_ is the second"):
        outs, _ = graphc.scan(lambda y: [y + 1, y - 1], x)
    first, _ = graphc.scan(lambda y: [y + 1, y - 1], x)
    assert outs is first


def test_outputs_and_rows_are_unpacked_to_other_names() -> None:
    up, down = graphc.scan(lambda y: [y + 1, y - 1], x)
    first, *_ = graphc.scan(lambda y: [y + 1, y - 1], x)
    a, b = graphc.scan(lambda y: y + 1, two)
    out, updates = graphc.scan(lambda y: y + 1, x, return_updates=True)
    reset, update_gate = graphc.scan(lambda y: [y + 1, y - 1], x)
    assert (up, down, updates) == (reset, update_gate, {})
    assert first is up
    assert out.type is x.type
    values = graphc.function([two], [a, b], mode="NUMPY")(np.array([1.0, 2.0]))
    assert [float(y) for y in values] == [2.0, 3.0]
