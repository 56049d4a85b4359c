"""A function on its backend and by NumPy, side by side: the first operation that they disagree on.

Every operation is judged by itself: NumPy computes it from what the backend gave it. What the two
give may differ as much as rounding the operands would change it, and by a few of the dtype's digits
more. So an error is told where it is made, and not where it has grown large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.compile.agreement import agree, distance, scatter
from graphc.compile.mode import Mode
from graphc.errors import VerificationError
from graphc.ir import Constant, Graph, Node, Pick, TensorType, preview
from graphc.link import Ledger, Outline, Program
from graphc.loop import Loop
from graphc.loop.branch import Switch
from graphc.loop.evaluate import evaluate
from graphc.loop.loop import Parts
from graphc.loop.step import stand_in
from graphc.tensor.eigen import Eigh, Spectral
from graphc.tensor.schur import QZ, Triangular
from graphc.tensor.shape import Length, Shape
from graphc.tensor.svd import SVD

__all__ = ["Difference", "Verified", "verified"]

Values = dict[Node, np.ndarray[Any, Any]]

AMBIGUOUS = (Spectral, Eigh, SVD, Triangular, QZ)
"""Operations whose results have signs, phases or an order that each library chooses for itself."""


@dataclass(frozen=True)
class Difference:
    """A value that is another one by NumPy.

    Attributes:
        node: What was computed.
        backend: What the backend gave.
        numpy: What NumPy gives for the same operands.
        operands: What both computed it from, as NumPy arrays.
        inside: Whether it stands in the program; otherwise only a result of the whole function
            differs, from that of the graph as it was written.
        place: In which step of a loop, or in which choice of a branch, it was computed.
    """

    node: Node
    backend: np.ndarray[Any, Any]
    numpy: np.ndarray[Any, Any]
    operands: tuple[np.ndarray[Any, Any], ...]
    inside: bool
    place: str = ""

    @property
    def where(self) -> str | None:
        """The user's line."""
        return self.node.where

    def __str__(self) -> str:
        line = f"   {self.where}" if self.where else ""
        what = repr(self.node) if self.inside else f"The result {self.node!r}, as it was written,"
        place = f", {self.place}," if self.place else ""
        told = [f"{what}{place} differs{line}", f"  backend: {preview(self.backend)}"]
        told.append(f"  NumPy:   {preview(self.numpy)}{self._most()}")
        told += [f"  operand {i}: {preview(x)}" for i, x in enumerate(self.operands)]
        return "\n".join(told)

    def _most(self) -> str:
        """Where two arrays differ most, and by what they do."""
        if self.backend.shape != self.numpy.shape or not self.numpy.ndim:
            return ""
        wrong = distance(self.backend, self.numpy)
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        at = ", ".join(map(str, place))
        return f"\n  most at [{at}]: {self.backend[place]!r} and {self.numpy[place]!r}"


@dataclass(frozen=True)
class Verified:
    """What came of running a function twice; true where both agree.

    Attributes:
        title: The function, and where it ran.
        compared: How many operations were compared.
        first: The first difference, in the order of the program; None where there is none.
        left: What was not compared, as libraries may give one of several results of it.
    """

    title: str
    compared: int
    first: Difference | None
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.first is None

    def __str__(self) -> str:
        if self.first is None:
            left = f" Left out, as not unique: {', '.join(self.left)}." if self.left else ""
            return f"{self.title}: all {self.compared} operations agree with NumPy.{left}"
        told = f"{self.title}: operation {self.compared} is the first that differs from NumPy's."
        return f"{told}\n{self.first}"

    __repr__ = __str__

    def raise_if_different(self) -> None:
        """Raise where there is a difference.

        Raises:
            VerificationError: Tells it.
        """
        if self.first is not None:
            raise VerificationError(str(self), "", self.first.where)


def verified(
    title: str,
    mode: Mode,
    program: Program,
    written: Graph,
    arguments: Sequence[np.ndarray[Any, Any]],
    leaves: Sequence[np.ndarray[Any, Any]],
) -> Verified:
    """Run a program on its backend, and each of its operations by NumPy.

    Args:
        title: What is told of it.
        mode: Where it runs.
        program: Takes the arguments and the leaves that are not part of it.
        written: The graph that it was made of, which takes the arguments alone.
        arguments: Values.
        leaves: The arrays that the program captured.
    """
    walk = _Walk(program.graph, mode)
    values = walk.values([*arguments, *leaves])
    first = walk.first(values) or _results(written, program.graph, values, arguments)
    left = dict.fromkeys(node.op.name for node in walk.graph.nodes if _is_ambiguous(node))
    return Verified(f"{title} in {mode!r}", walk.compared, first, tuple(left))


def _is_ambiguous(node: Node) -> bool:
    return isinstance(node.op, AMBIGUOUS)


