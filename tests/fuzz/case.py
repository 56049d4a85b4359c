"""Cases: programs with the values of a call, what NumPy makes of them, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

import graphc
from tests.fuzz.oracle import Expected, expected
from tests.fuzz.program import Program, every
from tests.fuzz.slopes import Slope, slopes
from tests.modes import uncompiled

__all__ = ["MODES", "Case", "Fault", "Mode", "cases", "variants"]


@dataclass(frozen=True)
class Mode:
    """How graphc runs programs.

    Attributes:
        name: In reports.
        backend: The backend.
        rewritten: Whether rules are applied.
        batch: How many programs are one function.
        vectorized: Whether programs are run for a batch of one of their variables.
        padded: Whether unknown lengths of inputs are padded to buckets.
    """

    name: str
    backend: str
    rewritten: bool = True
    batch: int = 1
    vectorized: bool = False
    padded: bool = False

    @property
    def declaring(self) -> str:
        """What declarations of inputs have in addition."""
        return ", bucket=2" if self.padded else ""

    def graphc(self) -> graphc.Mode:
        return uncompiled(self.backend, **({} if self.rewritten else {"excluding": ["all"]}))

    def options(self) -> str:
        """The arguments of graphc's mode, as code."""
        more = ", compile=False" if self.backend == "MLX" else ""
        more += "" if self.rewritten else ", excluding=['all']"
        return f"{self.backend!r}{more}"

    def plain(self) -> Mode:
        """The same backend without rules."""
        return replace(self, rewritten=False)


MODES = {
    "written": Mode("written", "NUMPY", rewritten=False),
    "NUMPY": Mode("NUMPY", "NUMPY"),
    "batches": Mode("batches", "NUMPY", vectorized=True),
    "JAX": Mode("JAX", "JAX", batch=16),
    "buckets": Mode("buckets", "JAX", batch=16, padded=True),
    "MLX": Mode("MLX", "MLX", batch=8),
}
"""The modes by name."""


@dataclass(frozen=True)
class Case:
    """A program, whose variables have the values of one call, and what NumPy makes of it."""

    program: Program
    expected: Expected
    slope: Slope | None = None


@dataclass(frozen=True)
class Fault:
    """A program that graphc runs wrongly.

    Attributes:
        program: The program.
        mode: In which mode.
        kind: What is wrong, in a word or two.
        what: What is wrong, in full.
    """

    program: Program
    mode: Mode
    kind: str
    what: str

    def signature(self) -> tuple[str, ...]:
        """Equal for faults that look like one."""
        rows = sorted({call.row.name for call in every(self.program.calls)})
        return (self.mode.name, self.kind, *rows)


def cases(program: Program, *, varied: bool = True) -> list[Case]:
    """The program for its own values and for those of other shapes, where that is defined."""
    programs, found = [], []
    for one in [program, *(variants(program) if varied else [])]:
        what = expected(one, one.values())
        if what is not None:
            programs.append(one)
            found.append(what)
    if not programs or programs[0] is not program:
        return []
    return [Case(*parts) for parts in zip(programs, found, slopes(programs, found), strict=True)]


def variants(program: Program) -> list[Program]:
    """The program for other values: of an integer, and of one unknown length.

    That length is another one wherever it occurs, or only in one place, which is often wrong.
    """
    random = Random(program.seed)
    places = [
        (v.name, axis)
        for v in program.variables
        for axis, n in enumerate(v.static)
        if n is None and not v.update
    ]
    found = [*_reindexed(program, random)]
    if not places:
        return found
    name, axis = random.choice(places)
    lengths = {(v.name, a): n for v in program.variables for a, n in enumerate(v.array.shape)}
    equal = [place for place in places if lengths[place] == lengths[name, axis]]
    for chosen in (equal, [random.choice(places)]):
        n = random.choice([0, 1, 2, 3, 6])
        if any(lengths[place] != n for place in chosen):
            found.append(_resized(program, chosen, n))
    return found


def _reindexed(program: Program, random: Random) -> Iterator[Program]:
    """The program for another value of an integer without axes: an index, perhaps out of bounds."""
    scalars = [v for v in program.variables if v.dtype == "int64" and not v.array.ndim]
    if scalars:
        chosen = random.choice(scalars)
        other = replace(chosen, array=np.array(random.randrange(-6, 7)))
        variables = tuple(other if v is chosen else v for v in program.variables)
        yield replace(program, variables=variables)


def _resized(program: Program, places: Sequence[tuple[str, int]], n: int) -> Program:
    made = []
    for v in program.variables:
        shape = tuple(n if (v.name, i) in places else m for i, m in enumerate(v.array.shape))
        # Elements come again; an empty array has none to come.
        made.append(replace(v, array=np.resize(v.array, shape).astype(v.array.dtype)))
    return replace(program, variables=tuple(made))
