"""The two halves of a function: the structure that is compared, and the arrays that are passed."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple


class ByIdentity:
    """An object compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return ByIdentity, (self.value,)


class CapturedPart(NamedTuple):
    """One object among those that a function consists of.

    Attributes:
        kind: How it is rebuilt; a name in the tables of ``rebuild``.
        token: The key by which parts are compared, beside the kind and the children.
        stable: The token as text that is the same in every process, or None.
        static: The content that is not captured in further parts.
        children: The numbers of the parts that this part refers to.
        name: The name of a leaf, or of the function itself, in the user's code.
    """

    kind: str
    token: Hashable
    stable: str | None
    static: Any
    children: tuple[int, ...]
    name: str


class Stripped:
    """A function without its arrays: hashable, and equal to others of equal code and structure.

    Two are equal if their code and its constants, the numbers and small arrays that they capture,
    and the structure of all of these are equal. Leaves are not compared, nor are the positions of
    the code in files.

    Attributes:
        parts: The objects of the function, each once, the function itself first.
        names: The names of the leaves in the user's code, such as ``"self.w"``.
    """

    def __init__(self, parts: Sequence[CapturedPart]) -> None:
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
        """The name of each leaf in the user's code."""
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
        """Return a text that is equal in every process for equal functions only, or None.

        A function has no digest if it captures an object that is compared by identity, or reads a
        module or a class of the user's, whose code may differ in another process.
        """
        return self._digest


class Lifted(NamedTuple):
    """A function split into two halves; ``rebuild(*lifted)`` rebuilds it.

    It is a pytree of JAX with the leaves ``leaves`` and the structure ``stripped``. MLX's functions
    of trees take ``leaves`` like any tuple.

    Attributes:
        stripped: The function without its arrays.
        leaves: The arrays, each once, and numbers that are marked ``graphc.runtime``.
    """

    stripped: Stripped
    leaves: tuple[Any, ...]
