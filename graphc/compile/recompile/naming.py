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
from functools import cached_property, partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from graphc.capture import code as bytecode
from graphc.capture.code import AttributeChain, chains
from graphc.capture.members import find
from graphc.compile.recompile.call_site import local_variables
from graphc.compile.recompile.difference import SourceName
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


def name_of(
    node: Node,
    user: Node | None,
    value: Any,
    frames: Sequence[FrameType],
    inputs: Iterable[str] = (),
) -> SourceName | None:
    """Return the source name of a value; None if not even its line is known.

    The value belongs to ``node``, a constant, a leaf, or an operation with a parameter, whose
    result ``user`` takes. ``frames`` are the user's, the innermost first, and ``inputs`` the names
    of the graph's inputs, which are excluded.
    """
    expressions = [_Expression(site, frames) for site in _sites(node, user)]
    if not expressions:
        return None
    name = node.op.given_name if isinstance(node.op, Leaf) else None
    if name:
        return SourceName(name, expressions[0].line)
    certain = _exact(expressions, node, value)
    if certain is None and isinstance(node.op, Constant):
        # An equal number may be of another line; an array is a single object.
        certain = _in_running_code(node, value, frames)
    guess = certain or _guess(expressions[0], set(inputs))
    return guess if guess.is_variable else _in_running_code(node, value, frames) or guess


def _exact(expressions: Sequence[_Expression], node: Node, value: Any) -> SourceName | None:
    """Return the variable that is the value, or contains the array."""
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
    """Return the sites of expressions that may read the value, the likeliest first."""
    nodes = [x for x in (node, user) if x is not None]
    if isinstance(node.op, Constant):
        nodes.reverse()  # Equal constants are one node, which another line may have made first.
    return list(dict.fromkeys(x.site for x in nodes if x.site is not None))


def _contains(candidate: Any, array: Any) -> bool:
    """Return whether a container has an array, or an array is a view of another one."""
    if _is(candidate, np.ndarray):
        return isinstance(array, np.ndarray) and np.may_share_memory(candidate, array)
    if _is(candidate, dict):
        candidate = list(candidate.values())
    return _is(candidate, list, tuple) and any(each is array for each in candidate[:MAX_SEARCHED])


def _in_running_code(node: Node, value: Any, frames: Sequence[FrameType]) -> SourceName | None:
    """Return the only variable of that value in the running code.

    Equal nodes are one object, and its site may be in other code. Numbers are looked up in the
    innermost function only, as others may be equal by chance.
    """
    if not isinstance(node.op, Constant | Leaf):
        return None
    is_leaf = isinstance(node.op, Leaf)
    for frame in frames if is_leaf else frames[:1]:
        local = local_variables(frame)
        names = [x for x, y in local.items() if y is value or (not is_leaf and _same(y, value))]
        if len(names) == 1:
            expression = _Expression((frame.f_code, frame.f_lasti), frames)
            return SourceName(names[0], expression.scope(AttributeChain("LOAD_NAME", names[0])))
    return None


def _same(candidate: Any, value: Any) -> bool:
    """Return whether a number is equal and of the same kind."""
    if not _is(candidate, *NUMBERS, np.generic):
        return False
    return np.asarray(candidate).dtype.kind == value.dtype.kind and _equal(candidate, value)


def _guess(expression: _Expression, inputs: set[str]) -> SourceName:
    """Return the only variable that the value may come from, or the expression."""
    fits = [chain for chain in expression.chains if expression.may_be(chain, inputs)]
    if len(fits) > 1:  # Arguments are symbolic more often than captured variables are.
        fits = [chain for chain in fits if chain.root not in _arguments(expression.code)]
    if len(fits) == 1:
        scope = expression.scope(fits[0])
        return SourceName(fits[0].text, scope, is_sure=expression.takes(fits[0]))
    text = expression.text
    text = text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 3]}..."
    return SourceName(text, expression.line, is_sure=False, is_variable=False)


COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


def title_of(code: CodeType) -> str:
    """Return the name of the code of a function or a module in messages."""
    names = code.co_qualname.split(".<locals>.")
    while names and names[-1] in COMPREHENSIONS:
        names.pop()
    if not names or names[-1] == "<module>":
        return Path(code.co_filename).name
    return names[-1]


def _is(value: Any, *kinds: type) -> bool:
    """Return whether a value is of a class; run no code of the class."""
    return issubclass(type(value), kinds)


def _is_value(candidate: Any, value: Any, node: Node) -> bool:
    if not isinstance(node.op, Constant | Leaf):
        return _within(candidate, value)
    if candidate is value or candidate is node:
        return True
    if candidate is MISSING or _is(candidate, Node):
        return False
    # An array of another library or dtype, or given as a list, was copied.
    if _is(candidate, *NUMBERS) or hasattr(type(candidate), "__array__"):
        return _equal(candidate, value)
    return bool(value.ndim) and _is(candidate, list, tuple) and _equal(candidate, value)


NUMBERS = (bool, int, float, complex)
COMPARED = 100_000
"""Larger arrays are not compared by value."""


def _equal(candidate: Any, value: Any) -> bool:
    try:
        array, wanted = np.asarray(candidate), np.asarray(value)
        if array.shape != wanted.shape or wanted.size > COMPARED:
            return False
        return bool(np.array_equal(array.astype(wanted.dtype), wanted))
    except (TypeError, ValueError, OverflowError):
        return False


