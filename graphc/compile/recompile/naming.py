"""The names of values in the user's source code, with the scopes of these variables.

A node has the instruction that made it. The names that the instruction's expression reads are
looked up in the user's frames on the stack, and in functions reachable from these; an array is
matched by identity, a number by its value. Without a certain match, the expression itself is shown.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from graphc.capture import code as bytecode
from graphc.capture.code import AttributeChain, chains
from graphc.capture.members import find
from graphc.compile.recompile.call_site import local_variables
from graphc.ir import Constant, Leaf, Node
from graphc.site import Site, where

MAX_LENGTH = 60
"""The most characters of an expression that are shown."""

MISSING: Any = object()
"""An unknown value."""
COMPUTED: Any = object()
"""The value of a property, which is not run."""

MAX_SEARCHED = 2000
"""The most values that are searched for a function."""


@dataclass(frozen=True)
class SourceName:
    """The name of a value in the user's source code.

    Attributes:
        text: A variable, an attribute, or the expression that reads it; empty if not known.
        scope: The scope of the variable, with the line that reads it.
        is_sure: Whether it names the value itself, not one that the value is computed from.
        is_variable: Whether the text is a variable, not an expression.
    """

    text: str
    scope: str
    is_sure: bool = True
    is_variable: bool = True

    def __str__(self) -> str:
        return f"`{self.text}` ({self.scope})" if self.text else f"({self.scope})"


def name_of(
    node: Node,
    user: Node | None,
    value: Any,
    frames: Sequence[FrameType],
    inputs: Iterable[str] = (),
) -> SourceName | None:
    """The source name of a value; None if not even its line is known.

    The value belongs to ``node``, a constant, a leaf, or an operation with a parameter, whose
    result ``user`` takes. ``frames`` are the user's, the innermost first, and ``inputs`` the names
    of the graph's inputs, which are excluded.
    """
    found = [_Expression(site, frames) for site in _sites(node, user)]
    if not found:
        return None
    given = node.op.given_name if isinstance(node.op, Leaf) else None
    if given:
        return SourceName(given, found[0].line)
    certain = _exact(found, node, value)
    if certain is None and isinstance(node.op, Constant):
        # An equal number may be of another line; an array is a single object.
        certain = _in_running_code(node, value, frames)
    guess = certain or _guess(found[0], set(inputs))
    return guess if guess.is_variable else _in_running_code(node, value, frames) or guess


def _exact(expressions: Sequence[_Expression], node: Node, value: Any) -> SourceName | None:
    """The variable that is the value, or contains the array."""
    for expression in expressions:
        for chain in expression.chains:
            if _is_value(expression.value(chain), value, node):
                return SourceName(chain.text, expression.scope(chain))
    first = expressions[0]
    for chain in first.chains if isinstance(node.op, Leaf) else ():
        if _contains(first.value(chain), value):
            return SourceName(chain.text, first.scope(chain), is_sure=False)
    return None


def _sites(node: Node, user: Node | None) -> list[Site]:
    """The sites of the expressions that may read the value, the likeliest first."""
    nodes = [x for x in (node, user) if x is not None]
    if isinstance(node.op, Constant):
        nodes.reverse()  # Equal constants are one node, which another line may have made first.
    return list(dict.fromkeys(x.site for x in nodes if x.site is not None))


def _contains(found: Any, array: Any) -> bool:
    """Whether a container has an array, or an array is a view of another one."""
    if _is(found, np.ndarray):
        return isinstance(array, np.ndarray) and np.may_share_memory(found, array)
    if _is(found, dict):
        found = list(found.values())
    return _is(found, list, tuple) and any(each is array for each in found[:MAX_SEARCHED])


def _in_running_code(node: Node, value: Any, frames: Sequence[FrameType]) -> SourceName | None:
    """The only variable of that value in the running code.

    Equal nodes are one object, and its site may be that of other code. Numbers are looked up in the
    innermost function only, as others may be equal by chance.
    """
    if not isinstance(node.op, Constant | Leaf):
        return None
    whole = isinstance(node.op, Leaf)
    for frame in frames if whole else frames[:1]:
        local = local_variables(frame)
        names = [
            x for x, found in local.items() if found is value or (not whole and _like(found, value))
        ]
        if len(names) == 1:
            expression = _Expression((frame.f_code, frame.f_lasti), frames)
            return SourceName(names[0], expression.scope(AttributeChain("LOAD_NAME", names[0])))
    return None


def _like(found: Any, value: Any) -> bool:
    """Whether a number is equal and of the same kind."""
    if not _is(found, *NUMBERS, np.generic):
        return False
    return np.asarray(found).dtype.kind == value.dtype.kind and _equal(found, value)


def _guess(expression: _Expression, inputs: set[str]) -> SourceName:
    """The only variable that the value may come from, or the whole expression."""
    left = [chain for chain in expression.chains if expression.may_be(chain, inputs)]
    if len(left) > 1:  # Arguments are symbolic more often than captured variables are.
        left = [chain for chain in left if chain.root not in _arguments(expression.code)]
    if len(left) == 1:
        scope = expression.scope(left[0])
        return SourceName(left[0].text, scope, is_sure=expression.takes(left[0]))
    text = expression.text
    text = text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 3]}..."
    return SourceName(text, expression.line, is_sure=False, is_variable=False)


COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


def title_of(code: CodeType) -> str:
    """The name of the code of a function or a module, as messages show it."""
    names = code.co_qualname.split(".<locals>.")
    while names and names[-1] in COMPREHENSIONS:
        names.pop()
    if not names or names[-1] == "<module>":
        return Path(code.co_filename).name
    return names[-1]


def _is(value: Any, *kinds: type) -> bool:
    """Whether a value is of a class; runs no code of the class."""
    return issubclass(type(value), kinds)


def _is_value(found: Any, value: Any, node: Node) -> bool:
    """Whether a variable's value is the value of a node."""
    if not isinstance(node.op, Constant | Leaf):
        return _within(found, value)
    if found is value or found is node:
        return True
    if found is MISSING or _is(found, Node):
        return False
    # An array of another library or dtype, or given as a list, was copied.
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
    """Whether a number is a part of a parameter."""
    if isinstance(value, tuple):
        return any(_within(found, part) for part in value)
    if hasattr(value, "__dataclass_fields__"):
        return any(_within(found, getattr(value, name)) for name in value.__dataclass_fields__)
    if isinstance(value, bool) or _is(found, bool):
        return found is value
    plain = _is(found, int, float, np.generic) and isinstance(value, int | float)
    return plain and bool(found == value)


