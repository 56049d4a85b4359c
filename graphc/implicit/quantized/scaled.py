"""Arrays of small integers or narrow floating numbers, times the scales of their groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field
from graphc.implicit.namespace import numpy_like
from graphc.implicit.quantized.affine import AffineQuantized
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import BITS, FLOATS, Coding, coding_for

ELEMENTS: dict[str, tuple[str, int]] = {
    **{f"int{bits}": ("integer", bits) for bits in BITS["integer"]},
    "ternary": ("ternary", 2),
    "ternary5": ("ternary5", 8),
    "w8a8": ("w8a8", 8),
    **{name: (name, BITS[name][0]) for name in FLOATS if name.startswith("float")},
}
"""The kind of codes and their length, for each element."""


@dataclass(frozen=True, repr=False)
class ScaledQuantized(Quantized):
    """Elements of a narrow dtype, times a scale for each group: symmetric quantization.

    ``quantize`` chooses the scale by which the largest magnitude of a group is the largest number
    of the dtype, for ternary elements the mean magnitude; then the nearest element. The error is at
    most half a scale for integers, and ``2**-4`` of a number for ``float8_e4m3fn``; zero is exact.

    Attributes:
        packed: Words of uint32, ``(*batch, rows, words)``: the first code is in the lowest bits.
            The code of an integer is the integer plus ``2**(bits - 1)``; the code of a floating
            number has its bits.
        scales: ``(*batch, rows, groups)``, of the array's dtype.
        element: ``"int2"`` to ``"int8"``, ``"ternary"`` for -1, 0 and 1 in two bits, ``"ternary5"``
            for the same, five to a byte, the first as the leading digit of base three;
            ``"float8_e4m3fn"``, ``"float8_e5m2"`` or ``"float4_e2m1fn"``; ``"w8a8"`` for int8 whose
            products round each row of x to int8, too, and sum in int32. These products have the
            derivatives of the product with x itself.
        group_size: The number of neighbours along the packed axis that share a scale.
        transposed: Whether the packed axis is the last but one.
        padding: The number of elements at the end of the last group that are padding.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit.quantized import quantize
        >>> w = np.random.default_rng(0).standard_normal((256, 128)).astype("float32")
        >>> q = quantize(w, "ternary", group_size=-1)
        >>> q, q.nbytes, w.nbytes
        (ScaledQuantized(uint32[256, 8], float32[256, 1], element='ternary', group_size=128,
         transposed=False), 9216, 131072)
    """

    packed: Any
    scales: Any
    element: str = aux_field(default="int8")
    group_size: int = aux_field(default=64)
    transposed: bool = aux_field(default=False)
    padding: int = aux_field(default=0, repr=False)

    @classmethod
    def coding_of(cls, group_size: int = 64, *, element: str = "int8", **options: Any) -> Coding:
        if element not in ELEMENTS:
            raise ImplicitArrayError(
                f"{cls.__name__}: elements {element!r}.",
                f"Take one of {', '.join(map(repr, ELEMENTS))}.",
            )
        return coding_for(*ELEMENTS[element], group_size)

    def shifted(self, c: Any) -> Any:
        coding = self.coding
        if coding.kind in FLOATS or coding.has_digits:
            return NotImplemented
        xp = numpy_like(self, c)
        return AffineQuantized(
            self.packed,
            self.scales,
            xp.subtract(c, xp.multiply(self.scales, coding.zero)),
            bits=coding.bits,
            group_size=self.group_size,
            transposed=self.transposed,
            padding=self.padding,
        )
