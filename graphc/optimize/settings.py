"""What a user passes on to SciPy, in a form that can be compared and written into a key."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Node, here, where

__all__ = ["Settings"]


class Settings:
    """Keywords, which never change; equal where numbers, texts and their nesting are.

    Functions and other objects are compared by identity.

    Attributes:
        given: As SciPy takes them.
        text: All that can be written down.
        objects: The others.
    """

    __slots__ = ("given", "objects", "text")

    def __init__(self, title: str, given: Mapping[str, Any] | None) -> None:
        self.given = dict(given or {})
        objects: list[Hashable] = []
        self.text = _text(title, self.given, objects)
        self.objects = tuple(objects)

    def key(self) -> str:
        """What can be written down, in keys of programs."""
        return self.text

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Settings) and other.text == self.text
        return same and other.objects == self.objects  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.text, self.objects))

    def __repr__(self) -> str:
        return repr(self.given)


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
                f"{title}: optimizer_kwargs has the symbolic {value!r}.",
                "Give numbers: SciPy's settings are part of the program.",
                where(here()),
            )
    objects.append(value if isinstance(value, Hashable) else _Same(value))
    return f"object {len(objects)}"


class _Same:
    """An object that has no hash, by its identity."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
