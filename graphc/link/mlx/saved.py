"""Functions of arrays as MLX saves them, for the shapes that they are given or for any lengths.

MLX saves a function of arrays of any lengths where all of its operations find out lengths
themselves. A length that Python read while MLX traced is part of what is saved, and nothing tells.
So such a function is traced for several lengths: it is right where these programs are one.
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
from graphc.link.mlx.arrays import Trace, own, to_numpy, tracing
from graphc.link.mlx.lengths import Lengths, unknown_length

Kind = tuple[Sequence[int], Any]
"""The shape of an array, and MLX's dtype."""

Function = Callable[..., Sequence[Any]]
Nodes = Sequence[Mapping[str, Any]]
"""A program as MLX tells of it."""


@dataclass(frozen=True)
class Traced:
    """A function, traced for arrays of some shapes.

    Attributes:
        program: What MLX saves, without the lengths that it finds out anew.
        results: The shapes and dtypes of its results.
        names: The names of the lengths that it takes behind its arguments.
        reduced: How many elements each reduction makes one of.
        shapeless: Whether it takes arrays of other lengths.
    """

    program: Hashable
    results: Sequence[Kind]
    names: Sequence[str]
    reduced: Sequence[int]
    shapeless: bool


@dataclass(frozen=True)
class Saved:
    """A function that is saved.

    Attributes:
        number: Its place among all of them.
        traced: What is saved.
        prefix: The same for its first so many operations, to find one that cannot be saved.
    """

    number: int
    traced: Traced
    prefix: Callable[[int], Traced]


class SavedFunctions:
    """The functions of plans.

    Args:
        expected: What the functions of a plan for other lengths must be equal to, if they must.

    Attributes:
        parts: Each as MLX saves it; equal ones are one.
        lengths: Lengths by name that may be others in a call; None where all are as given.
    """

    def __init__(self, expected: SavedFunctions | None = None) -> None:
        self.parts: list[bytes] = []
        self.lengths: Lengths | None = None
        self._expected = expected
        self._added: list[Saved] = []
        self._numbers: dict[Hashable, int] = {}

    def start(self, lengths: Lengths | None) -> None:
        """Begin another plan, for these lengths."""
        self.lengths = lengths
        self._added = []

    def add(
        self,
        function: Function,
        given: Sequence[Kind],
        nodes: Sequence[Node],
        prefix: Callable[[int], Function] | None = None,
    ) -> Saved:
        """Save a function of arrays of these shapes.

        Args:
            function: MLX can trace it.
            given: Its arguments.
            nodes: What it computes, for messages.
            prefix: The function of the first so many of these alone.

        Raises:
            ExportError: MLX cannot save it.
        """
        try:
            traced = self._traced(function, given)
            number = self._number(traced, function, given)
        except (RuntimeError, ValueError) as error:
            place = _first(len(nodes), lambda k: self._fails(prefix, k, given))
            raise _refused(error, nodes[place]) if nodes else error from error
        first = (lambda k: self._traced(prefix(k), given)) if prefix else (lambda k: traced)
        saved = Saved(number, traced, first)
        if self._expected is not None:
            self._compare(saved, self._expected, given, nodes)
        self._added.append(saved)
        return saved

    def _number(self, traced: Traced, function: Function, given: Sequence[Kind]) -> int:
        if self._expected is not None:
            return self._expected._added[len(self._added)].number
        number = self._numbers.setdefault(traced.program, len(self.parts))
        if number == len(self.parts):
            self.parts.append(self._saved(function, given, traced))
        return number

    def _traced(self, function: Function, given: Sequence[Kind]) -> Traced:
        results: list[Kind] = []

        def noted(*arrays: Any) -> list[Any]:
            found = self._run(function, len(given), arrays)
            results[:] = [(y.shape, y.dtype) for y in found]
            return found

        # Where no length is open, MLX saves more operations.
        nodes = _told(noted, self._arrays(given), shapeless=False)
        shapeless = bool(self._used(nodes, len(given)) or self._are_open([*given, *results]))
        if shapeless:
            nodes = _told(noted, self._arrays(given), shapeless=True)
            if 1 in _reduced(nodes):
                raise ValueError("it reduces an axis of length 1, at which MLX crashes")
        names = self._used(nodes, len(given))
        if not names:
            nodes = [{**nodes[0], "inputs": nodes[0]["inputs"][: len(given)]}, *nodes[1:]]
        program = tuple(_plain(node, shapeless=shapeless) for node in nodes)
        return Traced(program, results, names, _reduced(nodes), shapeless)

    def _are_open(self, kinds: Sequence[Kind]) -> bool:
        """Whether any of these arrays has a length that may be another."""
        return self.lengths is not None and any(map(self.lengths.are_in, (k[0] for k in kinds)))

    def _run(self, function: Function, count: int, arrays: Sequence[Any]) -> list[Any]:
        """The results of a function, while MLX traces it to be saved."""
        found = self.lengths.traced(arrays[count:]) if self.lengths else None
        with tracing(Trace(found or {}, fuses=False, lengths=found)):
            return own(function(*arrays[:count]), arrays)

    def _arrays(self, given: Sequence[Kind]) -> list[mx.array]:
        arrays = [mx.zeros(shape, dtype) for shape, dtype in given]
        return arrays + (self.lengths.arrays() if self.lengths else [])

    def _used(self, nodes: Nodes, count: int) -> Sequence[str]:
        """The names of the lengths, where any of what stands for them is used."""
        if self.lengths is None:
            return []
        extra = {name for name, *_ in nodes[0]["inputs"][count:]}
        taken = {name for node in nodes[1:] for name, *_ in node.get("inputs", ())}
        taken |= {name for node in nodes for name, *_ in node.get("outputs", ())}
        return [*self.lengths.values] if extra & taken else []

    def _saved(self, function: Function, given: Sequence[Kind], found: Traced) -> bytes:
        arrays, count = self._arrays(given), len(given)
        taken = arrays if found.names else arrays[:count]

        def traced(*xs: Any) -> list[Any]:
            return self._run(function, count, [*xs, *arrays[len(xs) :]])

        with tempfile.TemporaryDirectory(prefix="graphc-") as folder:
            path = Path(folder, "function.mlxfn")
            mx.export_function(str(path), traced, *taken, shapeless=found.shapeless)
            return path.read_bytes()

    def _fails(self, prefix: Callable[[int], Function] | None, k: int, given: Any) -> bool:
        try:
            return prefix is not None and not self._traced(prefix(k), given)
        except (RuntimeError, ValueError):
            return True

    # Programs for any length.

    def _compare(
        self, saved: Saved, expected: SavedFunctions, given: Sequence[Kind], nodes: Sequence[Node]
    ) -> None:
        """Raise where a function is another one than for the lengths that it is saved for."""
        before = expected._added[len(self._added)]
        runs = self._runs(saved, expected.parts[saved.number], given)
        if runs and self._is_same(before.traced, saved.traced):
            return
        place = _first(len(nodes), lambda k: not self._is_same(before.prefix(k), saved.prefix(k)))
        raise unknown_length(nodes[place])

    def _is_same(self, one: Traced, other: Traced) -> bool:
        assert self.lengths is not None
        if one.program != other.program:
            return False
        least = min(self.lengths.values.values())
        # Lengths are 2 or more. What is shorter than they are might be 1, at which MLX crashes.
        pairs = zip(one.reduced, other.reduced, strict=True)
        return all(m == n or n >= least for m, n in pairs)

    def _runs(self, saved: Saved, data: bytes, given: Sequence[Kind]) -> bool:
        """Whether what is saved finds out the shapes of its results."""
        read, arrays = imported(data), self._arrays(given)
        try:
            found = read(*(arrays if saved.traced.names else arrays[: len(given)]))
        except (RuntimeError, ValueError):
            return False
        return [(y.shape, y.dtype) for y in found] == [*saved.traced.results]


