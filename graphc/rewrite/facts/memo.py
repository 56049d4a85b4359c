"""Memoized analyses of nodes: each is computed once, after those that it follows from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import TypeVar

from graphc.ir import Node, ordered

T = TypeVar("T")


def memoized(
    node: Node,
    found: MutableMapping[Node, T],
    sources: Callable[[Node], Iterable[Node]],
    work_out: Callable[[Node], T],
) -> T:
    """Return a node's entry of ``found``, computing those it follows from first; no recursion.

    Args:
        node: The node.
        found: What is known already, to which all is added that is worked out.
        sources: The nodes that must be known before a node is.
        work_out: Takes a node whose sources are known.
    """
    for x in ordered([node], sources, found):
        found[x] = work_out(x)
    return found[node]
