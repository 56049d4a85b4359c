"""Kinds of quantized arrays whose groups have one scale, and perhaps a bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import (
    BITS,
    FLOATS,
    NONLINEAR,
    Coding,
    coding_for,
    first_and_step,
)


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

    def add_number(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return with_fields(self, {"biases": xp.add(self.biases, c)})


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

    def add_number(self, c: Any) -> Any:
        return _add_to_codes(self, c)


def _add_to_codes(x: Quantized, c: Any) -> Any:
    """Return the sum with a number as affine codes, if the numbers of codes are equally spaced."""
    coding = x.coding
    if coding.kind in NONLINEAR or coding.has_digits:
        return NotImplemented
    xp, (first, step) = numpy_like(x, c), first_and_step(coding.kind, coding.bits)
    return AffineQuantized(
        x.packed,
        x.scales if step == 1 else xp.multiply(x.scales, step),
        xp.add(c, xp.multiply(x.scales, first)),
        bits=coding.bits,
        group_size=coding.group_size,
        transposed=x.transposed,
        padding=x.padding,
    )


@dataclass(frozen=True, repr=False)
class OneScale(Quantized):
    """The base of kinds that have one scale for each group, and one length of a code."""

    packed: Any
    scales: Any
    group_size: int = aux_field(default=64)
    transposed: bool = aux_field(default=False)
    padding: int = aux_field(default=0, repr=False)

    def add_number(self, c: Any) -> Any:
        return _add_to_codes(self, c)


@dataclass(frozen=True, repr=False)
class NF4(OneScale):
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

    @classmethod
    def coding_of(cls, group_size: int = 64, **options: Any) -> Coding:
        return coding_for("nf4", 4, group_size)


@dataclass(frozen=True, repr=False)
class OneBit(OneScale):
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

    @classmethod
    def coding_of(cls, group_size: int = 64, **options: Any) -> Coding:
        return coding_for("1bit", 1, group_size)
