"""A regression: inputs, operators, shared variables, gradients and updates."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.tensor import Tensor, TensorType


def loss_of(x: Tensor, y: Tensor, w: graphc.Shared, b: graphc.Shared) -> Tensor:
    error = y - gt.sigmoid(x @ w + b)
    return (error**2).mean() + 1e-3 * (w**2).sum()


def program() -> None:
    x, y = gt.dmatrix("x"), gt.vector("y")
    w, b = graphc.shared(np.zeros(3), name="w"), graphc.shared(0.0)
    assert_type(w, graphc.Shared)
    assert_type(x.type, TensorType)
    loss = loss_of(x, y, w, b)
    params = [w, b]
    grads = graphc.grad(loss, params)
    assert_type(grads, list[Tensor])
    assert_type(graphc.grad(loss, w), Tensor)
    assert_type(graphc.grad(loss, (w, b)), tuple[Tensor, ...])
    updates = [(p, p - 0.1 * g) for p, g in zip(params, grads, strict=True)]
    step = graphc.function([x, y], loss, updates=updates, mode="NUMPY", returns="numpy")
    assert_type(step, graphc.Function[np.ndarray[Any, Any]])
    assert_type(step(np.ones((2, 3)), [1.0, 0.0]), np.ndarray[Any, Any])
    assert_type(w.get_value(), np.ndarray[Any, Any])
    w.set_value(np.ones(3))
    assert_type(w.default_update, Tensor | None)
    assert_type(graphc.jacobian(x @ w, w), Tensor)
    assert_type(graphc.hessian(loss, [w]), list[Tensor])
    assert_type(graphc.pullback(x @ w, w, y), Tensor)
    assert_type(graphc.pushforward([x @ w], w, w), list[Tensor])
    (by_w,), (by_x,) = graphc.subgraph_grad([w], [x], cost=loss)
    assert_type(by_w, Tensor)
    assert_type(by_x, Tensor)
    assert_type(graphc.clone_replace(loss, {b: 1.0}), Tensor)
