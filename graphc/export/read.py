"""Graphs from text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.compile.shared import Shared, SharedInput, Store
from graphc.compile.streams import GeneratorStore
from graphc.errors import GraphcError
from graphc.export.lexer import Token
from graphc.export.names import find_operation
from graphc.export.operands import OperandReader
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
from graphc.ir.types import Dims, as_buckets, dims_of
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
    anew. The run time is proportional to the length of the text.

    Args:
        text: The text.
        arrays: The arrays that the text refers to, by name. They are captured without a copy;
            shared variables get copies of writeable ones.
        shared: Shared variables to use instead of new ones, by name.

    Returns:
        A graph with new inputs and the key of the graph that was written.

    Raises:
        FormatError: If the text is not what ``serialize`` writes, or an array does not fit it; the
            message has the line and column.

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


class GraphReader(OperandReader):
    """A reader of a graph from text.

    Attributes:
        arrays: The arrays that the text refers to.
        shared: Shared variables to use.
        keys: The nodes that have arrays, by the arrays' names.
        globals: The same nodes, by their names in the text.
        names: The nodes of the graph that is being read, by their names in the text.
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
        offset = self.token.offset
        version = self.integer()
        if not 1 <= version <= VERSION:
            self.fail(
                f"version {version} of the format",
                offset,
                f"This release reads versions up to {VERSION}: install a newer graphc.",
            )

    # Declarations, which all graphs share.

    def _declaration(self) -> None:
        kind = self.advance().text
        token = self._new_name()
        key = self._name(token)
        if key is None:
            self.fail(f"a {kind} has a name, not a number", token.offset)
        self.expect(":")
        is_generator = kind == "shared" and self.accept("generator")
        type = self.type()
        sharding = self._sharding(type)
        name, site = self._name_and_site(key)
        with derived_from(site):
            if kind == "shared":
                cls = GeneratorStore if is_generator else SharedInput
                node = self._shared_variable(cls, key, type, name, sharding, token.offset)
            else:
                array = self._array(key, type, token.offset)
                op = Leaf(array, name) if kind == "leaf" else Constant.of(array)
                node = self._set_name(Node.make(op), name)
        self.globals[token.text] = self.keys[key] = node

    def _shared_variable(
        self, cls: Any, key: str, type: Type, name: str | None, sharding: Any, offset: int
    ) -> Node:
        variable = self.shared.get(key)
        if variable is None:
            array = self._array(key, type, offset)
            value = array.copy() if array.flags.writeable else array
            return Node.make(cls(type, name, Store(value, owned=False), sharding))
        if not isinstance(variable, Shared) or variable.type is not type:
            self.fail(f"{key} is a shared variable of {type!r}, not {variable!r}", offset)
        return variable

    def _array(self, key: str, type: Type, offset: int) -> np.ndarray[Any, Any]:
        """Return an array by name, whose type is checked."""
        if key not in self.arrays:
            self.fail(
                f"there is no array {key!r}",
                offset,
                "Pass the arrays that serialize returned beside the text.",
            )
        array = as_numpy(self.arrays[key])
        actual = TensorType(dtype_name(array.dtype), array.shape)
        if not type.admits(actual):
            self.fail(f"the array {key!r} is {actual!r}", offset)
        return array

    # Graphs.

    def _graph(self) -> Graph:
        self.names = {}
        offset = self.token.offset
        self.expect("(")
        inputs = self.read_list(")", self._input)
        self.expect("{")
        while not self.accept("return"):
            self._statement()
        outputs = self._outputs()
        updates = []
        while self.accept("update"):
            updates.append(self._update())
        self.expect("}")
        shared = [x for x, _ in updates if x not in inputs]
        try:
            Graph([*inputs, *shared], [new for _, new in updates])
            graph = Graph(inputs, outputs)
        except GraphcError as error:
            self.fail(error.problem, offset)
        for x, new in updates:
            if x.op.given_name not in self.shared:
                x.default_update = new
        return graph

    def _outputs(self) -> list[Node]:
        outputs = []
        while self.token.text not in {"}", "update"}:
            outputs.append(self._array_operand())
            if not self.accept(","):
                break
        return outputs

    def _update(self) -> tuple[Any, Node]:
        """Return a shared variable and its default update."""
        offset = self.token.offset
        variable = self._operand()
        self.expect("=")
        new = self._array_operand()
        if not isinstance(variable, Shared):
            self.fail(f"{variable!r} is no shared variable", offset)
        if (new.type.dtype, new.type.ndim) != (variable.type.dtype, variable.type.ndim):
            self.fail(f"{variable!r} cannot become {new!r}", offset)
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

    def _plain_input(self, name_in_text: str | None) -> Node:
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
        dims = self._dims(type)
        name, site = self._name_and_site(name_in_text)
        with derived_from(site):
            if isinstance(type, XTensorType):
                return Node.make(NamedInput(type, name, sharding))
            return Node.make(cls(type, name, sharding, buckets=buckets, dims=dims))

    def _sharding(self, type: Any) -> Any:
        offset = self.token.offset
        if not self.accept("sharding"):
            return None
        self.expect("=")
        try:
            return as_sharding(self.value(), type.ndim, "sharding")
        except GraphcError as error:
            self.fail(error.problem, offset)

    def _buckets(self, type: Any) -> Buckets | None:
        offset = self.token.offset
        if not self.accept("bucket"):
            return None
        self.expect("=")
        try:
            return as_buckets(self.value(), type.shape)
        except GraphcError as error:
            self.fail(error.problem, offset)

    def _dims(self, type: Any) -> Dims | None:
        offset = self.token.offset
        if not self.accept("dims"):
            return None
        self.expect("=")
        names = self.value()
        is_of_names = isinstance(names, tuple) and len(names) == type.ndim
        if not is_of_names or isinstance(type, XTensorType):
            self.fail(f"dims={names!r} has no name or None for each axis of {type!r}", offset)
        for name, n in zip(names, type.shape, strict=True):
            if name is not None and (n is not None or not isinstance(name, str)):
                self.fail(f"dims={names!r}: {name!r} is no name of an unknown length", offset)
        try:
            return dims_of(names)
        except GraphcError as error:
            self.fail(error.problem, offset)

    # Operations.

    def _statement(self) -> None:
        token = self._new_name()
        self.expect("=")
        offset = self.token.offset
        word = self.take("word", "an operation").text
        operands: list[Node] = []
        if word in DTYPES:
            op: Op = Constant.of(np.asarray(self.array(word)))
        else:
            op = self._operation(word, operands, offset)
        self.expect(":")
        type = self.type()
        name, site = self._name_and_site(self._name(token))
        with derived_from(site):
            node = self._make_node(op, operands, offset)
        if not (type.admits(node.type) or node.type.admits(type)):
            self.fail(f"{op.name} gives {node.type!r}, not {type!r}", offset)
        self.names[token.text] = self._set_name(node, name)

    def _operation(self, word: str, operands: list[Node], offset: int) -> Op:
        """Return an operation with its parameters, and append its operands to a list."""
        op = find_operation(word)
        if op is None:
            self.fail(
                f"there is no operation {word}",
                offset,
                "A newer release may have written this text: install that.",
            )
        parameters: dict[str, Any] = {}

        def item() -> None:
            if self.token.kind in {"value", "formal"} or self.token.text in DTYPES:
                operands.append(self._operand())
            else:
                parameters.update([self.parameter()])

        self.expect("(")
        self.read_list(")", item)
        if not isinstance(op, Elementwise):
            return self.construct(op, parameters, offset)  # type: ignore[no-any-return]
        if parameters or len(operands) != op.arity:
            self.fail(f"{word} takes {op.arity} operands and no parameters", offset)
        return op

    def _make_node(self, op: Op, operands: Sequence[Node], offset: int) -> Node:
        try:
            return Node.make(op, *op.arranged(operands))
        except Exception as error:  # a type rule may fail in any way
            problem = error.problem if isinstance(error, GraphcError) else repr(error)
            self.fail(f"{op.name}: {problem}", offset)

    def _operand(self) -> Node:
        token = self.advance()
        if token.kind == "word" and token.text in DTYPES:
            return Node.make(Constant.of(np.asarray(self.array(token.text))))
        node = self.names.get(token.text, self.globals.get(token.text))
        if node is None:
            self.fail(f"there is no {token} here", token.offset)
        return node

    def _array_operand(self) -> Node:
        offset = self.token.offset
        node = self._operand()
        if not isinstance(node.type, TensorType):
            self.fail(f"{node!r} is several arrays, not one", offset)
        return node

    # Names.

    def _new_name(self) -> Token:
        token = self.take("value", "a name, such as %x")
        if token.text in self.names or token.text in self.globals:
            self.fail(f"there are two {token.text}", token.offset)
        return token

    def _name(self, token: Token) -> str | None:
        """Return the name of a token; None for a number."""
        text = token.text[1:]
        if text.isdecimal():
            return None
        return self.unquote(text, token.offset) if text.startswith('"') else text

    def _name_and_site(self, name: str | None) -> tuple[str | None, Site | None]:
        """Return a node's name and line, which follow the node."""
        if self.accept("unnamed"):
            name = None
        elif self.token.kind == "string":
            name = self.string()
        if not self.accept("at"):
            return name, None
        offset = self.token.offset
        file, _, line = self.string().rpartition(":")
        if not (line.isdecimal() and len(line) < 10) or "\0" in file:
            self.fail("expected a file and a line", offset)
        return name, site_at(file, int(line))

    def _set_name(self, node: Node, name: str | None) -> Node:
        """Name a node, unless other graphs share it under another name."""
        if name is not None and node.name is None:
            node.name = name
        return node
