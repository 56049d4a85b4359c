"""Graphs from text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from io import StringIO
from types import MappingProxyType
from typing import Any

import numpy as np

from graphc.compile.shared import Shared, Store
from graphc.errors import FormatError, GraphcError
from graphc.export.names import find_operation
from graphc.export.values import array_of, construct, tensor_type_of, type_of, value_of
from graphc.export.write import HEADER, INPUTS, MAIN, STORES, VERSION
from graphc.ir import Constant, Graph, Leaf, Node, Op, TensorType, dtype_name
from graphc.ir.sharding import as_sharding
from graphc.ir.types import Dims, as_buckets, dims_of
from graphc.link import as_numpy
from graphc.loop.step import Formal
from graphc.site import Site, derived_from, site_at
from graphc.tensor.core.elementwise import Elementwise
from graphc.xtensor.type import NamedInput, XTensorType

MAX_DEPTH = 500  # deeper brackets may end Python's stack, wherever the reader was called


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
            message has the line.

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
        graphc.errors.FormatError: Graph text, line 6: there is no operation Sun...
    """
    if not isinstance(text, str):
        raise FormatError(
            f"Graph text: expected a string, got {type(text).__name__}.",
            "Pass both results of graphc.serialize: graphc.deserialize(text, arrays).",
        )
    return GraphReader(text, dict(arrays or {}), dict(shared or {})).read()


OPERANDS = {"PivotsToPermutation": 1}
"""The numbers of operands of operations that have more in texts of earlier releases."""

UNSET: Any = object()
"""The name of a node that has its identifier as name."""


