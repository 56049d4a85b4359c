"""A batch at once gives what its elements give one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.errors import ShapeError, UnsupportedOperationError
from graphc.ir import Node, Op, toposort
from graphc.tensor import Tensor
from graphc.tensor.elementwise import ROWS
from graphc.tensor.vectorize import batched
from tests.reference import evaluate

BATCH = 3


def batch_of(value: np.ndarray) -> np.ndarray:
    """Arrays of one shape that differ; integers keep their values, so that they stay indices."""
    if value.dtype.kind in "fc":
        return np.stack([value * (1 + k / 8) for k in range(BATCH)])
    return np.stack([np.roll(value, k) for k in range(BATCH)])


def check_batches(f: Callable[..., Any], *values: np.ndarray) -> None:
    """f of batches is the batch of f's, whichever are batched, of static length or not."""
    xs = [gt.tensor(shape=v.shape, dtype=v.dtype) for v in values]
    ys = f(*xs)
    ys = list(ys) if isinstance(ys, list | tuple) else [ys]
    for flags in itertools.product([False, True], repeat=len(values)):
        given = [batch_of(v) if flag else v for v, flag in zip(values, flags, strict=True)]
        expected = [
            evaluate(
                ys, {x: v[k] if flag else v for x, v, flag in zip(xs, given, flags, strict=True)}
            )
            for k in range(BATCH)
        ]
        for size in (BATCH, None) if any(flags) else ():
            batches = [gt.tensor(shape=(size, *v.shape), dtype=v.dtype) for v in values]
            replaced = {x: b for x, b, flag in zip(xs, batches, flags, strict=True) if flag}
            outputs = batched(ys, replaced)
            found = evaluate(
                outputs, {replaced.get(x, x): v for x, v in zip(xs, given, strict=True)}
            )
            for i, y in enumerate(found):
                np.testing.assert_allclose(y, np.stack([e[i] for e in expected]), rtol=1e-12)
                assert outputs[i].type.shape[1:] == ys[i].type.shape


FLOATS = np.random.default_rng(0).uniform(0.1, 0.9, (2, 3))


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_elementwise_rows_align_ranks_behind_the_batch_axis(row: Any) -> None:
    integers = row.domain("float64") is None
    values = [FLOATS, FLOATS[0] / 2, FLOATS[:, :1] * 2][: row.arity]
    if integers:
        values = [(v * 9).astype(np.int64) for v in values]
    check_batches(row, *values)


