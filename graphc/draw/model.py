"""Drawings of graphs: a box for each node, and a bounded drawing for each graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.draw.held import inner_graphs
from graphc.draw.layout import Arrangement, arrange
from graphc.ir import Constant, Graph, Input, Leaf, Node, Parameter, Pick, pprint
from graphc.ir.op import parameters_of
from graphc.ir.print import label
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.loop.step import Formal

LONGEST = 34
"""The default length of a line in a box, in characters, before it is truncated."""

CODE = 100
"""The approximate length of a node's expression in a tooltip."""

MAX_TEXT = 240
"""The longest text of a box; an operation may have thousands of operands."""

MAX_DEPTH = 12
"""The number of levels of nested graphs that are drawn."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node, as any drawing shows it.

    Attributes:
        kind: input, shared, captured, constant, parameter, operation, result, or holder of graphs.
        name: An input's name, a constant's value, an operation's name.
        parameters: The operation's parameters.
        type: The node's type.
        where: The user's line.
        code: The node as an expression.
        inside: The graphs inside the operation, with their titles.
    """

    kind: str
    name: str
    parameters: str
    type: str
    where: str | None
    code: str
    inside: tuple[tuple[str, Drawing], ...] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph, in layers. Items of the arrangement are indices of ``boxes``.

    Attributes:
        boxes: The nodes, each after its inputs, by their numbers among all boxes.
        arrangement: Layers and edges.
        notes: The meaning of inputs, by index.
        tags: The outputs that a node is, by index.
        cut: The indices of nodes whose inputs are left out.
        partial: Whether nodes were left out because they are too many.
    """

    boxes: tuple[int, ...]
    arrangement: Arrangement
    notes: Mapping[int, str]
    tags: Mapping[int, str]
    cut: frozenset[int]
    partial: bool


class Boxes:
    """The boxes of one page or file, each created once.

    Args:
        limit: The number of boxes that all drawings may have together.
        longest: The length of a line in a box, in characters, before it is truncated.

    Attributes:
        all: The boxes by their numbers.
        longest: As given.
        left: The number of boxes that drawings may still have.
    """

    def __init__(self, limit: int, longest: int = LONGEST) -> None:
        self.all: list[Box] = []
        self.longest = longest
        self.left = limit
        self._numbers: dict[Node, int] = {}
        self._depth = 0

    def __getitem__(self, number: int) -> Box:
        return self.all[number]

    def number(self, node: Node) -> int | None:
        """Return the number of a node's box, or None."""
        return self._numbers.get(node)

    def allow(self, more: int) -> None:
        """Let the drawings have more boxes."""
        self.left += more

    def cut(self, text: str) -> str:
        """Return a text, truncated with an ellipsis if it is too long for a line."""
        return text if len(text) <= self.longest else f"{text[: self.longest - 1]}…"

    def graph(self, graph: Graph, gives: Sequence[str] = (), takes: Sequence[str] = ()) -> Drawing:
        """Return the drawing of a graph.

        Args:
            graph: The graph.
            gives: The meaning of each output (default: ``output 0`` and so on).
            takes: The meaning of each input of an inner graph, whose unused inputs are left out.
        """
        gives = gives or [f"output {i}" for i in range(len(graph.outputs))]
        shown, partial = nearest(graph.outputs, self.left, set(graph.inputs))
        nodes, free = set(shown), self.left - len(shown)
        unused = [] if takes else [x for x in dict.fromkeys(graph.inputs) if x not in nodes]
        shown += unused[:free]
        notes = dict(zip(graph.inputs, takes, strict=True)) if takes else {}
        partial = partial or len(unused) > free
        return self.draw(shown, graph.outputs, gives, graph.inputs, notes, partial)

    def draw(
        self,
        nodes: Iterable[Node],
        outputs: Sequence[Node] = (),
        gives: Sequence[str] = (),
        ends: Collection[Node] = (),
        notes: Mapping[Node, str] | None = None,
        partial: bool = False,
    ) -> Drawing:
        """Return the drawing of some nodes.

        Args:
            nodes: The nodes.
            outputs: The outputs among the nodes.
            gives: The meaning of each output.
            ends: Nodes whose inputs are not drawn.
            notes: The meaning of nodes.
            partial: Whether other nodes are left out because they are too many.
        """
        order = sorted(nodes, key=lambda node: node.height)  # operands come first
        self.left -= len(order)
        index = {node: i for i, node in enumerate(order)}
        ends = set(ends)
        wiring = [
            [] if node in ends else [index[x] for x in node.inputs if x in index] for node in order
        ]
        return Drawing(
            boxes=tuple([self.add(node) for node in order]),
            arrangement=arrange(wiring),
            notes={index[x]: text for x, text in (notes or {}).items() if x in index and text},
            tags=output_tags(outputs, gives, index),
            cut=frozenset(
                i
                for i, (node, xs) in enumerate(zip(order, wiring, strict=True))
                if len(xs) < len(node.inputs) and node not in ends
            ),
            partial=partial,
        )

    def add(self, node: Node) -> int:
        """Return the number of a node's box, which is created at its first use."""
        existing = self._numbers.get(node)
        if existing is not None:
            return existing
        self._depth += 1
        inside = tuple(
            (each.title, self.graph(each.graph, each.gives, each.takes))
            for each in (inner_graphs(node) if self._depth <= MAX_DEPTH else ())
        )
        self._depth -= 1
        number = self._numbers[node] = self.append(
            Box(
                kind=kind_of(node),
                name=plain(name_of(node)),
                parameters=plain(_parameters(node)),
                type=plain(node.type_text()),
                where=_where(node),
                code=plain(pprint(node, CODE)),
                inside=inside,
            )
        )
        return number

    def append(self, box: Box) -> int:
        """Return the number of a new box."""
        self.all.append(box)
        return len(self.all) - 1