class GraphReader:
    """A reader of a graph from text, line by line.

    A line is a JSON object. Its first key is the kind of line, ``"node"`` for example, and selects
    the method that reads it; the other keys are that method's keyword arguments.

    Attributes:
        arrays: The arrays that the text refers to.
        shared: Shared variables to use.
        graphs: The graphs read so far, by name.
        keys: The nodes that have arrays, by the arrays' names.
        nodes: The nodes of the graph that is being read and those that all graphs share, by their
            identifiers in the text.
        inputs: The inputs of the graph that is being read.
        name: The name of the graph that is being read; None between graphs.
    """

    def __init__(self, text: str, arrays: dict[str, Any], shared: dict[str, Shared]) -> None:
        self.text = text
        self.arrays = arrays
        self.shared = shared
        self.graphs: dict[str, Graph] = {}
        self.keys: dict[str, Node] = {}
        self.nodes: dict[Any, Node] = {}
        self.inputs: list[Node] = []
        self.name: str | None = None
        self._outside: dict[str, Callable[..., None]] = {
            "shared": partial(self._declare, self._variable),
            "leaf": partial(self._declare, self._leaf),
            "constant": partial(self._declare, self._constant),
            "graph": self._graph,
        }
        self._inside: dict[str, Callable[..., None]] = {
            "input": self._input,
            "node": self._node,
            "return": self._return,
        }

    def read(self) -> Graph:
        """Return the graph of the text."""
        read = self._header
        number = 0
        # A name may have other characters at which ``splitlines`` would divide it.
        for number, line in enumerate(StringIO(self.text), 1):
            try:
                read(_parse(line))
            except Exception as error:  # a type rule may fail in any way, and so may JSON's parser
                problem = f"{type(error).__name__}: {error}"
                if isinstance(error, GraphcError):
                    problem = error.problem
                elif isinstance(error, RecursionError):
                    problem = "brackets are nested too deeply"
                remedy = error.remedy if isinstance(error, FormatError) else ""
                raise FormatError(
                    f"Graph text, line {number}: {problem.removesuffix('.')}.", remedy
                ) from None
            read = self._line
        if self.name is not None or MAIN not in self.graphs:
            graph = self.name or f"the graph {MAIN!r}"
            raise FormatError(f"Graph text, line {number}: {graph} has no end.")
        return self.graphs[MAIN]

    def _header(self, record: dict[str, Any]) -> None:
        version = record.get(HEADER)
        if type(version) is not int:
            raise FormatError(f"expected {HEADER!r}, with which every graph text begins")
        if not 1 <= version <= VERSION:
            raise FormatError(
                f"version {version} of the format",
                f"This release reads versions up to {VERSION}: install a newer graphc.",
            )

    def _line(self, record: dict[str, Any]) -> None:
        kind, subject = next(iter(record.items()))
        readers = self._outside if self.name is None else self._inside
        if kind not in readers:
            raise FormatError(f"expected {' or '.join(map(repr, readers))}, got {kind!r}")
        del record[kind]
        readers[kind](subject, **record)

    # Declarations, which all graphs share.

    def _declare(self, create: Callable[..., Node], key: Any, *, type: Any, **fields: Any) -> None:
        if not isinstance(key, str):
            raise FormatError(f"a declaration has a name, not {key!r}")
        self._add(key, partial(create, key, tensor_type_of(type)), **fields)
        self.keys[key] = self.nodes[key]

    def _leaf(self, key: str, type: TensorType, name: str | None) -> Node:
        return Node.make(Leaf(self._array(key, type), name))

    def _constant(self, key: str, type: TensorType, name: str | None) -> Node:
        return Node.make(Constant.of(self._array(key, type)))

    def _variable(
        self,
        key: str,
        type: TensorType,
        name: str | None,
        kind: str = "SharedInput",
        **options: Any,
    ) -> Node:
        variable = self.shared.get(key)
        if variable is None:
            array = self._array(key, type)
            store = Store(array.copy() if array.flags.writeable else array, owned=False)
            return Node.make(_one_of(STORES, kind)(type, name, store, **_options(type, options)))
        if not isinstance(variable, Shared) or variable.type is not type:
            raise FormatError(f"{key} is a shared variable of {type!r}, not {variable!r}")
        return variable

    def _array(self, key: Any, type: TensorType) -> np.ndarray[Any, Any]:
        """Return an array by name, whose type is checked."""
        if key not in self.arrays:
            raise FormatError(
                f"there is no array {key!r}",
                "Pass the arrays that serialize returned beside the text.",
            )
        array = as_numpy(self.arrays[key])
        actual = TensorType(dtype_name(array.dtype), array.shape)
        if not type.admits(actual):
            raise FormatError(f"the array {key!r} is {actual!r}")
        return array

    # Graphs.

    def _graph(self, name: Any) -> None:
        if not isinstance(name, str):
            raise FormatError(f"{name!r} is no name of a graph")
        if name in self.graphs:
            raise FormatError(f"there are two graphs {name!r}")
        self.name = name
        self.inputs = []
        self.nodes = {**self.keys}

    def _return(
        self, operands: list[Any], *, updates: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        outputs = [self._array_operand(y) for y in _items(operands)]
        pairs = [self._update(x, new) for x, new in updates.items()]
        shared = [x for x, _ in pairs if x not in self.inputs]
        Graph([*self.inputs, *shared], [new for _, new in pairs])
        self.graphs[str(self.name)] = Graph(self.inputs, outputs)
        self.name = None
        for x, new in pairs:
            if x.op.given_name not in self.shared:
                x.default_update = new

    def _update(self, id: str, value: Any) -> tuple[Any, Node]:
        """Return a shared variable and its default update."""
        variable, new = self._operand(id), self._array_operand(value)
        if not isinstance(variable, Shared):
            raise FormatError(f"{variable!r} is no shared variable")
        if (new.type.dtype, new.type.ndim) != (variable.type.dtype, variable.type.ndim):
            raise FormatError(f"{variable!r} cannot become {new!r}")
        return variable, new

    def _input(self, id: Any, *, type: Any = None, kind: str = "Input", **fields: Any) -> None:
        if type is not None:
            self._add(id, partial(_make_input, kind, type), **fields)
        # Without a type it was an input before, or all graphs share it.
        self.inputs.append(self._operand(id))

    # Operations.

    def _node(self, id: Any, *, value: Any = None, **fields: Any) -> None:
        if value is not None:
            constant = Constant.of(np.asarray(array_of(value)))
            self._add(id, lambda name: Node.make(constant), **fields)
        else:
            self._apply(id, **fields)

    def _apply(
        self,
        id: Any,
        *,
        op: str,
        of: list[Any],
        type: Any,
        parameters: Mapping[str, Any] = MappingProxyType({}),
        **name: Any,
    ) -> None:
        named = find_operation(op) if isinstance(op, str) else None
        if named is None:
            raise FormatError(
                f"there is no operation {op}",
                "A newer release may have written this text: install that.",
            )
        operands = [self._operand(x) for x in _items(of)[: OPERANDS.get(op)]]
        operation: Op
        if isinstance(named, Elementwise):
            operation = named
            if parameters or len(operands) != operation.arity:
                raise FormatError(f"{op} takes {operation.arity} operands and no parameters")
        else:
            values = {key: value_of(x, self.graphs) for key, x in parameters.items()}
            operation = construct(named, values)

        self._add(id, lambda name: Node.make(operation, *operation.arranged(operands)), **name)
        actual, declared = self.nodes[id].type, type_of(type)
        if not (declared.admits(actual) or actual.admits(declared)):
            raise FormatError(f"{operation.name} gives {actual!r}, not {declared!r}")

    def _operand(self, value: Any) -> Node:
        """Return the node of an identifier, or a small constant."""
        if isinstance(value, dict):
            return Node.make(Constant.of(np.asarray(array_of(value))))
        if type(value) not in {int, str} or value not in self.nodes:
            raise FormatError(f"there is no {value!r} here")
        return self.nodes[value]

    def _array_operand(self, value: Any) -> Node:
        node = self._operand(value)
        if not isinstance(node.type, TensorType):
            raise FormatError(f"{node!r} is several arrays, not one")
        return node

    def _add(
        self,
        id: Any,
        create: Callable[..., Node],
        *,
        name: Any = UNSET,
        at: Any = None,
        **fields: Any,
    ) -> None:
        """Add a node that ``create`` returns for its name and other fields, with its line."""
        if type(id) not in {int, str}:
            raise FormatError(f"{id!r} is no name or number")
        if id in self.nodes:
            raise FormatError(f"there are two {id!r}")
        if name is UNSET:
            name = id if isinstance(id, str) else None
        if not isinstance(name, str | None):
            raise FormatError(f"{name!r} is no name")
        with derived_from(None if at is None else _site(at)):
            node = self.nodes[id] = create(name, **fields)
        # Graphs may share a node that has another name there.
        if name is not None and node.name is None:
            node.name = name


def _parse(line: str) -> dict[str, Any]:
    """Return a line as an object of JSON, with at least one field."""
    if not line.lstrip().startswith("{"):
        raise FormatError(f"expected a JSON object, got {line[:40].rstrip()!r}")
    record = json.loads(
        line, object_pairs_hook=_object, parse_float=_number, parse_constant=_number
    )
    # Half a surrogate pair is no character.
    json.dumps(record, ensure_ascii=False).encode()
    if line.count("[") + line.count("{") > MAX_DEPTH and _is_deeper(record, MAX_DEPTH):
        raise RecursionError
    if not record:
        raise FormatError("the JSON object has no field")
    return record  # type: ignore[no-any-return]


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    while level and depth:
        lists = [x.values() if isinstance(x, dict) else x for x in level]
        level = [y for x in lists for y in x if isinstance(y, dict | list)]
        depth -= 1
    return bool(level)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object, each of which occurs once."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise FormatError(f"a field occurs twice in {[name for name, _ in pairs]}")
    return fields


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise FormatError(f"{text} is no number of JSON")
    return number


def _items(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise FormatError(f"expected a list, got {values!r}")
    return values


def _one_of(kinds: Mapping[str, Any], kind: Any) -> Any:
    """Return the class of a kind of inputs or shared variables."""
    if not isinstance(kind, str) or kind not in kinds:
        raise FormatError(f"kind={kind!r}: expected {' or '.join(map(repr, kinds))}")
    return kinds[kind]


def _make_input(
    kind: str,
    type: Any,
    name: str | None,
    *,
    axes: Any = None,
    position: Any = None,
    **options: Any,
) -> Node:
    if kind == "Formal":
        if not isinstance(position, int) or position < 0:
            raise FormatError(f"position={position!r} is no index")
        return Node.make(Formal(position, type_of(type)))
    tensor_type = tensor_type_of(type)
    options = _options(tensor_type, options)
    if axes is None:
        return Node.make(_one_of(INPUTS, kind)(tensor_type, name, **options))
    named_type = XTensorType(tensor_type.dtype, dims=_items(axes), shape=tensor_type.shape)
    return Node.make(NamedInput(named_type, name, **options))


def _options(type: TensorType, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sharding, buckets and names of lengths of an input."""
    read: dict[str, Callable[[Any], Any]] = {
        "sharding": lambda value: as_sharding(value, type.ndim, "sharding"),
        "buckets": lambda value: as_buckets(value, type.shape),
        "dims": lambda value: _dims(value, type),
    }
    return {name: read[name](value_of(value, {})) for name, value in options.items()}


def _dims(names: Any, type: TensorType) -> Dims | None:
    if not isinstance(names, tuple) or len(names) != type.ndim:
        raise FormatError(f"dims={names!r} has no name or None for each axis of {type!r}")
    for name, n in zip(names, type.shape, strict=True):
        if name is not None and (n is not None or not isinstance(name, str)):
            raise FormatError(f"dims={names!r}: {name!r} is no name of an unknown length")
    return dims_of(names)


def _site(text: Any) -> Site:
    """Return the site of a file and a line."""
    file, _, line = str(text).rpartition(":")
    if not (line.isdecimal() and len(line) < 10) or "\0" in file:
        raise FormatError("expected a file and a line")
    return site_at(file, int(line))
