"""SVG and dot: well-formed, every node once, edges that end at boxes, names as text alone."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.draw.dot import dot
from graphc.draw.model import Boxes, Drawing, inner_graphs
from graphc.draw.svg import svg
from graphc.errors import ArgumentError
from graphc.ir import Graph, Node, toposort
from tests.rewrite.random_graphs import random_graph

Element = ElementTree.Element
NAMESPACE = "{http://www.w3.org/2000/svg}"
x = gt.vector("x")


def drawn(*outputs: Node) -> tuple[Boxes, Drawing]:
    boxes = Boxes(1000)
    inputs = [node for node in toposort(outputs) if not node.inputs]
    return boxes, boxes.graph(Graph(inputs, outputs))


def looped() -> gt.Tensor:
    """A choice between a loop and a kept graph."""
    d, w = gt.scalar("d"), graphc.shared(2.0, name="w")
    average = graphc.scan(lambda now, last: d * last + (1 - d) * now, x, x[0])
    kept = graphc.OpFromGraph([x], [gt.exp(x) * 2], inline=False, name="twice")
    return graphc.ifelse(d > w, average.sum(), kept(x).sum() + gt.constant(np.arange(30.0)).sum())


def of_class(element: Element, name: str) -> list[Element]:
    return [part for part in element if name in (part.get("class") or "").split()]


def texts(element: Element, name: str) -> list[str]:
    return ["".join(part.itertext()) for part in of_class(element, name)]


def boxes_of(element: Element) -> list[Element]:
    return [part for part in element.iter() if "box" in (part.get("class") or "").split()]


SAMPLES = [random_graph(seed).outputs for seed in range(12)]


@pytest.mark.parametrize("outputs", [*SAMPLES, [looped()]], ids=str)
def test_svg_is_well_formed_and_has_every_node_once(outputs: list[Node]) -> None:
    boxes, drawing = drawn(*outputs)
    root = ElementTree.fromstring(svg(boxes, drawing, opened=False))
    shown = Counter(texts(box, "name")[0] for box in boxes_of(root))
    assert shown == Counter(map(boxes.cut, (boxes[i].name for i in drawing.boxes)))
    assert len(drawing.boxes) == len(toposort(outputs))


def places(group: Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each box, in the coordinates of what is around it."""
    found = []
    for box in of_class(group, "box"):
        left, top = map(float, re.findall(r"-?[\d.]+", box.get("transform") or ""))
        (shape,) = of_class(box, "shape")
        w, h = float(shape.get("width") or 0), float(shape.get("height") or 0)
        found.append((left, top, left + w, top + h))
    return found


@pytest.mark.parametrize("outputs", [*SAMPLES, [looped()]], ids=str)
def test_boxes_lie_apart_and_inside_and_edges_end_at_them(outputs: list[Node]) -> None:
    root = ElementTree.fromstring(svg(*drawn(*outputs)))
    for group in root.iter(f"{NAMESPACE}g"):
        found = places(group)
        for a, b in combinations(found, 2):
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        for path in of_class(group, "edge"):
            numbers = [float(n) for n in re.findall(r"-?[\d.]+", path.get("d") or "")]
            (x0, y0, _), (x1, y1) = numbers[:3], numbers[7:9]
            if "m" in (path.get("d") or ""):
                assert any(a[0] < x1 < a[2] and abs(y1 - a[1]) < 0.11 for a in found)
            on_box = any(
                abs((a[0] + a[2]) / 2 - x0) < 0.11 and abs(y0 - a[3]) < 0.11 for a in found
            )
            between = all(not (a[0] < x0 < a[2] and a[1] < y0 < a[3]) for a in found)
            assert on_box or between


def test_loops_branches_and_kept_graphs_are_drawn_inside_their_boxes() -> None:
    root = ElementTree.fromstring(svg(*drawn(looped())))
    titles = [part.text for part in root.iter() if part.get("class") == "title"]
    assert titles.count("if true") == titles.count("if false") == 1
    assert "step" in titles
    notes = [part.text for part in root.iter() if part.get("class") == "note"]
    assert "carry 0, first x[0]" in notes
    assert "element of x" in notes
    tags = [part.text for part in root.iter() if part.get("class") == "tag"]
    assert "next carry 0, row 0" in tags
    closed = ElementTree.fromstring(svg(*drawn(looped()), opened=False))
    assert len(boxes_of(closed)) < len(boxes_of(root))


