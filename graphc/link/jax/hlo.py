"""The text of a program that XLA compiled: its instructions, their sizes, operations and origins.

A program that is traced with a scope for each operation has the scopes' numbers in the metadata of
XLA's instructions. The origin of an instruction is the argument whose elements it returns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import jax

from graphc.ir import Node

SCOPE = "graphc_node_"
"""The prefix of a scope's name; the number of the scope follows."""

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.-]+) = (.*)$")
_CALLED = re.compile(r"\b(?:calls|to_apply)=%?([\w.-]+)")
_APPLIED = re.compile(
    r"\b(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)"
    r"|\bbranch_computations=\{([^}]*)\}"
)
_NAME = re.compile(r'op_name="([^"]*)"')
_NUMBER = re.compile(rf"{SCOPE}(\d+)")
_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.-]+)")

Scopes = tuple[int, ...]
"""Numbers of nested scopes, from the outermost to the scope of an operation."""


class Scoped:
    """An observer by which JAX traces each operation of a program within a separate scope.

    Attributes:
        nodes: The nodes with scopes; the index of a node is the number of its scope.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __call__(self, node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that computes a node within a new scope."""
        name = f"{SCOPE}{len(self.nodes)}"
        self.nodes.append(node)

        def run(*values: Any) -> Any:
            with jax.named_scope(name):
                return compute(*values)

        return run


class ProgramText:
    """The lines of a compiled program, by the names of their instructions.

    Attributes:
        lines: The text after the name of each instruction.
        members: The instructions of each computation.
        roots: The root instruction of each computation, whose result the computation returns.
        parents: The computation of each instruction.
        entry: The entry computation.
    """

    def __init__(self, text: str) -> None:
        self.lines: dict[str, str] = {}
        self.members: dict[str, list[str]] = {}
        self.roots: dict[str, str] = {}
        self.parents: dict[str, str] = {}
        self.entry = current = ""
        for line in text.splitlines():
            if match := _INSTRUCTION.match(line):
                is_root, name, self.lines[match[2]] = match.groups()
                self.members[current].append(name)
                self.parents[name] = current
                if is_root:
                    self.roots[current] = name
            elif opened := _COMPUTATION.match(line):
                current = opened[2]
                self.members[current] = []
                self.entry = current if opened[1] else self.entry

    def call(self, name: str) -> tuple[str, list[str]]:
        """Return the opcode of an instruction and the names of its operands."""
        line = self.lines[name]
        rest = line[_type_end(line) :].strip()
        kind, _, _ = rest.partition("(")
        start = len(kind)
        return kind, _OPERAND.findall(rest[start : _closing(rest, start)])

    def inner_instructions(self, name: str) -> list[str]:
        """Return the instructions of the computations of a fusion, call or reduction."""
        computations = _CALLED.findall(self.lines[name])
        return [x for computation in computations for x in self.members.get(computation, ())]

    def computations(self, name: str) -> list[str]:
        """Return the computations of an instruction: all branches, or a loop's body and condition.

        Branches have the order of the indices that select them.
        """
        pairs = _APPLIED.findall(self.lines[name])
        return [x.strip(" %") for one, many in pairs for x in (many.split(",") if many else [one])]

    @cached_property
    def callers(self) -> dict[str, list[str]]:
        """The instructions that apply each computation."""
        callers: dict[str, list[str]] = {}
        for name in self.lines:
            for computation in self.computations(name):
                callers.setdefault(computation, []).append(name)
        return callers

    @cached_property
    def users(self) -> dict[str, list[str]]:
        """The instructions that take the result of each instruction."""
        users: dict[str, list[str]] = {}
        for name in self.lines:
            for x in self.call(name)[1]:
                users.setdefault(x, []).append(name)
        return users

    def size(self, name: str) -> int:
        """Return the size of an instruction's result, in bytes."""
        line = self.lines[name]
        return _bytes(line[: _type_end(line)])

    def itemsize(self, name: str) -> int:
        """Return the size of an element of an instruction's result, in bytes."""
        match = _ARRAY.search(self.lines[name])
        return _bytes(f"{match[1]}[]") if match else 0

    def op_name(self, name: str) -> str:
        """Return the metadata of an instruction that name its operations, as JAX wrote them."""
        match = _NAME.search(self.lines[name])
        return match[1] if match else ""

    def scopes(self, name: str) -> list[Scopes]:
        """Return the scopes of an instruction's operations; several if XLA merged instructions."""
        before, _, merged = self.op_name(name).partition("/(")
        outer = _numbers(before)
        if ":" not in merged:
            merged = ""
            outer = _numbers(self.op_name(name))
        paths = [(*outer, *_numbers(part)) for part in merged.split(":")]
        return [path for path in dict.fromkeys(paths) if path]


def _numbers(name: str) -> Scopes:
    return tuple(map(int, _NUMBER.findall(name)))


def _type_end(line: str) -> int:
    """Return the end of the type at the start of a line; the types of tuples contain spaces."""
    return _closing(line, 0) + 1 if line.startswith("(") else line.index(" ")


def _closing(line: str, start: int) -> int:
    """Return the index of the bracket that closes the bracket at ``start``."""
    depth = 0
    for i in range(start, len(line)):
        depth += (line[i] == "(") - (line[i] == ")")
        if not depth:
            return i
    return len(line)


def _bytes(type: str) -> int:
    """Return the size of an array, or of all arrays in a tuple, given the text of the type."""
    total = 0
    for name, bits, lengths in _ARRAY.findall(type):
        count = math.prod(int(n) for n in lengths.split(",") if n)
        total += count if name == "pred" else count * int(bits) // 8
    return total


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
