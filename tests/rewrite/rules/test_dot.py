"""Products come out in an order that takes few multiplications, and rewriting them takes little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import Graph, Input, Node, toposort
from graphc.rewrite import optimize
from graphc.tensor.linalg.dot import DotGeneral
from tests.rewrite.exact import values_of

a, b, c, d = (gt.matrix(name) for name in "abcd")
v, w = gt.vectors("v", "w")
s = gt.scalar("s")


def rewritten(*outputs: Node) -> Graph:
    inputs = [node for node in toposort(outputs) if isinstance(node.op, Input)]
    return optimize(Graph(inputs, outputs), checking=True).graph


NORMAL_FORMS: dict[str, tuple[Node, Node]] = {
    "a b v": (a @ b @ v, a @ (b @ v)),
    "a b c d v": (a @ b @ c @ d @ v, a @ (b @ (c @ (d @ v)))),
    "powers": (a @ a @ a @ v, a @ (a @ (a @ v))),
    "scaled": ((3 * a) @ b @ v, 3 * (a @ (b @ v))),
    "signs": ((-a) @ (-v), a @ v),
    "transposes": ((b.T @ a.T).T @ v, a @ (b @ v)),
    "one form of a vector's product": (v @ a.T, a @ v),
    "identities": (gt.eye(a.shape[0]) @ a @ gt.eye(a.shape[1]), a),
    "ones": (a @ gt.ones_like(v), gt.specify_shape(a, (None, v.shape[0])).sum(1)),
    "a column": ((a @ v[:, None])[:, 0], a @ v),
    "sums of products": ((a[:, :, None] * b).sum(1), a @ b),
}


@pytest.mark.parametrize(("y", "expected"), NORMAL_FORMS.values(), ids=NORMAL_FORMS)
def test_rules_work_together(y: Node, expected: Node) -> None:
    assert rewritten(y).outputs == rewritten(expected).outputs
    assert rewritten(expected).outputs[0] is expected


def ranks(graph: Graph) -> list[tuple[int, ...]]:
    """Of each product, the ranks of its operands and of itself."""
    products = [node for node in graph.nodes if isinstance(node.op, DotGeneral)]
    return [(*(x.type.ndim for x in node.inputs), node.type.ndim) for node in products]


def test_no_gradient_of_a_product_with_a_vector_multiplies_matrices() -> None:
    loss = gt.square(a @ b @ c @ v - w).sum()
    graph = rewritten(*graphc.grad(loss, [a, b, c, v]))
    assert {kind[:2] for kind in ranks(graph)} == {(2, 1)}
    # Three forward, three back.
    assert len(ranks(graph)) == 6


def test_a_product_others_need_in_any_case_is_used() -> None:
    p, q = gt.tensor(shape=(10, 20)), gt.tensor(shape=(20, 10))
    r = gt.tensor(shape=(10, 8))
    shared = p @ q
    assert rewritten(shared, shared @ r).outputs == (shared, shared @ r)


def chain_with_vectors(n: int) -> list[Any]:
    product: Any = gt.matrix()
    outputs = []
    for _ in range(n):
        product = product @ gt.matrix()
        outputs.append(product @ v)
    return outputs


def falling_chain(n: int) -> list[Any]:
    product: Any = gt.tensor(shape=(n + 1, n))
    for i in range(n, 1, -1):
        product = product @ gt.tensor(shape=(i, i - 1))
    return [product]


def random_chain(n: int) -> list[Any]:
    lengths = np.random.default_rng(0).integers(1, 100, n + 1).tolist()
    product: Any = gt.tensor(shape=(5, lengths[0]))
    for i in range(n):
        product = product @ gt.tensor(shape=(lengths[i], lengths[i + 1]))
    return [product]


def gradients(n: int) -> list[Any]:
    matrices = [gt.matrix() for _ in range(n)]
    y: Any = v
    for m in matrices:
        y = gt.tanh((2 * m.T) @ y)
    return graphc.grad(y.sum(), matrices)  # type: ignore[no-any-return]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("make", [chain_with_vectors, falling_chain, random_chain, gradients])
def test_rewriting_long_products_is_linear(make: Callable[[int], list[Any]]) -> None:
    """As many attempts a node, however long; a few factors are ordered, not all with all."""
    attempts = []
    for n in (50, 400):
        outputs = make(n)
        inputs = [node for node in toposort(outputs) if isinstance(node.op, Input)]
        graph = Graph(inputs, outputs)
        done = optimize(graph)
        attempts.append(sum(report.attempts for report in done.passes) / len(graph))
    assert attempts[1] < 1.5 * attempts[0]


STEPS: list[Callable[[np.random.Generator, Any, Any], Any]] = [
    lambda choose, x, y: x @ y,
    lambda choose, x, y: x.T @ y,
    lambda choose, x, y: y @ x.T,
    lambda choose, x, y: x @ (y * float(choose.integers(-2, 3))),
    lambda choose, x, y: (-x) @ (y @ gt.ones((3, 3))),
    lambda choose, x, y: x @ gt.eye(3) + y,
    lambda choose, x, y: gt.einsum("ij,kj,kl->il", x, y, x),
    lambda choose, x, y: (x[:, :, None] * y).sum(1),
    lambda choose, x, y: gt.outer(x.sum(1), y[0]),
    lambda choose, x, y: (x * y).sum() * x,
    lambda choose, x, y: gt.expand_dims(x @ y[1], 1) @ gt.expand_dims(x[0], 0),
    lambda choose, x, y: (x[None] @ gt.stack([y, x]))[1],
]


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_random_products_keep_their_values(seed: int, static: bool) -> None:
    choose = np.random.default_rng(seed)
    shape = (3, 3) if static else (None, None)
    inputs = [gt.tensor(shape=shape) for _ in range(3)]
    pool: list[Any] = list(inputs)
    for _ in range(8):
        x, y = (pool[i] for i in choose.integers(len(pool), size=2))
        pool.append(STEPS[choose.integers(len(STEPS))](choose, x, y) / 3)
    vector = pool[-1] @ pool[-2] @ inputs[0][0]
    outputs = [*pool[-2:], vector, graphc.grad(vector.sum(), inputs[0])]
    done = optimize(Graph(inputs, outputs), checking=True).graph
    values: dict[Any, Any] = {x: choose.uniform(-1, 1, size=(3, 3)) for x in inputs}
    for y, found, wanted in zip(
        outputs, values_of(done.outputs, values), values_of(outputs, values), strict=True
    ):
        assert y.type.admits(y.type.with_shape(found.shape))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_integers_wrap_around_alike_in_every_order() -> None:
    x, y, z = (gt.tensor(dtype="int8", shape=shape) for shape in ((9, 3), (3, 9), (9,)))
    before = (x * np.int8(7)) @ y @ z
    (after,) = rewritten(before).outputs
    assert after is not before
    choose = np.random.default_rng(0)
    values = {i: choose.integers(-128, 128, i.type.shape) for i in (x, y, z)}
    found, wanted = values_of([after, before], values)
    np.testing.assert_array_equal(found, wanted)
