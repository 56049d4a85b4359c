"""The straight-through estimator: a function's value with the identity's derivative."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from graphc.errors import DTypeError, ImplicitArrayError, ShapeError
from graphc.grad.barriers import disconnected_grad
from graphc.implicit.array import ImplicitArray
from graphc.implicit.form import Form, dtype_of, lengths_of
from graphc.implicit.level import numpy_like
from graphc.implicit.straight import Straight, moved
from graphc.implicit.trees import flatten, unflatten
from graphc.ir import Node, dtype_name, here, is_complex, is_inexact, where
from graphc.tensor import Tensor, as_tensor, cast

__all__ = ["ste"]


def ste(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same value, whose derivative is the identity's: straight through it.

    The derivative is the identity by every floating array among the arguments, positional, by
    keyword or in containers, that has the shape of the result; by several of these it is that of
    their sum. By all others, and by what the function captures, it is zero. Tangents and
    cotangents are cast between the dtypes of the argument and the result. The function itself is
    never differentiated.

    It is for JAX's arrays, within ``jit``, ``vmap``, ``scan``, ``grad`` and ``jvp``, and for
    symbolic arrays. Arguments may be implicit arrays: their fields get what the array that they
    stand for does.

    Args:
        function: Of arrays, to one array of the shape of at least one of them. It may give an
            implicit array, such as a quantised one; then the result is a ``Straight`` that holds
            it, whose handlers are found as before. Python numbers and other objects among the
            arguments are given to it as they are.

    Returns:
        The function with another derivative. Called with NumPy's arrays alone, of which there are
        no derivatives, it is the function itself.

    Raises:
        DTypeError: When called: the function gives integers, which have no derivative.
        ShapeError: When called: no floating array has the result's shape.
        ImplicitArrayError: When called: it gives no array, or gets MLX's arrays.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> y = ste(gt.round)(x)
        >>> f = graphc.function([x], [y, graphc.grad((y * y).sum(), x)], mode="NUMPY")
        >>> f([0.4, 1.7])
        [array([0., 2.]), array([0., 4.])]
    """

    @functools.wraps(function)
    def straight(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        places = [i for i, x in enumerate(leaves) if hasattr(x, "shape") and hasattr(x, "dtype")]
        operands = [leaves[i] for i in places]

        def call(*arrays: Any) -> Any:
            given = dict(zip(places, arrays, strict=True))
            parts = [given.get(i, x) for i, x in enumerate(leaves)]
            args, kwargs = unflatten(structure, parts)
            return function(*args, **kwargs)

        level = numpy_like(*operands).name
        if level not in LEVELS:
            raise ImplicitArrayError(
                f"ste({_name(function)}) of {level}'s arrays.",
                "Use symbolic arrays and mode='MLX'.",
                where(here()),
            )
        return LEVELS[level](_name(function), call, operands)

    return straight


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _of_symbolic(name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
    operands = [as_tensor(x) for x in operands]
    y = call(*map(disconnected_grad, operands))
    if isinstance(y, ImplicitArray):
        form, leaves = Form.of(y)
        value = form.build([disconnected_grad(x) for x in leaves])
        return Straight(value, _sum(straight_by(name, operands, y), dtype_name(y.dtype)))
    y = as_tensor(y)
    return moved(disconnected_grad(y), _sum(straight_by(name, operands, y), y.dtype))


def _sum(operands: Sequence[Any], dtype: str) -> Tensor:
    return functools.reduce(lambda a, b: a + b, [cast(x, dtype) for x in operands])


def _of_numpy(name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
    y = call(*operands)
    straight_by(name, operands, y)
    return y


def _of_jax(name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
    return import_module("graphc.implicit.jax.ste").straight(name, call, operands)


LEVELS = {"graphc": _of_symbolic, "JAX": _of_jax, "NumPy": _of_numpy}
"""What is called for arrays of each library."""


def straight_by(name: str, operands: Sequence[Any], y: Any) -> list[Any]:
    """The operands by which a result has the identity's derivative.

    Raises:
        ImplicitArrayError: The result is no array.
        DTypeError: It has no derivative.
        ShapeError: No operand fits it.
    """
    if not (isinstance(y, Node) or (hasattr(y, "shape") and hasattr(y, "dtype"))):
        raise ImplicitArrayError(
            f"ste({name}): the function gave {y!r}.", "Let it give one array.", where(here())
        )
    shape, dtype = lengths_of(y), dtype_name(dtype_of(y))
    if not is_inexact(dtype):
        raise DTypeError(
            f"ste({name}): the function gave {dtype}{list(shape)}, which has no derivative.",
            "Cast the result to a floating dtype within it.",
            where(here()),
        )
    found = [x for x in operands if _fits(x, shape, dtype)]
    if operands and not found:
        types = ", ".join(f"{dtype_of(x)}{list(lengths_of(x))}" for x in operands)
        raise ShapeError(
            f"ste({name}): the function gave {dtype}{list(shape)}, and no floating array of that "
            f"shape is among its arguments: {types}.",
            "Let it keep the shape of one.",
            where(here()),
        )
    return found


def _fits(x: Any, shape: Sequence[int | None], dtype: str) -> bool:
    """Whether an array is floating and of that shape, as far as its lengths are known."""
    lengths, own = lengths_of(x), dtype_name(dtype_of(x))
    same = all(n is None or m is None or n == m for n, m in zip(lengths, shape, strict=False))
    return (
        len(lengths) == len(shape)
        and same
        and is_inexact(own)
        and (is_complex(dtype) or not is_complex(own))
    )