class _Walk:
    """Runs a graph on a backend, and compares one operation after the other.

    Attributes:
        compared: How many were, in the last run.
    """

    def __init__(self, graph: Graph, mode: Mode) -> None:
        self.graph = graph
        self.mode = mode
        self.passed = [*dict.fromkeys((*graph.inputs, *graph.leaves))]
        self.compared = 0
        backend, inner = mode.backend, set(self.passed)
        kept = [x for x in graph.nodes if isinstance(x.type, TensorType) and x not in inner]
        self.kept = [x for x in kept if not isinstance(x.op, Constant)]
        whole = Graph(graph.inputs, [*self.kept, *graph.outputs])
        host = backend.analyse(whole)
        made = Program(whole, backend, host, single=False)
        outline = Outline.of(whole, host, single=False, facts=backend.facts(made))
        self.run = backend.compile(outline, lambda: made, mode.options, (), Ledger())

    def values(self, arrays: Sequence[Any]) -> Values:
        """The value of every array, by the backend."""
        backend, options = self.mode.backend, self.mode.options
        given = {
            p: np.asarray(x, p.type.numpy_dtype) for p, x in zip(self.passed, arrays, strict=True)
        }
        found = self.run(*[backend.array(x, p.type, options) for p, x in given.items()])
        return given | {x: backend.numpy(y) for x, y in zip(self.kept, found, strict=False)}

    def first(self, values: Values) -> Difference | None:
        """The first operation that gives something else by NumPy."""
        self.compared = 0
        for node in self.kept:
            whole = node.inputs[0] if isinstance(node.op, Pick) else node
            if isinstance(node.op, Length | Shape) or _is_ambiguous(whole):
                continue
            operands = [_value(x, values) for x in _made_of(node)]
            if any(x is None for x in operands):
                continue
            self.compared += 1
            found = _compared(node, values[node], operands)
            if found is not None:
                return self._inside(node, operands) or found
        return None

    def _inside(self, node: Node, operands: Sequence[Any]) -> Difference | None:
        """The first one in the step of a loop, or in a branch, that differs on its own."""
        op = node.inputs[0].op if isinstance(node.op, Pick) else node.op
        match op:
            case Loop():
                return self._in_loop(op, op.parts(operands))
            case Switch():
                branch = _Walk(op.chosen(operands[0]), self.mode)
                return _placed(branch.first(branch.values(operands[1:])), f"in {op.title}")
        return None

    def _in_loop(self, op: Loop, given: Parts[Any]) -> Difference | None:
        n = op.number_of_steps(given)
        done = n if given.count is None else int(given.count)
        step, carry = _Walk(op.step, self.mode), [*given.init]
        for i in range(done)[:: -1 if op.reverse else 1]:
            values = step.values([*carry, *[x[i] for x in given.xs], *given.consts])
            found = step.first(values)
            if found is not None:
                return _placed(found, f"in {op.title}, step {i}")
            outputs = [_value(y, values) for y in op.step.outputs]
            carry = outputs[: op.carries]
            if op.stops and outputs[-1]:
                break
        return None


def _placed(found: Difference | None, place: str) -> Difference | None:
    if found is None:
        return None
    return replace(found, place=f"{place}, {found.place}" if found.place else place)


def _made_of(node: Node) -> Sequence[Node]:
    """What an array is computed from; one of several results from what all of them are."""
    return node.inputs[0].inputs if isinstance(node.op, Pick) else node.inputs


def _value(x: Node, values: Values) -> Any:
    return x.op.value if isinstance(x.op, Constant) else values.get(x)


def _compared(node: Node, given: Any, operands: Sequence[Any]) -> Difference | None:
    compute = _reference(node)
    wanted = compute(operands)
    if agree(node.type.dtype, given, wanted, lambda: scatter(compute, operands, wanted)):
        return None
    return Difference(node, np.asarray(given), wanted, tuple(operands), inside=True)


def _reference(node: Node) -> Callable[[Sequence[Any]], np.ndarray[Any, Any]]:
    """What computes a node by NumPy, given its operands."""
    several = node.inputs[0] if isinstance(node.op, Pick) else None
    whole = node if several is None else several
    inputs = [stand_in(x) for x in whole.inputs]
    made = Node.make(whole.op, *inputs)
    graph = Graph(inputs, [made if several is None else Node.make(node.op, made)])

    def compute(operands: Sequence[Any]) -> np.ndarray[Any, Any]:
        return _evaluated(graph, operands)[0]

    return compute


def _results(
    written: Graph,
    graph: Graph,
    values: Values,
    arguments: Sequence[np.ndarray[Any, Any]],
) -> Difference | None:
    """The first result that is another one than that of the graph as it was written."""
    # An array that the graph captured is one more argument.
    arguments = [*arguments, *[x.op.array for x in written.leaves]]  # type: ignore[attr-defined]
    written = Graph([*written.inputs, *written.leaves], written.outputs)
    wanted = _evaluated(written, arguments)
    unsure = _following(written)
    for i, (y, made) in enumerate(zip(written.outputs, graph.outputs, strict=False)):
        if y in unsure:
            continue
        given = np.asarray(_value(made, values), y.type.numpy_dtype)

        def change(i: int = i) -> Any:
            return scatter(lambda xs: _evaluated(written, xs)[i], arguments, wanted[i])

        if not agree(made.type.dtype, given, wanted[i], change):
            return Difference(y, given, wanted[i], tuple(arguments), inside=False)
    return None


def _following(graph: Graph) -> set[Node]:
    """What is computed from results that are not unique."""
    found: set[Node] = set()
    for node in graph.nodes:
        if _is_ambiguous(node) or not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def _evaluated(graph: Graph, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """A graph's outputs by NumPy."""
    with np.errstate(all="ignore"):
        found = evaluate(graph, *values)
    pairs = zip(graph.outputs, found, strict=True)
    return [np.asarray(x, y.type.numpy_dtype) for y, x in pairs]
