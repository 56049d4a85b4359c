"""What a file of a compiled function says of itself, as JSON: its arguments, results and arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from graphc.compile.arguments import In
from graphc.errors import ArgumentError, ExportError
from graphc.ir import Node, TensorType

Shape = Sequence[str | int | None]


def described(type: TensorType, dims: Shape) -> dict[str, Any]:
    """Return an array's dtype and shape, of which unknown lengths may have names."""
    return {"dtype": type.dtype, "shape": [*dims]}


def named_lengths(name: str, type: TensorType, given: Shape | None) -> Shape:
    """Return a shape in which names, or the lengths in a program, stand for unknown lengths.

    Args:
        name: The array's name, for messages.
        type: Its type.
        given: For each axis of unknown length a name, a length or None; None for others.

    Raises:
        ArgumentError: Another number of axes, or a name for a length that is known.
    """
    if given is None:
        return type.shape
    fits = len(given) == type.ndim and all(
        dim is None or dim == n or (n is None and isinstance(dim, str | int))
        for dim, n in zip(given, type.shape, strict=False)
    )
    if not fits:
        raise ArgumentError(
            f"dynamic: {given!r} are no names of the unknown lengths of {name}: {type!r}.",
            'Give an entry for each axis: {"x": ("n", None)}.',
        )
    return [n if n is not None else dim for dim, n in zip(given, type.shape, strict=True)]


def shapes_of(ins: Sequence[In], dynamic: Mapping[str, Shape] | None) -> list[Shape]:
    """Return the shape of each input, in which names may stand for unknown lengths.

    Args:
        ins: The inputs of a function.
        dynamic: For those with a label, what ``named_lengths`` takes.

    Raises:
        ArgumentError: It names an input that is not there, or does not fit one.
    """
    given = dict(dynamic or {})
    unknown = [name for name in given if name not in {x.label for x in ins}]
    if unknown:
        raise ArgumentError(f"dynamic: the function has no input {unknown[0]!r}.")
    dims = [given.get(x.label) if x.label else None for x in ins]
    return [named_lengths(str(x.label), x.variable.type, n) for x, n in zip(ins, dims, strict=True)]


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


def written(manifest: Mapping[str, Any]) -> bytes:
    """Return a manifest as text that a person can read."""
    return (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()
