"""What adaptors ask of structures, and what they make of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc.tensor as gt
from graphc.implicit import (
    BCOO,
    BlockDiagonal,
    Diagonal,
    Identity,
    OneHot,
    Zeros,
    implicit,
    materializing,
)
from graphc.implicit.structured import ElementwiseFunction, Structured
from graphc.implicit.treedef import dtype_of, lengths_of
from tests.implicit.reference import Case, check, named, runs


@dataclass(frozen=True, repr=False)
class Product(Structured):
    """A product of two matrices, or of stacks of them: a @ b."""

    a: Any
    b: Any

    def materialize(self) -> Any:
        return self.xp.matmul(self.a, self.b)

    @property
    def shape(self) -> tuple[Any, ...]:
        return (*lengths_of(self.a)[:-1], lengths_of(self.b)[-1])

    @property
    def dtype(self) -> Any:
        return dtype_of(self.a)

    def rmatmul(self, x: Any) -> Any:
        return self.xp.matmul(self.xp.matmul(x, self.a), self.b)

    def matrix_transpose(self) -> Any:
        xp = self.xp
        return Product(xp.swapaxes(self.b, -1, -2), xp.swapaxes(self.a, -1, -2))

    def permute(self, axes: tuple[int, ...]) -> Any:
        """Batch axes stay where they are."""
        stays = axes[:-2] == tuple(range(self.ndim - 2))
        return super().permute(axes) if stays else NotImplemented

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
        """With other axes in front of the last two."""
        if len(shape) > 1 and shape[-2:] == self.shape[-2:]:
            xp, lead = self.xp, shape[:-2]
            a = xp.reshape(self.a, (*lead, *lengths_of(self.a)[-2:]))
            return Product(a, xp.reshape(self.b, (*lead, *lengths_of(self.b)[-2:])))
        return super().reshape_to(shape)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        return Product(f(self.a), self.b) if f.linear else NotImplemented

    def scale_along(self, vector: Any, axis: int) -> Any:
        if axis == self.ndim - 1:
            return Product(self.a, self.b * vector)
        return (
            Product(self.a * vector[:, None], self.b) if axis == self.ndim - 2 else NotImplemented
        )

    def take_rows(self, index: Any) -> Any:
        xp = self.xp
        a = xp.take(self.a, index, axis=0)
        return (
            xp.matmul(a, self.b) if self.ndim == 2 else Product(a, xp.take(self.b, index, axis=0))
        )

    def window(self, ranges: tuple[range, ...]) -> Any:
        *lead, rows, columns = [slice(r.start, r.stop, r.step) for r in ranges]
        return Product(self.a[(*lead, rows)], self.b[(*lead, slice(None), columns)])

    def reduce(self, name: str, axes: tuple[int, ...]) -> Any:
        if name != "sum" or self.ndim != 2:
            return NotImplemented
        a = self.a.sum(0) if 0 in axes else self.a
        return self.xp.matmul(a, self.b.sum(1) if 1 in axes else self.b)

    def cast(self, dtype: Any) -> Any:
        return self.each(lambda x: self.xp.cast(x, dtype))


def matrix(rng: np.random.Generator) -> Any:
    """Of rank 2."""
    x = Product(rng.normal(size=(4, 2)), rng.normal(size=(2, 6)))
    return x, x.a @ x.b


def stack(rng: np.random.Generator) -> Any:
    """Five of rank 2."""
    x = Product(rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 2, 6)))
    return x, x.a @ x.b


BOTH = """
x @ w; y @ w.T; xs @ w; ys @ w.T; w @ x.T; w @ v; c @ w; w.T @ c; w.T @ w; w.T; new axis;
new axis and back; w[1]; w[-1]; w[1:3]; w[::2]; w[::-1]; w[:, 1:3]; w[1, 2]; w[:0]; w[None]; w[i];
w[index]; w[table]; w[-index]; take; split; w * 2; s * w; w / s; -w; w * row; w * column; w / row;
where flag; cast; cast half
"""

MATRIX = """
einsum free between; layer; two layers; new axis, product; w[:, 1]; w[1:3, ::2]; w[:, columns];
w[:, index]; take columns; cast, product; sum; sum of columns; sum of rows; sum kept; mean
"""

STACK = "einsum batch; einsum unbatched; stack[0] product; stack[i] product"


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations_of_a_matrix(case: Case, way: str) -> None:
    check(matrix, case, way, named(BOTH, MATRIX))


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=3))
def test_operations_of_a_stack(case: Case, way: str) -> None:
    check(stack, case, way, named(BOTH, STACK))


@pytest.mark.parametrize("kind", [bool, np.int32])
def test_a_choice_by_an_array_of_integers_or_booleans(kind: type) -> None:
    x, whole = matrix(np.random.default_rng(0))
    which = np.arange(24).reshape(4, 6) % (2 if kind is bool else 3)
    others = [jnp.asarray(whole), 2 * jnp.asarray(whole)]

    def chosen(w: Any) -> Any:
        cases = [w, others[1]] if kind is bool else [others[0], w, others[1]]
        return jax.lax.select_n(jnp.asarray(which, kind), *cases)

    assert np.allclose(implicit(chosen)(x), chosen(jnp.asarray(whole)))


ZEROS_HELD_BY_NO_FIELD = [
    Diagonal(np.array([1.0, 2.0, 4.0])),
    Identity(np.array(2.0), 3),
    OneHot(np.array([0, 1, 5, 2]), 3, np.array([1.0, 2.0, 3.0, 5.0])),
    BCOO(np.array([1.0, 2.0]), np.array([[0, 0], [1, 2]]), (2, 3), True),
    BlockDiagonal(np.array([[[1.0, 2.0]], [[3.0, 4.0]]])),
]


@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
@pytest.mark.parametrize("w", ZEROS_HELD_BY_NO_FIELD, ids=lambda w: type(w).__name__)
def test_remainders_of_zeros_by_zeros_are_nan(w: Any, name: str) -> None:
    """Zeros that no field holds are divided too where both arrays have them."""
    dense, zeros = np.asarray(w), np.zeros(w.shape)
    function, in_jax, in_numpy = [getattr(module, name) for module in (gt, jnp, np)]
    for other, plain in ((w, dense), (Zeros.of(w.shape, "float64"), zeros)):
        with np.errstate(all="ignore"):
            expected = in_numpy(dense, plain)
        y = function(gt.as_tensor(w), gt.as_tensor(other)).eval(mode="NUMPY")
        np.testing.assert_array_equal(y, expected)
        arrays = [jax.tree.map(jnp.asarray, x) for x in (w, other)]
        y = implicit(in_jax)(*arrays)
        np.testing.assert_array_equal(y, in_jax(dense.astype("float32"), plain.astype("float32")))
    integers = w.astype("int64")
    with np.errstate(all="ignore"):
        with materializing("error"):
            y = function(gt.as_tensor(integers), gt.as_tensor(integers)).eval(mode="NUMPY")
        assert isinstance(y, Structured)
        np.testing.assert_array_equal(y, in_numpy(*[dense.astype("int64")] * 2))
