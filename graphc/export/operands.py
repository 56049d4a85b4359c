"""What is in brackets in graph text: types, numbers, arrays and parameters of operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphc.errors import GraphcError
from graphc.export.lexer import Lexer
from graphc.export.literals import array_of
from graphc.export.names import exception_named, fits, kinds_of, structure_named
from graphc.implicit.treedef import LEAF, Treedef, field_names_of
from graphc.ir import DTYPES, Graph, Shape, TensorType, TupleType, Type
from graphc.optimize.options import SolverOptions
from graphc.tensor.arrays.index import HOLE, Range
from graphc.xtensor.type import XTensorType

DEEPEST = 64
"""So many brackets may be in each other."""

WORDS = {"None": None, "True": True, "False": False, LEAF: LEAF}


class Reader(Lexer):
    """A text of which types and parameters are read.

    Attributes:
        graphs: The graphs that were read, by name.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.graphs: dict[str, Graph] = {}
        self._depth = 0
        self._read_by: dict[str, Callable[[], Any]] = {
            "number": self.number,
            "string": self.string,
            "graph": self.graph_named,
            "word": self._word,
            "?": self._hole,
            "(": self._in_brackets,
            "[": self._list,
            "{": self._keywords,
        }

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """A context in which one bracket more is open."""
        self._depth += 1
        if self._depth > DEEPEST:
            self.fail(f"more than {DEEPEST} brackets in each other")
        yield
        self._depth -= 1

    # Types.

    def type(self) -> Type:
        """Return the type that comes next."""
        if not self.found("("):
            dtype = self.dtype()
            return TensorType(dtype, self.shape())
        with self._deeper():
            return TupleType(tuple(self.listed(")", self.type)))

    def dtype(self) -> str:
        """Return the dtype that comes next."""
        token = self.take("word", "a dtype")
        if token.text not in DTYPES:
            self.fail(f"{token} is no dtype", token.place)
        return token.text

    def shape(self) -> Shape:
        """Return the lengths in brackets that come next."""
        self.expect("[")
        return tuple(self.listed("]", self.length))

    def length(self) -> int | None:
        """Return the length that comes next, None for ``?``."""
        if self.found("?"):
            return None
        place = self.token.place
        n = self.integer()
        if n < 0:
            self.fail(f"{n} is no length", place)
        return n

    def input_type(self) -> TensorType | XTensorType:
        """Return the type of an input, whose dimensions may have names."""
        place = self.token.place
        dtype = self.dtype()
        self.expect("[")
        named = self.token.kind in {"word", "string"}
        lengths = self.listed("]", self._named_length if named else self.length)
        if not named:
            return TensorType(dtype, lengths)
        dims, shape = zip(*lengths, strict=True)
        try:
            return XTensorType(dtype, dims=dims, shape=shape)
        except GraphcError as error:
            self.fail(error.problem, place)

    def _named_length(self) -> tuple[str, int | None]:
        is_word = self.token.kind == "word"
        name = self.advance().text if is_word else self.string()
        self.expect("=")
        return name, self.length()

    # Arrays.

    def array(self, dtype: str) -> np.ndarray[Any, Any]:
        """Return the array whose dtype has been read: ``([1.0, 2.0])`` or ``[2]("3c...")``."""
        place = self.token.place
        shape = self.shape() if self.token.text == "[" else None
        self.expect("(")
        value = self.value()
        self.expect(")")
        try:
            return array_of(dtype, shape, value)
        except (TypeError, ValueError) as error:
            self.fail(f"no array of {dtype}: {error}", place)

    # Parameters.

    def value(self) -> Any:
        """Return the parameter that comes next."""
        with self._deeper():
            return self._value()

    def _value(self) -> Any:
        token = self.token
        read = self._read_by.get(token.kind) or self._read_by.get(token.text)
        if read is None:
            self.fail(f"expected a value, got {token}")
        return read()

    def graph_named(self) -> Graph:
        """Return the graph whose name comes next."""
        token = self.take("graph", "a graph's name")
        if token.text not in self.graphs:
            self.fail(f"there is no graph {token.text} before", token.place)
        return self.graphs[token.text]

    def _hole(self) -> Any:
        self.expect("?")
        return HOLE

    def _in_brackets(self) -> tuple[Any, ...]:
        self.expect("(")
        return tuple(self.listed(")", self.value))

    def _list(self) -> list[Any]:
        self.expect("[")
        return self.listed("]", self.value)

    def _keywords(self) -> dict[str, Any]:
        self.expect("{")
        return dict(self.listed("}", self._item))

    def _item(self) -> tuple[str, Any]:
        key = self.string()
        self.expect(":")
        return key, self.value()

    def _word(self) -> Any:
        word, place = self.token.text, self.token.place
        self.advance()
        if word in WORDS:
            return WORDS[word]
        if word in DTYPES:
            return self.array(word)[()]
        if word == "Range":
            parts = zip(("start", "stop", "step"), self._in_brackets(), strict=False)
            return self.checked(Range, dict(parts), place)
        if structure_named(word) is not None:
            return self._treedef(structure_named(word), place)
        found = exception_named(word)
        if found is None:
            self.fail(f"there is no {word!r}", place)
        return found

    def checked(self, cls: Any, given: Mapping[str, Any], place: int) -> Any:
        """Return a dataclass of fields, whose kinds are checked; those left out have defaults.

        Raises:
            FormatError: A field is unknown, missing, or of another kind.
        """
        kinds = kinds_of(cls)
        unknown = [name for name in given if name not in kinds]
        if unknown:
            self.fail(f"{cls.__name__} has no parameter {unknown[0]!r}", place)
        made = object.__new__(cls)
        for field in dataclasses.fields(cls):
            value = given.get(field.name, field.default)
            if kinds[field.name] is SolverOptions and isinstance(value, dict):
                value = SolverOptions(cls.__name__, value)
            if value is dataclasses.MISSING or not fits(value, kinds[field.name]):
                shown = "is missing" if value is dataclasses.MISSING else f"is {value!r}"
                self.fail(f"{cls.__name__}: {field.name} {shown}", place)
            object.__setattr__(made, field.name, value)
        if hasattr(made, "__post_init__"):
            made.__post_init__()
        return made

    def _treedef(self, cls: Any, place: int) -> Treedef:
        self.expect("(")
        names = field_names_of(cls)
        given = dict(self.listed(")", self.parameter))
        # An earlier release may not have known a field that has a default.
        own = [field for field in dataclasses.fields(cls) if field.name in names.static]
        known = {x.name: x.default for x in own if x.default is not dataclasses.MISSING}
        given = {**known, **given}
        if {*given} != {*names.parts, *names.static}:
            self.fail(f"{cls.__name__} has the fields {(*names.parts, *names.static)}", place)
        kinds = kinds_of(cls)
        for name, value in given.items():
            if not (_is_part(value) if name in names.parts else fits(value, kinds[name])):
                self.fail(f"{cls.__name__}.{name} is {value!r}", place)
        parts, static = (tuple(given[x] for x in group) for group in (names.parts, names.static))
        return Treedef(cls, parts, static)

    def parameter(self) -> tuple[str, Any]:
        """Return a name and a value, ``axes=(0,)``."""
        name = self.take("word", "a parameter").text
        self.expect("=")
        return name, self.value()


def _is_part(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_part, value))
    return value is None or isinstance(value, Treedef) or value == LEAF
