"""A drawing as SVG: every box open, in light and dark colors, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from unicodedata import east_asian_width

from graphc.draw.layout import Coordinates, Link, port_shift, position_boxes
from graphc.draw.model import Box, Boxes, Drawing

# viewer.js has the same numbers.

NAME, SMALL = 7.4, 6.2
"""The width of a character: of a name, in 12 pixels, and of the other lines, in 10."""

NAME_HEIGHT, LINE_HEIGHT, TYPE_HEIGHT = 17.0, 13.0, 17.0
"""The height of a name, of any other line, and of the type below a box."""

PADDING = 8.0
"""The distance between a box and its contents."""

MARGIN = 14.0
"""The distance around the drawing."""

Line = tuple[str, str]
"""A class of text, and the text."""


def svg(boxes: Boxes, drawing: Drawing, *, opened: bool = True) -> str:
    """Return a drawing as the text of an SVG file.

    Args:
        boxes: The boxes of the drawing.
        drawing: What to draw.
        opened: Whether loops and other inner graphs are drawn.
    """
    scene = _Scene(boxes, drawing, opened=opened)
    w, h = scene.width + 2 * MARGIN, scene.height + 2 * MARGIN
    style = files("graphc.draw").joinpath("style.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {w:.0f} {h:.0f}" '
            f'width="{w:.0f}" height="{h:.0f}">',
            f"<style>{style}</style>",
            '<rect class="paper" width="100%" height="100%"/>',
            f'<g transform="translate({MARGIN:.0f},{MARGIN:.0f})">',
            *scene.elements(),
            "</g>",
            "</svg>",
            "",
        ]
    )


def drawn_size(boxes: Boxes, drawing: Drawing) -> tuple[float, float]:
    """Return the width and height of a drawing with all boxes closed."""
    scene = _Scene(boxes, drawing, opened=False)
    return scene.width + 2 * MARGIN, scene.height + 2 * MARGIN


def lines_of(boxes: Boxes, drawing: Drawing, i: int) -> list[Line]:
    """Return the lines of text in a box."""
    box = boxes[drawing.boxes[i]]
    lines = [
        ("name", box.name),
        ("small", box.parameters),
        ("note", drawing.notes.get(i, "")),
        ("where", box.where or ""),
        ("tag", drawing.tags.get(i, "")),
    ]
    return [(kind, boxes.cut(text)) for kind, text in lines if text]


def width_of(text: str, character: float) -> float:
    """Return the approximate width of a text in a monospaced font."""
    return character * sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


class _Scene:
    """A drawing with its coordinates, and the scenes within its boxes."""

    def __init__(self, boxes: Boxes, drawing: Drawing, *, opened: bool) -> None:
        self._cut = boxes.cut
        self._drawing = drawing
        self._boxes = [boxes[number] for number in drawing.boxes]
        self._lines = [lines_of(boxes, drawing, i) for i in range(len(drawing.boxes))]
        self._inside = [
            [(title, _Scene(boxes, inner, opened=True)) for title, inner in box.inside]
            if opened
            else []
            for box in self._boxes
        ]
        self._sizes = [self._size(i) for i in range(len(self._boxes))]
        # In the layout, a box includes the type below it.
        around = [
            (max(w, width_of(self._cut(box.type), SMALL)), h + TYPE_HEIGHT)
            for box, (w, h) in zip(self._boxes, self._sizes, strict=True)
        ]
        self._at = position_boxes(drawing.arrangement, around)
        self._layer = {
            item: i for i, layer in enumerate(drawing.arrangement.layers) for item in layer
        }
        self.width, self.height = self._at.width, self._at.height

    def _header(self, i: int) -> float:
        return NAME_HEIGHT + LINE_HEIGHT * (len(self._lines[i]) - 1) + PADDING

    def _size(self, i: int) -> tuple[float, float]:
        width = max(
            width_of(text, NAME if kind == "name" else SMALL) for kind, text in self._lines[i]
        )
        width, height = width + 2 * PADDING, self._header(i)
        if self._inside[i]:
            scenes = [scene for _, scene in self._inside[i]]
            body = sum(max(scene.width, 80) + 2 * PADDING for scene in scenes) + PADDING
            width = max(width, body)
            height += max(scene.height for scene in scenes) + LINE_HEIGHT + 3 * PADDING
        return width, height

    def elements(self) -> Iterator[str]:
        """Yield the elements: edges first, boxes above them."""
        for link in self._drawing.arrangement.links:
            start = self._layer[link.start]
            from_top = link.start >= len(self._sizes)
            y = self._at.tops[start] + (0 if from_top else self._sizes[link.start][1])
            yield f'<path class="edge" d="{edge(link, self._at, start, y, self._end(link))}"/>'
        for i in range(len(self._boxes)):
            yield from self._box(i)

    def _end(self, link: Link) -> float:
        shift = 0.0 if link.port is None else port_shift(link, self._sizes[link.end][0])
        return self._at.centers[link.end] + shift

    def _box(self, i: int) -> Iterator[str]:
        box, (w, h) = self._boxes[i], self._sizes[i]
        x, y = self._at.centers[i] - w / 2, self._at.tops[self._layer[i]]
        classes = f"box {box.kind}" + " output" * (i in self._drawing.tags)
        yield f'<g class="{classes}" transform="translate({x:.1f},{y:.1f})">'
        yield f"<title>{escape(about(box))}</title>"
        yield f'<rect class="shape" width="{w:.1f}" height="{h:.1f}"/>'
        if box.kind == "shared":
            yield f'<rect class="double" x="3" y="3" width="{w - 6:.1f}" height="{h - 6:.1f}"/>'
        if i in self._drawing.cut:
            yield f'<text class="more" x="{w / 2:.1f}" y="-4">⋯</text>'
        at = PADDING / 2 + NAME_HEIGHT - 5
        for kind, text in self._lines[i]:
            yield f'<text class="{kind}" x="{w / 2:.1f}" y="{at:.1f}">{escape(text)}</text>'
            at += LINE_HEIGHT
        at = h + TYPE_HEIGHT - 4
        type = escape(self._cut(box.type))
        yield f'<text class="type" x="{w / 2:.1f}" y="{at:.1f}">{type}</text>'
        yield from self._inner_graphs(i)
        yield "</g>"

    def _inner_graphs(self, i: int) -> Iterator[str]:
        x, y = PADDING, self._header(i)
        for title, scene in self._inside[i]:
            w = max(scene.width, 80) + PADDING
            h = scene.height + LINE_HEIGHT + 2 * PADDING
            yield f'<rect class="inside" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"/>'
            yield f'<text class="title" x="{x + 5:.1f}" y="{y + 11:.1f}">{escape(title)}</text>'
            start = x + (w - scene.width) / 2
            yield f'<g transform="translate({start:.1f},{y + LINE_HEIGHT + PADDING:.1f})">'
            yield from scene.elements()
            yield "</g>"
            x += w + PADDING


def edge(link: Link, at: Coordinates, layer: int, y: float, end: float) -> str:
    """Return the path of a link: down to the end of its layer, then to the next one.

    Args:
        link: The link.
        at: The coordinates of the drawing.
        layer: The upper layer.
        y: The vertical start in that layer.
        end: The horizontal end.
    """
    x, bottom, top = at.centers[link.start], at.bottoms[layer], at.tops[layer + 1]
    middle = (bottom + top) / 2
    path = f"M{x:.1f},{y:.1f}V{bottom:.1f}C{x:.1f},{middle:.1f} {end:.1f},{middle:.1f} "
    path += f"{end:.1f},{top:.1f}"
    if link.port is not None:
        path += "m-3.5,-6l3.5,6l3.5,-6"
    return path


def about(box: Box) -> str:
    """Return the tooltip of a node."""
    lines = [box.name + (f" ({box.parameters})" if box.parameters else ""), box.type]
    lines += [box.code] if box.code != box.name else []
    return "\n".join([*lines, *([box.where] if box.where else [])])
