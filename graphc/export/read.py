"""Graphs from text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.compile.shared import Shared, SharedInput, Store
from graphc.compile.streams import GeneratorStore
from graphc.errors import GraphcError
from graphc.export.lexer import Token
from graphc.export.names import operation_named
from graphc.export.operands import Reader
from graphc.export.write import HEADER, KINDS, VERSION
from graphc.ir import (
    DTYPES,
    Buckets,
    Constant,
    Graph,
    Input,
    Leaf,
    Node,
    Op,
    TensorType,
    Type,
    dtype_name,
)
from graphc.ir.sharding import as_sharding
from graphc.ir.types import as_buckets
from graphc.link import as_numpy
from graphc.loop.step import Formal
from graphc.site import Site, derived_from, site_at
from graphc.tensor.core.elementwise import Elementwise
from graphc.xtensor.type import NamedInput, XTensorType


def deserialize(
    text: str,
    arrays: Mapping[str, Any] | None = None,
    shared: Mapping[str, Shared] | None = None,
) -> Graph:
    """Return the graph of a text that ``serialize`` wrote, in this or an earlier release.

    No code is run, whatever the text says: it names graphc's own operations, and types are inferred
    anew. The time that it takes is proportional to the length of the text.

    Args:
        text: The text.
        arrays: The arrays that it refers to by name. They are captured as they are, not copied;
            shared variables get copies of those that can be written to.
        shared: Shared variables to use in the place of new ones, by name.

    Returns:
        A graph of new inputs. It has the key of the graph that was written.

    Raises:
        FormatError: The text is not what ``serialize`` writes, or an array does not fit it; names
            the line and column.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> w = graphc.shared([1.0, 2.0], name="w")
        >>> text, arrays = graphc.serialize((w * 2).sum())
        >>> graph = graphc.deserialize(text, arrays)
        >>> float(graphc.function([], graph.outputs[0], mode="NUMPY")())
        6.0
        >>> graphc.deserialize(text.replace("Sum", "Sun"), arrays)
        Traceback (most recent call last):
            ...
        graphc.errors.FormatError: Graph text, line 7, column 8: there is no operation Sun...
    """
    return GraphReader(text, dict(arrays or {}), dict(shared or {})).read()


class GraphReader(Reader):
    """A text of which a graph is read.

    Attributes:
        arrays: The arrays that it refers to.
        shared: Shared variables to use.
        keys: The nodes that have arrays, by the names of these.
        globals: The same by what stands for them in the text.
        names: The same, and the nodes of the graph that is being read.
    """

    def __init__(self, text: str, arrays: dict[str, Any], shared: dict[str, Shared]) -> None:
        super().__init__(text)
        self.arrays = arrays
        self.shared = shared
        self.keys: dict[str, Node] = {}
        self.globals: dict[str, Node] = {}
        self.names: dict[str, Node] = {}

    def read(self) -> Graph:
        """Return the last graph of the text."""
        self._header()
        while self.token.text in {"shared", "leaf", "constant"}:
            self._declaration()
        graph = None
        while self.token.kind != "end":
            self.expect("graph")
            name = self.take("graph", "a graph's name").text
            if name in self.graphs:
                self.fail(f"there are two graphs {name}")
            graph = self.graphs[name] = self._graph()
        if graph is None:
            self.fail("there is no graph in it")
        return graph

    def _header(self) -> None:
        if self.token.text != HEADER:
            self.fail(f"expected {HEADER!r}, with which every graph text begins")
        self.advance()
        place = self.token.place
        version = self.integer()
        if not 1 <= version <= VERSION:
            self.fail(
                f"version {version} of the format",
                place,
                f"This release reads versions up to {VERSION}: install a newer graphc.",
            )

    # What belongs to no single graph.

    def _declaration(self) -> None:
        kind = self.advance().text
        token = self._new_name()
        key = self._name(token)
        if key is None:
            self.fail(f"a {kind} has a name, not a number", token.place)
        self.expect(":")
        is_generator = kind == "shared" and self.found("generator")
        type = self.type()
        sharding = self._sharding(type)
        name, site = self._beside(key)
        with derived_from(site):
            if kind == "shared":
                made = GeneratorStore if is_generator else SharedInput
                node = self._shared(made, key, type, name, sharding, token.place)
            else:
                array = self._array(key, type, token.place)
                op = Leaf(array, name) if kind == "leaf" else Constant.of(array)
                node = self._named(Node.make(op), name)
        self.globals[token.text] = self.keys[key] = node

    def _shared(
        self, cls: Any, key: str, type: Type, name: str | None, sharding: Any, place: int
    ) -> Node:
        given = self.shared.get(key)
        if given is None:
            array = self._array(key, type, place)
            value = array.copy() if array.flags.writeable else array
            return Node.make(cls(type, name, Store(value, owned=False), sharding))
        if not isinstance(given, Shared) or given.type is not type:
            self.fail(f"{key} is a shared variable of {type!r}, not {given!r}", place)
        return given

    def _array(self, key: str, type: Type, place: int) -> np.ndarray[Any, Any]:
        """The array of a name, which is of a type."""
        if key not in self.arrays:
            self.fail(
                f"there is no array {key!r}",
                place,
                "Pass the arrays that serialize returned beside the text.",
            )
        array = as_numpy(self.arrays[key])
        own = TensorType(dtype_name(array.dtype), array.shape)
        if not type.admits(own):
            self.fail(f"the array {key!r} is {own!r}", place)
        return array

    # Graphs.

    def _graph(self) -> Graph:
        self.names = {}
        place = self.token.place
        self.expect("(")
        inputs = self.listed(")", self._input)
        self.expect("{")
        while not self.found("return"):
            self._statement()
        outputs = self._outputs()
        updates = []
        while self.found("update"):
            updates.append(self._update())
        self.expect("}")
        shared = [x for x, _ in updates if x not in inputs]
        try:
            Graph([*inputs, *shared], [new for _, new in updates])
            graph = Graph(inputs, outputs)
        except GraphcError as error:
            self.fail(error.problem, place)
        for x, new in updates:
            if x.op.given_name not in self.shared:
                x.default_update = new
        return graph

    def _outputs(self) -> list[Node]:
        found = []
        while self.token.text not in {"}", "update"}:
            found.append(self._array_operand())
            if not self.found(","):
                break
        return found

    def _update(self) -> tuple[Any, Node]:
        """A shared variable, and its value after a call unless that says otherwise."""
        place = self.token.place
        variable = self._operand()
        self.expect("=")
        new = self._array_operand()
        if not isinstance(variable, Shared):
            self.fail(f"{variable!r} is no shared variable", place)
        if (new.type.dtype, new.type.ndim) != (variable.type.dtype, variable.type.ndim):
            self.fail(f"{variable!r} cannot become {new!r}", place)
        return variable, new

    def _input(self) -> Node:
        token = self.token
        if token.text in self.names or token.text in self.globals:
            return self._operand()
        if token.kind == "formal":
            self.advance()
            self.expect(":")
            node = Node.make(Formal(int(token.text[1:]), self.type()))
        else:
            self._new_name()
            self.expect(":")
            node = self._plain_input(self._name(token))
        self.names[token.text] = node
        return node

    def _plain_input(self, own: str | None) -> Node:
        cls: Any = Input
        words = ""
        while self.token.text in {"generator", "parameter"}:
            words += f"{self.advance().text} "
        if words:
            kinds = [kind for kind, text in KINDS.items() if text == words]
            cls = kinds[0]
        type = self.input_type()
        sharding = self._sharding(type)
        buckets = self._buckets(type)
        name, site = self._beside(own)
        with derived_from(site):
            if isinstance(type, XTensorType):
                return Node.make(NamedInput(type, name, sharding))
            return Node.make(cls(type, name, sharding, buckets=buckets))

    def _sharding(self, type: Any) -> Any:
        place = self.token.place
        if not self.found("sharding"):
            return None
        self.expect("=")
        try:
            return as_sharding(self.value(), type.ndim, "sharding")
        except GraphcError as error:
            self.fail(error.problem, place)

    def _buckets(self, type: Any) -> Buckets | None:
        place = self.token.place
        if not self.found("bucket"):
            return None
        self.expect("=")
        try:
            return as_buckets(self.value(), type.shape)
        except GraphcError as error:
            self.fail(error.problem, place)

    # Operations.

    def _statement(self) -> None:
        token = self._new_name()
        self.expect("=")
        place = self.token.place
        word = self.take("word", "an operation").text
        operands: list[Node] = []
        if word in DTYPES:
            op: Op = Constant.of(np.asarray(self.array(word)))
        else:
            op = self._operation(word, operands, place)
        self.expect(":")
        type = self.type()
        name, site = self._beside(self._name(token))
        with derived_from(site):
            node = self._made(op, operands, place)
        if not (type.admits(node.type) or node.type.admits(type)):
            self.fail(f"{op.name} gives {node.type!r}, not {type!r}", place)
        self.names[token.text] = self._named(node, name)

    def _operation(self, word: str, operands: list[Node], place: int) -> Op:
        """An operation with its parameters; its operands are added to a list."""
        found = operation_named(word)
        if found is None:
            self.fail(
                f"there is no operation {word}",
                place,
                "A newer release may have written this text: install that.",
            )
        given: dict[str, Any] = {}

        def item() -> None:
            if self.token.kind in {"value", "formal"} or self.token.text in DTYPES:
                operands.append(self._operand())
            else:
                given.update([self.parameter()])

        self.expect("(")
        self.listed(")", item)
        if not isinstance(found, Elementwise):
            return self.checked(found, given, place)  # type: ignore[no-any-return]
        if given or len(operands) != found.arity:
            self.fail(f"{word} takes {found.arity} operands and no parameters", place)
        return found

    def _made(self, op: Op, operands: Sequence[Node], place: int) -> Node:
        try:
            return Node.make(op, *op.arranged(operands))
        except Exception as error:  # a type rule may fail in any way
            problem = error.problem if isinstance(error, GraphcError) else repr(error)
            self.fail(f"{op.name}: {problem}", place)

    def _operand(self) -> Node:
        token = self.advance()
        if token.kind == "word" and token.text in DTYPES:
            return Node.make(Constant.of(np.asarray(self.array(token.text))))
        node = self.names.get(token.text, self.globals.get(token.text))
        if node is None:
            self.fail(f"there is no {token} here", token.place)
        return node

    def _array_operand(self) -> Node:
        place = self.token.place
        node = self._operand()
        if not isinstance(node.type, TensorType):
            self.fail(f"{node!r} is several arrays, not one", place)
        return node

    # Names.

    def _new_name(self) -> Token:
        token = self.take("value", "a name, such as %x")
        if token.text in self.names or token.text in self.globals:
            self.fail(f"there are two {token.text}", token.place)
        return token

    def _name(self, token: Token) -> str | None:
        """The name of a token; None for a number."""
        text = token.text[1:]
        if text.isdecimal():
            return None
        return self.unquoted(text, token.place) if text.startswith('"') else text

    def _beside(self, name: str | None) -> tuple[str | None, Site | None]:
        """A node's name and line, as they stand behind it."""
        if self.found("unnamed"):
            name = None
        elif self.token.kind == "string":
            name = self.string()
        if not self.found("at"):
            return name, None
        place = self.token.place
        file, _, line = self.string().rpartition(":")
        if not (line.isdecimal() and len(line) < 10) or "\0" in file:
            self.fail("expected a file and a line", place)
        return name, site_at(file, int(line))

    def _named(self, node: Node, name: str | None) -> Node:
        """A node with that name; one that other graphs share may have another one."""
        if name is not None and node.name is None:
            node.name = name
        return node
