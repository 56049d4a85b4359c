"""What is allowed to become whole in graphs, when it is told, and that nothing hides it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile.cache import PROGRAMS
from graphc.errors import MaterializeError, MaterializeWarning
from graphc.implicit import ImplicitArray, materializations, materializing, register, unregister
from graphc.implicit.structures.lora import LoRA
from tests.implicit.symbolic import Coded, Outer, coded, dense, like, outer, table, values
from tests.modes import uncompiled

x = gt.matrix("x")
X = np.random.default_rng(1).normal(size=(2, 4))


def refuses(
    outputs: Any, given: dict[Any, Any], mode: str, message: str = "would become dense"
) -> None:
    """Nothing may become whole: told when the function is made, on JAX when it is first called."""
    with materializing("error"):
        if mode != "JAX":
            with pytest.raises(MaterializeError, match=message):
                graphc.function([*given], outputs, uncompiled(mode))
            return
        f = graphc.function([*given], outputs, uncompiled(mode))
    # The policy is that of when it was made.
    with pytest.raises(MaterializeError, match=message):
        f(*given.values())


def test_an_error_says_what_would_become_whole_for_what_and_where(mode: str) -> None:
    value = table(4, 3)
    u = like(value, "u")
    refuses(gt.sin(u), {u: value}, mode, r"Table, float64\[4, 3\], .*sin.*\n.*policy.py:\d+")


def test_the_configuration_has_the_same_effect(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = table(4, 3)
    u = like(value, "u")
    monkeypatch.setattr(graphc.config, "materialize", "error")
    with pytest.raises(MaterializeError):
        values(gt.cos(u), {u: value}, mode)
    with materializing("allow"):
        np.testing.assert_allclose(values(gt.cos(u), {u: value}, mode), np.cos(dense(value)))


def test_a_program_in_memory_hides_no_error(mode: str) -> None:
    value = table(4, 3)
    u = like(value, "u")
    y = gt.tan(u)
    np.testing.assert_allclose(values(y, {u: value}, mode), np.tan(dense(value)))
    refuses(y, {u: value}, mode)
    # And an error leaves nothing behind that is in the way.
    np.testing.assert_allclose(values(y, {u: value}, mode), np.tan(dense(value)))


def test_a_program_of_a_strict_policy_is_not_that_of_a_lax_one() -> None:
    value = outer(4, 3)
    u = like(value, "u")
    PROGRAMS.clear()
    with materializations() as first:
        graphc.function([u], gt.exp(u), mode="NUMPY")
    with materializing("warn"), pytest.warns(MaterializeWarning, match="Outer.*exp"):
        graphc.function([u], gt.exp(u), mode="NUMPY")
    with materializations() as again:
        graphc.function([u], gt.exp(u), mode="NUMPY")
    assert len(first) == 1
    # It was there already.
    assert not again


def test_a_warning_comes_once_a_site() -> None:
    u = like(table(4, 3), "u")

    def make() -> None:
        graphc.function([u], gt.arctan(u), mode="NUMPY")

    with warnings.catch_warnings(record=True) as told, materializing("warn"):
        warnings.simplefilter("always")
        for _ in range(3):
            PROGRAMS.clear()
            make()
    assert [warning.category for warning in told] == [MaterializeWarning]
    assert "table" not in str(told[0].message)


@dataclass(frozen=True, repr=False)
class Strict(ImplicitArray, materialize="error"):
    """Never whole."""

    u: Any

    def materialize(self) -> Any:
        return self.u * 2


@dataclass(frozen=True, repr=False)
class Lax(ImplicitArray, materialize="allow"):
    """Whole at any time."""

    u: Any

    def materialize(self) -> Any:
        return self.u * 2


def test_a_class_goes_before_the_rest(mode: str) -> None:
    strict, lax = Strict(X), Lax(X)
    a, b = like(strict, "a"), like(lax, "b")
    with pytest.raises(MaterializeError, match="Strict"):
        values(gt.sin(a), {a: strict}, mode)
    with materializing("error"):
        np.testing.assert_allclose(values(gt.sin(b), {b: lax}, mode), np.sin(2 * X))


def test_what_is_asked_for_on_purpose_is_allowed(mode: str) -> None:
    value = table(4, 3)
    u = like(value, "u")
    with materializing("error"):
        found = values(gt.sin(u.dense()), {u: value}, mode)
    np.testing.assert_allclose(found, np.sin(dense(value)))


PLACES: dict[str, Any] = {
    "a constant of a loop": lambda u: graphc.scan(
        lambda h: gt.tanh(h @ u), outputs_info=gt.ones((2, 4)), n_steps=2
    ),
    "an element": lambda u: graphc.scan(lambda row, h: h + row, u, gt.zeros(4)),
    "a carry": lambda u: graphc.scan(gt.sin, outputs_info=u, n_steps=2),
    "a row": lambda u: graphc.map(lambda a: gt.as_tensor(type(u.array)(a, a)), u.dense()),
    "a branch": lambda u: graphc.ifelse(u.array.u.sum() > 0, gt.exp(u), u.dense()),
    "a step's branch": lambda u: graphc.scan(
        lambda h: h + graphc.ifelse(h.sum() > 0, gt.exp(u), h), outputs_info=u.dense(), n_steps=2
    ),
    "an inner loop": lambda u: graphc.scan(
        lambda h: graphc.scan(lambda h: h @ u, outputs_info=h, n_steps=2)[-1],
        outputs_info=gt.ones((2, 4)),
        n_steps=2,
    ),
    "a gradient": lambda u: graphc.grad(gt.exp(u).sum(), u.array.u),
}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_made_whole_anywhere_where_that_is_an_error(place: str, mode: str) -> None:
    value = table(4, 4)
    u = like(value, "u")
    refuses(PLACES[place](u), {u: value}, mode, "Table")


@pytest.mark.parametrize("place", PLACES)
def test_what_is_made_whole_is_reported_with_its_line(place: str, mode: str) -> None:
    value = table(4, 4, seed=4)
    u = like(value, "u")
    PROGRAMS.clear()
    with materializations() as report:
        values(PLACES[place](u), {u: value}, mode)
    assert report
    assert {entry.type for entry in report} == {"Table"}
    assert all("test_symbolic_policy.py" in str(entry.where) for entry in report)


@contextmanager
def handled(target: Any, handler: Any) -> Iterator[None]:
    """Within, that handler is there."""
    register(target)(handler)
    try:
        yield
    finally:
        unregister(target, handler)


def test_a_handler_that_is_new_is_used_by_what_is_made_later(mode: str) -> None:
    value = outer(4, 3)
    u = like(value, "u")
    y = gt.log1p(gt.abs(u))
    wanted = np.log1p(np.abs(dense(value)))
    np.testing.assert_allclose(values(y, {u: value}, mode), wanted)

    def absolute(a: Outer) -> Any:
        return Outer(gt.abs(a.u), gt.abs(a.v))

    def logarithm(a: Outer) -> Any:
        return gt.log1p(a.u[:, None] * a.v)

    with handled(gt.abs, absolute), handled(gt.log1p, logarithm), materializing("error"):
        np.testing.assert_allclose(values(y, {u: value}, mode), wanted)
    refuses(y, {u: value}, mode)


def test_a_classs_default_handler_is_asked_last(mode: str) -> None:
    @dataclass(frozen=True, repr=False)
    class Doubled(ImplicitArray):
        u: Any

        def materialize(self) -> Any:
            return self.u * 2

        @classmethod
        def default_handler(cls, target: Any, *operands: Any, **parameters: Any) -> Any:
            return operands[0].u * 2 - 1 if target is gt.expm1 else NotImplemented

    u = like(Doubled(X), "u")
    with materializing("error"):
        np.testing.assert_allclose(values(gt.expm1(u), {u: Doubled(X)}, mode), X * 2 - 1)
    refuses(gt.sin(u), {u: Doubled(X)}, mode)


def test_a_nested_base_is_not_made_whole_for_its_adapter(mode: str) -> None:
    value = LoRA(coded(4, 3), np.ones((4, 2)), np.ones((2, 3)))
    u = like(value, "u")
    with materializing("error"):
        found = values([x @ u, *graphc.grad((x @ u).sum(), [u.array.a, x])], {x: X, u: value}, mode)
    np.testing.assert_allclose(found[0], X @ dense(value))
    refuses(gt.sin(u), {u: value}, mode)


def test_an_output_of_a_whole_function_is_in_its_form() -> None:
    value = coded(4, 3)
    u = like(value, "u")
    with materializing("error"):
        assert isinstance(values(u, {u: value}), Coded)