def test_inputs_that_nothing_needs_are_drawn_of_a_graph_and_not_of_a_branch() -> None:
    y, c = gt.vector("y"), gt.scalar("c")
    boxes = Boxes(100)
    drawing = boxes.graph(Graph([x, y, c], [graphc.ifelse(c > 0, gt.exp(x), gt.sin(x) * y)]))
    assert {"x", "y", "c"} <= {boxes[i].name for i in drawing.boxes}
    (branches,) = [boxes[i].inside for i in drawing.boxes if boxes[i].inside]
    assert sorted(len(held.boxes) for _, held in branches) == [1, 1]


def test_every_graph_that_an_operation_holds_tells_what_it_takes_and_gives() -> None:
    holders = [node for node in toposort([looped()]) if node.op.graphs()]
    assert holders
    for node in holders:
        for each, graph in zip(inner_graphs(node), node.op.graphs(), strict=True):
            assert each.graph is graph
            assert len(each.takes) == len(graph.inputs)
            assert len(each.gives) == len(graph.outputs)


def test_kinds_of_nodes_are_told_apart() -> None:
    w, c = graphc.shared([1.0], name="w"), gt.constant(np.arange(20.0))
    boxes, drawing = drawn(x.sum() * w + 2.0, c)
    kinds = {boxes[i].name: boxes[i].kind for i in drawing.boxes}
    assert kinds["x"] == "input"
    assert kinds["w"] == "shared"
    assert kinds["2.0"] == "constant"
    assert kinds["array"] == "captured"
    assert kinds["sum"] == "operation"


WICKED = "<script>alert(1)</script> & ]]> \" ' \x00\ud800 --> \\"


def test_names_are_text_and_nothing_else() -> None:
    z = gt.vector(WICKED)
    boxes, drawing = drawn(gt.exp(z))
    root = ElementTree.fromstring(svg(boxes, drawing).encode())
    (name,) = [
        texts(box, "name")[0] for box in boxes_of(root) if "input" in (box.get("class") or "")
    ]
    plain = WICKED.replace("\x00\ud800", "\ufffd\ufffd")
    assert name == boxes.cut(plain)
    assert not [*root.iter(f"{NAMESPACE}script")]
    text = dot(boxes, drawing)
    quoted = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    assert any("alert(1)" in part for part in quoted)
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    assert "script" not in outside


def test_a_line_of_the_program_is_in_the_box_and_a_shared_constant_has_none() -> None:
    y = gt.sin(x) * 2.0
    boxes, drawing = drawn(y)
    lines = {boxes[i].name: boxes[i].where for i in drawing.boxes}
    assert lines["multiply"] == y.where
    assert lines["2.0"] is None


def test_dot_has_every_node_and_an_edge_for_every_operand() -> None:
    outputs = [gt.exp(x) * x + gt.sin(x), looped()]
    boxes, drawing = drawn(*outputs)
    text = dot(boxes, drawing, opened=False)
    assert len(re.findall(r"^n_\d+ \[", text, re.MULTILINE)) == len(drawing.boxes)
    operands = sum(len(node.inputs) for node in toposort(outputs))
    assert len(re.findall(r"^n_\d+ -> n_\d+ \[label=", text, re.MULTILINE)) == operands
    opened = dot(boxes, drawing)
    assert opened.count("{") == opened.count("}")
    assert opened.count("subgraph cluster_") >= 4


def test_pydotprint_writes_svg_and_dot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    f = graphc.function([x], [gt.log(1 + x), gt.sin(x)], "NUMPY")
    for name in ("a.svg", "a.dot"):
        graphc.printing.pydotprint(f, tmp_path / name)
        assert str(tmp_path / name) in capsys.readouterr().out
    assert "log1p" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (tmp_path / "a.dot").read_text(encoding="utf-8").startswith("digraph")
    image = graphc.printing.pydotprint(gt.exp(x), return_image=True, max_label_size=3)
    assert ElementTree.fromstring(image).tag == f"{NAMESPACE}svg"
    with pytest.raises(ArgumentError, match="no format 'png'"):
        graphc.printing.pydotprint(f, tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