class _Expression:
    """The expression at a site, and the values of its names."""

    def __init__(self, site: Site, frames: Sequence[FrameType]) -> None:
        self.code, self.offset = site
        self.line = where(site) or ""
        self._frame = next((frame for frame in frames if frame.f_code is self.code), None)
        self._local = local_variables(self._frame) if self._frame is not None else {}
        self._frames = frames
        self._function = None if self._frame else _find_function(self.code, frames)
        self.chains = list(dict.fromkeys(chains(*site)))

    @cached_property
    def text(self) -> str:
        """The expression's source text."""
        return _source(self.code, self.offset)

    def value(self, chain: AttributeChain) -> Any:
        """The value of a chain; ``MISSING`` where it is not known."""
        root = self._root(chain)
        return root if root is MISSING else _follow(chain, root)

    def _root(self, chain: AttributeChain) -> Any:
        name = chain.root
        if name in self._local:
            return self._local[name]
        if chain.load in {"LOAD_GLOBAL", "LOAD_NAME"}:
            return self._globals().get(name, MISSING)
        if self._function is not None:
            return _captured(self._function, name)
        if name in self.code.co_freevars:
            around = (frame for frame in self._frames if self.code in frame.f_code.co_consts)
            found = next(around, None)
            return MISSING if found is None else local_variables(found).get(name, MISSING)
        return MISSING

    def _globals(self) -> Mapping[str, Any]:
        if self._frame is not None:
            return self._frame.f_globals
        if self._function is not None:
            return dict(_unbound(self._function).__globals__)
        file = self.code.co_filename
        known = (frame.f_globals for frame in self._frames if frame.f_code.co_filename == file)
        return next(known, {})

    def may_be(self, chain: AttributeChain, inputs: set[str]) -> bool:
        """Whether the value may come from a chain."""
        root, found = self._root(chain), self.value(chain)
        if found is MISSING:
            return chain.text not in inputs and chain.load not in {"LOAD_GLOBAL", "LOAD_NAME"}
        if _is(root, ModuleType):
            return False
        return not callable(found) and not _is(found, Node, ModuleType, str)

    def takes(self, chain: AttributeChain) -> bool:
        """Whether a variable itself is an operand of the expression."""
        try:
            tree = ast.parse(self.text, mode="eval").body
        except SyntaxError:
            return False
        return chain.text in {ast.unparse(part) for part in ast.iter_child_nodes(tree)}

    def scope(self, chain: AttributeChain) -> str:
        """The scope of a variable, with the line that reads it."""
        return f"{self._scope(chain)}, {self.line}"

    def _scope(self, chain: AttributeChain) -> str:
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
        function = self._function or _find_function(self.code, self._frames)
        if isinstance(function, partial) and name in _bound(function):
            return "partial argument"
        if function is not None and name in _defaults(_unbound(function)):
            value = _defaults(_unbound(function))[name]
            if self._local.get(name, value) is value:
                return "default argument"
        return "argument"


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


