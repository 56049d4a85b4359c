"""Drawings of large graphs by the lines of the user's program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import graphc
import graphc.tensor as gt
from graphc.draw.lines import details, group_by_line
from graphc.draw.show import MAX_BYTES, repr_html
from graphc.ir import toposort
from graphc.tensor import Tensor

LAYERS = 8


def normalize(x: Tensor) -> Tensor:
    centered = x - x.mean(-1, keepdims=True)
    return centered / gt.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def network(x: Tensor) -> Tensor:
    for i in range(LAYERS):
        w = graphc.shared([[1.0, 2.0], [3.0, 4.0]], name=f"w{i}")
        x = normalize(x + gt.tanh(x @ w)).astype("float32").astype("float64")
    return x


def data_of(path: Path) -> Any:
    text = re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert text
    return json.loads(text[1])


def test_a_large_graph_is_first_drawn_by_lines_without_casts_and_lengths(tmp_path: Path) -> None:
    x = gt.matrix("x")
    y = network(x).sum()
    data = data_of(graphc.show(y, tmp_path / "y.html"))
    first, second = data["views"]
    assert (first["title"], second["title"]) == ("by line", "graph")
    assert "casts and lengths are inside" in first["summary"]
    shown = [data["boxes"][number] for number in first["drawing"]["b"]]
    names = [box["n"] for box in shown]
    assert len(shown) < len(second["drawing"]["b"]) / 2
    assert not {"cast", "shape", "length"} & set(names)
    assert sum("gt.tanh(x @ w)" in name for name in names) == LAYERS
    # A box of a line opens to its operations.
    line = next(box for box in shown if "gt.tanh" in box["n"])
    ((title, inner),) = line["i"]
    assert title == "operations"
    assert "tanh" in [data["boxes"][number]["n"] for number in inner["b"]]


def test_groups_of_lines_come_after_the_groups_of_their_operands() -> None:
    x = gt.matrix("x")
    y = network(x)
    nodes = toposort([graphc.grad(y.sum(), x), y])
    hidden = details(nodes)
    groups = group_by_line([node for node in nodes if node not in hidden], hidden)
    index = {node: i for i, group in enumerate(groups) for node in group}
    assert len(index) == len(nodes) - len(hidden)
    for node, i in index.items():
        assert all(index.get(x, i) <= i for x in node.inputs)
    assert all(len({node.where for node in group}) == 1 for group in groups)


def test_a_notebooks_picture_of_a_large_function_is_small_and_compiles_nothing() -> None:
    x = gt.matrix("x")
    y = network(x)
    f = graphc.function([x], [y, graphc.grad(y.sum(), x)], "NUMPY")
    html = repr_html(f)
    assert len(html.encode()) <= MAX_BYTES
    assert "<script" not in html
    assert "f.show() draws a page" in html
    assert "graph" not in vars(f)


def test_a_small_graph_is_drawn_by_nodes(tmp_path: Path) -> None:
    data = data_of(graphc.show(gt.exp(gt.vector("x")), tmp_path / "y.html"))
    assert [view["title"] for view in data["views"]] == ["graph"]
