"""Softmax and related functions, which reduce along an axis."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.tensor.core.tensor import Tensor


def softmax(at: Application, x: Tensor) -> Tensor:
    return gt.softmax(in_dtype(x, at.dtype), axis=at.op.axis)


def log_softmax(at: Application, x: Tensor) -> Tensor:
    return gt.log_softmax(in_dtype(x, at.dtype), axis=at.op.axis)


def softmax_gradient(at: Application, g: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of softmax, from its result y."""
    return (g - gt.sum(g * y, at.op.axis, keepdims=True)) * y


def logsumexp(at: Application, x: Tensor) -> Tensor:
    return gt.logsumexp(in_dtype(x, at.dtype), axis=at.op.axis)


def logaddexp(at: Application, *xs: Tensor) -> Tensor:
    first, *rest = (in_dtype(x, at.dtype) for x in xs)
    for x in rest:
        first = gt.logaddexp(first, x)
    return first


def xlogy(at: Application, x: Tensor, y: Tensor) -> Tensor:
    return gt.xlogy(in_dtype(x, at.dtype), in_dtype(y, at.dtype))


def xlog1py(at: Application, x: Tensor, y: Tensor) -> Tensor:
    return gt.xlog1py(in_dtype(x, at.dtype), in_dtype(y, at.dtype))
