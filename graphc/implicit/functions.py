"""JAX functions that take implicit arrays: ``implicit``, and a fallback for handlers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, overload

from graphc.errors import ArgumentError
from graphc.implicit.array import is_implicit
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.policy import materialized, materializing
from graphc.implicit.registry import described
from graphc.ir import Op
from graphc.tensor import Tensor, as_tensor


@overload
def implicit(f: Callable[..., Any], *, materialize: str | None = None) -> Callable[..., Any]: ...


@overload
def implicit(
    f: None = None, *, materialize: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...


def implicit(f: Any = None, *, materialize: str | None = None) -> Any:
    """Let a function of JAX arrays take implicit arrays in their place.

    JAX traces the function, and each primitive whose operands are implicit goes to the handler that
    was registered for it: for ``jnp.dot``, ``jnp.einsum`` and ``@`` alike, that of
    ``dot_general``. Loops, branches, compiled functions, checkpoints, functions with derivatives of
    their own and functions under ``vmap`` and ``grad`` are entered. What has no handler gets the
    whole array, as the policy says. ``jit``, ``vmap`` and ``grad`` may go around it, too; when a
    compiled function is called, nothing of this is left.

    Modules of ``flax.nnx``, ``f`` or among its arguments, may hold implicit arrays; what ``f``
    changes in them stays changed.

    Within the function an implicit argument is an array of JAX's, which the trace follows: its
    fields are not seen. Implicit arrays that the function captures are made arguments, too, beside
    implicit arguments and where a function of JAX would not take them.

    Args:
        f: Takes and gives arrays nested in any way, of which some may be implicit. Numbers, strings
            and other objects are given to it as they are. Without it, the result is a decorator.
        materialize: What is done where an array becomes whole: ``"allow"``, ``"warn"`` or
            ``"error"``; by default what ``materializing`` and the configuration say.

    Returns:
        A function. Its results are nested as the function's; some may be implicit.

    Raises:
        ArgumentError: It is no function.
        MaterializeError: When called: an array would become whole, which the policy forbids.
        HandlerError: When called: a handler gave another shape or dtype than the primitive has.

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


@overload
def use_implicit(
    f: Callable[..., Any], *, materialize: str | None = None
) -> Callable[..., Any]: ...


@overload
def use_implicit(
    f: None = None, *, materialize: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...


def use_implicit(f: Any = None, *, materialize: str | None = None) -> Any:
    """An older name of ``implicit``.

    Args:
        f: As of ``implicit``.
        materialize: As of ``implicit``.

    Returns:
        What ``implicit`` returns.

    Raises:
        ArgumentError: It is no function.

    Example:
        >>> import jax.numpy as jnp
        >>> print(use_implicit(jnp.add)(1, jnp.ones(2)))
        [2. 2.]
    """
    return implicit(f, materialize=materialize)


def materialize_handler(target: Any, *operands: Any, **parameters: Any) -> Any:
    """Apply a primitive or an operation to the whole arrays: for use in a handler.

    Implicit operands become whole as the policy says, and are reported.

    Args:
        target: A primitive of JAX's, or an operation of graphc's or its class.
        operands: Arrays of its library, some implicit.
        parameters: The primitive's, or the fields of the class of operations.

    Returns:
        What it gives for dense operands.

    Raises:
        MaterializeError: The policy forbids it.

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
        given = [_whole(x, described(target), None) for x in operands]
        return Tensor.make(target, *map(as_tensor, given))
    place = jax_arrays().where_now()
    given = [_whole(x, described(target), place) for x in operands]
    return jax_arrays().bind(target, given, parameters)


def _whole(x: Any, what: str, where: str | None) -> Any:
    return materialized(x, what, where) if is_implicit(x) else x
