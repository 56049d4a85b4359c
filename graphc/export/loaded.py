"""Functions that are loaded from files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphc.compile.arguments import MISSING, In, goes_into, is_weak
from graphc.compile.function import Function, function
from graphc.compile.mode import Mode
from graphc.compile.shared import Shared
from graphc.errors import ArgumentError, DTypeError, FormatError
from graphc.export.examples import ModelVerification, verify_calls
from graphc.export.manifest import array_entry
from graphc.export.read import GraphReader
from graphc.export.runtime import fill_structure, open_file
from graphc.ir import Constant, Graph, Leaf, Node, replace_nodes
from graphc.link import as_numpy
from graphc.xtensor.type import NamedInput, XTensor

GRAPH = "graph.txt"

DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors that reading a damaged file raises."""


def load(
    path: str | os.PathLike[str], mode: str | Mode | None = None, *, verify: bool = True
) -> Loaded:
    """Load a function from a file that ``f.export`` wrote, in this or an earlier release.

    No code is run, whatever the file contains. Its arrays are mapped into memory, and are read when
    used, so do not write into the file while the function is in use.

    Args:
        path: The file.
        mode: The mode of calls, as for ``graphc.function``; ``config.mode`` by default.
        verify: Compare the checksum of the arrays too, which reads them once. All other checksums
            are always compared.

    Returns:
        A function, with a graph to compile, differentiate and draw.

    Raises:
        FormatError: If the file is no function's, is damaged, or of a later version.
        OSError: If the file cannot be read.

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
        manifest, arrays, file_parts = open_file(path, verify=verify)
        reader = GraphReader(bytes(file_parts[GRAPH]).decode(), arrays, {})
        graph = reader.read()
        return Loaded(Path(path), mode, manifest, graph, reader.keys, arrays)
    except FormatError as error:
        raise FormatError(f"{path}: {error.problem}", error.remedy) from None
    except DAMAGE as error:
        problem = str(error) if type(error) is ValueError else repr(error)
        raise FormatError(
            f"{path} is no function that can be loaded: {problem}.",
            "Write it again with f.export, or copy it again.",
        ) from error


class Loaded:
    """A function from a file, made by ``graphc.load``: call it, or compile its graph anew.

    A call takes a value for each input, by position or by name, and returns the results of the
    exported function. Inputs in other containers than lists and dicts are passed array by array.

    Attributes:
        mode: The mode of calls.
        manifest: The parsed manifest: names, dtypes, shapes, versions, the licence.
        graph: The graph; its inputs are the arguments, then the shared variables, and its outputs
            the results, then new values of shared variables.
    """

    def __init__(
        self,
        path: Path,
        mode: str | Mode | None,
        manifest: Mapping[str, Any],
        graph: Graph,
        keys: Mapping[str, Node],
        arrays: Mapping[str, Any],
    ) -> None:
        self.mode = mode
        self.manifest = manifest
        self.graph = graph
        self._path = path
        self._file = path.name
        self._keys = dict(keys)
        self._count = len(manifest["inputs"])
        self._ins = [
            _make_in(x, entry, arrays)
            for x, entry in zip(self.inputs, manifest["inputs"], strict=True)
        ]
        self._updated = [keys[key] for key in manifest["updates"]]
        self._called: Function | None = None
        self._check_manifest()

    def _check_manifest(self) -> None:
        manifest, graph = self.manifest, self.graph
        results = graph.outputs[: len(graph.outputs) - len(self._updated)]
        described_types = [array_entry(y.type, y.type.shape) for y in results]
        shared = graph.inputs[self._count :]
        wrong = [*filter(is_shared, self.inputs)]
        wrong += [x for x in (*shared, *self._updated) if not is_shared(x)]
        if wrong or described_types != manifest["results"]:
            raise ValueError("its graph is not of the function that it describes")
        fill_structure(manifest["outputs"], results)

    @property
    def inputs(self) -> list[Any]:
        """The symbolic inputs, in the order of a call's arguments."""
        return list(self.graph.inputs[: self._count])

    @property
    def outputs(self) -> Any:
        """The symbolic results, in the lists and dicts that a call returns."""
        return fill_structure(self.manifest["outputs"], self.graph.outputs)

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
        """Compile the graph.

        Args:
            mode: As for ``graphc.function``; by default this object's mode.
            options: As for ``graphc.function``: ``returns``, ``name``.

        Returns:
            A function of the same arguments and results. It shares its shared variables with this
            object, and has the present values of the other arrays.
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

    def verify(
        self,
        examples: Sequence[Mapping[str, Any] | Sequence[Any]] | None = None,
        modes: Sequence[str | Mode] | None = None,
    ) -> ModelVerification:
        """Run calls on each backend, and by the programs in the file, and compare their results.

        The function has the state that is in the file: changes by ``set_value`` are ignored.
        Results agree if they differ by no more than the tolerance of their dtype, or than a
        rounding of the arguments changes them.

        Args:
            examples: Arguments of calls, each as a dict by name or a list, whose results are
                compared with NumPy's; by default the calls and results that
                ``f.export(..., examples=...)`` recorded.
            modes: The modes to run, such as ``("NUMPY", "JAX")``; by default all backends.

        Returns:
            A result that is true if all that ran agree. As text it is a table.

        Raises:
            ArgumentError: If there are neither recorded calls nor ``examples``.

        Example:
            >>> import pathlib, tempfile, graphc, graphc.tensor as gt
            >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.graphc"
            >>> x = gt.vector("x")
            >>> graphc.function([x], x * 2).export(file, examples=[{"x": [1.0, 2.0]}])
            >>> graphc.load(file).verify(modes=["NUMPY", "JAX"])
            model.graphc: 1 recorded call
              NUMPY            agrees   largest difference 0
              JAX              agrees   largest difference 0
        """
        return verify_calls(load(self._path, self.mode), self._path, examples, modes)

    def get_value(self, name: str) -> np.ndarray[Any, Any]:
        """Return a copy of the present value of a shared variable, or of another array.

        Args:
            name: The array's name, a key of ``manifest["arrays"]``.

        Raises:
            ArgumentError: If there is no such array.
        """
        x = self._node(name)
        if isinstance(x, Shared):
            return x.get_value()
        value: Any = x.op
        return np.array(as_numpy(value.array if isinstance(value, Leaf) else value.value))

    def set_value(self, name: str, value: Any) -> None:
        """Replace a shared variable's value, or an array that the graph captured.

        Nothing is compiled again, as no program depends on these values.

        Args:
            name: The array's name, a key of ``manifest["arrays"]``.
            value: An array of the same dtype, and of a shape that the type admits.

        Raises:
            ArgumentError: If there is no such array, or it is a constant of the program, or the
                value has another shape.
            DTypeError: If the value has another dtype.
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
        self.graph = Graph(self.graph.inputs, replace_nodes(self.graph.outputs, {x: new}))
        self._called = None

    def _node(self, name: str) -> Node:
        if name not in self._keys:
            names = ", ".join(self._keys) or "none"
            raise ArgumentError(f"{self._file} has no array {name!r}.", f"It has: {names}.")
        return self._keys[name]

    def __repr__(self) -> str:
        inputs = (f"{x['name'] or i}: {_shown(x)}" for i, x in enumerate(self.manifest["inputs"]))
        results = ", ".join(map(_shown, self.manifest["results"]))
        return f"{self._file}: ({', '.join(inputs)}) -> ({results})"


def _shown(entry: Mapping[str, Any]) -> str:
    lengths = ", ".join("?" if n is None else str(n) for n in entry["shape"])
    return f"{entry['dtype']}[{lengths}]"


def is_shared(x: Any) -> bool:
    """Return whether a node is a shared variable."""
    return isinstance(x, Shared)


def _make_in(x: Any, entry: Mapping[str, Any], arrays: Mapping[str, Any]) -> In:
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
