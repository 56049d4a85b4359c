"""The straight-through estimator of JAX arrays, and primitives applied to its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from graphc.implicit.array import is_implicit
from graphc.implicit.dispatch import dispatch
from graphc.implicit.functions import implicit
from graphc.implicit.policy import deferred_reports, densify
from graphc.implicit.straight_through import StraightThrough, operands_through
from graphc.link.jax.implicit.deferred import Cache, defer, pull_back, push_forward
from graphc.link.jax.implicit.function_pair import (
    FunctionPair,
    Pushed,
    apply_pair,
    is_traced,
    key_of,
    value_of,
)
from graphc.link.jax.releases import bind


class _Replacement(FunctionPair):
    """An array with the derivative of another array, as a function of both."""

    def jvp(
        self,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outputs: Sequence[int],
        cache: Cache,
    ) -> Pushed | None:
        with self.original_context():
            toward, t = push_forward(self.densify, operands[1], tangents[1], cache)
        if t is None:
            return None
        with deferred_reports():  # the array was reported when it became dense
            return apply_pair(self, [operands[0], toward])[0], {0: t}

    def transpose(
        self, operands: Sequence[Any], wanted: Sequence[bool], gs: Mapping[int, Any]
    ) -> list[Any]:
        count = len(jax.tree.leaves(operands[0]))
        with self.original_context():
            grads = pull_back(self.densify, operands[1], gs[0], wanted[count:])
        return [*[None] * count, *grads]


def with_derivative_of(array: Any, toward: Any, name: str = "StraightThrough") -> Any:
    """Return an array, densified, with the derivative of another array."""
    if not is_traced([array, toward]):
        return densify(array)

    def first(x: Any, _: Any) -> list[Any]:
        return [densify(x)]

    return apply_pair(_Replacement(first, first, name, None), [array, toward])[0][0]


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
    several = primitive.multiple_results

    def value(*operands: Any) -> Sequence[Any]:
        y = dispatch(primitive, [*map(value_of, operands)], parameters)
        if y is NotImplemented:
            raise _UnhandledError
        return y if several else [y]

    def dense(*operands: Any) -> Sequence[Any]:
        y = bind(primitive, operands, parameters)
        return y if several else [y]

    pair = FunctionPair(value, dense, primitive.name, key_of(primitive, parameters))
    try:
        results = pair(operands)
    except _UnhandledError:
        return NotImplemented
    return results if several else results[0]