X = np.random.default_rng(1).standard_normal((4, 3, 2))
OPERATIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "where": (lambda c, a, b: gt.where(c > 0, a, b), (X, X[0], X[0, 0])),
    "cast": (lambda x: x.astype("float32").astype("float64"), (X,)),
    "clip": (gt.clip, (X, -abs(X[0]), abs(X[0, 0]))),
    "reshape": (lambda x: x.reshape(2, -1), (X,)),
    "ravel": (lambda x: x.ravel(), (X,)),
    "reshape by a length": (lambda x, y: x.reshape(y.shape[0] * 0 + 6, -1), (X, X[0])),
    "transpose": (lambda x: x.transpose(2, 0, 1), (X,)),
    "expand_dims": (lambda x: gt.expand_dims(x, (0, 2, -1)), (X,)),
    "squeeze": (lambda x: x[:1].squeeze(0), (X,)),
    "broadcast_to": (lambda x: gt.broadcast_to(x[:, None, :1], (5, 4, 3, 6)), (X[:, 0],)),
    "broadcast_to scalar": (lambda x: gt.broadcast_to(x, (1, 2)), (X[0, 0, 0],)),
    "concatenate": (lambda x, y: gt.concatenate([x, y, x], 1), (X, X[:, :2])),
    "stack": (lambda x, y: gt.stack([x, y], -1), (X, X + 1)),
    "sum": (lambda x: x.sum((0, 2)), (X,)),
    "sum of all": (lambda x: x.sum(), (X,)),
    "prod": (lambda x: x.prod(1, keepdims=True), (X,)),
    "max": (lambda x: x.max(-1), (X,)),
    "min": (lambda x: x.min((0, 1)), (X,)),
    "all": (lambda x: (x > 0).all(0), (X,)),
    "any": (lambda x: (x > 0).any(0), (X,)),
    "argmax": (lambda x: x.argmax(1), (X,)),
    "argmin of all": (lambda x: x.argmin(), (X,)),
    "softmax": (lambda x: gt.softmax(x, 1), (X,)),
    "log_softmax": (lambda x: gt.log_softmax(x, (0, 2)), (X,)),
    "logsumexp": (lambda x: gt.logsumexp(x, 0, keepdims=True), (X,)),
    "dot": (gt.dot, (X, X[0, :2])),
    "dot of vectors": (gt.dot, (X[0, :, 0], X[1, :, 0])),
    "matmul": (lambda a, b: a @ b, (X, X.swapaxes(1, 2))),
    "matmul of a matrix": (lambda a, b: a @ b, (X[0].T, X)),
    "tensordot": (lambda a, b: gt.tensordot(a, b, ([0, 2], [2, 0])), (X, X.transpose(2, 1, 0))),
    "length": (lambda x: x * gt.as_tensor(x.shape[0], dtype="float64"), (X,)),
    "norm": (lambda x: gt.norm(x, axis=1), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_brings_a_rule(name: str) -> None:
    f, values = OPERATIONS[name]
    check_batches(f, *[np.asarray(v) for v in values])


ARRAY = np.random.default_rng(2).standard_normal((4, 5, 6))
VALUE = np.random.default_rng(3).standard_normal(6)
ROWS_AT, COLUMNS_AT = np.array([0, 2, 1]), np.array([[1], [3]])
INDICES: dict[str, Callable[..., Any]] = {
    "x[i]": lambda x, i, j: x[i],
    "x[:, i]": lambda x, i, j: x[:, i],
    "x[i, :, j]": lambda x, i, j: x[i, :, j],
    "x[1, :, i]": lambda x, i, j: x[1, :, i],
    "x[:, i, j]": lambda x, i, j: x[:, i, j],
    "x[..., i, None]": lambda x, i, j: x[..., i, None],
    "x[i[0], :, i[1]]": lambda x, i, j: x[i[0], :, i[1]],
    "x[::-1, 1:3, i]": lambda x, i, j: x[::-1, 1:3, i],
    "x[None, :, 2, i]": lambda x, i, j: x[None, :, 2, i],
    "x[:, i[0]]": lambda x, i, j: x[:, i[0]],
    "x[i, None, j]": lambda x, i, j: x[i, None, j],
    "x[2]": lambda x, i, j: x[2],
    "x[:, 1:-1]": lambda x, i, j: x[:, 1:-1],
}


@pytest.mark.parametrize("index", INDICES)
def test_parts_of_a_batch_are_the_batch_of_parts(index: str) -> None:
    check_batches(INDICES[index], ARRAY, ROWS_AT, COLUMNS_AT)


@pytest.mark.parametrize("index", INDICES)
def test_a_batch_is_changed_as_its_elements_are(index: str) -> None:
    def changed(x: Tensor, i: Tensor, j: Tensor, v: Tensor) -> list[Tensor]:
        part = INDICES[index](x, i, j)
        fitting = v[: part.type.shape[-1]]
        return [part.inc(fitting), part.set(part * 2), part.inc(v[1])]

    check_batches(changed, ARRAY, ROWS_AT, COLUMNS_AT, VALUE)


def test_an_output_that_does_not_depend_on_the_batch_is_repeated() -> None:
    x, y, b = gt.vector(), gt.vector(), gt.matrix()
    (z,) = batched([gt.exp(y)], {x: b})
    (value,) = evaluate([z], {b: np.zeros((2, 3)), y: np.zeros(4)})
    np.testing.assert_array_equal(value, np.ones((2, 4)))


def test_lengths_are_the_same_for_the_whole_batch() -> None:
    x, b = gt.matrix(), gt.tensor3()
    outputs = batched([x.shape[1], x.shape, x.size], {x: b})
    found = evaluate(outputs, {b: np.zeros((2, 3, 4))})
    assert [v.tolist() for v in found] == [[4, 4], [[3, 4], [3, 4]], [12, 12]]


def test_what_does_not_depend_on_the_batch_stays_one_node() -> None:
    x, y, b = gt.vector(), gt.vector(), gt.matrix()
    kept = gt.exp(y)
    (z,) = batched([x * kept], {x: b})
    assert kept in z.inputs


def test_new_nodes_belong_to_the_line_of_the_old() -> None:
    x, b = gt.vector(), gt.matrix()
    y = gt.exp(x).sum()
    (z,) = batched([y], {x: b})
    assert z.where == y.where


def test_a_batch_of_no_elements_is_empty() -> None:
    x, b = gt.vector(), gt.matrix()
    (y,) = batched([(x[::-1] * 2).sum()], {x: b})
    assert evaluate([y], {b: np.zeros((0, 3))})[0].shape == (0,)


def test_a_long_chain_is_vectorised_without_recursion() -> None:
    x, b = gt.scalar(), gt.vector()
    y = x
    for _ in range(20_000):
        y = gt.sin(y)
    (z,) = batched([y], {x: b})
    assert len(toposort([z])) == 20_001


def test_a_graph_grows_by_few_nodes_whatever_the_batch() -> None:
    def nodes(size: int) -> int:
        x, b = gt.tensor(shape=(3, 3)), gt.tensor(shape=(size, 3, 3))
        y = gt.softmax(x @ x, 1)[gt.argmax(x, 1)].sum()
        return len(toposort(batched([y], {x: b})))

    assert nodes(2) == nodes(1000)


REFUSED: dict[str, Callable[[Tensor], Any]] = {
    "a slice": lambda n: gt.constant(np.arange(3.0))[:n],
    "a length": gt.zeros,
    "a range": gt.arange,
    "a unit matrix": gt.eye,
    "places": lambda n: gt.nonzero(gt.expand_dims(n, 0))[0],
    "a shape": lambda n: gt.zeros(6).reshape(n, -1),
}


@pytest.mark.parametrize("what", REFUSED)
def test_shapes_that_differ_within_a_batch_are_refused(what: str) -> None:
    n, b = gt.lscalar(), gt.lvector()
    with pytest.raises(UnsupportedOperationError, match="differ from one element"):
        batched([REFUSED[what](n)], {n: b})


def test_a_replacement_that_is_no_batch_is_refused() -> None:
    x = gt.tensor(shape=(3,))
    with pytest.raises(ShapeError, match="no batch of"):
        batched([x], {x: gt.tensor(shape=(2, 4))})


def test_batches_of_two_lengths_are_refused() -> None:
    x, y = gt.scalar(), gt.scalar()
    with pytest.raises(ShapeError, match="different lengths: 2, 3"):
        batched([x + y], {x: gt.tensor(shape=(2,)), y: gt.tensor(shape=(3,))})


def test_an_operation_without_a_rule_is_named() -> None:
    class Plain(Op):
        def infer(self, x: Any) -> Any:
            return x

    x, b = gt.vector(), gt.matrix()
    y: Node = Tensor.make(Plain(), x)
    with pytest.raises(UnsupportedOperationError, match="Plain has no rule for batches"):
        batched([y], {x: b})
