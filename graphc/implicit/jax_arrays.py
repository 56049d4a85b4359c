"""The functions of ``link/jax/implicit`` for implicit arrays of JAX arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from graphc import hooks

Function = Callable[..., Any]


class JaxImplicit(Protocol):
    """The functions and tables of the package ``link/jax/implicit``, which documents them.

    Attributes:
        NAMESPACE: NumPy's functions for JAX arrays, an ``ArrayNamespace``.
        KRYLOV: The ``Calculus`` of Krylov methods.
    """

    NAMESPACE: Any
    KRYLOV: Any
    apply_to_values: Function
    bcoo: Function
    bind: Function
    call: Function
    densify_layer: Function
    device_put: Function
    known_array: Function
    known_number: Function
    merge_trees: Function
    partition_specs: Function
    primitive: Function
    primitive_names: Function
    quantized_matmul: Function
    shardings: Function
    straight_through: Function
    where_now: Function
    with_derivative_of: Function


def jax_arrays() -> JaxImplicit:
    """Import and return the functions for implicit arrays of JAX arrays."""
    return hooks.jax_implicit()
