"""A graph as one straight-line Python function, and errors in it told by the user's lines."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from graphc.errors import (
    ArgumentError,
    BoundsError,
    GraphcError,
    OperationError,
    RuntimeShapeError,
    ShapeError,
)
from graphc.ir import INTERNAL, Constant, Graph, Node, TensorType
from graphc.link.backend import Backend
from graphc.link.host import Host, picked
from graphc.tensor.shape import Length, Shape

__all__ = ["Program"]

_numbers = itertools.count()


class Program:
    """A graph as a straight-line function of its inputs and then its leaves.

    It checks the rank and the static lengths of its arguments, and the lengths that operations
    need equal and types leave open. Values are dropped after their last use.

    Attributes:
        graph: What it computes.
        host: What is computed by NumPy while a backend traces; None where all is.
        source: The function's text.
        run: The function; gives the outputs as a tuple.
    """

    def __init__(self, graph: Graph, backend: Backend, host: Host | None) -> None:
        self.graph = graph
        self.backend = backend
        self.host = host
        self.namespace: dict[str, Any] = {}
        self.lines: list[Node | None] = []
        self.names: dict[Node, str] = {}
        self.source = self._written()
        self.file = f"{INTERNAL}program {next(_numbers)}>"
        exec(compile(self.source, self.file, "exec"), self.namespace)
        self._function: Callable[..., tuple[Any, ...]] = self.namespace["program"]

    def run(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, for these inputs and leaves.

        Raises:
            ArgumentError: An argument's rank or static length is wrong.
            RuntimeShapeError: Lengths that must be equal are not.
            OperationError: An operation failed; names it and the user's line.
        """
        try:
            return self._function(*arguments)
        except Exception as error:
            raise self._located(error) from error

    # Writing.

    def _written(self) -> str:
        graph = self.graph
        arguments = dict.fromkeys((*graph.inputs, *graph.leaves))
        body: list[str] = []

        def write(line: str, node: Node | None = None) -> None:
            body.append(f"    {line}")
            self.lines.append(node)

        for i, node in enumerate(arguments):
            self.names[node] = f"a{i}"
            for line in self._admission(i, node):
                write(line)
        last = _last_uses(graph)
        lengths = _Lengths()
        for i, node in enumerate(graph.nodes):
            if node in arguments:
                continue
            if isinstance(node.op, Constant) and not self._on_host(node):
                self.names[node] = self._bound(f"c{i}", node.op.value)
                continue
            for line in self._checks(i, node, lengths):
                write(line, node)
            operands = [self.names[x] for x in node.inputs]
            call = self._bound(f"f{i}", self._computing(node))
            self.names[node] = f"v{i}"
            write(f"v{i} = {call}({', '.join(operands)})", node)
            done = [self.names[x] for x in last.get(node, ()) if x not in arguments]
            done = [name for name in dict.fromkeys(done) if name.startswith("v")]
            if done:
                write(f"del {', '.join(done)}", node)
        outputs = "".join(f"{self.names[y]}, " for y in graph.outputs)
        header = f"def program({', '.join(self.names[a] for a in arguments)}):"
        self.lines = [None, *self.lines, None]
        return "\n".join([header, *body, f"    return ({outputs})"]) + "\n"

    def _bound(self, name: str, value: Any) -> str:
        self.namespace[name] = value
        return name

    def _on_host(self, node: Node) -> bool:
        return self.host is not None and node in self.host.nodes

    def _computing(self, node: Node) -> Callable[..., Any]:
        if self._on_host(node):
            return _by_numpy(node)
        return self.backend.bind(node)

    def _admission(self, i: int, node: Node) -> list[str]:
        type = node.type
        if not isinstance(type, TensorType) or i >= len(self.graph.inputs):
            return []
        wrong = [f"a{i}.ndim != {type.ndim}"]
        wrong += [f"a{i}.shape[{k}] != {n}" for k, n in enumerate(type.shape) if n is not None]
        refuse = self._bound(f"r{i}", lambda a: _refused(i, node, a))
        return [f"if {' or '.join(wrong)}: {refuse}(a{i})"]

    def _checks(self, i: int, node: Node, lengths: _Lengths) -> list[str]:
        lines = []
        types = [x.type for x in node.inputs]
        for a, m, b, n in node.op.checks(*types):
            m, n = m % types[a].ndim, n % types[b].ndim
            if not lengths.unite((node.inputs[a], m), (node.inputs[b], n)):
                continue
            left, right = self.names[node.inputs[a]], self.names[node.inputs[b]]
            refuse = f"u{i}"
            self._bound(refuse, lambda *xs, at=node: _unequal(at, xs))
            lines.append(
                f"if {left}.shape[{m}] != {right}.shape[{n}]: {refuse}({left}, {right}, {m}, {n})"
            )
        lengths.follow(node)
        return lines

    # Errors.

    def _located(self, error: Exception) -> Exception:
        found = self._frame(error.__traceback__)
        if found is None or (isinstance(error, GraphcError) and error.where is not None):
            return error
        node, values = found
        if isinstance(error, ShapeError):
            return RuntimeShapeError(error.problem, error.remedy, node.where)
        if isinstance(error, GraphcError):
            return type(error)(error.problem, error.remedy, node.where)
        kind = BoundsError if isinstance(error, IndexError) else OperationError
        text = str(error).strip().split("\n")[0]
        return kind(
            f"{node!r} failed, given {_given(values) or 'nothing'}: {type(error).__name__}: {text}",
            "",
            node.where,
        )

    def _frame(self, traceback: TracebackType | None) -> tuple[Node, list[Any]] | None:
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self.file:
                node = self.lines[traceback.tb_lineno - 1]
                if node is None:
                    return None
                local = traceback.tb_frame.f_locals
                values = [
                    local.get(self.names[x], self.namespace.get(self.names[x]))
                    for x in node.inputs
                ]
                return node, values
            traceback = traceback.tb_next
        return None

    def show(self) -> None:
        """Let debuggers and tracebacks show the function's text."""
        linecache.cache[self.file] = (
            len(self.source),
            None,
            self.source.splitlines(keepends=True),
            self.file,
        )


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """For each node, the values that nothing needs after it."""
    kept = set(graph.outputs)
    seen: set[Node] = set()
    last: dict[Node, list[Node]] = {}
    given = set(graph.inputs)
    for node in reversed(graph.nodes):
        if node in given:
            continue
        for x in node.inputs:
            if x not in seen and x not in kept:
                seen.add(x)
                last.setdefault(node, []).append(x)
    return last


