"""A drawing as text in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from graphc.draw.model import Box, Boxes, Drawing
from graphc.draw.svg import about, lines_of

SHAPES = {
    "input": 'shape=box, style=rounded, color="#0067a5"',
    "parameter": 'shape=box, style="rounded,dashed", color="#0067a5"',
    "shared": 'shape=box, style=rounded, peripheries=2, color="#a86400"',
    "captured": 'shape=box, style=rounded, color="#a86400"',
    "constant": 'shape=box, style=dotted, color="#7a7f86"',
    "holder": 'shape=box, penwidth=2, color="#007a58"',
}
"""The style of each kind of node in Graphviz; all others are plain boxes."""


def dot(boxes: Boxes, drawing: Drawing, *, opened: bool = True) -> str:
    """Return a drawing in the language of Graphviz, types on its edges.

    Args:
        boxes: The boxes of the drawing.
        drawing: What to draw.
        opened: Whether loops and other graphs within the graph are drawn, as clusters.
    """
    head = ["digraph {", "node [fontname=monospace, fontsize=10];", "edge [fontsize=9];"]
    return "\n".join([*head, *_parts(boxes, drawing, "n", opened), "}", ""])


def _parts(boxes: Boxes, drawing: Drawing, name: str, opened: bool) -> Iterator[str]:
    for i, number in enumerate(drawing.boxes):
        box = boxes[number]
        lines = "\n".join(text for _, text in lines_of(boxes, drawing, i))
        look = SHAPES.get(box.kind, "shape=box")
        yield f"{name}_{i} [label={quote(lines)}, tooltip={quote(about(box))}, {look}];"
        if opened:
            yield from _clusters(boxes, box, f"{name}_{i}")
    links = drawing.arrangement.links
    before = {link.end: link.start for link in links if link.port is None}
    for link in links:
        if link.port is not None:
            start = link.start
            while start in before:
                start = before[start]
            type = quote(boxes[drawing.boxes[start]].type)
            yield f"{name}_{start} -> {name}_{link.end} [label={type}];"


def _clusters(boxes: Boxes, box: Box, name: str) -> Iterator[str]:
    for j, (title, drawn) in enumerate(box.inside):
        yield f"subgraph cluster_{name}_{j} {{"
        yield f"label={quote(f'{title} of {box.name}')};"
        yield from _parts(boxes, drawn, f"{name}_{j}", True)
        yield "}"
        if drawn.boxes:
            last = len(drawn.boxes) - 1
            yield f"{name}_{j}_{last} -> {name} [style=dotted, arrowhead=none];"


def quote(text: str) -> str:
    """Return a text in Graphviz's quotes, with quotes in it escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
