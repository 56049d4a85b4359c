"""``create_block_mask``: block masks of mask functions, concrete, symbolic or of JAX arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from numbers import Integral
from typing import Any

import numpy as np

from graphc.attention.blocks import (
    BlockBounds,
    Evaluate,
    Tables,
    Tiling,
    block_indices,
    block_tables,
    bounds_of_blocks,
    evaluate_blocks,
    shared_tables,
)
from graphc.attention.checks import check_captured_dtypes
from graphc.attention.intervals.graphs import bounds
from graphc.attention.jax_arrays import jax_arrays
from graphc.attention.mask import BlockMask
from graphc.attention.mods import Mod, call_symbolic, lift_mod, mask_of, uses
from graphc.attention.trees import TABLES
from graphc.attention.undecided import symbolic_tables
from graphc.capture import Lifted, Stripped
from graphc.errors import ArgumentError, BoundsError, GraphcError
from graphc.implicit.namespace import numpy_like
from graphc.ir import Graph, Leaf, Node, TensorType, dtype_name
from graphc.ir.dtypes import is_jax_key
from graphc.loop.evaluate import evaluate
from graphc.loop.step import with_new_inputs
from graphc.tensor.arrays.index import Index
from graphc.tensor.arrays.vectorize import vectorize_graph
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.runtime import Runtime

NAME = "create_block_mask"


def create_block_mask(
    mask_mod: Callable[..., Any],
    B: int | None,  # noqa: N803
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    BLOCK_SIZE: int | tuple[int, int] = 128,  # noqa: N803
) -> BlockMask:
    """Return the block mask of a mask function, which lists its partial and full blocks.

    The function is analysed as a program: its value over a block follows from intervals of its
    indices, and from the range of the elements that it reads from captured arrays. Where intervals
    decide nothing, the function is evaluated on the block. Memory is linear in the number of
    blocks, and the dense mask is never allocated.

    If the function captures a symbolic array, the tables are symbolic: the program computes them,
    so that new values need no other program. Blocks that intervals and the values at their
    corners leave undecided are then evaluated one after the other, in a loop.

    Args:
        mask_mod: A function of four int32 scalars, the indices of batch, head, query and key, to a
            bool scalar: whether the query sees the key. The function is written in
            ``graphc.tensor`` or ``jax.numpy``; captured arrays may be symbolic, NumPy's, MLX's or
            JAX's.
        B: The number of sequences; None for one mask for all.
        H: The number of heads; None for one mask for all.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        BLOCK_SIZE: The numbers of queries and keys of a block: one number, or one for each.

    Returns:
        A block mask, whose tables are exact.

    Raises:
        ArgumentError: If a length, count or size is not an integer, or is out of range; if
            ``mask_mod`` is not a function of four numbers, or captures both symbolic arrays and
            JAX tracers.
        DTypeError: If ``mask_mod`` returns no bool.
        ShapeError: If ``mask_mod`` returns no scalar.
        SymbolicValueError: If ``mask_mod`` needs the value of an index, as a Python ``if`` does.

    Example:
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.kv_num_blocks.tolist(), mask.full_kv_num_blocks.tolist()
        ([[[1, 1]]], [[[0, 1]]])
    """
    batch, heads = [1 if n is None else _count(name, n, 1) for name, n in (("B", B), ("H", H))]
    queries, keys = _count("Q_LEN", Q_LEN, 0), _count("KV_LEN", KV_LEN, 0)
    tiling = Tiling(batch, heads, queries, keys, _block(BLOCK_SIZE))
    function = lift_mod(mask_mod, "mask_mod")
    return BlockMask(
        **dict(zip(TABLES, _compute_tables(function, tiling), strict=True)),
        leaves=tuple(function.leaves),
        stripped=function.stripped,
        block_size=tiling.block,
        seq_lengths=(queries, keys),
    )


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
            "Lengths decide how many blocks there are: give an integer, and let the mask compare "
            "with the symbolic length, as q_idx < length.",
        )
    is_integer = isinstance(n, Integral) and not isinstance(n, bool)
    if not is_integer or not least <= int(n) < 2**31:
        kind = "a positive integer" if least else "a non-negative integer"
        raise ArgumentError(f"{NAME}: {name}={n!r}; expected {kind} below 2**31.", REMEDIES[name])
    return int(n)


def _block(size: Any) -> tuple[int, int]:
    sizes = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(sizes) != 2:
        raise ArgumentError(
            f"{NAME}: BLOCK_SIZE={size!r}: {len(sizes)} sizes.",
            "Give one for queries and keys, or one for each: (128, 64).",
        )
    rows, columns = [_count("BLOCK_SIZE", n, 1) for n in sizes]
    return rows, columns


# Libraries.


def _compute_tables(function: Lifted, tiling: Tiling) -> Tables:
    """Return the tables: symbolic if a captured array is, and computed by JAX if it is traced."""
    if "graphc" in [numpy_like(x).name for x in function.leaves]:
        return symbolic_tables(mask_of(function), tiling)
    if any(map(_is_tracer, function.leaves)):
        counts, indices, full_counts, full_indices = jax_arrays().traced_tables(function, tiling)
        return counts, indices, full_counts, full_indices
    return _concrete_tables(function, *_traced_mask(function), tiling)


def _is_tracer(x: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.core.Tracer)


def _traced_mask(function: Lifted) -> tuple[_TracedMask, list[Any]]:
    """Return a function traced as one for graphs, or else for JAX, and the arrays it captures."""
    stripped, leaves = function
    check_captured_dtypes("mask_mod", stripped.names, leaves)
    if any(is_jax_key(getattr(x, "dtype", "")) for x in leaves):
        return _traced_jax_mask(function)  # a random key of JAX is no array of NumPy
    kinds = tuple([_CapturedType.of(x) for x in leaves])
    if "jax" not in sys.modules or _is_for_graphs(stripped, kinds):
        values = [np.asarray(x) for x in leaves if not isinstance(x, Runtime)]
        return _trace_mask(stripped, kinds), values
    try:
        return _traced_jax_mask(function)
    except GraphcError:
        _raise_symbolic_error(stripped, kinds)
        raise


def _traced_jax_mask(function: Lifted) -> tuple[_TracedMask, list[Any]]:
    types, values = jax_arrays().captured_values("mask_mod", function)
    return _trace_in_jax(function.stripped, types), values


@lru_cache(maxsize=128)
def _is_for_graphs(stripped: Stripped, kinds: tuple[_CapturedType, ...]) -> bool:
    """Return whether the function accepts symbolic scalars, as no JAX function does."""
    try:
        _trace_mask(stripped, kinds)
    except Exception:
        return False
    return True


def _raise_symbolic_error(stripped: Stripped, kinds: tuple[_CapturedType, ...]) -> None:
    """Raise the error of a function for symbolic scalars, unless the function takes none at all."""
    try:
        _trace_mask(stripped, kinds)
    except GraphcError as error:
        if error.__cause__ is None:
            raise
    except Exception:
        return


# Concrete arrays.


def _concrete_tables(
    function: Lifted, traced: _TracedMask, values: Sequence[Any], tiling: Tiling
) -> Tables:
    captured = [np.asarray(x) for x in evaluate(traced.captured, *values, *traced.numbers)]

    def compute(reduced: Tiling) -> Tables:
        interval = bounds(traced.mod.graph, block_indices(*reduced), captured, reduced.span)
        blocks = bounds_of_blocks(interval, reduced.counts)
        if np.any(blocks.possible & ~blocks.certain):
            blocks = _evaluate_undecided(function, traced.evaluate(captured), reduced, blocks)
        return block_tables(*blocks, reduced.keys, reduced.block[1])

    return shared_tables(uses(traced.mod.graph), tiling, compute)


def _evaluate_undecided(
    function: Lifted, run: Evaluate, tiling: Tiling, blocks: BlockBounds
) -> BlockBounds:
    try:
        return evaluate_blocks(run, tiling, blocks)
    except IndexError as error:
        names = zip(function.stripped.names, function.leaves, strict=True)
        arrays = [f"{name} of shape {x.shape}" for name, x in names if np.ndim(x)]
        raise BoundsError(
            f"{NAME}: mask_mod reads beyond the end of an array that it captures, "
            f"{' or '.join(arrays)}: {str(error).rstrip('.')}.",
            f"The function is called for queries below {tiling.queries} and keys below "
            f"{tiling.keys}: capture arrays as long as these, or limit the index with gt.minimum.",
        ) from error


@dataclass(frozen=True)
class _CapturedType:
    """The type of a captured array, or a marked number, on which a trace depends."""

    type: TensorType | str
    number: Runtime | None = field(default=None, compare=False)

    @classmethod
    def of(cls, x: Any) -> _CapturedType:
        if isinstance(x, Runtime):
            return cls(f"{type(x.number).__name__} {x.number!r}", x)
        x = np.asarray(x)
        return cls(TensorType(dtype_name(x.dtype), x.shape))

    def placeholder(self) -> Any:
        """Return a variable of the type, or the number, to trace the function with."""
        return self.number if isinstance(self.type, str) else self.type()


@dataclass(frozen=True)
class _TracedMask:
    """A mask function, traced for captured arrays of some types.

    Attributes:
        mod: The function as a graph.
        captured: The arrays that the graph captures, as a graph of the arrays and the numbers.
        numbers: Marked numbers, as arrays.
    """

    mod: Mod
    captured: Graph
    numbers: tuple[Any, ...]

    @classmethod
    def of(cls, mod: Mod, arrays: Sequence[Any]) -> _TracedMask:
        """Return the mask of a function, and of the symbolic arrays that it was traced with."""
        numbers = Graph(arrays, mod.captured).leaves
        values = tuple([x.op.array for x in numbers if isinstance(x.op, Leaf)])
        return cls(mod, Graph([*arrays, *numbers], mod.captured), values)

    @cached_property
    def batched(self) -> Graph:
        """The function of batches of indices, of the shapes that ``Evaluate`` takes."""
        if all(map(_is_pointwise, self.mod.graph.nodes)):
            return self.mod.graph
        fresh, (y,) = with_new_inputs(self.mod.graph)
        shapes = (None, 1, 1), (None, 1, 1), (None, None, 1), (None, 1, None)
        batched_indices = [TensorType("int32", shape)() for shape in shapes]
        y = vectorize_graph(y, dict(zip(fresh[:4], batched_indices, strict=True)))
        return Graph([*batched_indices, *fresh[4:]], [y])

    def evaluate(self, captured: Sequence[Any]) -> Evaluate:
        """Return the function of batches of indices, for these captured arrays."""
        graph = self.batched

        def run(*indices: Any) -> Any:
            with np.errstate(all="ignore"):
                return evaluate(graph, *indices, *captured)[0]

        return run


def _is_pointwise(node: Node) -> bool:
    """Return whether NumPy computes a node of scalars for arrays of scalars, which broadcast."""
    if isinstance(node.op, Index) and node.inputs[0].inputs:
        return False
    is_known = isinstance(node.op, Elementwise | Cast | Where | Index)
    return not node.inputs or (is_known and not node.type.ndim)


@lru_cache(maxsize=128)
def _trace_mask(stripped: Stripped, kinds: tuple[_CapturedType, ...]) -> _TracedMask:
    leaves = [kind.placeholder() for kind in kinds]
    mod = mask_of(Lifted(stripped, tuple(leaves)), call_symbolic)
    return _TracedMask.of(mod, [x for x in leaves if isinstance(x, Node)])


@lru_cache(maxsize=128)
def _trace_in_jax(stripped: Stripped, types: Any) -> _TracedMask:
    leaves = jax_arrays().placeholders(types[0])
    mod = mask_of(Lifted(stripped, tuple(leaves)), jax_arrays().call_mod)
    return _TracedMask.of(mod, [x.array for x in leaves])
