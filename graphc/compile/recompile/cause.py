"""Why a graph is not the one that was compiled before: what changed, from what to what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from graphc.compile.recompile.picture import Mark, Picture
from graphc.ir import Graph, Node, encode

__all__ = ["CAPTURED", "Cause", "Change", "changes"]

NUMBERS = frozenset({"entries", "offset", "shape", "start", "step", "steps", "stop"})
"""The parameters of operations in whose place an input may stand: indices, lengths, counts. With
another one, as an axis, it is another operation."""

Cause = Literal[
    "captured value",
    "Python scalar",
    "static parameter",
    "dtype",
    "shape",
    "structure",
    "mode",
]

CAPTURED = frozenset({"captured value", "Python scalar", "static parameter"})
"""The causes that an input in its place would do away with."""


@dataclass(frozen=True)
class Change:
    """A difference between two graphs.

    Attributes:
        cause: What kind of thing differs.
        old: What it was.
        new: What it is.
        node: The node of the new graph that is or has it; for an input, that.
        user: The first node that takes it.
        parameter: The name of an operation's parameter.
        place: Which input.
    """

    cause: Cause
    old: Any = None
    new: Any = None
    node: Node | None = None
    user: Node | None = None
    parameter: str = ""
    place: int = -1


def changes(old: Picture, graph: Graph, new: Picture) -> list[Change]:
    """In what a graph differs from a picture of another one; the first is what to tell.

    A change of an input's type explains all others, and one of structure those of values. Changes
    that are one to the user, such as a number that is used twice, are told once, by the line that
    was first run.

    Args:
        old: The other graph.
        graph: This one.
        new: Its picture.
    """
    outside = [*_of_inputs(old, graph)]
    if outside:
        return outside
    inside = [*_Comparison(old, new).run(graph)]
    structure = [change for change in inside if change.cause == "structure"]
    if structure or not new.marks or not old.marks or (not inside and old.outputs != new.outputs):
        return [_structure(old, new, structure)]
    return _told_once(inside)


def _of_inputs(old: Picture, graph: Graph) -> Iterator[Change]:
    if len(old.inputs) != len(graph.inputs):
        count = len(old.inputs)
        before = f"{count} input{'' if count == 1 else 's'}"
        yield Change("structure", before, str(len(graph.inputs)), place=0)
        return
    for i, (before, x) in enumerate(zip(old.inputs, graph.inputs, strict=True)):
        if before == x.type:
            continue
        if before.dtype != x.type.dtype:
            yield Change("dtype", before.dtype, x.type.dtype, x, place=i)
        elif before.ndim != x.type.ndim:
            yield Change("structure", repr(before), repr(x.type), x, place=i)
        else:
            yield Change("shape", before.shape, x.type.shape, x, place=i)


def _structure(old: Picture, new: Picture, found: Sequence[Change]) -> Change:
    """What there is more and less of, and where the two part."""
    before, after = (Counter(_kinds(picture)) for picture in (old, new))
    if before == after and found and found[0].old is not None:
        return found[0]
    node = next((change.node for change in found if change.node is not None), None)
    return Change("structure", _counted(before - after), _counted(after - before), node)


def _kinds(picture: Picture) -> Iterator[str]:
    for mark in picture.marks:
        if mark.kind != "data" and not mark.kind.startswith("input "):
            yield mark.kind.rpartition(".")[2].partition("(")[0]
        for held in mark.held:
            yield from _kinds(held)


def _counted(kinds: Counter[str]) -> str:
    most = sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    named = [f"{n} {kind}" if n > 1 else kind for kind, n in most]
    return ", ".join(named) + (", ..." if len(kinds) > 3 else "")


class _Comparison:
    """The outermost differences of two pictures, from the outputs on."""

    def __init__(self, old: Picture, new: Picture) -> None:
        self.old = old
        self.new = new

    def run(self, graph: Graph) -> Iterator[Change]:
        """The differences, with the nodes of the new graph."""
        if len(self.old.outputs) != len(self.new.outputs):
            yield Change("structure", node=graph.outputs[-1] if graph.outputs else None)
            return
        seen: set[int] = set()
        ends = zip(self.old.outputs, self.new.outputs, strict=True)
        stack: list[tuple[int, int, Node | None]] = [(i, j, None) for i, j in ends]
        stack.reverse()
        while stack:
            i, j, user = stack.pop()
            a, b = self.old.marks[i], self.new.marks[j]
            if a.whole == b.whole or j in seen:
                continue
            seen.add(j)
            node = graph.nodes[j]
            yield from _own(a, b, node, user)
            if a.kind == b.kind and len(a.operands) == len(b.operands):
                stack += [(k, m, node) for k, m in self._paired(a, b)][::-1]

    def _paired(self, a: Mark, b: Mark) -> list[tuple[int, int]]:
        """Operands that stand for each other: commuting ones by what is equal."""
        straight = [*zip(a.operands, b.operands, strict=True)]
        if not a.commutes:
            return straight
        crossed = [*zip(a.operands, b.operands[::-1], strict=True)]
        return max(straight, crossed, key=self._likeness)

    def _likeness(self, pairs: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
        marks = [(self.old.marks[i], self.new.marks[j]) for i, j in pairs]
        return (
            sum(a.outline == b.outline for a, b in marks),
            sum(a.whole == b.whole for a, b in marks),
            sum(a.kind == b.kind for a, b in marks),
        )


def _own(a: Mark, b: Mark, node: Node, user: Node | None) -> Iterator[Change]:
    """In what two nodes differ themselves."""
    if a.kind != b.kind or len(a.operands) != len(b.operands) or len(a.held) != len(b.held):
        yield Change("structure", node=node)
    elif a.kind == "data":
        yield _of_data(a, b, node, user)
    else:
        for (name, old), (_, new) in zip(a.parameters, b.parameters, strict=True):
            if encode(old) != encode(new) and not _holds_graphs(new):
                yield _of_parameter(name, old, new, node)
        for old, new, graph in zip(a.held, b.held, node.op.graphs(), strict=True):
            yield from changes(old, graph, new) if _differ(old, new) else ()


def _of_parameter(name: str, old: Any, new: Any, node: Node) -> Change:
    if hasattr(node.op, "described") and isinstance(new, int | float | complex):
        return Change("Python scalar", old, new, node, parameter=name)
    if name in NUMBERS:
        return Change("static parameter", old, new, node, parameter=name)
    return Change("structure", f"{name}={old!r}", f"{name}={new!r}", node)


def _holds_graphs(value: Any) -> bool:
    """Whether a parameter is or has graphs, which are compared node by node."""
    return isinstance(value, Graph) or (isinstance(value, tuple) and any(map(_holds_graphs, value)))


def _differ(old: Picture, new: Picture) -> bool:
    ends = [[picture.marks[i].whole for i in picture.outputs] for picture in (old, new)]
    return ends[0] != ends[1] or not new.marks


def _of_data(a: Mark, b: Mark, node: Node, user: Node | None) -> Change:
    numbers = a.value is not None and b.value is not None and a.type == b.type
    if numbers and not a.type.ndim:
        return Change("Python scalar", a.value[()], b.value[()], node, user)
    if numbers:
        return Change("captured value", a.value, b.value, node, user)
    return Change("captured value", a.type, b.type, node, user)


def _told_once(found: Sequence[Change]) -> list[Change]:
    """The first of those that are the same to the user, the earliest made first."""

    def age(change: Change) -> int:
        nodes = [node.serial for node in (change.user, change.node) if node is not None]
        return max(nodes, default=0)

    once: dict[Any, Change] = {}
    for change in sorted(found, key=age):
        once.setdefault(
            (change.cause, change.parameter, _text(change.old), _text(change.new)), change
        )
    return [*once.values()]


def _text(value: Any) -> str:
    return repr(value.tolist()) if isinstance(value, np.ndarray | np.generic) else repr(value)
