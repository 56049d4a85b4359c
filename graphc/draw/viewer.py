"""Drawings as a page of HTML that needs neither a network nor other files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from graphc.draw import layout, svg
from graphc.draw.model import Box, Boxes, Drawing

NUMBERS = {
    "name": svg.NAME, "small": svg.SMALL, "nameHeight": svg.NAME_HEIGHT,
    "lineHeight": svg.LINE_HEIGHT, "typeHeight": svg.TYPE_HEIGHT, "padding": svg.PADDING,
    "gap": layout.GAP, "layerGap": layout.LAYER_GAP, "stiff": layout.STIFF,
    "passes": layout.PASSES, "steep": layout.STEEP, "highestGap": layout.HIGHEST_GAP,
}  # fmt: skip
"""What the script has to know of the layout."""

LEGEND = {
    "input": "input",
    "shared": "shared variable",
    "captured": "captured array",
    "constant": "constant",
    "operation": "operation",
    "holder": "holds graphs: click to open",
}
"""What the looks of boxes mean."""


def told(boxes: Boxes) -> dict[str, Any]:
    """Return boxes as data for the script."""
    return {
        "boxes": [_box(box) for box in boxes.all],
        "numbers": {**NUMBERS, "longest": boxes.longest},
    }


def _box(box: Box) -> dict[str, Any]:
    return {
        "k": box.kind,
        "n": box.name,
        "p": box.parameters,
        "t": box.type,
        "w": box.where,
        "c": box.code,
        "i": [[title, told_drawing(held)] for title, held in box.inside],
    }


def told_drawing(drawing: Drawing) -> dict[str, Any]:
    """Return a drawing as data for the script."""
    return {
        "b": drawing.boxes,
        "l": drawing.arrangement.layers,
        "e": [(x.start, x.end, x.port, x.ports) for x in drawing.arrangement.links],
        "n": drawing.notes,
        "g": drawing.tags,
        "c": sorted(drawing.cut),
        "m": drawing.partial,
    }


def page(title: str, boxes: Boxes, views: Mapping[str, tuple[Drawing, str]], text: str) -> str:
    """Return a page that shows one of several drawings.

    Args:
        title: What they are of.
        boxes: The boxes that they refer to.
        views: Each drawing by its title, with a remark.
        text: What is shown where scripts are switched off.
    """
    shown = [
        {"title": name, "drawing": told_drawing(drawing), "summary": summary}
        for name, (drawing, summary) in views.items()
    ]
    parts = {"title": escape(title), "text": escape(text), "legend": legend()}
    data = {**told(boxes), "views": shown}
    return filled("graphc.draw", "page.html", {**parts, **assets(data)})


def assets(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts of a page that show drawings: its data, the script and the style."""
    folder = files("graphc.draw")
    # Nothing in a script element is text: no </script> and no <!-- may come in it.
    plain = json.dumps(data, separators=(",", ":"))
    return {
        "data": re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", plain),
        "viewer": folder.joinpath("viewer.js").read_text(encoding="utf-8"),
        "style": folder.joinpath("style.css").read_text(encoding="utf-8"),
    }


def filled(folder: str, name: str, parts: Mapping[str, str]) -> str:
    """Return a template with its parts filled in, which are HTML already.

    ``look`` is a part of every page: its colours, and how it shows headings, buttons and fields.
    """
    look = files("graphc.draw").joinpath("page.css").read_text(encoding="utf-8")
    parts = {**parts, "look": look}
    template = files(folder).joinpath(name).read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def legend(kinds: Sequence[str] = tuple(LEGEND)) -> str:
    """Return the looks of boxes with their meanings, as HTML."""
    found = []
    for kind in kinds:
        double = '<rect class="double" x="4" y="4" width="20" height="8"/>'
        found.append(
            '<span class="key"><svg class="graph" width="28" height="16" aria-hidden="true" '
            f'style="vertical-align: -3px"><g class="{kind}">'
            '<rect class="shape" x="1" y="1" width="26" height="14"/>'
            f"{double if kind == 'shared' else ''}</g></svg> {LEGEND[kind]}</span>&emsp;"
        )
    return "".join(found)
