"""Functions of arrays as MLX saves them, for fixed shapes or for any lengths.

MLX can save a function for any lengths if each of its operations infers lengths itself. A length
that Python reads while MLX traces becomes part of the saved function, without a warning. So a
function is traced for several example lengths, and valid if all of these programs are equal.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import mlx.core as mx

from graphc.errors import ExportError, GraphcError
from graphc.ir import Node
from graphc.link.mlx.arrays import Trace, separate_results, to_numpy, tracing
from graphc.link.mlx.lengths import NamedLengths, unknown_length

Kinds = Sequence[tuple[Sequence[int], Any]]
"""Shapes and MLX's dtypes of arrays."""

Function = Callable[..., Sequence[Any]]
Nodes = Sequence[Mapping[str, Any]]
"""A program's nodes as MLX exports them."""


@dataclass(frozen=True)
class TracedFunction:
    """A function, traced for arrays of some shapes.

    Attributes:
        program: The program that MLX saves, without the lengths that MLX infers.
        results: Shapes and dtypes of the results.
        names: Names of the lengths that the function takes as further arguments.
        reduced: Number of elements that each reduction combines into one.
        shapeless: Whether the function takes arrays of other lengths.
    """

    program: Hashable
    results: Kinds
    names: Sequence[str]
    reduced: Sequence[int]
    shapeless: bool


@dataclass(frozen=True)
class SavedFunction:
    """A saved function.

    Attributes:
        number: Position of the function among the saved functions.
        traced: The traced function.
        prefix: Function that traces the first ``k + 1`` operations, to find one that MLX cannot
            save.
    """

    number: int
    traced: TracedFunction
    prefix: Callable[[int], TracedFunction]


class SavedFunctions:
    """The functions of plans.

    Args:
        expected: Functions that a plan for other lengths must equal, or None.

    Attributes:
        files: The distinct functions as MLX saves them.
        lengths: Dynamic lengths by name; None if all lengths are fixed.
    """

    def __init__(self, expected: SavedFunctions | None = None) -> None:
        self.files: list[bytes] = []
        self.lengths: NamedLengths | None = None
        self._expected = expected
        self._added: list[SavedFunction] = []
        self._numbers: dict[Hashable, int] = {}

    def start(self, lengths: NamedLengths | None) -> None:
        """Begin another plan, for these lengths."""
        self.lengths = lengths
        self._added = []

    def add(
        self,
        function: Function,
        arguments: Kinds,
        nodes: Sequence[Node],
        prefix: Callable[[int], Function] | None = None,
    ) -> SavedFunction:
        """Save a function, of arrays of these shapes, that computes these nodes.

        ``prefix`` returns the function of the first ``k + 1`` nodes.

        Raises:
            ExportError: If MLX cannot save the function; the error names a node.
        """
        try:
            traced = self._trace(function, arguments)
            number = self._number(traced, function, arguments)
        except (RuntimeError, ValueError) as error:
            index = _bisect(len(nodes), lambda k: self._fails(prefix, k, arguments))
            raise _save_error(error, nodes[index]) if nodes else error from error
        trace_prefix = (
            (lambda k: self._trace(prefix(k), arguments)) if prefix else (lambda k: traced)
        )
        saved = SavedFunction(number, traced, trace_prefix)
        if self._expected is not None:
            self._compare(saved, self._expected, arguments, nodes)
        self._added.append(saved)
        return saved

    def _number(self, traced: TracedFunction, function: Function, arguments: Kinds) -> int:
        if self._expected is not None:
            return self._expected._added[len(self._added)].number
        number = self._numbers.setdefault(traced.program, len(self.files))
        if number == len(self.files):
            self.files.append(self._export(function, arguments, traced))
        return number

    def _trace(self, function: Function, arguments: Kinds) -> TracedFunction:
        results: list[tuple[Sequence[int], Any]] = []

        def run(*arrays: Any) -> list[Any]:
            ys = self._run(function, len(arguments), arrays)
            results[:] = [(y.shape, y.dtype) for y in ys]
            return ys

        # Without dynamic lengths, MLX can save more operations.
        nodes = _export_nodes(run, self._arrays(arguments), shapeless=False)
        shapeless = bool(
            self._used_lengths(nodes, len(arguments)) or self._are_dynamic([*arguments, *results])
        )
        if shapeless:
            nodes = _export_nodes(run, self._arrays(arguments), shapeless=True)
            if 1 in _reduced_sizes(nodes):
                raise ValueError("it reduces an axis of length 1, at which MLX crashes")
        names = self._used_lengths(nodes, len(arguments))
        if not names:
            nodes = [{**nodes[0], "inputs": nodes[0]["inputs"][: len(arguments)]}, *nodes[1:]]
        program = tuple(_hashable_node(node, shapeless=shapeless) for node in nodes)
        return TracedFunction(program, results, names, _reduced_sizes(nodes), shapeless)

    def _are_dynamic(self, kinds: Kinds) -> bool:
        return self.lengths is not None and any(map(self.lengths.occur_in, (k[0] for k in kinds)))

    def _run(self, function: Function, count: int, arrays: Sequence[Any]) -> list[Any]:
        """Return the results of a function while MLX traces it for saving."""
        lengths = self.lengths.trace(arrays[count:]) if self.lengths else None
        with tracing(Trace(lengths or {}, fuses=False, lengths=lengths)):
            return separate_results(function(*arrays[:count]), arrays)

    def _arrays(self, arguments: Kinds) -> list[mx.array]:
        arrays = [mx.zeros(shape, dtype) for shape, dtype in arguments]
        return arrays + (self.lengths.arrays() if self.lengths else [])

    def _used_lengths(self, nodes: Nodes, count: int) -> Sequence[str]:
        """Return the names of the lengths if the function uses any, else none."""
        if self.lengths is None:
            return []
        length_arrays = {name for name, *_ in nodes[0]["inputs"][count:]}
        used = {name for node in nodes[1:] for name, *_ in node.get("inputs", ())}
        used |= {name for node in nodes for name, *_ in node.get("outputs", ())}
        return [*self.lengths.values] if length_arrays & used else []

    def _export(self, function: Function, arguments: Kinds, traced: TracedFunction) -> bytes:
        arrays, count = self._arrays(arguments), len(arguments)
        operands = arrays if traced.names else arrays[:count]

        def function_of_all(*xs: Any) -> list[Any]:
            return self._run(function, count, [*xs, *arrays[len(xs) :]])

        with tempfile.TemporaryDirectory(prefix="graphc-") as folder:
            path = Path(folder, "function.mlxfn")
            mx.export_function(str(path), function_of_all, *operands, shapeless=traced.shapeless)
            return path.read_bytes()

    def _fails(self, prefix: Callable[[int], Function] | None, k: int, arguments: Any) -> bool:
        try:
            return prefix is not None and not self._trace(prefix(k), arguments)
        except (RuntimeError, ValueError):
            return True

    # Programs for any length.

    def _compare(
        self,
        saved: SavedFunction,
        expected: SavedFunctions,
        arguments: Kinds,
        nodes: Sequence[Node],
    ) -> None:
        """Raise ExportError if a function differs from that for the expected lengths."""
        before = expected._added[len(self._added)]
        runs = self._infers_shapes(saved, expected.files[saved.number], arguments)
        if runs and self._is_same(before.traced, saved.traced):
            return
        index = _bisect(len(nodes), lambda k: not self._is_same(before.prefix(k), saved.prefix(k)))
        raise unknown_length(nodes[index])

    def _is_same(self, one: TracedFunction, other: TracedFunction) -> bool:
        assert self.lengths is not None
        if one.program != other.program:
            return False
        shortest = min(self.lengths.values.values())
        # A shorter reduced axis might have length 1 in a call, at which MLX crashes.
        pairs = zip(one.reduced, other.reduced, strict=True)
        return all(m == n or n >= shortest for m, n in pairs)

    def _infers_shapes(self, saved: SavedFunction, data: bytes, arguments: Kinds) -> bool:
        function, arrays = load_function(data), self._arrays(arguments)
        try:
            results = function(*(arrays if saved.traced.names else arrays[: len(arguments)]))
        except (RuntimeError, ValueError):
            return False
        return [(y.shape, y.dtype) for y in results] == [*saved.traced.results]


