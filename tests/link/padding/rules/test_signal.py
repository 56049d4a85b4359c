"""Padding with a number, and convolutions, of padded arrays."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphcError
from graphc.tensor.signal.convolve import Convolution
from tests.link.padding.compare import assert_padding_is_unseen, count, numbers
from tests.link.padding.run import run_padded

n, m = gt.scalar("n", dtype="int64"), gt.scalar("m", dtype="int64")


@pytest.mark.parametrize("widths", [(0, 0), (0, 2), (3, 0), (2, 5)])
@pytest.mark.parametrize("dtype", ["float64", "bool", "int16", "complex64"])
@pytest.mark.parametrize("size", [(0, 2), (1, 3), (4, 5)])
def test_pad(widths: tuple[int, int], dtype: str, size: tuple[int, int]) -> None:
    x, value = gt.matrix("x", dtype=dtype), gt.scalar("value", dtype=dtype)
    i = gt.scalar("i", dtype="int32")
    outputs = [
        gt.pad(x, [(n, m), (0, 0)]),
        gt.pad(x, [(1, 2), (m, n)], constant_values=value),
        gt.pad(x, [widths, (3, 1)], constant_values=value),
        gt.pad(x, [(x.shape[1], n), (count(i, 6), 0)]),
        gt.pad(np.ones((2, 3), dtype), [(n, 0), (1, m)], constant_values=value),
    ]
    outputs += [gt.sum(gt.cast(y, "complex128"), axis=0) for y in outputs]
    arrays = numbers(*size, dtype=dtype), np.asarray(1, dtype), np.int32(widths[1]), *widths
    assert_padding_is_unseen([x, value, i, n, m], outputs, *arrays)


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect", "linear_ramp", "mean"])
def test_modes_of_padding(mode: str) -> None:
    x = gt.matrix("x")
    outputs = [gt.pad(x, [(2, n), (1, m)], mode=mode)]
    assert_padding_is_unseen([x, n, m], outputs, np.arange(15.0).reshape(3, 5), 1, 2)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bool", "int32", "complex128"])
@pytest.mark.parametrize("sizes", [(1, 1), (5, 1), (6, 3), (4, 4), (2, 5)])
def test_convolve(mode: str, dtype: str, sizes: tuple[int, int]) -> None:
    a, v = gt.vector("a", dtype=dtype), gt.vector("v", dtype=dtype)
    arrays = [np.nan_to_num(numbers(k, dtype=dtype)).astype(dtype) for k in sizes]
    outputs = [gt.convolve(a, v, mode), gt.correlate(a, v, mode), gt.convolve(a, arrays[1], mode)]
    assert_padding_is_unseen([a, v], outputs, *arrays)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("f", [gt.signal.convolve2d, gt.signal.fftconvolve])
def test_convolve_two_axes_and_its_gradient(mode: str, f: object) -> None:
    a, b = gt.matrix("a"), gt.matrix("b")
    y = f(a, b, mode=mode)  # type: ignore[operator]
    gradients = graphc.grad((y * gt.arange(y.shape[1])).sum(), [a, b])
    arrays = [np.random.default_rng(0).normal(size=s) for s in [(5, 7), (3, 2)]]
    assert_padding_is_unseen([a, b], [y, *gradients], *arrays)


@pytest.mark.parametrize("full", [False, True])
def test_convolve_batches_and_channels(full: bool) -> None:
    op = Convolution(groups=1, rows=1, columns=1, channels=1, full=full)
    a, b = gt.tensor4("a"), gt.tensor4("b")
    arrays = [np.random.default_rng(1).normal(size=s) for s in [(2, 4, 3, 6), (2, 5, 3, 2)]]
    assert_padding_is_unseen([a, b], [op(a, b)], *arrays)


def test_convolve_of_no_elements_is_refused() -> None:
    a, v = gt.vector("a"), gt.vector("v")
    for sizes in [(0, 2), (2, 0)]:
        with pytest.raises((GraphcError, ValueError)):
            run_padded([a, v], [gt.convolve(a, v)], [np.ones(k) for k in sizes])
