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
from graphc.ir.print import describe
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


def looped() -> gt.Tensor:
    """The gradient of a loop, in which several rules change several loops."""
    d = gt.scalar("d")
    average = graphc.scan(lambda now, last: d * last + (1 - d) * now * 1.0, x, x[0])
    return graphc.grad((average**2).sum(), d)


def test_repeated_changes_are_listed_once_after_a_summary() -> None:
    x = gt.vector("x")
    y = x
    for i in range(20):
        y = gt.sin(y * 1 + i)
    lines = str(explain(y)).splitlines()
    assert re.fullmatch(
        r"\d+ changes by \d+ rules, \d+ -> \d+ nodes; most: product_with_one \(20\).*", lines[0]
    )
    (repeated,) = [line for line in lines if line.startswith("  product_with_one")]
    assert repeated.endswith("20 times, the first:")
    assert not any("times" in line for line in str(explain(gt.log(1 + x * 1))).splitlines())


def test_no_change_is_told_by_the_same_text_twice() -> None:
    told = explain([looped(), graphc.ifelse(y.sum() > 0, gt.log(1 + x * 1), x)])
    lines = str(told).splitlines()
    pairs = [(a, b) for a, b in pairwise(map(str.strip, lines)) if b.startswith("-> ")]
    assert len(pairs) > 10
    assert [a for a, b in pairs if b == f"-> {a}"] == []


def test_rules_that_changed_one_loop_together_are_told_together() -> None:
    first = graphc.scan(lambda now, last: 2 * last + now, x, x[0])
    both = graphc.scan(
        lambda now, last, total: (2 * last + now, total + last), x, [x[0], gt.constant(0.0)]
    )
    told = explain([first[-1], both[1]])
    names = [
        line.split("   ")[0] for line in str(told).splitlines() if "loops_side_by_side" in line
    ]
    assert {*names} == {"  carries_that_agree, loops_side_by_side, unused_parts_of_loops"}
    records = [change for report in told.passes for change in report.records]
    assert all(change.before is not change.after for change in records)


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
            assert f"{nodes[shown[side]]['text']} {nodes[shown[side]]['type']}" == describe(made)
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
    monkeypatch.setattr(page_module, "MAX_CHANGES", 20)
    told = explain([gt.log(1 + 1 * x * float(i + 2)) for i in range(25)])
    passes = Page(told.html()).data["passes"]
    assert sum(len(p["changes"]) for p in passes) == 20
    everything = sum(len(report.records) for report in told.passes)
    assert 20 + sum(p["hidden"] for p in passes) == everything


def test_a_page_of_thousands_of_nodes_is_a_few_megabytes() -> None:
    deep = x
    for i in range(500):
        deep = gt.log(1 + gt.exp(deep * 1)) + y * float(i)
    assert len(explain(deep).html()) < 3e6


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


# What the page draws.


def drawn(data: Any, step: Any) -> list[list[str]]:
    """The names in the drawings of both sides of a step."""
    drawings = [data["drawings"][side] for side in step["sides"]]
    return [[data["boxes"][i]["n"] for i in drawing["b"]] for drawing in drawings]


def marked(data: Any, step: Any) -> dict[str, str]:
    return {data["boxes"][int(i)]["n"]: mark for i, mark in step["marks"].items()}


def test_both_sides_are_drawn_and_what_differs_is_marked() -> None:
    data = Page(explain(node * y).html()).data
    canonicalize = data["passes"][0]
    assert [sorted(names) for names in drawn(data, canonicalize)] == [
        ["1.0", "add", "log", "multiply", "multiply", "x", "y"],
        ["1.0", "add", "log", "multiply", "x", "y"],
    ]
    # The sum, the logarithm and the other product do the same as before, with new operands.
    assert [*canonicalize["marks"].values()] == ["gone"]
    assert marked(data, canonicalize) == {"multiply": "gone"}
    (change,) = data["passes"][1]["changes"]
    assert [sorted(names) for names in drawn(data, change)] == [
        ["1.0", "add", "log", "x"],
        ["log1p", "x"],
    ]
    assert [data["drawings"][side]["g"] for side in change["sides"]] == [{}, {}]
    assert [data["drawings"][side]["g"] for side in canonicalize["sides"]] == [
        {"6": "output 0"},
        {"5": "output 0"},
    ]
    assert marked(data, change) == {"1.0": "gone", "add": "gone", "log": "gone", "log1p": "new"}


def test_what_differs_in_the_step_of_a_loop_is_marked_there() -> None:
    total = graphc.scan(lambda now, last: last + gt.log(1 + now), x, 0.0)[-1]
    data = Page(explain(total, including=["stabilize", "steps_of_loops"]).html()).data
    loops = data["passes"][0]
    assert marked(data, loops)["log1p"] == "new"
    assert marked(data, loops)["log"] == "gone"
    assert marked(data, loops)["scan"] == "within"
    for side, name in zip(loops["sides"], ("log", "log1p"), strict=True):
        (scan,) = [box for i in data["drawings"][side]["b"] if (box := data["boxes"][i])["i"]]
        ((title, step),) = scan["i"]
        assert title == "step"
        assert name in [data["boxes"][i]["n"] for i in step["b"]]


def test_a_loop_over_changed_operands_is_not_marked() -> None:
    data = Page(explain(looped()).html()).data
    step = next(step for step in data["passes"] if step["name"] == "canonicalize")
    found = marked(data, step)
    assert found["subtract"] == "new"
    assert "scan" not in found
    assert all("scan" in names for names in drawn(data, step))


def test_of_a_large_graph_what_differs_is_drawn() -> None:
    deep = gt.log(1 + x)
    for i in range(400):
        deep = gt.sin(deep) + y * float(i + 2)
    data = Page(explain([deep, x]).html()).data
    for step in data["passes"]:
        for names in drawn(data, step):
            assert 0 < len(names) <= page_module.MAX_DRAWN
    stabilize = next(step for step in data["passes"] if step["name"] == "stabilize")
    assert "add" in drawn(data, stabilize)[0]


def test_steps_beyond_the_most_boxes_are_told_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MAX_BOXES", 10)
    data = Page(explain(node).html()).data
    assert data["passes"][0]["sides"]
    assert data["passes"][1]["sides"] is None
