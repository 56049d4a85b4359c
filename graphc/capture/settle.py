"""How attributes are put back: as they were, bound to their object, or by a class of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence

from graphc.capture.code import CALL
from graphc.capture.draft import Draft, refuse
from graphc.capture.members import is_of_class

__all__ = ["KEPT", "WITH_MEMBERS", "settle"]

WITH_MEMBERS = frozenset({"function", "object", "module", "class", "namespace", "space"})
"""The kinds of parts that have attributes, or names."""


KEPT = ("of an object",)
"""Asked of a class whose objects are there, so that nothing else can stand for it."""

OWN = "class's own"
"""How functions of a class are put back that can stay as they are there."""


def settle(drafts: Sequence[Draft]) -> list[Draft]:
    """Decide for each attribute what is done with it; a class stays itself where it can.

    Returns:
        The drafts that are left, numbered in order.
    """
    if not any(draft.members and draft.kind in ("object", "class") for draft in drafts):
        return list(drafts)
    parents = _parents(drafts)
    arrays = _above(parents, (x.number for x in drafts if x.kind == "leaf"))
    varying = arrays | _above(parents, (x.number for x in drafts if x.kind == "plain"))
    for draft in drafts:
        if draft.kind == "class":
            _settle_class(draft, drafts, arrays)
        elif draft.kind == "object":
            _settle_object(draft, drafts, arrays, varying)
    return _needed(drafts)


def _needed(drafts: Sequence[Draft]) -> list[Draft]:
    """Those that the first one reaches, numbered in an order that the others have no part in."""
    names: dict[int, set[str]] = defaultdict(set)
    for number in _below(drafts, lambda draft: draft.reads.values()):
        if drafts[number].reads:
            names[drafts[number].children[-1]] |= drafts[number].reads.keys()
    for number, known in names.items():
        held = drafts[number].members
        drafts[number].members = {name: held[name] for name in sorted(known)}
    order = _below(drafts, lambda draft: [child for _, child in draft.members.values()])
    numbers = {number: i for i, number in enumerate(order)}
    needed = [drafts[number] for number in order]
    for draft in needed:
        draft.members = {name: (how, numbers[x]) for name, (how, x) in draft.members.items()}
        draft.children = [numbers[child] for child in draft.children]
        draft.number = numbers[draft.number]
    return needed


def _below(drafts: Sequence[Draft], more: Callable[[Draft], Iterable[int]]) -> list[int]:
    """All that the first one holds, each once; of a dict of globals only what ``more`` says."""
    found: dict[int, None] = {}
    left = [0]
    while left:
        draft = drafts[left.pop()]
        if draft.number in found:
            continue
        found[draft.number] = None
        held = [child for _, child in draft.members.values()] if draft.kind != "space" else []
        left += reversed([*draft.children, *held, *more(draft)])
    return list(found)


def _parents(drafts: Iterable[Draft]) -> dict[int, list[int]]:
    parents: dict[int, list[int]] = defaultdict(list)
    for draft in drafts:
        held = [child for _, child in draft.members.values()] if draft.kind != "space" else []
        for child in (*draft.children, *draft.reads.values(), *held):
            parents[child].append(draft.number)
    return parents


def _above(parents: dict[int, list[int]], waiting: Iterable[int]) -> set[int]:
    """All that holds one of these, and these."""
    found: set[int] = set()
    left = list(waiting)
    while left:
        number = left.pop()
        if number not in found:
            found.add(number)
            left += parents[number]
    return found


def _settle_class(draft: Draft, drafts: Sequence[Draft], arrays: set[int]) -> None:
    """A class of which attributes alone are read may be put together again; another may not."""
    held = [drafts[child] for _, child in draft.members.values() if child in arrays]
    if not held:
        for name, (_, child) in draft.members.items():
            _remember(draft, name, drafts[child], drafts)
        draft.members.clear()
        return
    if draft.asked & {(), (CALL,), KEPT}:
        refuse(
            held[0],
            "captures an array and belongs to a class that is used as a whole.",
            "Keep the array in an instance, or take it as an argument.",
        )
    draft.kind = "namespace"


def _settle_object(
    draft: Draft, drafts: Sequence[Draft], arrays: set[int], varying: set[int]
) -> None:
    has_dict = hasattr(draft.value, "__dict__")
    own = vars(draft.value) if has_dict else {}
    for name, (how, child) in draft.members.items():
        if how == "base" and child in arrays:
            refuse(
                drafts[child],
                "is found by super() and captures an array.",
                "Keep the array in an attribute of self.",
            )
        special = name.startswith("__") and name.endswith("__")
        if how == "value" and child in arrays and is_of_class(draft.value, name):
            draft.members[name] = ("type value", child)
        if how in ("value", "base") or (how == "plain" and name in own):
            continue
        if how == "property" or special or not has_dict:
            made = f"type {how}" if child in arrays else OWN
        else:
            made = how if child in varying else OWN
        draft.members[name] = (made, child)
    for name, (how, child) in list(draft.members.items()):
        if how in (OWN, "base") and child not in varying:
            del draft.members[name]
            _remember(draft, name, drafts[child], drafts)


def _remember(draft: Draft, name: str, function: Draft, drafts: Sequence[Draft]) -> None:
    """Take a function that stays with its class, and all that it reads, into what is compared."""
    places: dict[int, int] = {}
    content: list[tuple[Hashable, ...]] = []
    stable: str | None = draft.stable
    waiting = [function]
    while waiting:
        here = waiting.pop()
        if here.number in places:
            continue
        places[here.number] = len(places)
        held = dict(here.reads)
        if here.kind != "space":  # what is read of it stands with the functions that read it
            held |= {name: child for name, (_, child) in here.members.items()}
        numbers = [*here.children, *held.values()]
        content.append((here.kind, here.token, *held))
        content.append(tuple(places.get(number, -1) for number in numbers))
        waiting += [drafts[number] for number in reversed(numbers)]
        both = stable is not None and here.stable is not None
        stable = f"{stable} {here.kind} {here.stable} {content[-1]}" if both else None
    draft.token = (draft.token, name, *content)
    draft.stable = stable
