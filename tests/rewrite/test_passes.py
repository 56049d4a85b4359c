"""``optimize``: which rules run, and in which form they leave a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError
from graphc.ir import Graph, Input, Leaf, Node, toposort
from graphc.rewrite import optimize
from graphc.tensor import Tensor
from tests.rewrite.exact import values_of

x, m, s = gt.vector("x"), gt.matrix("m"), gt.scalar("s")


def rewritten(y: Node) -> Node:
    inputs = [node for node in toposort([y]) if isinstance(node.op, Input)]
    return optimize(Graph(inputs, [y]), checking=True).graph.outputs[0]


e = gt.exp(x)
y, b = gt.vector("y"), gt.vector("b", dtype="bool")
factor = gt.linalg.cholesky(gt.tensor(shape=(3, 3)))

NORMAL_FORMS = {
    "1 / (1 + exp(-x))": (1 / (1 + gt.exp(-x)), gt.sigmoid(x)),
    "(1 + exp(-x)) ** -1": ((1 + gt.exp(-x)) ** -1, gt.sigmoid(x)),
    "log(1 / (1 + exp(-x)))": (gt.log(1 / (1 + gt.exp(-x))), -gt.softplus(-x)),
    "log(1 - sigmoid(x))": (gt.log(1 - gt.sigmoid(x)), -gt.softplus(x)),
    "log(1 + exp(x))": (gt.log(1 + e), gt.softplus(x)),
    "1 / (1 + exp(x))": (1 / (1 + e), gt.sigmoid(-x)),
    "exp(x) / (1 + exp(x))": (e / (1 + e), gt.sigmoid(x)),
    "exp(x) / (exp(x) + exp(y))": (e / (e + gt.exp(y)), gt.sigmoid(x - y)),
    "log(exp(x) + exp(y))": (gt.log(e + gt.exp(y)), gt.logaddexp(x, y)),
    "-1 + exp(x)": (-1 + e, gt.expm1(x)),
    "exp(x) - exp(-x)": (e - gt.exp(-x), 2 * gt.sinh(x)),
    "(exp(x) + exp(-x)) / 2": ((e + gt.exp(-x)) / 2, gt.cosh(x)),
    "1 / (1 + exp(-(x + 1)))": (1 / (1 + gt.exp(-(x + 1))), gt.sigmoid(x + 1)),
    "(exp(x + 1) + exp(-(x + 1))) / 2": (
        (gt.exp(x + 1) + gt.exp(-(x + 1))) / 2,
        gt.cosh(x + 1),
    ),
    "log1p(exp(-log1p(exp(x))))": (
        gt.log1p(gt.exp(-gt.log1p(e))),
        gt.log1p(gt.sigmoid(-x)),
    ),
    "the gradient of log1p(exp(exp(log1p(exp(x))) + 1))": (
        graphc.grad(gt.sum(gt.log1p(gt.exp(gt.exp(gt.log1p(e)) + 1))), x),
        e * gt.sigmoid(e + 2),
    ),
    "sinh(x) / cosh(x)": (gt.sinh(x) / gt.cosh(x), gt.tanh(x)),
    "--x": (gt.negative(gt.negative(x)), x),
    "where(b, True, False)": (gt.where(b, True, False), b),
    "where(b, False, True)": (gt.where(b, False, True), gt.logical_not(b)),
    "cholesky(l @ l.T)": (gt.linalg.cholesky(factor @ factor.T), factor),
    "log(1 - exp(x))": (gt.log(1 - e), gt.log1mexp(x)),
    "log(1 - exp(-x))": (gt.log(1 - gt.exp(-x)), gt.log1mexp(-x)),
    "log(exp(x) / (1 + exp(x)))": (gt.log(e / (1 + e)), -gt.softplus(-x)),
    "log(exp(x) / sum(exp(x)))": (gt.log(e / gt.sum(e)), gt.log_softmax(x)),
    "log softmax of rows": (
        gt.log(gt.exp(m) / gt.sum(gt.exp(m), 1, keepdims=True)),
        gt.log_softmax(m, 1),
    ),
    "softmax of columns, weighted": (
        gt.exp(m) * (x / gt.sum(gt.exp(m), 0)),
        x * gt.softmax(m, 0),
    ),
    "sqrt(x ** 2)": (gt.sqrt(x**2), gt.abs(x)),
    "sqrt(x * x)": (gt.sqrt(x * x), gt.abs(x)),
    "x * ones_like(x)": (x * gt.ones_like(x), x),
    "x + zeros_like(exp(x))": (x + gt.zeros_like(e), x),
    "sum(ones_like(x)) * s": (gt.sum(gt.ones_like(x)) * s, s * x.shape[0].astype("float64")),
    "exp(x).shape[0]": (e.shape[0], x.shape[0]),
    "exp(m).T.shape": (gt.stack(list((gt.exp(m).T).shape)), gt.stack([m.shape[1], m.shape[0]])),
    "a sum of a sum of exps": (gt.log(gt.sum(gt.sum(gt.exp(m), 1), 0)), gt.logsumexp(m)),
    "a row put in and taken out": (m[None].sum(0), m),
    "a mean of one": (gt.mean(x[None], 0), x),
    "exp(x[None]).T": (gt.exp(x[None]).T, gt.expand_dims(gt.exp(x), 1)),
    "a column from a row": (x.reshape(1, -1).reshape(-1, 1), gt.expand_dims(x, 1)),
    "x[1:][::-1]": (m[1:-1, 1:][:, ::-1], m[1:-1, :0:-1]),
    "x[::-1][::-1]": (x[::-1][::-1], x),
    "parts joined again": (gt.concatenate([m[:2], m[2:5], m[5:]]), m),
    "the shape of what is joined": (
        gt.concatenate([gt.exp(x), gt.sin(x)]).shape[0],
        2 * x.shape[0],
    ),
    "elements of a vector of scalars": (gt.stack([s, s * 2, s + 1])[0], s),
    "the sum of a vector of scalars": (gt.sum(gt.stack([s, gt.exp(s)])), s + gt.exp(s)),
    "zeros, all set": (
        gt.zeros(2)[0].set(s)[1].set(gt.exp(s)),
        gt.stack([s, gt.exp(s)]),
    ),
    "a set read back": (m[0].set(0)[1].set(1)[2], m[2]),
    "what a mask leaves": (x[x > 0].sum(), gt.sum(gt.where(x > 0, x, 0))),
    "how many a mask leaves": (x[x > 0].shape[0], gt.sum(x > 0)),
}  # fmt: skip


@pytest.mark.parametrize(("y", "expected"), NORMAL_FORMS.values(), ids=NORMAL_FORMS)
def test_rules_work_together(y: Tensor, expected: Tensor) -> None:
    assert rewritten(y) is expected


k = gt.lscalar("k")
none = gt.zeros(x.shape)

GRADIENTS: dict[str, tuple[Tensor, list[Tensor]]] = {
    "a slice and an element": (
        x[2:5].sum() + x[7],
        [none[2:5].set(1.0)[7].set(1.0), none[7].set(1.0)[2:5].set(1.0)],
    ),
    "two that overlap": (
        (x[1:] * x[:-1]).sum(),
        [none[1:].set(x[:-1])[:-1].inc(x[1:]), none[:-1].set(x[1:])[1:].inc(x[:-1])],
    ),
    "rows": (
        (gt.sin(m[0]) + gt.exp(m[1])).sum(),
        [
            gt.zeros(m.shape)[0].set(gt.cos(m[0]))[1].set(gt.exp(m[1])),
            gt.zeros(m.shape)[1].set(gt.exp(m[1]))[0].set(gt.cos(m[0])),
        ],
    ),
    "two halves": (
        gt.sin(x[:k]).sum() + gt.exp(x[k:]).sum(),
        [gt.concatenate([gt.cos(x[:k]), gt.exp(x[k:])])],
    ),
    "a mask": (gt.sin(x[x > 0]).sum(), [gt.where(x > 0, gt.cos(x), 0)]),
    "gathered": (gt.sin(x[[1, 1]]).sum(), [none[[1, 1]].inc(gt.cos(x[[1, 1]]))]),
    "reversed": (gt.sin(x[::-1]).sum(), [gt.cos(x)]),
}
"""A cost, and its gradient by the vector or matrix; of two parts, either may be the first."""


@pytest.mark.parametrize(("cost", "expected"), GRADIENTS.values(), ids=GRADIENTS)
def test_gradients_of_parts_are_small(cost: Tensor, expected: list[Tensor]) -> None:
    by = m if m in toposort([cost]) else x
    assert rewritten(graphc.grad(cost, by)) in [rewritten(y) for y in expected]


STABLE: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "log(1 + x), small": (lambda x: gt.log(1 + x), 1e-20, 1e-20),
    "log(1 - x), small": (lambda x: gt.log(1 - x), 1e-20, -1e-20),
    "exp(x) - 1, small": (lambda x: gt.exp(x) - 1, 1e-20, 1e-20),
    "1 - exp(x), small": (lambda x: 1 - gt.exp(x), 1e-20, -1e-20),
    "log(1 + exp(x)), large": (lambda x: gt.log(1 + gt.exp(x)), 800.0, 800.0),
    "log(1 + exp(x)), very negative": (lambda x: gt.log(1 + gt.exp(x)), -50.0, np.exp(-50.0)),
    "log(1 - exp(x)), small": (lambda x: gt.log(1 - gt.exp(x)), -1e-20, np.log(1e-20)),
    "log(1 - exp(x)), negative": (lambda x: gt.log(1 - gt.exp(x)), -50.0, -np.exp(-50.0)),
    "log(sigmoid(x)), very negative": (lambda x: gt.log(gt.sigmoid(x)), -800.0, -800.0),
    "log(1 - sigmoid(x)), large": (lambda x: gt.log(1 - gt.sigmoid(x)), 800.0, -800.0),
    "1 - sigmoid(x), large": (lambda x: 1 - gt.sigmoid(x), 50.0, np.exp(-50.0)),
    "exp(x) / (1 + exp(x)), large": (lambda x: gt.exp(x) / (1 + gt.exp(x)), 800.0, 1.0),
    "(exp(x + 1) + exp(-(x + 1))) / 2, large": (
        lambda x: (gt.exp(x + 1) + gt.exp(-(x + 1))) / 2,
        709.0,
        np.cosh(710.0),
    ),
    "the gradient of log(1 - 1 / (1 + exp(-(x + 1)))), large": (
        lambda x: graphc.grad(gt.log(1 - 1 / (1 + gt.exp(-(x + 1)))), x),
        800.0,
        -1.0,
    ),
    "log(exp(x)), large": (lambda x: gt.log(gt.exp(x)), 800.0, 800.0),
    "log(exp(x) + exp(1)), large": (lambda x: gt.log(gt.exp(x) + gt.exp(x / 2)), 800.0, 800.0),
    "log1p(expm1(x)), large": (lambda x: gt.log1p(gt.expm1(x)), 800.0, 800.0),
    "1 - erf(x), large": (lambda x: 1 - gt.erf(x), 10.0, 2.088487583762545e-45),
    "1 - erfc(x), small": (lambda x: 1 - gt.erfc(x), 1e-20, 1.1283791670955126e-20),
    "sqrt(x ** 2), huge": (lambda x: gt.sqrt(x**2), -1e200, 1e200),
    "log(sum(exp(x))), large": (
        lambda x: gt.log(gt.sum(gt.exp(gt.stack([x, x])))),
        800.0,
        800 + np.log(2),
    ),
    "log(softmax(x)), far apart": (
        lambda x: gt.log(gt.softmax(gt.stack([x, -x])))[1],
        800.0,
        -1600.0,
    ),
    "exp(x) / sum(exp(x)), large": (
        lambda x: (gt.exp(gt.stack([x, x])) / gt.sum(gt.exp(gt.stack([x, x]))))[1],
        800.0,
        0.5,
    ),
}


@pytest.mark.parametrize(("f", "point", "expected"), STABLE.values(), ids=STABLE)
def test_the_digits_are_kept(f: Callable[[Any], Any], point: float, expected: float) -> None:
    y = f(s)
    (naive,), (kept,) = (values_of([node], {s: point}) for node in (y, rewritten(y)))
    assert kept == pytest.approx(expected, rel=1e-12, abs=0)
    assert naive != pytest.approx(expected, rel=1e-12, abs=0)


def test_excluded_rules_do_nothing() -> None:
    graph = Graph([x], [gt.log(1 + x * 1)])
    for excluding, expected in [
        (["log_of_one_plus"], gt.log(1 + x)),
        (["stabilize"], gt.log(1 + x)),
        (["elementwise", "exponential"], gt.log(1 + x * 1)),
        ([], gt.log1p(x)),
    ]:
        assert optimize(graph, excluding=excluding).graph.outputs[0] is expected


def test_only_included_rules_run() -> None:
    graph = Graph([x], [gt.log(1 + x * 1)])
    only = optimize(graph, including=["product_with_one"]).graph
    assert only.outputs[0] is gt.log(1 + x)


def test_a_rule_that_is_not_there_is_named_with_what_is_meant() -> None:
    with pytest.raises(ArgumentError, match=r"log_of_one_pluss[^.]*\.\s+Did .*'log_of_one_plus'"):
        optimize(Graph([x], [x]), excluding=["log_of_one_pluss"])


def test_arrays_are_not_looked_at() -> None:
    ones = gt.constant(np.ones(20))
    assert isinstance(ones.op, Leaf)
    y = x * ones
    assert rewritten(y) is y


def test_a_pass_is_not_run_again_where_nothing_changed() -> None:
    done = optimize(Graph([x], [gt.sin(x)]))
    assert [report.name for report in done.passes] == ["canonicalize", "stabilize", "specialize"]
    assert not any(report.changes for report in done.passes)


def test_changes_are_counted_and_kept_only_when_asked_for() -> None:
    graph = Graph([x], [gt.log(1 + x * 1)])
    quiet, asked = optimize(graph), optimize(graph, recording=True)
    assert sum(report.changes for report in quiet.passes) == 2
    assert [len(report.records) for report in quiet.passes if report.records] == []
    assert sum(len(report.records) for report in asked.passes) == 2
