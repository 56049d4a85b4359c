"""A reader of types, numbers, arrays and parameters of operations in graph text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphc.errors import GraphcError
from graphc.export.lexer import Lexer
from graphc.export.literals import array_of
from graphc.export.names import find_exception, find_structure, fits, kinds_of
from graphc.implicit.treedef import LEAF, Treedef, field_names_of
from graphc.ir import DTYPES, Graph, Shape, TensorType, TupleType, Type
from graphc.optimize.options import SolverOptions
from graphc.tensor.arrays.index import HOLE, Range
from graphc.xtensor.type import XTensorType

DEEPEST = 64
"""The largest depth of nested brackets."""

WORDS = {"None": None, "True": True, "False": False, LEAF: LEAF}


class OperandReader(Lexer):
    """A reader of types and parameters in a text.

    Attributes:
        graphs: The graphs read so far, by name.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.graphs: dict[str, Graph] = {}
        self._depth = 0
        self._read_by: dict[str, Callable[[], Any]] = {
            "number": self.number,
            "string": self.string,
            "graph": self.graph_reference,
            "word": self._word,
            "?": self._hole,
            "(": self._in_brackets,
            "[": self._list,
            "{": self._keywords,
        }

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """Count one more open bracket within the context."""
        self._depth += 1
        if self._depth > DEEPEST:
            self.fail(f"more than {DEEPEST} brackets in each other")
        yield
        self._depth -= 1

    # Types.

    def type(self) -> Type:
        """Return the next type."""
        if not self.accept("("):
            dtype = self.dtype()
            return TensorType(dtype, self.shape())
        with self._deeper():
            return TupleType(tuple(self.read_list(")", self.type)))

    def dtype(self) -> str:
        """Return the next dtype."""
        token = self.take("word", "a dtype")
        if token.text not in DTYPES:
            self.fail(f"{token} is no dtype", token.offset)
        return token.text

    def shape(self) -> Shape:
        """Return the lengths in the next brackets."""
        self.expect("[")
        return tuple(self.read_list("]", self.length))

    def length(self) -> int | None:
        """Return the next length, None for ``?``."""
        if self.accept("?"):
            return None
        offset = self.token.offset
        n = self.integer()
        if n < 0:
            self.fail(f"{n} is no length", offset)
        return n

    def input_type(self) -> TensorType | XTensorType:
        """Return the type of an input, whose dimensions may have names."""
        offset = self.token.offset
        dtype = self.dtype()
        self.expect("[")
        named = self.token.kind in {"word", "string"}
        lengths = self.read_list("]", self._named_length if named else self.length)
        if not named:
            return TensorType(dtype, lengths)
        dims, shape = zip(*lengths, strict=True)
        try:
            return XTensorType(dtype, dims=dims, shape=shape)
        except GraphcError as error:
            self.fail(error.problem, offset)

    def _named_length(self) -> tuple[str, int | None]:
        is_word = self.token.kind == "word"
        name = self.advance().text if is_word else self.string()
        self.expect("=")
        return name, self.length()

    # Arrays.

    def array(self, dtype: str) -> np.ndarray[Any, Any]:
        """Return an array whose dtype has been read: ``([1.0, 2.0])`` or ``[2]("3c...")``."""
        offset = self.token.offset
        shape = self.shape() if self.token.text == "[" else None
        self.expect("(")
        value = self.value()
        self.expect(")")
        try:
            return array_of(dtype, shape, value)
        except (TypeError, ValueError) as error:
            self.fail(f"no array of {dtype}: {error}", offset)

    # Parameters.

    def value(self) -> Any:
        """Return the next parameter."""
        with self._deeper():
            return self._value()

    def _value(self) -> Any:
        token = self.token
        read = self._read_by.get(token.kind) or self._read_by.get(token.text)
        if read is None:
            self.fail(f"expected a value, got {token}")
        return read()

    def graph_reference(self) -> Graph:
        """Return the graph with the next name."""
        token = self.take("graph", "a graph's name")
        if token.text not in self.graphs:
            self.fail(f"there is no graph {token.text} before", token.offset)
        return self.graphs[token.text]

    def _hole(self) -> Any:
        self.expect("?")
        return HOLE

    def _in_brackets(self) -> tuple[Any, ...]:
        self.expect("(")
        return tuple(self.read_list(")", self.value))

    def _list(self) -> list[Any]:
        self.expect("[")
        return self.read_list("]", self.value)

    def _keywords(self) -> dict[str, Any]:
        self.expect("{")
        return dict(self.read_list("}", self._item))

    def _item(self) -> tuple[str, Any]:
        key = self.string()
        self.expect(":")
        return key, self.value()

    def _word(self) -> Any:
        word, offset = self.token.text, self.token.offset
        self.advance()
        if word in WORDS:
            return WORDS[word]
        if word in DTYPES:
            return self.array(word)[()]
        if word == "Range":
            arguments = zip(("start", "stop", "step"), self._in_brackets(), strict=False)
            return self.construct(Range, dict(arguments), offset)
        if find_structure(word) is not None:
            return self._treedef(find_structure(word), offset)
        cls = find_exception(word)
        if cls is None:
            self.fail(f"there is no {word!r}", offset)
        return cls

    def construct(self, cls: Any, fields: Mapping[str, Any], offset: int) -> Any:
        """Return a dataclass with these fields, whose types are checked; others get defaults.

        Raises:
            FormatError: If a field is unknown, missing, or of another type.
        """
        kinds = kinds_of(cls)
        unknown = [name for name in fields if name not in kinds]
        if unknown:
            self.fail(f"{cls.__name__} has no parameter {unknown[0]!r}", offset)
        instance = object.__new__(cls)
        for field in dataclasses.fields(cls):
            value = fields.get(field.name, field.default)
            if kinds[field.name] is SolverOptions and isinstance(value, dict):
                value = SolverOptions(cls.__name__, value)
            if value is dataclasses.MISSING or not fits(value, kinds[field.name]):
                shown = "is missing" if value is dataclasses.MISSING else f"is {value!r}"
                self.fail(f"{cls.__name__}: {field.name} {shown}", offset)
            object.__setattr__(instance, field.name, value)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()
        return instance

    def _treedef(self, cls: Any, offset: int) -> Treedef:
        self.expect("(")
        names = field_names_of(cls)
        fields = dict(self.read_list(")", self.parameter))
        # Texts of earlier releases lack fields that were added with a default.
        static_fields = [field for field in dataclasses.fields(cls) if field.name in names.static]
        defaults = {
            x.name: x.default for x in static_fields if x.default is not dataclasses.MISSING
        }
        fields = {**defaults, **fields}
        if {*fields} != {*names.parts, *names.static}:
            self.fail(f"{cls.__name__} has the fields {(*names.parts, *names.static)}", offset)
        kinds = kinds_of(cls)
        for name, value in fields.items():
            if not (_is_part(value) if name in names.parts else fits(value, kinds[name])):
                self.fail(f"{cls.__name__}.{name} is {value!r}", offset)
        part_values, static = (
            tuple(fields[x] for x in group) for group in (names.parts, names.static)
        )
        return Treedef(cls, part_values, static)

    def parameter(self) -> tuple[str, Any]:
        """Return a name and a value, ``axes=(0,)``."""
        name = self.take("word", "a parameter").text
        self.expect("=")
        return name, self.value()


def _is_part(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_part, value))
    return value is None or isinstance(value, Treedef) or value == LEAF
