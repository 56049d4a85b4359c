"""What the expression of an instruction reads, and how it is written."""

from __future__ import annotations

import dis
import linecache
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

__all__ = ["MISSING", "Chain", "chains", "source"]

MISSING: Any = object()
"""Stands for a value that is not known."""


@dataclass(frozen=True)
class Chain:
    """A variable that an expression reads, and the attributes and items of it.

    Attributes:
        load: How the variable is read: the name of the instruction.
        root: The variable.
        path: Names of attributes, or items in brackets.
    """

    load: str
    root: str
    path: tuple[tuple[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """As it is written."""
        parts = [f".{key}" if how == "." else f"[{key!r}]" for how, key in self.path]
        return self.root + "".join(parts)

    def follow(self, value: Any) -> Any:
        """The chain's value, given its root's; nothing of the user's is run for it."""
        for how, key in self.path:
            if how == ".":
                value = _attribute(value, key)
            elif type(value) in {dict, list, tuple}:
                try:
                    value = value[key]
                except (LookupError, TypeError):
                    return MISSING
            else:
                return MISSING
            if value is MISSING:
                break
        return value


def _attribute(value: Any, name: str) -> Any:
    """An attribute that is stored, in an object or its class."""
    own = getattr(value, "__dict__", None)
    if isinstance(own, Mapping) and name in own:
        return own[name]
    for cls in type(value).__mro__:
        if name in vars(cls):
            found = vars(cls)[name]
            slot = type(found).__name__ == "member_descriptor"
            return getattr(value, name, MISSING) if slot else found
    return MISSING


def _span(code: CodeType, offset: int) -> tuple[Any, ...]:
    """First and last line and column of an instruction's expression."""
    for i, span in enumerate(code.co_positions()):
        if i == offset // 2:
            return span
    return (None,) * 4


def chains(code: CodeType, offset: int) -> Iterator[Chain]:
    """The variables that the expression of an instruction reads, in order."""
    chain: Chain | None = None
    key: Any = MISSING
    for step in _steps(code, offset):
        name, roots = step.opname, _roots(step)
        if roots:
            yield from [chain] if chain is not None else []
            yield from (Chain(name, root) for root in roots[:-1])
            chain, key = Chain(name, roots[-1]), MISSING
        elif name == "LOAD_CONST":
            key = step.argval
        elif chain is not None and name == "LOAD_ATTR" and "NULL" not in step.argrepr:
            chain = Chain(chain.load, chain.root, (*chain.path, (".", step.argval)))
        elif chain is not None and _is_item(step) and isinstance(key, str | int):
            chain = Chain(chain.load, chain.root, (*chain.path, ("[", key)))
        elif chain is not None and name not in SILENT:
            yield chain
            chain = None
    yield from [chain] if chain is not None else []


SILENT = {"CACHE", "EXTENDED_ARG", "NOP", "PUSH_NULL", "PRECALL", "RESUME"}


def _roots(step: dis.Instruction) -> tuple[str, ...]:
    """The variables that an instruction reads."""
    if not step.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME")):
        return ()
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


def _is_item(step: dis.Instruction) -> bool:
    return step.opname == "BINARY_SUBSCR" or (
        step.opname == "BINARY_OP" and step.argrepr.startswith("[")
    )


def _steps(code: CodeType, offset: int) -> Iterator[dis.Instruction]:
    """The instructions of the expression of one; of its lines, where columns are not known."""
    line, last, column, end = _span(code, offset)
    if line is None:
        return
    for step in dis.get_instructions(code):
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


def source(code: CodeType, offset: int) -> str:
    """The expression of an instruction as it is written, or nothing."""
    line, last, column, end = _span(code, offset)
    if line is None or column is None:
        return ""
    lines = [linecache.getline(code.co_filename, i) for i in range(line, last + 1)]
    if not all(lines):
        return ""
    # Columns are counted in bytes.
    coded = [text.encode() for text in lines]
    coded[-1] = coded[-1][:end]
    coded[0] = coded[0][column:]
    return re.sub(r"\s+", " ", b"".join(coded).decode(errors="replace")).strip()
