"""Arrays of integers of a few bits, scaled and shifted in groups: MLX's own layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphc.implicit.array import aux_field, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import Coding, coding_for


@dataclass(frozen=True, repr=False)
class AffineQuantized(Quantized):
    """``scales * codes + biases``, with codes of 2 to 8 bits in groups of neighbours.

    The fields are the results of ``mx.quantize``; on MLX, ``mx.quantized_matmul`` and
    ``mx.gather_qmm`` compute products. An element takes ``bits / 8`` bytes, and a group two numbers
    more.

    ``quantize`` changes a number w of a group with range ``[low, high]`` by at most one step,
    ``(high - low) / (2**bits - 1)``: by at most half a step for most numbers, but zero has a code,
    which moves the end of the range nearer to zero. A step is at least 1e-7, as in MLX: smaller
    numbers become zero.

    Attributes:
        packed: Words of uint32, ``(*batch, rows, columns * bits / 32)``: the first code is in the
            lowest bits.
        scales: Steps, ``(*batch, rows, columns / group_size)``, of the array's dtype.
        biases: The value of the code 0, of the scales' shape and dtype.
        bits: The length of a code.
        group_size: The number of neighbours along the packed axis that share a scale.
        transposed: Whether the packed axis is the last but one: the array is the transpose of
            ``(*batch, rows, columns)``. Products are faster without it on MLX's CPU; they are
            faster with it on MLX's GPU, and on JAX's CPU if few rows are multiplied.
        padding: The number of elements at the end of the last group that are padding.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit.quantized import quantize
        >>> w = np.random.default_rng(0).standard_normal((256, 128)).astype("float32")
        >>> q = quantize(w, "int4", group_size=64)
        >>> q, q.nbytes, w.nbytes
        (AffineQuantized(uint32[256, 16], float32[256, 2], float32[256, 2], bits=4, group_size=64,
         transposed=False), 20480, 131072)
        >>> bool(np.abs(w - q.materialize()).max() <= np.abs(q.scales).max())
        True
    """

    packed: Any
    scales: Any
    biases: Any
    bits: int = aux_field(default=4)
    group_size: int = aux_field(default=64)
    transposed: bool = aux_field(default=False)
    padding: int = aux_field(default=0, repr=False)

    @classmethod
    def coding_of(cls, group_size: int = 64, *, bits: int = 4, **options: Any) -> Coding:
        return coding_for("affine", bits, group_size)

    @property
    def offsets(self) -> Any:
        return self.biases

    def shifted(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return with_fields(self, {"biases": xp.add(self.biases, c)})
