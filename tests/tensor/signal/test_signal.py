"""Convolution of signals and images is SciPy's, over batches too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import toposort
from graphc.link import names
from graphc.tensor.signal.convolve import MODES, Convolution, FourierConvolution
from tests.modes import uncompiled
from tests.tensor.agreement import arrays, check_agrees

BACKENDS = names()
IMAGES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=5)
DTYPES = ["int16", "float32", "float64", "complex64"]


def _fits(a: np.ndarray, b: np.ndarray, mode: str) -> bool:
    """Whether SciPy takes them: one is as large as the other on each axis."""
    longer = [n >= k for n, k in zip(a.shape, b.shape, strict=True)]
    shorter = [n <= k for n, k in zip(a.shape, b.shape, strict=True)]
    return mode != "valid" or all(longer) or all(shorter)


@settings(max_examples=60)
@given(data=st.data(), mode=st.sampled_from(MODES), method=st.sampled_from(["direct", "fft"]))
def test_arrays_of_any_axes_are_convolved_as_in_scipy(data: Any, mode: str, method: str) -> None:
    shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
    a = data.draw(arrays(DTYPES, shapes))
    b = data.draw(arrays([str(a.dtype)], st.tuples(*[st.integers(1, 4)] * a.ndim)))
    if not _fits(a, b, mode):
        return
    for name in ("convolve", "correlate"):
        check_agrees(
            lambda a, b, f=name: getattr(gt.signal, f)(a, b, mode, method) + 0,
            lambda a, b, f=name: getattr(scipy.signal, f)(a, b, mode, "direct"),
            a, b,
        )  # fmt: skip


@settings(max_examples=60)
@given(
    data=st.data(), mode=st.sampled_from(MODES), boundary=st.sampled_from(["fill", "wrap", "symm"]),
    method=st.sampled_from(["auto", "fft"]), fillvalue=st.sampled_from([0, 2]),
)  # fmt: skip
def test_images_are_convolved_as_in_scipy(
    data: Any, mode: str, boundary: str, method: str, fillvalue: int
) -> None:
    a = data.draw(arrays(DTYPES, IMAGES))
    b = data.draw(arrays([str(a.dtype)], IMAGES))
    if not _fits(a, b, mode):
        return
    for name in ("convolve2d", "correlate2d"):
        if name == "correlate2d" and mode == "valid" and a.dtype.kind == "c" and a.size < b.size:
            continue  # SciPy conjugates the other operand there
        check_agrees(
            lambda a, b, f=name: getattr(gt.signal, f)(a, b, mode, boundary, fillvalue, method),
            lambda a, b, f=name: getattr(scipy.signal, f)(a, b, mode, boundary, fillvalue),
            a, b,
        )  # fmt: skip


@pytest.mark.parametrize("mode", BACKENDS)
def test_axes_in_front_broadcast(mode: str) -> None:
    random = np.random.default_rng(0)
    x, k = random.normal(size=(2, 1, 6, 5)), random.normal(size=(3, 2, 3))
    a, b = gt.tensor(shape=(None, 1, None, None)), gt.tensor3()
    outputs = [gt.signal.convolve2d(a, b), gt.signal.convolve1d(a, b[:, None, 0], "same")]
    f = graphc.function([a, b], outputs, uncompiled(mode), returns="numpy")
    images, lines = f(x, k)
    wanted = [[scipy.signal.convolve2d(image[0], kernel) for kernel in k] for image in x]
    np.testing.assert_allclose(images, wanted, 1e-12, 1e-12)
    wanted = [
        [[np.convolve(line, kernel[0], "same") for line in image[0]] for kernel in k] for image in x
    ]
    np.testing.assert_allclose(lines, wanted, 1e-12, 1e-12)


@pytest.mark.parametrize("mode", BACKENDS)
def test_gradients_of_a_filter_are_those_of_its_matrix(mode: str) -> None:
    random = np.random.default_rng(0)
    x, k = random.normal(size=(6, 5)), random.normal(size=(3, 2))
    a, b = gt.matrix("a"), gt.matrix("b")
    for boundary in ("fill", "wrap"):
        y = gt.signal.convolve2d(a, b, "same", boundary)
        loss = gt.sum(y * y) / 2
        f = graphc.function([a, b], graphc.grad(loss, [a, b]), uncompiled(mode), returns="numpy")
        by_a, by_b = f(x, k)

        def filtered(image: Any, kernel: Any, boundary: str = boundary) -> Any:
            return scipy.signal.convolve2d(image, kernel, "same", boundary)

        # Linear in each operand: the columns of the matrix are what unit images give.
        units = np.eye(x.size).reshape(-1, *x.shape)
        matrix = np.array([filtered(unit, k).ravel() for unit in units])
        np.testing.assert_allclose(by_a.ravel(), matrix @ filtered(x, k).ravel(), 1e-10, 1e-10)
        units = np.eye(k.size).reshape(-1, *k.shape)
        matrix = np.array([filtered(x, unit).ravel() for unit in units])
        np.testing.assert_allclose(by_b.ravel(), matrix @ filtered(x, k).ravel(), 1e-10, 1e-10)


def test_large_arrays_of_known_lengths_are_convolved_by_transforms() -> None:
    def ways(y: Any) -> set[type]:
        return {type(node.op) for node in toposort([y]) if isinstance(node.op, Convolution)}

    large, small = gt.tensor(shape=(4096,)), gt.tensor(shape=(3000,))
    assert ways(gt.signal.convolve(large, small)) == {FourierConvolution}
    assert ways(gt.signal.convolve(large, small, method="direct")) == {Convolution}
    assert ways(gt.signal.convolve(large, small[:5])) == {Convolution}
    assert ways(gt.signal.convolve(gt.vector(), gt.vector())) == {Convolution}
    assert ways(gt.signal.convolve(large.astype("int64"), small.astype("int64"))) == {Convolution}
    (by,) = graphc.grad(gt.sum(gt.signal.convolve(large, small) ** 2), [large])
    assert ways(by) == {FourierConvolution}


@pytest.mark.parametrize("mode", BACKENDS)
def test_both_ways_give_the_same(mode: str) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 30)).astype("float32")
    k = random.normal(size=(7, 9)).astype("float32")
    a, b = gt.fmatrix("a"), gt.fmatrix("b")
    costs = [gt.signal.convolve2d(a, b, "same", method=way) for way in ("direct", "fft")]
    slopes = [graphc.grad(gt.sum(y**2), [a, b]) for y in costs]
    f = graphc.function([a, b], [*costs, *slopes[0], *slopes[1]], uncompiled(mode), returns="numpy")
    direct, fourier, *by = f(x, k)
    np.testing.assert_allclose(fourier, direct, 0, 1e-4)
    np.testing.assert_allclose(by[2], by[0], 0, 1e-2)
    np.testing.assert_allclose(by[3], by[1], 1e-4, 1e-2)
    np.testing.assert_allclose(direct, scipy.signal.convolve2d(x, k, "same"), 1e-4, 1e-4)


def test_static_lengths_are_known() -> None:
    a, b = gt.tensor(shape=(2, 6, 5)), gt.tensor(shape=(3, 2))
    shapes = [gt.signal.convolve2d(a, b, mode).type.shape for mode in MODES]
    assert shapes == [(2, 8, 6), (2, 6, 5), (2, 4, 4)]
    assert gt.signal.convolve1d(a, b[0], "valid").type.shape == (2, 6, 4)
    assert gt.signal.fftconvolve(a, a, axes=0).type.shape == (3, 6, 5)


def test_a_scalar_is_a_factor() -> None:
    assert gt.signal.convolve(gt.scalar("a"), 3.0).ndim == 0
    assert gt.signal.correlate(gt.scalar("a"), 3.0).ndim == 0
    assert gt.signal.fftconvolve(gt.scalar("a"), 3.0).ndim == 0


def test_what_cannot_be_convolved_is_refused() -> None:
    image, vector = gt.matrix("image"), gt.vector("vector")
    with pytest.raises(ShapeError, match="as many axes"):
        gt.signal.convolve(image, vector)
    with pytest.raises(ShapeError, match="2 axes at least"):
        gt.signal.convolve2d(image, vector)
    with pytest.raises(ShapeError, match="1 axes at least"):
        gt.signal.convolve1d(vector, 1.0)
    with pytest.raises(ArgumentError, match=r"boundary='edge'(.|\n)*test_signal.py"):
        gt.signal.convolve2d(image, image, boundary="edge")
    with pytest.raises(ArgumentError, match="mode='all'"):
        gt.signal.convolve2d(image, image, "all")
    with pytest.raises(ArgumentError, match=r"'slow'(.|\n)*direct"):
        gt.signal.convolve(image, image, method="slow")
    with pytest.raises(ShapeError, match="each array is longer than the other"):
        gt.signal.convolve(gt.tensor(shape=(2, 5)), gt.tensor(shape=(3, 4)), "valid")
