"""Minima and roots, by SciPy: the converted objective, with graphc's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.interop.pytensor.application import Application
from graphc.ir import replace_nodes
from graphc.loop.step import stand_in
from graphc.optimize import minimize, minimize_scalar, root, root_scalar
from graphc.tensor.core.tensor import Tensor


def _solve(
    at: Application, xs: tuple[Tensor, ...], solve: Callable[..., Any], *options: str
) -> list[Any]:
    """Solve for the first input of the inner graph, whose first output is the objective."""
    x = stand_in(xs[0])
    (value, *_) = at.inner(at.op.fgraph, [x, *xs[1:]])
    chosen = {name: getattr(at.op, name) for name in options if hasattr(at.op, name)}
    keywords = dict(at.op.optimizer_kwargs)
    results = solve(value, x, method=at.op.method, optimizer_kwargs=keywords, **chosen)
    return replace_nodes(list(results), {x: xs[0]})


def minimum(at: Application, *xs: Tensor) -> list[Any]:
    return _solve(at, xs, minimize, "jac", "hess")


def scalar_minimum(at: Application, *xs: Tensor) -> list[Any]:
    return _solve(at, xs, minimize_scalar)


def zero(at: Application, *xs: Tensor) -> list[Any]:
    return _solve(at, xs, root, "jac")


def scalar_zero(at: Application, *xs: Tensor) -> list[Any]:
    return _solve(at, xs, root_scalar, "jac", "hess")
