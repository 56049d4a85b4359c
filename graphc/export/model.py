"""Compiled functions as files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import graphc
from graphc.compile.arguments import MISSING, In
from graphc.compile.guard import without_checks
from graphc.compile.mode import Mode, get_mode
from graphc.compile.pipeline import Signature, lower_program
from graphc.compile.pure import PureProgram
from graphc.compile.specification import FunctionSpec
from graphc.errors import ArgumentError, ExportError
from graphc.export import manifest as manifests, runtime, safetensors
from graphc.export.archive import Writer
from graphc.export.examples import EXAMPLES, recorded
from graphc.export.loaded import GRAPH, is_shared
from graphc.export.manifest import Shape, described, shapes_of, structure_of
from graphc.export.runtime import ARRAYS, FUNCTION, MANIFEST, PROGRAM
from graphc.export.write import GraphWriter
from graphc.ir import Graph, Node, TensorType, flatten, replaced
from graphc.lazy import provided


@dataclass(frozen=True)
class Programs:
    """Which programs go into a file, beside the graph; ``Function.export`` says what these are.

    Attributes:
        backends: Some of ``("JAX", "MLX")``.
        platforms: What the program for JAX is to run on.
        derivatives: How often that can be differentiated; ``"grad"`` is once.
        lengths: For names of lengths, those that the program for MLX is to know.
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
        """How often it can be differentiated; None where the words do not say."""
        n = {"grad": 1}.get(str(self.derivatives), self.derivatives)
        return n if isinstance(n, int) and n >= 0 else None


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
    """Write a function to a file; ``Function.export`` says how.

    Args:
        spec: Its specification.
        graph: Its requested graph.
        path: The file.
        dynamic: For inputs by name, names of unknown lengths.
        licence: The terms on which others may use it.
        programs: The programs that go into it.
        calls: The values of the graph's inputs in calls to record.
    """
    if Path(path).suffix == ".onnx":
        _export_onnx(spec, graph, path, dynamic, licence, programs, recorded=bool(calls))
        return
    structure = structure_of(spec.outputs)
    writer = GraphWriter(lines=True)
    text, arrays = writer.written(graph)
    ins: list[In] = flatten(spec.inputs)
    shapes = shapes_of(ins, dynamic)
    inputs = [_input(x, dims, arrays) for x, dims in zip(ins, shapes, strict=True)]
    results = [y.type for y in graph.outputs[: len(graph.outputs) - len(spec.updates)]]
    manifest = {
        "format": runtime.FORMAT,
        "version": runtime.VERSION,
        "graphc": graphc.__version__,
        "name": spec.name,
        "licence": licence,
        "mode": spec.mode.name,
        "inputs": inputs,
        "outputs": structure,
        "results": [described(type, type.shape) for type in results],
        "updates": [writer.keys[x] for x, _ in spec.updates],
        "arrays": {name: described(_type_of(x), x.shape) for name, x in arrays.items()},
    }
    parts: dict[str, list[Any]] = {
        GRAPH: [text.encode()],
        ARRAYS: safetensors.chunks(arrays),
    }
    held = [*graph.inputs[len(ins) :], *graph.leaves]
    shapes += [arrays[writer.keys[x]].shape for x in held]
    fields, files = _programs(graph, held, shapes, spec.mode, programs)
    manifest |= {
        name: {**entry, "arrays": [writer.keys[x] for x in held]} for name, entry in fields
    }
    parts |= files
    if calls:
        parts[EXAMPLES] = recorded(graph, calls, len(ins))
        manifest["examples"] = len(calls)
    _write(path, manifest, parts)


def _write(
    path: str | os.PathLike[str], manifest: Mapping[str, Any], parts: Mapping[str, Sequence[Any]]
) -> None:
    """Write a file of these parts, and a manifest with their checksums."""
    with Writer(path) as file:
        for name, chunks in parts.items():
            file.add(name, chunks, sum(map(len, chunks)))
        data = manifests.written({**manifest, "parts": {**file.sums}})
        file.add(MANIFEST, [data], len(data))


