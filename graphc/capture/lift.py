"""Functions split into arrays and the rest: a walk finds and classifies all captured objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any

from graphc.capture import objects
from graphc.capture.code import CALL, AttributePath, Variable, Write, code_facts, line_of
from graphc.capture.handlers import HANDLERS, leaf, other
from graphc.capture.identity import is_array, value_key
from graphc.capture.import_hooks import register
from graphc.capture.members import (
    Attribute,
    attributes,
    class_of,
    find,
    find_in_bases,
    is_content,
    is_of_class,
    is_record,
    is_users_class,
    specials,
    unwrap,
)
from graphc.capture.stripped import CapturedPart, Lifted, Stripped
from graphc.errors import ArgumentError

MUTATORS = frozenset({
    *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update"),
    *("setdefault", "popitem", "add", "discard", "fill", "put", "itemset", "resize", "partition"),
    *("__setitem__", "__delitem__", "intersection_update", "difference_update"),
})  # fmt: skip
"""Methods of lists, dicts, sets and arrays that change them."""


MAKING = ("__init__", "__new__", "__post_init__")
"""Methods that run when an object is created."""


def lift(function: Callable[..., Any], is_leaf: Callable[[Any], bool] | None = None) -> Lifted:
    """Split a function into the arrays it captures and the rest, which is compared by structure.

    A function captures closure cells, defaults, globals, arguments of ``functools.partial`` and
    attributes of a bound ``self``, and what the functions among these capture. Arrays of ten or
    more elements, symbolic arrays and numbers marked ``graphc.runtime`` are leaves, each once.
    Numbers, text and smaller arrays become part of the stripped function, with their present
    values. Objects of libraries are identified by name.

    Args:
        function: Any callable: a function, a method, a ``functools.partial``, an object with
            ``__call__``.
        is_leaf: Returns whether an object is a leaf, in addition to arrays.

    Returns:
        The stripped function, which is hashable and static, and the leaves. Together they are a
        pytree of JAX.

    Raises:
        ArgumentError: If an object cannot be captured: a variable that the function writes to, a
            container that it changes, an iterator, an object without fixed content. The message
            names the object.

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
        raise ArgumentError(f"lift({function!r}): expected a function.", "Give a callable.")
    register()
    walk = CaptureWalk(is_leaf)
    walk.visit(function, [(CALL,)], (None, "root", _name(function)))
    walk.run()
    return walk.result()


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


WHOLE: tuple[AttributePath, ...] = ((),)