class _Lengths:
    """Which lengths of which nodes are known to be equal, so that each pair is checked once."""

    def __init__(self) -> None:
        self.parents: dict[tuple[Node, int], tuple[Node, int]] = {}

    def root(self, place: tuple[Node, int]) -> tuple[Node, int]:
        while place in self.parents:
            place = self.parents[place]
        return place

    def unite(self, a: tuple[Node, int], b: tuple[Node, int]) -> bool:
        """Whether it was not known."""
        a, b = self.root(a), self.root(b)
        if a == b:
            return False
        self.parents[b] = a
        return True

    def follow(self, node: Node) -> None:
        """What an operation that broadcasts keeps: each length is that of an input."""
        type = node.type
        if not isinstance(type, TensorType) or not node.inputs:
            return
        if not _keeps_lengths(node):
            return
        for axis in range(type.ndim):
            if type.shape[axis] is not None:
                continue
            for x in node.inputs:
                at = axis - type.ndim + x.type.ndim
                if at >= 0 and x.type.shape[at] is None:
                    self.unite((x, at), (node, axis))
                    break


def _keeps_lengths(node: Node) -> bool:
    from graphc.tensor.elementwise import Cast, Elementwise, Where

    return isinstance(node.op, Elementwise | Cast | Where)


def _by_numpy(node: Node) -> Callable[..., Any]:
    op = node.op
    if isinstance(op, Length):
        return lambda x: np.asarray(x.shape[op.axis], np.int64)
    if isinstance(op, Shape):
        return lambda x: np.asarray(x.shape, np.int64)

    def compute(*values: Any) -> Any:
        with np.errstate(all="ignore"):
            return picked(node, op.perform(*values))

    return compute


def _refused(i: int, node: Node, value: Any) -> None:
    name = f"{node.op.name!r}" if node.name else f"{i}"
    raise ArgumentError(
        f"The argument {name} is wanted as {node.type!r}; an array of shape "
        f"{tuple(value.shape)} was given.",
        "Give it that rank and those lengths, or declare the input otherwise.",
        node.where,
    )


def _unequal(node: Node, found: Sequence[Any]) -> None:
    a, b, m, n = found
    raise RuntimeShapeError(
        f"{node!r}: axis {m} of an operand of shape {tuple(a.shape)} and axis {n} of one of shape "
        f"{tuple(b.shape)} differ in length.",
        "Make them equal. An axis is repeated only where its length is statically 1, as in "
        "gt.tensor(shape=(1, None)) or x[None, :].",
        node.where,
    )


def _given(values: Sequence[Any]) -> str:
    return ", ".join(
        f"{x.dtype}[{', '.join(map(str, x.shape))}]" if hasattr(x, "shape") else repr(x)
        for x in values
    )
