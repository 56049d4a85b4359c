"""Implicit arrays of JAX arrays: functions that ``link/jax/implicit`` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from graphc import hooks


class JaxImplicit(Protocol):
    """The functions and tables for implicit arrays whose fields are JAX arrays.

    Attributes:
        NAMESPACE: NumPy's functions, an ``ArrayNamespace``.
        KRYLOV: The operations of Krylov methods.
    """

    NAMESPACE: Any
    KRYLOV: Any

    def bcoo(self, data: Any, indices: Any, shape: Any, unique: bool) -> Any:
        """Return a ``BCOO``."""

    def bind(self, primitive: Any, operands: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        """Apply a primitive to operands, some implicit."""

    def call(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function with handlers for its primitives."""

    def combined(self, trees: Sequence[Any]) -> Any:
        """Return the tree of which these are parts."""

    def device_put(self, tree: Any, sharding: Any) -> Any:
        """Move a tree to devices."""

    def handled(self, primitive: Any, operands: Sequence[Any], parameters: dict[str, Any]) -> Any:
        """Return the value of handlers, with the derivative of dense arrays."""

    def joined(self, array: Any, toward: Any) -> Any:
        """Return the value of one array with the derivative of another."""

    def known_array(self, x: Any) -> np.ndarray[Any, Any] | None:
        """Return an array that is not traced as NumPy's, else None."""

    def known_number(self, x: Any) -> Any:
        """Return the number that all elements of an array are, else None."""

    def opened(self, materialize: Callable[[Any], Any], x: Any) -> Any:
        """Return an array with one layer less."""

    def partition_specs(self, tree: Any, spec: Any, mesh: Any = None) -> Any:
        """Return the partition specs of a tree's arrays."""

    def primitive(self, name: str) -> Any:
        """Return the primitive of a name, else None."""

    def primitive_names(self) -> tuple[str, ...]:
        """Return the names of all primitives."""

    def quantized_matmul(
        self, coding: Any, transposed: bool, x: Any, packed: Any, *parts: Any
    ) -> Any:
        """Return the product of an array and a quantized matrix."""

    def shardings(self, tree: Any, sharding: Any) -> Any:
        """Return the shardings of a tree's arrays."""

    def straight_through(self, name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Return the value of a call, with the derivative of dense arrays."""

    def where_now(self) -> str | None:
        """Return the user's line that an equation is interpreted for."""


def jax_arrays() -> JaxImplicit:
    """Return the functions for implicit arrays of JAX arrays, which are imported here."""
    return hooks.jax_implicit()
