"""A faulty program made small: calls, variables and values are left out while the fault stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from keyword import iskeyword

import numpy as np

from tests.fuzz.case import Fault, cases
from tests.fuzz.check import faults
from tests.fuzz.oracle import with_variable
from tests.fuzz.program import Body, Call, Program, every
from tests.fuzz.script import script

__all__ = ["shrunk"]

TRIES = 400
"""How many programs are tried; JAX takes a fifth of a second for each."""


def shrunk(fault: Fault) -> Fault:
    """The fault of the smallest program found that shows one of its kind."""
    tries = 0
    found = True
    while found and tries < TRIES:
        found = False
        for program in candidates(fault.program):
            if _size(program) >= _size(fault.program):
                continue
            tries += 1
            other = _same(program, fault)
            if other is not None:
                fault, found = other, True
                break
            if tries >= TRIES:
                break
    return fault


def _same(program: Program, fault: Fault) -> Fault | None:
    group = cases(program, varied=False)
    others = faults([group], fault.mode) if group else []
    return next((other for other in others if other.kind == fault.kind), None)


def _size(program: Program) -> tuple[int, int]:
    """What is to be made smaller: the calls, those in bodies too, and then the text."""
    return sum(1 for _ in every(program.calls)), len(script(program))


def candidates(program: Program) -> Iterator[Program]:
    """Smaller programs, the smallest first."""
    if len(program.outputs) > 1:
        yield from (replace(program, outputs=(y,)).pruned() for y in program.outputs)
    if not program.states():
        yield from (replace(program, outputs=(c.name,)).pruned() for c in program.calls)
    yield from _cut(program)
    for call in every(program.calls):
        for other in sorted({*call.operands, *_parameters(program, call)}):
            if other.isidentifier() and not iskeyword(other):
                yield _renamed(program, call.name, other).pruned()
    yield from _simpler_variables(program)
    yield from _shorter(program)


def _cut(program: Program) -> Iterator[Program]:
    """With a variable in the place of a call."""
    found = (with_variable(program, call.name) for call in program.calls)
    yield from (one for one in found if one is not None)


def _parameters(program: Program, call: Call) -> set[str]:
    """The parameters of the body that a call is in."""
    bodies = [body for c in every(program.calls) for body in c.bodies]
    return {name for body in bodies if call in body.calls for name in body.parameters}


def _renamed(program: Program, old: str, new: str) -> Program:
    """With another value in the place of a call's."""

    def name(x: str) -> str:
        return new if x == old else x

    calls = _without(program.calls, old, name)
    outputs = tuple(dict.fromkeys(map(name, program.outputs)))
    variables = tuple(replace(v, update=v.update and name(v.update)) for v in program.variables)
    return replace(program, calls=calls, outputs=outputs, variables=variables)


def _without(calls: tuple[Call, ...], old: str, name: Callable[[str], str]) -> tuple[Call, ...]:
    return tuple(
        replace(
            call,
            operands=tuple(map(name, call.operands)),
            options={k: _words(text, name) for k, text in call.options.items()},
            bodies=tuple(_body(body, old, name) for body in call.bodies),
        )
        for call in calls
        if call.name != old
    )


def _words(text: str, name: Callable[[str], str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda found: name(found[0]), text)


def _body(body: Body, old: str, name: Callable[[str], str]) -> Body:
    until = None if body.until is None else name(body.until)
    calls = _without(body.calls, old, name)
    return Body(body.parameters, calls, tuple(map(name, body.results)), until)


def _simpler_variables(program: Program) -> Iterator[Program]:
    """With one variable in the ordinary layout, of one kind of shape, of simple numbers."""
    for i, v in enumerate(program.variables):
        rounded = np.round(v.array.astype("complex128")).real.astype(v.array.dtype)
        for other in (
            replace(v, layout="C"),
            replace(v, update=None),
            replace(v, static=v.array.shape),
            replace(v, static=(None,) * v.array.ndim),
            replace(v, array=np.zeros_like(v.array)),
            replace(v, array=np.ones_like(v.array)),
            replace(v, array=rounded),
        ):
            yield replace(
                program, variables=(*program.variables[:i], other, *program.variables[i + 1 :])
            )


def _shorter(program: Program) -> Iterator[Program]:
    """With one length less wherever it occurs, or in one place."""
    places = [(v, axis) for v in program.variables for axis in range(v.array.ndim)]
    for n in sorted({v.array.shape[axis] for v, axis in places}, reverse=True):
        equal = [place for place in places if place[0].array.shape[place[1]] == n]
        for chosen in (equal, *([place] for place in equal)):
            if n:
                yield _one_less(program, {(v.name, axis) for v, axis in chosen})


def _one_less(program: Program, places: set[tuple[str, int]]) -> Program:
    variables = []
    for v in program.variables:
        array, static = v.array, list(v.static)
        for axis in range(array.ndim):
            if (v.name, axis) in places:
                array = array.take(range(array.shape[axis] - 1), axis)
                static[axis] = static[axis] and array.shape[axis]
        variables.append(replace(v, array=array, static=tuple(static)))
    return replace(program, variables=tuple(variables))
