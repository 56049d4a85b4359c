"""An explanation of what the rules did to a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from graphc.ir import Graph, Input, Node, pprint, toposort, unwrap_all
from graphc.loop.subgraph import inline_subgraphs
from graphc.rewrite.pairing import Entry, distinct_texts, entries
from graphc.rewrite.passes import PassReport, optimize

MAX_WIDTH = 72
"""Approximate number of characters after which an expression is abbreviated."""

MAX_WITHOUT_SUMMARY = 20
"""The largest number of changes that are listed without a summary."""

MAX_NAMED = 5
"""The number of rules in a summary."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rewriting of a graph; ``str()`` is a text to read, ``html()`` a page to step through.

    Attributes:
        before: The original graph.
        graph: The rewritten graph.
        passes: A report for each run of a pass, with each change.
    """

    before: Graph
    graph: Graph
    passes: tuple[PassReport, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def html(self) -> str:
        """Return one self-contained page of HTML: steps, changes, the graph before and after."""
        from graphc.rewrite.page import page  # noqa: PLC0415 (few programs draw one)

        return page(self.before, self.passes, str(self))

    def save(self, path: str | Path) -> Path:
        """Write the page of HTML to a file.

        Args:
            path: The file, which is replaced if it exists.

        Returns:
            The path.
        """
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        # A frame separates the page's styles and keys from the notebook's.
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe srcdoc="{escape(self.html())}" style="{style}"></iframe>'

    def _lines(self) -> Iterator[str]:
        changes = [(report, entries(report.records)) for report in self.passes]
        everything = [entry for _, each in changes for entry in each]
        yield from _summary(self.before, self.graph, everything)
        for report, each in changes:
            yield (
                f"{report.name}: {report.seconds * 1e3:.1f} ms, "
                f"{report.before} -> {report.after} nodes"
            )
            first: dict[Any, Entry] = {}
            for entry in each:
                first.setdefault(_rules_and_line(entry), entry)
            counts = Counter(map(_rules_and_line, each))
            for key, entry in first.items():
                yield from _lines_of(entry, counts[key])
        yield "result"
        yield from (f"  {pprint(node, MAX_WIDTH)}" for node in self.graph.outputs)


def _summary(before: Graph, after: Graph, changes: Sequence[Entry]) -> Iterator[str]:
    if len(changes) > MAX_WITHOUT_SUMMARY:
        counts = Counter(entry.name for entry in changes).most_common()
        yield (
            f"{len(changes)} changes by {len(counts)} rules, {len(before)} -> {len(after)} nodes; "
            f"most: {', '.join(f'{name} ({count})' for name, count in counts[:MAX_NAMED])}"
        )


def _rules_and_line(entry: Entry) -> tuple[str, str | None]:
    return entry.name, entry.before.where


def _lines_of(entry: Entry, count: int) -> Iterator[str]:
    name, where = _rules_and_line(entry)
    times = f"   {count} times, the first:" if count > 1 else ""
    yield f"  {name}" + (f"   {where}" if where else "") + times
    for before, after in distinct_texts(entry.before, entry.after, MAX_WIDTH):
        yield f"    {before}"
        yield f"    -> {after}"


@runtime_checkable
class ExplainableFunction(Protocol):
    """A function that keeps its requested graph and its mode.

    Attributes:
        requested: The graph before any rule.
        mode: The mode, with its excluded and included rules.
    """

    requested: Graph
    mode: Any


def explain(
    graph: Graph | Node | ExplainableFunction | Iterable[Node],
    *,
    excluding: Iterable[str] | None = None,
    including: Iterable[str] | None = None,
) -> Explanation:
    """Explain how a graph is rewritten: each rule that applied, what it replaced, and where.

    Args:
        graph: A graph, a symbolic array, several, or a compiled function.
        excluding: Rules to exclude, by name, pass or subject, as for ``optimize``; by default the
            rules that a function's mode excludes.
        including: Rules to include; by default the rules of a function's mode, or all.

    Returns:
        An explanation to print; its ``graph`` is the result. ``html()`` and ``save(path)`` make a
        page with all changes, step by step; notebooks show the page.

    Raises:
        ArgumentError: If no rule, pass or subject has a given name.

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
    if isinstance(graph, ExplainableFunction):
        excluding = graph.mode.excluded if excluding is None else excluding
        including = graph.mode.included if including is None else including
        graph = graph.requested
    elif not isinstance(graph, Graph):
        arrays: Any = unwrap_all(graph)
        outputs = [arrays] if isinstance(arrays, Node) else list(arrays)
        inputs = [node for node in toposort(outputs) if isinstance(node.op, Input)]
        graph = Graph(inputs, inline_subgraphs(outputs))
    done = optimize(graph, excluding=excluding or (), including=including, recording=True)
    return Explanation(graph, done.graph, done.passes)
