"""Compiled functions as files, and what is loaded from them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import graphc
from graphc.compile.arguments import MISSING, In, goes_into, is_weak
from graphc.compile.function import Function, function
from graphc.compile.guard import without_checks
from graphc.compile.mode import Mode, get_mode
from graphc.compile.pipeline import Signature, lower_program
from graphc.compile.pure import PureProgram
from graphc.compile.shared import Shared
from graphc.compile.specification import FunctionSpec
from graphc.errors import ArgumentError, DTypeError, ExportError, FormatError
from graphc.export import manifest as manifests, runtime, safetensors
from graphc.export.archive import Writer
from graphc.export.manifest import Shape, described, named_lengths, structure_of
from graphc.export.read import GraphReader
from graphc.export.runtime import ARRAYS, FUNCTION, MANIFEST, PROGRAM, filled, opened
from graphc.export.write import GraphWriter
from graphc.ir import Constant, Graph, Leaf, Node, TensorType, flatten, replaced
from graphc.lazy import provided
from graphc.link import as_numpy
from graphc.xtensor.type import NamedInput, XTensor

GRAPH = "graph.txt"

DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a damaged file raises."""


@dataclass(frozen=True)
class Programs:
    """Which programs go into a file, beside the graph; ``Function.export`` says what these are.

    Attributes:
        backends: Some of ``("JAX", "MLX")``.
        platforms: What the program for JAX is to run on.
        derivatives: How often that can be differentiated.
        lengths: For names of lengths, those that the program for MLX is to know.
    """

    backends: Sequence[str] = ()
    platforms: Sequence[str] | None = None
    derivatives: int = 0
    lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if {*self.backends} - {"JAX", "MLX"}:
            raise ArgumentError(f"programs={self.backends!r}: expected some of ('JAX', 'MLX').")


def export(
    spec: FunctionSpec,
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    dynamic: Mapping[str, Shape] | None,
    licence: str | None,
    programs: Programs,
) -> None:
    """Write a function to a file; ``Function.export`` says how.

    Args:
        spec: Its specification.
        graph: Its requested graph.
        path: The file.
        dynamic: For inputs by name, names of unknown lengths.
        licence: The terms on which others may use it.
        programs: The programs that go into it.
    """
    if Path(path).suffix == ".onnx":
        _export_onnx(spec, graph, path, dynamic, licence, programs)
        return
    structure = structure_of(spec.outputs)
    writer = GraphWriter(lines=True)
    text, arrays = writer.written(graph)
    ins: list[In] = flatten(spec.inputs)
    shapes = [_shape(x, dict(dynamic or {})) for x in ins]
    inputs = [_input(x, dims, arrays) for x, dims in zip(ins, shapes, strict=True)]
    unknown = [name for name in dynamic or {} if name not in {x["name"] for x in inputs}]
    if unknown:
        raise ArgumentError(f"dynamic: the function has no input {unknown[0]!r}.")
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
        parts[PROGRAM] = [_program(graph, held, shapes, programs)]
        how = {"platforms": programs.platforms, "derivatives": programs.derivatives}
        fields.append(("program", {**how, "shapes": shapes}))
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


def _export_onnx(
    spec: FunctionSpec,
    graph: Graph,
    path: str | os.PathLike[str],
    dynamic: Mapping[str, Shape] | None,
    licence: str | None,
    programs: Programs,
) -> None:
    """Write an ONNX model, which is one program for inference on all platforms."""
    if programs != Programs():
        raise ArgumentError(
            f"{Path(path).name}: an ONNX model has no programs, platforms, derivatives or lengths.",
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
) -> bytes:
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
    found: bytes = provided(__name__, "exported")(
        program.bound, arguments, programs.platforms, programs.derivatives
    )
    return found


def _shape(x: In, dynamic: Mapping[str, Shape]) -> Shape:
    label = x.label
    return named_lengths(str(label), x.variable.type, dynamic.get(label) if label else None)


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


