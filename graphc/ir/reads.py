"""The inputs that an expression reads as it was written, and that its graph does without.

``gt.zeros_like(x)`` of a known shape and ``grad(x.sum(), x)`` are graphs without x, and yet nobody
who wrote them left x unused. Such results carry weak references to the inputs that they were made
from. These are no part of a node's identity, and keep nothing alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from graphc.ir.node import Input, Node, toposort

Reads = frozenset["ref[Node]"]

# The slots' own setters and getters, as a node has no others.
_set_reads = Node.__dict__["_reads"].__set__
_get_reads = Node.__dict__["_reads"].__get__
_set_behind = Node.__dict__["_behind"].__set__
_get_behind = Node.__dict__["_behind"].__get__


def note_reads(results: Iterable[Any], read: Iterable[Node]) -> None:
    """Record that results were made from some nodes, whatever their graphs say."""
    new: Reads = frozenset(ref(x) for y in read for x in (y, *inputs_behind(y)))
    for result in results:
        if isinstance(result, Node):
            before = [r for r in _reads(result) if r() is not None]
            _set_reads(result, new.union(before) if before else new)


def note_folded(constant: Node) -> None:
    """Record that a value went into another operation's parameters, which carry no references.

    From then on the inputs that it was made from count as read by anything.
    """
    for x in read_by(constant):
        _set_reads(x, _reads(x) | {ref(x)})


def read_by(node: Node) -> set[Node]:
    """What a node itself was recorded to be made from."""
    return {x for r in _reads(node) if (x := r()) is not None}


def all_read(outputs: Iterable[Node]) -> set[Node]:
    """What any node that the outputs need was made from."""
    return {x for node in toposort(outputs) for x in read_by(node)}


def inputs_behind(node: Node) -> frozenset[Node]:
    """The inputs that a node depends on, or was recorded to be made from; worked out once."""
    stack = [node]
    while stack:
        x = stack[-1]
        waiting = [y for y in x.inputs if _behind(y) is None] if _behind(x) is None else []
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if _behind(x) is None:
            _set_behind(x, _gathered(x))
    return _get_behind(node)  # type: ignore[no-any-return]


def _gathered(node: Node) -> frozenset[Node]:
    if isinstance(node.op, Input):
        return frozenset((node,))
    found = frozenset(read_by(node))
    for x in node.inputs:
        behind: frozenset[Node] = _get_behind(x)
        if not behind <= found:  # mostly the same set, which all share
            found = behind if found <= behind else found | behind
    return found


def _reads(node: Node) -> Reads:
    try:
        return _get_reads(node)  # type: ignore[no-any-return]
    except AttributeError:
        return frozenset()


def _behind(node: Node) -> frozenset[Node] | None:
    try:
        return _get_behind(node)  # type: ignore[no-any-return]
    except AttributeError:
        return None
