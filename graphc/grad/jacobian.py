"""Jacobians and Hessians: one pullback of a batch of cotangents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

from graphc.errors import GradientError
from graphc.grad import reverse
from graphc.grad.forward import pushforward
from graphc.ir import is_complex, is_container, is_inexact, note_reads, rebuild
from graphc.tensor import as_tensor, broadcast_to, eye, reshape
from graphc.tensor.arrays.vectorize import batched
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.tensor import Tensor


@overload
def jacobian(
    expression: Any,
    wrt: Tensor,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: reverse.Disconnected = "raise",
    vectorize: bool = True,
) -> Tensor: ...


@overload
def jacobian(
    expression: Any,
    wrt: tuple[Tensor, ...],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: reverse.Disconnected = "raise",
    vectorize: bool = True,
) -> tuple[Tensor, ...]: ...


@overload
def jacobian(
    expression: Any,
    wrt: Sequence[Tensor],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: reverse.Disconnected = "raise",
    vectorize: bool = True,
) -> list[Tensor]: ...


def jacobian(
    expression: Any,
    wrt: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: reverse.Disconnected = "raise",
    vectorize: bool = True,
) -> Any:
    """Return the derivatives of an array's elements, computed without a loop.

    Args:
        expression: A real floating array of any rank.
        wrt: A real floating array of its graph, or a list or tuple.
        consider_constant: Nodes that no gradient passes.
        disconnected_inputs: As for ``grad``; zeros where ignored.
        vectorize: Accepted for PyTensor compatibility, without effect.

    Returns:
        An array of the expression's shape followed by the shape of ``wrt``, or a list or tuple.

    Raises:
        GradientError: If a dtype is not real floating.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> graphc.jacobian(x**2, x).eval({x: [1.0, 2.0]}, mode="NUMPY").tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    y = as_tensor(expression)
    xs = reverse.continuous(wrt)
    if not is_inexact(y.dtype) or is_complex(y.dtype) or any(is_complex(x.dtype) for x in xs):
        raise GradientError(
            f"The Jacobian of {y!r}: expected real floating arrays.",
            "Split a complex array into .real and .imag.",
        )
    cotangent = reverse.typed_like(y, "cotangent")
    gs = reverse.cotangents({y: cotangent}, xs, consider_constant or ())
    n = math.prod(lengths(y))
    rows = reshape(eye(n, dtype=y.dtype), (n, *lengths(y)))
    connected = [g for g in gs if g is not None]
    derivatives = iter(batched(connected, {cotangent: rows}))
    result = []
    for x, g in zip(xs, gs, strict=True):
        shape = (*lengths(y), *lengths(x))
        if g is None:
            zero: Any = reverse.disconnected_derivative(
                x, disconnected_inputs, "zero", "The expression"
            )
            result.append(broadcast_to(zero, shape))
        else:
            result.append(reshape(next(derivatives), shape))
    note_reads(result, [y, *xs])
    return rebuild(wrt, result)


@overload
def hessian(
    cost: Any,
    wrt: Tensor,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: reverse.Disconnected = "raise",
) -> Tensor: ...


@overload
def hessian(
    cost: Any,
    wrt: tuple[Tensor, ...],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: reverse.Disconnected = "raise",
) -> tuple[Tensor, ...]: ...


@overload
def hessian(
    cost: Any,
    wrt: Sequence[Tensor],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: reverse.Disconnected = "raise",
) -> list[Tensor]: ...


def hessian(
    cost: Any,
    wrt: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: reverse.Disconnected = "raise",
) -> Any:
    """Return the second derivatives of a scalar.

    Args:
        cost: A real floating scalar.
        wrt: A real floating array of its graph, or a list or tuple.
        consider_constant: Nodes that no gradient passes.
        disconnected_inputs: As for ``grad``; zeros where ignored. A cost that is linear in an
            array has the Hessian 0.

    Returns:
        An array of the shape of ``wrt`` twice, or a list of such arrays: the diagonal blocks.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> graphc.hessian((x**3).sum(), x).eval({x: [1.0, 2.0]}, mode="NUMPY").tolist()
        [[6.0, 0.0], [0.0, 12.0]]
    """
    xs = reverse.continuous(wrt)
    gradients = reverse.grad(cost, xs, consider_constant, disconnected_inputs)
    blocks = [
        jacobian(g, x, consider_constant, disconnected_inputs="ignore")
        for g, x in zip(gradients, xs, strict=True)
    ]
    return rebuild(wrt, blocks)


@overload
def hessian_vector_product(cost: Any, wrt: Tensor, p: Any, **grad_kwargs: Any) -> Tensor: ...


@overload
def hessian_vector_product(
    cost: Any, wrt: tuple[Tensor, ...], p: Any, **grad_kwargs: Any
) -> tuple[Tensor, ...]: ...


@overload
def hessian_vector_product(
    cost: Any, wrt: Sequence[Tensor], p: Any, **grad_kwargs: Any
) -> list[Tensor]: ...


def hessian_vector_product(cost: Any, wrt: Any, p: Any, **grad_kwargs: Any) -> Any:
    """Return the Hessian times a vector without the Hessian, by pushing the gradient forward.

    Args:
        cost: A real floating scalar.
        wrt: A real floating array of its graph, or a list or tuple.
        p: A vector for each array in ``wrt``, of its shape.
        grad_kwargs: Passed to ``grad``.

    Returns:
        An array of the shape of ``wrt``, or a list or tuple.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> product = graphc.hessian_vector_product((x**3).sum(), x, gt.as_tensor([1.0, 10.0]))
        >>> product.eval({x: [1.0, 2.0]}, mode="NUMPY").tolist()
        [6.0, 120.0]
    """
    xs = reverse.continuous(wrt)
    gradients = reverse.grad(cost, xs, **grad_kwargs)
    structure = wrt if is_container(wrt) else [wrt]
    products = pushforward(gradients, structure, p, disconnected_outputs="ignore")
    return reverse.nest_like(wrt, products)