def imported(data: bytes) -> Callable[..., Sequence[Any]]:
    """A function that was saved."""
    with tempfile.TemporaryDirectory(prefix="graphc-") as folder:
        path = Path(folder, "function.mlxfn")
        path.write_bytes(data)
        read: Any = mx.import_function(str(path))
    return read  # type: ignore[no-any-return]


def _told(function: Function, arrays: Sequence[Any], *, shapeless: bool) -> Nodes:
    nodes: list[Mapping[str, Any]] = []
    mx.export_function(nodes.append, function, *arrays, shapeless=shapeless)
    return nodes


def _plain(node: Mapping[str, Any], *, shapeless: bool) -> Hashable:
    """A part of a program, so that equal ones are equal."""
    kind = node["type"]
    if kind == "constants":
        return kind, tuple((name, _digest(x)) for name, x in node["constants"])
    ends = [
        tuple((name, () if shapeless else shape, str(dtype)) for name, shape, dtype in part)
        for part in (node.get("inputs", ()), node.get("outputs", ()))
    ]
    if kind != "primitive":
        return (kind, *ends)
    # With several operands, an operand is repeated to what the others are.
    is_found = shapeless and node["name"] == "Broadcast" and len(ends[0]) > 1
    return (node["name"], *ends, "" if is_found else repr(node["arguments"]))


def _reduced(nodes: Nodes) -> list[int]:
    found = []
    for node in nodes:
        if node.get("name") in ("Reduce", "Softmax", "LogSumExp"):
            shape = node["inputs"][0][1]
            axes = node["arguments"][1] if node["name"] == "Reduce" else [-1]
            found.append(math.prod(shape[i] for i in axes))
    return found


def _digest(x: mx.array) -> Hashable:
    value = to_numpy(x)
    return value.dtype.name, value.shape, sha256(value.tobytes()).digest()


def _first(count: int, is_wrong: Callable[[int], bool]) -> int:
    """The first number of some for which something is wrong, as it is for all that follow."""
    first, last = 0, max(count - 1, 0)
    while first < last:
        k = (first + last) // 2
        first, last = (first, k) if is_wrong(k) else (k + 1, last)
    return first


def _refused(error: Exception, node: Node) -> Exception:
    """The error where MLX cannot save an operation."""
    if isinstance(error, GraphcError):
        return error
    return ExportError(
        f"MLX cannot save {node!r}: {str(error).splitlines()[0]}",
        'Leave "MLX" out of programs=, or compute this before the function is called.',
        node.where,
    )
