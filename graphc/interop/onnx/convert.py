"""The conversion: a walk over an ONNX model in which each operator's converter is called."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from graphc.errors import (
    ArgumentError,
    FormatError,
    GraphcError,
    UnsupportedOperationError,
)
from graphc.interop.onnx import operators
from graphc.interop.onnx.declared import given_of, input_of, metadata_of, output_of, share, used
from graphc.interop.onnx.operation import (
    CONVERTERS,
    FOLDS,
    REFUSED,
    Operation,
    operands_of,
    results_of,
    schema_of,
)
from graphc.interop.onnx.source import (
    DAMAGE,
    NEWEST,
    OLDEST,
    Source,
    check_version,
    domain_of,
    lengths_of,
)
from graphc.interop.onnx.values import FEW, Known, Refusal, Value, tensor_of
from graphc.tensor import Tensor

MOST = 1_000_000
"""The most nodes that are converted, those of functions as often as they are called."""

DEEPEST = 64
"""How many subgraphs and functions may stand in each other."""

LISTED = 30
"""How many missing operators an error names."""

SKIPPED: Any = object()
"""What stands for the results of a node that could not be converted."""


class Skipped(Refusal):
    """A node uses the result of another that could not be converted."""


operators.load()


@dataclass
class Converted:
    """A model as graphs.

    Attributes:
        name: The name of its graph.
        inputs: The symbolic inputs, by name.
        outputs: The results, by name.
        initializers: The initializers that the graph uses, by name.
        shapes: The lengths of the inputs and outputs: integers, the model's names, None.
        metadata: What the model says of itself.
    """

    name: str
    inputs: dict[str, Tensor]
    outputs: dict[str, Any]
    initializers: dict[str, Tensor]
    shapes: dict[str, list[Any] | None]
    metadata: dict[str, str]


def converted(model: Any, shared: bool | Collection[str], givens: Mapping[str, Any]) -> Converted:
    """The graphs of a model."""
    source = Source.read(model)
    try:
        return Conversion(source).run(shared, givens)
    except GraphcError:
        raise
    except Refusal as reason:
        raise UnsupportedOperationError(f"onnx.load: {reason}.") from None
    except DAMAGE as error:
        raise FormatError(
            f"onnx.load: the model is damaged, or not as the standard says: {error!r}.",
            "onnx.checker.check_model may say more.",
        ) from error


@dataclass
class Scope:
    """What is known where a node stands.

    Attributes:
        conversion: The conversion.
        versions: The versions of the operators, by domain.
        values: Values by name, beside those of the outer scope.
        outer: The scope around a subgraph.
        attributes: Those of the call, in the body of a function.
        depth: How many scopes are around it, those of functions' calls too.
    """

    conversion: Conversion
    versions: Mapping[str, int]
    values: dict[str, Value] = field(default_factory=dict)
    outer: Scope | None = None
    attributes: Mapping[str, Any] | None = None
    depth: int = 0

    def __post_init__(self) -> None:
        if self.depth > DEEPEST:
            raise FormatError(
                f"onnx.load: more than {DEEPEST} functions and subgraphs stand in each other.",
                "A function may call itself, which ONNX does not allow.",
            )

    def inside(self) -> Scope:
        """The scope of a subgraph that stands here."""
        return Scope(self.conversion, self.versions, {}, self, self.attributes, self.depth + 1)

    def of_call(self, versions: Mapping[str, int], attributes: Mapping[str, Any]) -> Scope:
        """The scope of a function that is called here: it sees nothing of what is around."""
        return Scope(self.conversion, versions, {}, None, attributes, self.depth + 1)

    def __getitem__(self, name: str) -> Value:
        """The value of a name; None of an empty one."""
        if not name:
            return None
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise FormatError(f"onnx.load: {name!r} is used, and nothing before computes it.")

    def attribute(self, given: Any) -> Any:
        """An attribute; in a function's body it may be one of the call; None if that has none."""
        if not given.ref_attr_name or self.attributes is None:
            return given
        found = self.attributes.get(given.ref_attr_name)
        if found is None:
            return None
        renamed = onnx.AttributeProto()
        renamed.CopyFrom(found)
        renamed.name = given.name
        return renamed

    def run(self, nodes: Sequence[Any]) -> None:
        """Compute the values of nodes' results."""
        for node in nodes:
            found = self.conversion.results(node, self)
            self.values.update(zip([*node.output], found, strict=False))

    def graph(self, graph: Any, operands: Sequence[Value]) -> list[Any]:
        """The results of a subgraph that stands here."""
        inner = self.inside()
        names = [x.name for x in graph.input]
        if len(names) != len(operands):
            raise FormatError(f"onnx.load: {graph.name!r} takes {len(names)} arrays.")
        known = {x.name: self.conversion.source.known(x) for x in graph.initializer}
        inner.values.update(known)
        inner.values.update(zip(names, operands, strict=True))
        inner.run(graph.node)
        return [inner[x.name] for x in graph.output]


