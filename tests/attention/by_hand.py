"""Attention written out over the whole score matrix in JAX, and block masks made without graphc."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graphc.attention.mask import BlockMask
from graphc.attention.mods import lift_mod
from tests.attention import reference

__all__ = ["blocked", "compilations", "dense", "normal"]


def normal(*shape: int, seed: int = 0, dtype: Any = "float64") -> Any:
    """A JAX array of normal numbers."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def blocked(
    mask: Callable[..., Any], shape: tuple[int, int, int, int], block: tuple[int, int] = (8, 8)
) -> BlockMask:
    """A block mask of (B, H, Q, K), each of whose values is looked at."""
    with jax.ensure_compile_time_eval():
        grid = np.broadcast_to(np.asarray(mask(*_indices(shape))), shape)
    stripped, leaves = lift_mod(mask, "mask_mod")
    return BlockMask(*reference.tables(grid, block), leaves, stripped, block, shape[2:])


def dense(
    q: Any,
    k: Any,
    v: Any,
    score: Callable[..., Any] | None = None,
    mask: Callable[..., Any] | None = None,
    scale: float | None = None,
) -> tuple[Any, Any]:
    """The result and the logarithms of sums, of functions that broadcast."""
    shared = q.shape[1] // k.shape[1]
    k, v = (jnp.repeat(x, shared, 1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = jnp.einsum("bhqe,bhke->bhqk", q, k) * scale
    indices = _indices(scores.shape)
    if score is not None:
        scores = score(scores, *indices)
    keep = scores > -jnp.inf
    if mask is not None:
        keep &= mask(*indices)
    seen = keep.any(-1, keepdims=True)
    scores = jnp.where(keep, scores, -jnp.inf)
    scores = jnp.where(seen, scores, 0)
    lse = jax.nn.logsumexp(scores, -1, keepdims=True)
    weights = jnp.where(keep, jnp.exp(scores - lse), 0)
    return weights @ v, jnp.where(seen, lse, -jnp.inf)[..., 0]


def _indices(shape: tuple[int, ...]) -> list[Any]:
    return [jnp.asarray(x, "int32") for x in np.ogrid[tuple(map(slice, shape))]]


@contextmanager
def compilations() -> Iterator[list[str]]:
    """What JAX traces and compiles meanwhile, as the names of its events."""
    found: list[str] = []

    def heard(name: str, _: float, **more: Any) -> None:
        if name.startswith("/jax/core/compile/"):
            found.append(name)

    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)
