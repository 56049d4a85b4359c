"""Flattening of values into arrays and abstract values, its inverse, stacks and lists of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import jax
import jax.numpy as jnp

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.stacks import element_type
from graphc.implicit.treedef import Treedef, declares_implicit
from graphc.ir import Node


@dataclass(frozen=True)
class ImplicitAval:
    """The abstract value of an implicit array: its tree structure and its arrays' types.

    Attributes:
        treedef: The classes, static fields and nesting.
        avals: The types of the arrays.
    """

    treedef: Treedef
    avals: tuple[Any, ...]

    @property
    def count(self) -> int:
        """The number of arrays."""
        return len(self.avals)

    def like(self) -> Any:
        """Return an implicit array that has types instead of arrays."""
        return self.treedef.build(self.avals)


ImplicitAvals = tuple[ImplicitAval | None, ...]
"""The abstract values of several values; None stands for a dense array."""


def flatten(values: Iterable[Any]) -> tuple[list[Any], ImplicitAvals]:
    """Flatten values into arrays; return the arrays and the abstract value of each value."""
    leaves: list[Any] = []
    kinds: list[ImplicitAval | None] = []
    for x in values:
        if isinstance(x, ImplicitArray):
            treedef, arrays = Treedef.of(x)
            strong = [_strong(array) for array in arrays]
            leaves += strong
            kinds.append(ImplicitAval(treedef, tuple(map(jax.typeof, strong))))
        else:
            leaves.append(x)
            kinds.append(None)
    return leaves, tuple(kinds)


def _strong(x: Any) -> Any:
    # Abstract values are compared by dtypes, so they have no weak types.
    return jax.lax.convert_element_type(x, x.dtype) if jax.typeof(x).weak_type else x


def unflatten(kinds: ImplicitAvals, leaves: Iterable[Any]) -> list[Any]:
    """Return values built from abstract values and arrays."""
    return list(_values(kinds, iter(leaves)))


def _values(kinds: ImplicitAvals, leaves: Iterator[Any]) -> Iterator[Any]:
    for kind in kinds:
        if kind is None:
            yield next(leaves)
        else:
            yield kind.treedef.build([next(leaves) for _ in kind.avals])


@dataclass(frozen=True)
class OperandTree:
    """The structure of operands whose arrays are passed each once.

    Attributes:
        tree: The tree of the operands.
        indices: For each leaf of the tree, the index of its array.
    """

    tree: Any
    indices: tuple[int, ...]

    @classmethod
    def of(cls, operands: Sequence[Any]) -> tuple[list[Any], Self]:
        """Return the distinct arrays of operands, and the operands' structure."""
        leaves, tree = jax.tree.flatten(tuple(operands))
        arrays = {id(x): x for x in leaves}
        index_of = {key: i for i, key in enumerate(arrays)}
        return list(arrays.values()), cls(tree, tuple([index_of[id(x)] for x in leaves]))

    def build(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the operands, given the arrays."""
        return [*jax.tree.unflatten(self.tree, [arrays[i] for i in self.indices])]


# Stacks: implicit arrays whose leading axis is a batch.


@lru_cache(1024)
def element(kind: ImplicitAval, length: int) -> ImplicitAval | None:
    """Return the abstract value of a stack's elements; None if the array is not a stack.

    An array is a stack if all its fields have the leading axis, and the dense array has that axis
    for any length: this tells a batch axis from a matrix axis of equal length. Axes in front of
    the axes that a class knows are batches, as for ``jax.vmap``.
    """
    if any(aval.shape[:1] != (length,) for aval in kind.avals):
        return None
    avals = tuple(_with_shape(aval, aval.shape[1:]) for aval in kind.avals)
    part = ImplicitAval(kind.treedef, avals)
    shapes = tuple([(aval.shape, aval.dtype) for aval in avals])
    return None if element_type(kind.treedef, shapes, False) is None else part


@lru_cache(1024)
def stack(kind: ImplicitAval, length: int) -> ImplicitAval | None:
    """Return the abstract value of a stack of arrays; None if the class cannot be stacked."""
    avals = tuple(_with_shape(aval, (length, *aval.shape)) for aval in kind.avals)
    repeated = ImplicitAval(kind.treedef, avals)
    return repeated if element(repeated, length) == kind else None


def _with_shape(aval: Any, shape: tuple[int, ...]) -> Any:
    # ``update`` would keep the default sharding, which has the old rank.
    if aval == jax.core.ShapedArray(aval.shape, aval.dtype):
        return jax.core.ShapedArray(shape, aval.dtype)
    return aval.update(shape=shape)


# Lists of values.


def per_array(
    kinds: Sequence[ImplicitAval | None], values: Sequence[Any], other: Any
) -> tuple[Any, ...]:
    """Return an attribute per array: the attribute of a dense value, or ``other``."""
    attributes: list[Any] = []
    for kind, value in zip(kinds, values, strict=True):
        attributes += [value] if kind is None else [other] * kind.count
    return tuple(attributes)


def to_jax(x: Any) -> Any:
    """Convert an operand's arrays to JAX arrays.

    Raises:
        ImplicitArrayError: If an array is symbolic.
    """
    if isinstance(x, ImplicitArray):
        treedef, leaves = Treedef.of(x)
        if all(isinstance(leaf, jax.Array) for leaf in leaves):
            return x
        return treedef.build([to_jax(leaf) for leaf in leaves])
    if isinstance(x, Node) or declares_implicit(x):
        raise ImplicitArrayError(
            f"A JAX function got the symbolic array {x!r}.",
            "Wrap it with graphc.wrap_jax, or use functions of graphc.tensor.",
        )
    is_float0 = getattr(x, "dtype", None) == jax.dtypes.float0
    return x if is_float0 or isinstance(x, jax.Array) else jnp.asarray(x)


def merge_trees(trees: Sequence[Any]) -> Any:
    """Return the tree of the first leaf, at each position, that is not None in a tree.

    Raises:
        ValueError: If the trees are nested differently.
    """

    def first(*leaves: Any) -> Any:
        return next((x for x in leaves if x is not None), None)

    return jax.tree.map(first, *trees, is_leaf=lambda x: x is None)
