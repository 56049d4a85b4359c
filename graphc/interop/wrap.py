"""JAX functions in graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from graphc.errors import ArgumentError


class Wrapped:
    """A JAX function of symbolic arrays; as a class attribute it becomes a method."""

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A program that has no JAX functions does not load JAX.
        from graphc.link.jax import wrap  # noqa: PLC0415

        return wrap.call(self.__wrapped__, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        bind = getattr(self.__wrapped__, "__get__", None)
        return self if instance is None or bind is None else Wrapped(bind(instance, owner))

    def __repr__(self) -> str:
        return f"wrap_jax({self.__wrapped__!r})"


@overload
def wrap_jax(jax_function: Callable[..., Any]) -> Wrapped: ...


@overload
def wrap_jax(jax_function: None = None) -> Callable[[Callable[..., Any]], Wrapped]: ...


def wrap_jax(jax_function: Any = None) -> Any:
    """Let a JAX function take and return symbolic arrays.

    The function becomes part of the graph, with JAX's derivatives of any order and batches. The
    arrays that it captures (from closures, defaults, ``functools.partial``, ``self``, globals) are
    read each time it is called, and are inputs of the result like arguments: other values compile
    nothing again, and captured symbolic arrays have gradients. Captured arrays of fewer than 10
    elements and Python numbers are part of the program.

    The function is called with JAX arrays, while JAX traces it. Within it 64-bit dtypes are enabled
    where an argument or a captured array has one, so that ``jnp.zeros(3)`` is float64; otherwise as
    ``jax_enable_x64`` says. It runs in JAX in every mode that can call it: as part of the program
    with ``mode="JAX"``, by itself with ``mode="NUMPY"`` and where ``fallback="numpy"`` is given.

    Args:
        jax_function: A function of JAX arrays nested in tuples, lists, dicts and other pytrees.
            Without it, the result is a decorator.

    Returns:
        A function. Its arguments are symbolic arrays and arrays, nested in any way; anything else
        among them, such as Python numbers, strings and functions, is passed on unchanged, and is
        part of the program. The results are symbolic arrays, nested as the function's results are.
        Their lengths are known if they follow from known lengths of arguments. Called by a function
        that JAX traces, the result is ``jax_function`` itself.

    Raises:
        ArgumentError: If the argument is no function; when called: if a result is no array.
        SymbolicValueError: When called: if the function needs the value of an array, as a Python
            ``if`` does.
        OperationError: When called: if JAX cannot trace the function.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> import jax.numpy as jnp
        >>> @graphc.wrap_jax
        ... def polar(x, y):
        ...     return {"radius": jnp.hypot(x, y), "angle": jnp.arctan2(y, x)}
        >>> x, y = gt.scalar("x"), gt.scalar("y")
        >>> radius = polar(x, y)["radius"]
        >>> f = graphc.function([x, y], [radius, graphc.grad(radius, x)])
        >>> [round(float(r), 3) for r in f(3.0, 4.0)]
        [5.0, 0.6]
    """
    if jax_function is None:
        return wrap_jax
    if not callable(jax_function):
        raise ArgumentError(f"wrap_jax: {jax_function!r} is not a function.", "Give a function.")
    return Wrapped(jax_function)
