"""Loop fusion: the loops that can be fused, and their carries that are always equal."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphc.ir import Constant, Graph, Node, Pick, replace_nodes
from graphc.loop.loop import Loop
from graphc.rewrite.loops.body import Body, Key, Live, inputs_of


@dataclass(slots=True, eq=False)
class LoopGroup:
    """Loops to be fused, each after those whose rows it reads.

    Attributes:
        slot: The time slot: the group needs groups of lower slots only.
        loops: The loops.
        read: The rows of other loops of the group that are sequences of a loop, by index.
    """

    slot: int
    loops: list[Node] = field(default_factory=list)
    read: dict[Node, dict[int, Key]] = field(default_factory=dict)


def alone(live: Mapping[Node, Live]) -> dict[Node, LoopGroup]:
    """Return a group for each loop by itself."""
    return {loop: LoopGroup(0, [loop]) for loop in live}


def _fusion_key(loop: Node) -> tuple[Any, ...]:
    op: Any = loop.op
    operands = op.parts(loop.inputs)
    steps = op.steps_of(operands)
    if isinstance(steps, Node) and isinstance(steps.op, Constant):
        steps = int(steps.op.value)
    return steps, operands.count, op.reverse, op.stops, op.unroll, op.recompute


class _Slots:
    """Groups of loops in time slots, so that no two wait for each other.

    Args:
        together: Whether independent loops share a group.
        in_a_row: Whether a loop joins a group that it exchanges rows with.
    """

    def __init__(self, *, together: bool, in_a_row: bool) -> None:
        self.of: dict[Node, LoopGroup] = {}
        self._together = together
        self._in_a_row = in_a_row
        self._slots: dict[Any, list[int]] = {}
        self._groups: dict[Any, LoopGroup] = {}

    def put(self, loop: Node, after: int, beside: Collection[LoopGroup]) -> LoopGroup:
        """Put a loop into a group after a slot and after others, or into the last of these."""
        latest = max((group.slot for group in beside), default=after)
        last = {group for group in beside if group.slot == latest}
        if self._in_a_row and latest > after and len(last) == 1:
            (group,) = last
        else:
            group = self._first_group(_fusion_key(loop), max(after, latest) + 1)
        group.loops.append(loop)
        self.of[loop] = group
        return group

    def _first_group(self, kind: Any, slot: int) -> LoopGroup:
        if not self._together:
            return LoopGroup(slot)
        slots = self._slots.setdefault(kind, [])
        at = bisect_left(slots, slot)
        if at == len(slots):
            slots.append(slot)
            self._groups[kind, slot] = LoopGroup(slot)
        return self._groups[kind, slots[at]]


def forwards(
    graph: Graph, live: Mapping[Node, Live], *, together: bool, in_a_row: bool
) -> dict[Node, LoopGroup]:
    """Return the group of each loop, scheduled as early as possible.

    Args:
        graph: Any graph.
        live: The live parts of its loops.
        together: Whether to fuse independent loops of a kind.
        in_a_row: Whether to fuse loops of a kind where one reads the rows of the other.
    """
    slots = _Slots(together=together, in_a_row=in_a_row)
    slot: dict[Node, int] = {}
    for node in graph.nodes:
        if node in live:
            rows = _rows_read(node, live[node])
            before = [slot[x] for x in inputs_of(node, live[node]) if x not in rows]
            beside = [slots.of[x.inputs[0]] for x in rows]
            slot[node] = slots.put(node, max(before, default=0), beside).slot
        else:
            slot[node] = max([slot[x] for x in node.inputs], default=0)
    return _reading(slots.of, live)


def backwards(
    graph: Graph, live: Mapping[Node, Live], *, together: bool, in_a_row: bool
) -> dict[Node, LoopGroup]:
    """Return the group of each loop, scheduled as late as possible; otherwise as ``forwards``."""
    slots = _Slots(together=together, in_a_row=in_a_row)
    slot: dict[Node, int] = {}
    beside: dict[Node, list[LoopGroup]] = {}
    for node in reversed(graph.nodes):
        own_slot = slot.get(node, 0)
        waiting: Iterable[Node] = node.inputs
        if node in live:
            group = slots.put(node, own_slot, beside.get(node, ()))
            own_slot = group.slot
            rows = _rows_read(node, live[node])
            for x in rows:
                beside.setdefault(x.inputs[0], []).append(group)
            waiting = [x for x in inputs_of(node, live[node]) if x not in rows]
        for x in waiting:
            slot[x] = max(slot.get(x, 0), own_slot)
    for group in set(slots.of.values()):
        group.loops.reverse()
    return _reading(slots.of, live)


def _rows_read(loop: Node, live: Live) -> set[Node]:
    """Return the sequences that are rows of a fusible loop, and that nothing else needs."""
    op: Any = loop.op
    if op.stops:
        return set()
    operands = op.parts(loop.inputs)
    kind = _fusion_key(loop)
    rows = {operands.xs[i] for i in live.xs}
    other_inputs = {
        *(operands.init[i] for i in live.carries),
        *(operands.consts[i] for i in live.consts),
    }
    return {x for x in rows - other_inputs if _is_row(x) and _fusion_key(x.inputs[0]) == kind}


def _is_row(x: Node) -> bool:
    if not isinstance(x.op, Pick):
        return False
    op = x.inputs[0].op
    return isinstance(op, Loop) and op.carries <= x.op.index < op.carries + op.stacked


def _reading(groups: dict[Node, LoopGroup], live: Mapping[Node, Live]) -> dict[Node, LoopGroup]:
    for loop, group in groups.items():
        op: Any = loop.op
        for i, x in enumerate(op.parts(loop.inputs).xs):
            if i in live[loop].xs and isinstance(x.op, Pick):
                source = x.inputs[0]
                if groups.get(source) is group:
                    group.read.setdefault(loop, {})[i] = source, x.op.index
    return groups


# Carries.


def stay(body: Body) -> bool:
    """Turn carries that no step changes into constants; return whether there are any."""
    swaps = {p: body.const(x) for p, x in body.init.items() if body.nexts[p] is p}
    if swaps:
        body.swap(swaps)
    return bool(swaps)


def share(body: Body) -> bool:
    """Share carries that are always equal; return whether there are any.

    Carries of equal initial values are assumed equal; those whose next values then differ are split
    into classes, until the classes are stable.
    """
    same = _equal_at_first(body.init)
    while True:
        swaps = {p: q for p, q in same.items() if p is not q}
        if not swaps:
            return False
        nexts = replace_nodes([*body.nexts.values()], swaps)
        classes: dict[tuple[Node, Node], Node] = {}
        finer = {
            p: classes.setdefault((same[p], y), p) for p, y in zip(body.nexts, nexts, strict=True)
        }
        if finer == same:
            body.swap(swaps)
            return True
        same = finer


def _equal_at_first(init: Mapping[Node, Node]) -> dict[Node, Node]:
    classes: dict[tuple[Node, Any], Node] = {}
    return {p: classes.setdefault((x, p.type), p) for p, x in init.items()}
