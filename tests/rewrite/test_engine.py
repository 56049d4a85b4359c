"""The engine: one look at each node, an end in all cases, and a line for what is made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import InvalidGraphError
from graphc.ir import Graph, Node, pprint, toposort
from graphc.ir.graph import check
from graphc.rewrite import Equation, optimize
from graphc.rewrite.engine import RuleIndex, Sweep
from graphc.rewrite.rule import EquationRule, NodeRule
from graphc.tensor import Tensor
from tests.work import python_calls

x, y = gt.vector("x"), gt.vector("y")


def equation(function: Callable[..., Equation]) -> EquationRule:
    return EquationRule("canonicalize", function)


def sin_is_cos(x: Tensor) -> Equation:
    return Equation(gt.sin(x), gt.cos(x))


def cos_is_sin(x: Tensor) -> Equation:
    return Equation(gt.cos(x), gt.sin(x))


def cos_is_tan(x: Tensor) -> Equation:
    return Equation(gt.cos(x), gt.tan(x))


def exp_grows(x: Tensor) -> Equation:
    return Equation(gt.exp(x), gt.exp(x + 1))


def exp_is_inside_itself(x: Tensor) -> Equation:
    return Equation(gt.exp(x), gt.sin(gt.exp(x)))


def swept(node: Node, *functions: Callable[..., Equation]) -> Node:
    sweep = Sweep("canonicalize", RuleIndex(map(equation, functions)), {})
    sweep.normal_forms(toposort([node]))
    return sweep.form(node)


def chain(length: int) -> Node:
    y: Node = x
    for _ in range(length):
        y = gt.sin(y) + 0.5
    return y


def test_what_a_rule_makes_is_rewritten_in_the_same_sweep() -> None:
    assert swept(gt.sin(x) + 1, sin_is_cos, cos_is_tan) is gt.tan(x) + 1


def test_what_lies_below_is_rewritten_first() -> None:
    def sin_of_tan(x: Tensor) -> Equation:
        return Equation(gt.exp(gt.tan(x)), x)

    assert swept(gt.exp(gt.cos(x)), sin_of_tan, cos_is_tan) is x


def test_operands_are_put_in_order_again() -> None:
    late = gt.cos(x) * y  # the tangent is made after y, and so its place is behind it
    assert swept(late, cos_is_tan) is y * gt.tan(x)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([sin_is_cos, cos_is_sin], id="there and back"),
        pytest.param([exp_grows], id="ever larger"),
        pytest.param([exp_is_inside_itself], id="into itself"),
    ],
)
def test_rules_without_an_end_are_named(rules: list[Callable[..., Equation]]) -> None:
    node = gt.sin(x) + gt.exp(x)
    with pytest.raises(InvalidGraphError) as caught:
        swept(node, *rules)
    for rule in rules:
        assert rule.__name__ in str(caught.value)
    assert "test_engine.py" in str(caught.value)


def test_products_of_exponentials_with_more_factors_than_are_listed_come_to_an_end() -> None:
    z, u, w = gt.vector("z"), gt.vector("u"), gt.vector("w")
    inverse = gt.ndtri(gt.ndtr(gt.xlogy(z, 1.5)))
    (slope,) = graphc.grad((w * inverse).sum(), [z])
    (second,) = graphc.grad((u * slope).sum(), [z])
    f = graphc.function([z, u, w], [slope, second], mode="NUMPY")
    values = np.array([[0.0, 0.4, 1.0], [0.7, -0.6, 1.2], [0.6, 0.9, -1.1]])
    np.testing.assert_allclose(f(*values)[0], values[2] * np.log(1.5), 1e-12)
    np.testing.assert_allclose(f(*values)[1], np.zeros(3), atol=1e-12)


def test_a_rule_that_changes_the_type_is_named() -> None:
    def sin_is_scalar(node: Node, op: object) -> Node:
        return gt.scalar("other")

    rule = NodeRule("canonicalize", [gt.sin], sin_is_scalar)
    with pytest.raises(InvalidGraphError, match="sin_is_scalar"):
        Sweep("canonicalize", RuleIndex([rule]), {}).normal_forms(toposort([gt.sin(x)]))


def test_attempts_grow_as_the_graph() -> None:
    def attempts(length: int) -> int:
        return sum(p.attempts for p in optimize(Graph([x], [chain(length)])).passes)

    ten, hundred = attempts(1_000), attempts(10_000)
    assert hundred < 10.1 * ten


@pytest.mark.exhaustive
def test_attempts_grow_as_the_graph_where_every_node_changes() -> None:
    def attempts(length: int) -> int:
        y: Node = x
        for _ in range(length):
            y = gt.log(1 + gt.sin(y) * 1)
        return sum(p.attempts for p in optimize(Graph([x], [y])).passes)

    ten, hundred = attempts(1_000), attempts(10_000)
    assert hundred < 10.1 * ten


i = [gt.lscalar() for _ in range(20)]
v = [gt.vector() for _ in range(20)]

CHAINS: dict[str, tuple[Node, Callable[[int, Tensor], Tensor]]] = {
    "sums": (v[0], lambda k, y: y + v[k % 20]),
    "sums of constants": (v[0], lambda k, y: y + v[k % 20] + k),
    "sums put back": (v[0], lambda k, y: y + v[k % 20] - v[k * 7 % 20]),
    "products": (v[0], lambda k, y: y * v[k % 20] / v[k * 7 % 20]),
    "products of constants": (v[0], lambda k, y: y * 1.5 * v[k % 20] / 3),
    "squares of roots": (v[0], lambda k, y: gt.sqrt(gt.square(y) + 1)),
    "integers": (i[0], lambda k, y: y + i[k % 20] - 2 * i[k * 7 % 20] + 1),
    "magnitudes": (v[0], lambda k, y: gt.abs(gt.maximum(y, 0) + v[k % 20])),
    "choices": (v[0], lambda k, y: gt.where(gt.gt(v[k % 20], 0), y * v[k * 7 % 20], 0)),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(("start", "link"), CHAINS.values(), ids=CHAINS)
def test_chains_are_rewritten_in_linear_time(
    start: Tensor, link: Callable[[int, Tensor], Tensor]
) -> None:
    def attempts(length: int) -> int:
        y = start
        for k in range(length):
            y = link(k, y)
        return sum(p.attempts for p in optimize(Graph([*v, *i], [y])).passes)

    assert attempts(2_000) < 10.5 * attempts(200) + 1000


def test_sums_along_a_chain_search_little_of_it_for_masks() -> None:
    def work(length: int) -> int:
        y = m
        for _ in range(length):
            y = gt.exp(y - y.sum(axis=0))
        return python_calls(lambda: optimize(Graph([m], [y])))

    m = gt.matrix("m")
    work(10)
    assert work(800) < 9 * work(100)


def test_a_sweep_over_normal_forms_tries_nothing() -> None:
    sweep = Sweep("canonicalize", RuleIndex([equation(sin_is_cos)]), {})
    start = chain(100)
    sweep.normal_forms(toposort([start]))
    before, first = sweep.attempts, sweep.form(start)
    sweep.normal_forms(toposort([first]))
    assert sweep.form(first) is first
    assert sweep.attempts == before


@pytest.mark.exhaustive
def test_a_deep_graph_is_rewritten() -> None:
    deep: Node = x
    for _ in range(200_000):
        deep = gt.sin(deep)
    done = optimize(Graph([x], [gt.log(1 + deep)])).graph
    assert done.outputs[0] is gt.log1p(deep)


def test_what_a_rule_makes_has_the_line_of_what_it_replaces() -> None:
    here = gt.vector("here")
    node = gt.log(1 + gt.exp(here))
    made = optimize(Graph([here], [node])).graph.outputs[0]
    assert made.where == node.where
    assert made.where is not None
    assert made.where.startswith("test_engine.py")


def test_what_an_input_is_made_of_is_not_looked_at() -> None:
    cut = gt.exp(x)
    done = optimize(Graph([cut], [gt.log(cut)])).graph
    assert done.inputs == (cut,)
    assert done.outputs == (gt.log(cut),)
    check(done)


def test_an_output_may_be_an_input() -> None:
    assert optimize(Graph([x], [x, x * 1])).graph.outputs == (x, x)


def test_the_graph_given_stays_as_it_is() -> None:
    graph = Graph([x], [gt.log(1 + x)])
    before = pprint(graph.outputs[0])
    optimize(graph)
    assert pprint(graph.outputs[0]) == before
