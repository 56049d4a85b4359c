"""Analysis of bytecode: the variables that code reads and writes, its digest, its expressions.

Bytecode is always available; source need not be.
"""

from __future__ import annotations

import dis
import re
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from types import CodeType
from typing import Any, Literal, NamedTuple

from graphc.capture.identity import value_key

CALL = "__call__"

AttributePath = tuple[str, ...]
"""A path of attributes; empty if the object itself is used."""


class Variable(NamedTuple):
    """A variable that a function reads from outside."""

    kind: Literal["cell", "global", "argument", "default"]
    name: str


class Write(NamedTuple):
    """A write to a variable, or to an object reached from it: how, and on which line."""

    path: AttributePath
    how: str
    line: int


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """The facts of a code object and its nested ones, from static analysis.

    Attributes:
        digest: A digest of the code: equal ones compute the same from equal captured values.
        reads: By variable, the attribute paths that are read.
        writes: The variables that are written to.
        names: The names of all attributes that are read, and all identifiers among its constants.
    """

    digest: str
    reads: Mapping[Variable, tuple[AttributePath, ...]]
    writes: Mapping[Variable, Write]
    names: frozenset[str]


_cache: dict[int, tuple[weakref.ref[CodeType], CodeFacts]] = {}


def code_facts(code: CodeType) -> CodeFacts:
    """Return the facts of a code object, which are cached."""
    entry = _cache.get(id(code))
    if entry is not None and entry[0]() is code:
        return entry[1]
    facts = _facts(code)
    key = id(code)
    _cache[key] = weakref.ref(code, lambda _: _cache.pop(key, None)), facts
    return facts


def line_of(code: CodeType, line: int | None = None) -> str:
    """Return ``file:line`` of a function, or of a line in it."""
    return f"{Path(code.co_filename).name}:{line or code.co_firstlineno}"


def _digest(code: CodeType) -> str:
    """Return a digest of code, independent of its position in a file and its qualified name.

    Constants enter by type and bits, as Python's equality does not distinguish 1, 1.0 and True.
    """
    digest = blake2b(digest_size=20)
    for part in (
        *(code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        *(code.co_flags, code.co_code, code.co_names, code.co_varnames, code.co_cellvars),
        *(code.co_freevars, getattr(code, "co_exceptiontable", b"")),
    ):
        digest.update(repr(part).encode() + b"\n")
    for constant in code.co_consts:
        digest.update(_constant(constant).encode() + b"\n")
    return digest.hexdigest()


def _constant(value: object) -> str:
    if isinstance(value, CodeType):
        return f"code {_digest(value)}"
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_constant, value)))}}}"
    return value_key(value) or f"{type(value).__qualname__} at {id(value)}"


def _facts(code: CodeType) -> CodeFacts:
    reads: dict[Variable, set[AttributePath]] = defaultdict(set)
    writes: dict[Variable, Write] = {}
    names: set[str] = set()
    arguments = code.co_argcount + code.co_kwonlyargcount
    variables_of_code = {name: Variable("cell", name) for name in code.co_freevars}
    variables_of_code |= {name: Variable("argument", name) for name in code.co_varnames[:arguments]}
    waiting = [(code, variables_of_code)]
    while waiting:
        here, variables = waiting.pop()
        # A nested function's free variables are those of the function around it, by name.
        waiting += [
            (inner, {name: variables[name] for name in inner.co_freevars if name in variables})
            for inner in here.co_consts
            if isinstance(inner, CodeType)
        ]
        names.update(x for x in here.co_consts if isinstance(x, str) and x.isidentifier())
        scan = _Instructions(here, variables)
        for variable, path in scan.reads():
            reads[variable].add(path)
            names.update(path)
        for variable, write in scan.writes():
            writes.setdefault(variable, write)
        names.update(here.co_names)
    return CodeFacts(
        _digest(code),
        {v: tuple(sorted(paths)) for v, paths in reads.items()},
        writes,
        frozenset(names),
    )


GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
LOADS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
STORES = frozenset({"STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL", "DELETE_GLOBAL"})
ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
OPERATORS = frozenset({
    *("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "IS_OP", "CONTAINS_OP"),
    *("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_NOT", "GET_ITER"),
})  # fmt: skip
"""Operators, which replace the topmost values by one, as calls do."""

ITEM = {"STORE_SUBSCR": 2, "DELETE_SUBSCR": 2, "STORE_SLICE": 3}
"""Instructions that write to an item, with the position of the object on the stack."""


class _Instructions:
    """The instructions of one code object, in order."""

    def __init__(self, code: CodeType, known: Mapping[str, Variable]) -> None:
        self.steps = [x for x in _instructions(code) if x.opname != "EXTENDED_ARG"]
        self.known = known
        self.lines = _lines(self.steps, code.co_firstlineno)

    def reads(self) -> Iterator[tuple[Variable, AttributePath]]:
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
            attribute = self.written_attribute(after)
            if attribute is not None:
                yield variable, Write((*path, attribute), "is written to", self.lines[i])
            elif self.is_item_written(after):
                yield variable, Write(path, "is changed in place", self.lines[i])

    def loads(self) -> Iterator[tuple[int, Variable]]:
        for i, step in enumerate(self.steps):
            if self.is_of_super(i):
                continue
            if step.opname in GLOBALS or step.opname.startswith(LOADS):
                variable = self.variable(step.opname, step.argval)
                if variable is not None:
                    yield i, variable

    def is_of_super(self, i: int) -> bool:
        """Return whether ``super().name`` loads its object here, which the walk captures."""
        around = self.steps[i - 1 : i + 2] if i else ()
        return (
            len(around) == 3
            and around[0].argval == "__class__"
            and around[2].opname == "LOAD_SUPER_ATTR"
        )

    def variable(self, opname: str, name: str) -> Variable | None:
        if opname in GLOBALS or opname.endswith("_GLOBAL"):
            return Variable("global", name)
        return self.known.get(name)

    def path(self, i: int) -> tuple[AttributePath, int]:
        """Return the attributes read right after a load, and the index of the next instruction."""
        names: list[str] = []
        i += 1
        while i < len(self.steps) and self.steps[i].opname in ATTRIBUTES:
            step = self.steps[i]
            names.append(step.argval)
            i += 1
            if step.opname == "LOAD_METHOD" or "NULL|self" in step.argrepr:
                return (*names, CALL), i
        return tuple(names), i

    def is_called(self, i: int) -> bool:
        """Return whether the value on top of the stack is called, not passed on."""
        step, above = _consumer(self.steps, i)
        # The function is below all arguments; from Python 3.13 on a NULL is between them.
        return step is not None and step.opname in CALLS and above + _stack_effect(step) in (0, 1)

    def written_attribute(self, i: int) -> str | None:
        """Return the attribute in ``x.name = ...`` or ``x.name += ...``, with x on top."""
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
        """Return whether ``x[...]`` is set, updated or deleted, with x on top."""
        step, above = _consumer(self.steps, i)
        if step is None:
            return False
        return (step.opname == "COPY" and above > 1) or above == ITEM.get(step.opname)


def _consumer(steps: Sequence[dis.Instruction], i: int) -> tuple[dis.Instruction | None, int]:
    """Return the instruction that takes the value on top, and the value's position by then."""
    above = 1
    for step in islice(steps, i, None):
        name = step.opname
        if step.opcode in dis.hasjrel:
            break
        after = above + _stack_effect(step)
        first = name in ITEM or (name == "COPY" and above == step.arg)
        if first or after < (2 if name in OPERATORS | CALLS else 1):
            return step, above
        above = after
    return None, above


def _stack_effect(step: dis.Instruction) -> int:
    return dis.stack_effect(step.opcode, step.arg, jump=False)


LOCAL = re.compile("(?:LOAD|STORE)_FAST(?:_BORROW)?")
"""Loads and stores of local variables; from Python 3.13 on an instruction may do two of these."""


def _instructions(code: CodeType) -> list[dis.Instruction]:
    """Return the instructions of a code object, with a double load or store as two of them.

    The first has the position of the double instruction. The second gets the position of the
    instruction that takes its value, so that it belongs to the same expression.
    """
    steps: list[dis.Instruction] = []
    seconds: list[int] = []
    for step in dis.get_instructions(code):
        names = LOCAL.findall(step.opname)
        if len(names) < 2:
            steps.append(step)
            continue
        for name, variable in zip(names, step.argval, strict=True):
            part = {"opname": name, "opcode": dis.opmap[name], "argval": variable}
            steps.append(step._replace(**part, argrepr=variable))
        seconds.append(len(steps) - 1)
    for i in seconds:
        after = steps[i + 1]
        consumer = after if after.opname in ATTRIBUTES else _consumer(steps, i + 1)[0]
        if consumer is not None:
            steps[i] = steps[i]._replace(positions=consumer.positions)
    return steps


def _lines(steps: Sequence[dis.Instruction], first: int) -> list[int]:
    lines = []
    for step in steps:
        position = step.positions
        first = (position and position.lineno) or first
        lines.append(first)
    return lines


# The expression of one instruction.


@dataclass(frozen=True)
class AttributeChain:
    """A variable that an expression reads, with a chain of attributes and items.

    Attributes:
        load: The name of the instruction that reads the variable.
        root: The variable.
        path: Pairs: ``"."`` and an attribute's name, or ``"["`` and an item's key.
    """

    load: str
    root: str
    path: tuple[tuple[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """The source text."""
        accesses = [f".{key}" if how == "." else f"[{key!r}]" for how, key in self.path]
        return self.root + "".join(accesses)


READS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME")
SILENT = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PUSH_NULL", "PRECALL", "RESUME"})


def chains(code: CodeType, offset: int) -> Iterator[AttributeChain]:
    """Yield the variables that the expression of an instruction reads, in order."""
    chain: AttributeChain | None = None
    key: Any = None
    for step in _expression(code, offset):
        name = step.opname
        if name.startswith(READS):
            yield from [chain] if chain is not None else []
            chain, key = AttributeChain(name, step.argval), None
        elif name == "LOAD_CONST":
            key = step.argval
        elif chain is not None and name == "LOAD_ATTR" and "NULL" not in step.argrepr:
            chain = AttributeChain(chain.load, chain.root, (*chain.path, (".", step.argval)))
        elif chain is not None and _is_item(step) and isinstance(key, str | int):
            chain = AttributeChain(chain.load, chain.root, (*chain.path, ("[", key)))
        elif chain is not None and name not in SILENT:
            yield chain
            chain = None
    yield from [chain] if chain is not None else []


def _is_item(step: dis.Instruction) -> bool:
    return step.opname == "BINARY_SUBSCR" or (
        step.opname == "BINARY_OP" and step.argrepr.startswith("[")
    )


def _expression(code: CodeType, offset: int) -> Iterator[dis.Instruction]:
    """Yield the instructions of an expression, or of its lines if columns are unknown."""
    line, last, column, end = span(code, offset)
    if line is None:
        return
    for step in _instructions(code):
        spot: Any = step.positions
        if spot is None or spot.lineno is None:
            continue
        if column is None or spot.col_offset is None:
            inside = line <= spot.lineno <= last
        else:
            first, final = (spot.lineno, spot.col_offset), (spot.end_lineno, spot.end_col_offset)
            inside = (line, column) <= first and final <= (last, end)
        if inside:
            yield step


def span(code: CodeType, offset: int) -> tuple[Any, ...]:
    """Return first and last line, first and last column of an expression, or Nones."""
    return next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
