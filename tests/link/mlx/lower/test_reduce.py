"""What MLX's own reductions, sorts and products leave wrong, and what is composed instead."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link.mlx.lower import linalg
from graphc.tensor.arrays.cumulative import Recurrence
from graphc.tensor.arrays.reduce import LogSumExp
from graphc.tensor.arrays.sort import SearchSorted
from graphc.tensor.linalg.cholesky import CholeskyInverse
from graphc.tensor.special.special import Softmax
from tests.modes import uncompiled

MLX = uncompiled("MLX")
RANDOM = np.random.default_rng(0)


def on_mlx(f: Any, *values: np.ndarray[Any, Any]) -> Any:
    xs = [gt.tensor(dtype=x.dtype.name, shape=(None,) * x.ndim) for x in values]
    return graphc.function(xs, f(*xs), MLX, returns="numpy")(*values)


@pytest.mark.parametrize("axes", [(0, 1), (0,), (1,)])
def test_a_long_sum_of_narrow_floats_keeps_its_digits(axes: tuple[int, ...]) -> None:
    x = RANDOM.uniform(0, 1, (10_037, 67)).astype(np.float32)
    y = on_mlx(lambda x: gt.sum(x, axes), x)
    np.testing.assert_allclose(y, x.astype(np.float64).sum(axes), 2e-6)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3)])
def test_nothing_to_reduce_gives_what_is_neutral(shape: tuple[int, ...]) -> None:
    # Often, as MLX's own reduction ran without end in some of the calls.
    x = gt.tensor(dtype="int64", shape=(None,) * len(shape))
    f = graphc.function([x], [gt.sum(x, 0), gt.prod(x, 1), gt.all(x, 1)], MLX, returns="numpy")
    value = np.zeros(shape, np.int64)
    for _ in range(50):
        for y, wanted in zip(f(value), (value.sum(0), value.prod(1), value.all(1)), strict=True):
            np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
@pytest.mark.parametrize("n", [3, 130])
def test_products_of_integers_wrap_around(n: int, dtype: str) -> None:
    ends = np.iinfo(dtype)
    a, b = (RANDOM.integers(ends.min, ends.max, (n, n), dtype, endpoint=True) for _ in range(2))
    y = on_mlx(lambda a, b: a @ b, a, b)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, a @ b)


def test_complex_numbers_sort_as_in_numpy_with_nan_last() -> None:
    parts = np.array([1.0, -2, 0, np.nan, np.inf, 1])
    re, im = (x.ravel() for x in np.meshgrid(parts, parts[::-1]))
    x = (re + 0j).astype(np.complex64)
    x.imag = im
    np.testing.assert_array_equal(on_mlx(gt.argsort, x), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(on_mlx(gt.sort, x), np.sort(x))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 100])
def test_places_are_found_in_vectors_of_any_length(n: int, right: bool) -> None:
    x = np.sort(RANDOM.integers(0, n + 1, n).astype(np.float64))
    v = np.array([-np.inf, -1, 0, *range(n + 2), 0.5, np.inf, np.nan])
    if n > 2:
        x[-1] = np.nan
    op = SearchSorted(right)
    found = on_mlx(lambda x, v: gt.Tensor.make(op, x, v), x, v)
    np.testing.assert_array_equal(found, op.perform(x, v))


def test_running_extremes_of_half_width_floats_keep_nan() -> None:
    x = np.array([2, 1, 3, np.nan, 4], np.float16)
    np.testing.assert_array_equal(on_mlx(gt.cummax, x), np.maximum.accumulate(x))


def stepped(a: Any, b: Any, reverse: bool) -> Any:
    y = b.copy()
    steps = range(len(b))[:: -1 if reverse else 1]
    for before, i in pairwise(steps):
        y[i] = a[i] * y[before] + b[i]
    return y


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6, 7, 8, 9, 1000, 1023])
def test_a_recurrence_is_what_stepping_gives(n: int, reverse: bool) -> None:
    a, b = RANDOM.uniform(-1, 1, (n, 3)), RANDOM.normal(size=(n, 3))
    a[1::5] = 0
    op = Recurrence(0, reverse)
    for axis, turn in ((0, np.asarray), (1, np.transpose)):
        op = Recurrence(axis, reverse)
        y = on_mlx(lambda a, b, op=op: gt.Tensor.make(op, a, b), turn(a).copy(), turn(b).copy())
        np.testing.assert_allclose(turn(y), stepped(a, b, reverse), 1e-12, 1e-12)
    narrow = on_mlx(lambda a, b: gt.Tensor.make(Recurrence(0, reverse), a, b),
                    a.astype(np.float16), b.astype(np.float16))  # fmt: skip
    wanted = stepped(*(x.astype(np.float16).astype(np.float64) for x in (a, b)), reverse)
    np.testing.assert_allclose(narrow, wanted, 2e-3, 1e-3)


def test_what_is_not_finite_stays_so_in_a_recurrence() -> None:
    a, b = np.full(40, 0.5), np.ones(40)
    a[20], b[10], a[15], b[30] = 0, np.inf, 0.25, np.nan
    y = on_mlx(lambda a, b: gt.Tensor.make(Recurrence(0), a, b), a, b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(y, stepped(a, b, False))
    assert np.isinf(y[10:20]).all()
    assert np.isnan(y[20:]).all()


def test_a_linear_loop_is_no_loop_on_mlx() -> None:
    assert "linear_recurrence" in graphc.Mode("MLX").included
    a, b = gt.matrices("a", "b")
    y = graphc.scan(lambda a, b, y: a * y + b, sequences=[a, b], outputs_info=[gt.zeros_like(b[0])])
    outputs = [y, *graphc.grad(gt.sum(gt.square(y)), [a, b])]
    values = RANDOM.uniform(-1, 1, (2, 500, 3))
    found, wanted = (
        graphc.function([a, b], outputs, mode, returns="numpy")(*values) for mode in (MLX, "NUMPY")
    )
    for by_mlx, by_numpy in zip(found, wanted, strict=True):
        np.testing.assert_allclose(by_mlx, by_numpy, 1e-11, 1e-12)


@pytest.mark.parametrize("op", [Softmax, LogSumExp])
@pytest.mark.parametrize("row", [[-np.inf] * 3, [np.inf, 0, 1], [-np.inf, 5, 1000], [np.nan, 0, 1]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinite_weights_are_as_in_the_definition(op: Any, row: Any, dtype: str) -> None:
    x = np.array([row, [1, 2, 3]], dtype)
    on_numpy = gt.Tensor.make(op((1,)), gt.constant(x)).eval(mode="NUMPY")
    y = on_mlx(lambda x: gt.Tensor.make(op((1,)), x), x)
    np.testing.assert_allclose(y, on_numpy, 1e-5 if dtype == "float32" else 1e-13)


def test_float64_goes_by_the_definition_as_mlx_has_its_exponentials_in_float32() -> None:
    x = RANDOM.normal(size=(50, 40)) * 10
    y = on_mlx(lambda x: gt.softmax(x, 1), x)
    weights = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, weights / weights.sum(1, keepdims=True), 1e-13)
    assert mx.abs(mx.softmax(mx.array(x, dtype=mx.float64), 1) - mx.array(y)).max().item() > 0


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (0, 2), (0, 1, 2), (1,)])
def test_many_narrow_floats_are_added_up_exactly_along_all_axes(axes: tuple[int, ...]) -> None:
    for shape in [(1000, 1001, 2), (2, 1000, 1001), (700, 3, 700)]:
        x = np.full(shape, 0.1, np.float32)
        wanted = x.astype(np.float64).sum(axes)
        y = on_mlx(lambda x: gt.sum(x, axes), x)
        np.testing.assert_allclose(y, wanted, 2e-5)


@pytest.mark.parametrize("terms", [10**6, 3 * 2**13, 2**13 + 1, 5])
def test_a_long_product_of_narrow_floats_keeps_its_digits(terms: int) -> None:
    a, b = gt.ftensor3("a"), gt.ftensor3("b")
    product = graphc.function([a, b], gt.matmul(a, b), uncompiled("MLX"), returns="numpy")
    left = np.random.default_rng(0).uniform(0, 1, (2, 1, terms)).astype(np.float32)
    right = np.random.default_rng(1).uniform(0, 1, (2, terms, 2)).astype(np.float32)
    wanted = left.astype(np.float64) @ right
    np.testing.assert_allclose(product(left, right), wanted, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 63, 65, 130, 513])
def test_the_inverse_of_cholesky_factors_skips_most_products_with_zeros(
    n: int, monkeypatch: Any
) -> None:
    work = []

    def matmul(a: Any, b: Any, **how: Any) -> Any:
        work.append(a.shape[-2] * a.shape[-1] * b.shape[-1])
        return mx.matmul(a, b, **how)

    factor = np.tril(RANDOM.normal(size=(n, n))) / n + 2 * np.eye(n)
    monkeypatch.setattr(linalg, "mx", SimpleNamespace(**{**vars(mx), "matmul": matmul}))
    y = np.asarray(linalg.cholesky_inverse(CholeskyInverse(), mx.array(factor, mx.float64)))
    np.testing.assert_allclose(y, np.linalg.inv(factor @ factor.T), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(y, y.T)
    assert n < 512 or sum(work) < n**3 / 4
