"""What differs between a graph and another one made of it, in the graphs of loops too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from graphc.ir import Node, Op, Pick, pprint
from graphc.ir.print import described, label
from graphc.rewrite.engine import Change
from graphc.rewrite.rule import Rule

MOST_PAIRS = 3
"""How many differences within a loop are told of one change."""

MOST_ROUNDS = 5
"""How often loops that are left are compared; each may have others among its operands."""

FARTHEST = 300
"""How many pairs of nodes are compared to find what a change did."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A change, and the rules that made it together."""

    rules: tuple[Rule, ...]
    before: Node
    after: Node

    @property
    def name(self) -> str:
        """The names of the rules."""
        return ", ".join(rule.name for rule in self.rules)


def entries(records: Iterable[Change]) -> list[Entry]:
    """Return changes, with those that replaced one node by one node as a single entry."""
    found = groupby(records, key=lambda change: (change.before, change.after))
    return [Entry(tuple([x.rule for x in group]), *ends) for ends, group in found]


def pairs(before: Sequence[Node], after: Sequence[Node]) -> Iterator[tuple[Node, Node, bool]]:
    """Yield nodes of two graphs that stand in the same place, and whether they do the same.

    The walk goes from the outputs to the operands of nodes that do the same, and into the graphs
    that they hold; what is one node in both graphs is not part of it.
    """
    stack = [*zip(before, after, strict=False)][::-1]
    known: set[Node] = set()
    while stack:
        a, b = stack.pop()
        if a is b or a in known:
            continue
        known.add(a)
        alike = is_alike(a, b)
        yield a, b, alike
        if alike:
            inner = zip(a.op.graphs(), b.op.graphs(), strict=True)
            stack += [pair for x, y in inner for pair in zip(x.outputs, y.outputs, strict=True)]
            stack += _operands(a, b)[::-1]


def _operands(a: Node, b: Node) -> list[tuple[Node, Node]]:
    """The operands of both, beside each other; those of commutative operations have no order."""
    xs, ys = a.inputs, b.inputs
    if a.op.is_commutative() and (xs[0] is ys[1] or xs[1] is ys[0]):
        ys = ys[::-1]
    return [*zip(xs, ys, strict=True)]


def is_alike(a: Node, b: Node) -> bool:
    """Whether two nodes have one operation, up to the graphs that it holds."""
    if len(a.inputs) != len(b.inputs) or type(a.op) is not type(b.op):
        return False
    if b in a.inputs or a in b.inputs:  # as the product in 1 * (x * y)
        return False
    if a.op == b.op:
        return True
    inner, other = a.op.graphs(), b.op.graphs()
    ends = [[(len(x.inputs), len(x.outputs)) for x in graphs] for graphs in (inner, other)]
    return bool(inner) and ends[0] == ends[1] and a.op.with_graphs(other) == b.op


def marks(
    before: Sequence[Node],
    after: Sequence[Node],
    left: Collection[Node],
    right: Collection[Node],
) -> dict[Node, str]:
    """Return which nodes are gone, new, or hold a graph within which something is.

    A node that was only made again, with the same operation on new operands, has no mark.

    Args:
        before: The outputs before.
        after: The outputs after.
        left: The nodes before, those of graphs within the graph too.
        right: The nodes after.
    """
    same: set[Node] = set()
    holders: dict[Node, str] = {}
    starts, ends = [*before], [*after]
    for _ in range(MOST_ROUNDS):
        for a, b, alike in pairs(starts, ends):
            if alike:
                same |= {a, b}
                if a.op != b.op:
                    holders |= {a: "within", b: "within"}
        gone = [x for x in left if x not in right and x not in same]
        new = [x for x in right if x not in left and x not in same]
        starts, ends = _loops_again(gone, new)
    return dict.fromkeys(gone, "gone") | dict.fromkeys(new, "new") | holders


def _loops_again(gone: Iterable[Node], new: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    """The loops and their results that are on both sides, below what is not in one place."""
    left, right = ({_loop(x): x for x in nodes} for nodes in (gone, new))
    both = [key for key in left if key is not None and key in right]
    return [left[key] for key in both], [right[key] for key in both]


def _loop(node: Node) -> tuple[Op, int] | None:
    """What a loop, or a result of one, has in common with one on other operands."""
    if isinstance(node.op, Pick) and node.inputs[0].op.graphs():
        return node.inputs[0].op, node.op.index
    return (node.op, -1) if node.op.graphs() else None


def everything(outputs: Iterable[Node], most: int, ends: Collection[Node] = ()) -> dict[Node, None]:
    """Return nodes that outputs are made of and those of the graphs that they hold.

    Args:
        outputs: Where to begin.
        most: About how many nodes are looked for.
        ends: Nodes whose inputs are not looked at.
    """
    found: dict[Node, None] = {}
    level = [*outputs]
    while level and len(found) < most:
        found.update(dict.fromkeys(level))
        inner = (y for node in level for graph in node.op.graphs() for y in graph.outputs)
        below = (x for node in level if node not in ends for x in node.inputs)
        level = [x for x in dict.fromkeys([*below, *inner]) if x not in found]
    return found


def told_apart(before: Node, after: Node, limit: int) -> Iterator[tuple[str, str]]:
    """Yield what a change replaced and the replacement, as texts that differ.

    An expression names a loop and not what it does; where both texts are equal, the parts within
    the loops that differ stand for the whole.

    Args:
        before: The replaced node.
        after: The replacement.
        limit: About how many characters a text has.
    """
    whole = pprint(before, limit), pprint(after, limit)
    if whole[0] != whole[1]:
        yield whole
        return
    left = MOST_PAIRS
    for _, (a, b, alike) in zip(range(FARTHEST), pairs([before], [after]), strict=False):
        if alike or not left:
            continue
        texts = next((t for t in _forms(a, b, limit) if t[0] != t[1]), None)
        if texts is not None:
            left -= 1
            yield texts
    if left == MOST_PAIRS:
        yield described(before), described(after)


def _forms(a: Node, b: Node, limit: int) -> Iterator[tuple[str, str]]:
    """Both nodes as expressions, with what their graphs give, and with their types."""
    yield pprint(a, limit), pprint(b, limit)
    yield _opened(a, limit), _opened(b, limit)
    yield described(a), described(b)


def _opened(node: Node, limit: int) -> str:
    """A node with what the graphs that it holds give."""
    if isinstance(node.op, Pick):
        return f"{label(node)} of {_opened(node.inputs[0], limit)}"
    if not node.op.graphs():
        return pprint(node, limit)
    gives = [
        ", ".join(pprint(y, limit // len(graph.outputs)) for y in graph.outputs)
        for graph in node.op.graphs()
    ]
    head = pprint(node, limit).partition("(")[0]
    return f"{head}: each gives {'; '.join(gives)}"
