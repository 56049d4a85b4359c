"""Jacobians and Hessians: one pullback, for a batch of cotangents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

from graphc.errors import GradientError
from graphc.grad.forward import pushforward
from graphc.grad.reverse import (
    Disconnected,
    alike,
    contained,
    continuous,
    cotangents,
    disconnected,
    grad,
    typed_like,
)
from graphc.ir import is_complex, is_inexact, note_reads
from graphc.tensor import as_tensor, broadcast_to, eye, reshape
from graphc.tensor.arrays.vectorize import batched
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.tensor import Tensor


@overload
def jacobian(
    expression: Any,
    wrt: Tensor,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    vectorize: bool = True,
) -> Tensor: ...


@overload
def jacobian(
    expression: Any,
    wrt: tuple[Tensor, ...],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    vectorize: bool = True,
) -> tuple[Tensor, ...]: ...


@overload
def jacobian(
    expression: Any,
    wrt: Sequence[Tensor],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    vectorize: bool = True,
) -> list[Tensor]: ...


def jacobian(
    expression: Any,
    wrt: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    vectorize: bool = True,
) -> Any:
    """All derivatives of an array's elements, without a loop.

    Args:
        expression: A real floating array of any rank.
        wrt: A real floating array of its graph, or a list or tuple.
        consider_constant: Parts of the graph that let nothing through.
        disconnected_inputs: As for ``grad``; zeros where ignored.
        vectorize: Jacobians are vectorised in any case; the argument is PyTensor's.

    Returns:
        An array of the expression's shape followed by that of ``wrt``, or a list or tuple.

    Raises:
        GradientError: A dtype that is not real floating.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> graphc.jacobian(x**2, x).eval({x: [1.0, 2.0]}, mode="NUMPY").tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    y = as_tensor(expression)
    xs = continuous(wrt)
    if not is_inexact(y.dtype) or is_complex(y.dtype) or any(is_complex(x.dtype) for x in xs):
        raise GradientError(
            f"The Jacobian of {y!r}: expected real floating arrays.",
            "Split a complex array into .real and .imag.",
        )
    cotangent = typed_like(y, "cotangent")
    found = cotangents({y: cotangent}, xs, consider_constant or ())
    n = math.prod(lengths(y))
    rows = reshape(eye(n, dtype=y.dtype), (n, *lengths(y)))
    reached = [g for g in found if g is not None]
    slopes = iter(batched(reached, {cotangent: rows}))
    result = []
    for x, g in zip(xs, found, strict=True):
        shape = (*lengths(y), *lengths(x))
        if g is None:
            zero: Any = disconnected(x, disconnected_inputs, "zero", "The expression")
            result.append(broadcast_to(zero, shape))
        else:
            result.append(reshape(next(slopes), shape))
    note_reads(result, [y, *xs])
    return contained(wrt, result)


@overload
def hessian(
    cost: Any,
    wrt: Tensor,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
) -> Tensor: ...


@overload
def hessian(
    cost: Any,
    wrt: tuple[Tensor, ...],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
) -> tuple[Tensor, ...]: ...


@overload
def hessian(
    cost: Any,
    wrt: Sequence[Tensor],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
) -> list[Tensor]: ...


def hessian(
    cost: Any,
    wrt: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
) -> Any:
    """All second derivatives of a scalar.

    Args:
        cost: A real floating scalar.
        wrt: A real floating array of its graph, or a list or tuple.
        consider_constant: Parts of the graph that let nothing through.
        disconnected_inputs: As for ``grad``; zeros where ignored. A cost that is linear in an
            array has the Hessian 0.

    Returns:
        An array of the shape of ``wrt`` twice, or a list: each array's own block.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> graphc.hessian((x**3).sum(), x).eval({x: [1.0, 2.0]}, mode="NUMPY").tolist()
        [[6.0, 0.0], [0.0, 12.0]]
    """
    xs = continuous(wrt)
    slopes = grad(cost, xs, consider_constant, disconnected_inputs)
    blocks = [
        jacobian(g, x, consider_constant, disconnected_inputs="ignore")
        for g, x in zip(slopes, xs, strict=True)
    ]
    return contained(wrt, blocks)


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
    """The Hessian times a vector, without the Hessian: the gradient pushed forward.

    Args:
        cost: A real floating scalar.
        wrt: A real floating array of its graph, or a list or tuple.
        p: The vector, one for each array, of its shape.
        grad_kwargs: Passed to ``grad``.

    Returns:
        An array of the shape of ``wrt``, or a list or tuple.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> moved = graphc.hessian_vector_product((x**3).sum(), x, gt.as_tensor([1.0, 10.0]))
        >>> moved.eval({x: [1.0, 2.0]}, mode="NUMPY").tolist()
        [6.0, 120.0]
    """
    xs = continuous(wrt)
    slopes = grad(cost, xs, **grad_kwargs)
    several = list(wrt) if isinstance(wrt, list | tuple) else [wrt]
    moved = pushforward(slopes, several, p, disconnected_outputs="ignore")
    return alike(wrt, moved)
