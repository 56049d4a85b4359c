"""Differentiation: reverse and forward mode, Jacobians, barriers, and finite differences.

An operation has its own pullback; the functions here follow the graph.
"""

from graphc.grad.barriers import disconnected_grad, grad_clip, grad_scale, zero_grad
from graphc.grad.forward import Rop, pushforward
from graphc.grad.jacobian import hessian, hessian_vector_product, jacobian
from graphc.grad.reverse import Lop, grad, pullback, subgraph_grad
from graphc.grad.verify import verify_grad

__all__ = [
    "Lop",
    "Rop",
    "disconnected_grad",
    "grad",
    "grad_clip",
    "grad_scale",
    "hessian",
    "hessian_vector_product",
    "jacobian",
    "pullback",
    "pushforward",
    "subgraph_grad",
    "verify_grad",
    "zero_grad",
]
