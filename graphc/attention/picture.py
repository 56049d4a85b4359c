"""A block mask as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.attention.grids import EMPTY, FULL, PARTIAL

# Two characters are about as wide as a line is high.
MARKS = {FULL: "██", PARTIAL: "░░", EMPTY: "··"}
NAMES = {FULL: "full", PARTIAL: "partial", EMPTY: "empty"}


def picture(kinds: np.ndarray[Any, Any], limit: int, masks: int) -> str:
    """Return lines of marks, and a legend.

    Args:
        kinds: The kind of each block, (B, H, rows, columns).
        limit: The largest number of marks along a side.
        masks: The largest number of batches and heads.

    Example:
        >>> print(picture(np.array([[[[1, 0], [2, 1]]]]), 8, 1))
        ░░··
        ██░░
        ██ full  ░░ partial  ·· empty
    """
    batch, heads, *sides = kinds.shape
    size = [max(-(-n // max(limit, 1)), 1) for n in sides]
    several = batch * heads > 1
    lines = []
    for index in list(np.ndindex(batch, heads))[:masks]:
        lines += [f"batch {index[0]}, head {index[1]}:"] if several else []
        lines += ["".join(MARKS[kind] for kind in row) for row in _coarsen(kinds[index], size)]
    if batch * heads > masks:
        lines.append(f"and {batch * heads - masks} more")
    legend = "  ".join(f"{mark} {NAMES[kind]}" for kind, mark in MARKS.items())
    size_text = f"  each {size[0]} x {size[1]} blocks" if max(size) > 1 else ""
    return "\n".join([*lines, legend + size_text])


def _coarsen(kinds: np.ndarray[Any, Any], size: list[int]) -> list[list[int]]:
    """Merge several blocks into one: full or empty if all blocks are, else partial."""
    if not kinds.size:
        return []
    starts = [np.arange(0, n, step) for n, step in zip(kinds.shape, size, strict=True)]

    def reduce_blocks(reduce: np.ufunc) -> Any:
        return reduce.reduceat(reduce.reduceat(kinds, starts[0], axis=0), starts[1], axis=1)

    low, high = reduce_blocks(np.minimum), reduce_blocks(np.maximum)
    return np.where(low == high, low, PARTIAL).tolist()  # type: ignore[no-any-return]
