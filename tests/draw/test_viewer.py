"""Pages in a browser: their scripts run, boxes are there and open, and nothing is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import graphc
import graphc.tensor as gt
from tests.browser import asked

pytestmark = pytest.mark.exhaustive

x = gt.vector("x")


def totals() -> graphc.Function:
    y = graphc.scan(lambda x_t, y: gt.tanh(x_t + y), x, outputs_info=0.0)
    return graphc.function([x], [y, gt.log(1 + x)], mode="NUMPY")


@pytest.fixture
def shown(tmp_path: Path) -> str:
    """The page of a function with a loop, as rewritten and as written."""
    return totals().show(tmp_path / "f.html").read_text(encoding="utf-8")


def test_a_page_that_fails_or_loads_something_is_found_out() -> None:
    page = "<html><head></head><body>{}</body></html>"
    assert asked(page.format("<p>1</p>"), "return texts('p')") == (["1"], [])
    _, wrong = asked(page.format("<script>absent()</script>"), "return 0")
    assert wrong == ["error: Uncaught ReferenceError: absent is not defined"]
    for part in (
        "<img src='http://127.0.0.1:9/a'>",
        "<script>fetch('http://127.0.0.1:9/a')</script>",
    ):
        _, wrong = asked(page.format(part), "return 0")
        assert "request: http://127.0.0.1:9/a" in wrong
    covered = "<b>1</b><div style='position: fixed; inset: 0'></div>"
    assert "not where it is pressed" in asked(page.format(covered), "press(all('b')[0])")[1][0]


def test_a_page_draws_its_boxes_and_edges(shown: str) -> None:
    script = """
    const size = (one) => one.getBoundingClientRect();
    return {
      names: texts(".pane .box > text.name").sort(), edges: all(".pane path.edge").length,
      drawn: all(".pane .box").every((one) => size(one).width > 20 && size(one).height > 10),
      hidden: all("[hidden]").length, summary: texts("#summary")[0],
    };"""
    found, wrong = asked(shown, script)
    assert wrong == []
    assert {"log1p", "▸ scan", "x"} <= {*found["names"]}
    assert found["edges"] >= len(found["names"]) - 1
    assert (found["drawn"], found["hidden"], found["summary"][-5:]) == (True, 0, "nodes")


def test_a_loops_box_opens_when_it_is_clicked_or_entered(shown: str) -> None:
    script = """
    const state = () => [
      all(".pane .box").length, texts(".pane .box .box > text.name").includes("tanh"),
      all(".handle")[0].getAttribute("aria-expanded"),
    ];
    const before = state();
    press(all(".handle")[0]);
    const open = state();
    press(all(".handle")[0]);
    const closed = state();
    pressKey("Enter", all(".handle")[0]);
    return [before, open, closed, state(), document.activeElement === all(".handle")[0]];"""
    (before, opened, closed, entered, focused), wrong = asked(shown, script)
    assert wrong == []
    assert (before[1:], opened[1:]) == ([False, "false"], [True, "true"])
    assert (closed, entered, focused) == (before, opened, True)
    assert opened[0] > before[0]


def test_buttons_and_keys_move_the_drawing_and_the_search_finds(shown: str) -> None:
    script = r"""
    const view = document.querySelector(".pane svg > g");
    const scale = () => Number(/scale\((.*)\)/.exec(view.getAttribute("transform"))[1]);
    const first = scale();
    press(document.getElementById("in"));
    pressKey("+");
    const larger = scale();
    press(document.getElementById("open"));
    const field = document.querySelector("input");
    field.value = "TANH";
    field.dispatchEvent(new Event("input"));
    pressKey("Enter", field);
    const found = [texts("#count")[0], texts(".found > text.name")];
    press(all("#views button")[1]);
    return [larger / first, found, texts(".pane .box > text.name")];"""
    (growth, (count, marked), written), wrong = asked(shown, script)
    assert wrong == []
    assert growth == pytest.approx(1.25**2)
    assert (count, marked) == ("1 found", ["tanh"])
    assert "log" in written


def test_an_explanation_steps_through_its_changes(tmp_path: Path) -> None:
    path = tmp_path / "e.html"
    graphc.explain(gt.log(1 + x) + gt.exp(gt.log(x))).save(path)
    script = """
    const state = () => [
      texts("#place")[0], texts("#what")[0], all("#before-drawn .box").length,
      all("#after-drawn .new").length,
    ];
    const first = state();
    press(document.getElementById("next"));
    pressKey("End");
    pressKey("Home");
    const home = state();
    const changes = all("nav button.change");
    press(changes[0]);
    const changed = state();
    press(document.getElementById("text"));
    return [first, home, changed, all("#before li").length, all(".pane")[0].hidden];"""
    (first, home, changed, lines, drawn_hidden), wrong = asked(path.read_text("utf-8"), script)
    assert wrong == []
    assert first == home
    assert changed[0] != first[0]
    assert changed[2] > 0
    assert changed[3] > 0
    assert lines > 0
    assert drawn_hidden


def test_a_notebooks_picture_is_drawn_without_scripts() -> None:
    picture: Any = totals()._repr_html_()
    page = f"<html><head></head><body>{picture}</body></html>"
    script = 'return texts(".box > text.name");'
    names, wrong = asked(page, script)
    assert wrong == []
    assert "x" in names
