"""Captured objects during the analysis of a function, and how their attributes are rebuilt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NoReturn

from graphc.capture.code import CALL, AttributePath, line_of
from graphc.capture.members import is_of_class
from graphc.errors import ArgumentError

Trail = tuple["CapturedObject | None", str, Any]
"""The path to an object: its parent, and the kind and name of the reference there."""


class CapturedObject:
    """An object that a function captures, during the analysis; becomes a ``CapturedPart``.

    Attributes:
        members: The object's attributes, or the variables of a dict of globals: how each is read,
            and the number of its value.
        reads: The globals that a function reads.
        uses: The attribute paths by which the object is used.
    """

    __slots__ = (
        *("uses", "children", "kind", "members", "number", "reads"),
        *("stable", "static", "token", "trail", "value"),
    )

    def __init__(self, number: int, value: Any, trail: Trail) -> None:
        self.number = number
        self.value = value
        self.trail = trail
        self.kind = ""
        self.token: Hashable = None
        self.stable: str | None = None
        self.static: Any = None
        self.children: list[int] = []
        self.members: dict[str, tuple[str, int]] = {}
        self.reads: dict[str, int] = {}
        self.uses: set[AttributePath] = set()

    def fill(
        self, kind: str, token: Hashable, static: Any = None, stable: str | None = None
    ) -> None:
        self.kind, self.token, self.static, self.stable = kind, token, static, stable


WORDS = {"cell": "closure", "global": "global", "default": "default argument"}


def name_of(item: CapturedObject) -> str:
    """Return the name of an object in the user's code: ``params['w']``, ``self.w``."""
    pieces: list[str] = []
    here: CapturedObject | None = item
    while here is not None:
        parent, how, name = here.trail
        if how == "attribute":
            pieces.append(f".{name}")
        elif how == "item":
            pieces.append(f"[{name!r}]")
        elif parent is not None and parent.kind == "function" and parent.static.library is not None:
            pieces.append(f".{name}")
        elif how != "same":
            pieces.append(str(name))
            break
        here = parent
    return "".join(reversed(pieces))


def _context(item: CapturedObject) -> str:
    """Return the owner of the variable, as `` (closure of step, train.py:17)``."""
    word = ""
    here: CapturedObject | None = item
    while here is not None:
        parent, how, _ = here.trail
        is_method = here.kind == "method" and how == "root"
        if here is not item and (here.kind == "function" or is_method):
            function = here.value if here.kind == "function" else here.value.__func__
            whose = f"{function.__qualname__}, {line_of(function.__code__)}"
            return f" ({word} of {whose})" if word else f" ({whose})"
        word = WORDS.get(how, word)
        here = parent
    return ""


def refuse(item: CapturedObject, problem: str, remedy: str, where: str | None = None) -> NoReturn:
    """Raise an error that names an object which cannot be captured.

    Raises:
        ArgumentError: Always.
    """
    raise ArgumentError(f"`{name_of(item)}`{_context(item)} {problem}", remedy, where)


WITH_MEMBERS = frozenset({"function", "object", "module", "class", "namespace", "space"})
"""The kinds of parts that have attributes, or variables."""


OF_AN_OBJECT = ("of an object",)
"""The use of a class that has captured instances: the class cannot be replaced."""

UNCHANGED = "unchanged"
"""The mark of functions that stay unchanged in their class."""


def resolve_members(items: Sequence[CapturedObject]) -> list[CapturedObject]:
    """Decide for each attribute how it is rebuilt; a class stays unchanged where possible.

    Returns:
        The remaining items, numbered in order.
    """
    if not any(item.members and item.kind in ("object", "class") for item in items):
        return list(items)
    parents = _parents(items)
    arrays = _with_ancestors(parents, (x.number for x in items if x.kind == "leaf"))
    varying = arrays | _with_ancestors(parents, (x.number for x in items if x.kind == "plain"))
    for item in items:
        if item.kind == "class":
            _resolve_class(item, items, arrays)
        elif item.kind == "object":
            _resolve_object(item, items, arrays, varying)
    return _select_reachable(items)


