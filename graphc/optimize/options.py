"""Keywords for SciPy that can be compared, and written into the key of a graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Node


class SolverOptions:
    """Immutable keywords, equal if their numbers, texts and nesting are equal.

    Functions and other objects are compared by identity.

    Attributes:
        keywords: The keywords as SciPy takes them.
        text: The keywords as text, with a number for each other object.
        objects: The other objects.
    """

    __slots__ = ("keywords", "objects", "text")

    def __init__(self, title: str, given: Mapping[str, Any] | None) -> None:
        self.keywords = dict(given or {})
        objects: list[Hashable] = []
        self.text = _text(title, self.keywords, objects)
        self.objects = tuple(objects)

    def key(self) -> str:
        """Return the text, which enters the keys of programs."""
        return self.text

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, SolverOptions) and other.text == self.text
        return same and other.objects == self.objects  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.text, self.objects))

    def __repr__(self) -> str:
        return repr(self.keywords)


def _text(title: str, value: Any, objects: list[Hashable]) -> str:
    match value:
        case Mapping():
            pairs = sorted((str(key), _text(title, x, objects)) for key, x in value.items())
            return f"{{{','.join(f'{key}:{x}' for key, x in pairs)}}}"
        case list() | tuple():
            return f"({','.join(_text(title, x, objects) for x in value)})"
        case np.ndarray():
            digest = blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).hexdigest()
            return f"{value.dtype}{value.shape}{digest}"
        case None | bool() | int() | float() | complex() | str() | np.generic():
            return f"{type(value).__name__} {value!r}"
        case Node():
            raise ArgumentError(
                f"{title}: optimizer_kwargs holds the symbolic {value!r}.",
                "Give numbers, or use eval(): these options are constants of the program.",
            )
    objects.append(value if isinstance(value, Hashable) else _ByIdentity(value))
    return f"object {len(objects)}"


class _ByIdentity:
    """An object without a hash, compared by identity."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
