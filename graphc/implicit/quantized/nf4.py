"""Arrays of 4-bit codes of the quantiles of a normal distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphc.implicit.array import aux_field
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import Coding, coding_for


@dataclass(frozen=True, repr=False)
class NF4(Quantized):
    """The largest magnitude of each block, times one of 16 numbers in [-1, 1] for each element.

    The numbers are chosen such that codes of normally distributed elements are about equally
    frequent. ``quantize`` selects the nearest: the error is at most 0.152 of the block's largest
    magnitude, half the widest gap between two of the numbers. An element takes half a byte, and a
    block one number more.

    Attributes:
        packed: Words of uint32, ``(*batch, rows, columns / 8)``: the first code is in the lowest
            bits.
        scales: The largest magnitudes, ``(*batch, rows, columns / group_size)``, of the array's
            dtype.
        group_size: The number of neighbours along the packed axis that form a block.
        transposed: Whether the packed axis is the last but one.
        padding: The number of elements at the end of the last group that are padding.

    Source: Dettmers, Pagnoni, Holtzman & Zettlemoyer, QLoRA, NeurIPS 2023.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit.quantized import quantize
        >>> w = np.random.default_rng(0).standard_normal((256, 128)).astype("float32")
        >>> q = quantize(w, "nf4")
        >>> q
        NF4(uint32[256, 16], float32[256, 2], group_size=64, transposed=False)
        >>> bool((np.abs(w - q.materialize()) <= 0.152 * np.abs(w).max()).all())
        True
    """

    packed: Any
    scales: Any
    group_size: int = aux_field(default=64)
    transposed: bool = aux_field(default=False)
    padding: int = aux_field(default=0, repr=False)

    @classmethod
    def coding_of(cls, group_size: int = 64, **options: Any) -> Coding:
        return coding_for("nf4", 4, group_size)
