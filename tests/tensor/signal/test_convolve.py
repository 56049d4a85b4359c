"""Convolution and correlation of vectors are NumPy's, and derivatives are convolutions again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, GraphcError, ShapeError
from graphc.ir import toposort
from graphc.link import names
from graphc.tensor.signal.convolve import MODES, Convolution, FourierConvolution, fast_length
from tests.contract.tolerance import assert_agree
from tests.modes import uncompiled
from tests.tensor.agreement import DTYPES, arrays, check_agrees

BACKENDS = names()
VECTORS = hnp.array_shapes(min_dims=1, max_dims=1, min_side=1, max_side=6)


@settings(max_examples=80)
@given(data=st.data(), mode=st.sampled_from(MODES))
def test_sums_are_numpys(data: Any, mode: str) -> None:
    a = data.draw(arrays(DTYPES, VECTORS))
    v = data.draw(arrays([str(a.dtype)], VECTORS))
    for name in ("convolve", "correlate"):
        check_agrees(
            lambda a, v, f=name: getattr(gt, f)(a, v, mode),
            lambda a, v, f=name: getattr(np, f)(a, v, mode),
            a, v,
        )  # fmt: skip


@pytest.mark.parametrize("mode", BACKENDS)
def test_one_program_takes_vectors_of_any_lengths(mode: str) -> None:
    a, v = gt.vector("a", dtype="float32"), gt.vector("v", dtype="float32")
    calls = [(f, m) for f in ("convolve", "correlate") for m in MODES]
    outputs = [getattr(gt, f)(a, v, m) for f, m in calls]
    f = graphc.function([a, v], outputs, uncompiled(mode), returns="numpy")
    random = np.random.default_rng(0)
    for n, k in ((1, 1), (7, 4), (4, 7), (5, 5), (2, 5)):
        x, y = (random.normal(size=m).astype("float32") for m in (n, k))
        for found, (name, m) in zip(f(x, y), calls, strict=True):
            assert_agree(found, getattr(np, name)(x, y, m), (name, m, n, k), scale=5.0)


@pytest.mark.parametrize("mode", BACKENDS)
def test_float64_keeps_its_digits(mode: str) -> None:
    random = np.random.default_rng(0)
    x, k = random.normal(size=(2, 300)), random.normal(size=(2, 40))
    a, v = gt.matrix("a"), gt.matrix("v")
    outputs = [gt.signal.convolve1d(a, v), gt.signal.convolve1d(a[0], v[0])]
    outputs.append(gt.signal.fftconvolve(a, v, axes=1))
    f = graphc.function([a, v], outputs, uncompiled(mode), returns="numpy")
    both = np.array([np.convolve(*xy) for xy in zip(x, k, strict=True)])
    for found, wanted in zip(f(x, k), (both, both[0], both), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-12, 1e-12)


@pytest.mark.parametrize("mode", BACKENDS)
def test_integers_are_exact_and_wrap_around(mode: str) -> None:
    big = np.array([2**62, 3, -(2**40) - 1, 7])
    a = gt.vector("a", dtype="int64")
    b = gt.vector("b", dtype="int8")
    f = graphc.function(
        [a, b], [gt.convolve(a, a), gt.correlate(b, b, "full")], uncompiled(mode), returns="numpy"
    )
    small = np.array([100, 100, -3], "int8")
    wide, narrow = f(big, small)
    np.testing.assert_array_equal(wide, np.convolve(big, big))
    np.testing.assert_array_equal(narrow, np.correlate(small, small, "full"))


def test_long_convolutions_are_laid_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x, k = random.normal(size=(2, 17, 5)), random.normal(size=(2, 4, 3))
    a, b = gt.tensor3("a"), gt.tensor3("b")
    monkeypatch.setattr("graphc.link.mlx.lower.signal.MAX_WINDOW_ELEMENTS", 600)
    y = gt.signal.convolve2d(a, b)
    found = graphc.function([a, b], y, uncompiled("MLX"), returns="numpy")(x, k)
    wanted = graphc.function([a, b], y, "NUMPY")(x, k)
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-12)


def _reference(a: np.ndarray, b: np.ndarray, *, full: bool) -> np.ndarray:
    """Groups, rows and columns, with the channels summed over, one sum at a time."""
    groups, rows, _, *n = a.shape
    columns, k = b.shape[1], b.shape[3:]
    if full:
        a = np.pad(a, [(0, 0)] * 3 + [(m - 1, m - 1) for m in k])
        n = [i + 2 * (m - 1) for i, m in zip(n, k, strict=True)]
    spatial = [i - m + 1 for i, m in zip(n, k, strict=True)]
    y = np.zeros((groups, rows, columns, *spatial))
    turned = np.flip(b, tuple(range(3, b.ndim)))
    for at in np.ndindex(*spatial):
        window = tuple(slice(i, i + m) for i, m in zip(at, k, strict=True))
        part = a[(..., *window)]
        products = part[:, :, None] * turned[:, None]
        y[(..., *at)] = products.sum(tuple(range(3, products.ndim)))
    return y


@pytest.mark.parametrize("full", [True, False], ids=["full", "valid"])
@pytest.mark.parametrize("mode", BACKENDS)
@pytest.mark.parametrize("cls", [Convolution, FourierConvolution])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_groups_rows_columns_and_channels_are_kept_apart(
    axes: int, cls: type[Convolution], mode: str, full: bool
) -> None:
    random = np.random.default_rng(axes)
    x = random.normal(size=(2, 3, 2, 5, 4, 3)[: 3 + axes])
    k = random.normal(size=(2, 4, 2, 3, 2, 2)[: 3 + axes])
    a, b = gt.tensor(shape=(None,) * x.ndim), gt.tensor(shape=(None,) * x.ndim)
    y = gt.Tensor.make(cls(1, 1, 1, 1, full), a, b)
    wanted = _reference(x, k, full=full)
    weights = random.normal(size=wanted.shape)
    by = graphc.grad(gt.sum(weights * y), [a, b])
    f = graphc.function([a, b], [y, *by], uncompiled(mode), returns="numpy")
    found, *gradients = f(x, k)
    np.testing.assert_allclose(found, wanted, 1e-11, 1e-11)
    # The cost is linear in each operand.
    for i, slope in enumerate(gradients):
        given = [x, k]
        given[i] = random.normal(size=given[i].shape)
        cost = np.sum(weights * _reference(*given, full=full))
        np.testing.assert_allclose(np.sum(slope * given[i]), cost, 1e-9)


def test_derivatives_of_all_orders_are_right() -> None:
    random = np.random.default_rng(0)
    x, k = random.normal(size=6), random.normal(size=3)

    def cost(a: Any, b: Any) -> Any:
        return gt.sum(gt.convolve(a, b, "same") ** 3) + gt.sum(gt.correlate(a, b) ** 2)

    graphc.verify_grad(cost, [x, k], mode="NUMPY")
    graphc.verify_grad(lambda a, b: gt.sum(graphc.grad(cost(a, b), b) ** 2), [x, k], mode="NUMPY")
    a, b = gt.vector("a"), gt.vector("b")
    y = gt.convolve(a, b)
    (tangent,) = graphc.pushforward([y], [a, b], [gt.ones_like(a), gt.ones_like(b)])
    f = graphc.function([a, b], tangent, "NUMPY")
    wanted = np.convolve(np.ones(6), k) + np.convolve(x, np.ones(3))
    np.testing.assert_allclose(f(x, k), wanted, 1e-12)


@pytest.mark.parametrize("mode", BACKENDS)
def test_a_batch_is_one_convolution(mode: str) -> None:
    a, b = gt.matrix("a"), gt.matrix("b")
    each = graphc.vectorize(gt.convolve, signature="(n),(k)->(m)")
    outputs = [each(a, b), each(a, b[0]), each(a[0], b)]
    for y in outputs:
        assert sum(isinstance(node.op, Convolution) for node in toposort([y])) == 1
    f = graphc.function([a, b], outputs, uncompiled(mode), returns="numpy")
    x, k = np.arange(15.0).reshape(3, 5), np.arange(6.0).reshape(3, 2)
    both, rows, columns = f(x, k)
    np.testing.assert_allclose(both, [np.convolve(u, v) for u, v in zip(x, k, strict=True)])
    np.testing.assert_allclose(rows, [np.convolve(u, k[0]) for u in x])
    np.testing.assert_allclose(columns, [np.convolve(x[0], v) for v in k])


def test_a_fast_length_has_small_factors() -> None:
    assert [fast_length(n) for n in (1, 7, 11, 13, 97, 1021)] == [1, 8, 12, 15, 100, 1024]


def test_numpys_functions_take_symbolic_arrays() -> None:
    a = gt.vector("a")
    assert np.convolve(a, a, "same") is gt.convolve(a, a, "same")  # type: ignore[comparison-overlap]
    assert np.correlate(a, a) is gt.correlate(a, a)  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("mode", BACKENDS)
def test_nothing_has_no_convolution(mode: str) -> None:
    a, b = gt.vector("a"), gt.vector("b")
    f = graphc.function([a, b], gt.convolve(a, b), uncompiled(mode))
    with pytest.raises(GraphcError, match=r"cannot convolve 0 elements with 3"):
        f(np.zeros(0), np.zeros(3))
    with pytest.raises(
        ShapeError, match=r"cannot convolve 0 elements with 3(.|\n)*test_convolve.py"
    ):
        gt.convolve(gt.tensor(shape=(0,)), gt.tensor(shape=(3,)))


@pytest.mark.parametrize("mode", BACKENDS)
def test_groups_of_unequal_lengths_are_an_error(mode: str) -> None:
    a, b = gt.matrix("a"), gt.matrix("b")
    f = graphc.function([a, b], gt.signal.convolve1d(a, b), uncompiled(mode))
    with pytest.raises(GraphcError, match="differ in length"):
        f(np.zeros((2, 4)), np.zeros((3, 4)))
    with pytest.raises(ShapeError, match=r"axis 0 of the first has length 2(.|\n)*test_convolve"):
        gt.signal.convolve1d(gt.tensor(shape=(2, 4)), gt.tensor(shape=(3, 4)))


def test_what_is_no_vector_or_mode_is_refused() -> None:
    a = gt.vector("a")
    with pytest.raises(ShapeError, match=r"expected two vectors(.|\n)*gt.signal"):
        gt.convolve(gt.matrix(), a)
    with pytest.raises(ArgumentError, match="mode='all'"):
        gt.correlate(a, a, "all")
