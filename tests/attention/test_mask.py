"""Block masks: what they say of blocks, their parts, and how programs take them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.attention import create_block_mask, flex_attention
from graphc.attention.combine import and_masks
from graphc.attention.mask import BlockMask
from graphc.attention.mods import lift_mod
from graphc.attention.ready import causal, document, sliding_window
from graphc.errors import (
    ArgumentError,
    BoundsError,
    DTypeError,
    GraphcError,
    ShapeError,
    SymbolicValueError,
    UnusedInputError,
)
from graphc.ir import Node, flatten, flatten_like, paths, rebuild
from tests.attention import reference
from tests.modes import uncompiled

Function = Callable[..., Any]


def made(function: Function, dense: np.ndarray, block: tuple[int, int]) -> BlockMask:
    """The mask of a function, whose values are known."""
    stripped, leaves = lift_mod(function, "mask_mod")
    tables = reference.tables(dense, block)
    return BlockMask(*tables, leaves, stripped, block, dense.shape[2:])  # type: ignore[arg-type]


def looked_up(dense: np.ndarray) -> Function:
    return lambda b, h, q, k: dense[b, h, q, k]


def random_mask(seed: int, shape: tuple[int, ...], block: tuple[int, int]) -> np.ndarray:
    """Full, empty and partial blocks, a third each."""
    random = np.random.default_rng(seed)
    grid = [-(-n // size) for n, size in zip(shape[2:], block, strict=True)]
    kinds = random.integers(0, 3, (*shape[:2], *grid))
    kinds = np.repeat(np.repeat(kinds, block[0], 2), block[1], 3)[:, :, : shape[2], : shape[3]]
    return np.where(kinds == 1, random.random(shape) < 0.5, kinds == 2)


lengths = st.integers(1, 24)
sizes = st.tuples(st.integers(1, 2), st.integers(1, 3), lengths, lengths)
blocks = st.tuples(st.integers(1, 9), st.integers(1, 9))


SHAPE, BLOCK = (2, 3, 22, 17), (4, 5)
DENSE = random_mask(7, SHAPE, BLOCK)
MASK = made(looked_up(DENSE), DENSE, BLOCK)


# What it says.


@settings(max_examples=40)
@given(sizes, blocks, st.integers(0, 99))
def test_a_dense_mask_has_what_the_function_gives(
    shape: tuple[int, ...], block: tuple[int, int], seed: int
) -> None:
    dense = random_mask(seed, shape, block)
    mask = made(looked_up(dense), dense, block)
    np.testing.assert_array_equal(mask.to_dense(), dense)
    np.testing.assert_array_equal(mask.blocks(), reference.kinds(dense, block))
    empty = np.mean(reference.kinds(dense, block) == reference.EMPTY)
    assert mask.sparsity() == pytest.approx(100 * empty)
    assert mask.shape == shape
    assert mask.numel == dense.size


def test_a_function_is_asked_in_partial_blocks_alone() -> None:
    counts, indices = np.array([[[1, 0]]]), np.array([[[[1, 0], [0, 1]]]])
    full = np.array([[[0, 1]]]), np.array([[[[0, 1], [1, 0]]]])
    mask = BlockMask.from_blocks(counts, indices, *full, mask_mod=causal, BLOCK_SIZE=2)
    wanted = np.zeros((4, 4), bool)
    wanted[2:, 2:] = True
    np.testing.assert_array_equal(mask.to_dense()[0, 0], wanted)


def test_a_function_that_is_written_in_jax_is_made_dense() -> None:
    edge = jnp.arange(9) % 4
    wanted = reference.dense_mask(lambda b, h, q, k: q % 4 >= k, 1, 1, 9, 6)
    mask = made(lambda b, h, q, k: jnp.where(edge[q] >= k, True, False), wanted, (4, 4))
    np.testing.assert_array_equal(mask.to_dense(), wanted)


def test_a_large_mask_is_not_made_dense() -> None:
    rows = np.zeros((1, 1, 1024), np.int32)
    mask = BlockMask.from_blocks(rows, np.zeros((1, 1, 1024, 8), np.int32))
    with pytest.raises(ArgumentError, match=r"134217728 elements.*\n.*mask.sparsity\(\)"):
        mask.to_dense()
    assert not mask[..., :2].to_dense().any()


def test_the_mask_function_has_the_arrays_that_the_mask_holds() -> None:
    ids = np.array([0, 0, 1, 1])
    mask = made(document(ids), (ids[:, None] == ids)[None, None], (2, 2))
    assert [bool(mask.mask_mod(0, 0, 1, k)) for k in range(4)] == [True, True, False, False]
    assert mask.lifted == (mask.stripped, mask.leaves)


def test_writing_to_a_captured_array_does_not_reach_the_mask() -> None:
    ids, tables = np.array([0, 0, 1, 1]), np.ones((1, 1, 1), np.int32)
    indices = np.zeros((1, 1, 1, 1), np.int32)
    mask = BlockMask.from_blocks(tables, indices, mask_mod=document(ids), BLOCK_SIZE=4)
    view = BlockMask(
        *(tables[:], indices, tables, indices), (ids[:],), mask.stripped, (4, 4), (4, 4)
    )
    before = mask.to_dense()
    ids[:], tables[:] = 0, 0
    np.testing.assert_array_equal(mask.to_dense(), before)
    np.testing.assert_array_equal(view.leaves[0], [0, 0, 1, 1])
    assert int(view.kv_num_blocks[0, 0, 0]) == 1
    with pytest.raises(ValueError, match="read-only"):
        mask.leaves[0][0] = 5
    assert mask[0].leaves[0] is mask.leaves[0]


PICTURE = """\
BlockMask(causal, shape=(1, 1, 20, 24), block_size=(4, 4)), 50% empty
░░··········
██░░········
████░░······
██████░░····
████████░░··
██ full  ░░ partial  ·· empty"""


def test_a_mask_is_printed_as_a_picture() -> None:
    dense = reference.dense_mask(causal, 1, 1, 20, 24)
    mask = made(causal, dense, (4, 4))
    assert str(mask) == PICTURE
    assert mask.picture(limit=3).split("\n") == [
        *("░░····", "██░░··", "████░░"),
        "██ full  ░░ partial  ·· empty  each 2 x 2 blocks",
    ]


def test_a_picture_has_the_first_batches_and_heads() -> None:
    lines = MASK.picture(masks=2).split("\n")
    assert [x for x in lines if "head" in x] == ["batch 0, head 0:", "batch 0, head 1:"]
    assert lines[-2] == "and 4 more"


# Parts.

BATCHES: list[Any] = [slice(None), 1, -2, slice(1, None), [1, 0, 1], np.array([0])]
HEADS: list[Any] = [slice(None), 2, slice(0, 2), slice(None, None, -1), np.array([2, 0, 2]), ...]
ROWS: list[Any] = [slice(None), 0, 3, -1, slice(1, 3), slice(4, None), np.int64(2)]


@pytest.mark.parametrize("rows", ROWS, ids=str)
@pytest.mark.parametrize("head", HEADS, ids=str)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_a_part_says_what_the_whole_says_there(batch: Any, head: Any, rows: Any) -> None:
    part = MASK[batch, head, rows]
    head = slice(None) if head is Ellipsis else head
    numbers = np.atleast_1d(np.arange(6)[rows])
    wanted = DENSE[np.atleast_1d(np.arange(2)[batch])][:, np.atleast_1d(np.arange(3)[head])]
    wanted = wanted[:, :, np.isin(np.arange(22) // 4, numbers)]
    np.testing.assert_array_equal(part.to_dense(), wanted)
    reference.check_tables(part.tables, wanted, BLOCK)
    assert part.shape == wanted.shape


def test_a_part_of_a_part_is_a_part() -> None:
    part = MASK[1, 1:, 1:5][:, [1, 0], 2:][..., 1]
    np.testing.assert_array_equal(part.to_dense(), DENSE[1:, 2:0:-1, 16:20])
    np.testing.assert_array_equal(part[..., -1].to_dense(), part.to_dense())


def test_a_mask_that_is_whole_is_the_same() -> None:
    assert MASK[:] is MASK
    assert MASK[...] is MASK
    assert MASK[:, 0:3, :] is MASK


def test_one_batch_is_the_same_for_all() -> None:
    one = MASK[1]
    values = [bool(one.mask_mod(b, 2, 3, 4)) for b in range(5)]
    assert values == [DENSE[1, 2, 3, 4]] * 5


def test_a_mask_for_all_heads_hands_them_through() -> None:
    dense = reference.dense_mask(causal, 1, 1, 8, 8)
    mask = made(lambda b, h, q, k: q + h >= k, dense, (4, 4))
    part = mask[0, 0, 1]
    assert [bool(part.mask_mod(0, h, 0, 6)) for h in (1, 2)] == [False, True]


def test_parts_at_other_places_have_one_structure() -> None:
    parts = [MASK[b, h, i] for b, h, i in ((0, 0, 0), (1, 2, 3), (-1, 1, 4))]
    assert len({part.stripped for part in parts}) == 1
    assert len({jax.tree.structure(part) for part in parts}) == 1
    assert jax.tree.structure(MASK[0, 0, 5]) != jax.tree.structure(parts[0])  # fewer queries


WRONG: dict[str, tuple[Any, type[GraphcError], str]] = {
    "four axes": ((0, 0, 0, 0), ArgumentError, "three axes"),
    "two ellipses": ((..., ...), ArgumentError, "three axes"),
    "no such batch": (2, BoundsError, "no batch 2; the mask has 2"),
    "no such head": ((0, [0, 3]), BoundsError, "no head 3"),
    "no such block": ((0, 0, 6), BoundsError, "no query block 6; the mask has 6"),
    "nothing": ((slice(1, 1),), BoundsError, r"mask\[1:1\] takes no batch of 2"),
    "no blocks": ((..., slice(4, 2)), BoundsError, "takes no query block"),
    "every second block": ((0, 0, slice(0, 4, 2)), ArgumentError, "not consecutive"),
    "chosen blocks": ((0, 0, [0, 2]), ArgumentError, "by an integer or a slice"),
    "a float": (1.0, ArgumentError, "indexed by integers"),
    "bools": ([True, False], ArgumentError, "indexed by integers"),
    "text": ("b", ArgumentError, "indexed by integers"),
    "a matrix": (np.zeros((2, 2), int), ArgumentError, "indexed by integers"),
}


@pytest.mark.parametrize(("index", "error", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_index_is_refused(index: Any, error: type[GraphcError], message: str) -> None:
    with pytest.raises(error, match=message):
        MASK[index]


def test_a_shared_head_is_told_of() -> None:
    with pytest.raises(BoundsError, match="It is the same for all of them"):
        MASK[0][3]


# Shorter lengths.


@settings(max_examples=40)
@given(sizes, blocks, st.integers(0, 99), st.data())
def test_a_mask_for_shorter_lengths_is_right(
    shape: tuple[int, ...], block: tuple[int, int], seed: int, data: Any
) -> None:
    dense = random_mask(seed, shape, block)
    queries, keys = [data.draw(st.integers(1, n)) for n in shape[2:]]
    mask = made(looked_up(dense), dense, block).for_lengths(queries, keys)
    wanted = dense[:, :, :queries, :keys]
    reference.check_tables(mask.tables, wanted, block, exact=False)
    np.testing.assert_array_equal(mask.to_dense(), wanted)
    assert mask.seq_lengths == (queries, keys)


def test_a_causal_mask_for_shorter_lengths_is_the_one_made_for_them() -> None:
    dense = reference.dense_mask(causal, 1, 1, 40, 40)
    mask = made(causal, dense, (8, 8)).for_lengths(33, 18)
    for x, y in zip(mask.tables, reference.tables(dense[..., :33, :18], (8, 8)), strict=True):
        np.testing.assert_array_equal(x, y)
    assert mask.for_lengths(33, 18) is mask


def test_a_mask_for_longer_lengths_is_refused() -> None:
    for wanted in ((23, 17), (22, 18), (40, 1)):
        with pytest.raises(ShapeError, match="has no blocks for longer sequences"):
            MASK.for_lengths(*wanted)
    for wanted in ((-1, 4), (4, 2.5), (True, 4)):
        with pytest.raises(ShapeError, match="is not a length"):
            MASK.for_lengths(*wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("empty", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_a_mask_of_no_queries_or_keys_has_no_blocks(empty: tuple[int, int]) -> None:
    mask = MASK.for_lengths(*empty)
    assert mask.numel == 0
    assert mask.sparsity() == 0
    assert mask.to_dense().shape == (2, 3, *empty)
    assert mask.picture(masks=1).split("\n")[-2:] == ["and 5 more", mask.picture().split("\n")[-1]]
    assert mask.for_lengths(*empty) is mask


# Given by hand.


@settings(max_examples=20)
@given(sizes, blocks, st.integers(0, 99))
def test_a_mask_of_tables_in_any_order_is_put_in_order(
    shape: tuple[int, ...], block: tuple[int, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    dense = random_mask(seed, shape, block)
    tables = list(reference.tables(dense, block))
    for counts, indices in ((tables[0], tables[1]), (tables[2], tables[3])):
        for at in np.ndindex(counts.shape):
            random.shuffle(indices[at][: counts[at]])
            indices[at][counts[at] :] = -7
    mask = BlockMask.from_blocks(
        *tables, mask_mod=looked_up(dense), BLOCK_SIZE=block, seq_lengths=shape[2:]
    )
    reference.check_tables(mask.tables, dense, block)


def test_a_last_column_of_fewer_keys_is_never_full() -> None:
    counts, indices = np.zeros((1, 1, 1), int), np.zeros((1, 1, 1, 2), int)
    full = np.array([[[2]]]), np.array([[[[0, 1]]]])
    mask = BlockMask.from_blocks(counts, indices, *full, BLOCK_SIZE=4, seq_lengths=(4, 7))
    assert mask.blocks().tolist() == [[[[2, 1]]]]
    assert mask.to_dense().all()


ONE, IN_ROW = np.array([[[1]]]), np.array([[[[0, 1]]]])
NO_TABLES: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[GraphcError], str]] = {
    "floats": ((ONE * 1.0, IN_ROW), {}, DTypeError, "kv_num_blocks has the dtype float64"),
    "few axes": ((ONE[0], IN_ROW), {}, ShapeError, "kv_num_blocks has the shape"),
    "other rows": ((np.ones((1, 1, 2), int), IN_ROW), {}, ShapeError, "do not fit each other"),
    "no columns": ((ONE, IN_ROW[..., :0]), {}, ShapeError, "do not fit each other"),
    "many blocks": ((ONE * 3, IN_ROW), {}, BoundsError, "3 blocks in a row of 2"),
    "negative": ((ONE * -1, IN_ROW), {}, BoundsError, "-1 blocks"),
    "no block": ((ONE, IN_ROW + 2), {}, BoundsError, "no block 2 in a row of 2"),
    "twice": ((ONE * 2, IN_ROW * 0), {}, ArgumentError, "listed twice"),
    "partial and full": ((ONE, IN_ROW, ONE, IN_ROW), {}, ArgumentError, "listed twice"),
    "one alone": ((ONE, IN_ROW, ONE), {}, ArgumentError, "only one is given"),
    "another grid": (
        (ONE, IN_ROW, ONE, IN_ROW[..., :1]), {}, ShapeError, "have different shapes"
    ),
    "lengths": ((ONE, IN_ROW), {"seq_lengths": (5, 5)}, ShapeError, "1 x 1 blocks"),
    "a fraction": ((ONE, IN_ROW), {"seq_lengths": (100.9, 256)}, ShapeError, "100.9 is not a"),
    "text": ((ONE, IN_ROW), {"seq_lengths": ("100", "256")}, ShapeError, "'100' is not a length"),
    "a bool": ((ONE, IN_ROW), {"seq_lengths": (True, 256)}, ShapeError, "True is not a length"),
    "a bool of NumPy": (
        (ONE, IN_ROW), {"seq_lengths": (np.True_, 256)}, ShapeError, "is not a length"
    ),
    "an array as a length": (
        (ONE, IN_ROW), {"seq_lengths": (np.ones(2, int), 256)}, ShapeError, "is not a length"
    ),
    "a negative length": ((ONE, IN_ROW), {"seq_lengths": (-1, 256)}, ShapeError, "-1 is not a"),
    "three lengths": (
        (ONE, IN_ROW), {"seq_lengths": (100, 256, 1)}, ShapeError, "is not a pair of lengths"
    ),
    "one length": ((ONE, IN_ROW), {"seq_lengths": 100}, ShapeError, "is not a pair of lengths"),
    "no block size": ((ONE, IN_ROW), {"BLOCK_SIZE": 0}, ShapeError, "not a length"),
    "three sizes": ((ONE, IN_ROW), {"BLOCK_SIZE": (1, 1, 1)}, ShapeError, "one integer, or two"),
    "no function": ((ONE, IN_ROW), {"mask_mod": 3}, ArgumentError, "not a function"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("tables", "options", "error", "message"), NO_TABLES.values(), ids=NO_TABLES
)
def test_tables_that_are_none_are_refused(
    tables: Any, options: Any, error: type[GraphcError], message: str
) -> None:
    with pytest.raises(error, match=message):
        BlockMask.from_blocks(*tables, **options)


# As a value of programs.


class Untouchable:
    """An array-like thing that nobody may compare, hash or take for true."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __bool__(self) -> bool:
        raise AssertionError("asked for its truth")

    def __len__(self) -> int:
        raise AssertionError("asked for its length")