def load_function(data: bytes) -> Callable[..., Sequence[Any]]:
    with tempfile.TemporaryDirectory(prefix="graphc-") as folder:
        path = Path(folder, "function.mlxfn")
        path.write_bytes(data)
        function: Any = mx.import_function(str(path))
    return function  # type: ignore[no-any-return]


def _export_nodes(function: Function, arrays: Sequence[Any], *, shapeless: bool) -> Nodes:
    nodes: list[Mapping[str, Any]] = []
    mx.export_function(nodes.append, function, *arrays, shapeless=shapeless)
    return nodes


def _hashable_node(node: Mapping[str, Any], *, shapeless: bool) -> Hashable:
    """Return a hashable form of a node of a program, equal for equal nodes."""
    kind = node["type"]
    if kind == "constants":
        return kind, tuple((name, _digest(x)) for name, x in node["constants"])
    ends = [
        tuple((name, () if shapeless else shape, str(dtype)) for name, shape, dtype in arrays)
        for arrays in (node.get("inputs", ()), node.get("outputs", ()))
    ]
    if kind != "primitive":
        return (kind, *ends)
    # With several operands, MLX infers the shape from all of them.
    is_inferred = shapeless and node["name"] == "Broadcast" and len(ends[0]) > 1
    return (node["name"], *ends, "" if is_inferred else repr(node["arguments"]))


def _reduced_sizes(nodes: Nodes) -> list[int]:
    sizes = []
    for node in nodes:
        if node.get("name") in ("Reduce", "Softmax", "LogSumExp"):
            shape = node["inputs"][0][1]
            axes = node["arguments"][1] if node["name"] == "Reduce" else [-1]
            sizes.append(math.prod(shape[i] for i in axes))
    return sizes


def _digest(x: mx.array) -> Hashable:
    value = to_numpy(x)
    return value.dtype.name, value.shape, sha256(value.tobytes()).digest()


def _bisect(count: int, is_true: Callable[[int], bool]) -> int:
    """Return the first number below ``count`` for which a monotonic condition is true."""
    first, last = 0, max(count - 1, 0)
    while first < last:
        k = (first + last) // 2
        first, last = (first, k) if is_true(k) else (k + 1, last)
    return first


def _save_error(error: Exception, node: Node) -> Exception:
    if isinstance(error, GraphcError):
        return error
    return ExportError(
        f"MLX cannot save {node!r}: {str(error).splitlines()[0]}",
        'Leave "MLX" out of programs=, or compute this before the function is called.',
        node.where,
    )
