"""Values of context variables within a block."""

from __future__ import annotations

from contextvars import ContextVar

import pytest

from graphc.context import setting

DEPTH: ContextVar[int] = ContextVar("depth", default=0)


def test_setting_gives_a_variable_its_value_within_the_block() -> None:
    with setting(DEPTH, 1) as outer:
        with setting(DEPTH, 2) as inner:
            assert (outer, inner, DEPTH.get()) == (1, 2, 2)
        assert DEPTH.get() == 1
    assert DEPTH.get() == 0


def test_setting_restores_the_value_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), setting(DEPTH, 1):
        raise ZeroDivisionError
    assert DEPTH.get() == 0