@dataclass
class Conversion:
    """One call of ``load``.

    Attributes:
        source: The model.
        missing: Nodes that cannot be converted, and why.
        count: How many nodes were converted.
    """

    source: Source
    missing: dict[str, None] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.functions = {_function_key(x, x.name): x for x in self.source.proto.functions}

    def run(self, shared: bool | Collection[str], givens: Mapping[str, Any]) -> Converted:
        """Convert the model."""
        proto = self.source.proto
        graph = proto.graph
        scope = Scope(self, self.source.versions())
        self._find_missing(graph.node, scope.versions)
        self._refuse_missing()
        if graph.sparse_initializer:
            raise Refusal("sparse initializers: store them dense")
        initializers = self.source.initializers()
        share(initializers, shared)
        scope.values.update(initializers)
        inputs = self._inputs(graph, initializers, givens, scope)
        scope.run(graph.node)
        self._refuse_missing()
        outputs = {x.name: output_of(scope[x.name], x) for x in graph.output}
        made = used(initializers, shared)
        declared = [*graph.input, *graph.output]
        shapes = {x.name: lengths_of(x.type) for x in declared}
        return Converted(graph.name, inputs, outputs, made, shapes, metadata_of(proto))

    def _inputs(
        self, graph: Any, initializers: Mapping[str, Any], givens: Mapping[str, Any], scope: Scope
    ) -> dict[str, Tensor]:
        declared = {x.name: x for x in graph.input if x.name not in initializers}
        unknown = [name for name in givens if name not in declared]
        if unknown:
            raise ArgumentError(
                f"onnx.load: givens: the model has no input {unknown[0]!r}.",
                f"It has: {', '.join(declared)}.",
            )
        found = {}
        for name, x in declared.items():
            if name in givens:
                scope.values[name] = given_of(givens[name], x)
                continue
            found[name] = input_of(x)
            scope.values[name] = found[name]
        return found

    # What is missing, before anything is converted.

    def _find_missing(
        self,
        nodes: Sequence[Any],
        versions: Mapping[str, int],
        inside: frozenset[Any] = frozenset(),
    ) -> None:
        for node in nodes:
            domain = domain_of(node.domain)
            version = versions.get(domain, 1)
            key = _function_key(node, node.op_type)
            function = self.functions.get(key)
            if function is not None:
                if key not in inside:
                    check_version(_versions(function).get("", OLDEST))
                    self._find_missing(function.node, _versions(function), inside | {key})
            elif (reason := _why_missing(node.op_type, domain, version)) is not None:
                self.missing[f"{titled(node)}: {reason}"] = None
            for graph in _subgraphs(node):
                self._find_missing(graph.node, versions, inside)

    def _refuse_missing(self) -> None:
        if not self.missing:
            return
        listed = [*self.missing][:LISTED]
        more = len(self.missing) - len(listed)
        lines = [*listed, *([f"and {more} more"] if more else [])]
        raise UnsupportedOperationError(
            "onnx.load: the model has nodes that graphc has no operations for:\n"
            + "\n".join(f"  {line}" for line in lines),
            "Leave them out of the exported model, or compute their results outside of it.",
        )

    # One node.

    def results(self, node: Any, scope: Scope) -> Sequence[Any]:
        """The results of a node."""
        self.count += 1
        if self.count > MOST:
            raise FormatError(f"onnx.load: there are more than {MOST} nodes, with its functions'.")
        values = [scope[name] for name in node.input]
        try:
            return self._converted(node, scope, values)
        except Refusal as reason:
            self._note(node, scope, reason)
            return [SKIPPED] * len(node.output)
        except GraphcError as error:
            if error.problem.startswith("onnx.load: "):
                raise
            raise type(error)(f"onnx.load: {titled(node)}: {error.problem}", error.remedy) from None
        except DAMAGE as error:
            raise FormatError(
                f"onnx.load: {titled(node)} is not as the standard says: {error!r}.",
                "onnx.checker.check_model may say more.",
            ) from error

    def _note(self, node: Any, scope: Scope, reason: Refusal) -> None:
        """Remember what cannot be converted; of a subgraph, that is the node that holds it."""
        if scope.depth:
            raise type(reason)(f"{titled(node)}: {reason}") from None
        if not isinstance(reason, Skipped):
            self.missing[f"{titled(node)}: {reason}"] = None

    def _converted(self, node: Any, scope: Scope, values: Sequence[Value]) -> Sequence[Any]:
        if any(x is SKIPPED for x in values):
            raise Skipped
        function = self.functions.get(_function_key(node, node.op_type))
        if function is not None:
            return _called(function, node, scope, values)
        op = Operation(node, scope, values)
        folded = _folded(op)
        if folded is not None:
            return folded
        converter = CONVERTERS.get((op.domain, node.op_type))
        if converter is not None:
            return results_of(converter(op, *operands_of(values)))
        return _by_definition(op)


