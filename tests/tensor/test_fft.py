"""Fourier transforms are NumPy's, of any length, and derivatives are transforms again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GraphcError,
    ShapeError,
    UnsupportedOperationError,
)
from graphc.link import names
from graphc.tensor.fft import MIRRORED
from tests.contract.tolerance import assert_agree
from tests.modes import lacks, uncompiled

BACKENDS = names()
NORMS = [*MIRRORED]
LENGTHS = [1, 2, 3, 4, 7, 8, 9, 13, 15, 16, 31, 36, 97]
"""Odd, even, prime, and powers."""


def _signal(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    random = np.random.default_rng(len(shape) + sum(shape))
    x = random.normal(size=shape)
    return (x + 1j * random.normal(size=shape) if dtype.startswith("c") else x).astype(dtype)


def _close(found: Any, wanted: Any) -> None:
    """Rounded in proportion to the largest element, as transforms are."""
    assert_agree(found, wanted, scale=np.max(np.abs(wanted), initial=0))


@pytest.mark.parametrize("mode", BACKENDS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_any_length_transforms(dtype: str, mode: str) -> None:
    if lacks(mode, dtype):
        return
    z = gt.vector("z", dtype=dtype)
    outputs = [gt.fft.fft(z), gt.fft.ifft(z), gt.fft.rfft(z.real)]
    outputs.append(gt.fft.irfft(z, 2 * z.shape[0] - 1))
    f = graphc.function([z], outputs, uncompiled(mode), returns="numpy")
    for n in LENGTHS:
        value = _signal((n,), dtype)
        wanted = [np.fft.fft(value), np.fft.ifft(value), np.fft.rfft(value.real)]
        wanted.append(np.fft.irfft(value, 2 * n - 1))
        for y, w in zip(f(value), wanted, strict=True):
            _close(y, w)


@settings(max_examples=25)
@given(data=st.data())
def test_any_axes_lengths_and_scales_are_numpys(data: Any) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    axes = data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))]
    s = [data.draw(st.integers(1, 6)) for _ in axes]
    norm = data.draw(st.sampled_from([None, *NORMS]))
    real, value = _signal(tuple(shape), "float32"), _signal(tuple(shape), "complex64")
    x = gt.tensor("x", dtype="float32", shape=(None,) * len(shape))
    z = gt.tensor("z", dtype="complex64", shape=(None,) * len(shape))
    calls = [
        lambda n, x, z: n.fftn(z, s, axes, norm),
        lambda n, x, z: n.ifftn(z, s, axes, norm),
        lambda n, x, z: n.rfftn(x, s, axes, norm),
        lambda n, x, z: n.irfftn(z, s, axes, norm),
        lambda n, x, z: n.fft(x, s[0], axes[0], norm),
        lambda n, x, z: n.hfft(z, s[0], axes[0], norm),
        lambda n, x, z: n.ihfft(x, s[0], axes[0], norm),
    ]
    outputs = [call(gt.fft, x, z) for call in calls]
    for mode in ("NUMPY", "MLX"):
        f = graphc.function([x, z], outputs, uncompiled(mode), returns="numpy")
        for found, call in zip(f(real, value), calls, strict=True):
            _close(found, call(np.fft, real, value))


@pytest.mark.parametrize("mode", BACKENDS)
def test_lengths_may_be_symbolic_and_compile_once(mode: str) -> None:
    n, x = gt.lscalar("n"), gt.vector("x", dtype="float32")
    outputs = [gt.fft.fft(x, n), gt.fft.rfft(x, n), gt.fft.irfft(x, n), gt.fft.fftfreq(n, 0.5)]
    f = graphc.function([x, n], [*outputs, gt.fft.rfftfreq(n)], uncompiled(mode), returns="numpy")
    value = _signal((6,), "float32")
    for k in (1, 5, 6, 9):
        wanted = [np.fft.fft(value, k), np.fft.rfft(value, k), np.fft.irfft(value, k)]
        found = f(value, k)
        for y, w in zip(found, wanted, strict=False):
            _close(y, w)
        np.testing.assert_allclose(found[3], np.fft.fftfreq(k, 0.5), 1e-14)
        np.testing.assert_allclose(found[4], np.fft.rfftfreq(k), 1e-14)


@pytest.mark.parametrize("mode", BACKENDS)
def test_gradients_in_32_bits_are_the_transposed_transforms(mode: str) -> None:
    x, z = gt.vector("x", dtype="float32"), gt.vector("z", dtype="complex64")
    w = gt.vector("w", dtype="complex64")
    costs = [
        gt.sum(gt.real(gt.conj(w) * gt.fft.fft(z, norm="ortho"))),
        gt.sum(gt.real(gt.conj(w[:4]) * gt.fft.rfft(x))),
        gt.sum(gt.real(w) * gt.fft.irfft(z[:4], 7)),
    ]
    slopes = [graphc.grad(costs[0], z), graphc.grad(costs[1], x), graphc.grad(costs[2], z)]
    f = graphc.function([x, z, w], slopes, uncompiled(mode), returns="numpy")
    real, value = _signal((7,), "float32"), _signal((7,), "complex64")
    weights = value[::-1].copy()
    matrix = np.exp(-2j * np.pi * np.outer(range(7), range(7)) / 7)
    by_z, by_x, by_half = f(real, value, weights)
    np.testing.assert_allclose(by_z, matrix.conj() @ weights / np.sqrt(7), 1e-4, 1e-5)
    np.testing.assert_allclose(by_x, (matrix[:4].conj().T @ weights[:4]).real, 1e-4, 1e-5)
    wanted = np.array([1, 2, 2, 2]) * (matrix[:4] @ weights.real) / 7
    np.testing.assert_allclose(by_half, [*wanted, 0, 0, 0], 1e-4, 1e-5)


@pytest.mark.parametrize("mode", ["NUMPY", "JAX"])
def test_derivatives_of_all_orders_are_right(mode: str) -> None:
    def power(x: Any) -> Any:
        spectrum = gt.fft.rfft(x)
        return gt.fft.irfft(spectrum * gt.abs(spectrum) ** 2, 5)

    graphc.verify_grad(power, [np.random.default_rng(0).normal(size=5)], mode=mode)
    graphc.verify_grad(
        lambda x: graphc.grad(gt.sum(power(x) ** 2), x), [np.linspace(-1, 1, 5)], mode=mode
    )
    x = gt.vector("x")
    (tangent,) = graphc.pushforward([power(x)], [x], [gt.ones_like(x)])
    (slope,) = graphc.pullback([power(x)], [x], [gt.arange(5.0)])
    f = graphc.function([x], [gt.sum(tangent * gt.arange(5.0)), gt.sum(slope)], mode)
    left, right = f(np.linspace(-1, 2, 5))
    np.testing.assert_allclose(left, right, 1e-10)


@pytest.mark.parametrize("mode", BACKENDS)
def test_an_empty_batch_has_an_empty_transform(mode: str) -> None:
    z = gt.matrix("z", dtype="complex64")
    outputs = [gt.fft.fftn(z, axes=(1,)), gt.fft.rfft(z.real), gt.fft.irfft(z)]
    f = graphc.function([z], outputs, uncompiled(mode), returns="numpy")
    assert [y.shape for y in f(np.zeros((0, 5), "complex64"))] == [(0, 5), (0, 3), (0, 8)]


@pytest.mark.parametrize("mode", BACKENDS)
def test_an_empty_axis_has_no_transform(mode: str) -> None:
    z = gt.vector("z", dtype="complex64")
    for y in (gt.fft.fft(z), gt.fft.rfft(z.real), gt.fft.irfft(z)):
        f = graphc.function([z], y, uncompiled(mode))
        with pytest.raises(GraphcError, match=r"cannot transform an axis of -?[0-9]+ elements"):
            f(np.zeros(0, "complex64"))


def test_narrow_dtypes_give_complex64_and_others_complex128() -> None:
    for dtype in ("float16", "bfloat16", "float32", "complex64"):
        assert gt.fft.fft(gt.vector(dtype=dtype)).dtype == "complex64"
    for dtype in ("bool", "int8", "uint64", "float64", "complex128"):
        assert gt.fft.fft(gt.vector(dtype=dtype)).dtype == "complex128"
    assert gt.fft.irfft(gt.vector(dtype="complex64")).dtype == "float32"


def test_matrix_functions_of_transforms_compile() -> None:
    # They read columns: XLA cannot compile a transform in that layout.
    x = gt.dmatrix("x")
    data = np.random.default_rng(3).standard_normal((4, 4))
    found = graphc.function(
        [x],
        [
            gt.linalg.inv(gt.fft.fft(x, axis=0)),
            gt.linalg.pinv(gt.fft.rfft(x)),
            gt.linalg.pinv(gt.fft.irfft(x)),
            gt.fft.fft(gt.linalg.inv(x)),
        ],
        mode="JAX",
        returns="numpy",
    )(data)
    fft, linalg = np.fft, np.linalg
    by_columns = linalg.inv(fft.fft(data, axis=0))
    pseudo = linalg.pinv(fft.rfft(data)), linalg.pinv(fft.irfft(data))
    wanted = [by_columns, *pseudo, fft.fft(linalg.inv(data))]
    for y, z in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-9, atol=1e-9)


def test_static_lengths_are_known() -> None:
    x = gt.tensor("x", shape=(4, 7))
    shapes = {
        gt.fft.rfft(x).type.shape: (4, 4),
        gt.fft.irfft(x).type.shape: (4, 12),
        gt.fft.fft(x, 9, 0).type.shape: (9, 7),
        gt.fft.rfftn(x, (5, 6)).type.shape: (5, 4),
        gt.fft.irfftn(x, (5, 6)).type.shape: (5, 6),
    }
    assert all(found == wanted for found, wanted in shapes.items())


def test_numpys_functions_take_symbolic_arrays() -> None:
    z = gt.vector("z", dtype="complex128")
    assert np.fft.fft(z) is gt.fft.fft(z)  # type: ignore[comparison-overlap]
    assert np.fft.irfft(z, 5) is gt.fft.irfft(z, 5)  # type: ignore[comparison-overlap]
    assert np.fft.fftshift(z) is gt.fft.fftshift(z)  # type: ignore[comparison-overlap]


def test_float64_on_mlx_is_an_error_with_a_remedy() -> None:
    x = gt.vector("x")
    with pytest.raises(UnsupportedOperationError, match=r"rfft(.|\n)*downcast"):
        graphc.function([x], gt.fft.rfft(x), "MLX")
    f = graphc.function(
        [x], gt.abs(gt.fft.rfft(x)), uncompiled("MLX", float64="downcast"), returns="numpy"
    )
    value = np.linspace(-1, 2, 6)
    np.testing.assert_allclose(f(value), np.abs(np.fft.rfft(value)), 1e-5)


def test_what_has_no_transform_is_refused() -> None:
    x, z = gt.matrix("x"), gt.matrix("z", dtype="complex128")
    with pytest.raises(ShapeError, match="no axis 2"):
        gt.fft.fft(x, axis=2)
    with pytest.raises(ArgumentError, match=r"norm='unit'(.|\n)*test_fft.py"):
        gt.fft.ifft(x, norm="unit")
    with pytest.raises(ShapeError, match=r"0 elements(.|\n)*test_fft.py"):
        gt.fft.fft(x, 0)
    with pytest.raises(DTypeError, match="real numbers"):
        gt.fft.rfft(z)
    with pytest.raises(ShapeError, match="expected at least one axis"):
        gt.fft.fftn(gt.scalar())
    with pytest.raises(ShapeError, match="2 lengths, and there are 1 axes"):
        gt.fft.fftn(x, (2, 3), (0,))
    with pytest.raises(ShapeError, match="half the spectrum of 0"):
        gt.fft.irfft(gt.tensor(shape=(3, 1)))
    with pytest.raises(ShapeError, match="cannot transform an axis of 0 elements"):
        gt.fft.fft(gt.tensor(shape=(3, 0)))
