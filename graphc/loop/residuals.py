"""Residuals: the values of the forward loop that a gradient loop reads, stored or recomputed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from graphc.grad.barriers import Barrier
from graphc.ir import Constant, Input, Node, Pick, TensorType, dependent, reached, toposort
from graphc.loop.step import LoopStep, stand_in
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.diagonal import Diagonal, FromDiagonal
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
    Diagonal,
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
"""Operations that are recomputed rather than stored: they move as many numbers as they make."""


@dataclass(slots=True)
class Residuals:
    """The inputs of a gradient's step that stand for what was computed forwards.

    Attributes:
        carries: For a carry by its number, what stands for it before the step.
        nexts: The same after the step.
        rows: For a stacked result, what stands for its row.
        kept: For anything else that the loop must store, what stands for it.
    """

    carries: dict[int, Tensor] = field(default_factory=dict)
    nexts: dict[int, Tensor] = field(default_factory=dict)
    rows: dict[int, Tensor] = field(default_factory=dict)
    kept: dict[Node, Tensor] = field(default_factory=dict)
    swaps: dict[Node, Node] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        outputs: Sequence[Node],
        cotangents: Collection[Node],
        step: LoopStep,
        *,
        recompute: bool,
    ) -> Residuals:
        """Return the residuals that the outputs of a gradient's step read.

        Args:
            outputs: Made of the step forwards and of cotangents.
            cotangents: The inputs that are cotangents.
            step: The step forwards.
            recompute: Store carries alone.
        """
        order = toposort(outputs)
        back = dependent(order, cotangents)
        varying = dependent(order, step.parameters)
        read = [y for y in outputs if y not in back]
        read += [x for node in order if node in back for x in node.inputs if x not in back]
        found = cls()
        known = [(found.carries, step.carries), (found.nexts, step.nexts), (found.rows, step.rows)]
        at_hand = [(place, _by_bare(nodes)) for place, nodes in known]
        stored = {x for _, nodes in at_hand for x in nodes}
        storage = _Storage([x for x in [*step.parameters, *order] if x in varying], stored)

        def following(node: Node) -> list[Node]:
            if node in step.xs or found._note(node, at_hand):
                return []
            if not recompute and storage.is_kept(node):
                found.kept[node] = found.swaps[node] = stand_in(node)
                return []
            return [x for x in node.inputs if x in varying]

        reached([x for x in read if x in varying], following)
        found._spare_nexts(step.nexts)
        return found

    def _note(self, node: Node, at_hand: Iterable[tuple[dict[int, Tensor], _Places]]) -> bool:
        """Whether it is one of these, for which there is something at no cost or little."""
        for known, places in at_hand:
            if node in places:
                i = places[node]
                self.swaps[node] = known[i] if i in known else stand_in(node)
                known[i] = self.swaps[node]  # type: ignore[assignment]
                return True
        return False

    def _spare_nexts(self, nexts: Sequence[Node]) -> None:
        """A carry after a step is that before the next one, where those are stored anyway."""
        for i in [i for i in self.nexts if i not in self.carries]:
            self.kept[nexts[i]] = self.nexts.pop(i)


_Places = dict[Node, int]
"""Nodes and where each stands among its like."""


def _by_bare(nodes: Sequence[Node]) -> _Places:
    """The first place of each node, also of what it is when no more is known of its lengths."""
    found: _Places = {}
    for i, node in enumerate(nodes):
        found.setdefault(node, i)
        while isinstance(node.op, SpecifyShape):
            node = node.inputs[0]
            found.setdefault(node, i)
    return found


class _Storage:
    """Which nodes are stored: expensive ones, and those made of several expensive ones.

    What may have another shape in another step can't be stored: it is computed again. So are
    lengths of what can: rewriting finds them outside of the loop.

    Args:
        varying: The nodes made of what a step is given, each after its inputs.
        stored: Nodes that are stored in any case, or cost nothing.
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
        """Whether it is made of lengths alone, of what has one shape in all steps."""
        if isinstance(node.op, Length | Shape):
            return node.inputs[0] not in self.ragged
        return bool(node.inputs) and self.varying.isdisjoint(node.inputs)

    def _may_be_ragged(self, node: Node) -> bool:
        if isinstance(node.type, TensorType) and node.type.is_static:
            return False
        deciding = [node.inputs[i] for i in node.op.host_inputs()]
        return not (self.varying.isdisjoint(deciding) and self.ragged.isdisjoint(node.inputs))

    def is_kept(self, node: Node) -> bool:
        """Whether it is stored."""
        if node not in self.varying or node in self.ragged:
            return False
        if not isinstance(node.type, TensorType):
            return False
        return len(self.below[node]) > (0 if self._is_expensive(node) else 1)

    def _expensive_below(self, node: Node) -> set[Node]:
        """Expensive nodes below it that are not stored; two of them where there are more."""
        if node in self.stored:
            return set()
        if self._is_expensive(node):
            return {node}
        found: set[Node] = set()
        for x in node.inputs:
            found |= self.below.get(x, set())
        return set(islice(found, 2))

    def _is_expensive(self, node: Node) -> bool:
        if isinstance(node.op, Pick):
            return self._is_expensive(node.inputs[0])
        return not isinstance(node.op, (Input, *CHEAP))
