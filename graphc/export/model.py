"""Compiled functions as files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from graphc.compile.arguments import MISSING, In
from graphc.compile.function import Function
from graphc.compile.guard import without_checks
from graphc.compile.mode import Mode, get_mode
from graphc.compile.pipeline import Signature, lower_program
from graphc.compile.pure import PureProgram
from graphc.compile.specification import FunctionSpec
from graphc.errors import ArgumentError, ExportError
from graphc.export import archive, manifest as manifests, runtime
from graphc.export.examples import EXAMPLES, arguments_of, record_calls
from graphc.export.loaded import GRAPH, is_shared
from graphc.export.manifest import Shape, array_entry, shapes_of, structure_of
from graphc.export.runtime import ARRAYS, FUNCTION, MANIFEST, PROGRAM
from graphc.export.write import GraphWriter
from graphc.ir import Graph, Node, TensorType, flatten, replace_nodes


@dataclass(frozen=True)
class Programs:
    """The programs that go into a file, beside the graph; see ``Function.export``.

    Attributes:
        backends: Some of ``("JAX", "MLX")``.
        platforms: The platforms of the program for JAX.
        derivatives: How often the program for JAX can be differentiated; ``"grad"`` is once.
        lengths: For names of lengths, the values that the program for MLX supports.
    """

    backends: Sequence[str] = ()
    platforms: Sequence[str] | None = None
    derivatives: int | str = 0
    lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.order is None:
            raise ArgumentError(
                f"derivatives={self.derivatives!r}: expected a number of times, or 'grad' for 1.",
                "A program has derivatives in reverse, by jax.grad and jax.vjp. For others, export "
                "a function of them: graphc.pushforward, graphc.hessian.",
            )
        if {*self.backends} - {"JAX", "MLX"}:
            raise ArgumentError(f"programs={self.backends!r}: expected some of ('JAX', 'MLX').")

    @property
    def order(self) -> int | None:
        """How often the program can be differentiated; None if ``derivatives`` is invalid."""
        n = {"grad": 1}.get(str(self.derivatives), self.derivatives)
        return n if isinstance(n, int) and n >= 0 else None


def export_function(  # noqa: PLR0913 (each of them is one choice)
    f: Function,
    path: str | os.PathLike[str],
    *,
    dynamic: Mapping[str, Shape] | None,
    licence: str | None,
    programs: Sequence[str],
    platforms: Sequence[str] | None,
    derivatives: int | str,
    lengths: Mapping[str, Sequence[int]] | None,
    examples: Sequence[Mapping[str, Any] | Sequence[Any]],
) -> None:
    """Write a compiled function to a file, with the arguments of ``Function.export``."""
    export(
        f._spec,
        f.requested,
        path,
        dynamic=dynamic,
        licence=licence,
        programs=Programs(programs, platforms, derivatives, lengths or {}),
        calls=[arguments_of(f, x) for x in examples],
    )


def export(  # noqa: PLR0913 (each of them is one choice)
    spec: FunctionSpec,
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    dynamic: Mapping[str, Shape] | None,
    licence: str | None,
    programs: Programs,
    calls: Sequence[Sequence[Any]] = (),
) -> None:
    """Write a function to a file, as ``Function.export`` documents.

    Args:
        spec: The function's specification.
        graph: The function's requested graph.
        path: The file.
        dynamic: Names of unknown lengths, by input.
        licence: The terms on which others may use it.
        programs: The programs that go into it.
        calls: The values of the graph's inputs in calls to record.
    """
    if Path(path).suffix == ".onnx":
        _export_onnx(spec, graph, path, dynamic, licence, programs, recorded=bool(calls))
        return
    structure = structure_of(spec.outputs)
    writer = GraphWriter(lines=True)
    text, arrays = writer.write(graph)
    ins: list[In] = flatten(spec.inputs)
    shapes = shapes_of(ins, dynamic)
    inputs = [_input(x, dims, arrays) for x, dims in zip(ins, shapes, strict=True)]
    results = [y.type for y in graph.outputs[: len(graph.outputs) - len(spec.updates)]]
    manifest = {
        "format": runtime.FORMAT,
        "version": runtime.VERSION,
        "graphc": version("graphc"),
        "name": spec.name,
        "licence": licence,
        "mode": spec.mode.name,
        "inputs": inputs,
        "outputs": structure,
        "results": [array_entry(type, type.shape) for type in results],
        "updates": [writer.keys[x] for x, _ in spec.updates],
        "arrays": {name: array_entry(_type_of(x), x.shape) for name, x in arrays.items()},
    }
    file_parts: dict[str, list[Any]] = {
        GRAPH: [text.encode()],
        ARRAYS: archive.array_chunks(arrays),
    }
    captured = [*graph.inputs[len(ins) :], *graph.leaves]
    shapes += [arrays[writer.keys[x]].shape for x in captured]
    fields, files = _programs(graph, captured, shapes, spec.mode, programs)
    manifest |= {
        name: {**entry, "arrays": [writer.keys[x] for x in captured]} for name, entry in fields
    }
    file_parts |= files
    if calls:
        file_parts[EXAMPLES] = record_calls(graph, calls, len(ins))
        manifest["examples"] = len(calls)
    _write(path, manifest, file_parts)


def _write(
    path: str | os.PathLike[str],
    manifest: Mapping[str, Any],
    file_parts: Mapping[str, Sequence[Any]],
) -> None:
    """Write a file of these parts, and a manifest with their checksums."""
    with archive.ZipWriter(path) as file:
        for name, chunks in file_parts.items():
            file.add(name, chunks, sum(map(len, chunks)))
        data = manifests.encode({**manifest, "parts": {**file.sums}})
        file.add(MANIFEST, [data], len(data))


def _programs(
    graph: Graph, captured: Sequence[Node], shapes: Sequence[Shape], mode: Mode, programs: Programs
) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, list[Any]]]:
    """Return the manifest's entry of each program, and the programs' parts of the file."""
    fields: list[tuple[str, dict[str, Any]]] = []
    file_parts: dict[str, list[Any]] = {}
    if programs.backends:
        file_parts["runtime.py"] = [Path(runtime.__file__).read_bytes()]
    if "JAX" in programs.backends:
        data, conditions = _program_for_jax(graph, captured, shapes, programs)
        file_parts[PROGRAM] = [data]
        how = {"platforms": programs.platforms, "derivatives": programs.order}
        fields.append(("program", {**how, "shapes": shapes, "conditions": conditions}))
    if "MLX" in programs.backends:
        plans, functions = _program_for_mlx(graph, captured, shapes, mode, programs)
        fields.append(("mlx", plans))
        file_parts |= {FUNCTION.format(i): [data] for i, data in enumerate(functions)}
    return fields, file_parts


def _function(
    graph: Graph, captured: Sequence[Node], types: Sequence[TensorType] | None = None
) -> tuple[list[Node], Sequence[Node]]:
    """Return inputs and outputs of a graph as a function of arguments and captured arrays."""
    count = len(graph.inputs) - sum(map(is_shared, captured))
    nodes = [*graph.inputs[:count], *captured]
    types = types or [x.type for x in nodes]
    inputs = [
        Node.input(type, x.name, dims=getattr(x.op, "dims", None))
        for type, x in zip(types, nodes, strict=True)
    ]
    return inputs, replace_nodes(
        without_checks(graph).outputs, dict(zip(nodes, inputs, strict=True))
    )


def _program_for_mlx(
    graph: Graph, captured: Sequence[Node], shapes: Sequence[Shape], mode: Mode, programs: Programs
) -> tuple[dict[str, Any], list[bytes]]:
    """Return the plans of a graph for MLX, and the functions that they call."""
    names = {n for shape in shapes for n in shape if isinstance(n, str)}
    unknown = [name for name in programs.lengths if name not in names]
    if unknown:
        raise ArgumentError(f"lengths: no length has the name {unknown[0]!r} in dynamic=.")
    static_shapes = [[n if isinstance(n, int) else None for n in shape] for shape in shapes]
    nodes = [*graph.inputs[: len(shapes) - len(captured)], *captured]
    types = [x.type.with_shape(tuple(dims)) for x, dims in zip(nodes, static_shapes, strict=True)]
    inputs, outputs = _function(graph, captured, types)
    mlx_mode = mode if mode.backend.name == "MLX" else get_mode("MLX")
    signature = Signature(Graph(inputs, outputs), len(inputs), (), False, mlx_mode.without_checks())
    program = lower_program(signature).program
    arguments = [(x.type.dtype, dims) for x, dims in zip(inputs, shapes, strict=True)]
    from graphc.link.mlx.exported import programs as mlx_programs  # noqa: PLC0415 (MLX is optional)

    return mlx_programs(program, arguments, programs.lengths)


def _export_onnx(  # noqa: PLR0913 (each of them is one choice)
    spec: FunctionSpec,
    graph: Graph,
    path: str | os.PathLike[str],
    dynamic: Mapping[str, Shape] | None,
    licence: str | None,
    programs: Programs,
    *,
    recorded: bool,
) -> None:
    """Write an ONNX model, which is one program for inference on all platforms."""
    if programs != Programs() or recorded:
        raise ArgumentError(
            f"{Path(path).name}: an ONNX model has no programs, platforms, derivatives, lengths or "
            "examples.",
            'Leave them out, or write "model.graphc".',
        )
    try:
        from graphc.export.onnx import model as onnx_model  # noqa: PLC0415 (onnx is optional)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("onnx"):
            raise
        raise ExportError(
            "An ONNX model is written by the package onnx, which is not installed.",
            "Install it: pip install 'graphc[onnx]'.",
        ) from error
    onnx_model.export(spec, graph, path, dynamic, licence)


def _program_for_jax(
    graph: Graph, captured: Sequence[Node], shapes: Sequence[Shape], programs: Programs
) -> tuple[bytes, list[str]]:
    inputs, outputs = _function(graph, captured)
    program = PureProgram(inputs, outputs, get_mode("JAX").without_checks())
    if program.static:
        raise ExportError(
            f"The values of {inputs[program.static[0]]!r} decide a shape, so that there is no "
            "program for all of them.",
            "Make it a Python number before the function is compiled, or leave out programs=.",
        )
    arguments = [(x.type.dtype, dims) for x, dims in zip(inputs, shapes, strict=True)]
    from graphc.link.jax.exported import export_stablehlo  # noqa: PLC0415 (JAX is optional)

    order = programs.order
    assert order is not None
    return export_stablehlo(program.bound, arguments, programs.platforms, order)


def _input(x: In, dims: Shape, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest's entry of an input, and add its default value to the arrays."""
    type, label = x.variable.type, x.label
    # A length that only the program needs is an integer in dims, and unknown in the type.
    named = [n if isinstance(n, str) else m for n, m in zip(dims, type.shape, strict=True)]
    entry = {"name": label, **array_entry(type, named)}
    entry |= {"strict": x.strict, "allow_downcast": x.allow_downcast}
    if x.value is not MISSING:
        key = f"default of {label}"
        while key in arrays:
            key += "'"
        arrays[key] = np.asarray(x.value, type.numpy_dtype)
        entry["default"] = key
    return entry


def _type_of(array: Any) -> TensorType:
    return TensorType(array.dtype, array.shape)
