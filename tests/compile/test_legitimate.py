"""Programs that are right to compile several times are told nothing."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path

import pytest

import graphc
from tests.compile.corpus import loaded

FILES = ("legitimate", "legitimate_captures", "legitimate_fits")
PROGRAMS = [*loaded(*FILES)]
WHOLE = sorted(
    path.stem
    for path in (Path(__file__).parents[1] / "programs").glob("*.py")
    if not path.stem.startswith("test_")
)
ONCE = {"a_shared_variable_with_many_values", "a_loop_that_passes_what_changes"}
"""The programs that compile once."""


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_legitimate_program_gives_no_warning(name: str, mode: str) -> None:
    made = []
    program = loaded(*FILES)[name]
    with (
        graphc.events.subscribe(made.append),
        graphc.recompile("warn"),
        warnings.catch_warnings(action="error"),
    ):
        program.run(mode)
    # Of a program that compiles once it would be no wonder. JAX compiles for all shapes anew.
    assert len(made) >= 2 or name in ONCE or mode != "JAX"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_legitimate_program_ends_where_a_storm_would_be_an_error(name: str) -> None:
    with graphc.recompile("raise"):
        loaded(*FILES)[name].run("NUMPY")


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_program_gives_no_warning(name: str) -> None:
    program = import_module(f"tests.programs.{name}")
    with (
        graphc.config.change_flags(mode="NUMPY", recompile="warn"),
        warnings.catch_warnings(action="error"),
    ):
        program.program()


def test_there_are_thirty_of_them() -> None:
    assert len(PROGRAMS) >= 30
