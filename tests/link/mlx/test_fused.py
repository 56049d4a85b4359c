"""Patterns that MLX has one operation for: what is found, and that its values are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import RuntimeShapeError
from graphc.ir import Graph
from graphc.link import load
from graphc.link.fuse import fuse
from graphc.link.mlx.lower.attention import layer_norm, rms_norm, rotation
from graphc.link.mlx.lower.linalg import product_and_sum
from graphc.link.patterns import PATTERNS as ALL
from graphc.rewrite import optimize
from graphc.rewrite.rule import FUSE, RULES
from graphc.tensor.attention import Attention, LayerNorm, RMSNorm, Rotation
from graphc.tensor.linalg.dot import ProductAndSum
from tests.modes import uncompiled
from tests.rewrite.run_time import Run, array, fault
from tests.work import python_calls

RANDOM = np.random.default_rng(0)


def centred(x: Any) -> Any:
    return x - gt.mean(x, -1, keepdims=True)


def variance(x: Any) -> Any:
    return gt.var(x, -1, keepdims=True) + 1e-5


def square_mean(x: Any) -> Any:
    return gt.mean(x * x, -1, keepdims=True) + 1e-5


def scores(q: Any, k: Any) -> Any:
    return q @ gt.swapaxes(k, -1, -2)


def by_exponentials(q: Any, k: Any, v: Any) -> Any:
    weights = gt.exp(scores(q, k) * 0.5)
    return weights / gt.sum(weights, -1, keepdims=True) @ v


def where_kept(fill: float) -> Callable[..., Any]:
    def attention(q: Any, k: Any, v: Any, m: Any) -> Any:
        # In float16 there is no number so low.
        low = fill if q.dtype != "float16" else -np.inf
        return gt.softmax(gt.where(gt.greater(m, -0.5), scores(q, k) * 0.5, low), -1) @ v

    return attention


def of_heads(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (gt.swapaxes(x, 1, 2) for x in (q, k, v))
    return gt.swapaxes(gt.softmax(scores(q, k) * 0.5, -1) @ v, 1, 2)


def by_einsum(q: Any, k: Any, v: Any) -> Any:
    weights = gt.softmax(gt.einsum("bqhd,bkhd->bhqk", q, k) * 0.5, -1)
    return gt.einsum("bhqk,bkhd->bqhd", weights, v)


def angles(x: Any, speed: Any) -> Any:
    dtype = "float64" if x.dtype == "float64" else "float32"
    return gt.cast(gt.arange(x.shape[-2]), dtype)[:, None] * gt.cast(speed, dtype)


def turned(x: Any, angle: Any) -> tuple[Any, Any]:
    return gt.cast(gt.cos(angle), x.dtype), gt.cast(gt.sin(angle), x.dtype)


def halves(x: Any, speed: Any) -> Any:
    c, s = turned(x, angles(x, speed))
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return gt.concatenate([a * c - b * s, b * c + a * s], -1)


def halves_at_once(x: Any, speed: Any) -> Any:
    c, s = turned(x, gt.concatenate([angles(x, speed)] * 2, -1))
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * c + gt.concatenate([-b, a], -1) * s


def halves_by_tables(x: Any, speed: Any) -> Any:
    c, s = (gt.concatenate([t, t], -1) for t in turned(x, angles(x, speed)))
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return gt.concatenate([-b, a], -1) * s + x * c


def neighbours(x: Any, speed: Any) -> Any:
    c, s = turned(x, angles(x, speed))
    a, b = x[..., ::2], x[..., 1::2]
    return gt.reshape(gt.stack([a * c - b * s, a * s + b * c], -1), x.shape)


X, W, QKV = (2, 5, 8), (8,), ((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 7))
HEADS = ((2, 5, 3, 4), (2, 6, 3, 4), (2, 6, 3, 7))

PATTERNS: dict[str, tuple[type, Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "layer norm": (
        LayerNorm, lambda x, w, b: centred(x) / gt.sqrt(variance(x)) * w + b, (X, W, W)
    ),
    "its weight in front": (
        LayerNorm, lambda x, w, b: b + w * (centred(x) * variance(x) ** -0.5), (X, W, W)
    ),
    "no bias": (LayerNorm, lambda x, w: centred(x) / gt.sqrt(variance(x)) * w, (X, W)),
    "neither": (LayerNorm, lambda x: centred(x) * gt.reciprocal(gt.sqrt(variance(x))), (X,)),
    "of a matrix": (LayerNorm, lambda x: centred(x) / gt.sqrt(variance(x)), ((5, 8),)),
    "of what is computed": (
        LayerNorm, lambda x: centred(gt.exp(x)) / gt.sqrt(variance(gt.exp(x))), (X,)
    ),
    "rms norm": (RMSNorm, lambda x, w: x / gt.sqrt(square_mean(x)) * w, (X, W)),
    "rms norm alone": (RMSNorm, lambda x: x * square_mean(x) ** -0.5, (X,)),
    "attention": (Attention, lambda q, k, v: gt.softmax(scores(q, k) * 0.5, -1) @ v, QKV),
    "divided": (
        Attention,
        lambda q, k, v: gt.softmax(scores(q, k) / gt.sqrt(gt.cast(q.shape[-1], q.dtype)), -1) @ v,
        QKV,
    ),
    "not scaled": (Attention, lambda q, k, v: gt.softmax(scores(q, k), -1) @ v, QKV),
    "masked": (
        Attention, lambda q, k, v, m: gt.softmax(scores(q, k) * 0.5 + m, -1) @ v, (*QKV, (5, 6))
    ),
    "masked and not scaled": (
        Attention, lambda q, k, v, m: gt.softmax(m + scores(q, k), -1) @ v, (*QKV, (3, 5, 6))
    ),
    "by exponentials": (Attention, by_exponentials, QKV),
    "of matrices": (
        Attention, lambda q, k, v: gt.softmax(scores(q, k) * 0.5, -1) @ v, ((5, 4), (6, 4), (6, 7))
    ),
    "of heads behind": (Attention, of_heads, HEADS),
    "by einsum": (Attention, by_einsum, HEADS),
    "where kept": (Attention, where_kept(-np.inf), (*QKV, (5, 6))),
    "where kept, of heads": (Attention, where_kept(-np.inf), (*QKV, (3, 5, 6))),
    "of a row": (Attention, where_kept(-np.inf), (*QKV, (6,))),
    "where high": (Attention, where_kept(-1e9), (*QKV, (5, 6))),
    "halves turned": (Rotation, halves, ((2, 3, 5, 8), (4,))),
    "of a sequence": (Rotation, halves, ((5, 8), (4,))),
    "halves of what is computed": (
        Rotation, lambda x, speed: halves(gt.tanh(x), speed), ((2, 3, 5, 8), (4,))
    ),
    "at once": (Rotation, halves_at_once, ((2, 3, 5, 8), (4,))),
    "by tables": (Rotation, halves_by_tables, ((3, 5, 8), (4,))),
    "neighbours turned": (Rotation, neighbours, ((2, 3, 5, 8), (4,))),
    "product and vector": (ProductAndSum, lambda a, b, c: a @ b + c, ((5, 4), (4, 3), (3,))),
    "product and matrix": (ProductAndSum, lambda a, b, c: c + a @ b, ((5, 4), (4, 3), (5, 3))),
    "products and rows": (
        ProductAndSum, lambda a, b, c: a @ b + c, ((2, 5, 4), (4, 3), (2, 5, 3))
    ),
}  # fmt: skip


def symbols(name: str, dtype: str, static: bool) -> tuple[list[Any], Any]:
    _, make, shapes = PATTERNS[name]
    xs = [gt.tensor(dtype=dtype, shape=s if static else (None,) * len(s)) for s in shapes]
    return xs, make(*xs)


BACKEND = replace(
    load("MLX"),
    lowerings={
        **load("MLX").lowerings,
        LayerNorm: layer_norm,
        RMSNorm: rms_norm,
        Rotation: rotation,
        ProductAndSum: product_and_sum,
    },
)
"""With what it has on a GPU alone."""


def found(outputs: list[Any], inputs: list[Any]) -> list[type]:
    graph = fuse(optimize(Graph(inputs, outputs)).graph, BACKEND, [*RULES.values()]).graph
    return [type(node.op) for node in graph.nodes if type(node.op) in {p.op for p in ALL}]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_found(name: str, static: bool) -> None:
    xs, y = symbols(name, "float32", static)
    assert found([y], xs) == [PATTERNS[name][0]]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", PATTERNS)
def test_its_values_and_gradients_are_those_of_what_was_written(
    name: str, dtype: str, static: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for op, lowering in BACKEND.lowerings.items():
        monkeypatch.setitem(load("MLX").lowerings, op, lowering)
    xs, y = symbols(name, dtype, static)
    gradients = graphc.grad(gt.sum(gt.square(y)), xs, disconnected_inputs="ignore")
    values = [RANDOM.normal(size=shape).astype(dtype) for shape in PATTERNS[name][2]]
    tolerance = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-2}[dtype]
    for outputs in ([y], [y, *gradients]):
        by_mlx = graphc.function(xs, outputs, uncompiled("MLX"), returns="numpy")(*values)
        by_numpy = graphc.function(xs, outputs, "NUMPY")(*values)
        for one, other in zip(by_mlx, by_numpy, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, tolerance, tolerance * 10)


@pytest.mark.parametrize("name", ["layer norm", "rms norm", "attention"])
def test_what_a_gradient_needs_is_not_computed_twice(name: str) -> None:
    xs, y = symbols(name, "float32", False)
    assert found([y, *graphc.grad(gt.sum(gt.square(y)), xs)], xs) == []


@pytest.mark.parametrize("name", PATTERNS)
def test_float64_stays_as_it_was_written(name: str) -> None:
    xs, y = symbols(name, "float64", False)
    assert found([y], xs) == []


def test_what_only_looks_like_a_pattern_is_left() -> None:
    x, w = gt.matrix("x", dtype="float32"), gt.vector("w", dtype="float32")
    one = gt.tensor("one", dtype="float32", shape=(1,))
    other = gt.matrix("other", dtype="float32")
    assert found([centred(x) / gt.sqrt(variance(other))], [x, other]) == []
    assert found([x / gt.sqrt(gt.mean(x * x, 0, keepdims=True) + 1e-5)], [x]) == []
    assert found([x / gt.sqrt(gt.mean(x * x, -1, keepdims=True) + w[0])], [x, w]) == []
    assert found([x / gt.sqrt(gt.sum(x * x, -1, keepdims=True) + 1e-5)], [x]) == []
    assert found([gt.softmax(x @ other.T, 0) @ other], [x, other]) == []
    y = x / gt.sqrt(square_mean(x))
    assert found([y * one], [x, one]) == [RMSNorm]
    assert found([y, gt.sqrt(square_mean(x))], [x]) == []


def test_what_only_looks_like_a_masked_attention_is_left() -> None:
    q, k, v = xs = [gt.matrix(n, dtype="float32") for n in "qkv"]
    keep = gt.matrix("keep", dtype="bool")
    weights = gt.softmax(gt.where(keep, q @ k.T, -100.0), -1)
    assert found([weights @ v], [*xs, keep]) == []
    weights = gt.softmax(gt.where(keep, q @ k.T, -np.inf), -1)
    assert found([weights @ v, weights], [*xs, keep]) == []
    assert found([weights.T @ v], [*xs, keep]) == []
    one = gt.tensor("one", dtype="float32", shape=(1, 4))
    many = gt.matrix("many", dtype="float32")
    assert found([gt.softmax(q @ one.T + many, -1) @ v], [q, one, many, v]) == []


def test_what_only_looks_like_a_rotation_is_left() -> None:
    x = gt.tensor("x", dtype="float32", shape=(None, None, 8))
    speed = gt.tensor("speed", dtype="float32", shape=(4,))
    n, half = x.shape[1], 4
    a, b = x[..., :half], x[..., half:]

    def by(angle: Any) -> Any:
        c, s = gt.cos(angle), gt.sin(angle)
        return gt.concatenate([a * c - b * s, a * s + b * c], -1)

    def rows(*bounds: Any) -> Any:
        return gt.cast(gt.arange(*bounds), "float32")[:, None]

    assert found([by(rows(n) * speed)], [x, speed]) == [Rotation]
    assert found([by(rows(1, n + 1) * speed)], [x, speed]) == []
    assert found([by(rows(0, 2 * n, 2) * speed)], [x, speed]) == []
    assert found([by(rows(x.shape[0]) * speed)], [x, speed]) == []
    assert found([by(rows(n) / speed)], [x, speed]) == []
    assert found([by(gt.cast(rows(n) * gt.cast(speed, "float64"), "float32"))], [x, speed]) == []
    table = gt.matrix("table", dtype="float32")
    assert found([by(table)], [x, table]) == []
    other = gt.concatenate([a * gt.cos(rows(n) * speed) - b, a + b], -1)
    assert found([other], [x, speed]) == []


def test_arrays_turned_by_one_table_are_both_found() -> None:
    x, y = (gt.tensor(n, dtype="float32", shape=(2, None, 8)) for n in "xy")
    y = gt.specify_shape(y, (2, x.shape[1], 8))
    speed = gt.tensor("speed", dtype="float32", shape=(4,))
    both = scores(halves(x, speed), halves_at_once(y, speed))
    (y,) = y.inputs[:1]
    assert found([both], [x, y, speed]) == [Rotation, Rotation]


def test_a_product_that_is_used_twice_is_left() -> None:
    a, b, c = xs = [gt.matrix(n, dtype="float32") for n in "abc"]
    assert found([a @ b + c, a @ b], xs) == []
    assert found([gt.cast(a, "int64") @ gt.cast(b, "int64") + gt.cast(c, "int64")], xs) == []
    assert found([(a @ b + c) @ b + c], xs) == [ProductAndSum, ProductAndSum]
    assert found([gt.softmax(a @ b.T, -1) @ b + c], xs) == [Attention]


@pytest.mark.parametrize("fill", [-np.inf, -1e9, np.finfo(np.float32).min])
def test_a_query_that_nothing_is_kept_for_gives_what_was_written(fill: Any) -> None:
    shapes = [*QKV, (5, 6)]
    q, k, v, m = xs = [gt.tensor(dtype="float32", shape=shape) for shape in shapes]
    y = where_kept(float(fill))(q, k, v, m)
    values = [RANDOM.normal(size=shape).astype(np.float32) * 9 for shape in shapes]
    values[-1][2] = -1
    f = graphc.function(xs, y, uncompiled("MLX"), returns="numpy")
    assert any(isinstance(node.op, Attention) for node in f.graph.nodes)
    wanted = graphc.function(xs, y, "NUMPY")(*values)
    assert np.isnan(wanted[..., 2, :]).all() == np.isinf(fill)
    np.testing.assert_allclose(f(*values), wanted, 2e-5, 2e-4)


def test_attention_with_nothing_in_it_is_right() -> None:
    for shapes in (((0, 4), (6, 4), (6, 7)), ((5, 4), (0, 4), (0, 7)), ((5, 0), (6, 0), (6, 7))):
        xs = [gt.matrix(dtype="float32") for _ in shapes]
        values = [RANDOM.normal(size=shape).astype(np.float32) for shape in shapes]
        y = gt.softmax(scores(xs[0], xs[1]), -1) @ xs[2]
        by_mlx, by_numpy = (
            graphc.function(xs, y, mode, returns="numpy")(*values)
            for mode in (uncompiled("MLX"), "NUMPY")
        )
        np.testing.assert_allclose(by_mlx, by_numpy, 1e-5)


@pytest.mark.parametrize("shape", [(4, 6), (5, 5), (1, 6), (2, 5, 6)])
@pytest.mark.parametrize("added", [True, False])
def test_a_mask_of_a_wrong_shape_is_refused(shape: tuple[int, ...], added: bool) -> None:
    xs = [gt.tensor(dtype="float32", shape=(None,) * 4) for _ in QKV]
    m = gt.tensor(dtype="float32", shape=(None,) * len(shape))
    y = gt.softmax(scores(*xs[:2]) + m, -1) @ xs[2] if added else where_kept(-np.inf)(*xs, m)
    f = graphc.function([*xs, m], y, uncompiled("MLX"))
    assert any(isinstance(node.op, Attention) for node in f.graph.nodes)
    values = [RANDOM.normal(size=shape).astype(np.float32) for shape in (*QKV, shape)]
    with pytest.raises(RuntimeShapeError, match="test_fused"):
        f(*values)


def test_a_wrong_number_of_speeds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(load("MLX").lowerings, Rotation, rotation)
    x, speed = gt.matrix(dtype="float32"), gt.vector(dtype="float32")
    f = graphc.function([x, speed], halves(x, speed), uncompiled("MLX"))
    for n in (1, 3, 8):
        with pytest.raises(RuntimeShapeError, match="test_fused"):
            f(np.ones((5, 8), np.float32), np.ones(n, np.float32))


def test_what_is_fused_is_told_and_can_be_left_out() -> None:
    xs, y = symbols("attention", "float32", False)
    f = graphc.function(xs, y, uncompiled("MLX"))
    plan = str(f.plan())
    assert "attention(" in plan
    assert f"{FUSE} 1 " in plan
    for name in (FUSE, "fused_attention", "attention", "all"):
        plain = graphc.function(xs, y, uncompiled("MLX", excluding=[name]))
        assert not any(isinstance(node.op, Attention) for node in plain.graph.nodes)
    only = uncompiled("MLX", including=["stabilize"])
    assert not any(isinstance(n.op, Attention) for n in graphc.function(xs, y, only).graph.nodes)
    only = uncompiled("MLX", excluding=["fuse"]).including("fused_attention")
    assert any(isinstance(n.op, Attention) for n in graphc.function(xs, y, only).graph.nodes)


def test_a_pattern_within_a_loop_and_compiled_is_right() -> None:
    x, w = gt.matrix("x", dtype="float32"), gt.matrix("w", dtype="float32")
    y = graphc.scan(
        lambda h, w: centred(h @ w) / gt.sqrt(variance(h @ w)),
        outputs_info=[x], non_sequences=[w], n_steps=3,
    )  # fmt: skip
    values = [RANDOM.normal(size=(4, 4)).astype(np.float32) for _ in range(2)]
    by_mlx, by_numpy = (
        graphc.function([x, w], y, mode, returns="numpy")(*values) for mode in ("MLX", "NUMPY")
    )
    np.testing.assert_allclose(by_mlx, by_numpy, 1e-4, 1e-4)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_fused_operation_compares_the_lengths_that_its_parts_did(name: str) -> None:
    xs, y = symbols(name, "float32", False)
    graph = optimize(Graph(xs, [y])).graph
    (fused,) = fuse(graph, BACKEND, [*RULES.values()]).graph.outputs
    random = Random(name)
    for i in range(40):
        pool = [{}, {4: 2}, {4: 1}, {5: 1}, {6: 5}, {7: 4}, {8: 4, 4: 2}, {2: 1, 3: 1}][i % 8]
        run = Run()
        for x, shape in zip(xs, PATTERNS[name][2], strict=True):
            lengths = iter([pool.get(n, n) for n in shape])
            run[x] = array(x.type, random, lambda lengths=lengths: next(lengths))
            if random.randrange(3) == 0:
                run[x] = array(x.type, random, lambda: random.choice([0, 1, 2, 4]))
        assert not fault(graph.outputs[0], fused, run, random)


def test_work_grows_as_the_graph_where_it_has_many_inputs() -> None:
    def work(n: int) -> int:
        inputs = [gt.vector() for _ in range(n)]
        y = inputs[0]
        for x in inputs[1:]:
            y = gt.tanh(y * x)
        graph = Graph(inputs, [y])
        return python_calls(lambda: fuse(graph, load("MLX"), [*RULES.values()]))

    work(10)
    assert work(400) < 4.4 * work(100)
