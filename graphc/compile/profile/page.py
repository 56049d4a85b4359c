"""A profile as a picture and as one HTML page that needs neither a network nor other files.

The picture has the whole call at the top, below it the user's lines, below these their operations,
and below a loop what is in its steps. The width of a box is its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING
from zlib import crc32

from graphc.draw.viewer import filled

if TYPE_CHECKING:
    from graphc.compile.profile.result import Profile, Row

HEIGHT = 20
"""The height of a box, in pixels."""

NARROWEST = 0.05
"""The smallest width of a box that is drawn, in percent of the picture."""


@dataclass
class Box:
    """A box of the picture.

    Attributes:
        label: What stands in it.
        colour: What decides its colour, the same in every picture; None for grey.
        seconds: Its time, with that of the boxes below it.
        below: The boxes below it, by their labels.
    """

    label: str
    colour: str | None
    seconds: float = 0.0
    below: dict[str, Box] = field(default_factory=dict)

    def add(self, labels: list[tuple[str, str | None]], seconds: float) -> None:
        """Add the time of what stands below it under these labels, each with its colour."""
        self.seconds += seconds
        if labels:
            (label, colour), *rest = labels
            self.below.setdefault(label, Box(label, colour)).add(rest, seconds)

    def placed(self, left: float, scale: float, depth: int) -> Iterator[tuple[Box, float, int]]:
        """Yield each box that is wide enough, with its left side in percent and its depth."""
        if self.seconds * scale >= NARROWEST:
            yield self, left, depth
            for box in sorted(self.below.values(), key=lambda box: -box.seconds):
                yield from box.placed(left, scale, depth + 1)
                left += box.seconds * scale


def _labels(row: Row) -> list[tuple[str, str | None]]:
    """The labels of a row's boxes, from the outside: a line, and the operation there."""
    found: list[tuple[str, str | None]] = []
    last: str | None = None
    for where, operation in row.frames:
        if where is not None and where != last:
            found.append((where, where))
        last = where or last
        found.append((operation, where))
    return found


def flame(profile: Profile) -> str:
    """The picture of a profile, an SVG element that is as wide as there is room."""
    root = Box(profile.title, None)
    for row in profile.rows:
        root.add(_labels(row), max(0.0, row.seconds))
    scale = 100 / root.seconds if root.seconds else 0.0
    placed = list(root.placed(0.0, scale, 0))
    height = HEIGHT * (1 + max((depth for _, _, depth in placed), default=0))
    boxes = "".join(_drawn(box, left, depth, scale) for box, left, depth in placed)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="flame" width="100%" height="{height}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">{boxes}</svg>'
    )


def _drawn(box: Box, left: float, depth: int, scale: float) -> str:
    """A box as an element that cuts off what does not fit into it."""
    share = box.seconds * scale
    hue = None if box.colour is None else crc32(box.colour.encode()) % 360
    fill = "#cfd2d6" if hue is None else f"hsl({hue} 60% 78%)"
    told = escape(f"{box.label}: {box.seconds * 1e3:.3f} ms, {share:.1f} %")
    return (
        f'<svg class="box" x="{left:.4f}%" y="{depth * HEIGHT}" width="{share:.4f}%" '
        f'height="{HEIGHT - 1}"><title>{told}</title>'
        f'<rect width="100%" height="100%" fill="{fill}" stroke="#fff" stroke-width="0.5"/>'
        f'<text x="4" y="14" fill="#1c1e21">{escape(box.label)}</text></svg>'
    )


def page(profile: Profile, text: str, *, whole: bool = True) -> str:
    """The picture of a profile and its text as HTML.

    Args:
        profile: What is shown.
        text: Its text.
        whole: Whether it is a page, in which a box can be made wider, or a part of one.
    """
    parts = {"picture": flame(profile), "text": escape(text), "title": escape(profile.title)}
    if not whole:
        return f"<div>{parts['picture']}<pre>{parts['text']}</pre></div>"
    return filled("graphc.compile.profile", "page.html", parts)