def _function_key(x: Any, name: str) -> tuple[str, str, str]:
    """What a model's function, or a call of it, goes by."""
    return x.domain, name, getattr(x, "overload", "")


def titled(node: Any) -> str:
    """A node in messages: its operator, with the domain, and its name."""
    domain = f"{node.domain}." if domain_of(node.domain) else ""
    result = next(iter(node.output), "")
    name = f"node {node.name!r}" if node.name else f"the node that computes {result!r}"
    return f"{domain}{node.op_type} ({name})"


def _why_missing(name: str, domain: str, version: int) -> str | None:
    """Why there is no converter of an operator; None where there is one."""
    schema = schema_of(name, domain, version)
    if name in REFUSED and domain in {"", "ai.onnx.ml"}:
        return REFUSED[name]
    if domain == "" and schema is not None and schema.since_version > NEWEST:
        return f"its version {schema.since_version} is newer than graphc knows"
    if schema is None and (domain == "" or (domain, name) not in CONVERTERS):
        return f"unknown operator of the domain {domain or 'ai.onnx'!r}, version {version}"
    if (domain, name) in CONVERTERS or _definition_version(schema, version):
        return None
    return "graphc has no converter for it"


def _definition_version(schema: Any, version: int) -> int:
    """The version for which the standard defines an operator by others; 0 where it does not."""
    found = [*schema.function_opset_versions, *schema.context_dependent_function_opset_versions]
    return max((n for n in found if n <= version), default=0)


def _by_definition(op: Operation) -> list[Any]:
    """An operator by the function that the standard defines it by."""
    schema = op.schema
    version = _definition_version(schema, op.version)
    if version in schema.function_opset_versions:
        written = schema.get_function_with_opset_version(version)
    else:
        node = onnx.NodeProto()
        node.CopyFrom(op.node)
        given = [*map(op.scope.attribute, op.node.attribute)]
        del node.attribute[:]
        node.attribute.extend([x for x in given if x])
        types = [_type(x).SerializeToString() for x in op.values]
        written = schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), types
        )
    body = onnx.FunctionProto.FromString(written)
    return _called(body, op.node, op.scope, op.values, schema)


def _type(value: Value) -> Any:
    if value is None:
        return onnx.TypeProto()
    x = tensor_of(value)
    kind = onnx.helper.np_dtype_to_tensor_dtype(x.type.numpy_dtype)
    return onnx.helper.make_tensor_type_proto(kind, list(x.type.shape))


def _called(
    function: Any, node: Any, scope: Scope, values: Sequence[Value], schema: Any = None
) -> list[Any]:
    """The results of a function, which is written out."""
    attributes = {x.name: x for x in function.attribute_proto}
    if schema is not None:
        defaults = {name: x.default_value for name, x in schema.attributes.items()}
        attributes.update({name: x for name, x in defaults.items() if x.name})
    attributes.update({x.name: x for x in map(scope.attribute, node.attribute) if x})
    inner = scope.of_call({**scope.versions, **_versions(function)}, attributes)
    names = [*function.input]
    if len(values) > len(names):
        raise FormatError(f"onnx.load: {function.name!r} takes {len(names)} operands.")
    inner.values.update(dict.fromkeys(names))
    inner.values.update(zip(names, values, strict=False))
    inner.run(function.node)
    # What the call leaves out, a definition need not compute.
    pairs = zip(function.output, node.output, strict=False)
    return [inner[name] if wanted else None for name, wanted in pairs]


def _versions(function: Any) -> dict[str, int]:
    return {domain_of(x.domain): x.version for x in function.opset_import}


def _folded(op: Operation) -> list[Any] | None:
    """The result of an operator on few known elements, as shapes are computed by."""
    fold = FOLDS.get(op.node.op_type) if op.domain == "" else None
    if fold is None or not all(x is None or isinstance(x, Known) for x in op.values):
        return None
    known = [x for x in op.values if isinstance(x, Known)]
    if any(x.array.size > FEW or x.is_shared or x.dtype == "str" for x in known):
        return None
    found = fold(op, *op.values)
    return None if found is None else results_of(found)


def _subgraphs(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
