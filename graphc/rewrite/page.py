"""An explanation as one HTML page that needs neither a network nor other files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from graphc.ir import Graph, Node, toposort
from graphc.ir.print import described
from graphc.rewrite.engine import Change
from graphc.rewrite.passes import PassReport

MOST_CHANGES = 2000
"""How many changes a page lists; a browser is slow with more."""

MOST_LINES = 400
"""How many nodes of a graph are drawn at once."""


def page(before: Graph, passes: Sequence[PassReport], text: str) -> str:
    """The page, which steps through the passes and their changes.

    Args:
        before: The graph as it was.
        passes: A report for each run of a pass, with its records and its graph.
        text: What is shown where scripts are switched off.
    """
    runs: dict[str, int] = {}
    told, left = [], MOST_CHANGES
    outputs: Sequence[Node] = before.outputs
    nodes = _Nodes(before, passes)
    for report in passes:
        runs[report.name] = runs.get(report.name, 0) + 1
        after = outputs if report.graph is None else report.graph.outputs
        shown = report.records[:left]
        left -= len(shown)
        told.append(
            {
                "name": report.name,
                "run": runs[report.name],
                "ms": report.seconds * 1e3,
                "sizes": [report.before, report.after],
                "attempts": report.attempts,
                "before": nodes.places(outputs),
                "after": nodes.places(after),
                "changes": [_told(change, nodes) for change in shown],
                "hidden": len(report.records) - len(shown),
            }
        )
        outputs = after
    changes = sum(len(report.records) for report in passes)
    size = passes[-1].after if passes else len(before)
    seconds = sum(report.seconds for report in passes)
    filled = {
        "title": f"{changes} changes to a graph of {len(before)} nodes",
        "summary": f"{len(before)} nodes → {size} nodes in {seconds * 1e3:.1f} ms",
        "text": text,
        "lines": str(MOST_LINES),
    }
    data = json.dumps({"passes": told, "nodes": nodes.told})
    # Nothing in a script element is text: no </script> and no <!-- may come in it.
    filled = {name: escape(value) for name, value in filled.items()}
    filled["data"] = re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", data)
    template = files("graphc.rewrite").joinpath("explain.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filled[found[1]], template)


def _told(change: Change, nodes: _Nodes) -> dict[str, Any]:
    (before,), (after,) = nodes.places([change.before]), nodes.places([change.after])
    return {
        "rule": change.rule.name,
        "meaning": change.rule.meaning,
        "where": change.before.where,
        "before": before,
        "after": after,
    }


class _Nodes:
    """The nodes of all graphs and changes, each told once and after its inputs."""

    def __init__(self, before: Graph, passes: Sequence[PassReport]) -> None:
        ends = [*before.outputs]
        left = MOST_CHANGES
        for report in passes:
            ends += report.graph.outputs if report.graph else ()
            ends += [x for change in report.records[:left] for x in (change.before, change.after)]
            left -= min(left, len(report.records))
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
