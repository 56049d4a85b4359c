"""Derivatives with respect to integers and bool, as of the function of real numbers behind them.

A gradient arrives at the casts of such an array to a floating dtype, which is how arithmetic reads
integers beside floats. What else is computed of it is constant between two integers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphc.errors import GradientError
from graphc.ir import Node, dependent, is_inexact, toposort
from graphc.tensor import Tensor
from graphc.tensor.arrays.index import Index, IndexUpdate
from graphc.tensor.core.elementwise import Cast, Where
from graphc.tensor.core.shape import Length, Shape


class Reading:
    """How some arrays read another one, of integers or bool.

    Attributes:
        casts: Its casts to a floating dtype, whose gradients are its own.
        is_connected: Whether its values, and not just its lengths or what it picks, are in them.

    Raises:
        GradientError: An operation reads it in a way that is not known, such as a loop.
    """

    def __init__(self, outputs: Collection[Node], x: Tensor, constants: Collection[Node]) -> None:
        self.x = x
        self.casts: list[Node] = []
        self.is_connected = False
        order = toposort(outputs, [c for c in constants if c is not x])
        reached = dependent(order, [x])
        steps: set[Node] = {x}  # x, and what is computed of it between integers
        for node in order:
            if node in reached and not steps.isdisjoint(node.inputs) and self._reads(node, steps):
                steps.add(node)

    def _reads(self, node: Node, steps: Collection[Node]) -> bool:
        """Whether a node passes integers on."""
        op = node.op
        if isinstance(op, Length | Shape):
            return False
        if isinstance(op, Cast) and is_inexact(node.type.dtype):
            self.is_connected = True
            self.casts += [node] * (node.inputs[0] is self.x)
            return False
        indices = set(op.host_inputs()) | _index_places(node)
        places = {i for i, y in enumerate(node.inputs) if y in steps} - indices
        if not places:
            return False
        if hasattr(node.type, "dtype") and not is_inexact(node.type.dtype):
            return True
        if isinstance(op, Where) and places == {0}:
            self.is_connected = True
            return False
        raise GradientError(
            f"A derivative with respect to {self.x!r}, whose dtype is not continuous: {op.name} "
            "reads it.",
            "Declare it floating, or cast it and differentiate with respect to the cast array.",
            node.where,
        )


def _index_places(node: Node) -> set[int]:
    first = {Index: 1, IndexUpdate: 2}.get(type(node.op))
    return set() if first is None else set(range(first, len(node.inputs)))


def readings(
    outputs: Collection[Node], xs: Sequence[Tensor], constants: Collection[Node]
) -> dict[Tensor, Reading]:
    """How arrays read each of ``xs`` that has no continuous dtype."""
    return {x: Reading(outputs, x, constants) for x in xs if not is_inexact(x.dtype)}
