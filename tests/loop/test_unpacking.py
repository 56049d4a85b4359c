"""``out, updates = scan(...)`` is given both, though outputs are returned alone elsewhere."""

# ruff: noqa: RUF059 (the unpacking is what is tested)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import SymbolicValueError

x = gt.vector("x")
two = gt.vector("two", shape=(2,))
named = gx.xtensor("named", dims=("step",), shape=(2,))


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


def of_three() -> None:
    outs, rest = graphc.scan(lambda y: [y, y, y], two)  # <-


def under_another_name() -> None:
    out, changes = graphc.scan(lambda y: y + 1, x)  # <-


def of_named_dimensions() -> None:
    out, changes = graphc.scan(lambda y: y + 1, named)  # <-


def of_a_value() -> None:
    total, changes = graphc.reduce(lambda y, s: s + y, x, 0.0)  # <-


def of_map() -> None:
    out, updates = graphc.map(lambda y: y, two)  # <-


def of_reduce() -> None:
    out, updates = graphc.reduce(lambda y, s: s + y, two, gt.zeros(2))  # <-


def of_foldl() -> None:
    out, updates = graphc.foldl(lambda y, s: s + y, two, 0.0)  # <-


def of_foldr() -> None:
    out, updates = graphc.foldr(lambda y, s: s + y, two, 0.0)  # <-


@pytest.mark.parametrize(
    "written",
    [of_one, of_two_rows, discarded, of_two_outputs, nested, nested_and_discarded, of_three,
     under_another_name, of_named_dimensions, of_a_value, of_map, of_reduce, of_foldl, of_foldr],
)  # fmt: skip
def test_a_line_that_unpacks_outputs_and_updates_gets_both(written: Callable[[], None]) -> None:
    with pytest.warns(DeprecationWarning, match="outputs and updates, as it unpacks") as found:
        written()
    assert "return_updates=True gives a pair" in str(found[0].message)
    assert found[0].filename == __file__
    assert found[0].lineno == written.__code__.co_firstlineno + 1


def test_what_a_function_of_the_user_returns_is_unpacked_where_it_is_called() -> None:
    with pytest.warns(DeprecationWarning, match="outputs and updates"):
        out, _ = one()
    with pytest.warns(DeprecationWarning, match="outputs and updates"):
        out, updates = one(two)
    assert (out.type, updates) == (two.type, {})
    with pytest.warns(DeprecationWarning, match="outputs and updates"):
        [up, down], updates = pair(two)
    assert [up, down, updates] == [*pair(two), {}]
    with pytest.raises(SymbolicValueError, match="Its length is unknown"):
        a, b, c = x


def test_updates_of_shared_variables_are_those_that_the_line_unpacks() -> None:
    count = graphc.shared(1)
    with pytest.warns(DeprecationWarning, match="outputs and updates"):
        values, updates = graphc.scan(lambda: {count: count + 1}, n_steps=10)
    assert values is None
    graphc.function([], [], updates=updates, mode="NUMPY")()
    assert count.get_value() == 11


def test_a_pair_that_is_unpacked_later_is_refused() -> None:
    kept = one(two)
    with pytest.raises(SymbolicValueError, match="return their outputs alone"):
        out, updates = kept


def test_a_line_of_two_meanings_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="_ is the second output"):
        outs, _ = graphc.scan(lambda y: [y + 1, y - 1], x)
    with pytest.warns(UserWarning, match=r"scan\(\.\.\.\)\[0\] is the first step"):
        row = one()[0]
    with pytest.warns(UserWarning, match=r"scan\(\.\.\.\)\[0\] is the first output"):
        first = graphc.scan(lambda y: [y + 1, y - 1], x)[0]
    assert (row.ndim, first) == (0, outs)
    with pytest.warns(UserWarning, match="a, b = ...: they are the two steps"):
        a, b = graphc.scan(lambda y: y + 1, two)
    values = graphc.function([two], [a, b], mode="NUMPY")(np.array([1.0, 2.0]))
    assert [float(y) for y in values] == [2.0, 3.0]


def test_arguments_say_what_is_returned() -> None:
    first, _ = graphc.scan(lambda y: [y + 1, y - 1], x, return_updates=False)
    assert graphc.scan(lambda y: [y + 1, y - 1], x, return_updates=False)[0] is first
    a, b = graphc.scan(lambda y: y + 1, two, return_updates=False)
    out, updates = graphc.scan(lambda y: y + 1, two, return_updates=True)
    assert (a.type.shape, out.type, updates) == ((), two.type, {})


def test_outputs_are_unpacked_to_other_names() -> None:
    up, down = graphc.scan(lambda y: [y + 1, y - 1], x)
    first, *_ = graphc.scan(lambda y: [y + 1, y - 1], x)
    reset, update_gate = graphc.scan(lambda y: [y + 1, y - 1], x)
    assert (up, down) == (reset, update_gate)
    assert first is up
    assert one()[-1].ndim == 0
