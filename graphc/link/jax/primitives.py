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

from graphc.link.jax.releases import SYNONYMS
from graphc.tensor.core.elementwise import ROWS, Elementwise

SUFFIX = "_p"
"""The suffix of the names of variables that hold primitives."""


def _call_custom_vmap(x: Any) -> Any:
    call = jax.custom_batching.custom_vmap(jnp.sin)
    call.def_vmap(lambda _, batched, x: (jnp.sin(x), batched[0]))
    return call(x)


def _solve_linear(x: Any) -> Any:
    return jax.lax.custom_linear_solve(lambda y: y, x, lambda _, b: b, symmetric=True)


def _ragged_dot(x: Any) -> Any:
    one: Any = np.ones((1, 1, 1), x.dtype)
    sizes: Any = np.ones(1, "int32")
    return jax.lax.ragged_dot(one[0], one, sizes)


EXAMPLES: Mapping[str, Callable[[Any], Any]] = {
    "jit": jax.jit(jnp.sin),
    "remat": jax.checkpoint(jnp.sin),
    "custom_linear_solve": _solve_linear,
    "custom_vmap_call": _call_custom_vmap,
    "optimization_barrier": jax.lax.optimization_barrier,
    "ragged_dot_general": _ragged_dot,
    "pure_callback": lambda x: jax.pure_callback(jnp.sin, x, x),
}
"""Functions that trace to one equation, of a primitive without a unique public name."""


def primitive(name: str) -> Primitive | None:
    """Return the primitive with a name, as used in equations or in modules; None if there is none.

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
"""The names of elementwise rows by JAX's names, where these differ."""

BY_PARAMETERS = {"round"}
"""Primitives whose parameters select a row."""


@cache
def rows_of_primitives() -> Mapping[str, Elementwise]:
    """Return the elementwise rows of primitives, by the primitives' names.

    Example:
        >>> rows = rows_of_primitives()
        >>> rows["exp"], rows["atan"], "round" in rows
        (exp, arctan, False)
    """
    rows = {name: ROWS.get(OTHER_NAMES.get(name, name)) for name in _public()}
    return {name: row for name, row in rows.items() if row and name not in BY_PARAMETERS}


def primitive_names() -> tuple[str, ...]:
    """Return the names of all primitives that ``primitive`` returns."""
    return tuple(_table())


@cache
def _public() -> Mapping[str, Primitive]:
    """Return the primitives in public modules, without tracing."""
    primitives_by_name: dict[str, Primitive] = {}
    for module in (primitives, jax.lax):
        for name, value in vars(module).items():
            if name.endswith(SUFFIX) and hasattr(value, "bind"):
                primitives_by_name.setdefault(value.name, value)
                primitives_by_name.setdefault(name.removesuffix(SUFFIX), value)
    return MappingProxyType(primitives_by_name)


@cache
def _table() -> Mapping[str, Primitive]:
    table = dict(_public())
    one = jax.core.ShapedArray((1,), jnp.float32)
    # Within the user's explicit mesh, JAX would ask for the sharding of a ragged product.
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        for name, function in EXAMPLES.items():
            (equation,) = jax.make_jaxpr(function)(one).eqns
            table.setdefault(name, equation.primitive)
            table.setdefault(equation.primitive.name, equation.primitive)
    for name, other in SYNONYMS.items():
        table.setdefault(name, table[other])
    return MappingProxyType(table)
