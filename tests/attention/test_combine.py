"""Mask functions made of others: what they say, what they capture, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.attention.combine import and_masks, noop_mask, or_masks
from graphc.attention.create import create_block_mask
from graphc.attention.mods import lift_mod
from graphc.attention.ready import causal, document, sliding_window
from graphc.errors import ArgumentError, DTypeError
from tests.attention import reference

IDS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 0, 1])


def same(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return q_idx % 3 == kv_idx % 3


MASKS: list[Callable[..., Any]] = [causal, same, document(IDS), sliding_window(3), noop_mask]
chosen = st.lists(st.integers(0, len(MASKS) - 1), max_size=4)


def dense_of(function: Callable[..., Any]) -> np.ndarray:
    return create_block_mask(function, None, None, 11, 11, BLOCK_SIZE=4).to_dense()


@settings(max_examples=15)
@given(chosen)
def test_several_masks_are_one(numbers: list[int]) -> None:
    masks = [MASKS[i] for i in numbers]
    each = [reference.dense_mask(mask, 1, 1, 11, 11) for mask in masks]
    everything, nothing = np.ones((1, 1, 11, 11), bool), np.zeros((1, 1, 11, 11), bool)
    np.testing.assert_array_equal(dense_of(and_masks(*masks)), np.all([everything, *each], axis=0))
    np.testing.assert_array_equal(dense_of(or_masks(*masks)), np.any([nothing, *each], axis=0))


def test_a_mask_within_another_is_one() -> None:
    mask = or_masks(and_masks(causal, document(IDS)), lambda b, h, q, k: k < 1)
    wanted = reference.dense_mask(causal, 1, 1, 11, 11) & (IDS[:, None] == IDS)
    wanted[..., 0] = True
    np.testing.assert_array_equal(dense_of(mask), wanted)


def test_all_of_nothing_is_everything_and_any_of_nothing_is_nothing() -> None:
    assert dense_of(and_masks()).all()
    assert not dense_of(or_masks()).any()
    full = create_block_mask(noop_mask, None, None, 16, 16, BLOCK_SIZE=4)
    assert (full.blocks() == 2).all()


def test_captured_arrays_are_leaves_once() -> None:
    others = IDS + 1
    near = 4.0 * np.ones(3)

    def close(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return q_idx - kv_idx < near[0]

    stripped, leaves = lift_mod(and_masks(document(IDS), close, document(IDS)), "mask_mod")
    assert [x is y for x, y in zip(leaves, (IDS, near), strict=True)] == [True, True]
    again, _ = lift_mod(and_masks(document(others), close, document(others)), "mask_mod")
    assert again == stripped
    joined, _ = lift_mod(or_masks(document(IDS), close, document(IDS)), "mask_mod")
    assert joined != stripped
    apart, _ = lift_mod(and_masks(document(IDS), close, document(others)), "mask_mod")
    assert apart != stripped


def test_masks_are_named_as_they_are_written() -> None:
    mask = create_block_mask(and_masks(causal, or_masks(document(IDS), same)), None, None, 11, 11)
    assert "BlockMask(and_masks(causal, or_masks(document, same))" in repr(mask)
    assert "BlockMask(part of and_masks(causal" in repr(mask[:, :, 0])


def test_masks_are_combined_in_each_library() -> None:
    mask = and_masks(causal, or_masks(lambda b, h, q, k: k < 2, sliding_window(2)))
    wanted = reference.dense_mask(mask, 1, 1, 11, 11)[0, 0]
    function = jax.vmap(jax.vmap(lambda q, k: mask(0, 0, q, k), (None, 0)), (0, None))
    np.testing.assert_array_equal(jax.jit(function)(jnp.arange(11), jnp.arange(11)), wanted)
    q, k = gt.matrix("q", dtype="int32"), gt.matrix("k", dtype="int32")
    f = graphc.function([q, k], mask(0, 0, q, k), mode="NUMPY")
    places = np.arange(11, dtype=np.int32)
    np.testing.assert_array_equal(
        f(places[:, None] + 0 * places, places + 0 * places[:, None]), wanted
    )


def test_what_is_no_mask_function_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"and_masks: 3 is not a function.*\n.*a separate argument"
    ):
        and_masks(causal, 3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"or_masks: \[<function causal"):
        or_masks([causal, same])  # type: ignore[arg-type]


def test_numbers_are_not_taken_for_bools() -> None:
    def sight(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return q_idx - kv_idx

    with pytest.raises(DTypeError, match="mask_mod returns int32"):
        create_block_mask(and_masks(sight, sight), None, None, 8, 8)
