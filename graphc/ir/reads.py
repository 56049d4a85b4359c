"""The inputs that an expression reads as it was written, and that its graph does without.

``gt.zeros_like(x)`` of a known shape and ``grad(x.sum(), x)`` are graphs without x, and yet nobody
who wrote them left x unused. Such results carry weak references to the inputs that they were made
from. These are no part of a node's identity, and keep nothing alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias
from weakref import ref

from graphc.ir.node import Input, Node, toposort

Inputs: TypeAlias = "ref[Node] | tuple[Inputs, ...]"
"""A weak reference to an input, or a tuple of inputs.

A node's refers to those of its operands, so that all of a graph's take no more memory than its
nodes, however many inputs are behind each.
"""

MANY = 16
"""So many parts of what a result was made from are put together, without those that died."""

# The slots' own setters and getters, as a node has no others.
_set_reads = Node.__dict__["_reads"].__set__
_get_reads = Node.__dict__["_reads"].__get__
_set_behind = Node.__dict__["_behind"].__set__
_get_behind = Node.__dict__["_behind"].__get__


def note_reads(results: Iterable[Any], read: Iterable[Node]) -> None:
    """Record that results were made from some nodes, whatever their graphs say."""
    new = _together(part for y in read for part in (ref(y), inputs_behind(y)))
    for result in results:
        if isinstance(result, Node):
            _note(result, new)


def note_folded(constant: Node) -> None:
    """Record that a value went into another operation's parameters, which carry no references.

    From then on the inputs that it was made from count as read by anything.
    """
    for x in read_by(constant):
        _note(x, ref(x))


def read_by(node: Node) -> set[Node]:
    """What a node itself was recorded to be made from."""
    return living(_reads(node))


def all_read(outputs: Iterable[Node]) -> set[Node]:
    """What any node that the outputs need was made from."""
    return living(part for node in toposort(outputs) for part in _reads(node))


def living(inputs: Iterable[Inputs]) -> set[Node]:
    """The nodes that are referred to and alive."""
    found = set[Node]()
    seen = set[int]()
    left = [*inputs]
    while left:
        part = left.pop()
        if not isinstance(part, tuple):
            node = part()
            found.update(() if node is None else (node,))
        elif id(part) not in seen:
            seen.add(id(part))
            left += part
    return found


def inputs_behind(node: Node) -> Inputs:
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


def _gathered(node: Node) -> Inputs:
    if isinstance(node.op, Input):
        return ref(node)
    return _together([*_reads(node), *map(_get_behind, node.inputs)])


def _together(parts: Iterable[Inputs]) -> Inputs:
    """Some inputs as one, those of each object once; mostly all are the same object."""
    distinct = {id(part): part for part in parts if part}
    return tuple(distinct.values()) if len(distinct) != 1 else next(iter(distinct.values()))


def _note(result: Node, new: Inputs) -> None:
    parts = _reads(result)
    if any(part is new for part in parts):
        return
    parts = [*parts, new]
    if len(parts) == MANY:
        parts = [_together(map(ref, living(parts)))]
    _set_reads(result, parts)


def _reads(node: Node) -> list[Inputs]:
    try:
        return _get_reads(node)  # type: ignore[no-any-return]
    except AttributeError:
        return []


def _behind(node: Node) -> Inputs | None:
    try:
        return _get_behind(node)  # type: ignore[no-any-return]
    except AttributeError:
        return None
