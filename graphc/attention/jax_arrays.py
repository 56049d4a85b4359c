"""Functions for attention of JAX arrays, which ``link/jax/attention`` provides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from graphc import hooks


class JaxAttention(Protocol):
    """The functions for attention of JAX arrays, and for masks written in JAX."""

    def check_lossless(self, what: str, name: str, x: Any) -> None:
        """Raise if JAX would change the numbers of an array."""

    def flex_attention(self, query: Any, key: Any, value: Any, *args: Any, **options: Any) -> Any:
        """Return the attention of JAX arrays."""

    def mask_tables(self, lifted: Any, *tiling: Any) -> tuple[Any, Any, Any, Any]:
        """Return the tables of a mask function."""

    def mask_values(self, mask: Any, indices: Sequence[Any]) -> Any:
        """Return a mask function's values on the grid of indices of each axis."""


def jax_arrays() -> JaxAttention:
    """Return the functions for attention of JAX arrays, and import JAX."""
    return hooks.jax_attention()
