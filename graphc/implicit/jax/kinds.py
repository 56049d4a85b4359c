"""Values taken apart into arrays and what they are beside those, and put together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.form import Form, is_form
from graphc.implicit.policy import whole
from graphc.ir import Node, here, where

__all__ = ["Kind", "Kinds", "aval_of", "flatten", "owned", "spread", "unflatten"]


@dataclass(frozen=True)
class Kind:
    """What an implicit array is but for the values of its arrays.

    Attributes:
        form: Its classes, static fields and nesting.
        avals: The types of its arrays.
    """

    form: Form
    avals: tuple[Any, ...]

    @property
    def count(self) -> int:
        """How many arrays it has."""
        return len(self.avals)

    def like(self) -> Any:
        """One whose arrays are types."""
        return self.form.build(self.avals)


Kinds = tuple[Kind | None, ...]
"""What each of several values is; None for one array, which is dense."""


def flatten(values: Iterable[Any]) -> tuple[list[Any], Kinds]:
    """The arrays of all values, and what each value is."""
    leaves: list[Any] = []
    kinds: list[Kind | None] = []
    for x in values:
        if isinstance(x, ImplicitArray):
            form, parts = Form.of(x)
            strong = [_strong(part) for part in parts]
            leaves += strong
            kinds.append(Kind(form, tuple(map(jax.typeof, strong))))
        else:
            leaves.append(x)
            kinds.append(None)
    return leaves, tuple(kinds)


def _strong(x: Any) -> Any:
    """The array with a dtype that does not give way: forms are compared with dtypes."""
    return jax.lax.convert_element_type(x, x.dtype) if jax.typeof(x).weak_type else x


def unflatten(kinds: Kinds, leaves: Iterable[Any]) -> list[Any]:
    """The values of these kinds that have these arrays."""
    return list(_values(kinds, iter(leaves)))


def _values(kinds: Kinds, leaves: Iterator[Any]) -> Iterator[Any]:
    for kind in kinds:
        if kind is None:
            yield next(leaves)
        else:
            yield kind.form.build([next(leaves) for _ in kind.avals])


def spread(kinds: Sequence[Kind | None], values: Sequence[Any], other: Any) -> tuple[Any, ...]:
    """What is said of each value said of its arrays: of dense ones as it is, else ``other``."""
    said: list[Any] = []
    for kind, value in zip(kinds, values, strict=True):
        said += [value] if kind is None else [other] * kind.count
    return tuple(said)


def aval_of(x: ImplicitArray) -> Any:
    """The type of the array that an implicit array stands for."""
    _, leaves = Form.of(x)
    if all(_is_plain(jax.typeof(leaf)) for leaf in leaves):
        return jax.core.ShapedArray(x.shape, x.dtype)
    # Shardings, and axes of meshes that it varies over, are what the whole would have.
    (aval,) = jax.make_jaxpr(whole)(x).out_avals
    return aval


def _is_plain(aval: Any) -> bool:
    return bool(jax.core.ShapedArray(aval.shape, aval.dtype, aval.weak_type) == aval)


def owned(x: Any) -> Any:
    """An operand with arrays of JAX's, whatever library's it had.

    Raises:
        ImplicitArrayError: Some are symbolic.
    """
    if isinstance(x, ImplicitArray):
        form, leaves = Form.of(x)
        if all(isinstance(leaf, jax.Array) for leaf in leaves):
            return x
        return form.build([owned(leaf) for leaf in leaves])
    if isinstance(x, Node) or is_form(x):
        raise ImplicitArrayError(
            f"A function of JAX's was given the symbolic array {x!r}.",
            "Call it by graphc.wrap_jax, or use functions of graphc.tensor.",
            where(here()),
        )
    is_float0 = getattr(x, "dtype", None) == jax.dtypes.float0
    return x if is_float0 or isinstance(x, jax.Array) else jnp.asarray(x)
