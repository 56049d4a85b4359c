"""Compiled functions as ONNX models, for inference by other runtimes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from graphc.compile.arguments import MISSING, In
from graphc.compile.guard import without_checks
from graphc.compile.pipeline import blank
from graphc.compile.specification import FunctionSpec
from graphc.export.manifest import Shape, shapes_of, structure_of
from graphc.export.onnx import builder as ob, protos
from graphc.export.onnx.lowering import check, emit_graph, load
from graphc.implicit.expand import densify_graph
from graphc.ir import Graph, Leaf, TensorType, flatten, is_complex, real_dtype
from graphc.link import as_numpy
from graphc.link.legalize import bypass, inline
from graphc.rewrite import optimize
from graphc.tensor.core.sharding import Shard

LARGEST = 2**30
"""The size in bytes from which arrays go into a separate file: ONNX's messages end at 2 GiB."""


def export(
    spec: FunctionSpec,
    graph: Graph,
    path: str | os.PathLike[str],
    dynamic: Mapping[str, Shape] | None,
    licence: str | None,
) -> None:
    """Write a function as an ONNX model, as ``Function.export`` documents.

    Args:
        spec: The function's specification.
        graph: The function's requested graph.
        path: The file.
        dynamic: Names of unknown lengths, by input.
        licence: The terms on which others may use it.
    """
    model = model_of(spec, graph, dynamic)
    if licence is not None:
        helper.set_model_props(model, {"licence": licence})
    file = Path(path)
    size = sum(len(x.raw_data) for x in model.graph.initializer)
    if size < LARGEST:
        onnx.checker.check_model(model, full_check=True)
        onnx.save_model(model, file)
    else:
        data = f"{file.name}.data"
        file.with_name(data).unlink(missing_ok=True)
        onnx.save_model(model, file, save_as_external_data=True, location=data)
        onnx.checker.check_model(file)


def model_of(
    spec: FunctionSpec, graph: Graph, dynamic: Mapping[str, Shape] | None = None
) -> onnx.ModelProto:
    """Return a function as an ONNX model.

    Raises:
        ArgumentError: If ``dynamic`` does not fit the inputs.
        ExportError: If an operation has no lowering.
    """
    with ob.building() as builder:
        nodes = _Model(builder, spec, graph, dynamic).graph()
    opset = max(n for n, (_, ops) in protos.VERSIONS.items() if not ops or ops & builder.ops)
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1) for domain in sorted(builder.domains)]
    return helper.make_model(
        nodes,
        ir_version=protos.VERSIONS[opset][0],
        opset_imports=opsets,
        producer_name="graphc",
        producer_version=version("graphc"),
    )


def prepare(graph: Graph) -> Graph:
    """Return a graph rewritten and inlined to operations that have lowerings."""
    lowerings = load()
    graph = densify_graph(bypass(without_checks(graph), Shard))
    return inline(optimize(graph).graph, lowerings)


class _Model:
    """A conversion of one function to an ONNX graph."""

    def __init__(
        self,
        builder: ob.Builder,
        spec: FunctionSpec,
        graph: Graph,
        dynamic: Mapping[str, Shape] | None,
    ) -> None:
        self.builder = builder
        self.spec = spec
        self.requested = graph
        self.ins: list[In] = flatten(spec.inputs)
        self.shapes = shapes_of(self.ins, dynamic)
        self.inputs: list[Any] = []

    def graph(self) -> onnx.GraphProto:
        leaves = [x for x in self.requested.canonical() if isinstance(x.op, Leaf)]
        graph = prepare(blank(self.requested, leaves))
        check(graph)
        values = [self._argument(i, x) for i, x in enumerate(self.ins)]
        values += [self._shared_variable(x) for x in self.requested.inputs[len(self.ins) :]]
        slots = {x: leaves[x.op.position] for x in graph.leaves}  # type: ignore[attr-defined]
        held = {x: self._leaf(leaf) for x, leaf in slots.items()}
        inner = Graph([*graph.inputs, *held], graph.outputs)
        results = emit_graph(inner, [*values, *held.values()])
        outputs = [
            self._result(name, y, node.type)
            for name, y, node in zip(self._names(), results, self.requested.outputs, strict=True)
        ]
        nodes, used = protos.prune(self.builder.scopes[0].nodes, [y.name for y in outputs])
        used.update(x.name for x in self.inputs)
        arrays = [x for name, x in self.builder.initializers.items() if name in used]
        return protos.graph(self.spec.name or "graphc", nodes, self.inputs, outputs, arrays)

    def _argument(self, i: int, x: In) -> Any:
        """Declare an input; its default value is an initializer of the same name."""
        type = x.variable.type
        value = None if x.value is MISSING else np.asarray(x.value, type.numpy_dtype)
        return self._input(str(x.label or f"x{i}"), type, self.shapes[i], value)

    def _shared_variable(self, x: Any) -> Any:
        """Return an initializer; for an updated variable, an input with a default."""
        array = as_numpy(x.get_value(borrow=True))
        name = x.name or "shared"
        if any(x is updated for updated, _ in self.spec.updates):
            return self._input(name, x.type, x.type.shape, array)
        return self._initializer(array, name)

    def _input(self, name: str, type: TensorType, dims: Shape, value: Any) -> Any:
        name = self.builder.name(name)
        if value is not None:
            self.builder.initializers[name] = protos.tensor(name, in_pairs(value))
        dims, dtype = [*dims], type.dtype
        if is_complex(dtype):
            dims, dtype = [*dims, 2], real_dtype(dtype)
        self.inputs.append(protos.value_info(name, dtype, dims))
        return _of_pairs(ob.Value(name, dtype), type)

    def _leaf(self, leaf: Any) -> Any:
        return self._initializer(leaf.op.array, leaf.name or "array")

    def _initializer(self, array: Any, name: str) -> Any:
        array = as_numpy(array)
        type = TensorType(array.dtype, array.shape)
        return _of_pairs(self.builder.initializer(name, in_pairs(array)), type)

    def _result(self, name: str, y: Any, type: TensorType) -> Any:
        dims: list[Any] = [*type.shape]
        if isinstance(y, ob.Complex):
            re_im = [ob.insert_axes(part, [-1]) for part in (y.re, y.im)]
            y = ob.emit("Concat", *re_im, axis=-1)
            dims.append(2)
        y = self.builder.result(y, name)
        return protos.value_info(y.name, y.dtype, dims)

    def _names(self) -> Iterator[str]:
        """Yield a name for each result, and for each new value of a shared variable."""
        yield from _paths(structure_of(self.spec.outputs), "")
        for x, _ in self.spec.updates:
            yield f"new_{x.name or 'shared'}"


def _paths(structure: Any, path: str) -> Iterator[str]:
    """Yield the names of results, which are their paths in the structure."""
    if isinstance(structure, dict | list):
        items = structure.items() if isinstance(structure, dict) else enumerate(structure)
        for key, part in items:
            prefix = path or ("" if isinstance(structure, dict) else "output")
            yield from _paths(part, f"{prefix}.{key}" if prefix else str(key))
    elif structure is not None:
        yield path or "output"


def in_pairs(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return complex numbers as pairs of real ones along a new last axis, others unchanged."""
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], -1)


def _of_pairs(x: ob.Value, type: TensorType) -> Any:
    if not is_complex(type.dtype):
        return x.with_type(type)
    re_im = [ob.emit("Gather", x, ob.constant(i, "int64"), axis=type.ndim) for i in range(2)]
    return ob.Complex(*re_im).with_type(type)
