"""Block masks made of mask functions: concrete, symbolic, or of JAX's arrays."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from numbers import Integral
from typing import Any

import numpy as np

from graphc.attention.blocks import (
    Decided,
    Evaluate,
    Tables,
    Tiling,
    asked,
    grid,
    indices,
    tables,
)
from graphc.attention.intervals.graphs import bounds
from graphc.attention.mask import BlockMask
from graphc.attention.mods import Mod, lifted, mask_of
from graphc.attention.undecided import decided_by_values
from graphc.capture import Lifted, Stripped
from graphc.errors import ArgumentError, BoundsError, GraphcError
from graphc.implicit.level import numpy_like
from graphc.ir import Graph, Leaf, Node, TensorType, dtype_name, here, where
from graphc.loop.evaluate import evaluate
from graphc.loop.step import opened
from graphc.tensor.runtime import Runtime
from graphc.tensor.vectorize import vectorize_graph

__all__ = ["create_block_mask"]

NAME = "create_block_mask"

SPAN = 4
"""The longest range of a captured array that is looked up as such, in blocks."""


def create_block_mask(
    mask_mod: Callable[..., Any],
    B: int | None,  # noqa: N803
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    BLOCK_SIZE: int | tuple[int, int] = 128,  # noqa: N803
) -> BlockMask:
    """Which blocks of queries and keys a mask function leaves empty, fills, and cuts.

    The function is looked at as a program: what it is over a whole block follows from intervals of
    its indices, and from the least and the most of what it reads of captured arrays. Where that
    decides nothing, it is asked for the values of the block. Memory is linear in the number of
    blocks, and the mask of all queries and keys is never made.

    Where the function captures a symbolic array, the tables are symbolic: they are computed in the
    program, so that new values make no other program. Blocks that intervals and the values in their
    corners leave open are then evaluated one after the other, in a loop of as many steps.

    Args:
        mask_mod: A function of four int32 scalars, the numbers of batch, head, query and key, that
            says whether the query sees the key; a bool scalar. It is written in ``graphc.tensor``,
            or in ``jax.numpy``, and captured arrays may be symbolic, NumPy's, MLX's or JAX's.
        B: How many sequences it tells apart; None for one mask for all.
        H: How many heads it tells apart; None for one mask for all.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        BLOCK_SIZE: How many queries and keys a block has: one number, or one for each.

    Returns:
        A block mask, whose tables are exact.

    Raises:
        ArgumentError: A length, count or size is no integer, or out of range; ``mask_mod`` is no
            function of four numbers, or captures symbolic arrays and such as JAX traces.
        DTypeError: It gives no bool.
        ShapeError: It gives no scalar.
        SymbolicValueError: It asks for the value of an index, as a Python ``if`` does.

    Example:
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.kv_num_blocks.tolist(), mask.full_kv_num_blocks.tolist()
        ([[[1, 1]]], [[[0, 1]]])
    """
    batch, heads = [1 if n is None else _count(name, n, 1) for name, n in (("B", B), ("H", H))]
    queries, keys = _count("Q_LEN", Q_LEN, 0), _count("KV_LEN", KV_LEN, 0)
    tiling = Tiling(batch, heads, queries, keys, _block(BLOCK_SIZE))
    function = lifted(mask_mod, "mask_mod")
    found = _tables(function, tiling)
    return BlockMask(
        **dict(zip(NAMES, found, strict=True)),
        leaves=tuple(function.leaves),
        stripped=function.stripped,
        block_size=tiling.block,
        seq_lengths=(queries, keys),
    )


NAMES = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")


# Arguments.


REMEDIES = {
    "B": "Give the number of sequences, or None for one mask for all.",
    "H": "Give the number of heads of the queries, or None for one mask for all.",
    "Q_LEN": "Give the number of queries, as query.shape[2].",
    "KV_LEN": "Give the number of keys, as key.shape[2].",
    "BLOCK_SIZE": "Give how many queries and keys a block has, as 128.",
}


def _count(name: str, n: Any, least: int) -> int:
    if isinstance(n, Node):
        raise ArgumentError(
            f"{NAME}: {name} is symbolic, {n!r}.",
            "Lengths decide how many blocks there are: give the length as an integer, and let the "
            "mask compare with the symbolic one, as q_idx < length.",
            where(here()),
        )
    whole = isinstance(n, Integral) and not isinstance(n, bool)
    if not whole or not least <= int(n) < 2**31:
        kind = "a positive integer" if least else "an integer from 0 on"
        raise ArgumentError(
            f"{NAME}: {name}={n!r}, and {kind} below 2**31 is wanted.",
            REMEDIES[name],
            where(here()),
        )
    return int(n)


def _block(size: Any) -> tuple[int, int]:
    sizes = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(sizes) != 2:
        raise ArgumentError(
            f"{NAME}: BLOCK_SIZE={size!r}: {len(sizes)} sizes.",
            "Give one for queries and keys, or one for each: (128, 64).",
            where(here()),
        )
    rows, columns = [_count("BLOCK_SIZE", n, 1) for n in sizes]
    return rows, columns


# Worlds.


def _tables(function: Lifted, tiling: Tiling) -> Tables:
    """Tables of whichever library the function and the captured arrays ask for."""
    stripped, leaves = function
    worlds = [numpy_like(x).name for x in leaves]
    if "graphc" in worlds:
        return _symbolic(function, tiling)
    if any(map(_is_traced, leaves)):
        return _of_jax(function, tiling)
    kinds = tuple([_Kind.of(x) for x in leaves])
    if ("JAX" in worlds or _is_for_jax(stripped)) and not _is_for_graphs(stripped, kinds):
        return _of_jax(function, tiling)
    return _concrete(function, kinds, tiling)


def _is_traced(x: Any) -> bool:
    """Whether it stands for an array while JAX traces."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.core.Tracer)