def _select_reachable(items: Sequence[CapturedObject]) -> list[CapturedObject]:
    """Return the objects that the first one reaches, in an order independent of the others."""
    names: dict[int, set[str]] = defaultdict(set)
    for number in _descendants(items, lambda item: item.reads.values()):
        if items[number].reads:
            names[items[number].children[-1]] |= items[number].reads.keys()
    for number, variables in names.items():
        held = items[number].members
        items[number].members = {name: held[name] for name in sorted(variables)}
    order = _descendants(items, lambda item: [child for _, child in item.members.values()])
    numbers = {number: i for i, number in enumerate(order)}
    reachable = [items[number] for number in order]
    for item in reachable:
        item.members = {name: (how, numbers[x]) for name, (how, x) in item.members.items()}
        item.children = [numbers[child] for child in item.children]
        item.number = numbers[item.number]
    return reachable


def _descendants(
    items: Sequence[CapturedObject], more: Callable[[CapturedObject], Iterable[int]]
) -> list[int]:
    """Return all objects that the first one refers to; a dict of globals has only ``more``."""
    visited: dict[int, None] = {}
    stack = [0]
    while stack:
        item = items[stack.pop()]
        if item.number in visited:
            continue
        visited[item.number] = None
        held = [child for _, child in item.members.values()] if item.kind != "space" else []
        stack += reversed([*item.children, *held, *more(item)])
    return list(visited)


def _parents(items: Iterable[CapturedObject]) -> dict[int, list[int]]:
    parents: dict[int, list[int]] = defaultdict(list)
    for item in items:
        held = [child for _, child in item.members.values()] if item.kind != "space" else []
        for child in (*item.children, *item.reads.values(), *held):
            parents[child].append(item.number)
    return parents


def _with_ancestors(parents: dict[int, list[int]], waiting: Iterable[int]) -> set[int]:
    """Return these objects, and all that refer to one of them."""
    visited: set[int] = set()
    stack = list(waiting)
    while stack:
        number = stack.pop()
        if number not in visited:
            visited.add(number)
            stack += parents[number]
    return visited


def _resolve_class(item: CapturedObject, items: Sequence[CapturedObject], arrays: set[int]) -> None:
    """Decide how a class is rebuilt, which requires that only its attributes are read."""
    held = [items[child] for _, child in item.members.values() if child in arrays]
    if not held:
        for name, (_, child) in item.members.items():
            _add_to_token(item, name, items[child], items)
        item.members.clear()
        return
    if item.uses & {(), (CALL,), OF_AN_OBJECT}:
        refuse(
            held[0],
            "captures an array and belongs to a class that is used as a whole.",
            "Keep the array in an instance, or take it as an argument.",
        )
    item.kind = "namespace"


def _resolve_object(
    item: CapturedObject, items: Sequence[CapturedObject], arrays: set[int], varying: set[int]
) -> None:
    has_dict = hasattr(item.value, "__dict__")
    own = vars(item.value) if has_dict else {}
    for name, (how, child) in item.members.items():
        if how == "base" and child in arrays:
            refuse(
                items[child],
                "is found by super() and captures an array.",
                "Keep the array in an attribute of self.",
            )
        special = name.startswith("__") and name.endswith("__")
        if how == "value" and child in arrays and is_of_class(item.value, name):
            item.members[name] = ("type value", child)
        if how in ("value", "base") or (how == "plain" and name in own):
            continue
        if how == "property" or special or not has_dict:
            resolved = f"type {how}" if child in arrays else UNCHANGED
        else:
            resolved = how if child in varying else UNCHANGED
        item.members[name] = (resolved, child)
    for name, (how, child) in list(item.members.items()):
        if how in (UNCHANGED, "base") and child not in varying:
            del item.members[name]
            _add_to_token(item, name, items[child], items)


def _add_to_token(
    item: CapturedObject, name: str, function: CapturedObject, items: Sequence[CapturedObject]
) -> None:
    """Add a function that stays in its class, with all that it reads, to the object's token."""
    positions: dict[int, int] = {}
    content: list[tuple[Hashable, ...]] = []
    stable: str | None = item.stable
    waiting = [function]
    while waiting:
        here = waiting.pop()
        if here.number in positions:
            continue
        positions[here.number] = len(positions)
        held = dict(here.reads)
        if here.kind != "space":  # functions list the globals that they read
            held |= {name: child for name, (_, child) in here.members.items()}
        numbers = [*here.children, *held.values()]
        content.append((here.kind, here.token, *held))
        content.append(tuple(positions.get(number, -1) for number in numbers))
        waiting += [items[number] for number in reversed(numbers)]
        is_stable = stable is not None and here.stable is not None
        stable = f"{stable} {here.kind} {here.stable} {content[-1]}" if is_stable else None
    item.token = (item.token, name, *content)
    item.stable = stable
