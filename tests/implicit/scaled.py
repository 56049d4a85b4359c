"""A matrix of small integers with a scale for each column, for tests of the interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graphc.implicit import ImplicitArray, aux_field, is_implicit, register, unregister

HITS: list[str] = []
"""The primitives that handlers of ``Scaled`` took, in order, while programs were traced."""


@dataclass(frozen=True, repr=False)
class Scaled(ImplicitArray):
    """values (…, n, m) times scale (…, 1, m); axes in front are batches."""

    values: jax.Array
    scale: jax.Array
    name: str = aux_field(default="")

    def materialize(self) -> Any:
        return self.values.astype(self.scale.dtype) * self.scale


@register("dot_general")
def product(a: jax.Array, b: Scaled, *, dimension_numbers: Any, **_: Any) -> Any:
    """Over an axis of the matrix; axes in front are batches on both sides, or on none."""
    (left, right), batches = dimension_numbers
    count = len(b.shape) - 2
    leading = tuple(range(count))
    alone = not batches[0]
    if not (alone or tuple(map(tuple, batches)) == (leading, leading)) or len(right) != 1:
        return NotImplemented
    values = b.values.astype(a.dtype)
    if tuple(right) == (count,):
        HITS.append("dot_general")
        front = () if alone else b.shape[:-2]
        back = (*b.shape[:-2], b.shape[-1]) if alone else b.shape[-1:]
        ones = [1] * (a.ndim - 1 - len(front))
        scale = b.scale.reshape(*front, *ones, *back)
        return jax.lax.dot_general(a, values, dimension_numbers) * scale
    if tuple(right) == (count + 1,) and tuple(left) == (a.ndim - 1,) and count == 0:
        HITS.append("dot_general")
        return jax.lax.dot_general(a * b.scale[0], values, dimension_numbers)
    return NotImplemented


@register("dot_general")
def product_from_left(a: Scaled, b: jax.Array, *, dimension_numbers: Any, **_: Any) -> Any:
    """Of a matrix and a vector or matrix, without batches."""
    (left, right), batches = dimension_numbers
    if a.ndim != 2 or tuple(map(tuple, batches)) != ((), ()) or tuple(left) != (1,):
        return NotImplemented
    HITS.append("dot_general")
    b = jnp.moveaxis(b, next(iter(right)), 0)
    scale = a.scale.reshape(-1, *[1] * (b.ndim - 1))
    return jnp.tensordot(a.values.astype(b.dtype), b * scale, 1)


@register("mul")
def scaled_by(a: Scaled, c: jax.Array, **_: Any) -> Any:
    if jnp.ndim(c):
        return NotImplemented
    HITS.append("mul")
    return Scaled(a.values, a.scale * c, a.name)


@register("mul")
def scaling(c: jax.Array, a: Scaled, **_: Any) -> Any:
    return scaled_by(a, c)


def made(*shape: int, seed: int = 0, dtype: Any = np.float32, name: str = "") -> Scaled:
    """One of small numbers, in a stack where the shape has more than two lengths."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-5, 6, shape).astype(np.int8)
    scale = rng.uniform(0.02, 0.1, (*shape[:-2], 1, shape[-1])).astype(dtype)
    return Scaled(jnp.asarray(values), jnp.asarray(scale), name)


def array(*shape: int, seed: int = 1, dtype: Any = np.float32) -> jax.Array:
    """A dense array."""
    return jnp.asarray(np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype))


def whole(tree: Any) -> Any:
    """The tree with dense arrays in the places of implicit ones."""
    return jax.tree.map(
        lambda x: x.materialize() if is_implicit(x) else x, tree, is_leaf=is_implicit
    )


def assert_like(found: Any, wanted: Any, rtol: float = 2e-5) -> None:
    """The trees are equal up to rounding, and in shapes, dtypes and weak types."""
    found, wanted = whole(found), whole(wanted)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-5)
        assert _type(a) == _type(b)


def _type(x: Any) -> tuple[Any, ...]:
    aval = jax.typeof(x)
    return aval.shape, aval.dtype, aval.weak_type


@contextmanager
def hits() -> Iterator[list[str]]:
    """The primitives taken within; loops' bodies are not remembered from before."""
    register("sin")(_nothing)
    unregister("sin", _nothing)
    HITS.clear()
    yield HITS


def _nothing(x: Scaled) -> Any:
    return NotImplemented


@contextmanager
def handled(target: Any, function: Any, precedence: int = 1) -> Iterator[None]:
    """The handler is registered within."""
    register(target, precedence)(function)
    try:
        yield
    finally:
        unregister(target, function)
