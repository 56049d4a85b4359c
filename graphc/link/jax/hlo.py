"""The text of a program that XLA compiled: its instructions, their sizes and what they stand for.

A program that is traced with a scope for each operation has the scopes' numbers in the metadata of
XLA's instructions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax

from graphc.ir import Node

SCOPE = "graphc_node_"
"""How the name of a scope begins; its number follows."""

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.-]+) = (.*)$")
_HELD = re.compile(r"\b(?:calls|to_apply)=%?([\w.-]+)")
_APPLIED = re.compile(
    r"\b(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)"
    r"|\bbranch_computations=\{([^}]*)\}"
)
_NAME = re.compile(r'op_name="([^"]*)"')
_NUMBER = re.compile(rf"{SCOPE}(\d+)")
_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.-]+)")

Scopes = tuple[int, ...]
"""Numbers of scopes, from the outermost to that of an operation."""


class Scoped:
    """What has JAX trace each operation of a program within a scope of its own.

    Attributes:
        nodes: Each operation that has a scope; its place is the scope's number.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __call__(self, node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that computes a node within a scope of its own."""
        name = f"{SCOPE}{len(self.nodes)}"
        self.nodes.append(node)

        def run(*values: Any) -> Any:
            with jax.named_scope(name):
                return compute(*values)

        return run


class ProgramText:
    """The lines of a compiled program, by the names of their instructions.

    Attributes:
        lines: What follows the name of each instruction.
        members: The instructions of each computation.
        roots: The instruction of each whose result is its own.
        homes: The computation of each instruction.
        entry: The computation that is the program itself.
    """

    def __init__(self, text: str) -> None:
        self.lines: dict[str, str] = {}
        self.members: dict[str, list[str]] = {}
        self.roots: dict[str, str] = {}
        self.homes: dict[str, str] = {}
        self.entry = current = ""
        for line in text.splitlines():
            if found := _INSTRUCTION.match(line):
                is_root, name, self.lines[found[2]] = found.groups()
                self.members[current].append(name)
                self.homes[name] = current
                if is_root:
                    self.roots[current] = name
            elif opened := _COMPUTATION.match(line):
                current = opened[2]
                self.members[current] = []
                self.entry = current if opened[1] else self.entry

    def call(self, name: str) -> tuple[str, list[str]]:
        """The kind of an instruction and the names of its operands."""
        line = self.lines[name]
        rest = line[_type_end(line) :].strip()
        kind, _, _ = rest.partition("(")
        start = len(kind)
        return kind, _OPERAND.findall(rest[start : _closing(rest, start)])

    def held(self, name: str) -> list[str]:
        """The instructions of the computations that an instruction applies."""
        return [x for held in _HELD.findall(self.lines[name]) for x in self.members.get(held, ())]

    def applied(self, name: str) -> list[str]:
        """The computations that an instruction applies: of a branch in order, of a loop both."""
        found = _APPLIED.findall(self.lines[name])
        return [x.strip(" %") for one, many in found for x in (many.split(",") if many else [one])]

    @cached_property
    def callers(self) -> dict[str, list[str]]:
        """The instructions that apply each computation."""
        found: dict[str, list[str]] = {}
        for name in self.lines:
            for computation in self.applied(name):
                found.setdefault(computation, []).append(name)
        return found

    @cached_property
    def users(self) -> dict[str, list[str]]:
        """The instructions that take the result of each."""
        found: dict[str, list[str]] = {}
        for name in self.lines:
            for x in self.call(name)[1]:
                found.setdefault(x, []).append(name)
        return found

    def size(self, name: str) -> int:
        """The bytes of an instruction's result."""
        line = self.lines[name]
        return _bytes(line[: _type_end(line)])

    def itemsize(self, name: str) -> int:
        """The bytes of an element of an instruction's result."""
        found = _ARRAY.search(self.lines[name])
        return _bytes(f"{found[1]}[]") if found else 0

    def written(self, name: str) -> str:
        """The names of the operations that an instruction stands for, as JAX wrote them."""
        found = _NAME.search(self.lines[name])
        return found[1] if found else ""

    def scopes(self, name: str) -> list[Scopes]:
        """The scopes of the operations that an instruction stands for: several, if it is merged."""
        before, _, merged = self.written(name).partition("/(")
        outer = _numbers(before)
        if ":" not in merged:
            merged = ""
            outer = _numbers(self.written(name))
        paths = [(*outer, *_numbers(part)) for part in merged.split(":")]
        return [path for path in dict.fromkeys(paths) if path]


def _numbers(name: str) -> Scopes:
    return tuple(map(int, _NUMBER.findall(name)))


def _type_end(line: str) -> int:
    """Where the type ends with which an instruction's line begins: tuples have spaces in them."""
    return _closing(line, 0) + 1 if line.startswith("(") else line.index(" ")


def _closing(line: str, start: int) -> int:
    """The place of the bracket that closes the one at a place."""
    depth = 0
    for i in range(start, len(line)):
        depth += (line[i] == "(") - (line[i] == ")")
        if not depth:
            return i
    return len(line)


def _bytes(type: str) -> int:
    """The size of an array, or of all in a tuple, given the text of the type."""
    total = 0
    for name, bits, lengths in _ARRAY.findall(type):
        count = math.prod(int(n) for n in lengths.split(",") if n)
        total += count if name == "pred" else count * int(bits) // 8
    return total
