"""What the user calls a value that a graph holds, and where that variable lives.

A node knows the instruction that made it. The names which that instruction's expression reads are
looked up where the user's frames are still there, and in functions that can be reached from these;
an array is matched by identity, a number by its value. Where nothing is certain, the expression
itself is told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from graphc.compile.recompile.expression import MISSING, Chain, chains, source
from graphc.compile.recompile.place import variables
from graphc.ir import Constant, Leaf, Node, Site, where

__all__ = ["Name", "name_of", "title_of"]

LONGEST = 60
"""How much of an expression is told."""

REACHED = 2000
"""How many values are looked at in search of a function."""


@dataclass(frozen=True)
class Name:
    """What the user calls a value.

    Attributes:
        text: A variable, an attribute, or the expression that reads it; empty if not known.
        home: Where it lives, with the line that reads it.
        is_sure: Whether that is the value itself; it may be what that is computed from.
        is_variable: Whether the text is a variable's, and not an expression's.
    """

    text: str
    home: str
    is_sure: bool = True
    is_variable: bool = True

    def __str__(self) -> str:
        return f"`{self.text}` ({self.home})" if self.text else f"({self.home})"


def name_of(
    node: Node,
    user: Node | None,
    value: Any,
    frames: Sequence[FrameType],
    inputs: Iterable[str] = (),
) -> Name | None:
    """What the user calls a value; None if not even a line is known.

    Args:
        node: What holds the value: a constant, a leaf, or an operation with a parameter.
        user: The node that takes it.
        value: The constant's or the parameter's; of a leaf, the array.
        frames: The user's, the innermost first.
        inputs: The names of the graph's inputs, which such a value is not.
    """
    found = [_Line(site, frames) for site in _sites(node, user)]
    if not found:
        return None
    given = node.op.given_name if isinstance(node.op, Leaf) else None
    if given:
        return Name(given, found[0].at)
    certain = _itself(found, node, value)
    if certain is None and isinstance(node.op, Constant):
        # An equal number may be of another line; an array is one alone.
        certain = _on_the_way(node, value, frames)
    guess = certain or _guess(found[0], set(inputs))
    return guess if guess.is_variable else _on_the_way(node, value, frames) or guess


def _itself(lines: Sequence[_Line], node: Node, value: Any) -> Name | None:
    """The variable that has the value, or of an array what holds it."""
    for line in lines:
        for chain in line.chains:
            if _is_it(line.value(chain), value, node):
                return Name(chain.text, line.home(chain))
    for chain in lines[0].chains if isinstance(node.op, Leaf) else ():
        if _holds(lines[0].value(chain), value):
            return Name(chain.text, lines[0].home(chain), is_sure=False)
    return None


def _sites(node: Node, user: Node | None) -> list[Site]:
    """The lines that may have the value, the likeliest first."""
    nodes = [x for x in (node, user) if x is not None]
    if isinstance(node.op, Constant):
        nodes.reverse()  # Equal constants are one node, which another line may have made first.
    return list(dict.fromkeys(x.site for x in nodes if x.site is not None))


def _holds(found: Any, array: Any) -> bool:
    """Whether an array is among a container's values, or a part of another one."""
    if _is(found, np.ndarray):
        return isinstance(array, np.ndarray) and np.may_share_memory(found, array)
    if _is(found, dict):
        found = list(found.values())
    return _is(found, list, tuple) and any(each is array for each in found[:REACHED])


def _on_the_way(node: Node, value: Any, frames: Sequence[FrameType]) -> Name | None:
    """The only variable of that value in the code that is running.

    An equal node may have been made before, by other code, and tell of that. Numbers are looked for
    in the innermost function alone, as others may be equal by chance.
    """
    if not isinstance(node.op, Constant | Leaf):
        return None
    whole = isinstance(node.op, Leaf)
    for frame in frames if whole else frames[:1]:
        local = variables(frame)
        names = [
            x for x, found in local.items() if found is value or (not whole and _like(found, value))
        ]
        if len(names) == 1:
            line = _Line((frame.f_code, frame.f_lasti), frames)
            return Name(names[0], line.home(Chain("LOAD_NAME", names[0])))
    return None


