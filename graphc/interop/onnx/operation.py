"""What a converter is given, an ONNX node and its operands; and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from graphc.interop.onnx.source import domain_of, dtype_of
from graphc.interop.onnx.values import Known, Refusal, Value, axis_of, entries_of, tensor_of
from graphc.ir import DTYPES
from graphc.tensor import Tensor

if TYPE_CHECKING:
    from graphc.interop.onnx.convert import Scope

Converter = Callable[..., Any]
"""Takes an Operation and its operands as symbolic arrays, or None; gives the result, or several."""

CONVERTERS: dict[tuple[str, str], Converter] = {}
"""A converter for each operator, by its domain and name."""

FOLDS: dict[str, Callable[..., Any]] = {}
"""For operators that compute shapes: the same on arrays whose elements are known; or None."""

DRAWS = (
    "it draws random numbers, by a generator that ONNX does not state; have the model take them as "
    "an input, which graphc.random draws"
)
STRINGS = "it computes strings, which symbolic arrays do not hold"
REFUSED: dict[str, str] = {
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"), DRAWS),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), DRAWS),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), STRINGS),
    **dict.fromkeys(("TfIdfVectorizer", "DictVectorizer", "CategoryMapper", "CastMap"), STRINGS),
    "ZipMap": "its results are Python dicts: convert the model with options={'zipmap': False}",
    "ImageDecoder": "it decodes a file: decode it before",
    "NonMaxSuppression": "it computes how many results there are step by step: do it outside",
}
"""Operators that have no converter, and why."""


def register(*names: str, domain: str = "") -> Callable[[Converter], Converter]:
    """Enter a function as the converter of operators.

    Args:
        names: The operators.
        domain: Their domain.
    """

    def entered(converter: Converter) -> Converter:
        CONVERTERS.update({(domain, name): converter for name in names})
        return converter

    return entered


@dataclass
class Operation:
    """An ONNX node, as a converter gets it.

    Attributes:
        node: The node.
        scope: What is known where it stands.
        values: Its operands; None where one is left out.
    """

    node: Any
    scope: Scope
    values: Sequence[Value]
    _attributes: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._attributes = {x.name: x for x in map(self.scope.attribute, self.node.attribute) if x}

    @property
    def domain(self) -> str:
        """The domain of the operator; ONNX's own is empty."""
        return domain_of(str(self.node.domain))

    @property
    def version(self) -> int:
        """The version of the operators of its domain."""
        return self.scope.versions.get(self.domain, 1)

    @property
    def schema(self) -> Any:
        """What ONNX says of the operator in this version; None of other domains."""
        return schema_of(self.node.op_type, self.domain, self.version)

    def __getitem__(self, name: str) -> Any:
        """An attribute's value, or its default; None where there is neither."""
        found = self._attributes.get(name)
        if found is None:
            schema = self.schema
            if schema is None or name not in schema.attributes:
                return None
            found = schema.attributes[name].default_value
            if not found.name:
                return None
        return _value(found)

    def get(self, name: str, otherwise: Any) -> Any:
        """An attribute's value where the node, or the standard, says it; else another."""
        found = self[name]
        return otherwise if found is None else found

    def number(self, name: str, otherwise: float = 0.0) -> float:
        """An attribute that is a number."""
        return float(self.get(name, otherwise))

    def has(self, i: int) -> bool:
        """Whether an operand is given."""
        return i < len(self.values) and self.values[i] is not None

    def value(self, i: int) -> Value:
        """An operand, None where it is left out."""
        return self.values[i] if i < len(self.values) else None

    def wants(self, i: int) -> bool:
        """Whether a result is used, as far as it has a name."""
        return i < len(self.node.output) and bool(self.node.output[i])

    def known(self, i: int, what: str) -> np.ndarray[Any, Any]:
        """The elements of an operand that decides what the operator is.

        Raises:
            Refusal: They are computed, or an input of the model.
        """
        value = self.value(i)
        if not isinstance(value, Known) or value.is_symbolic:
            raise Refusal(
                f"{what} {self.node.input[i]!r} must be numbers: where it is an input, give them, "
                "givens={...}"
            )
        value.is_fixed = True
        return value.array

    def numbers(self, i: int, what: str) -> list[int]:
        """The elements of an operand of integers."""
        return [int(n) for n in self.known(i, what).reshape(-1)]

    def entries(self, i: int) -> list[Any]:
        """The elements of a vector of lengths."""
        return entries_of(self.value(i))

    def axes(self, i: int | None, ndim: int) -> tuple[int, ...] | None:
        """The axes that an operand names, or else the attribute; None where neither is there."""
        axes = self["axes"]
        if axes is None:
            if i is None or not self.has(i):
                return None
            axes = self.numbers(i, "the axes")
        return tuple(axis_of(int(axis), ndim) for axis in axes)

    def axis(self, ndim: int, otherwise: int = 0) -> int:
        """The attribute ``axis``, counted from the first."""
        return axis_of(int(self.get("axis", otherwise)), ndim)

    def dtype(self, name: str, otherwise: str) -> str:
        """An attribute that is a dtype."""
        number = self[name]
        return self.dtype_of(int(number)) if number else otherwise

    def dtype_of(self, number: int) -> str:
        """The name of a dtype.

        Raises:
            Refusal: Symbolic arrays do not have it.
        """
        name = dtype_of(number)
        if name not in DTYPES:
            raise Refusal(f"symbolic arrays have no {name}")
        return name


def _value(attribute: Any) -> Any:
    found = onnx.helper.get_attribute_value(attribute)
    if isinstance(found, bytes):
        return found.decode()
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [x.decode() for x in found]
    return found


def schema_of(name: str, domain: str, version: int) -> Any:
    """What the standard says of an operator in a version; None where it has none."""
    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None


def operands_of(values: Sequence[Value]) -> list[Any]:
    """Operands as converters take them: symbolic arrays, sequences and None."""
    return [x if x is None or isinstance(x, list) else tensor_of(x) for x in values]


def results_of(found: Any) -> list[Any]:
    """All results of what a converter gives; a tuple holds several."""
    return [*found] if isinstance(found, tuple) else [found]


def simple(function: Callable[..., Tensor]) -> Converter:
    """A converter that applies a function of graphc to the operands."""
    return lambda _, *operands: function(*operands)


def register_all(table: Mapping[str, Callable[..., Tensor]]) -> None:
    """Enter functions of graphc as operators of the same meaning."""
    for name, function in table.items():
        register(name)(simple(function))