def load(
    path: str | os.PathLike[str], mode: str | Mode | None = None, *, verify: bool = True
) -> Loaded:
    """Load a function from a file that ``f.export`` wrote, in this or an earlier release.

    No code is run, whatever the file holds. Its arrays are mapped into memory: what is not used is
    not read, so do not write into the file while the function is in use.

    Args:
        path: The file.
        mode: What calls are computed by, as for ``graphc.function``; ``config.mode`` by default.
        verify: Compare the checksum of the arrays too, for which they are read once. All else is
            always compared.

    Returns:
        What the file holds: a function of its arguments, and the graph to compile, differentiate
        and draw.

    Raises:
        FormatError: The file is no function, is damaged, or of a later version.
        OSError: It cannot be read.

    Example:
        >>> import pathlib, tempfile, graphc, graphc.tensor as gt
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.graphc"
        >>> x, w = gt.vector("x"), graphc.shared([1.0, 2.0], name="w")
        >>> graphc.function([x], {"sum": (w * x).sum()}, mode="NUMPY").export(file)
        >>> model = graphc.load(file, mode="NUMPY")
        >>> float(model([3.0, 4.0])["sum"])
        11.0
        >>> model.set_value("w", [0.0, 1.0])
        >>> float(model(x=[3.0, 4.0])["sum"])
        4.0
    """
    try:
        manifest, arrays, parts = opened(path, verify=verify)
        reader = GraphReader(bytes(parts[GRAPH]).decode(), arrays, {})
        graph = reader.read()
        return Loaded(Path(path).name, mode, manifest, graph, reader.keys, arrays)
    except FormatError as error:
        raise FormatError(f"{path}: {error.problem}", error.remedy) from None
    except DAMAGE as error:
        problem = str(error) if type(error) is ValueError else repr(error)
        raise FormatError(
            f"{path} is no function that can be loaded: {problem}.",
            "Write it again with f.export, or copy it again.",
        ) from error


