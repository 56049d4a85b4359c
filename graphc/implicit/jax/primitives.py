"""JAX's primitives by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive, primitives

__all__ = ["named", "names"]

SUFFIX = "_p"
"""How the names of variables that hold primitives end."""


def _batched(x: Any) -> Any:
    call = jax.custom_batching.custom_vmap(jnp.sin)
    call.def_vmap(lambda _, batched, x: (jnp.sin(x), batched[0]))
    return call(x)


def _solved(x: Any) -> Any:
    return jax.lax.custom_linear_solve(lambda y: y, x, lambda _, b: b, symmetric=True)


SHOWN: Mapping[str, Callable[[Any], Any]] = {
    "jit": jax.jit(jnp.sin),
    "remat": jax.checkpoint(jnp.sin),
    "custom_linear_solve": _solved,
    "custom_vmap_call": _batched,
    "optimization_barrier": jax.lax.optimization_barrier,
    "pure_callback": lambda x: jax.pure_callback(jnp.sin, x, x),
}
"""What leaves one equation behind, of a primitive that has no public name, or several."""


def named(name: str) -> Primitive | None:
    """The primitive of that name, as equations or as modules have it; None where none is.

    Example:
        >>> named("dot_general")
        dot_general
        >>> named("mul") is jax.lax.mul_p
        True
    """
    return _public().get(name) or _table().get(name)


def names() -> tuple[str, ...]:
    """The names of all that ``named`` finds."""
    return tuple(_table())


@cache
def _public() -> Mapping[str, Primitive]:
    """Those that modules have; nothing is traced for them."""
    found: dict[str, Primitive] = {}
    for module in (primitives, jax.lax):
        for name, value in vars(module).items():
            if name.endswith(SUFFIX) and hasattr(value, "bind"):
                found.setdefault(value.name, value)
                found.setdefault(name.removesuffix(SUFFIX), value)
    return MappingProxyType(found)


@cache
def _table() -> Mapping[str, Primitive]:
    found = dict(_public())
    for name, function in SHOWN.items():
        (equation,) = jax.make_jaxpr(function)(jax.core.ShapedArray((1,), jnp.float32)).eqns
        found.setdefault(name, equation.primitive)
        found.setdefault(equation.primitive.name, equation.primitive)
    # Modules call it by both names, in this version or that.
    found.setdefault("pjit", found["jit"])
    found.setdefault("checkpoint", found["remat"])
    return MappingProxyType(found)
