"""The functions of ``link/jax/implicit`` for implicit arrays of JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from graphc import hooks


class JaxImplicit(Protocol):
    """The functions and tables for implicit arrays whose fields are JAX arrays.

    Attributes:
        NAMESPACE: NumPy's functions for JAX arrays, an ``ArrayNamespace``.
        KRYLOV: The ``Calculus`` of Krylov methods.
    """

    NAMESPACE: Any
    KRYLOV: Any

    def bcoo(self, data: Any, indices: Any, shape: Any, unique: bool) -> Any:
        """Return a ``BCOO``."""

    def bind(self, primitive: Any, operands: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        """Apply a primitive to operands, some of them implicit."""

    def call(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function with handlers for its primitives."""

    def merge_trees(self, trees: Sequence[Any]) -> Any:
        """Merge the parts of a filtered tree."""

    def device_put(self, tree: Any, sharding: Any) -> Any:
        """Move a tree to devices."""

    def apply_to_values(
        self, primitive: Any, operands: Sequence[Any], parameters: dict[str, Any]
    ) -> Any:
        """Apply a primitive to straight-through arrays, with the derivative of dense arrays."""

    def with_derivative_of(self, array: Any, toward: Any) -> Any:
        """Return the value of one array with the derivative of another."""

    def known_array(self, x: Any) -> np.ndarray[Any, Any] | None:
        """Return an array that is not traced as a NumPy array, else None."""

    def known_number(self, x: Any) -> Any:
        """Return the number that all elements of an array equal, if it is known, else None."""

    def densify_layer(self, materialize: Callable[[Any], Any], x: Any) -> Any:
        """Densify the outermost layer of a nested implicit array."""

    def partition_specs(self, tree: Any, spec: Any, mesh: Any = None) -> Any:
        """Return the partition specs of a tree's arrays."""

    def primitive(self, name: str) -> Any:
        """Return the primitive with this name, else None."""

    def primitive_names(self) -> tuple[str, ...]:
        """Return the names of all primitives."""

    def quantized_matmul(
        self, coding: Any, transposed: bool, x: Any, packed: Any, *numbers: Any
    ) -> Any:
        """Multiply an array by a quantized matrix."""

    def shardings(self, tree: Any, sharding: Any) -> Any:
        """Return the shardings of a tree's arrays."""

    def straight_through(self, name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Return the result of a call, with the derivative of dense arrays."""

    def where_now(self) -> str | None:
        """Return the user's line of the equation that is being interpreted."""


def jax_arrays() -> JaxImplicit:
    """Import and return the functions for implicit arrays of JAX arrays."""
    return hooks.jax_implicit()
