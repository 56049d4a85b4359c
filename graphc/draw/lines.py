"""Graphs by lines of the user's program: a box for the nodes that one line made."""

from __future__ import annotations

import linecache
from collections import deque
from collections.abc import Collection, Sequence

from graphc.draw.layout import arrange
from graphc.draw.model import Box, Boxes, Drawing, output_tags, plain
from graphc.ir import Constant, Node, is_integer
from graphc.tensor.core.elementwise import Cast
from graphc.tensor.core.shape import Length, Shape


def draw_lines(
    boxes: Boxes,
    nodes: Sequence[Node],
    outputs: Sequence[Node],
    gives: Sequence[str],
    limit: int,
) -> Drawing:
    """Return a drawing of a graph with a box for each line, which opens to the line's nodes.

    Casts, constants and the arithmetic of lengths are only drawn within the boxes.

    Args:
        boxes: The boxes of the page.
        nodes: The nodes; inputs come first.
        outputs: The outputs among the nodes.
        gives: The meaning of each output.
        limit: The largest number of boxes, nearest to the outputs.
    """
    hidden = details(nodes) - set(outputs)
    groups = group_by_line([x for x in nodes if x not in hidden], hidden)
    operands = _operands(groups, hidden)
    every = {node: i for i, group in enumerate(groups) for node in group}
    shown = _nearest([every[y] for y in outputs if y in every], operands, limit)
    position = {j: i for i, j in enumerate(shown)}
    index = {node: position[j] for node, j in every.items() if j in position}
    return Drawing(
        boxes=tuple([_add_group(boxes, groups[j]) for j in shown]),
        arrangement=arrange([[position[k] for k in operands[j] if k in position] for j in shown]),
        notes={},
        tags=output_tags(outputs, gives, index),
        cut=frozenset(i for j, i in position.items() if not position.keys() >= set(operands[j])),
        partial=len(shown) < len(groups),
    )


def _operands(groups: Sequence[Sequence[Node]], hidden: Collection[Node]) -> list[list[int]]:
    """Return for each group the groups whose results it reads."""
    index = {node: i for i, group in enumerate(groups) for node in group}
    operands = []
    for i, group in enumerate(groups):
        read = (index.get(_source(x, hidden), i) for node in group for x in node.inputs)
        operands.append([j for j in dict.fromkeys(read) if j != i])
    return operands


def _nearest(outputs: Sequence[int], operands: Sequence[Sequence[int]], limit: int) -> list[int]:
    """Return the groups nearest to outputs, operands first."""
    waiting = deque(outputs)
    shown: dict[int, None] = {}
    while waiting and len(shown) < limit:
        i = waiting.popleft()
        if i not in shown:
            shown[i] = None
            waiting.extend(operands[i])
    return sorted(shown)


def details(nodes: Sequence[Node]) -> set[Node]:
    """Return the constants, casts and lengths among nodes, of which inputs come first."""
    lengths: set[Node] = set()
    casts: set[Node] = set()
    for node in nodes:
        op = node.op
        is_length = isinstance(op, Constant | Length | Shape) or (
            node.inputs and _is_integer_scalar(node) and lengths.issuperset(node.inputs)
        )
        if is_length:
            lengths.add(node)
        elif isinstance(op, Cast):
            casts.add(node)
    return lengths | casts


def _is_integer_scalar(node: Node) -> bool:
    return getattr(node.type, "shape", None) == () and is_integer(node.type.dtype)


def group_by_line(nodes: Sequence[Node], hidden: Collection[Node] = ()) -> list[list[Node]]:
    """Return nodes in groups of one line, operands' groups first.

    A line that runs again on results of other lines begins another group, so that no group depends
    on itself. An input is a group.

    Args:
        nodes: The nodes; inputs come first.
        hidden: Nodes through which operands are looked up.
    """
    levels: dict[Node, int] = {}
    groups: dict[tuple[int, object], list[Node]] = {}
    for node in nodes:
        line = _line(node)
        sources = [x for y in node.inputs if (x := _source(y, hidden)) in levels]
        level = max((levels[x] + (_line(x) != line) for x in sources), default=0)
        levels[node] = level
        groups.setdefault((level, line), []).append(node)
    return sorted(groups.values(), key=lambda group: levels[group[0]])


def _line(node: Node) -> object:
    return node.where if node.inputs and node.where else node


def _source(node: Node, hidden: Collection[Node]) -> Node:
    """Return the node whose values a hidden cast has, or the node itself."""
    while node in hidden and isinstance(node.op, Cast):
        node = node.inputs[0]
    return node


def _add_group(boxes: Boxes, group: Sequence[Node]) -> int:
    if len(group) == 1:
        return boxes.add(group[0])
    last, members = group[-1], set(group)
    operands = dict.fromkeys(x for node in group for x in node.inputs if x not in members)
    boxes.allow(len(group) + len(operands))
    inside = boxes.draw([*operands, *group], ends=operands)
    box = Box(
        kind="holder",
        name=plain(_text_of_line(last) or boxes[boxes.add(last)].name),
        parameters=f"{len(group)} operations",
        type=plain(last.type_text()),
        where=plain(last.where or ""),
        code=boxes[boxes.add(last)].code,
        inside=(("operations", inside),),
    )
    return boxes.append(box)


def _text_of_line(node: Node) -> str:
    """Return the text of the line that made a node; empty if its file cannot be read."""
    if node.site is None or node.where is None:
        return ""
    number = node.where.rpartition(":")[2]
    return linecache.getline(node.site[0].co_filename, int(number)).strip()