def _like(found: Any, value: Any) -> bool:
    """Whether a number is equal and of the same kind."""
    if not _is(found, *NUMBERS, np.generic):
        return False
    return np.asarray(found).dtype.kind == value.dtype.kind and _equal(found, value)


def _guess(line: _Line, inputs: set[str]) -> Name:
    """The only variable that the value may come from, or the expression that has it."""
    left = [chain for chain in line.chains if line.may_be(chain, inputs)]
    if len(left) > 1:  # Arguments are symbolic more often than what a function has from outside.
        left = [chain for chain in left if chain.root not in _arguments(line.code)]
    if len(left) == 1:
        return Name(left[0].text, line.home(left[0]), is_sure=line.takes(left[0]))
    text = line.text
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    return Name(text, line.at, is_sure=False, is_variable=False)


COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


def title_of(code: CodeType) -> str:
    """What a message calls the code of a function or a module."""
    names = code.co_qualname.split(".<locals>.")
    while names and names[-1] in COMPREHENSIONS:
        names.pop()
    if not names or names[-1] == "<module>":
        return Path(code.co_filename).name
    return names[-1]


def _is(value: Any, *kinds: type) -> bool:
    """Whether it is of a class, without running anything of its own."""
    return issubclass(type(value), kinds)


def _is_it(found: Any, value: Any, node: Node) -> bool:
    """Whether a variable's value is the one that the graph holds."""
    if not isinstance(node.op, Constant | Leaf):
        return _within(found, value)
    if found is value or found is node:
        return True
    if found is MISSING or _is(found, Node):
        return False
    # An array that was given as another library's, as a list or in another dtype was copied.
    if _is(found, *NUMBERS) or hasattr(type(found), "__array__"):
        return _equal(found, value)
    return bool(value.ndim) and _is(found, list, tuple) and _equal(found, value)


NUMBERS = (bool, int, float, complex)
COMPARED = 100_000
"""Larger arrays are not compared by value."""


def _equal(found: Any, value: Any) -> bool:
    try:
        given, wanted = np.asarray(found), np.asarray(value)
        if given.shape != wanted.shape or wanted.size > COMPARED:
            return False
        return bool(np.array_equal(given.astype(wanted.dtype), wanted))
    except (TypeError, ValueError, OverflowError):
        return False


def _within(found: Any, value: Any) -> bool:
    """Whether a number is among those that a parameter consists of."""
    if isinstance(value, tuple):
        return any(_within(found, part) for part in value)
    if hasattr(value, "__dataclass_fields__"):
        return any(_within(found, getattr(value, name)) for name in value.__dataclass_fields__)
    if isinstance(value, bool) or _is(found, bool):
        return found is value
    plain = _is(found, int, float, np.generic) and isinstance(value, int | float)
    return plain and bool(found == value)


