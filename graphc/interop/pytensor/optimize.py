"""Minima and roots, which SciPy finds: the converted objective, with graphc's own gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.interop.pytensor.application import Application
from graphc.ir import replaced
from graphc.loop.step import stand_in
from graphc.optimize import minimize, minimize_scalar, root, root_scalar
from graphc.tensor.core.tensor import Tensor


def _solved(
    at: Application, xs: tuple[Tensor, ...], solve: Callable[..., Any], *options: str
) -> list[Any]:
    """What a solver gives for the inner graph's first output, of which the first input varies."""
    x = stand_in(xs[0])
    (value, *_) = at.inner(at.op.fgraph, [x, *xs[1:]])
    chosen = {name: getattr(at.op, name) for name in options if hasattr(at.op, name)}
    keywords = dict(at.op.optimizer_kwargs)
    found = solve(value, x, method=at.op.method, optimizer_kwargs=keywords, **chosen)
    return replaced(list(found), {x: xs[0]})


def minimum(at: Application, *xs: Tensor) -> list[Any]:
    return _solved(at, xs, minimize, "jac", "hess")


def scalar_minimum(at: Application, *xs: Tensor) -> list[Any]:
    return _solved(at, xs, minimize_scalar)


def zero(at: Application, *xs: Tensor) -> list[Any]:
    return _solved(at, xs, root, "jac")


def scalar_zero(at: Application, *xs: Tensor) -> list[Any]:
    return _solved(at, xs, root_scalar, "jac", "hess")
