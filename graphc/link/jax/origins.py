"""The arguments whose elements an instruction returns, in a program that XLA compiled."""

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
"""Instructions that return all elements of their operand."""

_ARGUMENT = re.compile(r"^\w+\[(\d+)\]")
"""The name of a parameter of the program: its position among the arguments."""

_PARAMETER = re.compile(r"\bparameter\((\d+)\)")
_INDEX = re.compile(r"\bindex=(\d+)")

Path = tuple[int, ...]
"""Indices of an element of nested tuples."""


class Origin(NamedTuple):
    """An argument whose elements an instruction returns.

    Attributes:
        argument: The position of the argument.
        share: The returned fraction of the elements: less than 1 if each step of a loop takes a
            slice of them.
    """

    argument: int
    share: Fraction


def in_loop(text: ProgramText, name: str) -> bool:
    """Return whether an instruction is in a step of a loop."""
    callers = text.callers.get(text.parents[name], ())
    return any(text.call(x)[0] == "while" or in_loop(text, x) for x in callers)


def origin(text: ProgramText, name: str) -> Origin | None:
    """Return the argument whose elements an instruction returns; None for other elements.

    The search goes through branches, steps of loops and fusions.
    """
    try:
        sources = [*_sources(text, name, ())]
    except LookupError:  # XLA's text may change, and only a warning depends on it
        return None
    share = Fraction(1)
    for step, _ in sources:
        kind, operands = text.call(step)
        if kind == "dynamic-slice":
            share *= Fraction(text.size(step), text.size(operands[0]))
    last, path = sources[-1]
    if path or text.parents[last] != text.entry or text.call(last)[0] != "parameter":
        return None
    match = _ARGUMENT.match(text.op_name(last))
    return Origin(int(match[1]), share) if match else None


def _sources(text: ProgramText, name: str, path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the instructions whose results have the same elements, backwards from a result."""
    while True:
        yield name, path
        source = _source(text, name, path)
        if source is None:
            return
        name, path = source


def _source(text: ProgramText, name: str, path: Path) -> tuple[str, Path] | None:
    """Return the operand, or the result of a computation, that has the elements of a result."""
    kind, operands = text.call(name)
    if kind == "parameter":
        return _argument(text, name, path)
    if kind == "get-tuple-element":
        return operands[0], (_number(_INDEX, text.lines[name]), *path)
    if kind == "tuple":
        return (operands[path[0]], path[1:]) if path else None
    if kind in {"fusion", "call"}:
        return text.roots[text.computations(name)[0]], path
    passes = kind in MOVES and len(operands) == 1
    if kind == "while":
        passes = bool(path) and _is_invariant(text, name, path[0])
    elif kind == "dynamic-slice":
        passes = in_loop(text, name)
    return (operands[0], path) if passes else None


def _argument(text: ProgramText, name: str, path: Path) -> tuple[str, Path] | None:
    """Return the operand of a caller that is passed for a parameter of a computation."""
    computation = text.parents[name]
    callers = text.callers.get(computation, ())
    if len(callers) != 1:
        return None
    (caller,) = callers
    kind, operands = text.call(caller)
    if kind == "while":
        return (operands[0], path) if path and _is_invariant(text, caller, path[0]) else None
    if kind == "conditional":
        # The first operand selects the branch.
        return operands[1 + text.computations(caller).index(computation)], path
    number = _number(_PARAMETER, text.lines[name])
    return (operands[number], path) if kind in {"fusion", "call"} else None


def _is_invariant(text: ProgramText, loop: str, index: int) -> bool:
    """Return whether no step of a loop changes the element ``index`` of its carry."""
    for computation in text.computations(loop):
        root = text.roots[computation]
        if text.size(root) != text.size(loop):
            continue  # the condition, which returns no carry
        for name, path in _sources(text, root, (index,)):
            if text.parents[name] == computation and text.call(name)[0] == "parameter":
                return path == (index,)
    return False


def _number(pattern: re.Pattern[str], line: str) -> int:
    match = pattern.search(line)
    if match is None:
        raise LookupError(line)
    return int(match[1])