def output_tags(
    outputs: Sequence[Node], gives: Sequence[str], index: Mapping[Node, int]
) -> dict[int, str]:
    """Return the meanings of outputs by the positions of their boxes."""
    tags: dict[int, str] = {}
    for y, text in zip(outputs, gives, strict=True):
        if y in index:
            before = f"{tags[index[y]]}, " if index[y] in tags else ""
            tags[index[y]] = before + text
    return tags


def nearest(
    outputs: Iterable[Node], limit: int, ends: Collection[Node] = ()
) -> tuple[list[Node], bool]:
    """Return the nodes nearest to outputs, and whether there are others.

    Args:
        outputs: The nodes to begin with.
        limit: The largest number of nodes.
        ends: Nodes whose inputs are not followed.
    """
    nodes: dict[Node, None] = {}
    waiting = deque(outputs)
    while waiting:
        node = waiting.popleft()
        if node in nodes:
            continue
        if len(nodes) >= limit:
            return list(nodes), True
        nodes[node] = None
        if node not in ends:
            waiting.extend(node.inputs)
    return list(nodes), False


def kind_of(node: Node) -> str:
    """Return the kind of a node."""
    match node.op:
        case Constant():
            return "constant"
        case Leaf():
            return "captured"
        case Formal() | Parameter():
            return "parameter"
        case Input():
            return "shared" if node.op.is_shared else "input"
        case Pick():
            return "result"
    return "holder" if node.op.graphs() else "operation"


def name_of(node: Node) -> str:
    """Return the name of a box; a user's name of a computed array comes first."""
    name = node.op.title if isinstance(node.op, Loop | Switch) else label(node)
    return name if node.name in {None, name} else f"{node.name} = {name}"


def _parameters(node: Node) -> str:
    if isinstance(node.op, Pick):
        return pprint(node, LONGEST)
    if isinstance(node.op, Loop | Switch):
        return parameters_of(node.op).removeprefix(f"{node.op.label!r}, ")
    return "" if isinstance(node.op, Input | Leaf | Constant) else parameters_of(node.op)


def _where(node: Node) -> str | None:
    # Equal constants and parameters are one node, which other code may have created first.
    if isinstance(node.op, Constant | Formal) or node.where is None:
        return None
    return plain(node.where)


def plain(text: str, longest: int = MAX_TEXT) -> str:
    """Return a text without characters that XML forbids, truncated if it is long."""
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(c if c.isprintable() or c == "\u3000" else "\ufffd" for c in shown)