def test_flattening_compares_no_array() -> None:
    dense = reference.dense_mask(causal, 1, 1, 8, 8)
    mask = made(document(np.zeros(8, int)), dense, (4, 4))
    strange = [rebuild(mask, [Untouchable() for _ in flatten(mask)]) for _ in range(2)]
    one, other = strange
    assert len(flatten_like(one, other)) == 5
    assert flatten_like(mask, one)[4] is one.leaves[0]
    leaves, structure = jax.tree.flatten(one)
    assert structure == jax.tree.structure(other)
    assert all(x is y for x, y in zip(leaves, flatten(one), strict=True))
    assert isinstance(jax.tree.unflatten(structure, leaves), BlockMask)


def test_masks_are_told_apart_by_identity() -> None:
    again = made(looked_up(DENSE), DENSE, BLOCK)
    assert again != MASK
    assert len({again, MASK}) == 2


def test_paths_name_the_parts() -> None:
    found = paths(MASK, "mask")
    assert found[0] == "mask.kv_num_blocks"
    assert found[4:] == ["mask.leaves[0]"]


def windowed(width: int, n: int = 20, block: tuple[int, int] = (4, 4)) -> BlockMask:
    dense = reference.dense_mask(sliding_window(width), 1, 1, n, n)
    return made(sliding_window(width), dense, block)


