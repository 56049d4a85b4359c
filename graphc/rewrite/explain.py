"""An explanation of what the rules did to a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from graphc.ir import Graph, Input, Node, pprint, toposort, unwrapped_all
from graphc.lazy import provided
from graphc.loop.subgraph import inlined
from graphc.rewrite.pairing import Entry, entries, told_apart
from graphc.rewrite.passes import PassReport, optimize

WIDEST = 72
"""About how many characters an expression has before it is cut by dots."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rewriting of a graph; ``str()`` is a text to read, ``html()`` a page to step through.

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

    def html(self) -> str:
        """One page of HTML that needs nothing else: steps, changes, the graph before and after."""
        made: str = provided(__name__, "page")(self.before, self.passes, str(self))
        return made

    def save(self, path: str | Path) -> Path:
        """Write the page of HTML to a file.

        Args:
            path: Where; what is there is replaced.

        Returns:
            The path.
        """
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        # In a frame of its own, the page's styles and keys are not those of the notebook.
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe srcdoc="{escape(self.html())}" style="{style}"></iframe>'

    def _lines(self) -> Iterator[str]:
        for report in self.passes:
            yield (
                f"{report.name}: {report.seconds * 1e3:.1f} ms, "
                f"{report.before} -> {report.after} nodes"
            )
            for entry in entries(report.records):
                yield from _described(entry)
        yield "result"
        yield from (f"  {pprint(node, WIDEST)}" for node in self.graph.outputs)


def _described(entry: Entry) -> Iterator[str]:
    where = entry.before.where
    yield f"  {entry.name}" + (f"   {where}" if where else "")
    for before, after in told_apart(entry.before, entry.after, WIDEST):
        yield f"    {before}"
        yield f"    -> {after}"


@runtime_checkable
class Compiled(Protocol):
    """A function, which knows the graph as written and its mode.

    Attributes:
        requested: The graph before any rule.
        mode: Which rules are excluded and included.
    """

    requested: Graph
    mode: Any


def explain(
    graph: Graph | Node | Compiled | Iterable[Node],
    *,
    excluding: Iterable[str] | None = None,
    including: Iterable[str] | None = None,
) -> Explanation:
    """Explain how a graph is rewritten: each rule that applied, what it replaced, and where.

    Args:
        graph: A graph, a symbolic array, several, or a compiled function.
        excluding: Rules to leave out, by their name, pass or subject, as for ``optimize``; for a
            function, those of its mode by default.
        including: Only these; all by default, for a function those of its mode.

    Returns:
        An explanation to print; its ``graph`` is the result. ``html()`` and ``save(path)`` give a
        page on which a reader steps through the changes; notebooks show that at once.

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
            log(x + 1.0)
            -> log1p(x)
        ...
        result
          log1p(x)
    """
    if isinstance(graph, Compiled):
        excluding = graph.mode.excluded if excluding is None else excluding
        including = graph.mode.included if including is None else including
        graph = graph.requested
    elif not isinstance(graph, Graph):
        given: Any = unwrapped_all(graph)
        outputs = [given] if isinstance(given, Node) else list(given)
        inputs = [node for node in toposort(outputs) if isinstance(node.op, Input)]
        graph = Graph(inputs, inlined(outputs))
    done = optimize(graph, excluding=excluding or (), including=including, recording=True)
    return Explanation(graph, done.graph, done.passes)