class Loaded:
    """A function from a file: call it, or compile its graph anew; ``graphc.load`` makes it.

    A call takes a value for each input, by position or by name, and returns what the function
    returned. Inputs and outputs in other objects than lists
    and dicts come apart: a call takes their arrays one by one.

    Attributes:
        mode: What calls are computed by.
        manifest: What the file says of itself: names, dtypes, shapes, versions, the licence.
        graph: The graph; its inputs are the arguments, then the shared variables, and its outputs
            the results, then new values of shared variables.
    """

    def __init__(
        self,
        name: str,
        mode: str | Mode | None,
        manifest: Mapping[str, Any],
        graph: Graph,
        keys: Mapping[str, Node],
        arrays: Mapping[str, Any],
    ) -> None:
        self.mode = mode
        self.manifest = manifest
        self.graph = graph
        self._file = name
        self._keys = dict(keys)
        self._count = len(manifest["inputs"])
        self._ins = [
            _as_in(x, entry, arrays)
            for x, entry in zip(self.inputs, manifest["inputs"], strict=True)
        ]
        self._updated = [keys[key] for key in manifest["updates"]]
        self._called: Function | None = None
        self._check()

    def _check(self) -> None:
        """Raise where the graph is not of the function that the manifest describes."""
        manifest, graph = self.manifest, self.graph
        results = graph.outputs[: len(graph.outputs) - len(self._updated)]
        described_types = [described(y.type, y.type.shape) for y in results]
        shared = graph.inputs[self._count :]
        wrong = [*filter(is_shared, self.inputs)]
        wrong += [x for x in (*shared, *self._updated) if not is_shared(x)]
        if wrong or described_types != manifest["results"]:
            raise ValueError("its graph is not of the function that it describes")
        filled(manifest["outputs"], results)

    @property
    def inputs(self) -> list[Any]:
        """The symbolic inputs, in the order of a call's arguments."""
        return list(self.graph.inputs[: self._count])

    @property
    def outputs(self) -> Any:
        """The symbolic results, in the lists and dicts that a call returns."""
        return filled(self.manifest["outputs"], self.graph.outputs)

    @property
    def shared(self) -> dict[str, Any]:
        """The shared variables by name."""
        return {name: x for name, x in self._keys.items() if isinstance(x, Shared)}

    @property
    def updates(self) -> list[tuple[Any, Any]]:
        """The shared variables that a call updates, and their new values."""
        n = len(self.graph.outputs) - len(self._updated)
        return list(zip(self._updated, self.graph.outputs[n:], strict=True))

    def function(self, mode: str | Mode | None = None, **options: Any) -> Function:
        """Compile it.

        Args:
            mode: As for ``graphc.function``; by default this object's.
            options: As for ``graphc.function``: ``returns``, ``name``.

        Returns:
            A function of the same arguments and results. It shares its shared variables with this
            object, and keeps the other arrays of this moment.
        """
        options = {"name": self.manifest["name"], **options}
        return function(
            self._ins,
            self.outputs,
            self.mode if mode is None else mode,
            updates=self.updates,
            on_unused_input="ignore",
            no_default_updates=True,
            **options,
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the results for values of the inputs."""
        if self._called is None:
            self._called = self.function()
        return self._called(*args, **kwargs)

    def get_value(self, name: str) -> np.ndarray[Any, Any]:
        """Return a copy of the present value of a shared variable, or of another array.

        Args:
            name: Its name, a key of ``manifest["arrays"]``.

        Raises:
            ArgumentError: There is no such array.
        """
        x = self._node(name)
        if isinstance(x, Shared):
            return x.get_value()
        value: Any = x.op
        return np.array(as_numpy(value.array if isinstance(value, Leaf) else value.value))

    def set_value(self, name: str, value: Any) -> None:
        """Replace a shared variable's value, or an array that the graph captured.

        Nothing is compiled again, as no program depends on these.

        Args:
            name: Its name, a key of ``manifest["arrays"]``.
            value: An array of its dtype, and of its shape as far as the type says it.

        Raises:
            ArgumentError: There is no such array, or it is a constant, which the program holds; or
                the value has another shape.
            DTypeError: The value has another dtype.
        """
        x = self._node(name)
        if isinstance(x, Shared):
            x.set_value(value)
            return
        if isinstance(x.op, Constant):
            raise ArgumentError(
                f"{name} is a constant of the program.",
                "Pass it as an input or a shared variable before the function is exported.",
            )
        array = as_numpy(value)
        if not goes_into(array, x.type, is_weak(value)):
            raise DTypeError(f"A value of {array.dtype} for the array {name}: {x.type!r}.")
        if array.shape != x.type.shape:
            raise ArgumentError(f"A value of shape {array.shape} for the array {name}: {x.type!r}.")
        new = Node.make(Leaf(np.array(array, x.type.numpy_dtype), x.name))
        self._keys[name] = new
        self.graph = Graph(self.graph.inputs, replaced(self.graph.outputs, {x: new}))
        self._called = None

    def _node(self, name: str) -> Node:
        if name not in self._keys:
            known = ", ".join(self._keys) or "none"
            raise ArgumentError(f"{self._file} has no array {name!r}.", f"It has: {known}.")
        return self._keys[name]

    def __repr__(self) -> str:
        given = (f"{x['name'] or i}: {_shown(x)}" for i, x in enumerate(self.manifest["inputs"]))
        results = ", ".join(map(_shown, self.manifest["results"]))
        return f"{self._file}: ({', '.join(given)}) -> ({results})"


def _shown(entry: Mapping[str, Any]) -> str:
    lengths = ", ".join("?" if n is None else str(n) for n in entry["shape"])
    return f"{entry['dtype']}[{lengths}]"


def is_shared(x: Any) -> bool:
    """Return whether a node is a shared variable."""
    return isinstance(x, Shared)


def _as_in(x: Any, entry: Mapping[str, Any], arrays: Mapping[str, Any]) -> In:
    """The input that a manifest describes."""
    lengths = [None if isinstance(n, str) else n for n in entry["shape"]]
    if (entry["dtype"], lengths) != (x.type.dtype, [*x.type.shape]):
        raise ValueError(f"the input {entry['name']!r} is {x.type!r}, not {_shown(entry)}")
    op = x.op
    return In(
        XTensor(x, op.axes) if isinstance(op, NamedInput) else x,
        entry["name"],
        arrays[entry["default"]] if "default" in entry else MISSING,
        entry["strict"] is True,
        entry["allow_downcast"],
    )