# Functions reachable from the user's variables.


def _find_function(code: CodeType, frames: Sequence[FrameType]) -> Any:
    """A function, or a partial one, of a code object, among all that the user's variables reach."""
    seen: set[int] = set()
    waiting: list[Any] = []
    for frame in frames[:20]:
        waiting += local_variables(frame).values()
    left = MAX_SEARCHED
    found: Any = None
    while waiting and left:
        value = waiting.pop()
        left -= 1
        if id(value) in seen:
            continue
        seen.add(id(value))
        if not _is(value, FunctionType, MethodType, partial):
            value = _method(value, code)
        if getattr(_unbound(value), "__code__", None) is code:
            found = value
            if isinstance(value, partial):
                return value
        waiting += _parts(value) if value is not None else ()
    return found


def _method(value: Any, code: CodeType) -> Any:
    """An object's method with that code, bound."""
    for cls in type(value).__mro__:
        found = vars(cls).get(code.co_name)
        if isinstance(found, FunctionType) and found.__code__ is code:
            return MethodType(found, value)
    return None


def _parts(value: Any) -> Iterator[Any]:
    """The values in which a function may hold other functions."""
    if isinstance(value, partial):
        yield value.func
        yield from value.args
        yield from value.keywords.values()
        return
    function = _unbound(value)
    for cell in getattr(function, "__closure__", None) or ():
        yield from _content(cell)
    yield from getattr(function, "__defaults__", None) or ()


def _content(cell: Any) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:  # It is empty.
        return


def _unbound(value: Any) -> Any:
    """The function without bound arguments."""
    while isinstance(value, partial | MethodType):
        value = value.func if isinstance(value, partial) else value.__func__
    return value


def _captured(function: Any, name: str) -> Any:
    """The value of a function's name before it is called."""
    if isinstance(function, partial) and name in (bound := _bound(function)):
        return bound[name]
    if isinstance(function, MethodType) and name == function.__code__.co_varnames[0]:
        return function.__self__
    plain = _unbound(function)
    free = plain.__code__.co_freevars
    if name in free:
        return next(_content(plain.__closure__[free.index(name)]), MISSING)
    return _defaults(plain).get(name, MISSING)


def _bound(function: partial[Any]) -> dict[str, Any]:
    code = _unbound(function).__code__
    return dict(zip(code.co_varnames, function.args, strict=False)) | function.keywords


def _defaults(function: Any) -> dict[str, Any]:
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})


# Expressions.


def _follow(chain: AttributeChain, value: Any) -> Any:
    """The chain's value, given its root's; runs no code of the user's."""
    for how, key in chain.path:
        if how == ".":
            found = find(value, key)
            if found is None or found.how == "property":
                return MISSING if found is None else COMPUTED
            value = found.value
        elif type(value) in {dict, list, tuple}:
            try:
                value = value[key]
            except (LookupError, TypeError):
                return MISSING
        else:
            return MISSING
    return value


def _source(code: CodeType, offset: int) -> str:
    """The source text of an instruction's expression; empty where there is none."""
    line, last, column, end = bytecode.span(code, offset)
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
