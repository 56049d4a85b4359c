"""What is being found out about a function while it is taken apart."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn

from graphc.capture.code import Names, line_of
from graphc.errors import ArgumentError

__all__ = ["Draft", "Trail", "name_of", "refuse"]

Trail = tuple["Draft | None", str, Any]
"""How an object was reached: from which one, as what, and under what name."""


class Draft:
    """One object on the way to being a ``Part``.

    Attributes:
        members: Its attributes, or the variables of a dict of globals: how each is found, and its
            number.
        reads: What a function reads of the globals.
        asked: The ways in which it is used.
    """

    __slots__ = (
        *("asked", "children", "kind", "members", "number", "reads"),
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
        self.asked: set[Names] = set()

    def fill(
        self, kind: str, token: Hashable, static: Any = None, stable: str | None = None
    ) -> None:
        self.kind, self.token, self.static, self.stable = kind, token, static, stable


WORDS = {"cell": "closure", "global": "global", "default": "default argument"}


def name_of(draft: Draft) -> str:
    """What the user's code calls an object: ``params['w']``, ``self.w``."""
    pieces: list[str] = []
    here: Draft | None = draft
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


def _context(draft: Draft) -> str:
    """Whose variable it is: `` (closure of step, train.py:17)``."""
    word = ""
    here: Draft | None = draft
    while here is not None:
        parent, how, _ = here.trail
        is_method = here.kind == "method" and how == "root"
        if here is not draft and (here.kind == "function" or is_method):
            function = here.value if here.kind == "function" else here.value.__func__
            whose = f"{function.__qualname__}, {line_of(function.__code__)}"
            return f" ({word} of {whose})" if word else f" ({whose})"
        word = WORDS.get(how, word)
        here = parent
    return ""


def refuse(draft: Draft, problem: str, remedy: str, where: str | None = None) -> NoReturn:
    """Say by name what cannot be captured.

    Raises:
        ArgumentError: Always.
    """
    raise ArgumentError(f"`{name_of(draft)}`{_context(draft)} {problem}", remedy, where)
