"""The inputs that an expression reads and that its graph does not contain.

``gt.zeros_like(x)`` of a static shape and ``grad(x.sum(), x)`` are graphs without x, but the user
did use x. Nodes of such results carry weak references to the inputs that they were made from. The
references are no part of a node's identity, and keep nothing alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias
from weakref import ref

from graphc.ir.node import Input, Node, toposort

Inputs: TypeAlias = "ref[Node] | tuple[Inputs, ...]"
"""A weak reference to an input, or a tuple of inputs.

The tuple of a node refers to the tuples of its operands, so that all tuples of a graph take no more
memory than its nodes, however many inputs each node depends on.
"""

MANY = 16
"""The number of references of a result at which they are merged, without those that died."""

# The slots' own setters and getters, as a node has no others.
_set_reads = Node.__dict__["_reads"].__set__
_get_reads = Node.__dict__["_reads"].__get__
_set_behind = Node.__dict__["_behind"].__set__
_get_behind = Node.__dict__["_behind"].__get__


def note_reads(results: Iterable[Any], read: Iterable[Node]) -> None:
    """Record that results were made from some nodes, which their graphs may not contain."""
    new = _merge(part for y in read for part in (ref(y), inputs_behind(y)))
    for result in results:
        if isinstance(result, Node):
            _note(result, new)


def note_folding(constant: Node) -> None:
    """Record that a constant went into another operation's parameters, which have no references.

    From then on the inputs that the constant was made from count as read by any graph.
    """
    for x in read_by(constant):
        _note(x, ref(x))


def read_by(node: Node) -> set[Node]:
    """Return the inputs that a node itself was recorded to be made from."""
    return living(_reads(node))


def all_read(outputs: Iterable[Node]) -> set[Node]:
    """Return the inputs that the outputs and their dependencies were recorded to be made from."""
    return living(part for node in toposort(outputs) for part in _reads(node))


def living(inputs: Iterable[Inputs]) -> set[Node]:
    """Return the referenced nodes that are alive."""
    nodes = set[Node]()
    seen = set[int]()
    stack = [*inputs]
    while stack:
        part = stack.pop()
        if not isinstance(part, tuple):
            node = part()
            nodes.update(() if node is None else (node,))
        elif id(part) not in seen:
            seen.add(id(part))
            stack += part
    return nodes


def inputs_behind(node: Node) -> Inputs:
    """Return the inputs that a node depends on, or was recorded to be made from; cached."""
    stack = [node]
    while stack:
        x = stack[-1]
        waiting = [y for y in x.inputs if _behind(y) is None] if _behind(x) is None else []
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if _behind(x) is None:
            _set_behind(x, _collect(x))
    return _get_behind(node)  # type: ignore[no-any-return]


def _collect(node: Node) -> Inputs:
    if isinstance(node.op, Input):
        return ref(node)
    return _merge([*_reads(node), *map(_get_behind, node.inputs)])


def _merge(parts: Iterable[Inputs]) -> Inputs:
    """Return several references as one, without duplicates; most often all are one object."""
    distinct = {id(part): part for part in parts if part}
    return tuple(distinct.values()) if len(distinct) != 1 else next(iter(distinct.values()))


def _note(result: Node, new: Inputs) -> None:
    references = _reads(result)
    if any(part is new for part in references):
        return
    references = [*references, new]
    if len(references) == MANY:
        references = [_merge(map(ref, living(references)))]
    _set_reads(result, references)


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
