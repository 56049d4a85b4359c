"""Derivatives with respect to integers and bool, from the function of real numbers.

The gradient of such an array is the gradient of its casts to floating dtypes, by which arithmetic
combines integers with floats. Any other use of the array is piecewise constant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphc.errors import GradientError
from graphc.ir import Node, dependent, is_inexact, toposort
from graphc.ir.law import deciding_inputs
from graphc.tensor import Tensor
from graphc.tensor.arrays.index import Index, IndexUpdate
from graphc.tensor.core.elementwise import Cast, Where
from graphc.tensor.core.shape import Length, Shape


class Reading:
    """The uses of an integer or bool array in a graph.

    Attributes:
        casts: The array's casts to floating dtypes, whose gradients it gets.
        is_connected: Whether the outputs depend on the array's values, not just on its lengths or
            on the elements that it selects.

    Raises:
        GradientError: If an operation without a known rule, such as a loop, reads the array.
    """

    def __init__(self, outputs: Collection[Node], x: Tensor, constants: Collection[Node]) -> None:
        self.x = x
        self.casts: list[Node] = []
        self.is_connected = False
        order = toposort(outputs, [c for c in constants if c is not x])
        reached = dependent(order, [x])
        steps: set[Node] = {x}  # x and the integers computed from it
        for node in order:
            if node in reached and not steps.isdisjoint(node.inputs) and self._is_step(node, steps):
                steps.add(node)

    def _is_step(self, node: Node, steps: Collection[Node]) -> bool:
        op = node.op
        if isinstance(op, Length | Shape):
            return False
        if isinstance(op, Cast) and is_inexact(node.type.dtype):
            self.is_connected = True
            self.casts += [node] * (node.inputs[0] is self.x)
            return False
        excluded = set(deciding_inputs(node)) | _index_inputs(node)
        indices = {i for i, y in enumerate(node.inputs) if y in steps} - excluded
        if not indices:
            return False
        if hasattr(node.type, "dtype") and not is_inexact(node.type.dtype):
            return True
        if isinstance(op, Where) and indices == {0}:
            self.is_connected = True
            return False
        raise GradientError(
            f"A derivative with respect to {self.x!r}, whose dtype is not continuous: {op.name} "
            "reads it.",
            "Declare it floating, or cast it and differentiate with respect to the cast array.",
            node.where,
        )


def _index_inputs(node: Node) -> set[int]:
    first = {Index: 1, IndexUpdate: 2}.get(type(node.op))
    return set() if first is None else set(range(first, len(node.inputs)))


def readings(
    outputs: Collection[Node], xs: Sequence[Tensor], constants: Collection[Node]
) -> dict[Tensor, Reading]:
    """Return the uses of each of ``xs`` that has no continuous dtype."""
    return {x: Reading(outputs, x, constants) for x in xs if not is_inexact(x.dtype)}
