"""Mask functions combined by ``and`` and ``or``."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from graphc.errors import ArgumentError

MaskMod = Callable[[Any, Any, Any, Any], Any]
"""A function of batch, head, query and key: whether the query sees the key."""


def noop_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Return True: every query sees every key.

    Example:
        >>> bool(noop_mask(0, 0, 3, 7))
        True
    """
    # Computed from an index, so that it is symbolic where that is.
    return q_idx >= 0


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the mask function that is true where all of these functions are true.

    Args:
        mask_mods: Functions ``(b, h, q_idx, kv_idx)`` of one query and key, which return a bool.
            Without any, every query sees every key.

    Raises:
        ArgumentError: If an argument is not a function.

    Example:
        >>> from graphc.attention import causal, create_block_mask, document
        >>> import numpy as np
        >>> ids = np.array([0, 0, 0, 1, 1, 1])
        >>> packed = and_masks(causal, document(ids))
        >>> create_block_mask(packed, None, None, 6, 6, BLOCK_SIZE=2).to_dense()[0, 0].astype(int)
        array([[1, 0, 0, 0, 0, 0],
               [1, 1, 0, 0, 0, 0],
               [1, 1, 1, 0, 0, 0],
               [0, 0, 0, 1, 0, 0],
               [0, 0, 0, 1, 1, 0],
               [0, 0, 0, 1, 1, 1]])
    """
    return _combine("and_masks", operator.and_, mask_mods, noop_mask)


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the mask function that is true where any of these functions is true.

    Args:
        mask_mods: Functions ``(b, h, q_idx, kv_idx)`` of one query and key, which return a bool.
            Without any, no query sees a key.

    Raises:
        ArgumentError: If an argument is not a function.

    Example:
        >>> from graphc.attention import causal, create_block_mask
        >>> sink = or_masks(causal, lambda b, h, q_idx, kv_idx: kv_idx < 2)
        >>> create_block_mask(sink, None, None, 4, 4, BLOCK_SIZE=2).to_dense()[0, 0].astype(int)
        array([[1, 1, 0, 0],
               [1, 1, 0, 0],
               [1, 1, 1, 0],
               [1, 1, 1, 1]])
    """
    return _combine("or_masks", operator.or_, mask_mods, _nothing)


def _nothing(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return q_idx < 0


def _combine(
    what: str, join: Callable[[Any, Any], Any], mask_mods: tuple[MaskMod, ...], empty: MaskMod
) -> MaskMod:
    for function in mask_mods:
        if not callable(function):
            raise ArgumentError(
                f"{what}: {function!r} is not a function.",
                "Give functions of (b, h, q_idx, kv_idx), each as a separate argument.",
            )
    return Combined(join, mask_mods) if mask_mods else empty


@dataclass(frozen=True, eq=False, repr=False)
class Combined:
    """Several mask functions as one."""

    join: Callable[[Any, Any], Any]
    mask_mods: tuple[MaskMod, ...]

    def __repr__(self) -> str:
        name = "and_masks" if self.join is operator.and_ else "or_masks"
        return f"{name}({', '.join(map(name_of, self.mask_mods))})"

    def __call__(self, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return reduce(self.join, [mask(b, h, q_idx, kv_idx) for mask in self.mask_mods])


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a mask or score function in messages."""
    return str(getattr(function, "__name__", None) or repr(function))
