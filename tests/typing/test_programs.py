"""Users' programs, which ``make check`` type-checks, are at run time what their types say."""

from __future__ import annotations

import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pytest

NOT_RUN = {"mistakes", "test_programs", "test_signatures"}
PROGRAMS = sorted({path.stem for path in Path(__file__).parent.glob("*.py")} - NOT_RUN)


def is_of(value: Any, declared: Any) -> bool:
    """Whether a value is of a type, as far as a value shows it."""
    origin: Any = get_origin(declared)
    parts: Any = get_args(declared)
    if declared is Any:
        return True
    if origin in {Union, types.UnionType}:
        return any(is_of(value, part) for part in parts)
    kind: Any = types.NoneType if declared is None else origin or declared
    if not isinstance(value, kind):
        return False
    if origin is tuple and parts[-1] is not ...:
        return len(value) == len(parts) and all(map(is_of, value, parts))
    if origin is dict:
        return all(is_of(k, parts[0]) and is_of(v, parts[1]) for k, v in value.items())
    return origin not in {tuple, list} or all(is_of(part, parts[0]) for part in value)


def checked(value: Any, declared: Any) -> Any:
    assert is_of(value, declared), f"{value!r} is not {declared}"
    return value


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_what_its_types_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module(f"tests.typing.{name}")
    monkeypatch.setattr(module, "assert_type", checked)
    program: Callable[[], None] = module.program
    program()
