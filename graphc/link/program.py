"""Programs: the operations of a graph as steps, which run in turn or as one straight-line function.

Backends trace the steps in turn. Errors name the user's lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from graphc.context import setting
from graphc.errors import (
    BoundsError,
    GraphcError,
    OperationError,
    RuntimeShapeError,
    ShapeError,
)
from graphc.ir import Check, Constant, Graph, Node, Pick, TupleType
from graphc.ir.law import checks_of, named_checks, source_axis
from graphc.link.backend import Backend
from graphc.link.checks import admit, compare_lengths, unequal_arguments, unequal_operands
from graphc.link.host import Host
from graphc.link.source import Source
from graphc.site import user_line
from graphc.tensor.core.shape import Length, Shape


class Step(NamedTuple):
    """One operation of a program.

    Attributes:
        node: The node to compute.
        checks: The pairs of operands' lengths to compare.
        compute: The function from the operands' values to the result.
        operands: The positions of the operands among the program's values.
        position: The position of the result among the program's values.
    """

    node: Node
    checks: Sequence[Check]
    compute: Callable[..., Any]
    operands: tuple[int, ...]
    position: int


Observer = Callable[[Node, Callable[..., Any]], Callable[..., Any]]
"""A function from a node and the function that computes it to the function to run instead."""

_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


def observing(observer: Observer) -> setting[Observer]:
    """Build programs, in this context, from the functions that an observer returns.

    The observer also sees the programs of steps and branches that a backend builds while it traces.
    """
    return setting(_observer, observer)


WORTH_WRITING = 16
"""The runs before a program is compiled to one function, which pays off after some 60 runs."""

NO_LAST_USES: Mapping[int, list[int]] = {}
"""No value is dropped before the end."""


class Program:
    """A graph as a function of its inputs and then its leaves.

    A program checks the rank and the static lengths of its arguments, and the lengths that
    operations need equal and that types leave open.

    Attributes:
        graph: The graph.
        backend: The backend.
        host: The part that NumPy computes while the backend traces; None for an eager backend.
        single: Whether a run returns the only output itself, and not a sequence.
        arguments: The inputs, then the leaves.
        steps: The operations, in order.
        named_checks: The pairs of input lengths that have one name.
        constants: The position of each constant among the program's values, and its value.
        positions: The position of each node among the program's values.
        outputs: The positions of the outputs.
    """

    def __init__(
        self, graph: Graph, backend: Backend, host: Host | None, *, single: bool = False
    ) -> None:
        self.graph = graph
        self.backend = backend
        self.host = host
        self.single = single
        self.arguments = tuple(dict.fromkeys((*graph.inputs, *graph.leaves)))
        self.constants: list[tuple[int, Any]] = []
        self.steps: list[Step] = []
        self.positions: dict[Node, int] = {}
        self.named_checks = named_checks(graph.inputs)
        self._runs = 0
        self._write()
        self.outputs = [self.positions[y] for y in graph.outputs]

    @cached_property
    def source(self) -> Source:
        """The program as one straight-line function."""
        return Source(self)

    @cached_property
    def last_uses(self) -> dict[int, list[int]]:
        """The positions of values that no later step needs, by the step's position."""
        computed = {step.position for step in self.steps}
        seen = set(self.outputs)
        last: dict[int, list[int]] = {}
        for step in reversed(self.steps):
            for i in step.operands:
                if i not in seen and i in computed:
                    seen.add(i)
                    last.setdefault(step.position, []).append(i)
        return last

    def write(self) -> None:
        """Compile the straight-line function now, not after ``WORTH_WRITING`` runs."""
        _ = self.source
        self._runs = WORTH_WRITING

    def run(self, *arguments: Any) -> tuple[Any, ...]:
        """Return the outputs for these inputs and leaves.

        Raises:
            ArgumentError: If an argument's rank or a static length is wrong.
            RuntimeShapeError: If lengths that must be equal differ.
            OperationError: If an operation fails; the error names it and the user's line.
        """
        if self._runs < WORTH_WRITING:
            self._runs += 1
            return self._stepwise(arguments, self.last_uses)
        try:
            return self.source.function(*arguments)  # type: ignore[no-any-return]
        except Exception as error:
            failing = self.source.failing_step(error.__traceback__)
            raise locate_error(error, *failing) if failing else error from error

    def trace(self, *arguments: Any) -> tuple[Any, ...]:
        """Return the results of ``run`` step by step: faster for a single call, as in a trace."""
        return self._stepwise(arguments, NO_LAST_USES)

    def _stepwise(
        self, arguments: Sequence[Any], last_uses: Mapping[int, list[int]]
    ) -> tuple[Any, ...]:
        values = self.initial_values(arguments)
        self.advance(self.steps, values, last_uses)
        return tuple([values[i] for i in self.outputs])

    def initial_values(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the program's values before its steps: arguments and constants, else None.

        Raises:
            ArgumentError: If an argument's rank or a static length differs from its input's.
        """
        for position, node in enumerate(self.graph.inputs):
            admit(position, node, arguments[position])
        error = partial(unequal_arguments, self.graph.inputs)
        compare_lengths(self.named_checks, arguments, self.backend.equal_lengths, error)
        values = [*arguments, *[None] * (len(self.positions) - len(arguments))]
        for position, value in self.constants:
            values[position] = value
        return values

    def advance(
        self,
        steps: Iterable[Step],
        values: list[Any],
        last_uses: Mapping[int, list[int]] = NO_LAST_USES,
    ) -> None:
        """Run steps, and store their results among the program's values, by position.

        After a step, the values of its ``last_uses`` are dropped.
        """
        for node, checks, compute, positions, result in steps:
            operands = [values[i] for i in positions]
            try:
                if checks:
                    self.compare_lengths(node, checks, operands)
                values[result] = compute(*operands)
            except Exception as error:
                raise locate_error(error, node, operands) from error
            for i in last_uses.get(result, ()):
                values[i] = None

    def compare_lengths(self, node: Node, checks: Sequence[Check], operands: Sequence[Any]) -> None:
        """Raise if two lengths of a node's operands differ that must be equal."""
        error = partial(unequal_operands, node, operands)
        compare_lengths(checks, operands, self.backend.equal_lengths, error)

    def _write(self) -> None:
        positions, lengths, observer = self.positions, EqualLengths(), _observer.get()
        for node in self.arguments:
            positions[node] = len(positions)
        for a, m, b, n in self.named_checks:
            inputs = self.graph.inputs
            lengths.unite(_length(inputs[a], m), _length(inputs[b], n))
        for node in self.graph.nodes:
            if node in positions:
                continue
            position = positions[node] = len(positions)
            if isinstance(node.op, Constant):
                self.constants.append((position, node.op.value))
                continue
            operands = tuple([positions[x] for x in node.inputs])
            checks = lengths.open(node)
            compute = self._function(node)
            compute = compute if observer is None else observer(node, compute)
            self.steps.append(Step(node, checks, compute, operands, position))

    def _function(self, node: Node) -> Callable[..., Any]:
        if self.host is not None and node in self.host.nodes:
            return self.backend.around(node, _numpy_function(node), on_host=True)
        if self.backend.calls_back(node):
            return self.backend.callback(node)
        return self.backend.around(node, self.backend.bind(node), on_host=False)


_Length = tuple[Node, int] | int
"""The length of a node's axis: a node and an axis, or a static length."""


def _length(x: Node, axis: int) -> _Length:
    static: int | None = x.type.shape[axis]
    return (x, axis) if static is None else static


class EqualLengths:
    """Disjoint sets of equal lengths, also of computed nodes, so that each pair is checked once."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.parents: dict[_Length, _Length] = {}
        for node in nodes:
            self.open(node)

    def have_one_shape(self, x: Node, y: Node) -> bool:
        """Return whether two arrays of equal rank surely have equal lengths."""
        axes = range(x.type.ndim)
        return all(self.root(_length(x, i)) == self.root(_length(y, i)) for i in axes)

    def open(self, node: Node) -> Sequence[Check]:
        """Return the checks of a node that no earlier check implies, and add its lengths."""
        inputs = node.inputs
        needed: list[Check] | None = None
        for check in checks_of(node):
            a, m, b, n = check
            if self.unite(_length(inputs[a], m), _length(inputs[b], n)):
                needed = needed or []
                needed.append(check)
        self.follow(node)
        return needed or ()

    def root(self, length: _Length) -> _Length:
        """Return the representative of a length's set."""
        parents = self.parents
        while (parent := parents.get(length)) is not None:
            # Path halving: a long sum would take quadratic time without it.
            parents[length] = parents.get(parent, parent)
            length = parent
        return length

    def unite(self, a: _Length, b: _Length) -> bool:
        """Unite the sets of two lengths; return whether they were different."""
        a, b = self.root(a), self.root(b)
        if a == b:
            return False
        self.parents[b] = a
        return True

    def follow(self, node: Node) -> None:
        """Unite a node's lengths with the lengths of inputs from which they come."""
        for axis, length in enumerate(getattr(node.type, "shape", ())):
            source = source_axis(node, axis) if length is None else None
            if source is not None:
                self.parents[node, axis] = self.root(source)


def _numpy_function(node: Node) -> Callable[..., Any]:
    op = node.op
    if isinstance(op, Length):
        return lambda x: np.asarray(x.shape[op.axis], np.int64)
    if isinstance(op, Shape):
        return lambda x: np.asarray(x.shape, np.int64)

    def compute(*values: Any) -> Any:
        with np.errstate(all="ignore"):
            result = op.perform(*values)
        # Each result of a tuple has its own dtype.
        is_tuple = isinstance(node.type, TupleType) or isinstance(op, Pick)
        return result if is_tuple else np.asarray(result, node.type.numpy_dtype)

    return compute


def locate_error(error: Exception, node: Node, values: Sequence[Any]) -> Exception:
    """Return the error with the node's line; add the operation and operands if missing."""
    # Errors default to the line that called the program.
    if isinstance(error, GraphcError) and error.where not in {"", user_line()}:
        if not node.op.graphs() or node.where in {None, error.where}:
            return error
        # Equal steps share one graph, with the lines of the first: name the loop's line too.
        where = f"{error.where}, in the {node.op.name} of {node.where}"
        return type(error)(error.problem, error.remedy, where)
    if isinstance(error, ShapeError):
        return RuntimeShapeError(error.problem, error.remedy, node.where)
    if isinstance(error, GraphcError):
        return type(error)(error.problem, error.remedy, node.where)
    operands = ", ".join(
        f"{_dtype_name(x)}[{', '.join(map(str, x.shape))}]" if hasattr(x, "shape") else repr(x)
        for x in values
    )
    text = str(error).strip().split("\n")[0]
    if isinstance(error, IndexError):
        remedy = "An index is at least -n and less than the length n of its axis."
        return BoundsError(f"{node!r}, given {operands}: {text}.", remedy, node.where)
    return OperationError(
        f"{node!r} failed, given {operands or 'nothing'}: {type(error).__name__}: {text}",
        "",
        node.where,
    )


def _dtype_name(x: Any) -> str:
    return str(x.dtype).rpartition(".")[2]
