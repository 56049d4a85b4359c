"""Pages and pictures in notebooks: complete, of bounded size, and made without compiling."""

from __future__ import annotations

import json
import re
import sys
import webbrowser
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import graphc
import graphc.tensor as gt
from graphc.draw.show import MAX_BYTES, repr_html
from graphc.errors import ArgumentError
from graphc.ir import Graph

x = gt.vector("x")


def data_of(html: str) -> Any:
    """What a page's script reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


def framed(html: str) -> str:
    """The page inside a frame, as a browser reads the attribute."""
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', html)
    assert found
    return unescape(found[1])


def names(data: Any, view: int = 0) -> list[str]:
    return [data["boxes"][i]["n"] for i in data["views"][view]["drawing"]["b"]]


def test_a_function_is_drawn_as_rewritten_and_as_written(tmp_path: Path) -> None:
    w = graphc.shared(2.0, name="w")
    f = graphc.function([x], {"a": gt.log(1 + x), "b": x * w}, "NUMPY", updates=[(w, w + 1)])
    path = f.show(tmp_path / "f.html")
    data = data_of(path.read_text(encoding="utf-8"))
    assert [view["title"] for view in data["views"]] == ["rewritten", "as written"]
    assert "log1p" in names(data)
    assert "log" in names(data, 1)
    tags = set(data["views"][1]["drawing"]["g"].values())
    assert tags == {"output['a']", "output['b']", "new value of w"}


@pytest.mark.parametrize("asked", [gt.exp(x), [gt.exp(x)], Graph([x], [gt.exp(x)])], ids=repr)
def test_arrays_lists_and_graphs_are_drawn(asked: Any, tmp_path: Path) -> None:
    path = graphc.show(asked, str(tmp_path / "y.html"))
    assert sorted(names(data_of(path.read_text(encoding="utf-8")))) == ["exp", "x"]


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ArgumentError, match="A drawing of 3"):
        graphc.show(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="which is not a graph"):
        graphc.show([x, 1])  # type: ignore[list-item]


def test_a_page_refers_to_nothing_outside_and_takes_names_as_text(tmp_path: Path) -> None:
    wicked = "</script><script>alert('{{title}}')</script><!-- & \" '"
    z = gt.vector(wicked)
    html = graphc.show(gt.exp(z), tmp_path / "z.html").read_text(encoding="utf-8")
    for word in ("http:", "https:", "url(", "@import", "fetch(", "innerHTML", "{{"):
        assert word not in html.replace("{{title}}", "")
    assert html.count("<script") == 2
    assert wicked in names(data_of(html))


def test_notebooks_show_functions_graphs_and_arrays_without_compiling() -> None:
    f = graphc.function([x], gt.log(1 + x), "NUMPY")
    for shown in (f, f.requested, f.requested.outputs[0]):
        html = shown._repr_html_()  # type: ignore[attr-defined]
        assert ">log</text>" in html
        assert "<script" not in html
        assert "<iframe" not in html
    assert "graph" not in vars(f)


def test_a_large_graph_is_drawn_in_part_and_says_so(tmp_path: Path) -> None:
    y = x
    for i in range(3000):
        y = gt.sin(y) + x * float(i)
    assert y._repr_html_() == repr_html(y)
    html = repr_html(y)
    assert len(html.encode()) <= MAX_BYTES
    assert "nearest to the outputs" in html
    assert "graphc.show draws a page" in html
    data = data_of(graphc.show(y, tmp_path / "y.html").read_text(encoding="utf-8"))
    nodes = next(view for view in data["views"] if view["title"] == "graph")
    assert "graphc.dprint" in nodes["summary"]
    assert nodes["drawing"]["c"]


def test_an_operation_of_many_operands_has_a_short_title_and_a_short_text(
    tmp_path: Path,
) -> None:
    wide = gt.concatenate([x * float(i) for i in range(1000)])
    assert len(repr_html(wide).encode()) <= MAX_BYTES
    html = graphc.show(wide, tmp_path / "wide.html").read_text(encoding="utf-8")
    title = re.search("<title>(.*)</title>", html)
    assert title
    assert len(title[1]) <= 80
    assert max(len(box["c"]) for box in data_of(html)["boxes"]) <= 240


def test_a_graph_without_nodes_is_a_page(tmp_path: Path) -> None:
    html = graphc.show(Graph([], []), tmp_path / "none.html").read_text(encoding="utf-8")
    assert names(data_of(html)) == []
    assert "<svg" in repr_html(Graph([], []))


def test_graphs_within_graphs_count_and_end_somewhere(tmp_path: Path) -> None:
    def nested(level: int, y: Any) -> Any:
        inner = gt.scalar()
        body = gt.sin(inner) if level == 0 else nested(level - 1, inner)
        return graphc.OpFromGraph([inner], [body], inline=False)(y)

    y = nested(30, gt.scalar("z"))
    data = data_of(graphc.show(y, tmp_path / "y.html", limit=150).read_text(encoding="utf-8"))
    assert 10 < len(data["boxes"]) <= 150
    assert len(y._repr_html_().encode()) <= MAX_BYTES


def test_a_notebook_displays_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown: list[dict[str, str]] = []
    shell = SimpleNamespace(kernel=1, display_pub=SimpleNamespace(publish=shown.append))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    graphc.show(gt.exp(x), tmp_path / "y.html")
    (given,) = shown
    assert "exp" in names(data_of(framed(given["text/html"])))


def test_a_browser_is_opened_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    path = graphc.show(gt.exp(x), browser=True)
    assert opened == [path.resolve().as_uri()]
    path.unlink()
    graphc.show(gt.exp(x)).unlink()  # no terminal, so no browser
    assert len(opened) == 1
