"""``explain``: what it says, and of what."""

from __future__ import annotations

import re

import pytest

import graphc.tensor as gt
from graphc.ir import Graph
from graphc.rewrite import explain

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
        "    log(1.0 + x)",
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
