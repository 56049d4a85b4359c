"""Parameters of operations as text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np

from graphc.errors import ExportError
from graphc.export.literals import array_text
from graphc.export.names import find_exception, find_structure
from graphc.implicit.treedef import Treedef, field_names_of
from graphc.ir import Graph, TensorType, TupleType, Type
from graphc.optimize.options import SolverOptions
from graphc.tensor.arrays.index import Hole, Range

Text = Callable[[Any], str]


def quote(text: str) -> str:
    """Return a string as text on one line."""
    return json.dumps(text)


def type_text(type: Type) -> str:
    """Return a type as text, its repr."""
    if isinstance(type, TensorType | TupleType):
        return repr(type)
    raise ExportError(f"A value of the type {type!r} has no text.")


def value_text(value: Any, graph_text: Callable[[Graph], str]) -> str:
    """Return a parameter as text.

    Args:
        value: The parameter.
        graph_text: Returns the name of a graph nested in the operation.

    Raises:
        ExportError: If the parameter is of a kind that has no text, such as a function.

    Example:
        >>> value_text((1, None, "a", -0.0, Range(0)), str)
        '(1, None, "a", -0.0, Range(0, None, None))'
    """

    def text(value: Any) -> str:
        if isinstance(value, Graph):
            return graph_text(value)
        form = next((form for kind, form in FORMS.items() if isinstance(value, kind)), None)
        if form is None:
            raise _unwritable(value)
        return form(value, text)

    return text(value)


def in_brackets(items: Sequence[str]) -> str:
    """Return the text of a tuple."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _treedef_text(treedef: Treedef, text: Text) -> str:
    cls: Any = treedef.cls
    if find_structure(cls.__name__) is not cls:
        raise ExportError(
            f"{cls.__qualname__} is a class of yours, whose code is in no text.",
            "Let its fields be inputs, or write it as an array: materialize it before.",
        )
    names = field_names_of(cls)
    dynamic = zip(names.parts, treedef.parts, strict=True)
    static = zip(names.static, treedef.static, strict=True)
    inside = [f"{name}={_part_text(part, text)}" for name, part in dynamic]
    inside += [f"{name}={text(value)}" for name, value in static]
    return f"{treedef.cls.__name__}({', '.join(inside)})"


def _part_text(part: Any, text: Text) -> str:
    match part:
        case None | Treedef():
            return text(part)
        case tuple():
            return in_brackets([_part_text(x, text) for x in part])
    return str(part)


def _exception_text(value: type, text: Text) -> str:
    if find_exception(value.__name__) is not value:
        raise _unwritable(value)
    return str(value.__name__)


def _mapping_text(value: Mapping[str, Any], text: Text) -> str:
    return f"{{{', '.join(f'{quote(name)}: {text(x)}' for name, x in value.items())}}}"


FORMS: dict[Any, Callable[[Any, Text], str]] = {
    NoneType: lambda value, text: repr(value),
    int: lambda value, text: repr(value),
    float: lambda value, text: float.__repr__(value),
    str: lambda value, text: quote(value),
    list: lambda value, text: f"[{', '.join(map(text, value))}]",
    tuple: lambda value, text: in_brackets([*map(text, value)]),
    Hole: lambda value, text: "?",
    Range: lambda value, text: f"Range({', '.join(map(text, value.parts))})",
    Treedef: _treedef_text,
    SolverOptions: lambda value, text: text(value.keywords),
    Mapping: _mapping_text,
    np.ndarray: lambda value, text: array_text(value),
    np.generic: lambda value, text: array_text(np.asarray(value)),
    type: _exception_text,
}
"""The writer of each kind of parameter, given a writer of others; the first match is used."""


def _unwritable(value: Any) -> ExportError:
    kind = "function" if callable(value) and not dataclasses.is_dataclass(value) else "object"
    return ExportError(
        f"{value!r} is a {kind} of Python's, which has no text.",
        "Write what it does with functions of graphc.tensor, or leave it out of the graph.",
    )
