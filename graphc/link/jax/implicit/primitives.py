"""JAX's primitives by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive, primitives

from graphc.tensor.core.elementwise import ROWS, Elementwise

SUFFIX = "_p"
"""How the names of variables that hold primitives end."""


def _batched(x: Any) -> Any:
    call = jax.custom_batching.custom_vmap(jnp.sin)
    call.def_vmap(lambda _, batched, x: (jnp.sin(x), batched[0]))
    return call(x)


def _solved(x: Any) -> Any:
    return jax.lax.custom_linear_solve(lambda y: y, x, lambda _, b: b, symmetric=True)


def _ragged(x: Any) -> Any:
    one: Any = np.ones((1, 1, 1), x.dtype)
    sizes: Any = np.ones(1, "int32")
    return jax.lax.ragged_dot(one[0], one, sizes)


SHOWN: Mapping[str, Callable[[Any], Any]] = {
    "jit": jax.jit(jnp.sin),
    "remat": jax.checkpoint(jnp.sin),
    "custom_linear_solve": _solved,
    "custom_vmap_call": _batched,
    "optimization_barrier": jax.lax.optimization_barrier,
    "ragged_dot_general": _ragged,
    "pure_callback": lambda x: jax.pure_callback(jnp.sin, x, x),
}
"""Functions whose trace is one equation of a primitive without a single public name."""


def primitive(name: str) -> Primitive | None:
    """Return the primitive of that name in equations or modules, or None.

    Example:
        >>> primitive("dot_general")
        dot_general
        >>> primitive("mul") is jax.lax.mul_p
        True
    """
    return _public().get(name) or _table().get(name)


OTHER_NAMES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "and": "bitwise_and",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "eq": "equal",
    "erf_inv": "erfinv",
    "ge": "greater_equal",
    "gt": "greater",
    "is_finite": "isfinite",
    "le": "less_equal",
    "lgamma": "gammaln",
    "logistic": "sigmoid",
    "lt": "less",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "not": "invert",
    "or": "bitwise_or",
    "sub": "subtract",
    "xor": "bitwise_xor",
}
"""The rows of primitives that JAX calls by other names."""


BY_PARAMETERS = {"round"}
"""Primitives that compute one row or another, by their parameters."""


@cache
def rows_of_primitives() -> Mapping[str, Elementwise]:
    """Return the rows that compute what elementwise primitives do, by the primitives' names.

    Example:
        >>> rows = rows_of_primitives()
        >>> rows["exp"], rows["atan"], "round" in rows
        (exp, arctan, False)
    """
    found = {name: ROWS.get(OTHER_NAMES.get(name, name)) for name in _public()}
    return {name: row for name, row in found.items() if row and name not in BY_PARAMETERS}


def primitive_names() -> tuple[str, ...]:
    """Return the names of all that ``primitive`` finds."""
    return tuple(_table())


@cache
def _public() -> Mapping[str, Primitive]:
    """Return the primitives in public modules, found without tracing."""
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
    one = jax.core.ShapedArray((1,), jnp.float32)
    # Within the user's explicit mesh, JAX would ask how a product of groups is to be divided.
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        for name, function in SHOWN.items():
            (equation,) = jax.make_jaxpr(function)(one).eqns
            found.setdefault(name, equation.primitive)
            found.setdefault(equation.primitive.name, equation.primitive)
    # Modules call it by both names, in this version or that.
    found.setdefault("pjit", found["jit"])
    found.setdefault("checkpoint", found["remat"])
    return MappingProxyType(found)
