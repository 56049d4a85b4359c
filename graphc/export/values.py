"""Types, arrays and parameters of operations as JSON, and back."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

import numpy as np

from graphc import ir
from graphc.errors import ExportError, FormatError
from graphc.export.names import find_exception, find_structure, fits, kinds_of
from graphc.implicit.treedef import LEAF, Treedef, field_names_of
from graphc.optimize.options import SolverOptions
from graphc.tensor.arrays.index import HOLE, Hole, Range

Array = np.ndarray[Any, Any]

# Types.

LENGTH = r"(?:\?|\d+)"
TENSOR = re.compile(rf"(\w+)\[((?:{LENGTH}(?:, {LENGTH})*)?)\]", re.ASCII)


def type_json(type: ir.Type) -> Any:
    """Return the repr of an array's type, or a list for the type of several arrays."""
    if isinstance(type, ir.TupleType):
        return [type_json(item) for item in type.items]
    if not isinstance(type, ir.TensorType):
        raise ExportError(f"A value of the type {type!r} has no text.")
    return repr(type)


def type_of(value: Any) -> ir.Type:
    """Return the type that ``type_json`` wrote.

    Example:
        >>> type_of(["float64[?, 3]", "int8[]"])
        (float64[?, 3], int8[])
    """
    if isinstance(value, list):
        return ir.TupleType(tuple(type_of(item) for item in value))
    return tensor_type_of(value)


def tensor_type_of(value: Any) -> ir.TensorType:
    """Return the type of one array."""
    match = TENSOR.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[1] not in ir.DTYPES:
        raise FormatError(f"{value!r} is no type of an array")
    lengths = match[2].split(", ") if match[2] else []
    return ir.TensorType(match[1], tuple(None if n == "?" else int(n) for n in lengths))


# Arrays: readable numbers if they are exact, otherwise bytes.


def array_json(array: Array) -> dict[str, Any]:
    """Return a small array as JSON, from which ``array_of`` restores the same bits.

    Example:
        >>> array_json(np.float32([0.1, -np.inf])), array_json(np.zeros((0, 3), "int8"))
        ({'float32': [0.1, '-inf']}, {'int8': '', 'shape': [0, 3]})
    """
    dtype = ir.dtype_name(array.dtype)
    components = np.stack([array.real, array.imag], -1) if ir.is_complex(dtype) else array
    numbers: Any = components.tolist()
    if ir.is_float(dtype) or ir.is_complex(dtype):
        # The shortest text that identifies a number, where ``tolist`` has all digits.
        numbers = np.array([float(str(x)) for x in components.ravel()])
        numbers = _spell_non_finite(numbers.reshape(components.shape).tolist())
    try:
        copy = array_of({dtype: numbers})
    except FormatError:
        copy = None
    if copy is not None and copy.shape == array.shape and copy.tobytes() == array.tobytes():
        return {dtype: numbers}
    little_endian = array.astype(array.dtype.newbyteorder("<"))
    return {dtype: little_endian.tobytes().hex(), "shape": [*array.shape]}


NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""The numbers that JSON lacks, by their names in the text."""


def _spell_non_finite(numbers: Any) -> Any:
    """Return nested lists of floats, with names for those that JSON lacks."""
    if isinstance(numbers, list):
        return [*map(_spell_non_finite, numbers)]
    return numbers if math.isfinite(numbers) else str(numbers)


def _read_non_finite(numbers: Any) -> Any:
    """Return nested lists of floats that ``_spell_non_finite`` wrote."""
    if isinstance(numbers, list):
        return [*map(_read_non_finite, numbers)]
    return NON_FINITE.get(numbers, numbers) if isinstance(numbers, str) else numbers


def array_of(value: Mapping[str, Any]) -> Array:
    """Return the array of nested lists of numbers, or of the hexadecimal digits of its bytes.

    Raises:
        FormatError: If the value is no array of its dtype, or has another number of bytes.

    Example:
        >>> array_of({"float32": [0.1, -0.0]}), array_of({"int16": "ff00", "shape": [1]})
        (array([ 0.1, -0. ], dtype=float32), array([255], dtype=int16))
    """
    (dtype, data), *others = value.items()
    try:
        numpy_type = ir.numpy_dtype(dtype)
        if isinstance(data, str) and others:
            ((_, shape),) = others
            data = bytes.fromhex(data)
            if len(data) != math.prod(shape) * numpy_type.itemsize:
                raise ValueError(f"{len(data)} bytes of the shape {shape}")
            array = np.frombuffer(data, numpy_type.newbyteorder("<"))
            return array.astype(numpy_type).reshape(shape)
        if not ir.is_integer(dtype) and dtype != "bool":
            data = _read_non_finite(data)
        components = np.array(data)
        kinds = "b" if dtype == "bool" else "iu" if ir.is_integer(dtype) else "iuf"
        has_pairs = not ir.is_complex(dtype) or components.shape[-1:] == (2,)
        if others or not has_pairs or (components.size and components.dtype.kind not in kinds):
            raise ValueError("other values")
        with np.errstate(over="raise"):
            if not ir.is_complex(dtype):
                return np.array(data, numpy_type)
            array = np.empty(components.shape[:-1], numpy_type)
            array.real, array.imag = components[..., 0], components[..., 1]
            return array
    except (TypeError, ValueError, ArithmeticError) as error:
        raise FormatError(f"no array of {dtype}: {error}") from error


# Parameters.

ToJson = Callable[[Any], Any]


def value_json(value: Any, graph_name: Callable[[ir.Graph], str]) -> Any:
    """Return a parameter as JSON: a tuple as a list, other objects as ``{class: fields}``.

    Args:
        value: The parameter.
        graph_name: Returns the name of a graph nested in the operation.

    Raises:
        ExportError: If the parameter is of a kind that has no text, such as a function.

    Example:
        >>> value_json((1, None, "a", -0.0, Range(0)), str)
        [1, None, 'a', -0.0, {'Range': [0, None, None]}]
    """

    def to_json(value: Any) -> Any:
        if isinstance(value, ir.Graph):
            return {"graph": graph_name(value)}
        form = next((form for kind, form in FORMS.items() if isinstance(value, kind)), None)
        if form is None:
            raise _unwritable(value)
        return form(value, to_json)

    return to_json(value)


def _treedef_json(treedef: Treedef, to_json: ToJson) -> Any:
    cls: Any = treedef.cls
    if find_structure(cls.__name__) is not cls:
        raise ExportError(
            f"{cls.__qualname__} is a class of yours, whose code is in no text.",
            "Let its fields be inputs, or write it as an array: materialize it before.",
        )
    names = field_names_of(cls)
    fields = zip((*names.parts, *names.static), (*treedef.parts, *treedef.static), strict=True)
    return {cls.__name__: {name: to_json(value) for name, value in fields}}


def _exception_json(value: type, to_json: ToJson) -> Any:
    if find_exception(value.__name__) is not value:
        raise _unwritable(value)
    return {"exception": value.__name__}


def _mapping_json(value: Mapping[str, Any], to_json: ToJson) -> Any:
    return {"dict": {name: to_json(x) for name, x in value.items()}}


FORMS: dict[Any, Callable[[Any, ToJson], Any]] = {
    NoneType | int | str: lambda value, to_json: value,
    float: lambda value, to_json: value if math.isfinite(value) else {"float": str(float(value))},
    list: lambda value, to_json: {"list": [*map(to_json, value)]},
    tuple: lambda value, to_json: [*map(to_json, value)],
    Hole: lambda value, to_json: {"Hole": []},
    Range: lambda value, to_json: {"Range": [*map(to_json, value.parts)]},
    Treedef: _treedef_json,
    SolverOptions: lambda value, to_json: _mapping_json(value.keywords, to_json),
    Mapping: _mapping_json,
    np.ndarray | np.generic: lambda value, to_json: array_json(np.asarray(value)),
    type: _exception_json,
}
"""The JSON of each kind of parameter, given a function for others; the first match is used."""


def _unwritable(value: Any) -> ExportError:
    kind = "function" if callable(value) and not dataclasses.is_dataclass(value) else "object"
    return ExportError(
        f"{value!r} is a {kind} of Python's, which has no text.",
        "Write what it does with functions of graphc.tensor, or leave it out of the graph.",
    )


def value_of(value: Any, graphs: Mapping[str, ir.Graph]) -> Any:
    """Return the parameter that ``value_json`` wrote.

    Args:
        value: The JSON value.
        graphs: The graphs read so far, by name.

    Raises:
        FormatError: If there is no object of that name, or its fields do not fit.
    """
    if isinstance(value, list):
        return tuple(value_of(item, graphs) for item in value)
    if not isinstance(value, dict):
        return value
    name = next(iter(value), None)
    if name in ir.DTYPES:
        return array_of(value)[()]
    if name in OBJECTS:
        return OBJECTS[name](value[name], graphs)
    structure = find_structure(str(name))
    if structure is None:
        raise FormatError(f"there is no {name!r}")
    return _treedef(structure, _dict_of(value[name], graphs))


def _graph_of(name: Any, graphs: Mapping[str, ir.Graph]) -> ir.Graph:
    if name not in graphs:
        raise FormatError(f"there is no graph {name!r} before")
    return graphs[name]


def _float_of(name: Any, graphs: Mapping[str, ir.Graph]) -> float:
    if name not in NON_FINITE:
        raise FormatError(f"there is no number {name!r}")
    return NON_FINITE[name]


def _exception_of(name: Any, graphs: Mapping[str, ir.Graph]) -> Any:
    cls = find_exception(name)
    if cls is None:
        raise FormatError(f"there is no {name!r}")
    return cls


def _range_of(bounds: Any, graphs: Mapping[str, ir.Graph]) -> Any:
    pairs = zip(("start", "stop", "step"), value_of(bounds, graphs), strict=True)
    return construct(Range, dict(pairs))


def _dict_of(value: Any, graphs: Mapping[str, ir.Graph]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected a JSON object, got {value!r}")
    return {name: value_of(x, graphs) for name, x in value.items()}


OBJECTS: dict[Any, Callable[[Any, Mapping[str, ir.Graph]], Any]] = {
    "graph": _graph_of,
    "exception": _exception_of,
    "dict": _dict_of,
    "float": _float_of,
    "list": lambda items, graphs: list(value_of(items, graphs)),
    "Hole": lambda _, graphs: HOLE,
    "Range": _range_of,
}
"""The reader of each kind of object, by the key that marks it in the text."""


def construct(cls: Any, fields: Mapping[str, Any]) -> Any:
    """Return a dataclass with these fields, whose types are checked; others get defaults.

    Raises:
        FormatError: If a field is unknown, missing, or of another type.
    """
    kinds = kinds_of(cls)
    unknown = [name for name in fields if name not in kinds]
    if unknown:
        raise FormatError(f"{cls.__name__} has no parameter {unknown[0]!r}")
    instance = object.__new__(cls)
    for field in dataclasses.fields(cls):
        value = fields.get(field.name, field.default)
        if kinds[field.name] is SolverOptions and isinstance(value, dict):
            value = SolverOptions(cls.__name__, value)
        if value is dataclasses.MISSING or not fits(value, kinds[field.name]):
            shown = "is missing" if value is dataclasses.MISSING else f"is {value!r}"
            raise FormatError(f"{cls.__name__}: {field.name} {shown}")
        object.__setattr__(instance, field.name, value)
    if hasattr(instance, "__post_init__"):
        instance.__post_init__()
    return instance


def _treedef(cls: Any, fields: Mapping[str, Any]) -> Treedef:
    names = field_names_of(cls)
    # Texts of earlier releases lack fields that were added with a default.
    static = [field for field in dataclasses.fields(cls) if field.name in names.static]
    defaults = {x.name: x.default for x in static if x.default is not dataclasses.MISSING}
    fields = {**defaults, **fields}
    if {*fields} != {*names.parts, *names.static}:
        raise FormatError(f"{cls.__name__} has the fields {(*names.parts, *names.static)}")
    kinds = kinds_of(cls)
    for name, value in fields.items():
        if not (_is_part(value) if name in names.parts else fits(value, kinds[name])):
            raise FormatError(f"{cls.__name__}.{name} is {value!r}")
    dynamic, values = (tuple(fields[x] for x in group) for group in (names.parts, names.static))
    return Treedef(cls, dynamic, values)


def _is_part(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_part, value))
    return value is None or isinstance(value, Treedef) or value == LEAF
