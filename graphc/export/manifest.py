"""The manifest of a compiled function's file, in JSON: its arguments, results and arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from graphc.compile.arguments import In
from graphc.errors import ArgumentError, ExportError
from graphc.ir import Node, TensorType

Shape = Sequence[str | int | None]


def array_entry(type: TensorType, dims: Shape) -> dict[str, Any]:
    """Return an array's dtype and shape, in which unknown lengths may have names."""
    return {"dtype": type.dtype, "shape": [*dims]}


def named_lengths(name: str, type: TensorType, dims: Shape | None) -> Shape:
    """Return a shape in which names, or the lengths in a program, replace unknown lengths.

    Args:
        name: The array's name, for messages.
        type: The array's type.
        dims: For each axis of unknown length a name, a length or None; for other axes None.

    Raises:
        ArgumentError: If the number of axes differs, or a static length has a name.
    """
    if dims is None:
        return type.shape
    fits = len(dims) == type.ndim and all(
        entry is None or entry == n or (n is None and isinstance(entry, str | int))
        for entry, n in zip(dims, type.shape, strict=False)
    )
    if not fits:
        raise ArgumentError(
            f"dynamic: {dims!r} are no names of the unknown lengths of {name}: {type!r}.",
            'Give an entry for each axis: {"x": ("n", None)}.',
        )
    return [n if n is not None else entry for entry, n in zip(dims, type.shape, strict=True)]


def shapes_of(ins: Sequence[In], dynamic: Mapping[str, Shape] | None) -> list[Shape]:
    """Return the shape of each input, in which names may stand for unknown lengths.

    Args:
        ins: The inputs of a function.
        dynamic: For inputs by label, the ``dims`` of ``named_lengths``; by default the names of
            lengths that the inputs declare.

    Raises:
        ArgumentError: If ``dynamic`` names an unknown input, or does not fit one.
    """
    by_label = dict(dynamic or {})
    unknown = [name for name in by_label if name not in {x.label for x in ins}]
    if unknown:
        raise ArgumentError(f"dynamic: the function has no input {unknown[0]!r}.")
    declared = [getattr(x.variable.op, "dims", None) for x in ins]
    dims = [by_label.get(x.label or "", names) for x, names in zip(ins, declared, strict=True)]
    return [named_lengths(str(x.label), x.variable.type, n) for x, n in zip(ins, dims, strict=True)]


def structure_of(outputs: Any) -> Any:
    """Return the lists and dicts of the outputs, each array replaced by its number.

    Raises:
        ExportError: If arrays are in another container, or a key is no string.

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


def encode(manifest: Mapping[str, Any]) -> bytes:
    """Return a manifest as indented JSON."""
    return (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()