@lru_cache(maxsize=128)
def _is_for_jax(stripped: Stripped) -> bool:
    """Whether a function uses anything of JAX's."""
    names = [part.stable or "" for part in stripped.parts if part.kind == "fixed"]
    return any(re.match(r"jax\b", name) for name in names)


@lru_cache(maxsize=128)
def _is_for_graphs(stripped: Stripped, kinds: tuple[_Kind, ...]) -> bool:
    """Whether a function can be called with symbolic scalars."""
    try:
        _traced(stripped, kinds)
    except Exception as error:
        # JAX's functions do with symbolic scalars what they may; in JAX it has an error of its own.
        is_own = isinstance(error, GraphcError) and not isinstance(error.__cause__, TypeError)
        if is_own and not _is_for_jax(stripped):
            raise
        return False
    return True


def _of_jax(function: Lifted, tiling: Tiling) -> Tables:
    made = import_module("graphc.attention.jax.create")
    found: Tables = made.tables(function, *tiling)
    return found


# Concrete arrays.


def _concrete(function: Lifted, kinds: tuple[_Kind, ...], tiling: Tiling) -> Tables:
    traced = _traced(function.stripped, kinds)
    values = [np.asarray(x) for x in function.leaves if not isinstance(x, Runtime)]
    captured = [np.asarray(x) for x in evaluate(traced.captured, *values, *traced.numbers)]
    own = traced.tiling(tiling)
    if 0 in own.counts:
        return _empty(tiling)
    kept = bounds(traced.mod.graph, indices(*own), captured, SPAN * max(own.block))
    decided = grid(kept, own.counts)
    if np.any(decided.possible & ~decided.certain):
        decided = _asked(function, traced.evaluate(captured), own, decided)
    found = tables(*decided, own.keys, own.block[1])
    return _spread(found, tiling)


def _asked(function: Lifted, run: Evaluate, tiling: Tiling, decided: Decided) -> Decided:
    try:
        return asked(run, tiling, decided)
    except IndexError as error:
        names = zip(function.stripped.names, function.leaves, strict=True)
        arrays = [f"{name} of shape {x.shape}" for name, x in names if np.ndim(x)]
        raise BoundsError(
            f"{NAME}: mask_mod reads beyond the end of an array that it captures, "
            f"{' or '.join(arrays)}: {str(error).rstrip('.')}.",
            f"It is asked for queries below {tiling.queries} and keys below {tiling.keys}: capture "
            "arrays as long as these, or limit the index with gt.minimum.",
            where(here()),
        ) from error


