"""Memoized analyses of nodes: each is computed once, after those that it follows from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from graphc.ir import Node, ordered

T = TypeVar("T")

# The slot's own setter and getter, as a node has no others.
_set_facts = Node.__dict__["_facts"].__set__
_facts_of = Node.__dict__["_facts"].__get__


class Memo(Generic[T]):
    """What an analysis found of nodes, each as long as the node lives.

    It lies in the nodes themselves: a dictionary with weak references for keys takes several times
    as long, and asks arrays whether they are equal.
    """

    __slots__ = ()

    def get(self, node: Node) -> T | None:
        """What was found of a node; None where it was not analysed."""
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

    def __setitem__(self, node: Node, found: T) -> None:
        facts: dict[Any, Any] | None = _facts_of(node)
        if facts is None:
            _set_facts(node, {self: found})
        else:
            facts[self] = found


def memoized(
    node: Node,
    found: Memo[T],
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
    if node not in found:
        for x in ordered([node], sources, found):
            found[x] = work_out(x)
    return found[node]
