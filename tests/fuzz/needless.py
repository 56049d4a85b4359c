"""Whether results need what NumPy refuses: what is not computed need not be refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tests.fuzz.case import Case
from tests.fuzz.oracle import with_own, with_variable
from tests.fuzz.program import Call, Program, every, used
from tests.fuzz.together import Together

__all__ = ["is_not_computed"]


def is_not_computed(case: Case, found: Sequence[np.ndarray], together: Together) -> bool:
    """Whether the results do not need what is refused, or not one of its operands."""
    return all(_is_needless(case, call, found, together) for call in case.expected.refused)


def _is_needless(
    case: Case, refused: Call, found: Sequence[np.ndarray], together: Together
) -> bool:
    program, mode = case.program, together.mode
    concerned = [refused.name in names for names in _needed(program)]
    in_bodies = {name for call in program.calls for body in call.bodies for name in body.names()}
    # A loop may compute what none of its results needs, or another result, which rewriting drops.
    bodies = [body for call in every((refused,)) for body in call.bodies]
    is_within = refused.name in in_bodies or any(len(body.results) > 1 for body in bodies)
    if not any(concerned) or (mode.rewritten and is_within):
        return True
    for operand in refused.names() & program.names():
        if _is_ignored(case, operand, found, concerned, together):
            return True
        for cut, name in _apart(program, refused, operand):
            one = replace(case, program=cut, slope=None)
            try:
                alone = Together([one], mode)
                (again,) = alone([one])
            except Exception:
                continue
            if _is_ignored(one, name, again, concerned, alone):
                return True
    return False


def _apart(program: Program, call: Call, operand: str) -> Iterator[tuple[Program, str]]:
    """Programs with a variable for an operand, for which other uses do not matter, and its name."""
    cut = with_variable(program, operand)
    if cut is not None:
        yield cut, operand
    one = cut or program
    variable = next((v for v in one.variables if v.name == operand), None)
    if variable is not None:
        yield from with_own(one, call, variable)


def _needed(program: Program) -> list[set[str]]:
    """The names whose values each result needs: an output, one of a second call, or a state."""
    found = [used(program.calls, {name}, values=True) for name in program.outputs]
    updates = {v.name: v.update for v in program.states() if v.update}
    if not updates:
        return found
    for name in (*program.outputs, *updates.values()):
        names: set[str] = set()
        more = {name}
        while not more <= names:  # a state has its value from its update
            names |= used(program.calls, names | more, values=True)
            more = {updates[state] for state in names & {*updates}}
        found.append(names)
    return found


def _is_ignored(
    case: Case,
    operand: str,
    found: Sequence[np.ndarray],
    concerned: Sequence[bool],
    together: Together,
) -> bool:
    """Whether the outputs that are concerned are the same for other elements of an operand."""
    program = case.program
    numbers = np.random.default_rng(program.seed)
    needed = used(program.calls, {operand})
    variables = tuple(
        replace(v, array=_other(v.array, numbers)) if v.name in needed else v
        for v in program.variables
    )
    other = replace(case, program=replace(program, variables=variables))
    try:
        (again,) = together([other])
    except Exception:
        return False
    some = zip(found, again, concerned, strict=True)
    return all(np.array_equal(y, z, equal_nan=True) for y, z, is_one in some if is_one)


def _other(x: np.ndarray, numbers: np.random.Generator) -> np.ndarray:
    """Other elements of the same kind."""
    if x.dtype.kind in "biu":
        return numbers.permutation(x.ravel()).reshape(x.shape)
    return (3 * numbers.normal(size=x.shape)).astype(x.dtype)
