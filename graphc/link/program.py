"""A graph as steps: run one by one while a backend traces, or as one straight-line function.

Errors in them name the user's lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import (
    BoundsError,
    GraphcError,
    OperationError,
    RuntimeShapeError,
    ShapeError,
)
from graphc.ir import Check, Constant, Graph, Node, Pick, TupleType
from graphc.ir.law import checks_of, source_axis
from graphc.link.backend import Backend
from graphc.link.checks import admit, named_checks, unequal_arguments, unequal_operands
from graphc.link.host import Host
from graphc.link.source import Source
from graphc.site import user_line
from graphc.tensor.core.shape import Length, Shape


class Step(NamedTuple):
    """One operation of a program.

    Attributes:
        node: What it computes.
        checks: The lengths of its operands that must be equal and are not known to be.
        compute: Takes the operands' values.
        operands: Where they stand among the program's values.
        place: Where its result stands.
    """

    node: Node
    checks: Sequence[Check]
    compute: Callable[..., Any]
    operands: tuple[int, ...]
    place: int


Observer = Callable[[Node, Callable[..., Any]], Callable[..., Any]]
"""Takes a node and the function that computes it, and gives what is run in its place."""

_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """A context in which programs are made of what an observer gives, as profiles need it.

    So are the programs of steps and branches that a backend makes while it traces.
    """
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


WORTH_WRITING = 16
"""The runs after which a program is written out, by which some 60 save the time of compiling."""

KEPT: Mapping[int, list[int]] = {}
"""The last uses where values are kept."""


class Program:
    """A graph as a function of its inputs and then its leaves.

    It checks the rank and the static lengths of its arguments, and the lengths that operations
    need equal and types leave open.

    Attributes:
        graph: What it computes.
        host: What is computed by NumPy while a backend traces; None where all is.
        single: Whether running it returns its only output itself, and not a sequence.
        steps: Its operations, in order.
        named_checks: The lengths of inputs that have one name.
        constants: The values of the graph's constants, and where they stand.
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
        self.places: dict[Node, int] = {}
        self.named_checks = named_checks(graph.inputs)
        self._runs = 0
        self._write()
        self.outputs = [self.places[y] for y in graph.outputs]

    @cached_property
    def source(self) -> Source:
        """Its text as one straight-line function."""
        return Source(self)

    @cached_property
    def last_uses(self) -> dict[int, list[int]]:
        """For each step, by its place, the results that nothing needs after it."""
        computed = {step.place for step in self.steps}
        seen = set(self.outputs)
        last: dict[int, list[int]] = {}
        for step in reversed(self.steps):
            for i in step.operands:
                if i not in seen and i in computed:
                    seen.add(i)
                    last.setdefault(step.place, []).append(i)
        return last

    def write(self) -> None:
        """Write out what ``run`` runs, which it otherwise does itself when often called."""
        _ = self.source
        self._runs = WORTH_WRITING

    def run(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs for these inputs and leaves.

        Raises:
            ArgumentError: An argument's rank or static length is wrong.
            RuntimeShapeError: Lengths that must be equal are not.
            OperationError: An operation failed; names it and the user's line.
        """
        if self._runs < WORTH_WRITING:
            self._runs += 1
            return self._stepwise(arguments, self.last_uses)
        try:
            return self.source.function(*arguments)  # type: ignore[no-any-return]
        except Exception as error:
            found = self.source.failed(error.__traceback__)
            raise located(error, *found) if found else error from error

    def trace(self, *arguments: Any) -> tuple[Any, ...]:
        """The results of ``run``, step by step: faster where it is called once, as in a trace."""
        return self._stepwise(arguments, KEPT)

    def _stepwise(
        self, arguments: Sequence[Any], last_uses: Mapping[int, list[int]]
    ) -> tuple[Any, ...]:
        values = self.begun(arguments)
        self.advance(self.steps, values, last_uses)
        return tuple([values[i] for i in self.outputs])

    def begun(self, arguments: Sequence[Any]) -> list[Any]:
        """The program's values by place before its steps: arguments and constants, else None.

        Raises:
            ArgumentError: An argument's rank or a static length is not its input's.
        """
        for place, node in enumerate(self.graph.inputs):
            admit(place, node, arguments[place])
        for check in self.named_checks:
            error = partial(unequal_arguments, self.graph.inputs, check)
            self._compare(check, arguments, error)
        values = [*arguments, *[None] * (len(self.places) - len(arguments))]
        for place, value in self.constants:
            values[place] = value
        return values

    def advance(
        self,
        steps: Iterable[Step],
        values: list[Any],
        last_uses: Mapping[int, list[int]] = KEPT,
    ) -> None:
        """Put the results of these steps at their places among the program's values.

        Args:
            steps: Steps of this program.
            values: The program's values by place.
            last_uses: For a step, by its place, the values to drop after it.
        """
        for node, checks, compute, places, place in steps:
            operands = [values[i] for i in places]
            try:
                if checks:
                    self.compare_lengths(node, checks, operands)
                values[place] = compute(*operands)
            except Exception as error:
                raise located(error, node, operands) from error
            for i in last_uses.get(place, ()):
                values[i] = None

    def compare_lengths(self, node: Node, checks: Sequence[Check], operands: Sequence[Any]) -> None:
        """Raise if two lengths of a node's operands differ that must be equal."""
        for check in checks:
            self._compare(check, operands, partial(unequal_operands, node, check, operands))

    def _compare(
        self, check: Check, operands: Sequence[Any], error: Callable[[int, int], GraphcError]
    ) -> None:
        a, m, b, n = check
        self.backend.equal_lengths(operands[a].shape[m], operands[b].shape[n], error)

    def _write(self) -> None:
        places, lengths, observer = self.places, Lengths(), _observer.get()
        for node in self.arguments:
            places[node] = len(places)
        for a, m, b, n in self.named_checks:
            inputs = self.graph.inputs
            lengths.unite(_place(inputs[a], m), _place(inputs[b], n))
        for node in self.graph.nodes:
            if node in places:
                continue
            place = places[node] = len(places)
            if isinstance(node.op, Constant):
                self.constants.append((place, node.op.value))
                continue
            operands = tuple([places[x] for x in node.inputs])
            checks = lengths.open(node)
            compute = self._computing(node)
            compute = compute if observer is None else observer(node, compute)
            self.steps.append(Step(node, checks, compute, operands, place))

    def _computing(self, node: Node) -> Callable[..., Any]:
        if self.host is not None and node in self.host.nodes:
            return self.backend.around(node, _by_numpy(node), on_host=True)
        if self.backend.calls_back(node):
            return self.backend.callback(node)
        return self.backend.around(node, self.backend.bind(node), on_host=False)


_Place = tuple[Node, int] | int
"""An axis of a node, or its length where the type has it."""


def _place(x: Node, axis: int) -> _Place:
    known: int | None = x.type.shape[axis]
    return (x, axis) if known is None else known


class Lengths:
    """Sets of lengths that are known to be equal, so that each pair is checked once.

    Args:
        nodes: Nodes that have been computed, each after its inputs.
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.parents: dict[_Place, _Place] = {}
        for node in nodes:
            self.open(node)

    def have_one_shape(self, x: Node, y: Node) -> bool:
        """Return whether two arrays of equal rank are known to have equal lengths."""
        axes = range(x.type.ndim)
        return all(self.root(_place(x, i)) == self.root(_place(y, i)) for i in axes)

    def open(self, node: Node) -> Sequence[Check]:
        """Return the checks of a node that no earlier node made, and note its lengths."""
        inputs = node.inputs
        needed: list[Check] | None = None
        for check in checks_of(node):
            a, m, b, n = check
            if self.unite(_place(inputs[a], m), _place(inputs[b], n)):
                needed = needed or []
                needed.append(check)
        self.follow(node)
        return needed or ()

    def root(self, place: _Place) -> _Place:
        """Return the representative of all lengths that are known to equal one."""
        parents = self.parents
        while (above := parents.get(place)) is not None:
            # Each step halves the way for the next one, or a long sum would take quadratic time.
            parents[place] = parents.get(above, above)
            place = above
        return place

    def unite(self, a: _Place, b: _Place) -> bool:
        """Note that two lengths are equal, and return whether that was not known."""
        a, b = self.root(a), self.root(b)
        if a == b:
            return False
        self.parents[b] = a
        return True

    def follow(self, node: Node) -> None:
        """Unite the lengths of a node with those of inputs that it has."""
        for axis, length in enumerate(getattr(node.type, "shape", ())):
            source = source_axis(node, axis) if length is None else None
            if source is not None:
                self.parents[node, axis] = self.root(source)


def _by_numpy(node: Node) -> Callable[..., Any]:
    op = node.op
    if isinstance(op, Length):
        return lambda x: np.asarray(x.shape[op.axis], np.int64)
    if isinstance(op, Shape):
        return lambda x: np.asarray(x.shape, np.int64)

    def compute(*values: Any) -> Any:
        with np.errstate(all="ignore"):
            found = op.perform(*values)
        # Several results come as a tuple; each is picked in its own dtype.
        several = isinstance(node.type, TupleType) or isinstance(op, Pick)
        return found if several else np.asarray(found, node.type.numpy_dtype)

    return compute


def located(error: Exception, node: Node, values: Sequence[Any]) -> Exception:
    """The error with the node's line, and the operation and its operands where it names none."""
    # An error that found its line itself has that of the call of the program.
    if isinstance(error, GraphcError) and error.where not in {"", user_line()}:
        if not node.op.graphs() or node.where in {None, error.where}:
            return error
        # Equal steps are one, with the line of the first: the loop's own line says which it is.
        where = f"{error.where}, in the {node.op.name} of {node.where}"
        return type(error)(error.problem, error.remedy, where)
    if isinstance(error, ShapeError):
        return RuntimeShapeError(error.problem, error.remedy, node.where)
    if isinstance(error, GraphcError):
        return type(error)(error.problem, error.remedy, node.where)
    given = ", ".join(
        f"{_dtype(x)}[{', '.join(map(str, x.shape))}]" if hasattr(x, "shape") else repr(x)
        for x in values
    )
    text = str(error).strip().split("\n")[0]
    if isinstance(error, IndexError):
        remedy = "An index is at least -n and less than the length n of its axis."
        return BoundsError(f"{node!r}, given {given}: {text}.", remedy, node.where)
    return OperationError(
        f"{node!r} failed, given {given or 'nothing'}: {type(error).__name__}: {text}",
        "",
        node.where,
    )


def _dtype(x: Any) -> str:
    """Its name without the library's."""
    return str(x.dtype).rpartition(".")[2]
