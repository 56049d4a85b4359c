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
    """``scales * codes + biases`` of codes of 2 to 8 bits, in groups of neighbours.

    The fields are what ``mx.quantize`` gives, and ``mx.quantized_matmul`` and ``mx.gather_qmm`` run
    products under MLX. It takes ``bits / 8`` bytes an element, and two numbers a group.

    What ``quantize`` makes of numbers w between low and high in a group lies within one step of
    them, ``(high - low) / (2**bits - 1)``: within half a step of most, but zero has a code of its
    own, and that moves the end of the range that is nearer to zero. A step is 1e-7 at least, as it
    is in MLX: what is smaller comes out as zero.

    Attributes:
        packed: Words of uint32, ``(*batch, rows, columns * bits / 32)``: the first code in the
            lowest bits.
        scales: Steps, ``(*batch, rows, columns / group_size)``, of the array's dtype.
        biases: What the code 0 stands for, of the scales' shape and dtype.
        bits: The length of a code.
        group_size: So many neighbours along the packed axis share a scale.
        transposed: Whether the packed axis is the last but one: the array is the transpose of
            ``(*batch, rows, columns)``. MLX's processor multiplies faster where it is not, its GPU
            where it is, and JAX's processor where it is and few rows are multiplied.
        padding: So many elements at the end of the last group are none of the array.

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
