"""Differences between a graph and one made from it, also within the graphs of loops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from graphc.ir import Node, Op, Pick, pprint
from graphc.ir.print import describe, label
from graphc.rewrite.engine import RuleApplication
from graphc.rewrite.rule import Rule

MAX_PAIRS = 3
"""Largest number of differences within a loop to report of one change."""

MAX_ROUNDS = 5
"""Largest number of rounds of comparing loops; each may have others among its operands."""

MAX_COMPARED = 300
"""Largest number of pairs of nodes to compare for one change."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A change, and the rules that made it together."""

    rules: tuple[Rule, ...]
    before: Node
    after: Node

    @property
    def name(self) -> str:
        """Names of the rules."""
        return ", ".join(rule.name for rule in self.rules)


def entries(records: Iterable[RuleApplication]) -> list[Entry]:
    """Return changes, those with the same two nodes as a single entry."""
    groups = groupby(records, key=lambda change: (change.before, change.after))
    return [Entry(tuple([x.rule for x in group]), *ends) for ends, group in groups]


def pairs(before: Sequence[Node], after: Sequence[Node]) -> Iterator[tuple[Node, Node, bool]]:
    """Yield nodes at the same position of two graphs, and whether their operations are alike.

    The walk goes from the outputs to the operands of nodes that are alike, and into their graphs;
    it skips nodes that both graphs share.
    """
    stack = [*zip(before, after, strict=False)][::-1]
    visited: set[Node] = set()
    while stack:
        a, b = stack.pop()
        if a is b or a in visited:
            continue
        visited.add(a)
        alike = is_alike(a, b)
        yield a, b, alike
        if alike:
            inner = zip(a.op.graphs(), b.op.graphs(), strict=True)
            stack += [pair for x, y in inner for pair in zip(x.outputs, y.outputs, strict=True)]
            stack += _operand_pairs(a, b)[::-1]


def _operand_pairs(a: Node, b: Node) -> list[tuple[Node, Node]]:
    xs, ys = a.inputs, b.inputs
    if a.op.is_commutative() and (xs[0] is ys[1] or xs[1] is ys[0]):
        ys = ys[::-1]
    return [*zip(xs, ys, strict=True)]


def is_alike(a: Node, b: Node) -> bool:
    """Return whether two nodes have the same operation, up to its graphs."""
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
    before: Sequence[Node], after: Sequence[Node], left: Collection[Node], right: Collection[Node]
) -> dict[Node, str]:
    """Return which nodes are gone, new, or have a graph with such nodes.

    A node with the same operation on new operands has no mark.

    Args:
        before: The outputs before.
        after: The outputs after.
        left: The nodes before, nested graphs included.
        right: The nodes after.
    """
    same: set[Node] = set()
    holders: dict[Node, str] = {}
    starts, ends = [*before], [*after]
    for _ in range(MAX_ROUNDS):
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
    """Return the loops and their results that both sides have at different positions."""
    gone_by_key, new_by_key = ({_loop_key(x): x for x in nodes} for nodes in (gone, new))
    common = [key for key in gone_by_key if key is not None and key in new_by_key]
    return [gone_by_key[key] for key in common], [new_by_key[key] for key in common]


def _loop_key(node: Node) -> tuple[Op, int] | None:
    if isinstance(node.op, Pick) and node.inputs[0].op.graphs():
        return node.inputs[0].op, node.op.index
    return (node.op, -1) if node.op.graphs() else None


def everything(outputs: Iterable[Node], most: int, ends: Collection[Node] = ()) -> dict[Node, None]:
    """Return the nodes below outputs, nested graphs included.

    Args:
        outputs: The nodes to start from.
        most: Approximate number of nodes after which to stop.
        ends: Nodes whose inputs are skipped.
    """
    nodes: dict[Node, None] = {}
    level = [*outputs]
    while level and len(nodes) < most:
        nodes.update(dict.fromkeys(level))
        inner = (y for node in level for graph in node.op.graphs() for y in graph.outputs)
        below = (x for node in level if node not in ends for x in node.inputs)
        level = [x for x in dict.fromkeys([*below, *inner]) if x not in nodes]
    return nodes


def distinct_texts(before: Node, after: Node, limit: int) -> Iterator[tuple[str, str]]:
    """Yield a node and its replacement as texts that differ.

    The text of a loop does not show its step: where both texts are equal, the differences within
    the loops are yielded instead.

    Args:
        before: The replaced node.
        after: The replacement.
        limit: Approximate number of characters of a text.
    """
    texts_of_ends = pprint(before, limit), pprint(after, limit)
    if texts_of_ends[0] != texts_of_ends[1]:
        yield texts_of_ends
        return
    remaining = MAX_PAIRS
    for _, (a, b, alike) in zip(range(MAX_COMPARED), pairs([before], [after]), strict=False):
        if alike or not remaining:
            continue
        texts = next((t for t in _forms(a, b, limit) if t[0] != t[1]), None)
        if texts is not None:
            remaining -= 1
            yield texts
    if remaining == MAX_PAIRS:
        yield describe(before), describe(after)


def _forms(a: Node, b: Node, limit: int) -> Iterator[tuple[str, str]]:
    """Yield both nodes as expressions, with the outputs of their graphs, and with their types."""
    yield pprint(a, limit), pprint(b, limit)
    yield _text_with_graphs(a, limit), _text_with_graphs(b, limit)
    yield describe(a), describe(b)


def _text_with_graphs(node: Node, limit: int) -> str:
    if isinstance(node.op, Pick):
        return f"{label(node)} of {_text_with_graphs(node.inputs[0], limit)}"
    if not node.op.graphs():
        return pprint(node, limit)
    gives = [
        ", ".join(pprint(y, limit // len(graph.outputs)) for y in graph.outputs)
        for graph in node.op.graphs()
    ]
    head = pprint(node, limit).partition("(")[0]
    return f"{head}: each gives {'; '.join(gives)}"
