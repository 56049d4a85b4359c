"""What a code object says of itself: which variables it reads and how, which it writes, its form.

Bytecode is read rather than source, which need not be there.
"""

from __future__ import annotations

import dis
import sys
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import CodeType
from typing import Literal, NamedTuple

from graphc.capture.plain import form_of

__all__ = ["CALL", "Facts", "Names", "Variable", "Write", "facts_of", "line_of"]

CALL = "__call__"

Names = tuple[str, ...]
"""The attributes read one after the other; none where the object is used as a whole."""


class Variable(NamedTuple):
    """A variable that a function finds, rather than makes."""

    kind: Literal["cell", "global", "argument", "default"]
    name: str


class Write(NamedTuple):
    """A variable that is written to, or what is reached from it: how, and on which line."""

    path: Names
    how: str
    line: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What can be known of a code object, and of those nested in it, without running it.

    Attributes:
        form: A digest of what it does: equal forms compute the same from equal captures.
        reads: How each variable is used.
        writes: What is written to.
        names: Every attribute read of anything, and every word among its constants.
    """

    form: str
    reads: Mapping[Variable, tuple[Names, ...]]
    writes: Mapping[Variable, Write]
    names: frozenset[str]


_known: dict[int, tuple[weakref.ref[CodeType], Facts]] = {}


def facts_of(code: CodeType) -> Facts:
    """The facts of a code object, worked out once."""
    entry = _known.get(id(code))
    if entry is not None and entry[0]() is code:
        return entry[1]
    facts = _facts(code)
    place = id(code)
    _known[place] = weakref.ref(code, lambda _: _known.pop(place, None)), facts
    return facts


def line_of(code: CodeType, line: int | None = None) -> str:
    """``file:line`` of a function, or of a line in it."""
    return f"{Path(code.co_filename).name}:{line or code.co_firstlineno}"


def form(code: CodeType) -> str:
    """A digest of what the code does; neither its place in a file nor its qualified name counts.

    Constants count by type and bits: Python's own comparison of 1, 1.0 and True is not asked.
    """
    whole = blake2b(digest_size=20)
    for part in (
        *(code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        *(code.co_flags, code.co_code, code.co_names, code.co_varnames, code.co_cellvars),
        *(code.co_freevars, getattr(code, "co_exceptiontable", b"")),
    ):
        whole.update(repr(part).encode() + b"\n")
    for constant in code.co_consts:
        whole.update(_constant(constant).encode() + b"\n")
    return whole.hexdigest()


def _constant(value: object) -> str:
    if isinstance(value, CodeType):
        return f"code {form(value)}"
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_constant, value)))}}}"
    return form_of(value) or f"{type(value).__qualname__} at {id(value)}"


def _facts(code: CodeType) -> Facts:
    reads: dict[Variable, set[Names]] = defaultdict(set)
    writes: dict[Variable, Write] = {}
    names: set[str] = set()
    arguments = code.co_argcount + code.co_kwonlyargcount
    mine = {name: Variable("cell", name) for name in code.co_freevars}
    mine |= {name: Variable("argument", name) for name in code.co_varnames[:arguments]}
    waiting = [(code, mine)]
    while waiting:
        here, known = waiting.pop()
        # A nested function's free variables are those of the function around it, by name.
        waiting += [
            (inner, {name: known[name] for name in inner.co_freevars if name in known})
            for inner in here.co_consts
            if isinstance(inner, CodeType)
        ]
        names.update(x for x in here.co_consts if isinstance(x, str) and x.isidentifier())
        scan = _Scan(here, known)
        for variable, path in scan.reads():
            reads[variable].add(path)
            names.update(path)
        for variable, write in scan.writes():
            writes.setdefault(variable, write)
        names.update(here.co_names)
    return Facts(
        form(code),
        {v: tuple(sorted(paths)) for v, paths in reads.items()},
        writes,
        frozenset(names),
    )


GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
STORES = frozenset({"STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL", "DELETE_GLOBAL"})
BOTH = frozenset({"BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "IS_OP", "CONTAINS_OP"})
"""What takes the two topmost values and leaves one."""

ITEM = {"STORE_SUBSCR": 2, "DELETE_SUBSCR": 2, "STORE_SLICE": 3}
"""What writes to a part of a value, with how many values there are from that one upwards."""


class _Scan:
    """One code object's instructions, read from top to bottom."""

    def __init__(self, code: CodeType, known: Mapping[str, Variable]) -> None:
        self.steps = [x for x in dis.get_instructions(code) if x.opname != "EXTENDED_ARG"]
        self.known = known
        self.lines = _lines(self.steps, code.co_firstlineno)

    def reads(self) -> Iterator[tuple[Variable, Names]]:
        for i, variable in self.loads():
            path, after = self.path(i)
            yield variable, (CALL,) if not path and self.is_called(after) else path

    def writes(self) -> Iterator[tuple[Variable, Write]]:
        for i, step in enumerate(self.steps):
            if step.opname in STORES:
                variable = self.variable(step.opname, step.argval)
                if variable is not None and variable.kind != "argument":
                    yield variable, Write((), "is written to", self.lines[i])
        for i, variable in self.loads():
            path, after = self.path(i)
            attribute = self.attribute_written(after)
            if attribute is not None:
                yield variable, Write((*path, attribute), "is written to", self.lines[i])
            elif self.is_item_written(after):
                yield variable, Write(path, "is changed in place", self.lines[i])

    def loads(self) -> Iterator[tuple[int, Variable]]:
        for i, step in enumerate(self.steps):
            if step.opname in GLOBALS or step.opname.startswith(("LOAD_DEREF", "LOAD_CLASSDEREF")):
                variable = self.variable(step.opname, step.argval)
                if variable is not None:
                    yield i, variable
            elif step.opname.startswith("LOAD_FAST") or step.opname == "LOAD_FROM_DICT_OR_DEREF":
                # From 3.13 on one instruction may load two; the last one is on top.
                loaded = step.argval if isinstance(step.argval, tuple) else (step.argval,)
                yield from ((i, self.known[name]) for name in loaded if name in self.known)

    def variable(self, opname: str, name: str) -> Variable | None:
        if opname in GLOBALS or opname.endswith("_GLOBAL"):
            return Variable("global", name)
        return self.known.get(name)

    def path(self, i: int) -> tuple[Names, int]:
        """The attributes read right after a load, and where the next instruction stands."""
        names: list[str] = []
        i += 1
        while i < len(self.steps) and self.steps[i].opname in ("LOAD_ATTR", "LOAD_METHOD"):
            step = self.steps[i]
            names.append(step.argval)
            i += 1
            if step.opname == "LOAD_METHOD" or "NULL|self" in step.argrepr:
                return (*names, CALL), i
        return tuple(names), i

    def is_called(self, i: int) -> bool:
        """Whether what the instruction before put on top is called, rather than passed on."""
        step, above = self.consumer(i)
        if step is None or not step.opname.startswith("CALL"):
            return False
        if step.opname == "CALL_FUNCTION_EX":
            return above >= 2
        arguments = 0 if sys.version_info < (3, 12) else step.arg or 0
        return above - arguments in (1, 2)  # a NULL stands below it, from 3.13 on above it

    def attribute_written(self, i: int) -> str | None:
        """``x.name = ...`` or ``x.name += ...``, of what the instruction before put on top."""
        step = self.steps[i]
        if step.opname in ("STORE_ATTR", "DELETE_ATTR"):
            return str(step.argval)
        if step.opname != "COPY" or step.arg != 1 or self.steps[i + 1].opname != "LOAD_ATTR":
            return None
        name = self.steps[i + 1].argval
        later = zip(self.steps[i:], self.steps[i + 1 :], strict=False)
        stored = any(
            a.opname == "SWAP" and b.opname == "STORE_ATTR" and b.argval == name for a, b in later
        )
        return str(name) if stored else None

    def is_item_written(self, i: int) -> bool:
        """``x[...] = ...``, ``x[...] += ...`` or ``del x[...]``, of what was put on top before."""
        step, above = self.consumer(i)
        if step is None:
            return False
        return (step.opname == "COPY" and above > 1) or above == ITEM.get(step.opname)

    def consumer(self, i: int) -> tuple[dis.Instruction | None, int]:
        """What takes the value on top, and how many there are from it upwards by then."""
        above = 1
        for step in self.steps[i:]:
            name = step.opname
            if step.opcode in dis.hasjrel:
                break
            after = above + dis.stack_effect(step.opcode, step.arg, jump=False)
            first = name in ITEM or (name == "COPY" and above == step.arg)
            if first or after < 1 or (name in BOTH and above == 2):
                return step, above
            above = after
        return None, above


def _lines(steps: Sequence[dis.Instruction], first: int) -> list[int]:
    lines = []
    for step in steps:
        position = step.positions
        first = (position and position.lineno) or first
        lines.append(first)
    return lines
