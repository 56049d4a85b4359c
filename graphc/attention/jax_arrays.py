"""Functions for attention of JAX arrays, which ``link/jax/attention`` provides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from graphc import hooks


class JaxAttention(Protocol):
    """The functions for attention of JAX arrays, and for functions written in JAX."""

    def check_lossless(self, what: str, name: str, x: Any) -> None:
        """Raise if JAX would change the numbers of an array."""

    def flex_attention(self, query: Any, key: Any, value: Any, *args: Any, **options: Any) -> Any:
        """Return the attention of JAX arrays."""

    def call_mod(self, what: str, function: Any, parameters: Sequence[Any]) -> Any:
        """Return the result of a mask or score function that is written for JAX, as a graph."""

    def captured_values(self, what: str, function: Any) -> tuple[Any, list[Any]]:
        """Return the types of the arrays that a function captures, and the arrays in NumPy."""

    def placeholders(self, types: Any) -> list[Any]:
        """Return stand-ins of captured arrays, each with an input of a graph, ``array``."""

    def traced_tables(self, function: Any, tiling: Any) -> Sequence[Any]:
        """Return the tables of a mask function that captures tracers."""


def jax_arrays() -> JaxAttention:
    """Return the functions for attention of JAX arrays, and import JAX."""
    return hooks.jax_attention()
