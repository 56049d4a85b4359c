"""Block masks as trees: leaves, structure, and what another structure is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from graphc.attention.mask import BlockMask
from graphc.attention.mods import lift_mod
from graphc.link.jax.attention.attend import flex_attention
from tests.attention import reference
from tests.attention.by_hand import blocked, dense, normal

SHAPE = (1, 1, 20, 20)
IDS = np.arange(20) // 6


def document(ids: Any) -> Callable[..., Any]:
    return lambda b, h, i, j: ids[i] == ids[j]


def mask_of(ids: Any = IDS) -> BlockMask:
    return blocked(document(ids), SHAPE)


def test_leaves_are_the_tables_and_what_the_function_captured() -> None:
    mask = mask_of()
    leaves = jax.tree.leaves(mask)
    assert len(leaves) == 5
    for leaf, table in zip(leaves, mask.tables, strict=False):
        assert leaf is table
    np.testing.assert_array_equal(leaves[-1], IDS)
    keyed, _ = jax.tree_util.tree_flatten_with_path({"mask": mask})
    assert [jax.tree_util.keystr(path) for path, _ in keyed] == [
        "['mask'].kv_num_blocks",
        "['mask'].kv_indices",
        "['mask'].full_kv_num_blocks",
        "['mask'].full_kv_indices",
        "['mask']['ids']",
    ]


@pytest.mark.parametrize("make", [lambda _: None, lambda _: object(), str, lambda x: [x, x]])
def test_leaves_may_be_anything(make: Callable[[Any], Any]) -> None:
    leaves, structure = jax.tree.flatten(mask_of())
    others = [make(leaf) for leaf in leaves]
    made = jax.tree.unflatten(structure, others)
    assert isinstance(made, BlockMask)
    held = [*made.tables, *made.leaves]
    assert all(a is b for a, b in zip(held, others, strict=True))


def test_shapes_and_tracers_pass_through() -> None:
    mask = mask_of()
    found = jax.eval_shape(lambda mask: mask, mask)
    assert isinstance(found, BlockMask)
    assert found.kv_indices.shape == mask.kv_indices.shape
    assert jax.tree.structure(found) == jax.tree.structure(mask)
    again = jax.jit(lambda mask: mask)(mask)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(mask), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (again.block_size, again.seq_lengths) == (mask.block_size, mask.seq_lengths)


class Untouchable:
    """An array that may be passed on, and must not be looked at."""

    shape, dtype = (20,), np.dtype("int64")

    def _refuse(self, *args: Any) -> Any:
        raise AssertionError("compared, hashed or read")

    __array__ = __eq__ = __ne__ = __bool__ = __hash__ = __len__ = __lt__ = _refuse


def test_no_leaf_is_compared_hashed_or_read() -> None:
    tables = [Untouchable() for _ in range(4)]
    masks = []
    for _ in range(2):
        stripped, leaves = lift_mod(document(Untouchable()), "mask_mod")
        assert len(leaves) == 1
        masks.append(BlockMask(*tables, leaves, stripped, (8, 8), (20, 20)))
    flat = [jax.tree.flatten(mask) for mask in masks]
    assert flat[0][1] == flat[1][1]
    assert hash(flat[0][1]) == hash(flat[1][1])
    assert len({structure for _, structure in flat}) == 1
    made = jax.tree.map(lambda a, b: (a, b), *masks)
    assert made.leaves == ((masks[0].leaves[0], masks[1].leaves[0]),)


def test_new_captured_values_are_the_same_structure_and_program() -> None:
    traces = []
    x = normal(1, 1, 20, 4, dtype="float32")

    @jax.jit
    def attend(x: Any, mask: BlockMask) -> Any:
        traces.append(1)
        return flex_attention(x, x, x, None, mask)

    for length in (6, 3, 11):
        ids = np.arange(20) // length
        wanted, _ = dense(x, x, x, None, document(jnp.asarray(ids)))
        np.testing.assert_allclose(attend(x, mask_of(ids)), wanted, rtol=2e-5, atol=1e-6)
    for width in (2, 7, 15):
        marked = graphc.runtime(width)
        window = blocked(lambda b, h, i, j: abs(i - j) < marked, SHAPE)  # noqa: B023
        wanted, _ = dense(x, x, x, None, lambda b, h, i, j, w=width: abs(i - j) < w)
        np.testing.assert_allclose(attend(x, window), wanted, rtol=2e-5, atol=1e-6)
    assert len(traces) == 2


def windows() -> list[Callable[..., Any]]:
    """Functions of equal text that are different programs."""

    def of_default(w: Any) -> Callable[..., Any]:
        def mask(b: Any, h: Any, i: Any, j: Any, w: Any = w) -> Any:
            return abs(i - j) < w

        return mask

    def of_cell(w: Any) -> Callable[..., Any]:
        return lambda b, h, i, j: abs(i - j) < w

    def of_global(b: Any, h: Any, i: Any, j: Any) -> Any:
        return abs(i - j) < WIDTH  # noqa: F821 (a global of each copy)

    copies = [FunctionType(of_global.__code__, {"WIDTH": w}) for w in (3, 9)]
    return [of_default(3), of_default(9), of_cell(3), of_cell(9), of_cell(3.0), *copies]


def test_other_numbers_defaults_and_globals_are_other_structures_and_right() -> None:
    traces = []
    x = normal(1, 1, 20, 4, dtype="float32")

    @jax.jit
    def attend(mask: BlockMask) -> Any:
        traces.append(1)
        return flex_attention(x, x, x, None, mask)

    masks = [blocked(mask, SHAPE) for mask in windows()]
    assert len({jax.tree.structure(mask) for mask in masks}) == len(masks)
    for mask, width in zip(masks, (3, 9, 3, 9, 3, 3, 9), strict=True):
        wanted, _ = dense(x, x, x, None, lambda b, h, i, j, w=width: abs(i - j) < w)
        np.testing.assert_allclose(attend(mask), wanted, rtol=2e-5, atol=1e-6)
    assert len(traces) == len(masks)
    for again in windows():
        attend(blocked(again, SHAPE))
    assert len(traces) == len(masks)


def test_other_blocks_and_lengths_are_other_structures() -> None:
    function = document(IDS)
    masks = [
        blocked(function, SHAPE),
        blocked(function, SHAPE, (4, 8)),
        blocked(function, (1, 1, 19, 20)),
    ]
    assert len({jax.tree.structure(mask) for mask in masks}) == 3


def test_helpers_captured_twice_and_methods_are_fresh_after_unflattening() -> None:
    class Layout:
        def __init__(self, ids: Any) -> None:
            self.ids = ids

        def same(self, b: Any, h: Any, i: Any, j: Any) -> Any:
            return self.ids[i] == self.ids[j]

    def twice(ids: Any) -> Callable[..., Any]:
        def at(i: Any) -> Any:
            return ids[i]

        both = (at, {"again": at})
        return lambda b, h, i, j: both[0](i) == both[1]["again"](j)

    def of_itself(ids: Any) -> Callable[..., Any]:
        def stepped(i: Any, n: int) -> Any:
            return ids[i] if n == 0 else stepped(i, n - 1)

        return lambda b, h, i, j: stepped(i, 2) == stepped(j, 2)

    x = normal(1, 1, 20, 4, dtype="float32")
    new = np.arange(20) // 3
    for make in (lambda ids: Layout(ids).same, twice, of_itself):
        old, fresh = blocked(make(IDS), SHAPE), blocked(make(new), SHAPE)
        assert len(old.leaves) == 1
        structure = jax.tree.structure(old)
        made = jax.tree.unflatten(structure, jax.tree.leaves(fresh))
        found = jax.jit(lambda mask: flex_attention(x, x, x, None, mask))(made)
        wanted, _ = dense(x, x, x, None, document(jnp.asarray(new)))
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)
        assert [bool(made.mask_mod(0, 0, 0, j)) for j in range(20)] == [j < 3 for j in range(20)]


def test_masks_are_carried_and_scanned_over() -> None:
    x = normal(1, 1, 20, 4, dtype="float32")
    layouts = [np.arange(20) // n for n in (2, 5, 9)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(mask_of, layouts))

    def step(carry: Any, mask: BlockMask) -> Any:
        x, last = carry
        x = flex_attention(x, x, x, None, last) + flex_attention(x, x, x, None, mask)
        return (x, mask), None

    first = jax.tree.map(jnp.asarray, mask_of())
    (found, last), _ = jax.jit(lambda *given: jax.lax.scan(step, *given))((x, first), stacked)
    wanted, before = x, IDS
    for ids in layouts:
        a, b = (document(jnp.asarray(y)) for y in (before, ids))
        wanted = (
            dense(wanted, wanted, wanted, None, a)[0] + dense(wanted, wanted, wanted, None, b)[0]
        )
        before = ids
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-4)
    np.testing.assert_array_equal(last.leaves[0], layouts[-1])


def test_a_mask_of_a_part_is_a_tree_too() -> None:
    mask = mask_of().for_lengths(20, 13)
    x = normal(1, 1, 20, 4, dtype="float32")
    found = jax.jit(lambda mask: flex_attention(x, x[:, :, :13], x[:, :, :13], None, mask))(mask)
    wanted, _ = dense(x, x[:, :, :13], x[:, :, :13], None, document(jnp.asarray(IDS)))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


def test_what_is_traced_is_the_reference_for_random_masks() -> None:
    random = np.random.default_rng(2)
    x = normal(2, 3, 20, 4, dtype="float32")
    for _ in range(3):
        table = jnp.asarray(random.random((2, 3, 20, 20)) < 0.4)
        mask = blocked(lambda b, h, i, j: table[b, h, i, j], (2, 3, 20, 20), (8, 4))  # noqa: B023
        found = jax.jit(lambda mask: flex_attention(x, x, x, None, mask, return_lse=True))(mask)
        wanted = reference.forward(x, x, x, mask=np.asarray(table))
        np.testing.assert_allclose(found[0], wanted.out, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(found[1], wanted.lse, rtol=2e-5, atol=2e-6)


LATE = """
import sys
import numpy as np
from graphc.attention.mask import BlockMask
from graphc.attention.mods import lift_mod
assert "jax" not in sys.modules
ids = np.arange(16)
stripped, leaves = lift_mod(lambda b, h, i, j: ids[i] == ids[j], "mask_mod")
mask = BlockMask(*np.zeros((4, 1, 1, 1, 1), "int32"), leaves, stripped, (16, 16), (16, 16))
import jax
assert len(jax.tree.leaves(mask)) == 5
"""


def test_graphc_imports_no_jax_and_masks_are_trees_once_it_is_there() -> None:
    subprocess.run([sys.executable, "-c", LATE], check=True)
