"""Flattening of values into arrays and abstract values, and its inverse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.treedef import Treedef, declares_implicit
from graphc.ir import Node


@dataclass(frozen=True)
class ImplicitAval:
    """The abstract value of an implicit array: its tree structure and its arrays' types.

    Attributes:
        treedef: Its classes, static fields and nesting.
        avals: The types of its arrays.
    """

    treedef: Treedef
    avals: tuple[Any, ...]

    @property
    def count(self) -> int:
        """The number of its arrays."""
        return len(self.avals)

    def like(self) -> Any:
        """Return an implicit array whose arrays are types."""
        return self.treedef.build(self.avals)


ImplicitAvals = tuple[ImplicitAval | None, ...]
"""The abstract values of several values; None stands for a dense array."""


def flatten(values: Iterable[Any]) -> tuple[list[Any], ImplicitAvals]:
    """Flatten values into arrays; return these and the abstract value of each."""
    leaves: list[Any] = []
    kinds: list[ImplicitAval | None] = []
    for x in values:
        if isinstance(x, ImplicitArray):
            treedef, parts = Treedef.of(x)
            strong = [_strong(part) for part in parts]
            leaves += strong
            kinds.append(ImplicitAval(treedef, tuple(map(jax.typeof, strong))))
        else:
            leaves.append(x)
            kinds.append(None)
    return leaves, tuple(kinds)


def _strong(x: Any) -> Any:
    """Remove an array's weak type, since abstract values are compared with dtypes."""
    return jax.lax.convert_element_type(x, x.dtype) if jax.typeof(x).weak_type else x


def unflatten(kinds: ImplicitAvals, leaves: Iterable[Any]) -> list[Any]:
    """Build values from abstract values and arrays."""
    return list(_values(kinds, iter(leaves)))


def _values(kinds: ImplicitAvals, leaves: Iterator[Any]) -> Iterator[Any]:
    for kind in kinds:
        if kind is None:
            yield next(leaves)
        else:
            yield kind.treedef.build([next(leaves) for _ in kind.avals])


def spread(
    kinds: Sequence[ImplicitAval | None], values: Sequence[Any], other: Any
) -> tuple[Any, ...]:
    """Give each array its value's attribute if that is dense, else ``other``."""
    said: list[Any] = []
    for kind, value in zip(kinds, values, strict=True):
        said += [value] if kind is None else [other] * kind.count
    return tuple(said)


def owned(x: Any) -> Any:
    """Convert an operand's arrays to JAX arrays.

    Raises:
        ImplicitArrayError: Some are symbolic.
    """
    if isinstance(x, ImplicitArray):
        treedef, leaves = Treedef.of(x)
        if all(isinstance(leaf, jax.Array) for leaf in leaves):
            return x
        return treedef.build([owned(leaf) for leaf in leaves])
    if isinstance(x, Node) or declares_implicit(x):
        raise ImplicitArrayError(
            f"A JAX function got the symbolic array {x!r}.",
            "Wrap it with graphc.wrap_jax, or use functions of graphc.tensor.",
        )
    is_float0 = getattr(x, "dtype", None) == jax.dtypes.float0
    return x if is_float0 or isinstance(x, jax.Array) else jnp.asarray(x)
