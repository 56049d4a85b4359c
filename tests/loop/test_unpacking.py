"""Scan returns outputs alone whatever the line says, which is refused if it expects updates."""

# ruff: noqa: RUF059 (the unpacking is what is tested)

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, SymbolicValueError

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
def test_a_line_that_unpacks_outputs_and_updates_is_refused(written: Callable[[], None]) -> None:
    with pytest.raises(ArgumentError, match="expects outputs and updates") as error:
        written()
    assert "write out = graphc.scan(...)" in str(error.value)
    assert "return_updates=True" in str(error.value)
    assert "graphc.config.scan_returns_updates = True" in str(error.value)
    assert f"{__file__.rpartition('/')[2]}:{written.__code__.co_firstlineno + 1}" in str(
        error.value
    )


@pytest.mark.parametrize(
    "written",
    [of_one, of_two_rows, discarded, of_two_outputs, nested, nested_and_discarded, of_three,
     under_another_name, of_named_dimensions, of_a_value, of_map, of_reduce, of_foldl, of_foldr],
)  # fmt: skip
def test_under_scan_returns_updates_the_line_gets_both(written: Callable[[], None]) -> None:
    with graphc.config.change_flags(scan_returns_updates=True):
        written()


def test_scan_returns_updates_is_the_default_of_return_updates() -> None:
    loops = [
        lambda **options: one(two, **options),
        lambda **options: graphc.map(lambda y: y + 1, two, **options),
        lambda **options: graphc.reduce(lambda y, s: s + y, two, 0.0, **options),
        lambda **options: graphc.foldl(lambda y, s: s + y, two, 0.0, **options),
        lambda **options: graphc.foldr(lambda y, s: s - y, two, 0.0, **options),
    ]
    alone = [loop() for loop in loops]
    with graphc.config.change_flags(scan_returns_updates=True):
        assert [loop() for loop in loops] == [(y, {}) for y in alone]
        assert [loop(return_updates=False) for loop in loops] == alone
    assert [loop(return_updates=True) for loop in loops] == [(y, {}) for y in alone]


def test_a_function_of_the_user_that_returns_a_scan_is_refused_where_it_is_unpacked() -> None:
    with pytest.raises(ArgumentError, match=r"out, _ = .* expects outputs and updates"):
        out, _ = one()
    with pytest.raises(ArgumentError, match=r"\[\.\.\.\], updates = ... expects"):
        [up, down], updates = pair(two)
    with pytest.raises(SymbolicValueError, match="Its length is unknown"):
        a, b, c = x


def test_updates_of_shared_variables_are_returned_on_request() -> None:
    count = graphc.shared(1)
    with graphc.config.change_flags(scan_returns_updates=True):
        values, updates = graphc.scan(lambda: {count: count + 1}, n_steps=10)
    assert values is None
    graphc.function([], [], updates=updates, mode="NUMPY")()
    assert count.get_value() == 11


@pytest.mark.parametrize("name", ["updates", "_"])
@pytest.mark.parametrize("sequence", [x, two])
def test_an_output_that_is_unpacked_later_is_refused_by_iteration(name: str, sequence: Any) -> None:
    with pytest.raises(SymbolicValueError, match="outputs and updates") as error:
        exec(f"out, {name} = output", {"output": one(sequence)})
    assert "write out = graphc.scan(...)" in str(error.value)
    assert "return_updates=True" in str(error.value)


def programs(names: str) -> list[CodeType]:
    """Return programs that scan ``two`` and unpack it in one line or two."""
    call = "graphc.scan(lambda y: y + 1, two)"
    sources = (
        f"{names} = {call}",
        f"r = {call}\n{names} = r",
        f"def f(): return {call}\n{names} = f()",
    )
    return [compile(source, "spelled", "exec") for source in sources]


@pytest.mark.filterwarnings("ignore:.*they are the two steps")
@pytest.mark.parametrize("names", ["a, b", "a, updates", "a, _", "(a, b), _", "[*a]", "a, *b"])
def test_the_result_is_the_same_however_the_line_is_spelled(names: str) -> None:
    results = []
    for code in programs(names):
        space: dict[str, Any] = {"graphc": graphc, "two": two}
        try:
            exec(code, space)
        except (ArgumentError, SymbolicValueError):
            results.append(None)
        else:
            results.append((space["a"], space.get("b")))
    assert results[1:] == results[:1] * 2


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


def test_an_output_called_like_updates_is_taken_by_return_updates_false() -> None:
    with pytest.raises(ArgumentError, match=r"If step_updates is .* return_updates=False"):
        states, step_updates = graphc.scan(lambda y: [y, -y], x)
    states, step_updates = graphc.scan(lambda y: [y, -y], x, return_updates=False)
    assert step_updates.eval({x: [1.0, 2.0, 4.0]}, mode="NUMPY").tolist() == [-1.0, -2.0, -4.0]
