"""What is drawn of a graph: a box for each node, and a drawing for each graph, of bounded size."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.draw.held import held
from graphc.draw.layout import Arrangement, arranged
from graphc.ir import Constant, Graph, Input, Leaf, Node, Parameter, Pick, pprint
from graphc.ir.op import parameters_of
from graphc.ir.print import label
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.loop.step import Formal

LONGEST = 34
"""How many characters a line in a box has by default before it is cut by dots."""

CODE = 100
"""About how many characters of a node's expression its box tells on demand."""

MOST_TOLD = 240
"""How many characters any text of a box has; an operation may have thousands of operands."""

DEEPEST = 12
"""How many levels of graphs within graphs are drawn."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node, as any drawing shows it.

    Attributes:
        kind: What sort of node: input, shared, captured, constant, parameter, operation, result,
            or holder of other graphs.
        name: An input's name, a constant's value, an operation's name.
        parameters: The operation's.
        type: Its type.
        where: The user's line.
        code: The node as an expression.
        inside: The graphs that its operation holds, with their titles.
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
    """A graph, in layers. Items of the arrangement are places in ``boxes``.

    Attributes:
        boxes: The nodes, each after its inputs, by their numbers among all boxes.
        arrangement: Layers and edges.
        notes: What inputs stand for, by place.
        tags: Which output a node is, by place.
        cut: The places of nodes whose inputs are left out.
        partial: Whether nodes were left out because they are too many.
    """

    boxes: tuple[int, ...]
    arrangement: Arrangement
    notes: Mapping[int, str]
    tags: Mapping[int, str]
    cut: frozenset[int]
    partial: bool


class Boxes:
    """The boxes of one page or file, each made once.

    Args:
        limit: How many boxes all its drawings may have together.
        longest: How many characters a line in a box has before it is cut by dots.

    Attributes:
        all: The boxes by their numbers.
        longest: As given.
        left: How many more boxes drawings may have.
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
        """The number of a node's box, if it has one."""
        return self._numbers.get(node)

    def allow(self, more: int) -> None:
        """Let the drawings have more boxes."""
        self.left += more

    def cut(self, text: str) -> str:
        """Return a text as a line shows it: without its end, and with dots, if it is too long."""
        return text if len(text) <= self.longest else f"{text[: self.longest - 1]}…"

    def graph(self, graph: Graph, gives: Sequence[str] = (), takes: Sequence[str] = ()) -> Drawing:
        """Return the drawing of a graph.

        Args:
            graph: The graph.
            gives: What each output is, ``output 0`` and so on by default.
            takes: What each input stands for in a graph within another; there, inputs that no
                output needs are left out.
        """
        gives = gives or [f"output {i}" for i in range(len(graph.outputs))]
        shown, partial = nearest(graph.outputs, self.left, set(graph.inputs))
        known, room = set(shown), self.left - len(shown)
        unused = [] if takes else [x for x in dict.fromkeys(graph.inputs) if x not in known]
        shown += unused[:room]
        notes = dict(zip(graph.inputs, takes, strict=True)) if takes else {}
        partial = partial or len(unused) > room
        return self.drawn(shown, graph.outputs, gives, graph.inputs, notes, partial)

    def drawn(
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
            nodes: Which.
            outputs: Which of them are outputs.
            gives: What each output is.
            ends: Nodes of which nobody asks what they are made of.
            notes: What nodes stand for.
            partial: Whether others are left out because they are too many.
        """
        # A node is made after its inputs, so they come first.
        order = sorted(nodes, key=lambda node: node.serial)
        self.left -= len(order)
        place = {node: i for i, node in enumerate(order)}
        ends = set(ends)
        wiring = [
            [] if node in ends else [place[x] for x in node.inputs if x in place] for node in order
        ]
        tags: dict[int, str] = {}
        for y, text in zip(outputs, gives, strict=True):
            if y in place:
                before = f"{tags[place[y]]}, " if place[y] in tags else ""
                tags[place[y]] = before + text
        return Drawing(
            boxes=tuple([self._made(node) for node in order]),
            arrangement=arranged(wiring),
            notes={place[x]: text for x, text in (notes or {}).items() if x in place and text},
            tags=tags,
            cut=frozenset(
                i
                for i, (node, xs) in enumerate(zip(order, wiring, strict=True))
                if len(xs) < len(node.inputs) and node not in ends
            ),
            partial=partial,
        )

    def _made(self, node: Node) -> int:
        """The number of a node's box, which is made where there is none."""
        known = self._numbers.get(node)
        if known is not None:
            return known
        self._depth += 1
        inside = tuple(
            (each.title, self.graph(each.graph, each.gives, each.takes))
            for each in (held(node) if self._depth <= DEEPEST else ())
        )
        self._depth -= 1
        number = self._numbers[node] = len(self.all)
        self.all.append(
            Box(
                kind=kind_of(node),
                name=plain(name_of(node)),
                parameters=plain(_parameters(node)),
                type=plain(repr(node.type)),
                where=_where(node),
                code=plain(pprint(node, CODE)),
                inside=inside,
            )
        )
        return number


def nearest(
    outputs: Iterable[Node], limit: int, ends: Collection[Node] = ()
) -> tuple[list[Node], bool]:
    """Return the nodes nearest to outputs, and whether there are others.

    Args:
        outputs: Where to begin.
        limit: How many nodes there may be.
        ends: Nodes behind which nothing is looked at.
    """
    found: dict[Node, None] = {}
    waiting = deque(outputs)
    while waiting:
        node = waiting.popleft()
        if node in found:
            continue
        if len(found) >= limit:
            return list(found), True
        found[node] = None
        if node not in ends:
            waiting.extend(node.inputs)
    return list(found), False


def kind_of(node: Node) -> str:
    """Return which sort of node it is."""
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
    """Return what a box is called; the name that a user gave to a computed array comes first."""
    name = node.op.title if isinstance(node.op, Loop | Switch) else label(node)
    return name if node.name in {None, name} else f"{node.name} = {name}"


def _parameters(node: Node) -> str:
    if isinstance(node.op, Pick):
        return pprint(node, LONGEST)
    if isinstance(node.op, Loop | Switch):
        return parameters_of(node.op).removeprefix(f"{node.op.label!r}, ")
    return "" if isinstance(node.op, Input | Leaf | Constant) else parameters_of(node.op)


def _where(node: Node) -> str | None:
    # Equal constants and parameters of steps are one node, which other code may have made first.
    if isinstance(node.op, Constant | Formal) or node.where is None:
        return None
    return plain(node.where)


def plain(text: str, longest: int = MOST_TOLD) -> str:
    """Return a text without what no XML may have, such as control characters, and cut by dots."""
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(c if c.isprintable() or c == "\u3000" else "\ufffd" for c in shown)
