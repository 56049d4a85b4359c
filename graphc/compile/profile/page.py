"""A profile as a flame graph and as one HTML page that needs neither a network nor other files.

The picture has the call at the top, then the user's lines, then their operations, and below a loop
the operations of its steps. The width of a box is its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING
from zlib import crc32

from graphc.draw.viewer import fill_template

if TYPE_CHECKING:
    from graphc.compile.profile.result import Profile, Row

HEIGHT = 20
"""The height of a box, in pixels."""

NARROWEST = 0.05
"""The smallest width of a box that is drawn, in percent of the picture."""


@dataclass
class FlameFrame:
    """A box of the picture.

    Attributes:
        label: The text in the box.
        colour: Text that decides its colour, the same in every picture; None for grey.
        seconds: Time of the box, including the boxes below it.
        below: The boxes below it, by their labels.
    """

    label: str
    colour: str | None
    seconds: float = 0.0
    below: dict[str, FlameFrame] = field(default_factory=dict)

    def add(self, labels: list[tuple[str, str | None]], seconds: float) -> None:
        """Add the time of a row whose boxes have these labels and colours."""
        self.seconds += seconds
        if labels:
            (label, colour), *rest = labels
            self.below.setdefault(label, FlameFrame(label, colour)).add(rest, seconds)

    def layout(self, x: float, scale: float, depth: int) -> Iterator[tuple[FlameFrame, float, int]]:
        """Yield each box that is wide enough, with its left side in percent and its depth."""
        if self.seconds * scale >= NARROWEST:
            yield self, x, depth
            for box in sorted(self.below.values(), key=lambda box: -box.seconds):
                yield from box.layout(x, scale, depth + 1)
                x += box.seconds * scale


def _labels(row: Row) -> list[tuple[str, str | None]]:
    """Return the labels of a row's boxes, outermost first: a line, and the operation there."""
    labels: list[tuple[str, str | None]] = []
    last: str | None = None
    for where, operation in row.frames:
        if where is not None and where != last:
            labels.append((where, where))
        last = where or last
        labels.append((operation, where))
    return labels


def flame(profile: Profile) -> str:
    """Return the picture of a profile, an SVG element of the full width."""
    root = FlameFrame(profile.title, None)
    for row in profile.rows:
        root.add(_labels(row), max(0.0, row.seconds))
    scale = 100 / root.seconds if root.seconds else 0.0
    boxes_with_positions = list(root.layout(0.0, scale, 0))
    height = HEIGHT * (1 + max((depth for _, _, depth in boxes_with_positions), default=0))
    boxes = "".join(_draw(box, x, depth, scale) for box, x, depth in boxes_with_positions)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="flame" width="100%" height="{height}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">{boxes}</svg>'
    )


def _draw(box: FlameFrame, x: float, depth: int, scale: float) -> str:
    """Return the SVG element of a box, which clips its text."""
    share = box.seconds * scale
    hue = None if box.colour is None else crc32(box.colour.encode()) % 360
    fill = "#cfd2d6" if hue is None else f"hsl({hue} 60% 78%)"
    title = escape(f"{box.label}: {box.seconds * 1e3:.3f} ms, {share:.1f} %")
    return (
        f'<svg class="box" x="{x:.4f}%" y="{depth * HEIGHT}" width="{share:.4f}%" '
        f'height="{HEIGHT - 1}"><title>{title}</title>'
        f'<rect width="100%" height="100%" fill="{fill}" stroke="#fff" stroke-width="0.5"/>'
        f'<text x="4" y="14" fill="#1c1e21">{escape(box.label)}</text></svg>'
    )


def page(profile: Profile, text: str, *, standalone: bool = True) -> str:
    """Return the picture of a profile and its text as HTML.

    Args:
        profile: The profile to show.
        text: The profile as text.
        standalone: Whether to return a page, with zoom, or an element.
    """
    fields = {"picture": flame(profile), "text": escape(text), "title": escape(profile.title)}
    if not standalone:
        return f"<div>{fields['picture']}<pre>{fields['text']}</pre></div>"
    return fill_template("graphc.compile.profile", "page.html", fields)