def test_a_function_takes_masks_of_equal_structure(mode: str) -> None:
    first = windowed(3)
    m, x = first.variables("mask"), gt.vector("x")
    assert m.leaves[0].name == "mask.SlidingWindow.width"
    f = graphc.function([x, m], x * m.leaves[0] + sum(t.sum() for t in m.tables), mode=mode)
    for width in (3, 5, 9):
        mask = windowed(width)
        wanted = width * np.ones(2) + sum(t.sum() for t in mask.tables)
        np.testing.assert_array_equal(np.asarray(f(np.ones(2), mask)), wanted)
    assert f.stats.compiles <= 1


def test_one_leaf_that_is_used_is_enough(mode: str) -> None:
    dense = reference.dense_mask(causal, 2, 1, 8, 8)
    mask = made(causal, dense, (4, 4))[[1, 0]]
    m = mask.variables("mask")
    f = graphc.function([m], m.kv_num_blocks.sum(), mode=mode)
    assert int(f(mask)) == mask.kv_num_blocks.sum()
    x = gt.vector("x")
    with pytest.raises(UnusedInputError, match=r"mask\.kv_num_blocks"):
        graphc.function([x, m], x, mode=mode)


LEAVES: dict[str, tuple[Any, str]] = {
    "a marked number": (graphc.runtime(3), "int64[]"),
    "a marked fraction": (graphc.runtime(2.5), "float64[]"),
    "a small array": (np.array([3], np.int16), "int16[1]"),
    "JAX's": (jnp.asarray([3.0, 4.0], jnp.bfloat16), "bfloat16[2]"),
    "MLX's": (mx.array([3, 4]), "int32[2]"),
    "a symbolic one": (gt.vector("v", dtype="uint8", shape=(7,)), "uint8[7]"),
}


