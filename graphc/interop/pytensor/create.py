"""Arrays created from lengths and numbers."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, length
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.tensor.core.tensor import Tensor


def alloc(at: Application, value: Tensor, *shape: Tensor) -> Tensor:
    return gt.alloc(value, *[length(n) for n in shape])


def alloc_empty(at: Application, *shape: Tensor) -> Tensor:
    """Return zeros: nothing may depend on the elements."""
    return gt.empty([length(n) for n in shape], at.dtype)


def eye(at: Application, n: Tensor, m: Tensor, k: Tensor) -> Tensor:
    return gt.eye(length(n), length(m), length(k), dtype=at.dtype)


def arange(at: Application, start: Tensor, stop: Tensor, step: Tensor) -> Tensor:
    return gt.arange(length(start), length(stop), length(step), dtype=at.dtype)


def make_vector(at: Application, *scalars: Tensor) -> Tensor:
    if not scalars:
        return gt.zeros(0, dtype=at.dtype)
    return gt.make_vector(*[in_dtype(x, at.dtype) for x in scalars])


def bartlett(at: Application, n: Tensor) -> Tensor:
    return gt.bartlett(length(n))
