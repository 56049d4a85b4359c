"""Functions for attention of JAX arrays, which ``link/jax/attention`` provides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from graphc import hooks

Function = Callable[..., Any]


class JaxAttention(Protocol):
    """The functions of the package ``link/jax/attention``, which documents them."""

    call_mod: Function
    captured_values: Function
    check_lossless: Function
    flex_attention: Function
    placeholders: Function
    traced_tables: Function


def jax_arrays() -> JaxAttention:
    """Return the functions for attention of JAX arrays, and import JAX."""
    return hooks.jax_attention()
