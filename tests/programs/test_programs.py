"""Whole programs as users write them: each runs on every backend and gives what NumPy gives."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import graphc

PROGRAMS = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("test_")
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_numpy_gives(name: str, mode: str) -> None:
    program = import_module(f"tests.programs.{name}")
    with graphc.config.change_flags(mode=mode):
        found = program.program()
    for y, wanted in zip(found, program.expected(), strict=True):
        np.testing.assert_allclose(np.asarray(y), wanted, rtol=1e-7, atol=1e-9)


def test_there_are_thirty_of_them() -> None:
    assert len(PROGRAMS) >= 30
