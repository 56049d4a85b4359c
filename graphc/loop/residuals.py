"""Residuals: the values of the forward loop that a gradient loop reads, stored or recomputed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from graphc.grad.barriers import Barrier
from graphc.ir import Constant, Input, Node, Pick, TensorType, dependent, reachable_nodes, toposort
from graphc.ir.law import deciding_inputs
from graphc.loop.step import LoopStep, stand_in
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal
from graphc.tensor.arrays.index import Index, IndexUpdate
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.shape import Length, Reshape, Shape
from graphc.tensor.core.sharding import Shard
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.assume import Assume
from graphc.tensor.signal.pad import Pad

CHEAP = (
    Assume,
    Barrier,
    BroadcastTo,
    Cast,
    Concatenate,
    Constant,
    MatrixDiagonal,
    Elementwise,
    ExpandDims,
    FromDiagonal,
    Index,
    IndexUpdate,
    Length,
    Pad,
    Reshape,
    Shape,
    Shard,
    SpecifyShape,
    Split,
    Squeeze,
    Transpose,
    Where,
)
"""Operations that are recomputed rather than stored: they cost no more than a load."""


@dataclass(slots=True)
class Residuals:
    """The inputs of a gradient's step for values of the forward loop.

    Attributes:
        carries: The inputs for carries before the step, by number.
        rows: The inputs for rows of stacked results, by number.
        others: The inputs for other nodes that the loop must store, carries after the step too.
        swaps: All inputs, by the nodes that they replace.
    """

    carries: dict[int, Tensor] = field(default_factory=dict)
    rows: dict[int, Tensor] = field(default_factory=dict)
    others: dict[Node, Tensor] = field(default_factory=dict)
    swaps: dict[Node, Node] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        outputs: Sequence[Node],
        cotangents: Collection[Node],
        step: LoopStep,
        read: Collection[int],
        *,
        recompute: bool,
    ) -> Residuals:
        """Return the residuals that a gradient's step reads; ``recompute`` stores carries alone.

        Rows that are not in ``read`` may not be needed otherwise.
        """
        order = toposort(outputs)
        back = dependent(order, cotangents)
        varying = dependent(order, step.parameters)
        used = [y for y in outputs if y not in back]
        used += [x for node in order if node in back for x in node.inputs if x not in back]
        new = cls()
        rows = {y: j for y, j in indices_of(step.rows).items() if j in read and not recompute}
        available = [(new.carries, indices_of(step.carries)), (new.rows, rows)]
        nexts = indices_of(step.nexts)
        stored = {*available[0][1], *rows, *nexts}
        storage = _Storage([x for x in [*step.parameters, *order] if x in varying], stored)

        def following(node: Node) -> list[Node]:
            if node in step.xs or new._record(node, available):
                return []
            is_next = node in nexts and storage.is_computed_from_expensive(node)
            if not recompute and (is_next or storage.should_store(node)):
                row = step.nexts[nexts[node]] if is_next else node
                new.swaps[node] = new.others.setdefault(row, stand_in(row))
                return []
            return [x for x in node.inputs if x in varying]

        reachable_nodes([x for x in used if x in varying], following)
        return new

    def _record(self, node: Node, available: Iterable[tuple[dict[int, Tensor], _Indices]]) -> bool:
        """Return whether a node is available at little or no cost, and record an input for it."""
        for inputs, indices in available:
            if node in indices:
                i = indices[node]
                self.swaps[node] = inputs[i] if i in inputs else stand_in(node)
                inputs[i] = self.swaps[node]  # type: ignore[assignment]
                return True
        return False


_Indices = dict[Node, int]
"""Nodes and their indices in a sequence of nodes."""


def indices_of(nodes: Sequence[Node]) -> _Indices:
    """Return the first index of each node, with and without its specified shape."""
    indices: _Indices = {}
    for i, node in enumerate(nodes):
        indices.setdefault(node, i)
        while isinstance(node.op, SpecifyShape):
            node = node.inputs[0]
            indices.setdefault(node, i)
    return indices


class _Storage:
    """The nodes to store: expensive ones, and functions of several expensive ones.

    A node whose shape may vary between steps cannot be stored and is recomputed. So are lengths of
    other nodes: rewrites move them out of the loop.

    Args:
        varying: The nodes that depend on the step's parameters, each after its inputs.
        stored: Nodes that are stored anyway or are free.
    """

    def __init__(self, varying: Iterable[Node], stored: Collection[Node]) -> None:
        self.stored = stored
        self.varying: set[Node] = set()
        self.ragged: set[Node] = set()
        self.below: dict[Node, set[Node]] = {}
        for node in varying:
            if self._is_equal_in_all_steps(node):
                continue
            self.varying.add(node)
            self.below[node] = self._expensive_below(node)
            if self._may_be_ragged(node):
                self.ragged.add(node)

    def _is_equal_in_all_steps(self, node: Node) -> bool:
        """Return whether a node depends only on lengths of arrays whose shapes do not vary."""
        if isinstance(node.op, Length | Shape):
            return node.inputs[0] not in self.ragged
        return bool(node.inputs) and self.varying.isdisjoint(node.inputs)

    def _may_be_ragged(self, node: Node) -> bool:
        if isinstance(node.type, TensorType) and node.type.is_static:
            return False
        deciding = [node.inputs[i] for i in deciding_inputs(node)]
        return not (self.varying.isdisjoint(deciding) and self.ragged.isdisjoint(node.inputs))

    def should_store(self, node: Node) -> bool:
        if node not in self.varying or node in self.ragged:
            return False
        if not isinstance(node.type, TensorType):
            return False
        return len(self.below[node]) > (0 if self._is_expensive(node) else 1)

    def is_computed_from_expensive(self, node: Node) -> bool:
        return self._is_expensive(node) or any(self.below.get(x) for x in node.inputs)

    def _expensive_below(self, node: Node) -> set[Node]:
        """Return up to two expensive nodes at or below a node, down to stored nodes."""
        if node in self.stored:
            return set()
        if self._is_expensive(node):
            return {node}
        expensive: set[Node] = set()
        for x in node.inputs:
            expensive |= self.below.get(x, set())
        return set(islice(expensive, 2))

    def _is_expensive(self, node: Node) -> bool:
        if isinstance(node.op, Pick):
            return self._is_expensive(node.inputs[0])
        return not isinstance(node.op, (Input, *CHEAP))
