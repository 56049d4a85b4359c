"""The two halves of a function: what is compared, and what is passed when it runs."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

__all__ = ["Lifted", "Part", "Same", "Stripped"]


class Same:
    """An object that is compared by identity alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return Same, (self.value,)


class Part(NamedTuple):
    """One object among those that a function is made of.

    Attributes:
        kind: How it is put together again; a name in the table of ``rebuild``.
        token: What is compared, beside the kind and the children.
        stable: The token in a form that is the same in every process; None where it has none.
        static: What it is made of that is no part itself.
        children: The places of the parts that it holds.
        name: What a reader of the user's code would call a leaf, or the function itself.
    """

    kind: str
    token: Hashable
    stable: str | None
    static: Any
    children: tuple[int, ...]
    name: str


class Stripped:
    """A function without its arrays: hashable, and equal to others of equal code and structure.

    Two are equal where their code, the constants in it, the numbers and small arrays that they
    capture, and how all of these hang together are equal. Neither arrays that were taken out nor
    the places of the code in files are looked at.

    Attributes:
        parts: The objects it is made of, each once, the function itself first.
        names: What the leaves are called in the user's code, such as ``"self.w"``.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._key = tuple((part.kind, part.token, part.children) for part in parts)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Stripped):
            return NotImplemented
        return self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Stripped({self.parts[0].name}: {', '.join(self.names) or 'no leaves'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Stripped, (self.parts,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each leaf is called in the user's code."""
        return tuple(part.name for part in self.parts if part.kind == "leaf")

    @cached_property
    def _digest(self) -> str | None:
        lines = [sys.implementation.cache_tag or "", sys.version.split()[0]]
        for part in self.parts:
            if part.stable is None:
                return None
            lines.append(f"{part.kind} {part.stable} {part.children}")
        return blake2b("\n".join(lines).encode(), digest_size=20).hexdigest()

    def digest(self) -> str | None:
        """A text that is the same in every process for equal functions, and for no others.

        None where there is none: the function holds something that is known by its identity, or
        reads a module or a class of the user's, whose code may be another one in another process.
        """
        return self._digest


class Lifted(NamedTuple):
    """A function taken apart; ``rebuild(*lifted)`` puts it together again.

    It is a tree to JAX, whose leaves are ``leaves`` and whose structure is ``stripped``. MLX's
    functions of trees take ``leaves`` as they take any tuple.

    Attributes:
        stripped: The function without its arrays.
        leaves: The arrays, each once, and numbers that are marked ``graphc.runtime``.
    """

    stripped: Stripped
    leaves: tuple[Any, ...]
