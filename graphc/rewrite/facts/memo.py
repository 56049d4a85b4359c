"""Memoized analyses of nodes: each node is analysed once, after its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from graphc.ir import Node, dependencies_first

T = TypeVar("T")

# The slot's descriptor, as a node has no other access.
_set_facts = Node.__dict__["_facts"].__set__
_facts_of = Node.__dict__["_facts"].__get__


class Memo(Generic[T]):
    """The results of an analysis, each kept as long as its node.

    They are stored in the nodes themselves: a dictionary with weak keys takes several times as
    long, and compares arrays for equality.
    """

    __slots__ = ()

    def get(self, node: Node) -> T | None:
        """Return the result for a node, or None."""
        facts = _facts_of(node)
        return None if facts is None else facts.get(self)

    def __contains__(self, node: object) -> bool:
        facts = _facts_of(node)
        return facts is not None and self in facts

    def __getitem__(self, node: Node) -> T:
        facts = _facts_of(node)
        if facts is None:
            raise KeyError(node)
        return facts[self]  # type: ignore[no-any-return]

    def __setitem__(self, node: Node, result: T) -> None:
        facts: dict[Any, Any] | None = _facts_of(node)
        if facts is None:
            _set_facts(node, {self: result})
        else:
            facts[self] = result


def memoize(
    node: Node,
    results: Memo[T],
    sources: Callable[[Node], Iterable[Node]],
    analyse: Callable[[Node], T],
) -> T:
    """Return a node's entry of ``results``, computing its sources first; no recursion.

    Args:
        node: The node.
        results: The results so far, to which new ones are added.
        sources: Function that returns the nodes to analyse before a node.
        analyse: Function that returns the result for a node whose sources are analysed.
    """
    if node not in results:
        for x in dependencies_first([node], sources, results):
            results[x] = analyse(x)
    return results[node]
