"""What the rules did to a graph, to be read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from graphc.ir import Graph, Input, Node, pprint, toposort
from graphc.rewrite.engine import Change
from graphc.rewrite.passes import PassReport, optimize

__all__ = ["Explanation", "explain"]

WIDEST = 72
"""About how many characters an expression has before it is cut by dots."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the passes did; ``str()`` of it is a page to read.

    Attributes:
        before: The graph as it was.
        graph: The graph as it is now.
        passes: A report for each run of a pass, with each change.
    """

    before: Graph
    graph: Graph
    passes: tuple[PassReport, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for report in self.passes:
            yield (
                f"{report.name}: {report.seconds * 1e3:.1f} ms, "
                f"{report.before} -> {report.after} nodes"
            )
            for change in report.records:
                yield from _described(change)
        yield "result"
        yield from (f"  {pprint(node, WIDEST)}" for node in self.graph.outputs)


def _described(change: Change) -> Iterator[str]:
    where = change.before.where
    yield f"  {change.rule.name}" + (f"   {where}" if where else "")
    yield f"    {pprint(change.before, WIDEST)}"
    yield f"    -> {pprint(change.after, WIDEST)}"


def explain(
    graph: Graph | Node | Iterable[Node],
    *,
    excluding: Collection[str] = (),
    including: Collection[str] | None = None,
) -> Explanation:
    """What the rules make of a graph, pass by pass: each rule, what it found and put there, where.

    Args:
        graph: A graph, a symbolic array, or several.
        excluding: Rules to leave out, by their name, pass or subject, as for ``optimize``.
        including: Only these; all by default.

    Returns:
        An explanation to print; its ``graph`` is the result.

    Raises:
        ArgumentError: A name that no rule, pass or subject has.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> print(explain(gt.log(1 + x * 1)))
        canonicalize: ... ms, 5 -> 4 nodes
          product_with_one   ...
            1.0 * x
            -> x
        stabilize: ... ms, 4 -> 2 nodes
          log_of_one_plus   ...
            log(1.0 + x)
            -> log1p(x)
        ...
        result
          log1p(x)
    """
    if not isinstance(graph, Graph):
        outputs = [graph] if isinstance(graph, Node) else list(graph)
        inputs = [node for node in toposort(outputs) if isinstance(node.op, Input)]
        graph = Graph(inputs, outputs)
    done = optimize(graph, excluding=excluding, including=including, recording=True)
    return Explanation(graph, done.graph, done.passes)