def _within(number: Any, value: Any) -> bool:
    """Return whether a number is a part of a parameter."""
    if isinstance(value, tuple):
        return any(_within(number, part) for part in value)
    if hasattr(value, "__dataclass_fields__"):
        return any(_within(number, getattr(value, name)) for name in value.__dataclass_fields__)
    if isinstance(value, bool) or _is(number, bool):
        return number is value
    plain = _is(number, int, float, np.generic) and isinstance(value, int | float)
    return plain and bool(number == value)


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
        return _source(self.code, self.offset)

    def value(self, chain: AttributeChain) -> Any:
        """Return the value of a chain; ``MISSING`` if it is not known."""
        root = self._root(chain)
        return root if root is MISSING else _follow(chain, root)

    def _root(self, chain: AttributeChain) -> Any:
        name = chain.root
        if name in self._local:
            return self._local[name]
        if chain.load in {"LOAD_GLOBAL", "LOAD_NAME"}:
            return self._globals().get(name, MISSING)
        if self._function is not None:
            return _initial_value(self._function, name)
        if name in self.code.co_freevars:
            around = (frame for frame in self._frames if self.code in frame.f_code.co_consts)
            outer = next(around, None)
            return MISSING if outer is None else local_variables(outer).get(name, MISSING)
        return MISSING

    def _globals(self) -> Mapping[str, Any]:
        if self._frame is not None:
            return self._frame.f_globals
        if self._function is not None:
            return dict(_unbound(self._function).__globals__)
        file = self.code.co_filename
        namespaces = (frame.f_globals for frame in self._frames if frame.f_code.co_filename == file)
        return next(namespaces, {})

    def may_be(self, chain: AttributeChain, inputs: set[str]) -> bool:
        """Return whether the value may come from a chain."""
        root, value = self._root(chain), self.value(chain)
        if value is MISSING:
            return chain.text not in inputs and chain.load not in {"LOAD_GLOBAL", "LOAD_NAME"}
        if _is(root, ModuleType):
            return False
        return not callable(value) and not _is(value, Node, ModuleType, str)

    def takes(self, chain: AttributeChain) -> bool:
        """Return whether a variable itself is an operand of the expression."""
        try:
            tree = ast.parse(self.text, mode="eval").body
        except SyntaxError:
            return False
        return chain.text in {ast.unparse(part) for part in ast.iter_child_nodes(tree)}

    def scope(self, chain: AttributeChain) -> str:
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
        if isinstance(function, partial) and name in _bound_arguments(function):
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
    """Return a function of this code, or a partial one, that the user's variables reach."""
    seen: set[int] = set()
    waiting: list[Any] = []
    for frame in frames[:20]:
        waiting += local_variables(frame).values()
    remaining = MAX_SEARCHED
    function: Any = None
    while waiting and remaining:
        value = waiting.pop()
        remaining -= 1
        if id(value) in seen:
            continue
        seen.add(id(value))
        if not _is(value, FunctionType, MethodType, partial):
            value = _method(value, code)
        if getattr(_unbound(value), "__code__", None) is code:
            function = value
            if isinstance(value, partial):
                return value
        waiting += _reachable(value) if value is not None else ()
    return function


def _method(value: Any, code: CodeType) -> Any:
    """Return an object's method with that code, bound."""
    for cls in type(value).__mro__:
        function = vars(cls).get(code.co_name)
        if isinstance(function, FunctionType) and function.__code__ is code:
            return MethodType(function, value)
    return None


def _reachable(value: Any) -> Iterator[Any]:
    """Yield the values in which a function may hold other functions."""
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
    while isinstance(value, partial | MethodType):
        value = value.func if isinstance(value, partial) else value.__func__
    return value


def _initial_value(function: Any, name: str) -> Any:
    """Return the value of a function's name before it is called."""
    if isinstance(function, partial) and name in (bound := _bound_arguments(function)):
        return bound[name]
    if isinstance(function, MethodType) and name == function.__code__.co_varnames[0]:
        return function.__self__
    plain = _unbound(function)
    free = plain.__code__.co_freevars
    if name in free:
        return next(_content(plain.__closure__[free.index(name)]), MISSING)
    return _defaults(plain).get(name, MISSING)


def _bound_arguments(function: partial[Any]) -> dict[str, Any]:
    code = _unbound(function).__code__
    return dict(zip(code.co_varnames, function.args, strict=False)) | function.keywords


def _defaults(function: Any) -> dict[str, Any]:
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})


# Expressions.


def _follow(chain: AttributeChain, value: Any) -> Any:
    """Return the chain's value, given its root's; run no code of the user's."""
    for how, key in chain.path:
        if how == ".":
            member = find(value, key)
            if member is None or member.how == "property":
                return MISSING if member is None else COMPUTED
            value = member.value
        elif type(value) in {dict, list, tuple}:
            try:
                value = value[key]
            except (LookupError, TypeError):
                return MISSING
        else:
            return MISSING
    return value


def _source(code: CodeType, offset: int) -> str:
    """Return the source text of an instruction's expression; empty if there is none."""
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
