"""Every rule that is a function of a node, on the graphs made for it in ``examples/``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.ir import Graph, Node
from graphc.rewrite import optimize
from graphc.rewrite.rule import RULES, NodeRule
from graphc.tensor.core.elementwise import Cast
from tests.rewrite.arrays import VALUES, Example, make
from tests.rewrite.exact import tolerance, values_of
from tests.rewrite.node_rule_examples import EXAMPLES, LEFT_ALONE


def node_rules() -> list[NodeRule]:
    return [rule for rule in RULES.values() if isinstance(rule, NodeRule)]


def cases(table: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(name, example, id=f"{name}-{i}")
        for name, examples in table.items()
        for i, example in enumerate(examples)
    ]


def test_every_rule_has_an_example() -> None:
    assert set(EXAMPLES) == {rule.name for rule in node_rules()}


@pytest.mark.parametrize(("name", "example"), cases(EXAMPLES))
def test_the_rule_makes_what_the_example_says(name: str, example: Example) -> None:
    before, after = example
    assert RULES[name].apply(before) is after


@pytest.mark.parametrize(("name", "example"), cases(EXAMPLES))
def test_the_example_keeps_its_values(name: str, example: Example) -> None:
    lhs, rhs = values_of(example, VALUES)
    assert lhs.shape == rhs.shape
    np.testing.assert_allclose(rhs, lhs, **tolerance(lhs.dtype.name))


@pytest.mark.parametrize(("name", "example"), cases(EXAMPLES))
def test_the_rule_is_found_by_its_root(name: str, example: Example) -> None:
    graph = Graph(VALUES, [example[0]])
    done = optimize(graph, including=[name], recording=True, checking=True)
    applied = {change.rule.name for report in done.passes for change in report.records}
    assert applied == {name}


@pytest.mark.parametrize(("name", "node"), cases(LEFT_ALONE))
def test_the_rule_leaves_what_it_does_not_hold_for(name: str, node: Node) -> None:
    assert RULES[name].apply(node) in {None, node}


def test_a_constant_that_cannot_be_computed_stays() -> None:
    class Broken(Cast):
        __slots__ = ()

        def perform(self, x: Any) -> Any:
            raise ValueError(f"no {x}")

    node = make(Broken("float32"), gt.constant(1.0))
    assert RULES["constants_folded"].apply(node) is None
