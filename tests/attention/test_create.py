"""Tables of mask functions are those of the mask made whole, whatever the function and library."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.attention import BlockMask, create, create_block_mask
from graphc.errors import (
    ArgumentError,
    BoundsError,
    DTypeError,
    GraphcError,
    ShapeError,
    SymbolicValueError,
)
from graphc.link import as_numpy
from tests.attention import expressions, reference
from tests.modes import uncompiled
from tests.work import python_calls

LENGTHS = st.tuples(st.integers(1, 40), st.integers(1, 40))
SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12))


def dense(mask: Callable[..., Any], *shape: int) -> Any:
    """The mask at every element, by NumPy."""
    with np.errstate(all="ignore"):
        return np.broadcast_to(mask(*np.indices(shape, "int32")), shape)


def check(found: BlockMask, every: Any) -> None:
    """The tables are exactly those of the mask."""
    reference.check_tables([as_numpy(x) for x in found.tables], every, found.block_size)


# Concrete arrays.


@given(expressions.masks, st.integers(0, 5), LENGTHS, SIZES)
@settings(max_examples=200)
def test_any_function_has_the_tables_of_its_mask(
    tree: expressions.Tree, seed: int, lengths: tuple[int, int], block: tuple[int, int]
) -> None:
    captured = expressions.arrays(seed)
    found = create_block_mask(
        lambda *at: expressions.value(tree, gt, captured, *at), 2, 3, *lengths, block
    )
    every = dense(lambda *at: expressions.value(tree, np, captured, *at), 2, 3, *lengths)
    check(found, every)


IDS = np.sort(np.random.default_rng(0).integers(0, 9, 300)).astype("int32")
MIXED = np.random.default_rng(1).integers(0, 3, 300)
ENDS = np.array([70, 300], "int32")

MASKS: dict[str, Callable[..., Any]] = {
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: (q >= k) & (q - k < 50),
    "documents": lambda b, h, q, k: IDS[q] == IDS[k],
    "documents that are causal": lambda b, h, q, k: (IDS[q] == IDS[k]) & (q >= k),
    "documents in pieces": lambda b, h, q, k: MIXED[q] == MIXED[k],
    "prefixes": lambda b, h, q, k: (k < ENDS[b]) | (q >= k),
    "heads": lambda b, h, q, k: (q - k) * (h + 1) < 90,
    "scattered": lambda b, h, q, k: (q * 7919 + k * 104729) % 13 < 3,
    "all": lambda b, h, q, k: q >= 0,
    "none": lambda b, h, q, k: q < 0,
    "not": lambda b, h, q, k: ~((q >= k) | (k > 250)),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("lengths", "block"), [((300, 300), 64), ((257, 300), (32, 100))])
def test_masks_have_their_tables(name: str, lengths: tuple[int, int], block: Any) -> None:
    check(create_block_mask(MASKS[name], 2, 3, *lengths, block), dense(MASKS[name], 2, 3, *lengths))


def test_one_mask_for_all_has_one_table() -> None:
    found = create_block_mask(MASKS["causal"], None, None, 300, 300)
    assert found.kv_num_blocks.shape == (1, 1, 3)
    assert found.kv_indices.shape == (1, 1, 3, 3)
    assert found.block_size == (128, 128)
    assert found.seq_lengths == (300, 300)


def test_there_are_as_many_tables_as_asked_for() -> None:
    found = create_block_mask(MASKS["causal"], 2, 3, 300, 300)
    assert found.kv_num_blocks.shape == (2, 3, 3)
    assert found.full_kv_indices.shape == (2, 3, 3, 3)


@pytest.mark.parametrize("lengths", [(0, 5), (5, 0), (0, 0)])
def test_no_queries_and_no_keys_have_empty_tables(lengths: tuple[int, int]) -> None:
    for mask in (MASKS["documents"], _symbolic_documents()[1]):
        found = create_block_mask(mask, 2, None, *lengths, BLOCK_SIZE=4)
        rows, columns = (-(-n // 4) for n in lengths)
        for counts, places in (found.tables[:2], found.tables[2:]):
            assert counts.shape == (2, 1, rows)
            assert places.shape == (2, 1, rows, columns)
            assert not counts.any()


def test_a_mask_keeps_its_function_and_the_arrays_it_captures() -> None:
    found = create_block_mask(MASKS["documents"], None, None, 300, 300)
    assert found.stripped.names == ("IDS",)
    (ids,) = found.leaves
    np.testing.assert_array_equal(ids, IDS)


def test_captured_arrays_may_be_of_any_library() -> None:
    every = dense(MASKS["documents"], 1, 1, 300, 300)
    for ids in (IDS, IDS.astype("int64"), mx.array(IDS), jnp.asarray(IDS), list(map(int, IDS))):
        taken = gt.as_tensor(ids) if isinstance(ids, list) else ids
        check_any(lambda b, h, q, k, ids=taken: ids[q] == ids[k], every)


def check_any(mask: Callable[..., Any], every: Any) -> None:
    found = create_block_mask(mask, None, None, *every.shape[2:])
    tables = found.tables
    if any(isinstance(x, gt.Tensor) for x in tables):
        tables = graphc.function([], list(tables), mode="NUMPY")()
    reference.check_tables([as_numpy(x) for x in tables], every, found.block_size)


def test_functions_may_be_written_for_jax() -> None:
    every = dense(MASKS["documents that are causal"], 1, 1, 300, 300)

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        return jnp.logical_and(jnp.take(IDS, q) == jnp.take(IDS, k), q >= k)

    check_any(mask, every)


def test_functions_of_graphs_may_capture_arrays_of_jax() -> None:
    ids = jnp.asarray(IDS)
    every = dense(MASKS["documents that are causal"], 1, 1, 300, 300)
    check_any(lambda b, h, q, k: gt.where(q >= k, ids[q] == ids[k], q < 0), every)


def test_branches_and_reductions_decide_blocks() -> None:
    rows = np.arange(3 * 48).reshape(3, 48) // 7
    _, h, q, k = np.ogrid[:1, :2, :48, :40]

    def branch(b: Any, h: Any, q: Any, k: Any) -> Any:
        return graphc.ifelse(gt.eq(h, 0), q >= k, q - k > 20)

    def some(b: Any, h: Any, q: Any, k: Any) -> Any:
        return gt.any(gt.as_tensor(rows)[:, q] * 3 > k) & (h == 0)

    dense = {
        branch: np.where(h == 0, q >= k, q - k > 20),
        some: np.any(rows[:, q] * 3 > k, 0) & (h == 0),
    }
    for mask, wanted in dense.items():
        found = create_block_mask(mask, 1, 2, 48, 40, BLOCK_SIZE=(6, 5))
        np.testing.assert_array_equal(found.to_dense(), wanted)


def test_what_wraps_a_function_of_jax_is_a_function_of_graphs() -> None:
    wrapped = graphc.wrap_jax(lambda q, k: jnp.logical_and(q >= k, q < k + 40))
    every = dense(lambda b, h, q, k: (q >= k) & (q < k + 40), 1, 1, 300, 300)
    check_any(lambda b, h, q, k: wrapped(q, k), every)


def test_tables_may_be_made_within_what_jax_traces() -> None:
    every = dense(MASKS["documents"], 1, 1, 300, 300)

    @jax.jit
    def make(ids: Any) -> Any:
        return create_block_mask(lambda b, h, q, k: ids[q] == ids[k], None, None, 300, 300).tables

    reference.check_tables([np.asarray(x) for x in make(IDS)], every, (128, 128))


def test_a_runtime_number_may_change() -> None:
    for width in (3, 90):
        number = graphc.runtime(width)
        found = create_block_mask(lambda b, h, q, k, w=number: abs(q - k) < w, None, None, 300, 300)
        check(found, dense(lambda b, h, q, k, w=width: abs(q - k) < w, 1, 1, 300, 300))


def test_new_arrays_and_new_lengths_are_no_new_trace() -> None:
    create._trace_mask.cache_clear()
    for seed in range(3):
        ids = np.random.default_rng(seed).integers(0, 4, 300)
        for n in (300, 200):
            create_block_mask(
                lambda b, h, q, k, ids=ids: ids[q] == ids[k], None, None, n, n, BLOCK_SIZE=50
            )
    assert create._trace_mask.cache_info().misses == 1


SPEEDS: dict[str, Callable[..., Any]] = {
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: (q >= k) & (q - k < 256),
    "documents": lambda b, h, q, k: PACKED[q] == PACKED[k],
    "prefix": lambda b, h, q, k: (q >= k) | (k < 700),
    "all of these": lambda b, h, q, k: (
        (PACKED[q] == PACKED[k]) & (q >= k) & ((q - k < 256) | (k % 512 < 99))
    ),
}
PACKED = np.repeat(np.arange(64, dtype="int32"), 512)


@pytest.mark.parametrize("name", SPEEDS)
def test_longer_masks_are_made_by_as_many_calls(name: str) -> None:
    def calls(n: int) -> int:
        create_block_mask(SPEEDS[name], None, None, n, n)
        create._trace_mask.cache_clear()
        return python_calls(lambda: create_block_mask(SPEEDS[name], None, None, n, n))

    assert calls(4096) < 1.2 * calls(1024) < 10_000


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", SPEEDS)
def test_memory_does_not_grow_with_the_square_of_the_length(name: str) -> None:
    found, peak = _peak(SPEEDS[name])
    assert peak < 16 * 2**20  # a bool for each of the elements takes 1024
    sample = slice(5 * 128, 6 * 128), slice(None)
    every = dense(SPEEDS[name], 1, 1, 6 * 128, 32768)[:, :, sample[0]]
    reference.check_tables([x[:, :, 5:6] for x in found.tables], every, (128, 128))


@pytest.mark.exhaustive
def test_functions_that_intervals_do_not_decide_need_little_memory_too() -> None:
    # Next to nothing is seen, so that every element of every block has to be asked for.
    found, peak = _peak(lambda b, h, q, k: (q * 12289 + k * 4099) % 40009 == 7)
    assert peak < 64 * 2**20
    assert not found.full_kv_num_blocks.any()


def _peak(mask: Callable[..., Any]) -> tuple[BlockMask, int]:
    """A mask of 32768 queries and keys, and the memory that making it took."""
    tracemalloc.start()
    try:
        found = create_block_mask(mask, None, None, 32768, 32768)
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Symbolic arrays.


def _symbolic_documents() -> tuple[Any, Callable[..., Any]]:
    ids = gt.ivector("ids")
    return ids, lambda b, h, q, k: ids[q] == ids[k]


KINDS = ("sorted", "mixed", "aligned", "one")


def _ids(kind: str, n: int, seed: int) -> Any:
    random = np.random.default_rng(seed)
    drawn = {
        "sorted": np.sort(random.integers(0, 6, n)),
        "mixed": random.integers(0, 3, n),
        "aligned": np.arange(n) // 64,
        "one": np.zeros(n),
    }
    return drawn[kind].astype("int32")


def test_new_documents_are_the_same_program(mode: str) -> None:
    ids, documents = _symbolic_documents()
    n, block = 270, (64, 32)
    masks = [
        documents,
        lambda b, h, q, k: (ids[q] == ids[k]) & (q >= k) & (q - k < 100 * (h + 1)),
    ]
    found = [create_block_mask(mask, None, 2, n, n, block) for mask in masks]
    f = graphc.function(
        [ids], [x for mask in found for x in mask.tables], mode=uncompiled(mode, recompile="warn")
    )
    for seed in range(2):
        for kind in KINDS:
            values = _ids(kind, n, seed)
            q, k = np.indices((n, n))
            same = (values[q] == values[k])[None, None]
            heads = np.arange(1, 3)[:, None, None]
            near = same & (q >= k) & (q - k < 100 * heads)
            made = [as_numpy(x) for x in f(values)]
            reference.check_tables(made[:4], np.repeat(same, 2, 1), block)
            reference.check_tables(made[4:], near, block)
    assert f.stats.compiles <= 1
    assert f.stats.causes == []


def test_numbers_that_are_nan_decide_nothing(mode: str) -> None:
    x = gt.vector("x", dtype="float32")
    mask = create_block_mask(
        lambda b, h, q, k: (x[q] - x[k] < 3) | ~(x[k] * 2 <= 40), None, None, 60, 60, 8
    )
    f = graphc.function([x], [*mask.tables], mode=uncompiled(mode))
    values = np.arange(60, dtype="float32")
    values[[3, 31, 32, 59]] = np.nan, np.inf, -np.inf, np.nan
    q, k = np.indices((60, 60))
    with np.errstate(all="ignore"):
        every = (values[q] - values[k] < 3) | ~(values[k] * 2 <= 40)
    reference.check_tables([as_numpy(y) for y in f(values)], every[None, None], (8, 8))


@given(expressions.masks, st.integers(0, 5), SIZES)
@settings(max_examples=25)
def test_any_symbolic_function_has_the_tables_of_its_mask(
    tree: expressions.Tree, seed: int, block: tuple[int, int]
) -> None:
    captured = expressions.arrays(seed)
    inputs = {
        name: gt.tensor(name, shape=x.shape, dtype=x.dtype.name) for name, x in captured.items()
    }
    found = create_block_mask(
        lambda *at: expressions.value(tree, gt, inputs, *at), 2, 3, 40, 37, block
    )
    f = graphc.function([*inputs.values()], [*found.tables], mode="NUMPY", on_unused_input="ignore")
    every = dense(lambda *at: expressions.value(tree, np, captured, *at), 2, 3, 40, 37)
    reference.check_tables(f(*captured.values()), every, block)


def test_symbolic_tables_have_known_lengths() -> None:
    _, documents = _symbolic_documents()
    found = create_block_mask(documents, 2, None, 300, 500)
    assert [x.type.shape for x in found.tables] == [(2, 1, 3), (2, 1, 3, 4)] * 2


def test_symbolic_and_concrete_arrays_may_be_captured_together() -> None:
    ids, _ = _symbolic_documents()
    found = create_block_mask(
        lambda b, h, q, k: (ids[q] == ids[k]) & (k < ENDS[b]), 2, None, 300, 300, 50
    )
    f = graphc.function([ids], [*found.tables], mode="NUMPY")
    every = dense(lambda b, h, q, k: (IDS[q] == IDS[k]) & (k < ENDS[b]), 2, 1, 300, 300)
    reference.check_tables(f(IDS), every, (50, 50))


# Bad input.


def made(mask: Any = MASKS["causal"], *sizes: Any, **options: Any) -> BlockMask:
    return create_block_mask(mask, *(sizes or (None, None, 64, 64)), **options)


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ((0, None, 64, 64), "B=0"),
        ((None, 1.5, 64, 64), "H=1.5"),
        ((None, True, 64, 64), "H=True"),
        ((None, None, -1, 64), "Q_LEN=-1"),
        ((None, None, 64, "64"), "KV_LEN='64'"),
        ((None, None, 64, None), "KV_LEN=None"),
        ((None, None, 2**31, 64), "Q_LEN=2147483648"),
    ],
)
def test_counts_and_lengths_are_integers_in_range(sizes: tuple[Any, ...], name: str) -> None:
    with pytest.raises(ArgumentError, match=name) as caught:
        made(MASKS["causal"], *sizes)
    assert "Give the number of" in str(caught.value)


def test_lengths_are_not_symbolic() -> None:
    with pytest.raises(ArgumentError, match=r"Q_LEN is symbolic.*\n.*q_idx < length"):
        made(MASKS["causal"], None, None, gt.iscalar("n"), 64)


@pytest.mark.parametrize("size", [0, -1, 2.5, (128,), (1, 2, 3), (128, 0), None, "128"])
def test_sizes_of_blocks_are_positive_integers(size: Any) -> None:
    with pytest.raises(ArgumentError, match="BLOCK_SIZE"):
        made(BLOCK_SIZE=size)


def test_a_mask_is_a_function_of_four_indices() -> None:
    with pytest.raises(ArgumentError, match="is not a function"):
        made(3)
    with pytest.raises(ArgumentError, match="b, h, q_idx, kv_idx"):
        made(lambda q, k: q >= k)


def test_a_mask_gives_a_bool_scalar() -> None:
    with pytest.raises(DTypeError, match="expected a bool"):
        made(lambda b, h, q, k: q - k)
    with pytest.raises(ShapeError, match="expected a scalar"):
        made(lambda b, h, q, k: IDS[:3] == q)


def test_a_mask_does_not_branch_on_an_index() -> None:
    with pytest.raises(SymbolicValueError):
        made(lambda b, h, q, k: k < 3 if q < 3 else q >= k)


def test_arrays_that_are_too_short_are_named() -> None:
    with pytest.raises(BoundsError, match=r"ENDS of shape \(2,\)"):
        made(lambda b, h, q, k: ENDS[q] > k)


def test_symbolic_arrays_and_such_as_jax_traces_do_not_mix() -> None:
    ids, _ = _symbolic_documents()

    @jax.jit
    def f(ends: Any) -> Any:
        made(lambda b, h, q, k: (ids[q] == ids[k]) & (k < ends[b]))
        return ends

    with pytest.raises(GraphcError, match="ends"):
        f(ENDS)


def test_the_line_of_the_user_is_told() -> None:
    with pytest.raises(ArgumentError, match=r"test_create\.py:\d+"):
        made(BLOCK_SIZE=0)


def test_arguments_may_be_bound_beforehand() -> None:
    def window(width: int, b: Any, h: Any, q: Any, k: Any) -> Any:
        return abs(q - k) < width

    found = made(partial(window, 9), BLOCK_SIZE=16)
    check(found, dense(partial(window, 9), 1, 1, 64, 64))
