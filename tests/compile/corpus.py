"""Files of programs, loaded anew for each test, so that nothing has seen their code before."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Case", "case", "loaded", "same"]

FOLDER = Path(__file__).parent
MARK = "# <-"
"""What stands at the end of the line that a warning is to name."""

_serials = count()


@dataclass(frozen=True)
class Case:
    """A program, and of a storm what is to be said of it.

    Attributes:
        run: Takes a mode.
        cause: Why it compiles again.
        names: What changes; a warning names one of them.
        at: At which round that is to be told.
    """

    run: Callable[[Any], Any]
    cause: str = ""
    names: tuple[str, ...] = ()
    at: int = 0

    @property
    def line(self) -> str:
        """The ``file:line`` that is marked."""
        lines, first = inspect.getsourcelines(self.run)
        (marked,) = [i for i, line in enumerate(lines) if MARK in line]
        return f"{Path(inspect.getfile(self.run)).name}:{first + marked}"


def case(cause: str = "", *names: str, at: int = 2) -> Callable[[Any], Any]:
    """Enter the decorated function of a mode."""

    def enter(run: Any) -> Any:
        run.case = Case(run, cause, names, at)
        return run

    return enter


def loaded(*files: str) -> dict[str, Case]:
    """The programs of files of this folder, of code objects that were not there before."""
    found: dict[str, Case] = {}
    for file in files:
        name = f"{file}_{next(_serials)}"
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{file}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= {name: f.case for name, f in vars(module).items() if hasattr(f, "case")}
    return found


def same(found: Any, wanted: Any) -> None:
    """Raise unless the numbers are the same, of one array or of a list of them."""
    found, wanted = ([y] if not isinstance(y, list) else y for y in (found, wanted))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-5, atol=1e-8)
