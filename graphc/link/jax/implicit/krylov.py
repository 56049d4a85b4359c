"""JAX's loops and derivatives for Krylov methods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graphc.errors import GradientError
from graphc.implicit.array import is_implicit
from graphc.implicit.krylov.calculus import REMEDY, Map, Method
from graphc.link.jax.implicit.numpy_like import NAMESPACE


@jax.custom_jvp
def _slope(x: Any, weights: Any) -> Any:
    return jnp.zeros((*x.shape[:-2], x.shape[-1]), x.dtype)


@_slope.defjvp
def _slope_jvp(primals: Any, tangents: Any) -> Any:
    x, weights = primals
    return _slope(x, weights), (tangents[0] * weights).sum(-2)


class JaxCalculus:
    """Loops and derivatives of JAX arrays."""

    xp = NAMESPACE
    constant = staticmethod(lax.stop_gradient)
    eigh = staticmethod(jnp.linalg.eigh)
    zeros_with_gradient = staticmethod(_slope)

    @property
    def widest(self) -> str:
        return str(jnp.result_type(float))

    def array(self, x: Any) -> Any:
        return x if is_implicit(x) else jnp.asarray(x)

    def type_of(self, function: Map, x: Any) -> tuple[tuple[Any, ...], str]:
        y = jax.eval_shape(function, x)
        return y.shape, str(y.dtype)

    def while_loop(self, goes_on: Any, step: Any, init: Any, most: Any) -> Any:
        def condition(carry: Any) -> Any:
            return jnp.logical_and(carry[0] < most, goes_on(*carry[1:]))

        def body(carry: Any) -> Any:
            return carry[0] + 1, *step(*carry[1:])

        return lax.while_loop(condition, body, (jnp.int32(0), *init))[1:]

    def scan(self, step: Any, init: Any, length: int) -> Any:
        return lax.scan(step, init, jnp.arange(length))

    def solve(
        self, method: Method, product: Map, precondition: Map | None, sides: Any, symmetric: bool
    ) -> tuple[Any, ...]:
        b, start = sides

        def solve(preconditioner: Map | None, start: Any, product: Map, b: Any) -> Any:
            start = jnp.zeros_like(b) if start is None else start
            x, *others = method(product, preconditioner, b, start)
            return x, tuple(map(lax.stop_gradient, others))

        transpose = precondition
        if not (symmetric or precondition is None):
            function = precondition

            def transpose(x: Any) -> Any:
                return jax.linear_transpose(function, x)(x)[0]

        x, others = lax.custom_linear_solve(
            product,
            b,
            partial(solve, precondition, start),
            None if symmetric else partial(solve, transpose, None),
            symmetric=symmetric,
            has_aux=True,
        )
        return x, *others

    def freeze(self, product: Map, like: Any) -> Map:
        function, captured = jax.closure_convert(product, like)
        constants = [lax.stop_gradient(x) for x in captured]
        return lambda x: function(x, *constants)

    def zeros_with_gradient_once(self, x: Any, weights: Any, problem: str) -> Any:
        @jax.custom_jvp
        def without_derivative(weights: Any, x: Any) -> Any:
            return weights

        @without_derivative.defjvp
        def refuse(*_: Any) -> Any:
            raise GradientError(problem, REMEDY)

        @jax.custom_jvp
        def slope(x: Any, weights: Any) -> Any:
            return _slope(x, weights)

        @slope.defjvp
        def slope_jvp(primals: Any, tangents: Any) -> Any:
            x, weights = primals
            return slope(x, weights), (tangents[0] * without_derivative(weights, x)).sum(-2)

        return slope(x, lax.stop_gradient(weights))

    def quadratic(self, product: Map, b: Any, x: Any, search: Any) -> Any:
        constant, x = lax.stop_gradient(b), lax.stop_gradient(x)
        square = (constant * constant).sum(-2, keepdims=True)

        def solve(product: Map, rhs: Any) -> Any:
            # The derivative solves a system whose right-hand side is a multiple of b.
            factor = (rhs * constant).sum(-2, keepdims=True)
            return search(product, rhs, x * jnp.where(square > 0, factor / square, 0))

        solution = lax.custom_linear_solve(product, b, solve, symmetric=True)
        return (b * solution).sum(-2)

    def forbid_derivative(self, x: Any, moving: Any, problem: str) -> Any:
        @jax.custom_vjp
        def identity(x: Any, moving: Any) -> Any:
            return x

        def backward(_: Any, g: Any) -> Any:
            raise GradientError(problem, REMEDY)

        identity.defvjp(lambda x, moving: (x, None), backward)
        return identity(x, moving)

    def signs(self, key: Any, shape: Sequence[Any], dtype: str) -> Any:
        bits = jax.random.bits(key, tuple(shape), "uint32")
        return 1 - 2 * (bits & 1).astype(dtype)


CALCULUS = JaxCalculus()
