"""Functions taken apart: what they capture found, arrays told from what is part of the program."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any

from graphc.capture.code import CALL, Names, Variable, Write, facts_of, line_of
from graphc.capture.draft import Draft, Trail, name_of, refuse
from graphc.capture.kinds import HANDLERS, leaf, other
from graphc.capture.members import (
    Found,
    attributes,
    class_of,
    find,
    find_in_bases,
    is_content,
    is_of_class,
    is_record,
    is_users_class,
    specials,
    unwrapped,
)
from graphc.capture.plain import form_of, is_array
from graphc.capture.settle import KEPT, WITH_MEMBERS, settle
from graphc.capture.stripped import Lifted, Part, Stripped
from graphc.capture.trees import register
from graphc.errors import ArgumentError

__all__ = ["lift"]

MUTATORS = frozenset({
    *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update"),
    *("setdefault", "popitem", "add", "discard", "fill", "put", "itemset", "resize", "partition"),
    *("__setitem__", "__delitem__", "intersection_update", "difference_update"),
})  # fmt: skip
"""Methods of lists, dicts, sets and arrays that change them."""


MAKING = ("__init__", "__new__", "__post_init__")
"""Methods that run where an object is made."""


def lift(function: Callable[..., Any], is_leaf: Callable[[Any], bool] | None = None) -> Lifted:
    """Split a function into the arrays it captures and the rest, which is compared by structure.

    Captured is what the function reads and is not given: closure cells, defaults, globals,
    arguments of ``functools.partial``, attributes of a bound ``self``, and all of these of the
    functions among them. Arrays of ten or more elements, symbolic arrays and numbers marked
    ``graphc.runtime`` are leaves, each once. Numbers, text and smaller arrays stay with the
    stripped function, as they are now. What libraries bring along is known by its name.

    Args:
        function: Anything that can be called: a function, a method, a ``functools.partial``, an
            object with ``__call__``.
        is_leaf: Which objects are leaves beside arrays.

    Returns:
        The stripped function, which is hashable and static, and the leaves. Together they are a
        tree to JAX.

    Raises:
        ArgumentError: Something captured cannot be: a variable that the function writes to, a
            container that it changes, an iterator, an object that has no fixed content. The
            message has its name.

    Example:
        >>> import numpy as np
        >>> from graphc.capture import lift, rebuild
        >>> w = np.arange(12.0)
        >>> stripped, leaves = lift(lambda x: x * w)
        >>> stripped.names, len(leaves)
        (('w',), 1)
        >>> print(rebuild(stripped, [w + 1])(2)[:3])
        [2. 4. 6.]
    """
    if not callable(function):
        raise ArgumentError(f"lift({function!r}): it is no function.", "Give what can be called.")
    register()
    walk = Walk(is_leaf)
    walk.visit(function, [(CALL,)], (None, "root", _name(function)))
    walk.run()
    return walk.lifted()


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


WHOLE: tuple[Names, ...] = ((),)


class Walk:
    """A walk over what a function is made of, each object once, in an order of its own."""

    def __init__(self, is_leaf: Callable[[Any], bool] | None) -> None:
        self.is_leaf = is_leaf
        self.drafts: list[Draft] = []
        self.names: set[str] = set()
        self.places: dict[int, int] = {}
        self.forms: dict[Hashable, int] = {}
        self.waiting: deque[Draft] = deque()
        self.whole: list[Draft] = []

    def visit(self, value: Any, paths: Iterable[Names], trail: Trail) -> int:
        """The number of an object, which is used in these ways."""
        if type(value) not in HANDLERS:
            value = unwrapped(value)
        number = self.places.get(id(value))
        if number is None:
            draft = self.draft(value, trail)
            number = self.places[id(value)] = draft.number
            is_leaf = self.is_leaf is not None and self.is_leaf(value)
            (leaf if is_leaf else HANDLERS.get(type(value), other))(self, draft, value)
            if draft.kind == "plain":
                number = self.places[id(value)] = self.once(draft)
        draft = self.drafts[number]
        for path in paths:
            self.demand_once(draft, path)
        return number

    def once(self, draft: Draft) -> int:
        """The number of a plain value: which object it is says nothing about the program."""
        number = self.forms.setdefault(draft.token, draft.number)
        if number != draft.number:
            del self.drafts[draft.number]
        return number

    def draft(self, value: Any, trail: Trail) -> Draft:
        draft = Draft(len(self.drafts), value, trail)
        self.drafts.append(draft)
        return draft

    def run(self) -> None:
        """Look into functions and objects until nothing new is found."""
        while True:
            while self.waiting:
                self.function(self.waiting.popleft())
            known = len(self.drafts), len(self.names)
            for draft in list(self.whole):
                self.all_of(draft)
            if not self.waiting and known == (len(self.drafts), len(self.names)):
                return

    # Functions.

    def function(self, draft: Draft) -> None:
        function: FunctionType = draft.value
        reads: Mapping[Any, Iterable[Names]] = {}
        if draft.static.library is None:
            facts = facts_of(function.__code__)
            reads = facts.reads
            self.names |= facts.names
            if facts.writes:
                self.refuse_writes(draft, facts.writes)
        add = draft.children.append
        cells = zip(draft.static.code.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            # What super() needs its class for is found by ``bases``.
            paths = () if name == "__class__" else reads.get(("cell", name), WHOLE)
            add(self.cell(draft, name, cell, paths))
        for name, value in draft.static.defaults(function):
            paths = reads.get(("argument", name), WHOLE)
            add(self.visit(value, paths, (draft, "default", name)))
        if draft.static.library is None:
            add(self.space(draft, function.__globals__, reads))
        if "__wrapped__" in vars(function):
            self.demand(draft, ("__wrapped__",))

    def refuse_writes(self, draft: Draft, writes: Mapping[Variable, Write]) -> None:
        fixed = {name for name, x in draft.static.defaults(draft.value) if form_of(x) is None}
        for variable, write in writes.items():
            if variable.kind != "argument":
                self.refuse_write(draft, variable, write)
            elif variable.name in fixed:
                self.refuse_write(draft, Variable("default", variable.name), write)

    def cell(self, owner: Draft, name: str, cell: CellType, paths: Iterable[Names]) -> int:
        number = self.places.get(id(cell))
        if number is None:
            draft = self.draft(cell, (owner, "cell", name))
            number = self.places[id(cell)] = draft.number
            draft.fill("cell", None, stable="")
        draft = self.drafts[number]
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            return number
        draft.children[:] = [self.visit(value, paths, (owner, "cell", name))]
        return number

    def space(
        self, owner: Draft, variables: dict[str, Any], reads: Mapping[Any, Iterable[Names]]
    ) -> int:
        """The globals that a function reads; all functions of a module have one such dict."""
        number = self.places.get(id(variables))
        if number is None:
            draft = self.draft(variables, (owner, "same", ""))
            number = self.places[id(variables)] = draft.number
            kept = ("__builtins__", "__name__", "__package__", "__spec__", "__file__")
            draft.fill("space", None, {x: variables[x] for x in kept if x in variables}, "")
        draft = self.drafts[number]
        for (kind, name), paths in reads.items():
            if kind == "global" and name in variables and name not in draft.static:
                child = self.visit(variables[name], paths, (owner, "global", name))
                draft.members[name] = ("value", child)
                owner.reads[name] = child
        return number

    def refuse_write(self, owner: Draft, variable: Variable, write: Write) -> None:
        written = Draft(0, None, (owner, variable.kind, ".".join((variable.name, *write.path))))
        refuse(
            written,
            f"{write.how} by the function, so its value is not fixed.",
            "Return the new value, or take it as an argument.",
            line_of(owner.value.__code__, write.line),
        )

    # Attributes.

    def demand_once(self, draft: Draft, path: Names) -> None:
        if path not in draft.asked:
            draft.asked.add(path)
            self.demand(draft, path)

    def demand(self, draft: Draft, path: Names) -> None:
        """See to it that the attributes of a path are there, and what comes with them."""
        if not path or (draft.kind == "class" and path == (CALL,)):
            if draft.kind in ("object", "module", "class") and draft not in self.whole:
                self.whole.append(draft)
        elif draft.kind in ("list", "dict", "set", "leaf", "plain"):
            changes = path[0] in MUTATORS
            if changes and (draft.kind not in ("leaf", "plain") or is_array(draft.value)):
                refuse(
                    draft,
                    f"is changed in place by the function ({path[0]}), so its value is not fixed.",
                    "Build the new value and return it, or take it as an argument.",
                )
        elif draft.kind in ("object", "module", "class", "function"):
            self.member(draft, path[0], path[1:])

    def member(self, draft: Draft, name: str, rest: Names) -> None:
        special = name.startswith("__")
        if special and draft.kind == "function" and name != "__wrapped__":
            return
        if draft.kind == "object" and name == "__class__":
            paths = [rest] if rest else []
            cls = self.visit(class_of(draft.value), paths, (draft, "attribute", name))
            self.drafts[cls].asked.add(KEPT)
            draft.children += [] if cls in draft.children else [cls]
            return
        found = find(draft.value, name)
        if found is not None:
            self.found(draft, name, found, rest)
        elif draft.kind == "object" and (name == "__dict__" or find(draft.value, "__getattr__")):
            self.demand_once(draft, ())

    def found(self, draft: Draft, name: str, found: Found, rest: Names) -> None:
        how, value = found
        trail = (draft, "attribute", name)
        if how != "value" and not isinstance(value, FunctionType):
            return
        bound = how == "value" and draft.kind == "object" and is_of_class(draft.value, name)
        if bound and _is_descriptor(value):
            unread = self.draft(value, trail)
            refuse(unread, "is a descriptor, not an attribute.", "Read a plain attribute.")
        child = self.visit(value, [rest] if how == "value" else [(CALL,)], trail)
        draft.members[name] = (how, child)
        if how in ("method", "property"):
            self.bind(self.drafts[child], draft)
        elif how == "class method":
            owner = draft.value if isinstance(draft.value, type) else type(draft.value)
            self.bind(self.drafts[child], self.drafts[self.visit(owner, (), (draft, "same", ""))])

    def bind(self, function: Draft, owner: Draft) -> None:
        """Ask of an object what a function reads of its first argument."""
        if function.kind != "function":
            self.demand_once(owner, ())
            return
        code, facts = function.value.__code__, facts_of(function.value.__code__)
        if function.static.library is not None or not code.co_argcount:
            self.demand_once(owner, ())
            return
        first = Variable("argument", code.co_varnames[0])
        for path in facts.reads.get(first, ()):
            self.demand_once(owner, path)
        if first in facts.writes and owner.kind in ("object", "class"):
            self.refuse_write(function, first, facts.writes[first])
        if "super" in code.co_names and owner.kind == "object":
            self.bases(function, owner)

    def bases(self, function: Draft, owner: Draft) -> None:
        """Methods that ``super()`` finds: they read attributes of the object too."""
        code, closure = function.value.__code__, function.value.__closure__ or ()
        cells = dict(zip(code.co_freevars, closure, strict=True))
        if "__class__" not in cells:
            return
        cls = cells["__class__"].cell_contents
        for name in sorted(facts_of(code).names):
            found = find_in_bases(owner.value, name, cls)
            if found is not None and found.how == "method":
                child = self.visit(found.value, [(CALL,)], (owner, "attribute", name))
                place = f"{name} above {cls.__qualname__}"
                if place not in owner.members:
                    owner.members[place] = ("base", child)
                    self.bind(self.drafts[child], owner)

    def all_of(self, draft: Draft) -> None:
        """What an object that is used as a whole may be asked for."""
        value = draft.value
        if draft.kind == "module":
            wanted = sorted(self.names & set(vars(value)))
        elif draft.kind == "class":
            named = {*self.inherited(value), *specials(value), *MAKING}
            found = {name: find(value, name) for name in sorted(named)}
            wanted = [name for name, x in found.items() if x is not None and is_content(x.value)]
        else:
            wanted = sorted({*self.wanted(value), *specials(type(value))})
        for name in wanted:
            if name not in draft.members and not (name.startswith("__") and draft.kind == "module"):
                self.member(draft, name, ())

    def wanted(self, value: Any) -> Iterator[str]:
        """The attributes that an object may be asked for by code that has all of it."""
        record = is_record(value)
        for name in attributes(value):
            if record or name in self.names or _is_simple(value, name):
                yield name
        yield from self.inherited(type(value))

    def inherited(self, made: type) -> Iterator[str]:
        """The attributes of the user's classes that any code has a name for."""
        for cls in made.__mro__:
            if is_users_class(cls):
                yield from self.names & vars(cls).keys()

    # The result.

    def lifted(self) -> Lifted:
        drafts = settle(self.drafts)
        leaves = [draft for draft in drafts if draft.kind == "leaf"]
        for i, draft in enumerate(leaves):
            draft.static = i
        return Lifted(
            Stripped([_part(draft) for draft in drafts]), tuple([x.value for x in leaves])
        )


def _is_descriptor(value: Any) -> bool:
    bound = hasattr(type(value), "__get__")
    return bound and not isinstance(value, type | FunctionType | MethodType | BuiltinFunctionType)


def _is_simple(value: Any, name: str) -> bool:
    kept = getattr(value, name)
    return form_of(kept) is not None or is_array(kept)


def _part(draft: Draft) -> Part:
    is_named = draft.kind in {"leaf", "plain"} or not draft.number
    name = name_of(draft) if is_named else ""
    token, stable, children = draft.token, draft.stable, tuple(draft.children)
    if draft.kind not in WITH_MEMBERS:
        return Part(draft.kind, token, stable, draft.static, children, name)
    members = tuple([(name, how) for name, (how, _) in draft.members.items()])
    if members:
        token = (token, members)
        stable = None if stable is None else f"{stable} {members}"
        children += tuple([child for _, child in draft.members.values()])
    return Part(draft.kind, token, stable, (draft.static, members), children, name)
