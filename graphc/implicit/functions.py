"""JAX functions that take implicit arrays: ``implicit``, and a fallback for handlers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, overload

from graphc.errors import ArgumentError
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.policy import as_dense, materializing
from graphc.implicit.registry import describe
from graphc.ir import Op
from graphc.tensor import Tensor, as_tensor


@overload
def implicit(f: Callable[..., Any], *, materialize: str | None = None) -> Callable[..., Any]: ...


@overload
def implicit(
    f: None = None, *, materialize: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...


def implicit(f: Any = None, *, materialize: str | None = None) -> Any:
    """Let a function of JAX arrays accept implicit arrays.

    JAX traces the function, and each primitive with implicit operands calls the handler that is
    registered for the primitive: ``jnp.dot``, ``jnp.einsum`` and ``@`` all call the handler of
    ``dot_general``. Loops, branches, compiled functions, checkpoints, functions with custom
    derivatives, and functions under ``vmap`` and ``grad`` are entered. A primitive without a
    handler gets the dense array, as the policy allows. ``jit``, ``vmap`` and ``grad`` may be
    applied to the result, too; a call of a compiled function has no overhead.

    ``f``, and its arguments, may be modules of ``flax.nnx`` that contain implicit arrays; the
    changes that ``f`` makes to the modules persist.

    Within the function an implicit argument is a traced JAX array: its fields are not accessible.
    Implicit arrays that the function captures become arguments, too, beside implicit arguments and
    where a JAX function would not accept them.

    Args:
        f: A function from and to nested containers of arrays, some of which may be implicit.
            Numbers, strings and other objects are passed to the function unchanged. Without ``f``,
            the result is a decorator.
        materialize: The policy for arrays that become dense: ``"allow"``, ``"warn"`` or
            ``"error"``; by default the policy of ``materializing`` and the configuration.

    Returns:
        A function with results of the same nesting; some may be implicit.

    Raises:
        ArgumentError: If ``f`` is not a function.
        MaterializeError: When called, if an array would become dense and the policy forbids it.
        HandlerError: When called, if a handler returned another shape or dtype than the primitive
            has.

    Example:
        >>> from dataclasses import dataclass
        >>> import jax, jax.numpy as jnp
        >>> from graphc.implicit import ImplicitArray, register
        >>> @dataclass(frozen=True)
        ... class Outer(ImplicitArray):
        ...     u: jax.Array
        ...     v: jax.Array
        ...     def materialize(self):
        ...         return self.u[:, None] * self.v
        >>> @register("transpose")
        ... def transposed(x: Outer, *, permutation):
        ...     return Outer(x.v, x.u)
        >>> implicit(jnp.transpose)(Outer(jnp.ones(3), jnp.ones(2)))
        Outer(float32[2], float32[3])
    """
    if f is None:
        return functools.partial(implicit, materialize=materialize)
    if not callable(f):
        raise ArgumentError(
            f"implicit({f!r}): expected a function.", "Pass a function of JAX arrays."
        )
    if materialize is not None:
        with materializing(materialize):
            pass  # raises for an unknown policy

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        with nullcontext() if materialize is None else materializing(materialize):
            return jax_arrays().call(f, args, kwargs)

    return run


use_implicit = implicit
"""An older name of ``implicit``."""


def materialize_handler(target: Any, *operands: Any, **parameters: Any) -> Any:
    """Apply a primitive or an operation to dense arrays: for use in a handler.

    Implicit operands become dense as the policy allows, and are reported.

    Args:
        target: A JAX primitive, or an operation of graphc or its class.
        operands: Arrays of the target's library, some implicit.
        parameters: The parameters of the primitive, or the fields of the operation.

    Returns:
        The result for dense operands.

    Raises:
        MaterializeError: If the policy forbids it.

    Example:
        >>> from dataclasses import dataclass
        >>> import jax, jax.numpy as jnp
        >>> from graphc.implicit import ImplicitArray, materializations, register
        >>> @dataclass(frozen=True)
        ... class Root(ImplicitArray):
        ...     square: jax.Array
        ...     def materialize(self):
        ...         return jnp.sqrt(self.square)
        >>> @register("integer_pow")
        ... def power(x: Root, *, y):
        ...     if y == 2:
        ...         return x.square
        ...     return materialize_handler(jax.lax.integer_pow_p, x, y=y)
        >>> with materializations() as report:
        ...     print(implicit(lambda x: x**2 + x**3)(Root(jnp.ones(2))))
        [2. 2.]
        >>> [x.what for x in report]
        ['integer_pow']
    """
    if isinstance(target, type):
        target = target(**parameters)
    if isinstance(target, Op):
        arrays = [as_dense(x, describe(target)) for x in operands]
        return Tensor.make(target, *map(as_tensor, arrays))
    line = jax_arrays().where_now()
    arrays = [as_dense(x, describe(target), line) for x in operands]
    return jax_arrays().bind(target, arrays, parameters)
