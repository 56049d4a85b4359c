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
"""The constants of the layout, for the script."""

LEGEND = {
    "input": "input",
    "shared": "shared variable",
    "captured": "captured array",
    "constant": "constant",
    "operation": "operation",
    "holder": "holds graphs: click to open",
}
"""The meanings of the styles of boxes."""


def boxes_data(boxes: Boxes) -> dict[str, Any]:
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
        "i": [[title, drawing_data(inner)] for title, inner in box.inside],
    }


def drawing_data(drawing: Drawing) -> dict[str, Any]:
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
        title: The title of the page.
        boxes: The boxes of the drawings.
        views: Each drawing by its title, with a remark.
        text: The text that is shown where scripts are off.
    """
    shown = [
        {"title": name, "drawing": drawing_data(drawing), "summary": summary}
        for name, (drawing, summary) in views.items()
    ]
    fields = {"title": escape(title), "text": escape(text), "legend": legend()}
    data = {**boxes_data(boxes), "views": shown}
    return fill_template("graphc.draw", "page.html", {**fields, **assets(data)})


def assets(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts of a page that show drawings: its data, the script and the style."""
    folder = files("graphc.draw")
    # Nothing in a script element is text: no </script> and no <!-- may come in it.
    plain = json.dumps(data, separators=(",", ":"))
    return {
        "data": re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", plain),
        "viewer": folder.joinpath("viewer.js").read_text(encoding="utf-8"),
        "style": folder.joinpath("style.css").read_text(encoding="utf-8"),
    }


def fill_template(folder: str, name: str, fields: Mapping[str, str]) -> str:
    """Return a template with its fields replaced by HTML.

    ``look``, the colours, headings, buttons and fields of every page, is one of the fields.
    """
    look = files("graphc.draw").joinpath("page.css").read_text(encoding="utf-8")
    fields = {**fields, "look": look}
    template = files(folder).joinpath(name).read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], template)


def legend(kinds: Sequence[str] = tuple(LEGEND)) -> str:
    """Return the styles of boxes with their meanings, as HTML."""
    keys = []
    for kind in kinds:
        double = '<rect class="double" x="4" y="4" width="20" height="8"/>'
        keys.append(
            '<span class="key"><svg class="graph" width="28" height="16" aria-hidden="true" '
            f'style="vertical-align: -3px"><g class="{kind}">'
            '<rect class="shape" x="1" y="1" width="26" height="14"/>'
            f"{double if kind == 'shared' else ''}</g></svg> {LEGEND[kind]}</span>&emsp;"
        )
    return "".join(keys)
