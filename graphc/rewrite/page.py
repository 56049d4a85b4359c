"""An explanation as one HTML page that needs neither a network nor other files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from graphc.draw.model import Boxes, Drawing, nearest
from graphc.draw.viewer import assets, filled, legend, told, told_drawing
from graphc.ir import Graph, Node, toposort
from graphc.ir.print import described
from graphc.rewrite.pairing import Entry, entries, everything, marks
from graphc.rewrite.passes import PassReport

MOST_CHANGES = 2000
"""How many changes a page lists; a browser is slow with more."""

MOST_LINES = 400
"""How many nodes of a graph are told as text at once."""

MOST_DRAWN = 250
"""How many nodes of a graph are drawn; of a larger one, those near to what differs."""

MOST_NEAR = 40
"""How many nodes are drawn of each side of a change."""

MOST_BOXES = 5000
"""How many nodes all drawings of a page have together; other steps are told as text."""


def page(before: Graph, passes: Sequence[PassReport], text: str) -> str:
    """The page, which steps through the passes and their changes.

    Args:
        before: The graph as it was.
        passes: A report for each run of a pass, with its records and its graph.
        text: What is shown where scripts are switched off.
    """
    shown = _shown(passes)
    told_passes = _passes(before, passes, shown)
    changes = sum(len(report.records) for report in passes)
    size = passes[-1].after if passes else len(before)
    seconds = sum(report.seconds for report in passes)
    parts = {
        "title": f"{changes} changes to a graph of {len(before)} nodes",
        "summary": f"{len(before)} nodes → {size} nodes in {seconds * 1e3:.1f} ms",
        "text": text,
        "lines": str(MOST_LINES),
    }
    escaped = {name: escape(value) for name, value in parts.items()}
    return filled(
        "graphc.rewrite", "explain.html", {**escaped, "legend": legend(), **assets(told_passes)}
    )


def _shown(passes: Sequence[PassReport]) -> list[list[Entry]]:
    """The changes of each pass that the page lists."""
    left, shown = MOST_CHANGES, []
    for report in passes:
        shown.append(entries(report.records)[:left])
        left -= len(shown[-1])
    return shown


def _passes(
    before: Graph, passes: Sequence[PassReport], shown: Sequence[Sequence[Entry]]
) -> dict[str, Any]:
    """All that the page's script reads."""
    ends = [before.outputs, *(report.graph.outputs for report in passes if report.graph)]
    nodes = _Nodes(
        [y for ys in ends for y in ys]
        + [x for listed in shown for entry in listed for x in (entry.before, entry.after)]
    )
    sketches = _Sketches()
    runs: dict[str, int] = {}
    outputs: Sequence[Node] = before.outputs
    found: list[dict[str, Any]] = []
    for report, listed in zip(passes, shown, strict=True):
        runs[report.name] = runs.get(report.name, 0) + 1
        after = outputs if report.graph is None else report.graph.outputs
        found.append(
            {
                "name": report.name,
                "run": runs[report.name],
                "ms": report.seconds * 1e3,
                "sizes": [report.before, report.after],
                "attempts": report.attempts,
                "before": nodes.places(outputs),
                "after": nodes.places(after),
                "hidden": len(entries(report.records)) - len(listed),
                **sketches.of_pass(outputs, after),
            }
        )
        outputs = after
    # Passes are drawn before changes, which are too many where anything is.
    for pass_, listed in zip(found, shown, strict=True):
        pass_["changes"] = [_told(entry, nodes, sketches) for entry in listed]
    return {
        "passes": found,
        "nodes": nodes.told,
        "drawings": [told_drawing(drawing) for drawing in sketches.drawings],
        **told(sketches.boxes),
    }


def _told(entry: Entry, nodes: _Nodes, sketches: _Sketches) -> dict[str, Any]:
    (before,), (after,) = nodes.places([entry.before]), nodes.places([entry.after])
    return {
        "rule": entry.name,
        "meaning": " ".join(rule.meaning for rule in entry.rules),
        "where": entry.before.where,
        "before": before,
        "after": after,
        **sketches.of_change(entry.before, entry.after),
    }


class _Nodes:
    """The nodes of all graphs and changes, each told once and after its inputs."""

    def __init__(self, ends: Iterable[Node]) -> None:
        nodes = toposort(ends)
        self._numbers = {node: i for i, node in enumerate(nodes)}
        self.told = [
            {
                "text": described(node).removesuffix(f" {node.type!r}"),
                "type": repr(node.type),
                "inputs": self.places(node.inputs),
                "where": node.where,
            }
            for node in nodes
        ]

    def places(self, nodes: Iterable[Node]) -> list[int]:
        """Their numbers."""
        return [self._numbers[node] for node in nodes]


class _Sketches:
    """The drawings of both sides of each step, and what differs between them."""

    def __init__(self) -> None:
        self.boxes = Boxes(MOST_BOXES)
        self.drawings: list[Drawing] = []
        self._known: dict[Any, int] = {}

    def of_pass(self, before: Sequence[Node], after: Sequence[Node]) -> dict[str, Any]:
        """Return the drawings of the graphs around a pass: whole ones, or what differs."""
        left, right = (dict.fromkeys(toposort(ys)) for ys in (before, after))
        is_large = max(len(left), len(right)) > MOST_DRAWN and tuple(before) != tuple(after)
        common = left.keys() & right.keys() if is_large else frozenset()
        inside = [everything(ys, 10 * MOST_DRAWN, common) for ys in (before, after)]
        return self._sides((before, after), inside, common, MOST_DRAWN)

    def of_change(self, before: Node, after: Node) -> dict[str, Any]:
        """Return the drawings of a node and its replacement, down to what both are made of."""
        near = [everything([x], MOST_NEAR) for x in (before, after)]
        # What both sides are made of has nothing to show: of x * 1 and x, that is x.
        common = near[0].keys() & near[1].keys()
        return self._sides(([before], [after]), near, common, MOST_NEAR)

    def _sides(
        self,
        ends: Sequence[Sequence[Node]],
        nodes: Sequence[Collection[Node]],
        common: Collection[Node],
        most: int,
    ) -> dict[str, Any]:
        """Return the drawings of two graphs, and the marks of their boxes.

        Args:
            ends: The outputs of each.
            nodes: The nodes of each, those of graphs within the graph too.
            common: What need not be looked into.
            most: How many nodes are drawn of each.
        """
        sides = [self._drawn(ys, common, most) for ys in ends]
        if None in sides:
            return {"sides": None, "marks": {}}
        found = marks(*ends, *nodes)
        numbers = ((self.boxes.number(x), mark) for x, mark in found.items())
        return {"sides": sides, "marks": {n: mark for n, mark in numbers if n is not None}}

    def _drawn(self, outputs: Sequence[Node], common: Collection[Node], most: int) -> int | None:
        """The number of a drawing; None where there are enough already."""
        nodes, partial = nearest(outputs, most, common)
        key = (tuple(outputs), frozenset(nodes), most)
        if key not in self._known:
            if len(nodes) > self.boxes.left:
                return None
            # The end of a change is no output of the graph.
            ends = outputs if most == MOST_DRAWN else ()
            gives = [f"output {i}" for i in range(len(ends))]
            drawing = self.boxes.drawn(nodes, ends, gives, partial=partial)
            self._known[key] = len(self.drawings)
            self.drawings.append(drawing)
        return self._known[key]