@pytest.mark.parametrize(("leaf", "type"), LEAVES.values(), ids=LEAVES)
def test_a_leaf_of_any_kind_has_an_input(leaf: Any, type: str) -> None:
    mask = made(lambda b, h, q, k: q - k < leaf, reference.dense_mask(causal, 1, 1, 8, 8), (4, 4))
    assert len(mask.leaves) == 1
    m = mask.variables("m")
    assert repr(m.leaves[0].type) == type
    assert m.leaves[0].name == "m.leaf"
    if not isinstance(leaf, Node):
        f = graphc.function([m], m.leaves[0], mode="NUMPY", on_unused_input="ignore")
        np.testing.assert_array_equal(np.asarray(f(mask)), np.asarray(leaf))


def test_writing_to_an_array_of_mlx_does_not_reach_the_mask() -> None:
    ids = mx.array([0, 0, 1, 1])
    dense = reference.dense_mask(lambda b, h, q, k: q // 2 == k // 2, 1, 1, 4, 4)
    mask = made(document(ids), dense, (4, 4))
    ids[2] = 0
    np.testing.assert_array_equal(mask.to_dense(), dense)


OTHERS = {
    "function": (made(causal, reference.dense_mask(causal, 1, 1, 20, 20), (4, 4)), "stripped is"),
    "block": (windowed(3, block=(4, 2)), r"block_size is \(4, 4\), not \(4, 2\)"),
    "lengths": (windowed(3, 19), r"seq_lengths is \(20, 20\), not \(19, 19\)"),
    "a tuple": (tuple(windowed(3).tables), "expected a BlockMask, got a tuple"),
    "an array": (np.ones((4, 4)), r"expected a BlockMask, got a ndarray of shape \(4, 4\)"),
}


@pytest.mark.parametrize(("other", "message"), OTHERS.values(), ids=OTHERS)
def test_a_function_refuses_masks_of_other_structure(other: Any, message: str) -> None:
    m = windowed(3).variables("mask")
    f = graphc.function([m], m.kv_num_blocks.sum(), mode="NUMPY", on_unused_input="ignore")
    with pytest.raises(ArgumentError, match=message):
        f(other)


def test_a_symbolic_mask_has_no_picture() -> None:
    m = windowed(3).variables()
    for ask in (m.blocks, m.sparsity, m.to_dense, m.picture):
        with pytest.raises(SymbolicValueError, match="known only when the program runs"):
            ask()
    assert str(m) == repr(m)
    assert m.leaves[0].name is None
    with pytest.raises(SymbolicValueError, match="known only when the program runs"):
        BlockMask(*windowed(3).tables, m.leaves, m.stripped, (4, 4), (20, 20)).to_dense()


def arrays_of(mask: BlockMask) -> list[Any]:
    return [*mask.tables, *mask.leaves]


def test_parts_and_shorter_masks_of_symbolic_ones_are_those_of_concrete_ones(mode: str) -> None:
    i = gt.scalar("i", dtype="int32")
    whole = made(looked_up(DENSE), DENSE, (11, 5))
    m = whole.variables("mask")
    derived = {
        "part": lambda mask, i: mask[:, [2, 0], 1],
        "row": lambda mask, i: mask[..., i],
        "head": lambda mask, i: mask[0, i],
        "shorter": lambda mask, i: mask.for_lengths(15, 12),
    }
    outputs = {name: arrays_of(f(m, i)) for name, f in derived.items()}
    g = graphc.function([m, i], outputs, mode=graphc.Mode(mode), returns="numpy")
    for number in (1, 0, -1):
        found = g(whole, number)
        for name, f in derived.items():
            for x, y in zip(found[name], arrays_of(f(whole, number)), strict=True):
                np.testing.assert_array_equal(x, y, err_msg=name)


def test_parts_and_shorter_masks_are_traced_by_jax_once() -> None:
    whole, traces = made(looked_up(DENSE), DENSE, (11, 5)), []

    @jax.jit
    def derived(mask: BlockMask, i: Any) -> Any:
        traces.append(i)
        with pytest.raises(SymbolicValueError, match="known only when the program runs"):
            mask.blocks()
        return mask[0, i, i], mask.for_lengths(15, 12)

    for number in (1, 0, -1):
        row, shorter = derived(whole, number)
        np.testing.assert_array_equal(row.to_dense(), whole[0, number, number].to_dense())
        np.testing.assert_array_equal(shorter.to_dense(), DENSE[..., :15, :12])
    assert len(traces) == 1


def test_a_row_that_is_known_at_run_time_wants_blocks_of_one_length() -> None:
    i = gt.scalar("i", dtype="int32")
    with pytest.raises(ArgumentError, match="has 2 queries, the others 4"):
        MASK[..., i]
    with pytest.raises(ArgumentError, match="by an integer or a slice"):
        MASK[..., gt.vector("rows", dtype="int32")]


def test_a_loop_captures_a_mask() -> None:
    mask = windowed(3)
    m = mask.variables("mask")

    def step(i: Any, total: Any) -> Any:
        return total + m.kv_num_blocks[0, 0, i] * m.leaves[0]

    totals = graphc.scan(step, [gt.arange(5)], [gt.constant(0)])
    f = graphc.function([m], totals[-1], mode="NUMPY", on_unused_input="ignore")
    assert int(f(mask)) == 3 * mask.kv_num_blocks.sum()
    assert int(f(windowed(4))) == 4 * windowed(4).kv_num_blocks.sum()


def test_a_loop_carries_a_mask() -> None:
    m = windowed(3).variables("mask")

    def step(mask: BlockMask) -> Any:
        *tables, width = arrays_of(mask)
        return BlockMask(*tables, (width + 1,), mask.stripped, mask.block_size, mask.seq_lengths)

    last = graphc.loop(lambda mask, _: (step(mask), None), m, n_steps=4)[0]
    f = graphc.function([m], last.leaves[0], mode="NUMPY", on_unused_input="ignore")
    assert int(f(windowed(3))) == 7


# Attention by them.

IDS = np.arange(22) // 7
PACKED = create_block_mask(and_masks(causal, document(IDS)), 2, 3, 22, 22, BLOCK_SIZE=(11, 4))
OPERANDS = [x.astype(np.float32) for x in reference.problem(5, 2, (3, 3), (22, 22), (4, 3))[:3]]
WHOLE = reference.forward(*OPERANDS, mask=PACKED.to_dense()).out


def attention(mask: BlockMask, queries: int, mode: str) -> graphc.Function:
    """Attention of some queries of the operands by masks of that structure."""
    shapes = [(2, 3, queries, 4), *[x.shape for x in OPERANDS[1:]]]
    types = zip("qkv", shapes, strict=True)
    q, k, v = [gt.tensor(name, dtype="float32", shape=shape) for name, shape in types]
    m = mask.variables("mask")
    y = flex_attention(q, k, v, block_mask=m)
    return graphc.function([q, k, v, m], y, mode=uncompiled(mode), returns="numpy")


def test_attention_by_each_row_of_blocks_is_the_whole_by_one_program(mode: str) -> None:
    q, k, v = OPERANDS
    f = attention(PACKED[:, :, 0], 11, mode)
    rows = [f(q[:, :, 11 * i : 11 * i + 11], k, v, PACKED[:, :, i]) for i in range(2)]
    np.testing.assert_allclose(np.concatenate(rows, 2), WHOLE, rtol=1e-5, atol=1e-5)
    assert f.stats.compiles <= 1
    with pytest.raises(ArgumentError, match=r"BlockMask\.stripped is"):
        f(q[:, :, :11], k, v, PACKED)


def test_attention_by_a_shorter_mask_is_that_of_its_lengths(mode: str) -> None:
    q, k, v = [x[:, :, :15] for x in OPERANDS]
    shorter = PACKED.for_lengths(15, 15)
    whole = [gt.constant(x) for x in (q, k, v)]
    y = flex_attention(*whole, block_mask=shorter)
    f = graphc.function([], y, mode=uncompiled(mode), returns="numpy")
    wanted = reference.forward(q, k, v, mask=PACKED.to_dense()[:, :, :15, :15]).out
    np.testing.assert_allclose(f(), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeError, match="for_lengths"):
        flex_attention(*whole, block_mask=PACKED)


def test_attention_by_a_traced_row_is_traced_once() -> None:
    q, k, v = [jnp.asarray(x) for x in OPERANDS]
    traces = []

    @jax.jit
    def row(i: Any, mask: BlockMask) -> Any:
        traces.append(i)
        some = jax.lax.dynamic_slice_in_dim(q, 11 * i, 11, 2)
        return flex_attention(some, k, v, block_mask=mask[:, :, i])

    rows = [row(i, PACKED) for i in range(2)]
    np.testing.assert_allclose(np.concatenate(rows, 2), WHOLE, rtol=1e-5, atol=1e-5)
    assert len(traces) == 1


def test_attention_of_some_batches_and_heads_has_their_mask() -> None:
    def near(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return (q_idx - kv_idx) * (h + 1) < 5 + 4 * b

    own = create_block_mask(near, 2, 3, 22, 22, BLOCK_SIZE=4)
    out = reference.forward(*OPERANDS, mask=own.to_dense()).out
    some = [jnp.asarray(x)[1:, 2:0:-1] for x in OPERANDS]
    found = flex_attention(*some, block_mask=own[1, [2, 1]])
    np.testing.assert_allclose(found, out[1:, 2:0:-1], rtol=1e-5, atol=1e-5)


# Copies.


def test_a_mask_is_copied() -> None:
    ids = np.array([0, 0, 1, 1])
    dense = np.tril(ids[:, None] == ids)[None, None]
    mask = made(and_masks(causal, document(ids)), dense, (2, 2))
    assert copy.copy(mask) is mask
    for again in (copy.deepcopy(mask), pickle.loads(pickle.dumps(mask))):
        assert again.stripped == mask.stripped
        np.testing.assert_array_equal(again.to_dense(), mask.to_dense())
        assert again.leaves[0] is not mask.leaves[0]


def test_a_mask_of_the_users_code_says_that_it_is_not_pickled() -> None:
    with pytest.raises(
        ArgumentError, match="cannot be pickled, because its mask_mod is a function of yours"
    ):
        pickle.dumps(MASK)
