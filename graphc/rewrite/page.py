"""An explanation as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from graphc.draw.model import Boxes, Drawing, nearest
from graphc.draw.viewer import assets, boxes_data, drawing_data, fill_template, legend
from graphc.ir import Graph, Node, toposort
from graphc.ir.print import describe
from graphc.rewrite.pairing import Entry, entries, everything, marks
from graphc.rewrite.passes import PassReport

MAX_CHANGES = 2000
"""Largest number of changes of a page; browsers are slow with more."""

MAX_LINES = 400
"""Largest number of nodes of a graph that are shown as text at once."""

MAX_DRAWN = 250
"""Largest number of nodes of a graph that are drawn; of a larger graph, those near a difference."""

MAX_NEAR = 40
"""Largest number of nodes that are drawn of each side of a change."""

MAX_BOXES = 5000
"""Largest number of nodes of all drawings of a page; further steps are shown as text."""


def page(before: Graph, passes: Sequence[PassReport], text: str) -> str:
    """Return the page, which steps through the passes and their changes.

    Args:
        before: The original graph.
        passes: A report for each run of a pass, with its records and its graph.
        text: The explanation for browsers without scripts.
    """
    shown = _listed_changes(passes)
    pass_data = _page_data(before, passes, shown)
    changes = sum(len(report.records) for report in passes)
    size = passes[-1].after if passes else len(before)
    seconds = sum(report.seconds for report in passes)
    texts = {
        "title": f"{changes} changes to a graph of {len(before)} nodes",
        "summary": f"{len(before)} nodes → {size} nodes in {seconds * 1e3:.1f} ms",
        "text": text,
        "lines": str(MAX_LINES),
    }
    escaped = {name: escape(value) for name, value in texts.items()}
    return fill_template(
        "graphc.rewrite", "explain.html", {**escaped, "legend": legend(), **assets(pass_data)}
    )


def _listed_changes(passes: Sequence[PassReport]) -> list[list[Entry]]:
    remaining, shown = MAX_CHANGES, []
    for report in passes:
        shown.append(entries(report.records)[:remaining])
        remaining -= len(shown[-1])
    return shown


def _page_data(
    before: Graph, passes: Sequence[PassReport], shown: Sequence[Sequence[Entry]]
) -> dict[str, Any]:
    ends = [before.outputs, *(report.graph.outputs for report in passes if report.graph)]
    nodes = _Nodes(
        [y for ys in ends for y in ys]
        + [x for listed in shown for entry in listed for x in (entry.before, entry.after)]
    )
    sketches = _Sketches()
    runs: dict[str, int] = {}
    outputs: Sequence[Node] = before.outputs
    runs_data: list[dict[str, Any]] = []
    for report, listed in zip(passes, shown, strict=True):
        runs[report.name] = runs.get(report.name, 0) + 1
        after = outputs if report.graph is None else report.graph.outputs
        runs_data.append(
            {
                "name": report.name,
                "run": runs[report.name],
                "ms": report.seconds * 1e3,
                "sizes": [report.before, report.after],
                "attempts": report.attempts,
                "before": nodes.indices(outputs),
                "after": nodes.indices(after),
                "hidden": len(entries(report.records)) - len(listed),
                **sketches.of_pass(outputs, after),
            }
        )
        outputs = after
    # Passes are drawn before changes, which may exhaust the boxes.
    for pass_, listed in zip(runs_data, shown, strict=True):
        pass_["changes"] = [_change_data(entry, nodes, sketches) for entry in listed]
    return {
        "passes": runs_data,
        "nodes": nodes.data,
        "drawings": [drawing_data(drawing) for drawing in sketches.drawings],
        **boxes_data(sketches.boxes),
    }


def _change_data(entry: Entry, nodes: _Nodes, sketches: _Sketches) -> dict[str, Any]:
    (before,), (after,) = nodes.indices([entry.before]), nodes.indices([entry.after])
    return {
        "rule": entry.name,
        "meaning": " ".join(rule.meaning for rule in entry.rules),
        "where": entry.before.where,
        "before": before,
        "after": after,
        **sketches.of_change(entry.before, entry.after),
    }


class _Nodes:
    """The nodes of all graphs and changes, as data, each after its inputs."""

    def __init__(self, ends: Iterable[Node]) -> None:
        nodes = toposort(ends)
        self._numbers = {node: i for i, node in enumerate(nodes)}
        self.data = [
            {
                "text": describe(node).removesuffix(f" {node.type_text()}"),
                "type": node.type_text(),
                "inputs": self.indices(node.inputs),
                "where": node.where,
            }
            for node in nodes
        ]

    def indices(self, nodes: Iterable[Node]) -> list[int]:
        return [self._numbers[node] for node in nodes]


class _Sketches:
    """The drawings of both sides of each step, and their differences."""

    def __init__(self) -> None:
        self.boxes = Boxes(MAX_BOXES)
        self.drawings: list[Drawing] = []
        self._known: dict[Any, int] = {}

    def of_pass(self, before: Sequence[Node], after: Sequence[Node]) -> dict[str, Any]:
        nodes_before, nodes_after = (dict.fromkeys(toposort(ys)) for ys in (before, after))
        is_large = max(len(nodes_before), len(nodes_after)) > MAX_DRAWN and tuple(before) != tuple(
            after
        )
        common = nodes_before.keys() & nodes_after.keys() if is_large else frozenset()
        inside = [everything(ys, 10 * MAX_DRAWN, common) for ys in (before, after)]
        return self._sides((before, after), inside, common, MAX_DRAWN)

    def of_change(self, before: Node, after: Node) -> dict[str, Any]:
        """Return the drawings of a node and its replacement, down to common nodes."""
        near = [everything([x], MAX_NEAR) for x in (before, after)]
        # Common nodes show no difference: of x * 1 and x, that is x.
        common = near[0].keys() & near[1].keys()
        return self._sides(([before], [after]), near, common, MAX_NEAR)

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
            nodes: The nodes of each, nested graphs included.
            common: Nodes whose inputs are not drawn.
            most: Largest number of nodes to draw of each.
        """
        sides = [self._draw(ys, common, most) for ys in ends]
        if None in sides:
            return {"sides": None, "marks": {}}
        mark_of = marks(*ends, *nodes)
        numbers = ((self.boxes.number(x), mark) for x, mark in mark_of.items())
        return {"sides": sides, "marks": {n: mark for n, mark in numbers if n is not None}}

    def _draw(self, outputs: Sequence[Node], common: Collection[Node], most: int) -> int | None:
        """Return the index of a drawing; None if there are too many boxes."""
        nodes, partial = nearest(outputs, most, common)
        key = (tuple(outputs), frozenset(nodes), most)
        if key not in self._known:
            if len(nodes) > self.boxes.left:
                return None
            # A changed node is no output of the graph.
            ends = outputs if most == MAX_DRAWN else ()
            gives = [f"output {i}" for i in range(len(ends))]
            drawing = self.boxes.draw(nodes, ends, gives, partial=partial)
            self._known[key] = len(self.drawings)
            self.drawings.append(drawing)
        return self._known[key]
