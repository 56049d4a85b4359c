"""The form of a graph in which it is differentiated, made one of a batch, and compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from graphc.ir.node import Node, toposort
from graphc.ir.op import Op

__all__ = ["GATHERERS", "gathered"]

GATHERERS: list[Callable[[Sequence[Node], Collection[Node]], Sequence[Node]]] = []
"""What brings outputs into that form, given nodes that stay as they are; from higher layers.

Only operations that hold graphs are any of their business."""


def gathered(outputs: Sequence[Node], known: Collection[Node] = ()) -> Sequence[Node]:
    """Outputs of equal values in that form.

    Args:
        outputs: Arrays.
        known: Nodes of their graph that stay as they are.
    """
    if any(type(node.op).graphs is not Op.graphs for node in toposort(outputs, known)):
        for gather in GATHERERS:
            outputs = gather(outputs, known)
    return outputs
