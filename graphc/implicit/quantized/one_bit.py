"""Arrays of signs, scaled in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphc.implicit.array import aux_field
from graphc.implicit.namespace import numpy_like
from graphc.implicit.quantized.affine import AffineQuantized
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import Coding, coding_for


@dataclass(frozen=True, repr=False)
class OneBit(Quantized):
    """Signs, times the mean magnitude of each group: 32 elements in a word.

    ``quantize`` encodes zero as positive. The error of an element x of a group with mean magnitude
    m is ``abs(abs(x) - m)``; the mean minimises the sum of squared errors.

    Attributes:
        packed: Words of uint32, ``(*batch, rows, columns / 32)``: the first sign is in the lowest
            bit, 1 for a positive number.
        scales: The magnitudes, ``(*batch, rows, columns / group_size)``, of the array's dtype.
        group_size: The number of neighbours along the packed axis that share a magnitude.
        transposed: Whether the packed axis is the last but one.
        padding: The number of elements at the end of the last group that are padding.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit.quantized import quantize
        >>> w = np.random.default_rng(0).standard_normal((256, 128)).astype("float32")
        >>> q = quantize(w, "1bit")
        >>> q, q.nbytes, w.nbytes
        (OneBit(uint32[256, 4], float32[256, 2], group_size=64, transposed=False), 6144, 131072)
    """

    packed: Any
    scales: Any
    group_size: int = aux_field(default=64)
    transposed: bool = aux_field(default=False)
    padding: int = aux_field(default=0, repr=False)

    @classmethod
    def coding_of(cls, group_size: int = 64, **options: Any) -> Coding:
        return coding_for("1bit", 1, group_size)

    def shifted(self, c: Any) -> Any:
        # The codes 0 and 1 differ by two magnitudes.
        xp = numpy_like(self, c)
        return AffineQuantized(
            self.packed,
            xp.multiply(self.scales, 2),
            xp.subtract(c, self.scales),
            bits=1,
            group_size=self.group_size,
            transposed=self.transposed,
            padding=self.padding,
        )
