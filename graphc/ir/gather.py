"""The form of a graph in which it is differentiated, or made one of a batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from graphc.ir.node import Node

__all__ = ["GATHERERS", "gathered"]

GATHERERS: list[Callable[[Sequence[Node], Collection[Node]], Sequence[Node]]] = []
"""What brings outputs into that form, given nodes that stay as they are; from higher layers."""


def gathered(outputs: Sequence[Node], known: Collection[Node] = ()) -> Sequence[Node]:
    """Outputs of equal values in that form.

    Args:
        outputs: Arrays.
        known: Nodes of their graph that stay as they are.
    """
    for gather in GATHERERS:
        outputs = gather(outputs, known)
    return outputs