def _programs(
    graph: Graph, held: Sequence[Node], shapes: Sequence[Shape], mode: Mode, programs: Programs
) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, list[Any]]]:
    """What the manifest says of each program, and the parts of the file that they make."""
    fields: list[tuple[str, dict[str, Any]]] = []
    parts: dict[str, list[Any]] = {}
    if programs.backends:
        parts["runtime.py"] = [Path(runtime.__file__).read_bytes()]
    if "JAX" in programs.backends:
        data, conditions = _program(graph, held, shapes, programs)
        parts[PROGRAM] = [data]
        how = {"platforms": programs.platforms, "derivatives": programs.order}
        fields.append(("program", {**how, "shapes": shapes, "conditions": conditions}))
    if "MLX" in programs.backends:
        plans, functions = _program_for_mlx(graph, held, shapes, mode, programs)
        fields.append(("mlx", plans))
        parts |= {FUNCTION.format(i): [data] for i, data in enumerate(functions)}
    return fields, parts


def _function(
    graph: Graph, held: Sequence[Node], types: Sequence[TensorType] | None = None
) -> tuple[list[Node], Sequence[Node]]:
    """A graph as a function of its arguments, of these types, and of all arrays that it holds."""
    count = len(graph.inputs) - sum(map(is_shared, held))
    given = [*graph.inputs[:count], *held]
    types = types or [x.type for x in given]
    inputs = [Node.input(type, x.name) for type, x in zip(types, given, strict=True)]
    return inputs, replaced(without_checks(graph).outputs, dict(zip(given, inputs, strict=True)))


def _program_for_mlx(
    graph: Graph, held: Sequence[Node], shapes: Sequence[Shape], mode: Mode, programs: Programs
) -> tuple[dict[str, Any], list[bytes]]:
    """The program of a graph for MLX: its plans, and the functions that they call."""
    names = {n for shape in shapes for n in shape if isinstance(n, str)}
    unknown = [name for name in programs.lengths if name not in names]
    if unknown:
        raise ArgumentError(f"lengths: no length has the name {unknown[0]!r} in dynamic=.")
    known = [[n if isinstance(n, int) else None for n in shape] for shape in shapes]
    given = [*graph.inputs[: len(shapes) - len(held)], *held]
    types = [x.type.with_shape(tuple(dims)) for x, dims in zip(given, known, strict=True)]
    inputs, outputs = _function(graph, held, types)
    chosen = mode if mode.backend.name == "MLX" else get_mode("MLX")
    signature = Signature(Graph(inputs, outputs), len(inputs), (), False, chosen.unchecked())
    program = lower_program(signature).program
    arguments = [(x.type.dtype, dims) for x, dims in zip(inputs, shapes, strict=True)]
    made: tuple[dict[str, Any], list[bytes]] = provided(__name__, "programs")(
        program, arguments, programs.lengths
    )
    return made


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
        written = provided(__name__, "export_onnx")
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("onnx"):
            raise
        raise ExportError(
            "An ONNX model is written by the package onnx, which is not installed.",
            "Install it: pip install 'graphc[onnx]'.",
        ) from error
    written(spec, graph, path, dynamic, licence)


def _program(
    graph: Graph, held: Sequence[Node], shapes: Sequence[Shape], programs: Programs
) -> tuple[bytes, list[str]]:
    """The program of a graph for JAX."""
    inputs, outputs = _function(graph, held)
    program = PureProgram(inputs, outputs, get_mode("JAX").unchecked())
    if program.static:
        raise ExportError(
            f"The values of {inputs[program.static[0]]!r} decide a shape, so that there is no "
            "program for all of them.",
            "Make it a Python number before the function is compiled, or leave out programs=.",
        )
    arguments = [(x.type.dtype, dims) for x, dims in zip(inputs, shapes, strict=True)]
    found: tuple[bytes, list[str]] = provided(__name__, "exported")(
        program.bound, arguments, programs.platforms, programs.order
    )
    return found


def _input(x: In, dims: Shape, arrays: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says of an input, whose default value is added to the arrays."""
    type, label = x.variable.type, x.label
    # A length that only the program needs is in no type.
    named = [n if isinstance(n, str) else m for n, m in zip(dims, type.shape, strict=True)]
    found = {"name": label, **described(type, named)}
    found |= {"strict": x.strict, "allow_downcast": x.allow_downcast}
    if x.value is not MISSING:
        place = f"default of {label}"
        while place in arrays:
            place += "'"
        arrays[place] = np.asarray(x.value, type.numpy_dtype)
        found["default"] = place
    return found


def _type_of(array: Any) -> TensorType:
    return TensorType(array.dtype, array.shape)
