"""A stranger's operations, which declare no padding, on padded arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import DynamicShapeError
from graphc.ir import TensorType, TupleType
from graphc.ir.lengths import agree, common
from tests.link.padding.run import run_padded

RANDOM = np.random.default_rng(1)


@dataclass(frozen=True, slots=True)
class RowNorms(graphc.Op):
    """The norms of rows."""

    def infer(self, x: TensorType) -> TensorType:
        return x.with_shape(x.shape[:-1])

    def perform(self, x: Any) -> Any:
        return np.sqrt((x * x).sum(-1))

    def pullback(self, g: Any, y: Any, x: Any) -> Any:
        return (gt.expand_dims(g / y, y.ndim) * x,)


@dataclass(frozen=True, slots=True)
class Weighted(graphc.Op):
    """The rows times weights, and the number of each row in float32."""

    def infer(self, x: TensorType, weights: TensorType) -> TupleType:
        n = x.shape[0]
        if not agree(n, weights.shape[0]):
            raise graphc.errors.ShapeError("Weighted: lengths differ.")
        n = common(n, weights.shape[0])
        return TupleType((x.with_shape((n, x.shape[1])), TensorType("float32", (n,))))

    def perform(self, x: Any, weights: Any) -> Any:
        return x * weights[:, None], np.arange(len(x), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Doubled(graphc.Op):
    """Two copies of a vector, one after the other."""

    def infer(self, x: TensorType) -> TensorType:
        (n,) = x.shape
        return x.with_shape((None if n is None else n + n,))

    def perform(self, x: Any) -> Any:
        return np.concatenate([x, x])


@dataclass(frozen=True, slots=True)
class Positive(graphc.Op):
    """The positive elements: a length that no type rule gives."""

    def infer(self, x: TensorType) -> TensorType:
        return x.with_shape((None,))

    def perform(self, x: Any) -> Any:
        return x[x > 0]


@dataclass(frozen=True, slots=True)
class Halves(graphc.Op):
    """An elementwise function that declares any padding."""

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: Any) -> Any:
        return x / 2

    def padding_for(self, i: int, axis: int, type: TensorType) -> str:
        return "any"


@pytest.mark.parametrize("padded", [(None, None), (None, 3), (4, None)])
@pytest.mark.parametrize("shape", [(4, 3), (1, 1), (0, 3), (4, 0)])
def test_norms_of_rows_are_those_of_the_valid_elements(padded: Any, shape: Any) -> None:
    static = [n if m is not None else None for n, m in zip(shape, padded, strict=True)]
    x = TensorType("float64", tuple(static))()
    value = RANDOM.standard_normal(shape)
    norms = RowNorms()(x)
    found, total = run_padded([x], [norms, gt.sum(norms)], [value])
    np.testing.assert_allclose(found, np.linalg.norm(value, axis=1))
    np.testing.assert_allclose(total, np.linalg.norm(value, axis=1).sum())


def test_a_gradient_through_a_strangers_operation() -> None:
    x = gt.matrix("x")
    value = RANDOM.standard_normal((4, 3))
    (found,) = run_padded([x], [graphc.grad(gt.sum(RowNorms()(x)), x)], [value])
    np.testing.assert_allclose(found, value / np.linalg.norm(value, axis=1, keepdims=True))


def test_several_results_of_several_operands() -> None:
    x, weights = gt.matrix("x"), gt.vector("weights")
    values = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal(4)
    product, rows = run_padded([x, weights], [*Weighted()(x, weights)], values)
    np.testing.assert_allclose(product, values[0] * values[1][:, None])
    np.testing.assert_array_equal(rows, np.arange(4, dtype=np.float32))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_length_that_the_type_rule_computes(n: int) -> None:
    x = gt.vector("x")
    value = RANDOM.standard_normal(n)
    found, total = run_padded([x], [Doubled()(x), gt.sum(Doubled()(x))], [value])
    np.testing.assert_array_equal(found, [*value, *value])
    np.testing.assert_allclose(total, 2 * value.sum())


def test_a_length_that_no_type_rule_gives_cannot_be_padded() -> None:
    x = gt.vector("x")
    with pytest.raises(DynamicShapeError):
        run_padded([x], [Positive()(x)], [np.array([1.0, -1.0])])


def test_an_operation_that_declares_padding_reads_whole_buffers() -> None:
    x = gt.vector("x")
    value = RANDOM.standard_normal(3)
    np.testing.assert_array_equal(run_padded([x], [Halves()(x)], [value])[0], value / 2)


@dataclass(frozen=True, slots=True)
class Unknown(graphc.Op):
    """An operation that NumPy does not compute."""

    def infer(self, x: TensorType) -> TensorType:
        return x


def test_an_operation_without_a_reference_cannot_be_padded() -> None:
    x = gt.vector("x")
    with pytest.raises(DynamicShapeError):
        run_padded([x], [Unknown()(x)], [np.array([1.0])])


@dataclass(frozen=True, slots=True)
class Total(graphc.Op):
    """The sum of a vector in contiguous memory, by NumPy on each backend."""

    by_numpy = True

    def infer(self, x: TensorType) -> TensorType:
        return x.with_shape(())

    def perform(self, x: Any) -> Any:
        assert x.flags.c_contiguous
        return x.sum()


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_a_result_may_be_a_scalar(mode: str) -> None:
    v = gt.vector("v", bucket=2)
    f = graphc.function([v], Total()(v[::2]), mode=mode)
    for n in (3, 6, 20):
        assert f(np.arange(float(n))) == np.arange(float(n))[::2].sum()
    assert not f._compiled.execute.is_refused
