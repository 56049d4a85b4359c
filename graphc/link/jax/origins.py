"""Where the elements of an instruction's result come from, in a program that XLA compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from graphc.link.jax.hlo import ProgramText

MOVES = frozenset(
    {
        *("bitcast", "convert", "copy", "reshape", "transpose", "opt-barrier"),
        *("all-gather", "all-gather-start", "all-gather-done", "copy-start", "copy-done"),
    }
)
"""Instructions that give all elements of their operand."""

_ARGUMENT = re.compile(r"^\w+\[(\d+)\]")
"""The name of a parameter of the program: its place among the arguments."""

_PARAMETER = re.compile(r"\bparameter\((\d+)\)")
_INDEX = re.compile(r"\bindex=(\d+)")

Path = tuple[int, ...]
"""A place in a tuple of tuples."""


class Origin(NamedTuple):
    """An argument whose elements an instruction gives.

    Attributes:
        argument: Its place.
        share: The share of the elements that there are: less than all where it is a part of them
            that each step of a loop takes.
    """

    argument: int
    share: Fraction


def in_loop(text: ProgramText, name: str) -> bool:
    """Whether an instruction is one of a step of a loop."""
    found = text.callers.get(text.homes[name], ())
    return any(text.call(x)[0] == "while" or in_loop(text, x) for x in found)


def origin(text: ProgramText, name: str) -> Origin | None:
    """The argument whose elements an instruction gives; None where they are others.

    It follows them through branches, the steps of loops, and what is fused.
    """
    try:
        way = [*_back(text, name, ())]
    except LookupError:  # XLA's text may change, and nothing but a warning depends on it
        return None
    share = Fraction(1)
    for step, _ in way:
        kind, operands = text.call(step)
        if kind == "dynamic-slice":
            share *= Fraction(text.size(step), text.size(operands[0]))
    last, path = way[-1]
    if path or text.homes[last] != text.entry or text.call(last)[0] != "parameter":
        return None
    found = _ARGUMENT.match(text.written(last))
    return Origin(int(found[1]), share) if found else None


def _back(text: ProgramText, name: str, path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the instructions whose results have the elements, back to where they come from."""
    while True:
        yield name, path
        found = _before(text, name, path)
        if found is None:
            return
        name, path = found


def _before(text: ProgramText, name: str, path: Path) -> tuple[str, Path] | None:
    """The operand, or the result of a computation, that has the elements of a result."""
    kind, operands = text.call(name)
    if kind == "parameter":
        return _argument(text, name, path)
    if kind == "get-tuple-element":
        return operands[0], (_number(_INDEX, text.lines[name]), *path)
    if kind == "tuple":
        return (operands[path[0]], path[1:]) if path else None
    if kind in {"fusion", "call"}:
        return text.roots[text.applied(name)[0]], path
    passes = kind in MOVES and len(operands) == 1
    if kind == "while":
        passes = bool(path) and _is_kept(text, name, path[0])
    elif kind == "dynamic-slice":
        passes = in_loop(text, name)
    return (operands[0], path) if passes else None


def _argument(text: ProgramText, name: str, path: Path) -> tuple[str, Path] | None:
    """What is passed for a parameter of a computation."""
    computation = text.homes[name]
    found = text.callers.get(computation, ())
    if len(found) != 1:
        return None
    (caller,) = found
    kind, operands = text.call(caller)
    if kind == "while":
        return (operands[0], path) if path and _is_kept(text, caller, path[0]) else None
    if kind == "conditional":
        # What decides comes first.
        return operands[1 + text.applied(caller).index(computation)], path
    number = _number(_PARAMETER, text.lines[name])
    return (operands[number], path) if kind in {"fusion", "call"} else None


def _is_kept(text: ProgramText, loop: str, place: int) -> bool:
    """Whether every step of a loop gets the same at a place."""
    for computation in text.applied(loop):
        root = text.roots[computation]
        if text.size(root) != text.size(loop):
            continue  # it is the condition
        for name, path in _back(text, root, (place,)):
            if text.homes[name] == computation and text.call(name)[0] == "parameter":
                return path == (place,)
    return False


def _number(pattern: re.Pattern[str], line: str) -> int:
    found = pattern.search(line)
    if found is None:
        raise LookupError(line)
    return int(found[1])