def _empty(tiling: Tiling) -> Tables:
    """The tables of no queries, or of no keys."""
    nothing = np.zeros(tiling.counts, bool)
    return tables(nothing, nothing, tiling.keys, tiling.block[1])


def _spread(found: Sequence[Any], tiling: Tiling) -> Tables:
    """Tables of as many sequences and heads as were asked for."""
    level, shape = numpy_like(*found), tiling.counts[:2]
    if tuple(found[0].shape[:2]) == shape:
        return tuple(found)
    a, b, c, d = [level.broadcast_to(x, (*shape, *x.shape[2:])) for x in found]
    return a, b, c, d


@dataclass(frozen=True)
class _Kind:
    """What a trace depends on of a captured array, or of a marked number, which is one itself."""

    type: TensorType | str
    number: Runtime | None = field(default=None, compare=False)

    @classmethod
    def of(cls, x: Any) -> _Kind:
        if isinstance(x, Runtime):
            return cls(f"{type(x.number).__name__} {x.number!r}", x)
        x = np.asarray(x)
        return cls(TensorType(dtype_name(x.dtype), x.shape))

    def made(self) -> Any:
        """What stands for it while the function is traced."""
        return self.number if isinstance(self.type, str) else self.type()


@dataclass(frozen=True)
class _Traced:
    """A mask function, traced for captured arrays of some types.

    Attributes:
        mod: It, as a graph.
        captured: What the graph captures, as a graph of the arrays and the numbers.
        numbers: Marked numbers, as arrays.
    """

    mod: Mod
    captured: Graph
    numbers: tuple[Any, ...]

    @cached_property
    def batched(self) -> Graph:
        """The function of the batches that ``Evaluate`` takes."""
        fresh, (y,) = opened(self.mod.graph)
        shapes = (None, 1, 1), (None, 1, 1), (None, None, 1), (None, 1, None)
        places = [TensorType("int32", shape)() for shape in shapes]
        whole = vectorize_graph(y, dict(zip(fresh[:4], places, strict=True)))
        return Graph([*places, *fresh[4:]], [whole])

    def tiling(self, tiling: Tiling) -> Tiling:
        """The tiling without the sequences and heads that the function does not ask for."""
        return _asked_for(self.mod.graph, tiling)

    def evaluate(self, captured: Sequence[Any]) -> Evaluate:
        """The function of whole batches of elements."""
        graph = self.batched

        def run(*places: Any) -> Any:
            with np.errstate(all="ignore"):
                return evaluate(graph, *places, *captured)[0]

        return run


@lru_cache(maxsize=128)
def _traced(stripped: Stripped, kinds: tuple[_Kind, ...]) -> _Traced:
    leaves = [kind.made() for kind in kinds]
    mod = mask_of(Lifted(stripped, tuple(leaves)))
    arrays = [x for x in leaves if isinstance(x, Node)]
    numbers = Graph(arrays, mod.captured).leaves
    values = tuple([x.op.array for x in numbers if isinstance(x.op, Leaf)])
    return _Traced(mod, Graph([*arrays, *numbers], mod.captured), values)


def _asked_for(graph: Graph, tiling: Tiling) -> Tiling:
    used = {x for node in graph.nodes for x in node.inputs} | set(graph.outputs)
    b, h = [x in used for x in graph.inputs[:2]]
    return tiling._replace(batch=tiling.batch if b else 1, heads=tiling.heads if h else 1)


# Symbolic arrays.


def _symbolic(function: Lifted, tiling: Tiling) -> Tables:
    mod = mask_of(function)
    own = _asked_for(mod.graph, tiling)
    if 0 in own.counts:
        return _empty(tiling)
    kept = bounds(mod.graph, indices(*own), mod.captured, SPAN * max(own.block))
    decided = decided_by_values(mod, own, grid(kept, own.counts))
    return _spread(tables(*decided, own.keys, own.block[1]), tiling)
