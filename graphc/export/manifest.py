"""What a file of a compiled function says of itself, as JSON: its arguments, results and arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from graphc.errors import ArgumentError, ExportError
from graphc.ir import Node, TensorType

FORMAT = "graphc"
VERSION = 1

DEEPEST = 100
"""So many lists and dicts may be in each other in what a call returns."""

Shape = Sequence[str | int | None]

KINDS: dict[str, Any] = {
    "format": str,
    "version": int,
    "graphc": str,
    "name": str | None,
    "licence": str | None,
    "mode": str,
    "inputs": list,
    "outputs": object,
    "results": list,
    "updates": list,
    "arrays": dict,
    "parts": dict,
}
"""The fields, and what each holds."""

ARRAY: dict[str, Any] = {"dtype": str, "shape": list}
INPUT = ARRAY | {"name": str | None, "strict": bool, "allow_downcast": bool | None}
ENTRIES: dict[str, dict[str, Any]] = {
    "inputs": INPUT,
    "results": ARRAY,
    "arrays": ARRAY,
    "parts": {"bytes": int, "sha256": str},
}
"""The fields of each entry of some fields."""


def described(type: TensorType, dims: Shape) -> dict[str, Any]:
    """Return an array's dtype and shape, of which unknown lengths may have names."""
    return {"dtype": type.dtype, "shape": [*dims]}


def named_lengths(name: str, type: TensorType, given: Shape | None) -> Shape:
    """Return a shape in which names stand for unknown lengths.

    Args:
        name: The array's name, for messages.
        type: Its type.
        given: A name for each axis of unknown length, None for others and for lengths without one.

    Raises:
        ArgumentError: Another number of axes, or a name for a length that is known.
    """
    if given is None:
        return type.shape
    fits = len(given) == type.ndim and all(
        dim is None or dim == n or (n is None and isinstance(dim, str))
        for dim, n in zip(given, type.shape, strict=False)
    )
    if not fits:
        raise ArgumentError(
            f"dynamic: {given!r} are no names of the unknown lengths of {name}: {type!r}.",
            'Give an entry for each axis: {"x": ("n", None)}.',
        )
    return [n if n is not None else dim for dim, n in zip(given, type.shape, strict=True)]


def structure_of(outputs: Any) -> Any:
    """Return lists and dicts as they are, with the number of each array in its place.

    Raises:
        ExportError: Something else holds arrays, or a key is no string.

    Example:
        >>> structure_of({"mean": Node, "all": [Node, Node]})
        {'mean': 0, 'all': [1, 2]}
    """
    count = iter(range(2**62))

    def of(part: Any) -> Any:
        if part is None:
            return None
        if isinstance(part, list | tuple) and not hasattr(part, "_fields"):
            return [of(x) for x in part]
        if isinstance(part, dict) and all(isinstance(key, str) for key in part):
            return {key: of(x) for key, x in part.items()}
        if isinstance(part, Node) or part is Node:
            return next(count)
        raise ExportError(
            f"export: the outputs are in {type(part).__qualname__}, which a file cannot hold.",
            "Give the function's outputs as lists, or as dicts with strings for keys.",
        )

    return of(outputs)


def filled(structure: Any, values: Sequence[Any], depth: int = 0) -> Any:
    """Return values in their places in a structure: the inverse of ``structure_of``.

    Raises:
        ValueError: It has other things than lists, dicts and numbers of values.

    Example:
        >>> filled({"mean": 0, "all": [1, 2]}, "abc")
        {'mean': 'a', 'all': ['b', 'c']}
    """
    if depth > DEEPEST:
        raise ValueError("the outputs are too deep in each other")
    if isinstance(structure, list):
        return [filled(part, values, depth + 1) for part in structure]
    if isinstance(structure, dict):
        return {key: filled(part, values, depth + 1) for key, part in structure.items()}
    if structure is None and not depth:
        return None
    if type(structure) is int and 0 <= structure < len(values):
        return values[structure]
    raise ValueError(f"{structure!r} is no output")


def written(manifest: Mapping[str, Any]) -> bytes:
    """Return a manifest as text that a person can read."""
    return (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()


def read(data: bytes) -> dict[str, Any]:
    """Return a manifest whose fields are of the right kinds.

    Raises:
        ValueError: It is none, or that of a later version.
    """
    try:
        found = json.loads(data)
    except RecursionError as error:
        raise ValueError("its parts are too deep in each other") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError("it is no file of a compiled function")
    version = found.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(f"version {version!r} of the format is not one up to {VERSION}")
    check_fields("the manifest", found, KINDS)
    for field, kinds in ENTRIES.items():
        given = found[field]
        entries = given.items() if isinstance(given, dict) else enumerate(given)
        for name, entry in entries:
            check_fields(f"{name!r} of {field!r} in the manifest", entry, kinds)
    if not all(isinstance(name, str) for name in found["updates"]):
        raise ValueError("'updates' in the manifest are no names")
    return found


def check_fields(subject: str, entry: Any, kinds: Mapping[str, Any]) -> None:
    """Raise where something is no dict, or a field is missing or of another kind.

    Raises:
        ValueError: Names the field.
    """
    if not isinstance(entry, dict):
        raise ValueError(f"{subject} is {entry!r:.40}")
    for name, kind in kinds.items():
        if name not in entry or not isinstance(entry[name], kind):
            raise ValueError(f"{subject} has no {name!r}, or one of another kind")
    lengths = entry.get("shape", [])
    if not all(n is None or isinstance(n, str) or (type(n) is int and n >= 0) for n in lengths):
        raise ValueError(f"{subject} has the shape {lengths!r:.40}")