class CaptureWalk:
    """A walk over the objects that a function captures, each once, in a fixed order."""

    def __init__(self, is_leaf: Callable[[Any], bool] | None) -> None:
        self.is_leaf = is_leaf
        self.items: list[objects.CapturedObject] = []
        self.names: set[str] = set()
        self.numbers: dict[int, int] = {}
        self.forms: dict[Hashable, int] = {}
        self.waiting: deque[objects.CapturedObject] = deque()
        self.whole: list[objects.CapturedObject] = []

    def visit(self, value: Any, paths: Iterable[AttributePath], trail: objects.Trail) -> int:
        """Return the number of an object, and record its use by these attribute paths."""
        if type(value) not in HANDLERS:
            value = unwrap(value)
        number = self.numbers.get(id(value))
        if number is None:
            item = self.item(value, trail)
            number = self.numbers[id(value)] = item.number
            is_leaf = self.is_leaf is not None and self.is_leaf(value)
            (leaf if is_leaf else HANDLERS.get(type(value), other))(self, item, value)
            if item.kind == "plain":
                number = self.numbers[id(value)] = self.once(item)
        item = self.items[number]
        for path in paths:
            self.demand_once(item, path)
        return number

    def once(self, item: objects.CapturedObject) -> int:
        """Return the number of a plain value, which all objects of equal value share."""
        number = self.forms.setdefault(item.token, item.number)
        if number != item.number:
            del self.items[item.number]
        return number

    def item(self, value: Any, trail: objects.Trail) -> objects.CapturedObject:
        item = objects.CapturedObject(len(self.items), value, trail)
        self.items.append(item)
        return item

    def run(self) -> None:
        """Analyse functions and objects until no new ones are found."""
        while True:
            while self.waiting:
                self.function(self.waiting.popleft())
            before = len(self.items), len(self.names)
            for item in list(self.whole):
                self.all_of(item)
            if not self.waiting and before == (len(self.items), len(self.names)):
                return

    # Functions.

    def function(self, item: objects.CapturedObject) -> None:
        function: FunctionType = item.value
        reads: Mapping[Any, Iterable[AttributePath]] = {}
        if item.static.library is None:
            facts = code_facts(function.__code__)
            reads = facts.reads
            self.names |= facts.names
            if facts.writes:
                self.refuse_writes(item, facts.writes)
        add = item.children.append
        cells = zip(item.static.code.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            # The methods that super() finds are captured by ``bases``.
            paths = () if name == "__class__" else reads.get(("cell", name), WHOLE)
            add(self.cell(item, name, cell, paths))
        for name, value in item.static.defaults(function):
            paths = reads.get(("argument", name), WHOLE)
            add(self.visit(value, paths, (item, "default", name)))
        if item.static.library is None:
            add(self.space(item, function.__globals__, reads))
        if "__wrapped__" in vars(function):
            self.demand(item, ("__wrapped__",))

    def refuse_writes(self, item: objects.CapturedObject, writes: Mapping[Variable, Write]) -> None:
        fixed = {name for name, x in item.static.defaults(item.value) if value_key(x) is None}
        for variable, write in writes.items():
            if variable.kind != "argument":
                self.refuse_write(item, variable, write)
            elif variable.name in fixed:
                self.refuse_write(item, Variable("default", variable.name), write)

    def cell(
        self,
        owner: objects.CapturedObject,
        name: str,
        cell: CellType,
        paths: Iterable[AttributePath],
    ) -> int:
        number = self.numbers.get(id(cell))
        if number is None:
            item = self.item(cell, (owner, "cell", name))
            number = self.numbers[id(cell)] = item.number
            item.fill("cell", None, stable="")
        item = self.items[number]
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            return number
        item.children[:] = [self.visit(value, paths, (owner, "cell", name))]
        return number

    def space(
        self,
        owner: objects.CapturedObject,
        variables: dict[str, Any],
        reads: Mapping[Any, Iterable[AttributePath]],
    ) -> int:
        """Return the number of a module's globals, with the variables that a function reads."""
        number = self.numbers.get(id(variables))
        if number is None:
            item = self.item(variables, (owner, "same", ""))
            number = self.numbers[id(variables)] = item.number
            fixed_names = ("__builtins__", "__name__", "__package__", "__spec__", "__file__")
            item.fill("space", None, {x: variables[x] for x in fixed_names if x in variables}, "")
        item = self.items[number]
        for (kind, name), paths in reads.items():
            if kind == "global" and name in variables and name not in item.static:
                child = self.visit(variables[name], paths, (owner, "global", name))
                item.members[name] = ("value", child)
                owner.reads[name] = child
        return number

    def refuse_write(self, owner: objects.CapturedObject, variable: Variable, write: Write) -> None:
        target = objects.CapturedObject(
            0, None, (owner, variable.kind, ".".join((variable.name, *write.path)))
        )
        objects.refuse(
            target,
            f"{write.how} by the function, so its value is not fixed.",
            "Return the new value, or take it as an argument.",
            line_of(owner.value.__code__, write.line),
        )

    # Attributes.

    def demand_once(self, item: objects.CapturedObject, path: AttributePath) -> None:
        if path not in item.uses:
            item.uses.add(path)
            self.demand(item, path)

    def demand(self, item: objects.CapturedObject, path: AttributePath) -> None:
        """Capture the attributes of a path, and the objects that these read."""
        if not path or (item.kind == "class" and path == (CALL,)):
            if item.kind in ("object", "module", "class") and item not in self.whole:
                self.whole.append(item)
        elif item.kind in ("list", "dict", "set", "leaf", "plain"):
            changes = path[0] in MUTATORS
            if changes and (item.kind not in ("leaf", "plain") or is_array(item.value)):
                objects.refuse(
                    item,
                    f"is changed in place by the function ({path[0]}), so its value is not fixed.",
                    "Build the new value and return it, or take it as an argument.",
                )
        elif item.kind in ("object", "module", "class", "function"):
            self.member(item, path[0], path[1:])

    def member(self, item: objects.CapturedObject, name: str, rest: AttributePath) -> None:
        special = name.startswith("__")
        if special and item.kind == "function" and name != "__wrapped__":
            return
        if item.kind == "object" and name == "__class__":
            paths = [rest] if rest else []
            cls = self.visit(class_of(item.value), paths, (item, "attribute", name))
            self.items[cls].uses.add(objects.OF_AN_OBJECT)
            item.children += [] if cls in item.children else [cls]
            return
        attribute = find(item.value, name)
        if attribute is not None:
            self.add_member(item, name, attribute, rest)
        elif item.kind == "object" and (name == "__dict__" or find(item.value, "__getattr__")):
            self.demand_once(item, ())

    def add_member(
        self, item: objects.CapturedObject, name: str, attribute: Attribute, rest: AttributePath
    ) -> None:
        how, value = attribute
        trail = (item, "attribute", name)
        if how != "value" and not isinstance(value, FunctionType):
            return
        bound = how == "value" and item.kind == "object" and is_of_class(item.value, name)
        if bound and _is_descriptor(value):
            unread = self.item(value, trail)
            objects.refuse(unread, "is a descriptor, not an attribute.", "Read a plain attribute.")
        child = self.visit(value, [rest] if how == "value" else [(CALL,)], trail)
        item.members[name] = (how, child)
        if how in ("method", "property"):
            self.bind(self.items[child], item)
        elif how == "class method":
            owner = item.value if isinstance(item.value, type) else type(item.value)
            self.bind(self.items[child], self.items[self.visit(owner, (), (item, "same", ""))])

    def bind(self, function: objects.CapturedObject, owner: objects.CapturedObject) -> None:
        """Capture the attributes that a method reads of its first argument."""
        if function.kind != "function":
            self.demand_once(owner, ())
            return
        code, facts = function.value.__code__, code_facts(function.value.__code__)
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

    def bases(self, function: objects.CapturedObject, owner: objects.CapturedObject) -> None:
        """Capture the methods that ``super()`` finds, which also read attributes of the object."""
        code, closure = function.value.__code__, function.value.__closure__ or ()
        cells = dict(zip(code.co_freevars, closure, strict=True))
        if "__class__" not in cells:
            return
        cls = cells["__class__"].cell_contents
        for name in sorted(code_facts(code).names):
            attribute = find_in_bases(owner.value, name, cls)
            if attribute is not None and attribute.how == "method":
                child = self.visit(attribute.value, [(CALL,)], (owner, "attribute", name))
                key = f"{name} above {cls.__qualname__}"
                if key not in owner.members:
                    owner.members[key] = ("base", child)
                    self.bind(self.items[child], owner)

    def all_of(self, item: objects.CapturedObject) -> None:
        """Capture all attributes that code may read of an object that is used entirely."""
        value = item.value
        if item.kind == "module":
            names = sorted(self.names & set(vars(value)))
        elif item.kind == "class":
            candidates = {*self.class_attribute_names(value), *specials(value), *MAKING}
            values = {name: find(value, name) for name in sorted(candidates)}
            names = [name for name, x in values.items() if x is not None and is_content(x.value)]
        else:
            names = sorted({*self.attribute_names(value), *specials(type(value))})
        for name in names:
            if name not in item.members and not (name.startswith("__") and item.kind == "module"):
                self.member(item, name, ())

    def attribute_names(self, value: Any) -> Iterator[str]:
        """Yield the attributes that code may read of an object that is used entirely."""
        record = is_record(value)
        for name in attributes(value):
            if record or name in self.names or _is_simple(value, name):
                yield name
        yield from self.class_attribute_names(type(value))

    def class_attribute_names(self, made: type) -> Iterator[str]:
        """Yield the attributes of the user's classes whose names occur in any code."""
        for cls in made.__mro__:
            if is_users_class(cls):
                yield from self.names & vars(cls).keys()

    # The result.

    def result(self) -> Lifted:
        items = objects.resolve_members(self.items)
        leaves = [item for item in items if item.kind == "leaf"]
        for i, item in enumerate(leaves):
            item.static = i
        return Lifted(Stripped([_part(item) for item in items]), tuple([x.value for x in leaves]))


def _is_descriptor(value: Any) -> bool:
    bound = hasattr(type(value), "__get__")
    return bound and not isinstance(value, type | FunctionType | MethodType | BuiltinFunctionType)


def _is_simple(value: Any, name: str) -> bool:
    attribute = getattr(value, name)
    return value_key(attribute) is not None or is_array(attribute)


def _part(item: objects.CapturedObject) -> CapturedPart:
    is_named = item.kind in {"leaf", "plain"} or not item.number
    name = objects.name_of(item) if is_named else ""
    token, stable, children = item.token, item.stable, tuple(item.children)
    if item.kind not in objects.WITH_MEMBERS:
        return CapturedPart(item.kind, token, stable, item.static, children, name)
    members = tuple([(name, how) for name, (how, _) in item.members.items()])
    if members:
        token = (token, members)
        stable = None if stable is None else f"{stable} {members}"
        children += tuple([child for _, child in item.members.values()])
    return CapturedPart(item.kind, token, stable, (item.static, members), children, name)
