"""Arrays made, joined, split and chosen from; functions whose results depend on an argument."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import graphc.tensor as gt
from graphc.tensor import Tensor, TensorLike


def centred(x: TensorLike) -> Tensor:
    y = gt.as_tensor(x)
    return y - y.mean()


def program() -> None:
    x = gt.vector("x")
    a, b = gt.scalars("a", "b")
    for y in (
        gt.exp(x),
        gt.add(x, 1),
        gt.multiply(a, b, 2.0),
        gt.betainc(a, b, 0.5),
        gt.clip(x, 0),
    ):
        assert_type(y, Tensor)
    for y in (centred([1, 2.0]), centred(np.ones(2)), centred(3), centred([a, 1.0]), centred(x)):
        assert_type(y, Tensor)
    assert_type(gt.constant([1.0, 2.0]), Tensor)
    assert_type(gt.scalars("a", "b"), list[Tensor])
    assert_type(gt.dvectors(3), list[Tensor])
    assert_type(gt.matrices("mn"), Tensor | list[Tensor])
    assert_type(gt.tensor("t", shape=(None, 3)), Tensor)
    assert_type(gt.where(x > 0, x, 0), Tensor)
    assert_type(gt.where(x), tuple[Tensor, ...])
    chosen()


def chosen() -> None:
    x, m = gt.vector("x"), gt.matrix("m")
    assert_type(gt.concatenate([x, x]), Tensor)
    assert_type(gt.split(x, [1, 2]), list[Tensor])
    assert_type(gt.atleast_2d(x), Tensor)
    assert_type(gt.atleast_2d(x, m), list[Tensor])
    assert_type(gt.unique(x), Tensor)
    assert_type(gt.unique(x, return_counts=True), list[Tensor])
    assert_type(gt.linspace(0, 1, 5), Tensor)
    assert_type(gt.linspace(0, 1, 5, retstep=True), tuple[Tensor, Tensor])
    assert_type(gt.average(x, weights=x), Tensor)
    assert_type(gt.average(x, returned=True), tuple[Tensor, Tensor])
    assert_type(gt.max_and_argmax(x), list[Tensor])
    assert_type(gt.top_k(x, 2), tuple[Tensor, Tensor])
    assert_type(gt.mgrid[0:2, 0:3], Tensor)
    assert_type(gt.ogrid[0:2, 0:3], list[Tensor])
    assert_type(gt.ogrid[0:3], Tensor)
    for y in (gt.einsum("ij,ij->i", m, m), gt.fft.rfft(x), gt.signal.convolve1d(x, [1.0, 2.0])):
        assert_type(y, Tensor)
    assert_type(gt.interpolate1d(np.arange(3.0), np.ones(3))(0.5), Tensor)
    assert_type(gt.special.erf(x), Tensor)
