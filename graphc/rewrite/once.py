"""What is worked out once for each node, from what is known of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import TypeVar

from graphc.ir import Node

__all__ = ["known_once"]

T = TypeVar("T")


def known_once(
    node: Node,
    found: MutableMapping[Node, T],
    sources: Callable[[Node], Iterable[Node]],
    work_out: Callable[[Node], T],
) -> T:
    """What ``found`` has of a node; it is worked out for all that lies below it first.

    Args:
        node: The node.
        found: What is known already, to which all is added that is worked out.
        sources: The nodes that must be known before a node is.
        work_out: Takes a node whose sources are known.
    """
    stack = [node]
    while stack:
        top = stack[-1]
        if top in found:
            stack.pop()
            continue
        waiting = [x for x in sources(top) if x not in found]
        if waiting:
            stack.extend(waiting)
        else:
            stack.pop()
            found[top] = work_out(top)
    return found[node]
