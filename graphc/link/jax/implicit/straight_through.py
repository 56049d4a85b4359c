"""The straight-through estimator of JAX arrays, and primitives applied to its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from graphc.implicit.array import is_implicit
from graphc.implicit.dispatch import dispatch
from graphc.implicit.functions import implicit
from graphc.implicit.policy import densify
from graphc.implicit.straight_through import StraightThrough, operands_through, value_of
from graphc.link.jax.implicit.deferred import defer
from graphc.link.jax.implicit.function_pair import FunctionPair, key_of
from graphc.link.jax.releases import bind


class _Replacement(FunctionPair):
    """The dense value of a straight-through array, with the derivative of its other array."""

    def jvp(self, operands: Sequence[Any], wrt: Sequence[int], directions: Sequence[Any]) -> Any:
        return self(operands), directions


def with_derivative_of(array: Any, toward: Any, name: str = "StraightThrough") -> Any:
    """Return an array, densified, with the derivative of another array."""
    pair = _Replacement(lambda x: [densify(value_of(x))], lambda x: [x], name, None)
    return pair([StraightThrough(array, toward)])[0]


def straight_through(name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Call a function with the derivative of the identity, for operands of the result's shape.

    Args:
        name: The function's name in messages.
        call: A function of arrays.
        operands: Arrays, dense or implicit.
    """
    fixed = jax.lax.stop_gradient([*operands])
    is_dense = not any(map(is_implicit, operands))
    y = jax.lax.stop_gradient(call(*fixed) if is_dense else implicit(call)(*fixed))
    through = operands_through(name, operands, y)
    if not through:
        return y
    dtype, toward = y.dtype, through[0]
    if len(through) > 1 or toward.dtype != dtype:

        def total(*xs: Any) -> list[Any]:
            return [sum(x.astype(dtype) for x in xs)]

        pair = FunctionPair(total, total, f"ste({name})", ("ste", dtype))
        toward = defer(pair, through, 0, y)

    if is_implicit(y):
        return StraightThrough(y, toward)
    return with_derivative_of(y, toward, f"ste({name})")


class _UnhandledError(Exception):
    """No handler takes the values of straight-through arrays."""


def apply_to_values(primitive: Any, operands: Sequence[Any], parameters: dict[str, Any]) -> Any:
    """Apply a primitive to the values of straight-through arrays; derivatives are dense.

    Returns:
        The results, or NotImplemented if nothing handles the values.
    """

    def as_list(y: Any) -> Sequence[Any]:
        return y if primitive.multiple_results else [y]

    def value(*operands: Any) -> Sequence[Any]:
        y = dispatch(primitive, [*map(value_of, operands)], parameters)
        if y is NotImplemented:
            raise _UnhandledError
        return as_list(y)

    def dense(*operands: Any) -> Sequence[Any]:
        return as_list(bind(primitive, operands, parameters))

    pair = FunctionPair(value, dense, primitive.name, key_of(primitive, parameters))
    try:
        results = pair(operands)
    except _UnhandledError:
        return NotImplemented
    return results if primitive.multiple_results else results[0]