class _Line:
    """The expression at a site, and what the names in it stand for."""

    def __init__(self, site: Site, frames: Sequence[FrameType]) -> None:
        self.code, self.offset = site
        self.at = where(site) or ""
        self._frame = next((frame for frame in frames if frame.f_code is self.code), None)
        self._local = variables(self._frame) if self._frame is not None else {}
        self._frames = frames
        self._function = None if self._frame else _reached(self.code, frames)
        self.chains = list(dict.fromkeys(chains(*site)))

    @property
    def text(self) -> str:
        """The expression as it is written."""
        return source(self.code, self.offset)

    def value(self, chain: Chain) -> Any:
        """What it is worth, as far as that is known."""
        root = self._root(chain)
        return root if root is MISSING else chain.follow(root)

    def _root(self, chain: Chain) -> Any:
        name = chain.root
        if name in self._local:
            return self._local[name]
        if chain.load in {"LOAD_GLOBAL", "LOAD_NAME"}:
            return self._globals().get(name, MISSING)
        if self._function is not None:
            return _held(self._function, name)
        if name in self.code.co_freevars:
            around = (frame for frame in self._frames if self.code in frame.f_code.co_consts)
            found = next(around, None)
            return MISSING if found is None else variables(found).get(name, MISSING)
        return MISSING

    def _globals(self) -> Mapping[str, Any]:
        if self._frame is not None:
            return self._frame.f_globals
        if self._function is not None:
            return dict(_plain(self._function).__globals__)
        file = self.code.co_filename
        known = (frame.f_globals for frame in self._frames if frame.f_code.co_filename == file)
        return next(known, {})

    def may_be(self, chain: Chain, inputs: set[str]) -> bool:
        """Whether the value may come from there, as far as can be told."""
        root, found = self._root(chain), self.value(chain)
        if found is MISSING:
            return chain.text not in inputs and chain.load not in {"LOAD_GLOBAL", "LOAD_NAME"}
        if _is(root, ModuleType):
            return False
        return not callable(found) and not _is(found, Node, ModuleType, str)

    def takes(self, chain: Chain) -> bool:
        """Whether the expression takes the variable itself, and not what is computed from it."""
        try:
            tree = ast.parse(self.text, mode="eval").body
        except SyntaxError:
            return False
        return chain.text in {ast.unparse(part) for part in ast.iter_child_nodes(tree)}

    def home(self, chain: Chain) -> str:
        """Where the variable lives, with the line that reads it."""
        return f"{self._scope(chain)}, {self.at}"

    def _scope(self, chain: Chain) -> str:
        code, name = self.code, chain.root
        if chain.path:
            return f"{'attribute' if chain.path[-1][0] == '.' else 'item'} of {name}"
        title = title_of(code)
        if name in code.co_freevars:
            outer = code.co_qualname.split(".<locals>.")[:-1]
            return f"closure of {outer[-1] if outer else title}"
        if name in _arguments(code):
            return f"{self._kind_of_argument(name)} of {title}"
        is_local = name in (*code.co_varnames, *code.co_cellvars)
        return f"local of {title}" if is_local else f"global of {Path(code.co_filename).name}"

    def _kind_of_argument(self, name: str) -> str:
        function = self._function or _reached(self.code, self._frames)
        if isinstance(function, partial) and name in _bound(function):
            return "partial argument"
        if function is not None and name in _defaults(_plain(function)):
            value = _defaults(_plain(function))[name]
            if self._local.get(name, value) is value:
                return "default argument"
        return "argument"


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


# What can be reached.


def _reached(code: CodeType, frames: Sequence[FrameType]) -> Any:
    """A function, or a partial one, of that code, which the user's variables lead to."""
    seen: set[int] = set()
    waiting: list[Any] = []
    for frame in frames[:20]:
        waiting += variables(frame).values()
    left = REACHED
    found: Any = None
    while waiting and left:
        value = waiting.pop()
        left -= 1
        if id(value) in seen:
            continue
        seen.add(id(value))
        if not _is(value, FunctionType, MethodType, partial):
            value = _method(value, code)
        if getattr(_plain(value), "__code__", None) is code:
            found = value
            if isinstance(value, partial):
                return value
        waiting += _parts(value) if value is not None else ()
    return found


def _method(value: Any, code: CodeType) -> Any:
    """The method of that code that an object has, bound to it."""
    for cls in type(value).__mro__:
        found = vars(cls).get(code.co_name)
        if isinstance(found, FunctionType) and found.__code__ is code:
            return MethodType(found, value)
    return None


def _parts(value: Any) -> Iterator[Any]:
    """The functions that a function holds."""
    if isinstance(value, partial):
        yield value.func
        yield from value.args
        yield from value.keywords.values()
        return
    function = _plain(value)
    for cell in getattr(function, "__closure__", None) or ():
        yield from _content(cell)
    yield from getattr(function, "__defaults__", None) or ()


def _content(cell: Any) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:  # It is empty.
        return


def _plain(value: Any) -> Any:
    """The function itself, behind what is bound to it."""
    while isinstance(value, partial | MethodType):
        value = value.func if isinstance(value, partial) else value.__func__
    return value


def _held(function: Any, name: str) -> Any:
    """What a function has for one of its names before it is called."""
    if isinstance(function, partial) and name in (bound := _bound(function)):
        return bound[name]
    if isinstance(function, MethodType) and name == function.__code__.co_varnames[0]:
        return function.__self__
    plain = _plain(function)
    free = plain.__code__.co_freevars
    if name in free:
        return next(_content(plain.__closure__[free.index(name)]), MISSING)
    return _defaults(plain).get(name, MISSING)


def _bound(function: partial[Any]) -> dict[str, Any]:
    code = _plain(function).__code__
    return dict(zip(code.co_varnames, function.args, strict=False)) | function.keywords


def _defaults(function: Any) -> dict[str, Any]:
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})
