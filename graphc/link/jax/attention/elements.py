"""Mask and score graphs for kernels: functions of a tile's elements that read captured arrays.

A kernel reads elements of arrays in the device's memory, but computes with tiles alone. So what a
graph computes from captured arrays alone comes before the kernel, and the elements that it then
indexes are read within.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from graphc.ir import Constant, Graph, Node, dependent, is_float
from graphc.link.host import analyse
from graphc.link.jax.backend import backend
from graphc.link.program import Program
from graphc.tensor.arrays.index import Hole, Index
from graphc.tensor.core.elementwise import Cast, Elementwise, Where

MIN_LENGTH = 16
"""The smallest lengths of matrices that tensor cores multiply."""

Values = dict[Node, Any]
"""Values of nodes, which broadcast to a tile."""


class ElementRead(NamedTuple):
    """A node whose value is an element of an array, for each element of a tile.

    Attributes:
        node: The node.
        array: The array's position among the function's.
        positions: An integer, or the node of one, for each axis of the array.
    """

    node: Node
    array: int
    positions: tuple[int | Node, ...]

    def index_of(self, values: Mapping[Node, Any], shape: Sequence[int]) -> tuple[Any, ...]:
        """Return the index to read; as in JAX, positions out of bounds are clipped."""
        index = [values[i] if isinstance(i, Node) else np.int32(i) for i in self.positions]
        wide = [i if i.dtype.itemsize >= 4 else i.astype(np.int32) for i in index]
        pairs = zip(wide, shape, strict=True)
        clipped = [jnp.clip(jnp.where(i < 0, i + n, i), 0, n - 1) for i, n in pairs]
        return tuple(jnp.broadcast_arrays(*clipped))


class ElementFunction(NamedTuple):
    """A graph of scalars as a function of tiles.

    Attributes:
        graph: The graph, (*scalars, *captured) to a scalar.
        scalars: The number of its scalars.
        arrays: The nodes whose values are computed before the kernel, which reads them.
        steps: Reads and elementwise operations, in order.
        score: The first input, if that is the score, and the nodes that depend on it.
    """

    graph: Graph
    scalars: int
    arrays: tuple[Node, ...]
    steps: tuple[Node | ElementRead, ...]
    score: frozenset[Node]

    @classmethod
    def of(cls, graph: Graph, scalars: int, has_score: bool) -> ElementFunction | None:
        """Return the function of a graph; None if it does not compute element by element.

        Args:
            graph: The graph of a mask or score function.
            scalars: The number of its inputs before the captured arrays.
            has_score: Whether the first input is the score.
        """
        steps = _Steps(graph.inputs[:scalars], graph.inputs[: int(has_score)])
        if not all(map(steps.add, graph.nodes)):
            return None
        (output,) = graph.outputs
        if output not in steps.done:
            steps.read(output, output, [0])
        arrays, score = tuple(steps.arrays), frozenset(steps.of_score)
        return cls(graph, scalars, arrays, tuple(steps.steps), score)

    def operands(self, *captured: Any) -> tuple[Any, ...]:
        """Return the arrays that the kernel reads, given the captured ones; each has an axis."""
        graph = Graph(self.graph.inputs[self.scalars :], self.arrays)
        program = Program(graph, backend, analyse(graph, ()))
        return tuple([jnp.atleast_1d(x) for x in program.trace(*captured)])

    def read(self, indices: Sequence[Any], references: Sequence[Any]) -> Values:
        """Return the values of all steps that do not depend on the score, in a kernel.

        Args:
            indices: The indices of batch, head, query and key.
            references: The kernel's references to the arrays.
        """
        values = dict(zip(self.graph.inputs[: self.scalars][-len(indices) :], indices, strict=True))
        for step in self.steps:
            if isinstance(step, ElementRead):
                reference = references[step.array]
                values[step.node] = reference[step.index_of(values, reference.shape)]
            elif step not in self.score:
                values[step] = _compute(step, values)
        return values

    def apply(self, values: Mapping[Node, Any], reads: Values, *score: Any) -> Any:
        """Return the function's value.

        Args:
            values: The values from ``read``.
            reads: Other values of nodes that are read; then all operations are computed again.
            score: The score, if the function takes it.
        """
        known = {**values, **reads, **dict(zip(self.graph.inputs, score, strict=False))}
        for step in self.steps:
            if not isinstance(step, ElementRead) and (reads or step in self.score):
                known[step] = _compute(step, known)
        return known[self.graph.outputs[0]]

    def depends(self, wanted: Sequence[bool]) -> list[bool]:
        """Return whether each array has a gradient, if the wanted captured arrays have one."""
        captured = self.graph.inputs[self.scalars :]
        roots = [x for x, flag in zip(captured, wanted, strict=True) if flag]
        varying = dependent(self.graph.nodes, roots)
        return [x in varying and is_float(x.type.dtype) for x in self.arrays]

    def reads_of(self, wanted: Sequence[bool]) -> list[ElementRead]:
        """Return the reads of wanted arrays."""
        return [x for x in self.steps if isinstance(x, ElementRead) and wanted[x.array]]


class _Steps:
    """The steps of a function, found node by node.

    Attributes:
        done: The nodes that have a value for each element.
        of_score: The nodes that depend on the score.
        arrays: The arrays that are read, with their positions.
        steps: The steps.
    """

    def __init__(self, scalars: Sequence[Node], score: Sequence[Node]) -> None:
        self.done, self.of_score = set(scalars), set(score)
        self.arrays: dict[Node, int] = {}
        self.steps: list[Node | ElementRead] = []

    def add(self, node: Node) -> bool:
        """Add a node that depends on scalars; return whether it is computed by elements."""
        if self.done.isdisjoint(node.inputs):
            return True  # computed before the kernel, if at all
        positions = None if node.inputs[0] in self.done else _positions(node)
        scalars = node.inputs[1:] if positions is not None else node.inputs
        is_elementwise = isinstance(node.op, Elementwise | Where | Cast)
        if node.type.ndim or any(x.type.ndim for x in scalars):
            return False
        depends_on_score = not self.of_score.isdisjoint(scalars)
        if depends_on_score if positions is not None else not is_elementwise:
            return False
        for x in scalars:
            self._add_scalar(x)
        if positions is not None:
            self.read(node, node.inputs[0], positions)
        else:
            self._append(node)
        if depends_on_score:
            self.of_score.add(node)
        return True

    def read(self, node: Node, array: Node, positions: Sequence[int | Node]) -> None:
        """Add the read of a node's value from an array."""
        index = self.arrays.setdefault(array, len(self.arrays))
        self.steps.append(ElementRead(node, index, tuple(positions)))
        self.done.add(node)

    def _add_scalar(self, x: Node) -> None:
        if x in self.done:
            return
        if isinstance(x.op, Constant):
            self._append(x)
        else:
            self.read(x, x, [0])

    def _append(self, node: Node) -> None:
        self.steps.append(node)
        self.done.add(node)


def _positions(node: Node) -> list[int | Node] | None:
    """Return the positions at which a node reads an element of an array; None for other nodes."""
    op = node.op
    if not isinstance(op, Index):
        return None
    inputs = iter(node.inputs[1:])
    entries = [next(inputs) if isinstance(x, Hole) else x for x in op.entries]
    return entries if all(isinstance(x, int | Node) for x in entries) else None  # type: ignore[return-value]


def _compute(node: Node, values: Mapping[Node, Any]) -> Any:
    if isinstance(node.op, Constant):
        return node.op.value[()]
    return backend.bind(node)(*[values[x] for x in node.inputs])
