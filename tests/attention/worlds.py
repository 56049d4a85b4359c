"""Attention in each place where it runs: graphs of every backend, and JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.attention as ga
import graphc.tensor as gt
from graphc.link import as_numpy, names
from tests.attention.examples import Example, Functions
from tests.modes import uncompiled

__all__ = [
    "ARRAYS",
    "GRAPHS",
    "KERNELS",
    "TABLES",
    "WORLDS",
    "Given",
    "Library",
    "answers",
    "in_worlds",
    "mode_of",
    "static",
]

GRAPHS = tuple(names())
"""The backends that run graphs."""

ARRAYS = ("eager", "jit")
"""Attention of JAX arrays, an operation at a time, and traced and compiled."""

KERNELS = "kernels"
"""Graphs for JAX whose attention is computed by the kernels for GPUs, in Pallas' interpreter."""

WORLDS = (*GRAPHS, *ARRAYS, KERNELS)

TABLES = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")


def in_worlds(names: Iterable[str]) -> list[tuple[str, str]]:
    """Each name in each world; a third of them in the one where JAX compiles every operation."""
    every = [*names]
    return [(x, world) for world in WORLDS for x in every[:: 3 if world == "eager" else 1]]


class Library(NamedTuple):
    """What mask and score functions take from the library that they are written in."""

    where: Callable[..., Any]
    tanh: Callable[..., Any]
    and_masks: Callable[..., Any] = ga.and_masks
    or_masks: Callable[..., Any] = ga.or_masks


SYMBOLIC, JAX = Library(gt.where, gt.tanh), Library(jnp.where, jnp.tanh)


class Given(NamedTuple):
    """Queries, keys and values, and the cotangents of both results."""

    q: Any
    k: Any
    v: Any
    g_out: Any
    g_lse: Any = 0.0

    def astype(self, dtype: Any) -> Given:
        """The same numbers, the logarithms' cotangent in the dtype that scores have."""
        wide = "float64" if dtype == "float64" else "float32"
        return Given(*(x.astype(dtype) for x in self[:4]), np.asarray(self.g_lse, wide))


def answers(
    world: str, example: Example, given: Given, known: bool = False
) -> dict[str, np.ndarray[Any, Any]]:
    """Results and gradients by name: out, lse, q, k, v, the captured arrays', and tables of blocks.

    Args:
        world: One of ``WORLDS``.
        example: What is done.
        given: The numbers.
        known: Whether the mask function captures arrays of numbers, rather than inputs of the
            program.
    """
    found = (_by_arrays if world in ARRAYS else _by_graph)(world, example, given, known)
    return {name: as_numpy(x) for name, x in found.items()}


def static(x: Any, shape: Any = None) -> Any:
    """A symbolic array of an array's dtype and, if nothing else is said, shape."""
    x = np.asarray(x)
    return gt.tensor(dtype=x.dtype.name, shape=x.shape if shape is None else shape)


def mode_of(world: str) -> graphc.Mode:
    """The mode in which a world's graphs run."""
    if world == KERNELS:
        return graphc.Mode("JAX", attention="interpret")
    return uncompiled(world)


def _by_graph(mode: str, example: Example, given: Given, known: bool) -> dict[str, Any]:
    inputs = given._replace(g_lse=np.broadcast_to(given.g_lse, given.q.shape[:3]))
    operands = Given(*map(static, inputs))
    captured = {name: static(x) for name, x in example.captured.items()}
    functions = example.functions(SYMBOLIC, **captured)
    if known:
        functions = functions._replace(mask=example.functions(SYMBOLIC, **example.captured).mask)
    block_mask = _mask(example, functions)
    out, lse = _attention(example, operands, functions, block_mask)
    wrt = [*operands[:3], *(captured[name] for name in example.floating)]
    cotangents = {out: operands.g_out, lse: operands.g_lse}
    gradients = graphc.grad(None, wrt, known_grads=cotangents)
    found = {"out": out, "lse": lse, **dict(zip(["q", "k", "v"], gradients[:3], strict=True))}
    found |= dict(zip(example.floating, gradients[3:], strict=True))
    if block_mask is not None and not known:
        found |= {name: getattr(block_mask, name) for name in TABLES}
    run = graphc.function(
        [*operands, *captured.values()],
        list(found.values()),
        mode=mode_of(mode),
        on_unused_input="ignore",
    )
    return dict(zip(found, run(*inputs, *example.captured.values()), strict=True))


def _by_arrays(world: str, example: Example, given: Given, known: bool) -> dict[str, Any]:
    wide = given.q.dtype == np.float64
    with jax.enable_x64(True) if wide else nullcontext():
        arrays = Given(*map(jnp.asarray, given))
        captured = {name: jnp.asarray(x) for name, x in example.captured.items()}

        def run(arrays: Given, captured: dict[str, Any]) -> dict[str, Any]:
            return _differentiated(example, arrays, captured, known)

        return (jax.jit(run) if world == "jit" else run)(arrays, captured)


def _differentiated(
    example: Example, arrays: Given, captured: dict[str, Any], known: bool
) -> dict[str, Any]:
    mask = example.functions(JAX, **(example.captured if known else captured)).mask
    block_mask = _mask(example, Functions(mask))

    def attention(q: Any, k: Any, v: Any, leaves: dict[str, Any]) -> Any:
        functions = example.functions(JAX, **{**captured, **leaves})
        return _attention(example, Given(q, k, v, None), functions, block_mask)

    leaves = {name: captured[name] for name in example.floating}
    (out, lse), pullback = jax.vjp(attention, *arrays[:3], leaves)
    cotangent = jnp.broadcast_to(jnp.asarray(arrays.g_lse, lse.dtype), lse.shape)
    *gradients, by_leaves = pullback((arrays.g_out, cotangent))
    found = {"out": out, "lse": lse, **dict(zip("qkv", gradients, strict=True)), **by_leaves}
    if block_mask is not None and not known:
        found |= {name: getattr(block_mask, name) for name in TABLES}
    return found


def _mask(example: Example, functions: Functions) -> Any:
    if functions.mask is None:
        return None
    return ga.create_block_mask(
        functions.mask,
        example.mask_batch,
        example.mask_heads,
        *example.lengths,
        BLOCK_SIZE=example.block,
    )


def _attention(example: Example, given: Given, functions: Functions, block_mask: Any) -> Any:
    return ga.flex_attention(
        *given[:3],
        score_mod=functions.score,
        block_mask=block_mask,
        scale=example.scale,
        enable_gqa=example.heads[0] != example.heads[1],
        return_lse=True,
    )
