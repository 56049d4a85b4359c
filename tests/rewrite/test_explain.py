"""``explain``: what it says, and of what."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import Graph
from graphc.ir.print import described
from graphc.rewrite import explain, page as page_module

x, y = gt.vector("x"), gt.vector("y")
node = gt.log(1 + x * 1)


def test_each_change_has_rule_line_before_and_after() -> None:
    text = re.sub(r"\d+\.\d ms", "0.0 ms", str(explain(node)))
    line = node.where
    assert text.splitlines()[:8] == [
        "canonicalize: 0.0 ms, 5 -> 4 nodes",
        f"  product_with_one   {line}",
        "    1.0 * x",
        "    -> x",
        "stabilize: 0.0 ms, 4 -> 2 nodes",
        f"  log_of_one_plus   {line}",
        "    log(x + 1.0)",
        "    -> log1p(x)",
    ]
    assert text.splitlines()[-2:] == ["result", "  log1p(x)"]


@pytest.mark.parametrize("asked", [node, [node], Graph([x], [node]), Graph([y, x], [node])])
def test_arrays_lists_and_graphs_are_explained(asked: object) -> None:
    assert explain(asked).graph.outputs == (gt.log1p(x),)  # type: ignore[arg-type]


def test_left_out_rules_are_left_out() -> None:
    assert explain(node, excluding=["stabilize"]).graph.outputs == (gt.log(1 + x),)


def test_long_expressions_are_cut() -> None:
    long = x
    for _ in range(1000):
        long = gt.sin(long) + y
    text = str(explain(gt.log(1 + long)))
    assert max(map(len, text.splitlines())) < 250


# The page.


class Page(HTMLParser):
    """What a page is made of: elements, attributes, and the data its script reads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "input", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data

    @property
    def data(self) -> Any:
        # The data come first among the scripts.
        return json.JSONDecoder().raw_decode(self.texts["script"])[0]


def changes_of(page: Page) -> list[Any]:
    return [change for told in page.data["passes"] for change in told["changes"]]


def test_the_page_has_every_change_with_meaning_line_and_both_sides() -> None:
    told = explain([node, gt.sum(gt.zeros_like(x) + y)])
    page = Page(told.html())
    assert not page.open
    nodes = page.data["nodes"]
    records = [change for report in told.passes for change in report.records]
    assert len(records) >= 3
    for change, shown in zip(records, changes_of(page), strict=True):
        assert shown["rule"] == change.rule.name
        assert shown["meaning"] == change.rule.meaning
        assert shown["where"] == change.before.where
        for side, made in (("before", change.before), ("after", change.after)):
            assert f"{nodes[shown[side]]['text']} {nodes[shown[side]]['type']}" == described(made)
            assert len(nodes[shown[side]]["inputs"]) == len(made.inputs)


def test_the_page_has_each_pass_with_its_time_and_the_graph_around_it() -> None:
    told = explain(node)
    passes = Page(told.html()).data["passes"]
    assert [p["name"] for p in passes] == [report.name for report in told.passes]
    for shown, report in zip(passes, told.passes, strict=True):
        assert shown["ms"] == report.seconds * 1e3
        assert shown["sizes"] == [report.before, report.after]
    for first, second in pairwise(passes):
        assert first["after"] == second["before"]


def test_the_page_refers_to_nothing_outside() -> None:
    page = Page(explain(node).html())
    assert not {"link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert not {"src", "href", "action", "data", "srcset"} & {name for name, _ in page.attributes}
    for word in ("http:", "https:", "url(", "@import", "fetch(", "XMLHttpRequest", "innerHTML"):
        assert word not in explain(node).html()


def test_names_cannot_break_out_of_the_page() -> None:
    wicked = "</script><script>alert('{{title}}')</script><!-- \u2028 & \" '"
    z = gt.vector(wicked)
    page = Page(explain(gt.log(1 + z)).html())
    assert page.tags.count("script") == 2
    assert wicked in {told["text"] for told in page.data["nodes"]}
    framed = explain(gt.log(1 + z))._repr_html_()
    frame = Page(framed)
    assert frame.tags == ["iframe"]
    assert dict(frame.attributes)["srcdoc"] == explain_without_times(framed)


def explain_without_times(framed: str) -> str:
    """The page inside a frame, as a browser reads the attribute."""
    return unescape(framed.partition('srcdoc="')[2].rpartition('" style=')[0])


def test_the_page_is_saved(tmp_path: Path) -> None:
    told = explain(node)
    path = told.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == told.html()
    assert told.save(str(path)) == path


def test_a_page_says_how_many_changes_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MOST_CHANGES", 20)
    told = explain([gt.log(1 + 1 * x * float(i + 2)) for i in range(25)])
    passes = Page(told.html()).data["passes"]
    assert sum(len(p["changes"]) for p in passes) == 20
    everything = sum(len(report.records) for report in told.passes)
    assert 20 + sum(p["hidden"] for p in passes) == everything


def test_a_page_of_thousands_of_nodes_is_a_few_megabytes() -> None:
    deep = x
    for i in range(1000):
        deep = gt.log(1 + gt.exp(deep * 1)) + y * float(i)
    assert len(explain(deep).html()) < 5e6


def test_a_compiled_function_is_explained_as_its_mode_has_it() -> None:
    w = graphc.shared(1.0)
    update = [(w, gt.log(1 + w * 1))]
    f = graphc.function([x, graphc.In(gt.vector("other"))], node, "NUMPY", update,
                        on_unused_input="ignore")  # fmt: skip
    told = explain(f)
    assert told.graph.outputs == (gt.log1p(x), gt.log1p(w))
    plain = f.mode.excluding("stabilize")
    g = graphc.function([x], node, plain)
    assert explain(g).graph.outputs == (gt.log(1 + x),)
    assert explain(g, excluding=()).graph.outputs == (gt.log1p(x),)
