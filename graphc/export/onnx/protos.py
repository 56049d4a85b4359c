"""ONNX's messages, written by the ``onnx`` package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from graphc.ir import dtype_name

__all__ = ["GraphProto", "NodeProto", "graph", "node", "tensor", "value_info"]

VERSIONS = {23: (11, frozenset[str]()), 26: (13, frozenset({"BitCast", "CumProd"}))}
"""For each version of ONNX's operations its file format, and the operations that are new in it."""

CODES = {
    "bool": TensorProto.BOOL,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
}
"""ONNX's codes of dtypes."""


def tensor(name: str, array: np.ndarray[Any, Any]) -> TensorProto:
    code = CODES[dtype_name(array.dtype)]
    data = np.ascontiguousarray(array).tobytes()
    return helper.make_tensor(name, code, array.shape, data, raw=True)


def value_info(name: str, dtype: str, shape: Sequence[str | int | None] | None) -> ValueInfoProto:
    """Return the declaration of an array: its name, dtype and shape, None if unknown."""
    return helper.make_tensor_value_info(name, CODES[dtype], shape)


def node(
    op: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, Any],
    domain: str = "",
) -> NodeProto:
    """Return a node that applies an operation to named arrays and names its results."""
    proto = NodeProto(op_type=op, domain=domain, input=inputs, output=outputs)
    proto.attribute.extend(_attribute(name, value) for name, value in attributes.items())
    return proto


def _attribute(name: str, value: Any) -> AttributeProto:
    kind = AttributeProto.INTS if value == [] else None
    return helper.make_attribute(name, value, attr_type=kind)


def prune(nodes: Sequence[NodeProto], names: Iterable[str]) -> tuple[list[NodeProto], set[str]]:
    """Return the nodes that results need, and all names that they read, also from outer scopes."""
    kept_nodes, used = list[NodeProto](), set(names)
    for node in reversed(nodes):
        if not used.isdisjoint(node.output):
            kept_nodes.append(node)
            used.update(node.input)
            for body in (x.g for x in node.attribute if x.type == AttributeProto.GRAPH):
                used |= prune(body.node, [y.name for y in body.output])[1]
    return kept_nodes[::-1], used


def graph(
    name: str,
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    initializers: Sequence[TensorProto] = (),
) -> GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs, initializers)
