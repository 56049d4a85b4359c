"""Gathering: the normal form in which graphs are differentiated, batched and compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from graphc.ir.node import Node, toposort
from graphc.ir.op import Op

GATHERED: set[type[Op]] = set()
"""Operations that have another form then; beside those that hold graphs."""

GATHERERS: list[Callable[[Sequence[Node], Collection[Node]], Sequence[Node]]] = []
"""Functions that bring outputs into that form, given nodes that stay; from higher layers.

Only operations that hold graphs, and those entered above, are any of their business."""


def gathered(outputs: Sequence[Node], known: Collection[Node] = ()) -> Sequence[Node]:
    """Return equal outputs in gathered form.

    Args:
        outputs: Arrays.
        known: Nodes of their graph that stay as they are.
    """
    if is_gathered({type(node.op) for node in toposort(outputs, known)}):
        return outputs
    for gather in GATHERERS:
        outputs = gather(outputs, known)
    return outputs


def is_gathered(kinds: Collection[type[Op]]) -> bool:
    """Return whether a graph of operations of these classes has that form as it is."""
    return not any(kind.graphs is not Op.graphs or kind in GATHERED for kind in kinds)
